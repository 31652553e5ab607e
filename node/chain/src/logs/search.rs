//! Walking through the logs that match, block by block, within one view.
//!
//! A search holds the matches of one block at a time. It ends at its first error.

use std::ops::{ControlFlow, RangeInclusive};

use primitives::Transaction;
use store::{LogReads, StoreError, TableId};

use super::candidates::CandidateBlocks;
use super::{FoundLog, LogError, LogLimits, LogQuery};
use crate::import::BlockId;
use crate::view::View;

/// How the blocks to be looked at are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPlan {
    /// By the log index: costs what is found.
    Index,
    /// By the bloom of each header: costs the length of the range.
    Blooms,
}

impl LogPlan {
    /// The cheaper one: a look-up of a key costs about what reading a header does.
    fn choose(blocks: u64, keys: usize) -> Self {
        if blocks <= keys as u64 {
            Self::Blooms
        } else {
            Self::Index
        }
    }
}

impl View {
    /// The canonical logs of the blocks `range` that `query` wants, in order. What is above
    /// the head is not there.
    ///
    /// # Errors
    /// [`LogError::Range`] for a range that is too long. The search itself gives the others.
    pub fn logs<'a>(
        &'a self,
        range: RangeInclusive<u64>,
        query: &'a LogQuery,
        limits: LogLimits,
    ) -> Result<LogSearch<'a>, LogError> {
        self.logs_by(None, range, query, limits)
    }

    /// As [`View::logs`], by the plan that is given.
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
            found: Vec::new().into_iter(),
            given: 0,
            read: 0,
            ended: false,
        })
    }

    /// The wanted logs of one block, canonical or not; `None` where there is no such block, or
    /// it was not executed.
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
        let mut places: Vec<_> = matching.iter().map(|(transaction, ..)| *transaction).collect();
        places.dedup();
        if places.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let hashes = snapshot.transaction_hashes(id.number, &id.hash, &places)?;
        let mut hashes = places.into_iter().zip(hashes).peekable();
        let mut found = Vec::with_capacity(matching.len());
        for (transaction_index, log_index, log) in matching {
            while hashes.next_if(|(place, _)| *place < transaction_index).is_some() {}
            // One hash for each place, and each log's place is among them.
            let Some((_, transaction_hash)) = hashes.peek().copied() else {
                break;
            };
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

    /// The transaction that left a log.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails, or the log is not of one of its blocks.
    pub fn transaction_of_log(&self, found: &FoundLog) -> Result<Transaction, StoreError> {
        let (id, place, rules) = (&found.block, found.transaction_index, self.spec().tx_rules());
        let mut found = self
            .snapshot()
            .transactions_at(id.number, &id.hash, &[place], rules)?;
        found.pop().ok_or_else(|| {
            let reason = format!("no transaction at {place}");
            StoreError::corrupt(TableId::BlockToBody, id.hash.as_slice(), reason)
        })
    }
}

/// The logs that match, one by one.
#[derive(Debug)]
pub struct LogSearch<'a> {
    view: &'a View,
    query: &'a LogQuery,
    limits: LogLimits,
    candidates: CandidateBlocks,
    /// Matches of the block in hand.
    found: std::vec::IntoIter<FoundLog>,
    given: u64,
    read: u64,
    ended: bool,
}

impl LogSearch<'_> {
    /// How many blocks' logs have been read.
    pub fn blocks_read(&self) -> u64 {
        self.read
    }

    fn advance(&mut self) -> Result<Option<FoundLog>, LogError> {
        loop {
            if let Some(log) = self.found.next() {
                if self.given == self.limits.results_max {
                    return Err(LogError::Results {
                        max: self.limits.results_max,
                    });
                }
                self.given += 1;
                return Ok(Some(log));
            }
            let Some(block) = self.candidates.next(self.view)? else {
                return Ok(None);
            };
            if self.read == self.limits.blocks_read_max {
                return Err(LogError::BlocksRead {
                    max: self.limits.blocks_read_max,
                });
            }
            self.read += 1;
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
