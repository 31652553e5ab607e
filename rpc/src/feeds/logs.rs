//! The logs of blocks: read once for everyone who follows them, and matched.
//!
//! A new head is looked at by every log filter and every subscription; the last blocks' logs are
//! kept in decoded form, up to a number of bytes. Side blocks keep their receipts, so logs that a
//! reorganization took back are read like others. A block's logs never change under its hash, so
//! what is kept stays right though the block be deleted, as the head is set back.

use std::collections::VecDeque;
use std::sync::Arc;

use chain::View;
use chain::import::BlockId;
use parking_lot::Mutex;
use primitives::{B256, Bloom, Log, Receipt};

use super::cursor::header;
use crate::error::{RpcResult, failure};
use crate::logs_filter::LogCriteria;
use crate::modules::Dialect;
use crate::objects::{LogObject, TransactionPlace};

/// Most bytes of logs kept.
const CACHE_LEN_MAX: usize = 16 << 20;
/// Most blocks whose logs are kept.
const CACHE_BLOCKS_MAX: usize = 128;

/// The logs of one block.
#[derive(Debug)]
pub(crate) struct BlockLogs {
    id: BlockId,
    bloom: Bloom,
    transactions: Vec<TransactionLogs>,
}

/// The logs of one transaction; there is at least one.
#[derive(Debug)]
struct TransactionLogs {
    index: usize,
    hash: B256,
    ethereum_hash: Option<B256>,
    /// Place of the first in the block.
    first: usize,
    logs: Vec<Log>,
}

impl BlockLogs {
    /// Reads the logs of `id`, canonical or not; `None` where the block was deleted.
    fn read(view: &View, id: &BlockId) -> RpcResult<Option<Self>> {
        let Some(header) = header(view, id)? else {
            return Ok(None);
        };
        let mut logs = Self::none(id);
        logs.bloom = header.logs_bloom;
        if logs.bloom == Bloom::ZERO {
            return Ok(Some(logs));
        }
        let missing = |what| {
            failure(format_args!(
                "no {what} of block {} {}, which was canonical",
                id.number, id.hash
            ))
        };
        let receipts = view
            .receipts(id)
            .map_err(failure)?
            .ok_or_else(|| missing("receipts"))?;
        let block = view
            .block_by_hash(&id.hash)
            .map_err(failure)?
            .ok_or_else(|| missing("body"))?;
        let mut first = 0;
        for (index, (receipt, transaction)) in receipts.into_iter().zip(&block.body.transactions).enumerate()
        {
            let Receipt { logs: own, .. } = receipt;
            let count = own.len();
            if count > 0 {
                logs.transactions.push(TransactionLogs {
                    index,
                    hash: transaction.hash(),
                    ethereum_hash: transaction.ethereum_hash(),
                    first,
                    logs: own,
                });
            }
            first += count;
        }
        Ok(Some(logs))
    }

    /// No logs, or none that are known any more.
    fn none(id: &BlockId) -> Self {
        Self {
            id: *id,
            bloom: Bloom::ZERO,
            transactions: Vec::new(),
        }
    }

    /// Bytes in memory, roughly.
    fn len(&self) -> usize {
        let log = |log: &Log| 128 + 32 * log.topics.len() + log.data.len();
        let logs = self.transactions.iter().flat_map(|transaction| &transaction.logs);
        512 + logs.map(log).sum::<usize>()
    }

    /// Gives each log that `filter` wants to `take` as JSON, in the block's order; where the block
    /// was taken back, marked so and in the opposite order.
    pub(crate) fn write(
        &self,
        filter: &LogCriteria,
        removed: bool,
        dialect: Dialect,
        take: &mut dyn FnMut(&LogObject<'_>) -> RpcResult<()>,
    ) -> RpcResult<()> {
        if !filter.may_match(&self.bloom) {
            return Ok(());
        }
        let logs = self.transactions.iter().flat_map(|transaction| {
            transaction
                .logs
                .iter()
                .zip(transaction.first..)
                .map(move |(log, index)| (transaction, log, index))
        });
        let mut wanted: Vec<_> = logs.filter(|(_, log, _)| filter.matches(log)).collect();
        if removed {
            wanted.reverse();
        }
        for (transaction, log, index) in wanted {
            let hash = match dialect {
                Dialect::Native => transaction.hash,
                Dialect::Ethereum => transaction.ethereum_hash.unwrap_or(transaction.hash),
            };
            let place = TransactionPlace {
                block_hash: self.id.hash,
                block_number: self.id.number,
                index: transaction.index,
            };
            take(&LogObject::new(log, index, hash, place, removed))?;
        }
        Ok(())
    }
}

/// The last blocks' logs.
#[derive(Debug, Default)]
pub(super) struct LogCache(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    blocks: VecDeque<Arc<BlockLogs>>,
    len: usize,
}

impl LogCache {
    /// The logs of `id`, from memory where they are there. Of a block that was deleted since there
    /// are none, and nothing is kept: it may be imported again.
    pub(super) fn get(&self, view: &View, id: &BlockId) -> RpcResult<Arc<BlockLogs>> {
        let found = |kept: &Kept| kept.blocks.iter().rev().find(|logs| logs.id == *id).cloned();
        if let Some(logs) = found(&self.0.lock()) {
            return Ok(logs);
        }
        // Read outside of the lock; that two readers may do it at the same time is harmless.
        let Some(logs) = BlockLogs::read(view, id)? else {
            return Ok(Arc::new(BlockLogs::none(id)));
        };
        let logs = Arc::new(logs);
        let mut kept = self.0.lock();
        if found(&kept).is_none() {
            kept.len += logs.len();
            kept.blocks.push_back(Arc::clone(&logs));
            while kept.len > CACHE_LEN_MAX || kept.blocks.len() > CACHE_BLOCKS_MAX {
                let Some(oldest) = kept.blocks.pop_front() else {
                    break;
                };
                kept.len -= oldest.len();
            }
        }
        Ok(logs)
    }
}
