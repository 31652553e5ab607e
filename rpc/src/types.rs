//! The encodings of the wire: QUANTITY, DATA, the block reference, plain integers.
//!
//! Strict on reading: `0x`, `0x0400`, `ff` and an odd number of digits are errors that name their
//! reason. The readers of the big-integer library accept those, so they are not used here.
//! Knows text only; how values are found in JSON is in [`crate::decode`].

use std::fmt::LowerHex;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::wire_type::{Described, WireType};

/// DATA up to this length, which a logs bloom has, is written without asking for memory.
const SHORT_DATA_LEN: usize = 256;

/// Why a value of the wire cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The JSON is of another type.
    #[error("got {got}, expected {expected}")]
    Type {
        /// What was expected.
        expected: &'static str,
        /// The JSON type found.
        got: &'static str,
    },
    /// The JSON string has an escape that stands for no character.
    #[error("string holds an invalid escape")]
    Escape,
    /// A hex string does not begin with `0x`.
    #[error("missing 0x prefix")]
    MissingPrefix,
    /// A QUANTITY without digits.
    #[error("expected at least one hex digit after 0x")]
    NoDigits,
    /// A QUANTITY that is not in its shortest form.
    #[error("leading zero digits")]
    LeadingZero,
    /// A QUANTITY that is too large.
    #[error("number does not fit {bits} bits")]
    TooLarge {
        /// The width of the type asked for.
        bits: usize,
    },
    /// A character that is no hex digit.
    #[error("invalid hex digit {0:?}")]
    Digit(char),
    /// DATA that ends within a byte.
    #[error("odd number of hex digits")]
    OddDigits,
    /// DATA of another length than asked for.
    #[error("got {}, expected {expected} bytes", byte_count(*.got))]
    Length {
        /// Bytes expected.
        expected: usize,
        /// Bytes found.
        got: usize,
    },
    /// A block reference that is neither number nor tag.
    #[error("expected a block number or one of earliest, latest, pending: {0}")]
    BlockRef(Box<Self>),
    /// A plain number that is negative, fractional or too large.
    #[error("expected a whole number of at most 64 bits")]
    Integer,
    /// A member of an object is required and absent.
    #[error("missing field {0}")]
    MissingField(&'static str),
    /// A member of an object appears twice.
    #[error("field {0} given twice")]
    RepeatedField(String),
    /// A member of an object cannot be read.
    #[error("field {name}: {reason}")]
    Field {
        /// The member's name.
        name: &'static str,
        /// What is wrong with it.
        reason: Box<Self>,
    },
    /// A member of an array cannot be read.
    #[error("element {index}: {reason}")]
    Element {
        /// The position, from 0.
        index: usize,
        /// What is wrong with it.
        reason: Box<Self>,
    },
    /// An array or object has too many members.
    #[error("got {got} members, expected at most {max}")]
    TooMany {
        /// Members found.
        got: usize,
        /// Members allowed.
        max: usize,
    },
    /// A rule of the method itself.
    #[error("{0}")]
    Rule(String),
}

/// A number of bytes in words.
fn byte_count(count: usize) -> String {
    format!("{count} byte{}", if count == 1 { "" } else { "s" })
}

/// An integer as QUANTITY: `0x` and the shortest hex digits, zero is `0x0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity<T = u64>(pub T);

/// What can be a QUANTITY.
pub trait Number: Copy {
    /// The number in 32 bytes, big-endian.
    fn to_be_word(self) -> [u8; 32];
}

impl Number for U256 {
    fn to_be_word(self) -> [u8; 32] {
        self.to_be_bytes()
    }
}

macro_rules! small_number {
    ($($type:ty),*) => {
        $(impl Number for $type {
            fn to_be_word(self) -> [u8; 32] {
                let bytes = self.to_be_bytes();
                let mut word = [0; 32];
                word[32 - bytes.len()..].copy_from_slice(&bytes);
                word
            }
        })*
    };
}

small_number!(u8, u64, u128, usize);

