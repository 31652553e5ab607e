//! Ascending lists of block numbers, as the log index and the history of the state keep them.
//!
//! A list of a key is in one or more rows. The row's key ends with the number of its first block.
//! The value is empty if the row has one block. Otherwise it is a list of numbers in LEB128: the
//! distance from the first block to the last one, then the distance of each block from the one
//! before.
//!
//! The first of these numbers gives the last block without reading the rest. It also shows when a
//! part of the row is missing. Knows block numbers only: what a key is, its users know.

use crate::codec::{number_len, push_number, read_number};
use crate::row_error::RowError;

/// Upper bound for the distances in a row, in bytes.
pub(crate) const ROW_BYTES_MAX: usize = 512;

const BLOCK_OVERFLOW: RowError = RowError::Overflow {
    field: "block number",
    bits: 64,
};

/// A row whose distances are not decoded yet.
pub(crate) struct BlockListRow<'a> {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// One distance for each block but the first, in LEB128.
    distances: &'a [u8],
}

impl<'a> BlockListRow<'a> {
    /// Reads the row that begins with block `first`.
    pub(crate) fn parse(first: u64, value: &'a [u8]) -> Result<Self, RowError> {
        let mut distances = value;
        let span = match value {
            [] => 0,
            _ => read_number(&mut distances)?,
        };
        if distances.len() > ROW_BYTES_MAX {
            return Err(RowError::TooLong {
                field: "distances",
                got: distances.len(),
                bound: ROW_BYTES_MAX,
            });
        }
        let last = first.checked_add(span).ok_or(BLOCK_OVERFLOW)?;
        Ok(Self {
            first,
            last,
            distances,
        })
    }

    /// Replaces the content of `out` with the block numbers.
    pub(crate) fn read(&self, out: &mut Vec<u64>) -> Result<(), RowError> {
        out.clear();
        out.push(self.first);
        let (mut block, mut distances) = (self.first, self.distances);
        while !distances.is_empty() {
            block = match read_number(&mut distances)? {
                0 => {
                    return Err(RowError::Value {
                        field: "distance",
                        got: 0,
                        expected: "1 or more",
                    });
                }
                distance => block.checked_add(distance).ok_or(BLOCK_OVERFLOW)?,
            };
            out.push(block);
        }
        if block != self.last {
            return Err(RowError::Differs {
                field: "last block by the distances",
                got: block,
                expected: self.last,
            });
        }
        Ok(())
    }
}

/// The last row of a key, to which blocks are added or from which they are removed.
pub(crate) struct BlockListTail {
    pub(crate) first: u64,
    pub(crate) last: u64,
    distances: Vec<u8>,
}

impl BlockListTail {
    /// A row with one block.
    pub(crate) const fn new(first: u64) -> Self {
        Self {
            first,
            last: first,
            distances: Vec::new(),
        }
    }

    pub(crate) fn of(row: &BlockListRow<'_>) -> Self {
        Self {
            first: row.first,
            last: row.last,
            distances: row.distances.to_vec(),
        }
    }

    /// Adds the block that is `distance` above the last one. Returns `false` if the row is full.
    pub(crate) fn push(&mut self, distance: u64) -> bool {
        let fits = self.distances.len() + number_len(distance) <= ROW_BYTES_MAX;
        if fits {
            push_number(&mut self.distances, distance);
            self.last += distance;
        }
        fits
    }

    /// The error for a row whose last block is not below `block`, which is added.
    pub(crate) const fn not_below(&self, block: u64) -> RowError {
        RowError::NotBelow {
            field: "last block",
            got: self.last,
            limit: block,
        }
    }

    /// Removes the last block. `before` is the block before it.
    pub(crate) fn pop(&mut self, before: u64) {
        let left = self.distances.len() - number_len(self.last - before);
        self.distances.truncate(left);
        self.last = before;
    }

    pub(crate) fn value(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.distances.len() + 10);
        if self.last > self.first {
            push_number(&mut value, self.last - self.first);
            value.extend_from_slice(&self.distances);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bad_rows_are_errors_and_never_a_panic(first: u64, value: Vec<u8>) {
            let mut out = Vec::new();
            if let Ok(row) = BlockListRow::parse(first, &value)
                && row.read(&mut out).is_ok()
            {
                prop_assert!(out.is_sorted() && out.first() == Some(&row.first));
                prop_assert_eq!(out.last(), Some(&row.last));
            }
        }
    }
}
