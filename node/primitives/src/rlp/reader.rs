//! Reads the fields of an RLP list one after another, without copying.
//!
//! An error names the field. No call reads beyond the end of the list. Nothing here recurses, so a
//! deeply nested input cannot overflow the stack.

use alloy_primitives::{Address, Bloom, Bytes, FixedBytes, U256};

use super::{RlpError, check_size, split};
use crate::error::DecodeError;

/// The rest of a list: the fields that are not read yet.
#[derive(Clone, Copy, Debug)]
pub struct RlpReader<'a> {
    rest: &'a [u8],
}

impl<'a> RlpReader<'a> {
    /// Starts to read the list in `input`. No bytes may follow it. `what` is the name of the list
    /// in errors.
    ///
    /// # Errors
    /// [`DecodeError`] if `input` is not exactly one list, or is longer than
    /// [`INPUT_BYTES_MAX`](super::INPUT_BYTES_MAX).
    pub fn open(input: &'a [u8], what: &'static str) -> Result<Self, DecodeError> {
        let open = || {
            check_size(input)?;
            let first = split(input)?;
            match (first.is_list, first.rest.len()) {
                (false, _) => Err(RlpError::ExpectedList),
                (true, 0) => Ok(Self { rest: first.payload }),
                (true, got) => Err(RlpError::Trailing { got }),
            }
        };
        open().map_err(DecodeError::field(what))
    }

    /// Reads items that follow each other without a list around them.
    pub const fn over(items: &'a [u8]) -> Self {
        Self { rest: items }
    }

    /// The bytes that are not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all fields are read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Number of fields that are left. Does not look inside them.
    ///
    /// # Errors
    /// [`DecodeError`] if the prefix of one of them is wrong.
    pub fn count(&self, what: &'static str) -> Result<usize, DecodeError> {
        let (mut rest, mut count) = (self.rest, 0);
        while !rest.is_empty() {
            rest = split(rest).map_err(DecodeError::field(what))?.rest;
            count += 1;
        }
        Ok(count)
    }

    /// Checks that `expected` fields are left. `expected_text` is that number in the error.
    ///
    /// # Errors
    /// [`DecodeError::FieldCount`] if another number is left.
    pub fn expect_count(
        &self,
        what: &'static str,
        expected: usize,
        expected_text: &'static str,
    ) -> Result<(), DecodeError> {
        match self.count(what)? {
            got if got == expected => Ok(()),
            got => Err(DecodeError::FieldCount {
                what,
                got,
                expected: expected_text,
            }),
        }
    }

    /// Reads a list and returns a reader of its fields.
    ///
    /// # Errors
    /// [`DecodeError`] if the next field is missing or not a list.
    pub fn list(&mut self, field: &'static str) -> Result<Self, DecodeError> {
        let first = split(self.rest).map_err(DecodeError::field(field))?;
        if !first.is_list {
            return Err(DecodeError::Field {
                field,
                cause: RlpError::ExpectedList,
            });
        }
        self.rest = first.rest;
        Ok(Self { rest: first.payload })
    }

    /// Reads the next field, bytes or a list, and returns its RLP with the prefix.
    ///
    /// # Errors
    /// [`DecodeError`] if there is no field.
    pub fn raw(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let first = split(self.rest).map_err(DecodeError::field(field))?;
        let raw = &self.rest[..self.rest.len() - first.rest.len()];
        self.rest = first.rest;
        Ok(raw)
    }

    /// Reads bytes of any length.
    ///
    /// # Errors
    /// [`DecodeError`] if the next field is missing or a list.
    pub fn slice(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let first = split(self.rest).map_err(DecodeError::field(field))?;
        if first.is_list {
            return Err(DecodeError::Field {
                field,
                cause: RlpError::UnexpectedList,
            });
        }
        self.rest = first.rest;
        Ok(first.payload)
    }

    /// Reads bytes of any length and copies them.
    ///
    /// # Errors
    /// As for [`Self::slice`].
    pub fn bytes(&mut self, field: &'static str) -> Result<Bytes, DecodeError> {
        self.slice(field).map(Bytes::copy_from_slice)
    }

    /// Reads exactly `N` bytes.
    ///
    /// # Errors
    /// As for [`Self::slice`], and if the field has another length.
    pub fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<FixedBytes<N>, DecodeError> {
        fixed(self.slice(field)?, field)
    }

    /// Reads a 20-byte address.
    ///
    /// # Errors
    /// As for [`Self::fixed`].
    pub fn address(&mut self, field: &'static str) -> Result<Address, DecodeError> {
        self.fixed(field).map(Address)
    }

    /// Reads a 20-byte address. No bytes are `None`.
    ///
    /// # Errors
    /// As for [`Self::fixed`].
    pub fn optional_address(&mut self, field: &'static str) -> Result<Option<Address>, DecodeError> {
        match self.slice(field)? {
            [] => Ok(None),
            payload => fixed(payload, field).map(|bytes| Some(Address(bytes))),
        }
    }

