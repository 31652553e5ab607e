//! The log index: for every address, and every topic at its position, the canonical blocks
//! whose logs have it.
//!
//! A search term (an address, or a topic with its position) is hashed to a [`LogKey`] of 8 bytes.
//! The block numbers of a key are in one or more rows, as described in [`crate::block_list`]. The
//! key of a row is the log key (8) and the number of the first block (8, big-endian). A row is
//! filled before the next one begins. So the rows depend on the canonical blocks only, and a
//! reorganization leaves no trace. Entries are written at the end of a write transaction: an import
//! of many blocks writes a row once, not once per block.
//!
//! The reasons for lists of blocks:
//!
//! - A row per key and block would take about 24 bytes, and about as many again inside redb (two
//!   lengths of 4 bytes, and leaves that random keys fill to two thirds). A log has about four
//!   keys. A list takes this once per key, and then one or two bytes per block. On a chain with
//!   many rare keys we measured 22 bytes per log, unused space in pages included.
//! - For a key that is in every block, a reader gets about 500 blocks per look-up.
//! - The price: a block rewrites the last row of each of its keys. redb copies the whole page of a
//!   changed row anyway. Rows are kept well below the size of a page, so no more is written than
//!   with small rows. Most pages that a commit writes are those of rare keys, so many blocks should
//!   share a commit.
//! - Bitmaps over fixed ranges of blocks would again need a row per block for a rare key.
//!
//! Hashed keys are short and evenly spread. If two terms have the same key, a reader looks at some
//! blocks that do not match. Transaction and log numbers are not stored, because the receipts of a
//! block are one row, which the reader has to read in any case.
//!
//! Knows receipts and block numbers. Readers compare the logs themselves to decide what matches.

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use primitives::Receipt;

use crate::block_list::{BlockListRow, BlockListTail};
use crate::codec::fixed;
use crate::log_key::LogKey;
use crate::row_error::RowError;
use crate::source::Source;
use crate::write_tables::Tables;
use crate::{StoreError, TableId};

const TABLE: TableId = TableId::LogKeyToBlocks;

pub(crate) fn row_key(key: &LogKey, first: u64) -> [u8; 16] {
    let mut row = [0; 16];
    row[..8].copy_from_slice(key.as_bytes());
    row[8..].copy_from_slice(&first.to_be_bytes());
    row
}

/// A row of the index, whose list is not decoded yet.
struct LogIndexRow<'a> {
    key: LogKey,
    list: BlockListRow<'a>,
}

impl<'a> LogIndexRow<'a> {
    fn parse(key: &[u8], value: &'a [u8]) -> Result<Self, StoreError> {
        let parse = || {
            let whole: [u8; 16] = fixed(key)?;
            let first = u64::from_be_bytes(std::array::from_fn(|at| whole[8 + at]));
            Ok(Self {
                key: LogKey::from_bytes(std::array::from_fn(|at| whole[at])),
                list: BlockListRow::parse(first, value)?,
            })
        };
        parse().map_err(|error: RowError| error.in_row(TABLE, key))
    }

    /// Replaces the content of `out` with the block numbers.
    fn read(&self, out: &mut Vec<u64>) -> Result<(), StoreError> {
        self.list
            .read(out)
            .map_err(|error| error.in_row(TABLE, &row_key(&self.key, self.list.first)))
    }
}

/// Reads of the log index.
pub trait LogIndexReads: Source + Sized {
    /// Finds the first row of `key` that has a block at or above `from`, and replaces the content
    /// of `out` with all blocks of that row, ascending. So `out` may begin with blocks below
    /// `from`. Returns `false`, with `out` empty, if there is no such row.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn log_blocks(&self, key: &LogKey, from: u64, out: &mut Vec<u64>) -> Result<bool, StoreError> {
        out.clear();
        let mut read_if_found = |row_key: &[u8], value: &[u8]| {
            let row = LogIndexRow::parse(row_key, value)?;
            let found = row.key == *key && row.list.last >= from;
            if found {
                row.read(out)?;
            }
            Ok(found)
        };
        // The last row that begins at or below `from`, and then the next one.
        let low = (row_key(key, 0), row_key(key, from));
        let around = self.with_last(TABLE, &low.0, &low.1, &mut read_if_found)?;
        if around.transpose()? == Some(true) {
            return Ok(true);
        }
        let Some(above) = from.checked_add(1) else {
            return Ok(false);
        };
        let mut next = Ok(false);
        self.scan(TABLE, &row_key(key, above), |row_key, value| {
            next = read_if_found(row_key, value);
            ControlFlow::Break(())
        })?;
        next
    }

    /// Calls `visit` with each row, sorted by key and block number, until it breaks. `visit` gets
    /// the key and the blocks of the row, or the error if the row is corrupt.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn scan_log_index(
        &self,
        mut visit: impl FnMut(Result<(LogKey, &[u64]), StoreError>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let mut blocks = Vec::new();
        self.scan(TABLE, &[], |key, value| {
            let row = LogIndexRow::parse(key, value).and_then(|row| row.read(&mut blocks).map(|()| row.key));
            visit(row.map(|key| (key, blocks.as_slice())))
        })
    }
}

