//! Strict RLP: one value has exactly one accepted encoding.
//!
//! Refused: integers with leading zeros, lengths not in their shortest form, a
//! length beyond the input, bytes after the item, lists where bytes are due and
//! the reverse. [`RlpReader`] reads the typed fields of a list without copying;
//! [`RlpItem`] is the generic tree. Both bound what they take before they allocate.
//! Knows no type of the chain. Encoding of typed values is `alloy_rlp`'s.

mod item;
mod reader;

pub use item::RlpItem;
pub use reader::RlpReader;

pub(crate) use write::{encode_fields, encode_fields_to_vec, fields_length};

mod write;

/// The largest input a decoder accepts, in bytes.
pub const INPUT_BYTES_MAX: usize = 64 << 20;

/// How deep lists of an [`RlpItem`] may be nested.
pub const ITEM_DEPTH_MAX: usize = 1024;

/// How many items one [`RlpItem`] tree may hold, itself included.
pub const ITEM_COUNT_MAX: usize = 1 << 20;

/// Why bytes are not strict RLP, or not the value that is due.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RlpError {
    /// The input, or the list, ends where an item should begin.
    #[error("no bytes left, expected an item")]
    Missing,
    /// An item claims more bytes than there are.
    #[error("got {got} bytes, expected {expected}")]
    Truncated {
        /// The bytes that are left.
        got: usize,
        /// The bytes that the item claims.
        expected: u64,
    },
    /// A byte below 0x80 is written with a prefix, though it stands for itself.
    #[error("byte {got:#04x} has a length prefix, expected none")]
    PrefixedByte {
        /// The byte.
        got: u8,
    },
    /// A length up to 55 is written in the long form.
    #[error("length {got} is in the long form, expected the short form up to 55")]
    LongForm {
        /// The length.
        got: u64,
    },
    /// A length in the long form begins with a zero byte.
    #[error("length begins with a zero byte, expected its shortest form")]
    LengthLeadingZero,
    /// Bytes follow where nothing should.
    #[error("got {got} bytes after the end, expected none")]
    Trailing {
        /// How many bytes follow.
        got: usize,
    },
    /// A list stands where bytes are due.
    #[error("got a list, expected bytes")]
    UnexpectedList,
    /// Bytes stand where a list is due.
    #[error("got bytes, expected a list")]
    ExpectedList,
    /// An integer begins with a zero byte.
    #[error("integer begins with a zero byte, expected its shortest form")]
    IntegerLeadingZero,
    /// An integer has more bytes than its type.
    #[error("got an integer of {got} bytes, expected at most {bound}")]
    IntegerWidth {
        /// The bytes of the integer.
        got: usize,
        /// The bytes of the type.
        bound: usize,
    },
    /// A fixed-size value has another size.
    #[error("got {got} bytes, expected {expected}")]
    WrongLength {
        /// Its bytes.
        got: usize,
        /// The bytes of the type.
        expected: usize,
    },
    /// The input is larger than [`INPUT_BYTES_MAX`].
    #[error("got {got} bytes of input, expected at most {bound}")]
    InputTooLong {
        /// The bytes of the input.
        got: usize,
        /// How many are accepted.
        bound: usize,
    },
    /// Lists are nested deeper than [`ITEM_DEPTH_MAX`].
    #[error("lists are nested deeper than {bound}")]
    TooDeep {
        /// How deep they may be.
        bound: usize,
    },
    /// A tree holds more than [`ITEM_COUNT_MAX`] items.
    #[error("more than {bound} items")]
    TooManyItems {
        /// How many it may hold.
        bound: usize,
    },
}

/// The first item of `input`, its own payload not yet looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitItem<'a> {
    pub(crate) is_list: bool,
    pub(crate) payload: &'a [u8],
    pub(crate) rest: &'a [u8],
}

