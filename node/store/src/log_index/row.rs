//! A row of the log index: some blocks under one key, first to last.
//!
//! Row key = log key (8), first block (8). Value = nothing where there is one block, else how
//! far the last is from the first, and then the distance of each from the one before, as LEB128.
//! The first number says whether a row is worth reading without reading it, and that none of
//! it is lost. Knows no table but for the name in errors.

use super::{LogKey, TABLE};
use crate::StoreError;

/// Most bytes of distances in a row.
pub(super) const ROW_BYTES_MAX: usize = 512;

pub(super) fn row_key(key: &LogKey, first: u64) -> [u8; 16] {
    let mut row = [0; 16];
    row[..8].copy_from_slice(&key.0);
    row[8..].copy_from_slice(&first.to_be_bytes());
    row
}

/// A row, its distances not yet read.
pub(super) struct Row<'a> {
    pub(super) key: LogKey,
    pub(super) first: u64,
    pub(super) last: u64,
    /// One for each block but the first.
    pub(super) distances: &'a [u8],
}

impl<'a> Row<'a> {
    pub(super) fn parse(key: &[u8], value: &'a [u8]) -> Result<Self, StoreError> {
        let parse = || {
            let whole: [u8; 16] = key
                .try_into()
                .map_err(|_| format!("key of {} bytes, want 16", key.len()))?;
            let first = u64::from_be_bytes(std::array::from_fn(|at| whole[8 + at]));
            let mut distances = value;
            let span = match value {
                [] => 0,
                _ => read_number(&mut distances)?,
            };
            if distances.len() > ROW_BYTES_MAX {
                return Err(format!(
                    "{} bytes of distances, want at most {ROW_BYTES_MAX}",
                    distances.len()
                ));
            }
            let last = first.checked_add(span).ok_or("block numbers over 64 bits")?;
            Ok(Self {
                key: LogKey(std::array::from_fn(|at| whole[at])),
                first,
                last,
                distances,
            })
        };
        parse().map_err(|reason: String| StoreError::corrupt(TABLE, key, reason))
    }

    /// Writes the block numbers over `out`.
    pub(super) fn read(&self, out: &mut Vec<u64>) -> Result<(), StoreError> {
        let mut read = || {
            out.clear();
            out.push(self.first);
            let (mut block, mut distances) = (self.first, self.distances);
            while !distances.is_empty() {
                block = match read_number(&mut distances)? {
                    0 => return Err("a block twice".to_owned()),
                    distance => block.checked_add(distance).ok_or("block numbers over 64 bits")?,
                };
                out.push(block);
            }
            if block != self.last {
                return Err(format!("distances lead to block {block}, want {}", self.last));
            }
            Ok(())
        };
        read().map_err(|reason| StoreError::corrupt(TABLE, &row_key(&self.key, self.first), reason))
    }
}

/// The last row under a key, while blocks are added to it or taken from it.
pub(super) struct Tail {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) distances: Vec<u8>,
}

impl Tail {
    /// A row with one block.
    pub(super) fn new(first: u64) -> Self {
        Self {
            first,
            last: first,
            distances: Vec::new(),
        }
    }

    pub(super) fn of(row: &Row<'_>) -> Self {
        Self {
            first: row.first,
            last: row.last,
            distances: row.distances.to_vec(),
        }
    }

    /// Adds the block this far above the last; `false`: the row is full.
    pub(super) fn push(&mut self, distance: u64) -> bool {
        let fits = self.distances.len() + number_len(distance) <= ROW_BYTES_MAX;
        if fits {
            push_number(&mut self.distances, distance);
            self.last += distance;
        }
        fits
    }

    /// Takes the last block away, so that `before` is the last.
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

/// Reads a number in LEB128, in its shortest form alone.
pub(super) fn read_number(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or("row ends within a number")?;
        *bytes = rest;
        let digits = u64::from(byte & 0x7f);
        if digits << shift >> shift != digits {
            break;
        }
        number |= digits << shift;
        if byte & 0x80 == 0 {
            return match (digits, shift) {
                (0, 1..) => Err("number not in its shortest form".to_owned()),
                _ => Ok(number),
            };
        }
    }
    Err("number over 64 bits".to_owned())
}

pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// How many bytes [`push_number`] writes.
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
        check(&[0x80, 0], "number not in its shortest form");
        check(&[0xff; 11], "number over 64 bits");
        check(
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            "number over 64 bits",
        );
    }

    proptest! {
        #[test]
        fn bad_rows_are_errors_and_never_a_panic(key: Vec<u8>, first: u64, value: Vec<u8>) {
            let mut out = Vec::new();
            for key in [key.as_slice(), &row_key(&LogKey::any(), first)] {
                if let Ok(row) = Row::parse(key, &value)
                    && row.read(&mut out).is_ok()
                {
                    prop_assert!(out.is_sorted() && out.first() == Some(&row.first));
                    prop_assert_eq!(out.last(), Some(&row.last));
                }
            }
        }
    }
}
