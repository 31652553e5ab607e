//! Strict RLP: each value has exactly one accepted encoding.
//!
//! Errors are: integers with leading zeros, lengths that are not in their shortest form, a length
//! beyond the end of the input, bytes after the item, a list where bytes are expected and bytes
//! where a list is expected.
//!
//! [`RlpReader`] reads the typed fields of a list without copying. [`RlpItem`] is the generic tree.
//! Both check the size of the input before they allocate memory. Typed values are encoded with
//! `alloy_rlp`. Knows no types of the chain. Source: Ethereum Yellow Paper, appendix B.

mod item;
mod reader;

pub use item::RlpItem;
pub use reader::RlpReader;

pub use write::{encode_fields, encode_fields_to_vec, fields_length};

mod write;

/// The largest accepted input, in bytes.
pub const INPUT_BYTES_MAX: usize = 64 << 20;

/// The deepest accepted nesting of lists in an [`RlpItem`].
pub const ITEM_DEPTH_MAX: usize = 1024;

/// The largest accepted number of items in an [`RlpItem`], itself included.
pub const ITEM_COUNT_MAX: usize = 1 << 20;

/// The reason why bytes are not strict RLP, or not the expected value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RlpError {
    /// The input or the list ends where an item should begin.
    #[error("no bytes left, expected an item")]
    Missing,
    /// The length of an item is larger than the rest of the input.
    #[error("got {got} bytes, expected {expected}")]
    Truncated {
        /// The number of bytes that are left.
        got: usize,
        /// The length of the item, in bytes.
        expected: u64,
    },
    /// A single byte below 0x80 has a length prefix. It must be encoded as itself.
    #[error("byte {got:#04x} has a length prefix, expected none")]
    PrefixedByte {
        /// The byte.
        got: u8,
    },
    /// A length up to 55 is in the long form.
    #[error("length {got} is in the long form, expected the short form up to 55")]
    LongForm {
        /// The length.
        got: u64,
    },
    /// A length in the long form begins with a zero byte.
    #[error("length begins with a zero byte, expected its shortest form")]
    LengthLeadingZero,
    /// There are bytes after the end of the item.
    #[error("got {got} bytes after the end, expected none")]
    Trailing {
        /// The number of these bytes.
        got: usize,
    },
    /// There is a list where bytes are expected.
    #[error("got a list, expected bytes")]
    UnexpectedList,
    /// There are bytes where a list is expected.
    #[error("got bytes, expected a list")]
    ExpectedList,
    /// An integer begins with a zero byte.
    #[error("integer begins with a zero byte, expected its shortest form")]
    IntegerLeadingZero,
    /// An integer is too large for its type.
    #[error("got an integer of {got} bytes, expected at most {bound}")]
    IntegerWidth {
        /// The length of the integer, in bytes.
        got: usize,
        /// The largest length for the type, in bytes.
        bound: usize,
    },
    /// A value of fixed length has another length.
    #[error("got {got} bytes, expected {expected}")]
    WrongLength {
        /// Its length, in bytes.
        got: usize,
        /// The length of the type, in bytes.
        expected: usize,
    },
    /// The input is larger than [`INPUT_BYTES_MAX`].
    #[error("got {got} bytes of input, expected at most {bound}")]
    InputTooLong {
        /// The length of the input, in bytes.
        got: usize,
        /// The largest accepted length, in bytes.
        bound: usize,
    },
    /// Lists are nested deeper than [`ITEM_DEPTH_MAX`].
    #[error("nesting of lists: got more than {bound}, expected at most {bound}")]
    TooDeep {
        /// The deepest accepted nesting.
        bound: usize,
    },
    /// There are more than [`ITEM_COUNT_MAX`] items.
    #[error("got more than {bound} items, expected at most {bound}")]
    TooManyItems {
        /// The largest accepted number.
        bound: usize,
    },
}

/// The first item of an input. Its payload is not decoded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitItem<'a> {
    pub(crate) is_list: bool,
    pub(crate) payload: &'a [u8],
    pub(crate) rest: &'a [u8],
}

/// Splits `input` after its first item.
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

/// Splits `input` after `length` bytes. A length beyond the input is an error.
fn take(input: &[u8], length: u64) -> Result<(&[u8], &[u8]), RlpError> {
    usize::try_from(length)
        .ok()
        .and_then(|length| input.split_at_checked(length))
        .ok_or(RlpError::Truncated {
            got: input.len(),
            expected: length,
        })
}

/// Reads a length of `width` bytes (1 to 8), then splits the rest after that many bytes.
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

/// Refuses an input above [`INPUT_BYTES_MAX`].
pub(crate) const fn check_size(input: &[u8]) -> Result<(), RlpError> {
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
        let got = split(input).map(|first| (first.is_list, first.payload, first.rest));
        assert_eq!(got, expected, "{input:02x?}");
    }

    #[test]
    fn splits_each_form() {
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
    fn refuses_other_encodings_of_a_value() {
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
    fn refuses_lengths_beyond_the_input() {
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