/// Cuts the first item off `input`.
pub(crate) fn split(input: &[u8]) -> Result<SplitItem<'_>, RlpError> {
    let (&prefix, after) = input.split_first().ok_or(RlpError::Missing)?;
    match prefix {
        0x00..=0x7f => {
            let (payload, rest) = input.split_at(1);
            Ok(SplitItem {
                is_list: false,
                payload,
                rest,
            })
        }
        0x80..=0xb7 => {
            let (payload, rest) = take(after, u64::from(prefix - 0x80))?;
            match payload {
                &[got] if got < 0x80 => Err(RlpError::PrefixedByte { got }),
                _ => Ok(SplitItem {
                    is_list: false,
                    payload,
                    rest,
                }),
            }
        }
        0xb8..=0xbf => {
            let (payload, rest) = take_long(after, prefix - 0xb7)?;
            Ok(SplitItem {
                is_list: false,
                payload,
                rest,
            })
        }
        0xc0..=0xf7 => {
            let (payload, rest) = take(after, u64::from(prefix - 0xc0))?;
            Ok(SplitItem {
                is_list: true,
                payload,
                rest,
            })
        }
        0xf8..=0xff => {
            let (payload, rest) = take_long(after, prefix - 0xf7)?;
            Ok(SplitItem {
                is_list: true,
                payload,
                rest,
            })
        }
    }
}

/// Cuts off `length` bytes; the length is compared before it is used as a size.
fn take(input: &[u8], length: u64) -> Result<(&[u8], &[u8]), RlpError> {
    usize::try_from(length)
        .ok()
        .and_then(|length| input.split_at_checked(length))
        .ok_or(RlpError::Truncated {
            got: input.len(),
            expected: length,
        })
}

/// Reads a length of `width` bytes (1 to 8), then cuts off as many.
fn take_long(input: &[u8], width: u8) -> Result<(&[u8], &[u8]), RlpError> {
    let (digits, after) = take(input, u64::from(width))?;
    if digits[0] == 0 {
        return Err(RlpError::LengthLeadingZero);
    }
    let length = digits.iter().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
    if length <= 55 {
        return Err(RlpError::LongForm { got: length });
    }
    take(after, length)
}

/// Refuses an input that no honest peer or client sends.
pub(crate) fn check_size(input: &[u8]) -> Result<(), RlpError> {
    if input.len() > INPUT_BYTES_MAX {
        return Err(RlpError::InputTooLong {
            got: input.len(),
            bound: INPUT_BYTES_MAX,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], expected: Result<(bool, &[u8], &[u8]), RlpError>) {
        let got = split(input).map(|cut| (cut.is_list, cut.payload, cut.rest));
        assert_eq!(got, expected, "{input:02x?}");
    }

    #[test]
    fn cuts_each_form() {
        check(&[0x00], Ok((false, &[0], &[])));
        check(&[0x7f, 1], Ok((false, &[0x7f], &[1])));
        check(&[0x80], Ok((false, &[], &[])));
        check(&[0x81, 0x80, 9], Ok((false, &[0x80], &[9])));
        check(&[0xc0], Ok((true, &[], &[])));
        check(&[0xc1, 0x80], Ok((true, &[0x80], &[])));
        let mut long = vec![0xb8, 56];
        long.extend([7; 56]);
        check(&long, Ok((false, &[7; 56], &[])));
        long[0] = 0xf8;
        check(&long, Ok((true, &[7; 56], &[])));
    }

    #[test]
    fn refuses_second_encodings() {
        check(&[], Err(RlpError::Missing));
        check(&[0x81, 0x7f], Err(RlpError::PrefixedByte { got: 0x7f }));
        check(&[0x81, 0x00], Err(RlpError::PrefixedByte { got: 0 }));
        check(&[0xb8, 0x01, 0xff], Err(RlpError::LongForm { got: 1 }));
        let mut long = vec![0xf8, 55];
        long.extend([7; 55]);
        check(&long, Err(RlpError::LongForm { got: 55 }));
        check(&[0xb9, 0x00, 0x38], Err(RlpError::LengthLeadingZero));
        check(&[0xf9, 0x00, 0x38], Err(RlpError::LengthLeadingZero));
        check(&[0xb8, 0x00], Err(RlpError::LengthLeadingZero));
    }

    #[test]
    fn refuses_claims_beyond_the_input() {
        check(&[0x83, 1, 2], Err(RlpError::Truncated { got: 2, expected: 3 }));
        check(&[0xc2, 1], Err(RlpError::Truncated { got: 1, expected: 2 }));
        check(&[0xb9, 0x01], Err(RlpError::Truncated { got: 1, expected: 2 }));
        check(
            &[0xbf; 9],
            Err(RlpError::Truncated {
                got: 0,
                expected: 0xbfbf_bfbf_bfbf_bfbf,
            }),
        );
        check(
            &[0xff; 10],
            Err(RlpError::Truncated {
                got: 1,
                expected: u64::MAX,
            }),
        );
    }
}
