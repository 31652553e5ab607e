//! A row of the log index: an ascending list of blocks of one key.
//!
//! The row's key is: log key (8), number of the first block (8, big-endian). The value is empty if
//! the row has one block. Otherwise it is a list of numbers in LEB128: the distance from the first
//! block to the last one, then the distance of each block from the one before.
//!
//! The first of these numbers gives the last block without reading the rest. It also shows when a
//! part of the row is missing.

use super::{LogKey, TABLE};
use crate::StoreError;
use crate::codec::{push_number, read_number};

/// Upper bound for the distances in a row, in bytes.
pub(super) const ROW_BYTES_MAX: usize = 512;

pub(crate) fn row_key(key: &LogKey, first: u64) -> [u8; 16] {
    let mut row = [0; 16];
    row[..8].copy_from_slice(key.as_bytes());
    row[8..].copy_from_slice(&first.to_be_bytes());
    row
}

/// A row whose distances are not decoded yet.
pub(super) struct LogIndexRow<'a> {
    pub(super) key: LogKey,
    pub(super) first: u64,
    pub(super) last: u64,
    /// One distance for each block but the first, in LEB128.
    pub(super) distances: &'a [u8],
}

impl<'a> LogIndexRow<'a> {
    pub(super) fn parse(key: &[u8], value: &'a [u8]) -> Result<Self, StoreError> {
        let parse = || {
            let whole: [u8; 16] = key
                .try_into()
                .map_err(|_| format!("key: got {} bytes, expected 16", key.len()))?;
            let first = u64::from_be_bytes(std::array::from_fn(|at| whole[8 + at]));
            let mut distances = value;
            let span = match value {
                [] => 0,
                _ => read_number(&mut distances)?,
            };
            if distances.len() > ROW_BYTES_MAX {
                return Err(format!(
                    "distances: got {} bytes, expected at most {ROW_BYTES_MAX}",
                    distances.len()
                ));
            }
            let last = first.checked_add(span).ok_or("block number: got 2^64 or more")?;
            Ok(Self {
                key: LogKey::from_bytes(std::array::from_fn(|at| whole[at])),
                first,
                last,
                distances,
            })
        };
        parse().map_err(|reason: String| StoreError::corrupt(TABLE, key, reason))
    }

    /// Replaces the content of `out` with the block numbers.
    pub(super) fn read(&self, out: &mut Vec<u64>) -> Result<(), StoreError> {
        let mut read = || {
            out.clear();
            out.push(self.first);
            let (mut block, mut distances) = (self.first, self.distances);
            while !distances.is_empty() {
                block = match read_number(&mut distances)? {
                    0 => return Err("distance: got 0, expected 1 or more".to_owned()),
                    distance => block
                        .checked_add(distance)
                        .ok_or("block number: got 2^64 or more")?,
                };
                out.push(block);
            }
            if block != self.last {
                return Err(format!(
                    "last block by the distances: got {block}, expected {}",
                    self.last
                ));
            }
            Ok(())
        };
        read().map_err(|reason| StoreError::corrupt(TABLE, &row_key(&self.key, self.first), reason))
    }
}

/// The last row of a key, to which blocks are added or from which they are removed.
pub(super) struct LogIndexTail {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) distances: Vec<u8>,
}

impl LogIndexTail {
    /// A row with one block.
    pub(super) const fn new(first: u64) -> Self {
        Self {
            first,
            last: first,
            distances: Vec::new(),
        }
    }

    pub(super) fn of(row: &LogIndexRow<'_>) -> Self {
        Self {
            first: row.first,
            last: row.last,
            distances: row.distances.to_vec(),
        }
    }

    /// Adds the block that is `distance` above the last one. Returns `false` if the row is full.
    pub(super) fn push(&mut self, distance: u64) -> bool {
        let fits = self.distances.len() + number_len(distance) <= ROW_BYTES_MAX;
        if fits {
            push_number(&mut self.distances, distance);
            self.last += distance;
        }
        fits
    }

    /// Removes the last block. `before` is the block before it.
    pub(super) fn pop(&mut self, before: u64) {
        let left = self.distances.len() - number_len(self.last - before);
        self.distances.truncate(left);
        self.last = before;
    }

    pub(super) fn value(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.distances.len() + 10);
        if self.last > self.first {
            push_number(&mut value, self.last - self.first);
            value.extend_from_slice(&self.distances);
        }
        value
    }
}

/// Number of bytes that [`push_number`] writes.
pub(super) fn number_len(number: u64) -> usize {
    (number.max(1).ilog2() / 7 + 1) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers() {
        for number in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            push_number(&mut bytes, number);
            assert_eq!(bytes.len(), number_len(number), "{number}");
            assert_eq!(read_number(&mut bytes.as_slice()), Ok(number));
        }
        let check = |mut bytes: &[u8], expected: &str| {
            assert_eq!(read_number(&mut bytes).unwrap_err(), expected);
        };
        check(&[], "row ends within a number");
        check(&[0x80], "row ends within a number");
        check(&[0x80, 0], "number is not in its shortest form");
        check(&[0xff; 11], "number: got 2^64 or more");
        check(
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            "number: got 2^64 or more",
        );
    }

    proptest! {
        #[test]
        fn bad_rows_are_errors_and_never_a_panic(key: Vec<u8>, first: u64, value: Vec<u8>) {
            let mut out = Vec::new();
            for key in [key.as_slice(), &row_key(&LogKey::any(), first)] {
                if let Ok(row) = LogIndexRow::parse(key, &value)
                    && row.read(&mut out).is_ok()
                {
                    prop_assert!(out.is_sorted() && out.first() == Some(&row.first));
                    prop_assert_eq!(out.last(), Some(&row.last));
                }
            }
        }
    }
}
