//! The log index: for every address, and every topic at its position, the canonical blocks
//! whose logs have it.
//!
//! What is looked for, with its place, is hashed to a [`LogKey`] of 8 bytes. Under a key lie
//! rows of block numbers, as [`row`] says. Rows are filled from the front, so they are a function
//! of the blocks alone, whatever was taken back on the way. Entries are written at the end of a
//! transaction: an import of many blocks touches a row once, not once per block.
//!
//! Why so. A row for each key and block would cost some 24 bytes and as many of redb's
//! (8 for two lengths, and leaves that random keys fill by two thirds), for each of the four
//! or so things in a log. A list costs that once per key and then a byte or two per block,
//! and a key in every block is read at 500 blocks a look-up instead of one: measured on a chain
//! with a long tail of keys, 22 bytes a log with all that pages leave empty. The price is that
//! a block rewrites the last row of each of its keys; redb copies the whole page then anyway,
//! so rows are kept well below a page and nothing more is written than with small rows.
//! Pages of rare keys are what a commit writes most of, so many blocks should share one.
//! Fixed windows of blocks with bitmaps would give a sparse key a row per block again.
//! Hashing makes keys short and equally spread; two things with one key only cost readers a
//! look at blocks that do not match. Transactions and logs are not named: the receipts of a
//! block are one row, and a reader has to look there in any case.
//!
//! Knows receipts and numbers. What matches is decided by readers, against the logs themselves.

mod row;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use primitives::{Address, B256, LOG_TOPICS_MAX, Log, Receipt, keccak256};

use crate::batch::Tables;
use crate::source::Source;
use crate::{StoreError, TableId};
use row::{Row, Tail, row_key};

const TABLE: TableId = TableId::LogKeyToBlocks;

/// What a log can be found by, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogKey([u8; 8]);

impl LogKey {
    const ANY: u8 = 0;
    const ADDRESS: u8 = 1;
    const TOPICS: u8 = 2;

    /// Under which every block with a log lies.
    pub fn any() -> Self {
        Self::of(Self::ANY, &B256::ZERO)
    }

    /// Blocks with a log of this contract.
    pub fn address(address: &Address) -> Self {
        Self::of(Self::ADDRESS, &address.into_word())
    }

    /// Blocks with a log that has this topic at `position`, counted from 0.
    pub fn topic(position: usize, topic: &B256) -> Self {
        Self::of(Self::place(position), topic)
    }

    fn place(position: usize) -> u8 {
        Self::TOPICS + position.min(LOG_TOPICS_MAX) as u8
    }

    fn of(place: u8, value: &B256) -> Self {
        let mut text = [place; 33];
        text[1..].copy_from_slice(value.as_slice());
        let hash = keccak256(text);
        Self(std::array::from_fn(|at| hash[at]))
    }

