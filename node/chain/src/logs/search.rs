//! Searches for matching logs, block by block, within one view.
//!
//! A search holds the matches of one block at a time. It ends at the first error.

use std::ops::{ControlFlow, RangeInclusive};
use std::time::Duration;

use primitives::Transaction;
use store::{BlockReads, LogReads, StoreError, TableId};

use super::candidates::CandidateBlocks;
use super::{FoundLog, LogError, LogLimits, LogQuery};
use crate::import::BlockId;
use crate::query_limit::QueryLimit;
use crate::rules::order::ExecutionOrder;
use crate::view::View;

/// The way in which a search finds the blocks to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPlan {
    /// With the log index. The cost follows the number of matches.
    Index,
    /// With the bloom of each header. The cost follows the length of the range.
    Blooms,
}

impl LogPlan {
    /// The cheaper plan. Looking up a key costs about as much as reading a header.
    const fn choose(blocks: u64, keys: usize) -> Self {
        if blocks <= keys as u64 {
            Self::Blooms
        } else {
            Self::Index
        }
    }
}

impl View {
    /// Searches the canonical blocks `range` for logs that match `query`, in order. Blocks above
    /// the head are ignored.
    ///
    /// # Errors
    /// [`LogError::Range`] when the range is too long. The search returns the other errors.
    pub fn logs<'a>(
        &'a self,
        range: RangeInclusive<u64>,
        query: &'a LogQuery,
        limits: LogLimits,
    ) -> Result<LogSearch<'a>, LogError> {
        self.logs_by(None, range, query, limits)
    }

    /// As [`View::logs`]. With `None` the search chooses the cheaper plan.
    ///
    /// # Errors
    /// As [`View::logs`].
    pub fn logs_by<'a>(
        &'a self,
        plan: Option<LogPlan>,
        range: RangeInclusive<u64>,
        query: &'a LogQuery,
        limits: LogLimits,
    ) -> Result<LogSearch<'a>, LogError> {
        let (first, last) = (*range.start(), (*range.end()).min(self.head_number()));
        let blocks = last.checked_sub(first).map_or(0, |span| span.saturating_add(1));
        if blocks > limits.range_max {
            return Err(LogError::Range {
                got: blocks,
                max: limits.range_max,
            });
        }
        // A chain that begins with a fetched state has no receipts of its first block.
        let begin = self.snapshot().first_block()?;
        if begin > 0 && first <= begin && first <= last {
            return Err(LogError::NotKept {
                got: first,
                first: begin + 1,
            });
        }
        let keys = query.keys();
        let count = keys.iter().map(Vec::len).sum();
        let candidates = match plan.unwrap_or_else(|| LogPlan::choose(blocks, count)) {
            LogPlan::Index => CandidateBlocks::by_index(keys, first, last),
            LogPlan::Blooms => CandidateBlocks::by_blooms(query.bloom_test(), first, last),
        };
        Ok(LogSearch {
            view: self,
            query,
            limits,
            candidates,
            work: QueryLimit::new(Duration::MAX),
            found: Vec::new().into_iter(),
            results: 0,
            blocks_read: 0,
            ended: false,
        })
    }

    /// The matching logs of one block, canonical or not. `None` if the store does not have the
    /// block, or the block was not executed.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails or a row is corrupt.
    pub fn block_logs(&self, id: BlockId, query: &LogQuery) -> Result<Option<Vec<FoundLog>>, StoreError> {
        let snapshot = self.snapshot();
        let mut matching = Vec::new();
        let executed = snapshot.scan_logs(id.number, &id.hash, |log| {
            if query.matches_parts(&log.address, log.topics()) {
                matching.push((log.transaction_index, log.log_index, log.to_log()));
            }
            ControlFlow::Continue(())
        })?;
        if !executed {
            return Ok(None);
        }
        if matching.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let transaction_of = self.transactions_of_receipts(id)?;
        let mut indexes: Vec<_> = matching
            .iter()
            .filter_map(|(receipt, ..)| transaction_of(*receipt))
            .collect();
        indexes.sort_unstable();
        indexes.dedup();
        let hashes = snapshot.transaction_hashes(id.number, &id.hash, &indexes)?;
        let hashes: Vec<_> = indexes.into_iter().zip(hashes).collect();
        let mut found = Vec::with_capacity(matching.len());
        for (receipt, log_index, log) in matching {
            let place = transaction_of(receipt).and_then(|transaction| {
                let at = hashes.binary_search_by_key(&transaction, |(index, _)| *index);
                at.ok().map(|at| hashes[at])
            });
            // A system transaction that the block does not contain is shown as if it stood first.
            let (transaction_index, transaction_hash) =
                place.unwrap_or_else(|| (0, Transaction::system(id.number.saturating_sub(1)).hash()));
            found.push(FoundLog {
                block: id,
                transaction_index,
                transaction_hash,
                log_index,
                log,
            });
        }
        Ok(Some(found))
    }

    /// The function that gives the index of a receipt's transaction; `None` for a system
    /// transaction that the block does not contain.
    fn transactions_of_receipts(
        &self,
        id: BlockId,
    ) -> Result<impl Fn(usize) -> Option<usize> + use<>, StoreError> {
        let order = if self.spec().system_contract {
            let are_system = self.snapshot().are_system(id.number, &id.hash)?;
            let are_system = are_system.iter().copied();
            Some(ExecutionOrder::of_flags(self.spec(), id.number, are_system))
        } else {
            None
        };
        Ok(move |receipt| match &order {
            Some(order) => order.transaction_of(receipt),
            None => Some(receipt),
        })
    }

    /// The transaction that emitted a log.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails, or does not have the log's transaction.
    pub fn transaction_of_log(&self, log: &FoundLog) -> Result<Transaction, StoreError> {
        let (id, index, rules) = (&log.block, log.transaction_index, self.spec().tx_rules());
        let mut transactions = self
            .snapshot()
            .transactions_at(id.number, &id.hash, &[index], rules)?;
        transactions.pop().ok_or_else(|| {
            let reason = format!("no transaction with index {index}");
            StoreError::corrupt(TableId::BlockToBody, id.hash.as_slice(), reason)
        })
    }
}