/// A block has thousands of numbers: they are written by the vectorised encoder, in place.
impl<T: Number> Serialize for Quantity<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let word = self.0.to_be_word();
        let mut text = [0_u8; 66];
        let all = encode(&word, &mut text).map_err(serde::ser::Error::custom)?;
        let zeros = all[2..]
            .bytes()
            .take_while(|digit| *digit == b'0')
            .count()
            .min(63);
        // The last two of the zeros and the prefix before them give way to a new prefix.
        text[zeros] = b'0';
        text[zeros + 1] = b'x';
        let shortest = std::str::from_utf8(&text[zeros..]).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(shortest)
    }
}

impl<T: Number> Described for Quantity<T> {
    const TYPE: WireType = WireType::Named("QUANTITY");
}

impl Quantity<u64> {
    /// Reads a QUANTITY of at most 64 bits.
    ///
    /// # Errors
    /// Names the rule that `text` breaks.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        let digits = quantity_digits(text)?;
        if digits.len() > 16 {
            return Err(DecodeError::TooLarge { bits: 64 });
        }
        let value = digits
            .bytes()
            .fold(0_u64, |value, digit| value << 4 | u64::from(digit_value(digit)));
        Ok(Self(value))
    }
}

impl Quantity<U256> {
    /// Reads a QUANTITY of at most 256 bits.
    ///
    /// # Errors
    /// Names the rule that `text` breaks.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        let digits = quantity_digits(text)?;
        if digits.len() > 64 {
            return Err(DecodeError::TooLarge { bits: 256 });
        }
        let mut bytes = [0_u8; 32];
        for (position, digit) in digits.bytes().rev().enumerate() {
            bytes[31 - position / 2] |= digit_value(digit) << (4 * (position % 2));
        }
        Ok(Self(U256::from_be_bytes(bytes)))
    }
}

/// The digits of a QUANTITY in its only valid form.
fn quantity_digits(text: &str) -> Result<&str, DecodeError> {
    let digits = text.strip_prefix("0x").ok_or(DecodeError::MissingPrefix)?;
    check_digits(digits)?;
    match digits.as_bytes() {
        [] => Err(DecodeError::NoDigits),
        [b'0', _, ..] => Err(DecodeError::LeadingZero),
        _ => Ok(digits),
    }
}

fn check_digits(digits: &str) -> Result<(), DecodeError> {
    match digits.chars().find(|digit| !digit.is_ascii_hexdigit()) {
        Some(digit) => Err(DecodeError::Digit(digit)),
        None => Ok(()),
    }
}

/// The value of a digit that [`check_digits`] has passed.
fn digit_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// Bytes as DATA: `0x` and two hex digits a byte, nothing is `0x`.
///
/// Written from anything that has bytes: a hash, an address, a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Data<T = Vec<u8>>(pub T);

impl<T: AsRef<[u8]>> Serialize for Data<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.0.as_ref();
        if bytes.len() > SHORT_DATA_LEN {
            return serializer.serialize_str(&data(bytes));
        }
        let mut text = [0; 2 + 2 * SHORT_DATA_LEN];
        serializer.serialize_str(encode(bytes, &mut text).map_err(serde::ser::Error::custom)?)
    }
}

macro_rules! described_data {
    ($($bytes:ty => $name:literal),*) => {
        $(impl Described for Data<$bytes> {
            const TYPE: WireType = WireType::Named($name);
        })*
    };
}

described_data!(Address => "DATA20", B256 => "DATA32", [u8; 65] => "DATA65", Vec<u8> => "DATA", Bytes => "DATA");

/// `bytes` as DATA text within `text`, which has to be long enough.
fn encode<'t>(bytes: &[u8], text: &'t mut [u8]) -> Result<&'t str, alloy_primitives::hex::FromHexError> {
    let text = &mut text[..2 + 2 * bytes.len()];
    text[..2].copy_from_slice(b"0x");
    alloy_primitives::hex::encode_to_slice(bytes, &mut text[2..])?;
    std::str::from_utf8(text).map_err(|_| alloy_primitives::hex::FromHexError::InvalidStringLength)
}

