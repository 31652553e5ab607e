//! The logs of blocks: read once for all followers, and matched with the criteria of each.
//!
//! Every log filter and log subscription looks at every new head. So the logs of the last blocks
//! are cached in decoded form, up to a number of bytes. Side blocks keep their receipts, so logs
//! that a reorganization removed are read like others. The logs of a block hash never change. So a
//! cached block stays correct even if it is deleted when the head is set back.

use std::collections::VecDeque;
use std::sync::Arc;

use chain::View;
use chain::import::BlockId;
use parking_lot::Mutex;
use primitives::{B256, Bloom, Log, Receipt};

use super::cursor::header;
use crate::error::{RpcResult, failure};
use crate::logs_filter::LogCriteria;
use crate::modules::NameStyle;
use crate::objects::{LogObject, TransactionPlace};

/// Most bytes of logs in the cache.
const CACHE_LEN_MAX: usize = 16 << 20;
/// Most blocks whose logs are in the cache.
const CACHE_BLOCKS_MAX: usize = 128;

/// The logs of one block.
#[derive(Debug)]
pub(crate) struct BlockLogs {
    id: BlockId,
    bloom: Bloom,
    transactions: Vec<TransactionLogs>,
}

/// The logs of one transaction, at least one.
#[derive(Debug)]
struct TransactionLogs {
    index: usize,
    hash: B256,
    ethereum_hash: Option<B256>,
    /// The index of the first log in the block.
    first: usize,
    logs: Vec<Log>,
}

impl BlockLogs {
    /// Reads the logs of `id`, canonical or not. Returns `None` if the block was deleted.
    fn read(view: &View, id: &BlockId) -> RpcResult<Option<Self>> {
        let Some(header) = header(view, id)? else {
            return Ok(None);
        };
        let mut logs = Self::empty(id);
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
            let Receipt {
                logs: receipt_logs, ..
            } = receipt;
            let count = receipt_logs.len();
            if count > 0 {
                logs.transactions.push(TransactionLogs {
                    index,
                    hash: transaction.hash(),
                    ethereum_hash: transaction.ethereum_hash(),
                    first,
                    logs: receipt_logs,
                });
            }
            first += count;
        }
        Ok(Some(logs))
    }

    /// The block without logs.
    const fn empty(id: &BlockId) -> Self {
        Self {
            id: *id,
            bloom: Bloom::ZERO,
            transactions: Vec::new(),
        }
    }

    /// About how many bytes the value takes in memory.
    fn len(&self) -> usize {
        let log = |log: &Log| 128 + 32 * log.topics.len() + log.data.len();
        let logs = self.transactions.iter().flat_map(|transaction| &transaction.logs);
        512 + logs.map(log).sum::<usize>()
    }

    /// Passes each log that matches `filter` to `take`, in the block's order. If `removed` is set
    /// the logs are marked as removed and come in the opposite order.
    pub(crate) fn write(
        &self,
        filter: &LogCriteria,
        removed: bool,
        name_style: NameStyle,
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
        let mut matching: Vec<_> = logs.filter(|(_, log, _)| filter.matches(log)).collect();
        if removed {
            matching.reverse();
        }
        for (transaction, log, index) in matching {
            let hash = match name_style {
                NameStyle::Native => transaction.hash,
                NameStyle::Ethereum => transaction.ethereum_hash.unwrap_or(transaction.hash),
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

/// The logs of the last blocks.
#[derive(Debug, Default)]
pub(super) struct LogCache(Mutex<LogCacheEntries>);

#[derive(Debug, Default)]
struct LogCacheEntries {
    /// The oldest entry comes first.
    blocks: VecDeque<Arc<BlockLogs>>,
    len: usize,
}

impl LogCache {
    /// The logs of `id`, from the cache if possible. A block that was deleted has none. That result
    /// is not cached, because the block may be imported again.
    pub(super) fn get(&self, view: &View, id: &BlockId) -> RpcResult<Arc<BlockLogs>> {
        let found =
            |entries: &LogCacheEntries| entries.blocks.iter().rev().find(|logs| logs.id == *id).cloned();
        if let Some(logs) = found(&self.0.lock()) {
            return Ok(logs);
        }
        // The logs are read without the lock. It does no harm if two followers do so at once.
        let Some(logs) = BlockLogs::read(view, id)? else {
            return Ok(Arc::new(BlockLogs::empty(id)));
        };
        let logs = Arc::new(logs);
        let mut entries = self.0.lock();
        if found(&entries).is_none() {
            entries.len += logs.len();
            entries.blocks.push_back(Arc::clone(&logs));
            while entries.len > CACHE_LEN_MAX || entries.blocks.len() > CACHE_BLOCKS_MAX {
                let Some(oldest) = entries.blocks.pop_front() else {
                    break;
                };
                entries.len -= oldest.len();
            }
        }
        Ok(logs)
    }
}