    /// The keys of these logs, in order, each once.
    pub fn of_logs<'a>(logs: impl IntoIterator<Item = &'a Log>) -> Vec<Self> {
        let mut found = Vec::new();
        for log in logs {
            found.push((Self::ANY, B256::ZERO));
            found.push((Self::ADDRESS, log.address.into_word()));
            let topics = log.topics.iter().take(LOG_TOPICS_MAX).enumerate();
            found.extend(topics.map(|(position, topic)| (Self::place(position), *topic)));
        }
        // Hashed once each: most values come many times in a block.
        found.sort_unstable();
        found.dedup();
        let mut keys: Vec<_> = found
            .iter()
            .map(|(place, value)| Self::of(*place, value))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn of_receipts(receipts: &[Receipt]) -> Vec<Self> {
        Self::of_logs(receipts.iter().flat_map(|receipt| &receipt.logs))
    }

    /// The bytes, as they stand before the first block in a row's key.
    pub fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

/// Reads of the log index.
pub trait LogIndexReads: Source {
    /// Writes over `out`, ascending, the blocks of the first row under `key` that has a block
    /// at or above `from`. All of that row, so also blocks below. `false`: there is none, and
    /// `out` is empty.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails or the row is corrupt.
    fn log_blocks(&self, key: &LogKey, from: u64, out: &mut Vec<u64>) -> Result<bool, StoreError> {
        out.clear();
        let mut take = |row_key: &[u8], value: &[u8]| {
            let row = Row::parse(row_key, value)?;
            let found = row.key == *key && row.last >= from;
            if found {
                row.read(out)?;
            }
            Ok(found)
        };
        let around = self.with_last(TABLE, &row_key(key, 0), &row_key(key, from), &mut take)?;
        if around.transpose()? == Some(true) {
            return Ok(true);
        }
        let Some(above) = from.checked_add(1) else {
            return Ok(false);
        };
        let mut next = Ok(false);
        self.scan(TABLE, &row_key(key, above), |row_key, value| {
            next = take(row_key, value);
            ControlFlow::Break(())
        })?;
        next
    }

    /// Hands every row to `visit`, by key and then by number: its key and its blocks, or what
    /// is wrong with it.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the medium fails.
    fn scan_log_index(
        &self,
        mut visit: impl FnMut(Result<(LogKey, &[u64]), StoreError>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let mut blocks = Vec::new();
        self.scan(TABLE, &[], |key, value| {
            let row = Row::parse(key, value).and_then(|row| row.read(&mut blocks).map(|()| row.key));
            visit(row.map(|key| (key, blocks.as_slice())))
        })
    }
}

impl<S: Source> LogIndexReads for S {}

impl Tables<'_> {
    /// Notes block `number`, above all that are there, under each key of its logs. The rows are
    /// written with [`Tables::flush_log_index`].
    pub(crate) fn index_logs(&mut self, number: u64, receipts: &[Receipt]) {
        let keys = LogKey::of_receipts(receipts).into_iter();
        self.log_entries.extend(keys.map(|key| (key, number)));
    }

    /// Writes what was noted, each row once, however many blocks are in the transaction.
    pub(crate) fn flush_log_index(&mut self) -> Result<(), StoreError> {
        let mut entries = std::mem::take(&mut self.log_entries);
        entries.sort_unstable();
        for group in entries.chunk_by(|one, other| one.0 == other.0) {
            let key = group[0].0;
            let mut tail = self.log_tail(&key, |row| Ok(Tail::of(&row)))?;
            for (_, number) in group {
                let Some(row) = &mut tail else {
                    tail = Some(Tail::new(*number));
                    continue;
                };
                let Some(distance) = number.checked_sub(row.last).filter(|distance| *distance > 0) else {
                    let reason = format!("last block {}, want one below {number}", row.last);
                    return Err(StoreError::corrupt(TABLE, &row_key(&key, row.first), reason));
                };
                if !row.push(distance) {
                    self.put(TABLE, &row_key(&key, row.first), &row.value())?;
                    tail = Some(Tail::new(*number));
                }
            }
            if let Some(row) = &tail {
                self.put(TABLE, &row_key(&key, row.first), &row.value())?;
            }
        }
        Ok(())
    }

    /// Takes block `number`, the highest, away under each key of its logs.
    pub(crate) fn unindex_logs(&mut self, number: u64, receipts: &[Receipt]) -> Result<(), StoreError> {
        self.flush_log_index()?;
        let mut blocks = Vec::new();
        for key in LogKey::of_receipts(receipts) {
            let tail = self.log_tail(&key, |row| {
                if row.last != number {
                    let reason = format!("last block {}, want {number}", row.last);
                    return Err(StoreError::corrupt(TABLE, &row_key(&key, row.first), reason));
                }
                row.read(&mut blocks)?;
                let mut tail = Tail::of(&row);
                if let [.., before, _] = blocks[..] {
                    tail.pop(before);
                }
                Ok(tail)
            })?;
            let missing = || StoreError::corrupt(TABLE, &row_key(&key, number), "no such row");
            let tail = tail.ok_or_else(missing)?;
            let row_key = row_key(&key, tail.first);
            if tail.first == number {
                self.delete(TABLE, &row_key)?;
            } else {
                self.put(TABLE, &row_key, &tail.value())?;
            }
        }
        Ok(())
    }

    /// Hands the last row under `key` to `read`.
    fn log_tail<T>(
        &self,
        key: &LogKey,
        read: impl FnOnce(Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let (low, high) = (row_key(key, 0), row_key(key, u64::MAX));
        self.with_last(TABLE, &low, &high, |key, value| read(Row::parse(key, value)?))?
            .transpose()
    }
}