    /// Reads a 256-byte bloom filter.
    ///
    /// # Errors
    /// As for [`Self::fixed`].
    pub fn bloom(&mut self, field: &'static str) -> Result<Bloom, DecodeError> {
        self.fixed(field).map(Bloom)
    }

    /// Reads an integer below 2^64.
    ///
    /// # Errors
    /// As for [`Self::slice`], and if the integer is larger or begins with a zero byte.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        let digits = integer(self.slice(field)?, 8).map_err(DecodeError::field(field))?;
        Ok(digits.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }

    /// Reads an integer below 2^256.
    ///
    /// # Errors
    /// As for [`Self::u64`].
    pub fn u256(&mut self, field: &'static str) -> Result<U256, DecodeError> {
        let digits = integer(self.slice(field)?, 32).map_err(DecodeError::field(field))?;
        Ok(U256::from_be_slice(digits))
    }
}

fn fixed<const N: usize>(payload: &[u8], field: &'static str) -> Result<FixedBytes<N>, DecodeError> {
    let cause = RlpError::WrongLength {
        got: payload.len(),
        expected: N,
    };
    FixedBytes::try_from(payload).map_err(|_| DecodeError::Field { field, cause })
}

/// Checks that `digits` are an integer of at most `bound` bytes in its shortest form.
fn integer(digits: &[u8], bound: usize) -> Result<&[u8], RlpError> {
    if digits.first() == Some(&0) {
        return Err(RlpError::IntegerLeadingZero);
    }
    if digits.len() > bound {
        return Err(RlpError::IntegerWidth {
            got: digits.len(),
            bound,
        });
    }
    Ok(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(input: &[u8]) -> RlpReader<'_> {
        RlpReader::open(input, "test").expect("a list")
    }

    fn check_u64(input: &[u8], expected: Result<u64, RlpError>) {
        let expected = expected.map_err(DecodeError::field("n"));
        assert_eq!(open(input).u64("n"), expected, "{input:02x?}");
    }

    #[test]
    fn integers() {
        check_u64(&[0xc1, 0x80], Ok(0));
        check_u64(&[0xc1, 0x05], Ok(5));
        check_u64(&[0xc3, 0x82, 4, 0], Ok(1024));
        check_u64(
            &[0xc9, 0x88, 255, 255, 255, 255, 255, 255, 255, 255],
            Ok(u64::MAX),
        );
        check_u64(&[0xc1, 0x00], Err(RlpError::IntegerLeadingZero));
        check_u64(&[0xc3, 0x82, 0, 4], Err(RlpError::IntegerLeadingZero));
        check_u64(
            &[0xca, 0x89, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            Err(RlpError::IntegerWidth { got: 9, bound: 8 }),
        );
        check_u64(&[0xc1, 0xc0], Err(RlpError::UnexpectedList));
        check_u64(&[0xc0], Err(RlpError::Missing));
        check_u64(&[0xc1, 0x81], Err(RlpError::Truncated { got: 0, expected: 1 }));

        let mut wide = vec![0xe2, 0xa1, 1];
        wide.extend([0; 32]);
        let cause = RlpError::IntegerWidth { got: 33, bound: 32 };
        assert_eq!(
            open(&wide).u256("n"),
            Err(DecodeError::Field { field: "n", cause })
        );
        let mut widest = vec![0xe1, 0xa0];
        widest.extend([0xff; 32]);
        assert_eq!(open(&widest).u256("n"), Ok(U256::MAX));
    }

    #[test]
    fn the_input_is_exactly_one_list() {
        let error = |input| RlpReader::open(input, "test").map(|_| ()).unwrap_err();
        let of = |cause| DecodeError::Field { field: "test", cause };
        assert_eq!(error(&[]), of(RlpError::Missing));
        assert_eq!(error(&[0x80]), of(RlpError::ExpectedList));
        assert_eq!(error(&[0xc0, 0xc0]), of(RlpError::Trailing { got: 1 }));
        let long = vec![0x80; crate::rlp::INPUT_BYTES_MAX + 1];
        assert!(error(&long).to_string().contains("expected at most 67108864"));
    }

    #[test]
    fn items_without_a_list() {
        let mut reader = RlpReader::over(&[0x10, 0xc1, 0x05, 0xff]);
        assert_eq!(reader.u64("code"), Ok(16));
        assert_eq!(reader.list("list").and_then(|mut list| list.u64("five")), Ok(5));
        assert_eq!(reader.rest(), [0xff]);
        assert!(reader.raw("junk").is_err());
    }

    #[test]
    fn raw_and_count() {
        let mut reader = open(&[0xc5, 0x80, 0xc2, 1, 2, 0x07]);
        assert_eq!(reader.count("test"), Ok(3));
        assert_eq!(reader.raw("a"), Ok(&[0x80][..]));
        assert_eq!(reader.raw("b"), Ok(&[0xc2, 1, 2][..]));
        assert!(!reader.is_empty());
        assert_eq!(reader.slice("c"), Ok(&[7][..]));
        assert!(reader.is_empty());
    }
}