/// Iterates over the matching logs.
#[derive(Debug)]
pub struct LogSearch<'a> {
    view: &'a View,
    query: &'a LogQuery,
    limits: LogLimits,
    candidates: CandidateBlocks,
    work: QueryLimit,
    /// The remaining matches of the current block.
    found: std::vec::IntoIter<FoundLog>,
    /// Number of logs returned so far.
    results: u64,
    blocks_read: u64,
    ended: bool,
}

impl LogSearch<'_> {
    /// The same search, within `work`. A search has no other time limit.
    #[must_use]
    pub fn limited_by(mut self, work: QueryLimit) -> Self {
        self.work = work;
        self
    }

    /// The number of blocks whose logs have been read so far.
    pub const fn blocks_read(&self) -> u64 {
        self.blocks_read
    }

    fn advance(&mut self) -> Result<Option<FoundLog>, LogError> {
        loop {
            if let Some(log) = self.found.next() {
                if self.results == self.limits.results_max {
                    return Err(LogError::Results {
                        max: self.limits.results_max,
                    });
                }
                self.results += 1;
                return Ok(Some(log));
            }
            let Some(block) = self.candidates.next(self.view, &self.work)? else {
                return Ok(None);
            };
            if self.blocks_read == self.limits.blocks_read_max {
                return Err(LogError::BlocksRead {
                    max: self.limits.blocks_read_max,
                });
            }
            self.blocks_read += 1;
            let key = [block.number.to_be_bytes().as_slice(), block.hash.as_slice()].concat();
            let missing = || StoreError::corrupt(TableId::BlockToReceipts, &key, "no such row");
            let found = self.view.block_logs(block, self.query)?;
            self.found = found.ok_or_else(missing)?.into_iter();
        }
    }
}

impl Iterator for LogSearch<'_> {
    type Item = Result<FoundLog, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.advance().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}
