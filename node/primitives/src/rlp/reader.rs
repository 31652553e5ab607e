//! Reads the fields of an RLP list one by one, without copying.
//!
//! A wrong field is an error that names it; no call reads past the list's end, and
//! none goes deeper than the types do, so depth of nesting cannot exhaust the stack.

use alloy_primitives::{Address, Bloom, Bytes, FixedBytes, U256};

use super::{RlpError, check_size, split};
use crate::error::DecodeError;

/// The fields of one list that are still to be read.
#[derive(Clone, Copy, Debug)]
pub struct RlpReader<'a> {
    rest: &'a [u8],
}

impl<'a> RlpReader<'a> {
    /// Opens the list that `input` is, whole: no byte may follow it.
    ///
    /// # Errors
    /// If `input` is not exactly one list, or is longer than
    /// [`INPUT_BYTES_MAX`](super::INPUT_BYTES_MAX). `what` names the list in the error.
    pub fn open(input: &'a [u8], what: &'static str) -> Result<Self, DecodeError> {
        let open = || {
            check_size(input)?;
            let cut = split(input)?;
            match (cut.is_list, cut.rest.len()) {
                (false, _) => Err(RlpError::ExpectedList),
                (true, 0) => Ok(Self { rest: cut.payload }),
                (true, got) => Err(RlpError::Trailing { got }),
            }
        };
        open().map_err(DecodeError::field(what))
    }

    /// Whether every field has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Counts the fields that are left, looking only at where each ends.
    ///
    /// # Errors
    /// If one of them is not strict RLP.
    pub fn count(&self, what: &'static str) -> Result<usize, DecodeError> {
        let (mut rest, mut count) = (self.rest, 0);
        while !rest.is_empty() {
            rest = split(rest).map_err(DecodeError::field(what))?.rest;
            count += 1;
        }
        Ok(count)
    }

    /// Requires that as many fields are left as `expected`.
    ///
    /// # Errors
    /// [`DecodeError::FieldCount`] otherwise; `expected_text` is the number in it.
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

    /// Reads a list and gives a reader of its fields.
    ///
    /// # Errors
    /// If the next field is not a list.
    pub fn list(&mut self, field: &'static str) -> Result<Self, DecodeError> {
        let cut = split(self.rest).map_err(DecodeError::field(field))?;
        if !cut.is_list {
            return Err(DecodeError::Field {
                field,
                cause: RlpError::ExpectedList,
            });
        }
        self.rest = cut.rest;
        Ok(Self { rest: cut.payload })
    }

    /// Reads the next field, whatever it is, and gives its bytes with their prefix.
    ///
    /// # Errors
    /// If there is none.
    pub fn raw(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let cut = split(self.rest).map_err(DecodeError::field(field))?;
        let raw = &self.rest[..self.rest.len() - cut.rest.len()];
        self.rest = cut.rest;
        Ok(raw)
    }

    /// Reads bytes of any length.
    ///
    /// # Errors
    /// If the next field is a list or missing.
    pub fn slice(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let cut = split(self.rest).map_err(DecodeError::field(field))?;
        if cut.is_list {
            return Err(DecodeError::Field {
                field,
                cause: RlpError::UnexpectedList,
            });
        }
        self.rest = cut.rest;
        Ok(cut.payload)
    }

    /// Reads bytes of any length into a buffer of their own.
    ///
    /// # Errors
    /// As [`Self::slice`].
    pub fn bytes(&mut self, field: &'static str) -> Result<Bytes, DecodeError> {
        self.slice(field).map(Bytes::copy_from_slice)
    }

    /// Reads exactly `N` bytes.
    ///
    /// # Errors
    /// As [`Self::slice`], or if it has another length.
    pub fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<FixedBytes<N>, DecodeError> {
        fixed(self.slice(field)?, field)
    }

    /// Reads a 20-byte address.
    ///
    /// # Errors
    /// As [`Self::fixed`].
    pub fn address(&mut self, field: &'static str) -> Result<Address, DecodeError> {
        self.fixed(field).map(Address)
    }

    /// Reads a 20-byte address, or no bytes for `None`.
    ///
    /// # Errors
    /// As [`Self::fixed`].
    pub fn optional_address(&mut self, field: &'static str) -> Result<Option<Address>, DecodeError> {
        match self.slice(field)? {
            [] => Ok(None),
            payload => fixed(payload, field).map(|bytes| Some(Address(bytes))),
        }
    }

    /// Reads a 256-byte bloom.
    ///
    /// # Errors
    /// As [`Self::fixed`].
    pub fn bloom(&mut self, field: &'static str) -> Result<Bloom, DecodeError> {
        self.fixed(field).map(Bloom)
    }

    /// Reads an integer below 2^64.
    ///
    /// # Errors
    /// As [`Self::slice`], or if it is wider or begins with a zero byte.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        let digits = integer(self.slice(field)?, 8).map_err(DecodeError::field(field))?;
        Ok(digits.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }

    /// Reads an integer below 2^256.
    ///
    /// # Errors
    /// As [`Self::u64`].
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

/// Accepts the digits of an integer of at most `bound` bytes in its shortest form.
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
    fn whole_list_only() {
        let error = |input| RlpReader::open(input, "test").map(|_| ()).unwrap_err();
        let of = |cause| DecodeError::Field { field: "test", cause };
        assert_eq!(error(&[]), of(RlpError::Missing));
        assert_eq!(error(&[0x80]), of(RlpError::ExpectedList));
        assert_eq!(error(&[0xc0, 0xc0]), of(RlpError::Trailing { got: 1 }));
        let long = vec![0x80; crate::rlp::INPUT_BYTES_MAX + 1];
        assert!(error(&long).to_string().contains("expected at most 67108864"));
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
