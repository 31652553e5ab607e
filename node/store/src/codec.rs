//! Reading the fields of a stored row, and the small encodings that rows share.
//!
//! Bad bytes give an error that says what was expected. Nothing here panics on them.

use primitives::{B256, U256};

use crate::row_error::RowError;

/// Reads the fields of a row one after another.
pub(crate) struct RowReader<'a> {
    rest: &'a [u8],
}

impl<'a> RowReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads the next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], RowError> {
        take(&mut self.rest, count as u64)
    }

    /// Reads the next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], RowError> {
        Ok(self.take(N)?.try_into().expect("take returns exactly N bytes"))
    }

    /// Reads a 4-byte big-endian number.
    pub(crate) fn u32(&mut self) -> Result<u32, RowError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Reads a length byte and a big-endian number of that many bytes: at most 32, the first not
    /// zero.
    pub(crate) fn uint(&mut self) -> Result<U256, RowError> {
        Ok(U256::from_be_slice(self.uint_bytes()?))
    }

    /// Reads the significant bytes of a number that [`Self::uint`] would read.
    pub(crate) fn uint_bytes(&mut self) -> Result<&'a [u8], RowError> {
        let [length] = self.array()?;
        if length > 32 {
            return Err(RowError::TooLong {
                field: "number",
                got: length.into(),
                bound: 32,
            });
        }
        let bytes = self.take(usize::from(length))?;
        if bytes.first() == Some(&0) {
            return Err(RowError::NumberLeadingZero);
        }
        Ok(bytes)
    }

    /// Reads a number in LEB128, as [`read_number`] does.
    pub(crate) fn number(&mut self) -> Result<u64, RowError> {
        read_number(&mut self.rest)
    }

    /// Reads a number in LEB128 below 2^32. `field` is its name in the error.
    pub(crate) fn number32(&mut self, field: &'static str) -> Result<u32, RowError> {
        read_u32(&mut self.rest, field)
    }

    /// Whether all bytes were read.
    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads a number as [`Self::uint`] does, below 2^64.
    pub(crate) fn uint64(&mut self) -> Result<u64, RowError> {
        let bytes = self.uint_bytes()?;
        if bytes.len() > 8 {
            return Err(RowError::Overflow {
                field: "number",
                bits: 64,
            });
        }
        Ok(bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    /// Reads all bytes that are left.
    pub(crate) fn remaining(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Ends the row. Bytes that are left are an error.
    pub(crate) const fn finish(self) -> Result<(), RowError> {
        match self.rest.len() {
            0 => Ok(()),
            got => Err(RowError::Trailing { got }),
        }
    }
}

/// Appends a number in the form that [`RowReader::uint`] reads.
pub(crate) fn push_uint(out: &mut Vec<u8>, value: U256) {
    let bytes: [u8; 32] = value.to_be_bytes();
    let significant = &bytes[bytes.iter().position(|byte| *byte != 0).unwrap_or(32)..];
    out.push(significant.len() as u8);
    out.extend_from_slice(significant);
}

/// Reads a number in LEB128 and moves `bytes` behind it. Accepts only the shortest form.
pub(crate) fn read_number(bytes: &mut &[u8]) -> Result<u64, RowError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(RowError::NumberCutOff)?;
        *bytes = rest;
        let digits = u64::from(byte & 0x7f);
        if digits << shift >> shift != digits {
            break;
        }
        number |= digits << shift;
        if byte & 0x80 == 0 {
            return match (digits, shift) {
                (0, 1..) => Err(RowError::NumberForm),
                _ => Ok(number),
            };
        }
    }
    Err(RowError::Overflow {
        field: "number",
        bits: 64,
    })
}

/// Reads a number in LEB128 below 2^32. `field` is its name in the error.
pub(crate) fn read_u32(bytes: &mut &[u8], field: &'static str) -> Result<u32, RowError> {
    u32::try_from(read_number(bytes)?).map_err(|_| RowError::Overflow { field, bits: 32 })
}

/// Reads the next `count` bytes and moves `bytes` behind them.
pub(crate) fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Result<&'a [u8], RowError> {
    let split = usize::try_from(count)
        .ok()
        .and_then(|count| bytes.split_at_checked(count));
    let (taken, rest) = split.ok_or(RowError::CutOff {
        got: bytes.len(),
        expected: count,
    })?;
    *bytes = rest;
    Ok(taken)
}

/// Appends a number in LEB128, in its shortest form.
pub(crate) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Number of bytes that [`push_number`] writes.
pub(crate) fn number_len(number: u64) -> usize {
    (number.max(1).ilog2() / 7 + 1) as usize
}

/// The key of headers, bodies, receipts and notices: block number (8), block hash (32).
pub(crate) fn block_key(number: u64, hash: &B256) -> [u8; 40] {
    let mut key = [0; 40];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key[8..].copy_from_slice(hash.as_slice());
    key
}

/// Reads a row or a key of block number (8) and block hash (32).
pub(crate) fn decode_block_key(row: &[u8]) -> Result<(u64, B256), RowError> {
    let row: [u8; 40] = fixed(row)?;
    let number = u64::from_be_bytes(std::array::from_fn(|at| row[at]));
    Ok((number, B256::from_slice(&row[8..])))
}

/// Reads a row or a key of exactly `N` bytes.
pub(crate) fn fixed<const N: usize>(row: &[u8]) -> Result<[u8; N], RowError> {
    row.try_into().map_err(|_| RowError::Length {
        field: "row or key",
        got: row.len(),
        expected: N,
    })
}

/// Reads a row or a key that is an 8-byte number.
pub(crate) fn fixed_number(row: &[u8]) -> Result<u64, RowError> {
    fixed(row).map(u64::from_be_bytes)
}

/// Reads a row or a key that is a hash.
pub(crate) fn fixed_hash(row: &[u8]) -> Result<B256, RowError> {
    fixed::<32>(row).map(B256::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_in_leb128() {
        for number in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            push_number(&mut bytes, number);
            assert_eq!(bytes.len(), number_len(number), "{number}");
            assert_eq!(read_number(&mut bytes.as_slice()).unwrap(), number);
        }
        let check = |mut bytes: &[u8], expected: &str| {
            assert_eq!(read_number(&mut bytes).unwrap_err().to_string(), expected);
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
        fn numbers_round_trip(bytes: [u8; 32], shift in 0usize..256) {
            let value = U256::from_be_bytes(bytes) >> shift;
            let mut row = Vec::new();
            push_uint(&mut row, value);
            let mut reader = RowReader::new(&row);
            prop_assert_eq!(reader.uint().unwrap(), value);
            prop_assert!(reader.finish().is_ok());
        }

        #[test]
        fn bad_bytes_never_panic(bytes: Vec<u8>) {
            let mut reader = RowReader::new(&bytes);
            let _ = reader.uint();
            let _ = reader.uint64();
            let _ = reader.array::<20>();
            let _ = reader.finish();
        }
    }
}