impl<S: Source> LogIndexReads for S {}

impl Tables<'_> {
    /// Adds block `number` to each key of its logs. It must be above all blocks of the index. The
    /// rows are written by [`Tables::flush_log_index`].
    pub(crate) fn index_logs(&mut self, number: u64, receipts: &[Receipt]) {
        let keys = LogKey::of_receipts(receipts).into_iter();
        self.log_entries.extend(keys.map(|key| (key, number)));
    }

    /// Writes the blocks that were added, each row once.
    pub(crate) fn flush_log_index(&mut self) -> Result<(), StoreError> {
        let mut entries = std::mem::take(&mut self.log_entries);
        entries.sort_unstable();
        for group in entries.chunk_by(|one, other| one.0 == other.0) {
            let key = group[0].0;
            let mut tail = self.log_tail(&key, |row| Ok(BlockListTail::of(&row.list)))?;
            for (_, number) in group {
                let Some(row) = &mut tail else {
                    tail = Some(BlockListTail::new(*number));
                    continue;
                };
                let Some(distance) = number.checked_sub(row.last).filter(|distance| *distance > 0) else {
                    return Err(row.not_below(*number).in_row(TABLE, &row_key(&key, row.first)));
                };
                if !row.push(distance) {
                    self.put(TABLE, &row_key(&key, row.first), &row.value())?;
                    tail = Some(BlockListTail::new(*number));
                }
            }
            if let Some(row) = &tail {
                self.put(TABLE, &row_key(&key, row.first), &row.value())?;
            }
        }
        Ok(())
    }

    /// Removes block `number` from each key of its logs. It must be the highest block of the index.
    pub(crate) fn unindex_logs(&mut self, number: u64, receipts: &[Receipt]) -> Result<(), StoreError> {
        self.flush_log_index()?;
        let mut blocks = Vec::new();
        for key in LogKey::of_receipts(receipts) {
            let tail = self.log_tail(&key, |row| {
                let BlockListRow { first, last, .. } = row.list;
                if last != number {
                    let error = RowError::Differs {
                        field: "last block",
                        got: last,
                        expected: number,
                    };
                    return Err(error.in_row(TABLE, &row_key(&key, first)));
                }
                row.read(&mut blocks)?;
                let mut tail = BlockListTail::of(&row.list);
                if let [.., before, _] = blocks[..] {
                    tail.pop(before);
                }
                Ok(tail)
            })?;
            let tail = tail.ok_or_else(|| RowError::Missing.in_row(TABLE, &row_key(&key, number)))?;
            let row_key = row_key(&key, tail.first);
            if tail.first == number {
                self.delete(TABLE, &row_key)?;
            } else {
                self.put(TABLE, &row_key, &tail.value())?;
            }
        }
        Ok(())
    }

    /// Removes the row of `key` that has block `number`, if it has no later one.
    pub(crate) fn drop_old_log_row(&mut self, key: &LogKey, number: u64) -> Result<(), StoreError> {
        let (low, high) = (row_key(key, 0), row_key(key, number));
        let found = self.with_last(TABLE, &low, &high, |key, value| {
            let BlockListRow { first, last, .. } = LogIndexRow::parse(key, value)?.list;
            Ok::<_, StoreError>((first, last))
        })?;
        match found.transpose()? {
            Some((first, last)) if last <= number => self.delete(TABLE, &row_key(key, first)),
            _ => Ok(()),
        }
    }

    /// Calls `read` with the last row of `key`; `None` if there is none.
    fn log_tail<T>(
        &self,
        key: &LogKey,
        read: impl FnOnce(LogIndexRow<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let (low, high) = (row_key(key, 0), row_key(key, u64::MAX));
        self.with_last(TABLE, &low, &high, |key, value| {
            read(LogIndexRow::parse(key, value)?)
        })?
        .transpose()
    }
}