impl Data {
    /// Reads DATA of any length.
    ///
    /// # Errors
    /// Names the rule that `text` breaks.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        hex::decode(data_digits(text)?)
            .map(Data)
            .map_err(|_| DecodeError::OddDigits)
    }
}

impl<const N: usize> Data<[u8; N]> {
    /// Reads DATA of exactly `N` bytes.
    ///
    /// # Errors
    /// Names the rule that `text` breaks.
    pub fn decode_fixed(text: &str) -> Result<Self, DecodeError> {
        let digits = data_digits(text)?;
        if digits.len() != 2 * N {
            return Err(DecodeError::Length {
                expected: N,
                got: digits.len() / 2,
            });
        }
        let mut bytes = [0_u8; N];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| DecodeError::OddDigits)?;
        Ok(Self(bytes))
    }
}

/// The digits of DATA: hex only, an even number.
fn data_digits(text: &str) -> Result<&str, DecodeError> {
    let digits = text.strip_prefix("0x").ok_or(DecodeError::MissingPrefix)?;
    check_digits(digits)?;
    if digits.len() % 2 != 0 {
        return Err(DecodeError::OddDigits);
    }
    Ok(digits)
}

/// `value` as QUANTITY text.
pub fn quantity(value: impl LowerHex) -> String {
    format!("{value:#x}")
}

/// `bytes` as DATA text.
pub fn data(bytes: impl AsRef<[u8]>) -> String {
    // The vectorised encoder of const-hex. Its decoder skips a prefix of its own accord, so that
    // `0x0x12` would pass; reading stays with `hex`.
    alloy_primitives::hex::encode_prefixed(bytes)
}

/// Which block a method speaks of. Absent and null mean the highest block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockRef {
    /// The block of this number.
    Number(u64),
    /// The genesis block.
    Earliest,
    /// The highest block.
    #[default]
    Latest,
    /// The block being built.
    Pending,
}

impl BlockRef {
    /// Reads a QUANTITY or a tag.
    ///
    /// # Errors
    /// Names the rule that `text` breaks.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        match text {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            "pending" => Ok(Self::Pending),
            _ => Quantity::<u64>::decode(text)
                .map(|number| Self::Number(number.0))
                .map_err(|reason| DecodeError::BlockRef(Box::new(reason))),
        }
    }
}

/// A plain JSON number, for the few places of the interface that have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Integer(pub u64);

impl Described for Integer {
    const TYPE: WireType = WireType::Named("Number");
}

/// A plain JSON number of up to 256 bits. Only for results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainNumber(pub U256);

impl Described for PlainNumber {
    const TYPE: WireType = WireType::Named("Number");
}

impl Serialize for PlainNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits = RawValue::from_string(self.0.to_string()).map_err(serde::ser::Error::custom)?;
        digits.serialize(serializer)
    }
}

