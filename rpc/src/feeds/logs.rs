//! The logs of blocks: read once for all followers, and matched with the criteria of each.
//!
//! Every log filter and log subscription looks at every new head. So the logs of the last blocks
//! are cached in decoded form, up to a number of bytes. Side blocks keep their receipts, so logs
//! that a reorganization removed are read like others. The logs of a block hash never change. So a
//! cached block stays correct even if it is deleted when the head is set back.
//!
//! A follower may take the logs of a block part by part. It remembers how many it has passed.

use std::collections::VecDeque;
use std::sync::Arc;

use chain::View;
use chain::import::BlockId;
use chain::rules::order::ExecutionOrder;
use parking_lot::Mutex;
use primitives::{B256, Bloom, Log, Transaction};

use super::cursor::header;
use crate::error::{RpcResult, failure};
use crate::logs_filter::LogCriteria;
use crate::modules::NameStyle;
use crate::objects::{LogObject, TransactionPlace};

/// Most bytes of logs in the cache. The last block that was read may have more.
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
        let transactions = &block.body.transactions;
        let order = ExecutionOrder::of(view.spec(), id.number, transactions);
        let mut first = 0;
        for (receipt_index, receipt) in receipts.into_iter().enumerate() {
            let count = receipt.logs.len();
            if count > 0 {
                let index = order.transaction_of(receipt_index);
                let transaction = index.and_then(|index| transactions.get(index));
                let (hash, ethereum_hash) = match transaction {
                    Some(transaction) => (transaction.hash(), transaction.ethereum_hash()),
                    // A system transaction that the block does not contain is shown as if it stood
                    // first.
                    None if receipt_index == 0 => {
                        (Transaction::system(id.number.saturating_sub(1)).hash(), None)
                    }
                    None => return Err(missing("transaction of a receipt")),
                };
                logs.transactions.push(TransactionLogs {
                    index: index.unwrap_or(0),
                    hash,
                    ethereum_hash,
                    first,
                    logs: receipt.logs,
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

    /// The number of logs in the block.
    fn count(&self) -> usize {
        let last = self.transactions.last();
        last.map_or(0, |transaction| transaction.first + transaction.logs.len())
    }

    /// The log `index` of the block with its transaction.
    fn log(&self, index: usize) -> Option<(&TransactionLogs, &Log)> {
        let after = self
            .transactions
            .partition_point(|transaction| transaction.first <= index);
        let transaction = self.transactions.get(after.checked_sub(1)?)?;
        let log = transaction.logs.get(index - transaction.first)?;
        Some((transaction, log))
    }

    /// Passes each log that matches `filter` to `take`, in the block's order, except for the first
    /// `passed` logs of the block. If `removed` is set the logs are marked as removed and come in
    /// the opposite order. Ends before the first log that `take` does not take, and returns how
    /// many logs are passed then. Returns `None` at the end of the block.
    pub(crate) fn write(
        &self,
        filter: &LogCriteria,
        removed: bool,
        name_style: NameStyle,
        passed: usize,
        take: &mut dyn FnMut(&LogObject<'_>) -> RpcResult<bool>,
    ) -> RpcResult<Option<usize>> {
        if !filter.may_match(&self.bloom) {
            return Ok(None);
        }
        let count = self.count();
        for position in passed..count {
            let index = if removed { count - 1 - position } else { position };
            let Some((transaction, log)) = self.log(index).filter(|(_, log)| filter.matches(log)) else {
                continue;
            };
            let hash = match name_style {
                NameStyle::Native => transaction.hash,
                NameStyle::Ethereum => transaction.ethereum_hash.unwrap_or(transaction.hash),
            };
            let place = TransactionPlace {
                block_hash: self.id.hash,
                block_number: self.id.number,
                index: transaction.index,
            };
            if !take(&LogObject::new(log, index, hash, place, removed))? {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }
}

/// The logs of the last blocks.
#[derive(Debug, Default)]
pub(super) struct LogCache {
    entries: Mutex<LogCacheEntries>,
    /// Held while a block is read, so that many followers of a new block read it once, and not all
    /// at the same time.
    reading: Mutex<()>,
}

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
        let cached = || {
            let entries = self.entries.lock();
            entries.blocks.iter().rev().find(|logs| logs.id == *id).cloned()
        };
        if let Some(logs) = cached() {
            return Ok(logs);
        }
        let _reading = self.reading.lock();
        if let Some(logs) = cached() {
            return Ok(logs);
        }
        let Some(logs) = BlockLogs::read(view, id)? else {
            return Ok(Arc::new(BlockLogs::empty(id)));
        };
        let logs = Arc::new(logs);
        self.entries.lock().insert(Arc::clone(&logs));
        Ok(logs)
    }
}

impl LogCacheEntries {
    /// Adds a block, and drops the oldest that do not fit beside it.
    fn insert(&mut self, logs: Arc<BlockLogs>) {
        self.len += logs.len();
        self.blocks.push_back(logs);
        while (self.len > CACHE_LEN_MAX || self.blocks.len() > CACHE_BLOCKS_MAX) && self.blocks.len() > 1 {
            let Some(oldest) = self.blocks.pop_front() else {
                break;
            };
            self.len -= oldest.len();
        }
    }
}