/// A number as a plain one or as QUANTITY, for methods that the interface does not show: clients
/// write either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_quantity(text: &str, expected: Result<u64, DecodeError>) {
        assert_eq!(
            Quantity::<u64>::decode(text).map(|value| value.0),
            expected,
            "{text}"
        );
        let wide = Quantity::<U256>::decode(text).map(|value| value.0);
        if expected != Err(DecodeError::TooLarge { bits: 64 }) {
            assert_eq!(wide, expected.map(U256::from), "{text} as 256 bits");
        }
    }

    #[test]
    fn quantities() {
        check_quantity("0x0", Ok(0));
        check_quantity("0x41", Ok(65));
        check_quantity("0x400", Ok(1024));
        check_quantity("0xFf", Ok(255));
        check_quantity("0xffffffffffffffff", Ok(u64::MAX));
        check_quantity("0x10000000000000000", Err(DecodeError::TooLarge { bits: 64 }));
        check_quantity("0x", Err(DecodeError::NoDigits));
        check_quantity("0x0400", Err(DecodeError::LeadingZero));
        check_quantity("0x00", Err(DecodeError::LeadingZero));
        check_quantity("ff", Err(DecodeError::MissingPrefix));
        check_quantity("1", Err(DecodeError::MissingPrefix));
        check_quantity("", Err(DecodeError::MissingPrefix));
        check_quantity("0X1", Err(DecodeError::MissingPrefix));
        check_quantity("0x1g", Err(DecodeError::Digit('g')));
        check_quantity("0x-1", Err(DecodeError::Digit('-')));
        check_quantity("0x1 ", Err(DecodeError::Digit(' ')));
        check_quantity("0xé", Err(DecodeError::Digit('é')));
    }

    #[test]
    fn written_values() {
        let check = |value: &dyn Fn() -> serde_json::Result<String>, expected: String| {
            assert_eq!(value().expect("JSON"), format!("\"{expected}\""));
        };
        for shift in 0..=255 {
            for wide in [U256::ZERO, U256::from(1) << shift, U256::MAX >> shift] {
                let low = wide.as_limbs()[0];
                check(&|| serde_json::to_string(&Quantity(wide)), quantity(wide));
                check(&|| serde_json::to_string(&Quantity(low)), quantity(low));
                check(
                    &|| serde_json::to_string(&Quantity(low as u8)),
                    quantity(low as u8),
                );
                check(
                    &|| serde_json::to_string(&Quantity(low as usize)),
                    quantity(low as usize),
                );
            }
        }
        for length in [0, 1, 32, SHORT_DATA_LEN, SHORT_DATA_LEN + 1, 5000] {
            let bytes: Vec<u8> = (0..length).map(|index| index as u8).collect();
            check(&|| serde_json::to_string(&Data(&bytes)), data(&bytes));
        }
    }

    #[test]
    fn quantities_of_256_bits() {
        let most = format!("0x{}", "f".repeat(64));
        assert_eq!(Quantity::<U256>::decode(&most), Ok(Quantity(U256::MAX)));
        assert_eq!(quantity(U256::MAX), most);
        let more = format!("0x1{}", "0".repeat(64));
        assert_eq!(
            Quantity::<U256>::decode(&more),
            Err(DecodeError::TooLarge { bits: 256 })
        );
    }

    #[track_caller]
    fn check_data(text: &str, expected: Result<&[u8], DecodeError>) {
        assert_eq!(
            Data::decode(text).map(|bytes| bytes.0),
            expected.map(<[u8]>::to_vec),
            "{text}"
        );
    }

    #[test]
    fn data_of_any_length() {
        check_data("0x", Ok(&[]));
        check_data("0x004200", Ok(&[0, 0x42, 0]));
        check_data("0xABcd", Ok(&[0xab, 0xcd]));
        check_data("0xf0f0f", Err(DecodeError::OddDigits));
        check_data("004200", Err(DecodeError::MissingPrefix));
        check_data("0x0x12", Err(DecodeError::Digit('x')));
        check_data("0xzz", Err(DecodeError::Digit('z')));
    }

    #[test]
    fn data_of_fixed_length() {
        assert_eq!(Data::<[u8; 2]>::decode_fixed("0x0102"), Ok(Data([1, 2])));
        assert_eq!(
            Data::<[u8; 2]>::decode_fixed("0x01"),
            Err(DecodeError::Length { expected: 2, got: 1 })
        );
        assert_eq!(
            Data::<[u8; 2]>::decode_fixed("0x010"),
            Err(DecodeError::OddDigits)
        );
    }

    #[test]
    fn block_references() {
        assert_eq!(BlockRef::decode("0x10"), Ok(BlockRef::Number(16)));
        assert_eq!(BlockRef::decode("earliest"), Ok(BlockRef::Earliest));
        assert_eq!(BlockRef::decode("pending"), Ok(BlockRef::Pending));
        let reason = BlockRef::decode("newest").unwrap_err().to_string();
        assert_eq!(
            reason,
            "expected a block number or one of earliest, latest, pending: missing 0x prefix"
        );
    }

    #[test]
    fn writing() {
        let text = serde_json::to_string(&(
            Quantity(0_u64),
            Quantity(U256::from(1024)),
            Data([1_u8, 0xff]),
            Data(b""),
        ));
        assert_eq!(text.unwrap(), r#"["0x0","0x400","0x01ff","0x"]"#);
        assert_eq!(serde_json::to_string(&Integer(7)).unwrap(), "7");
    }
}
