//! The encodings of the wire: QUANTITY, DATA, the block reference, plain integers.
//!
//! Reading is strict: `0x`, `0x0400` and `ff` are not QUANTITY, and DATA has an even number of
//! digits. The big-integer library would accept such text, so its readers are not used here. This
//! module knows single values. How they are found in JSON is in `decode`.

use std::fmt::LowerHex;

use alloy_primitives::{Address, B256, Bytes, U256};
use primitives::AddressTextError;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::wire_type::{Described, WireType};

/// DATA up to this many bytes is written without an allocation. A logs bloom has this length.
const SHORT_DATA_LEN: usize = 256;

/// The reason why a parameter, or a value within one, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// The JSON is of another type.
    #[error("got {got}, expected {expected}")]
    Type {
        /// The type that was expected.
        expected: &'static str,
        /// The JSON type that was found.
        got: &'static str,
    },
    /// The JSON string has an escape that is not a character.
    #[error("string holds an invalid escape")]
    Escape,
    /// A hex string does not begin with `0x`.
    #[error("missing 0x prefix")]
    MissingPrefix,
    /// The capital letters of an address are not those of its checksum.
    #[error(transparent)]
    Address(#[from] AddressTextError),
    /// A QUANTITY has no digits.
    #[error("expected at least one hex digit after 0x")]
    NoDigits,
    /// A QUANTITY is not in its shortest form.
    #[error("leading zero digits")]
    LeadingZero,
    /// A QUANTITY is too large.
    #[error("number does not fit {bits} bits")]
    TooLarge {
        /// The width of the expected type.
        bits: usize,
    },
    /// A character is not a hex digit.
    #[error("invalid hex digit {0:?}")]
    Digit(char),
    /// DATA ends within a byte.
    #[error("odd number of hex digits")]
    OddDigits,
    /// DATA has another length than expected.
    #[error("got {}, expected {expected} bytes", byte_count(*.got))]
    Length {
        /// Bytes expected.
        expected: usize,
        /// Bytes found.
        got: usize,
    },
    /// A block reference is neither a number nor a hash nor a tag.
    #[error(
        "expected a block number, a hash of 32 bytes, or one of earliest, latest, pending, safe, finalized: {0}"
    )]
    BlockRef(Box<Self>),
    /// A plain number is negative, fractional or too large.
    #[error("expected a whole number of at most 64 bits")]
    Integer,
    /// A required field of an object is absent.
    #[error("missing field {0}")]
    MissingField(&'static str),
    /// A field of an object appears twice.
    #[error("field {0} given twice")]
    RepeatedField(String),
    /// A field of an object cannot be read.
    #[error("field {name}: {reason}")]
    Field {
        /// The name of the field.
        name: &'static str,
        /// The fault in it.
        reason: Box<Self>,
    },
    /// An element of an array cannot be read.
    #[error("element {index}: {reason}")]
    Element {
        /// The position, from 0.
        index: usize,
        /// The fault in it.
        reason: Box<Self>,
    },
    /// An array or an object has too many members.
    #[error("got {got} members, expected at most {max}")]
    TooMany {
        /// The number of members.
        got: usize,
        /// The most members allowed.
        max: usize,
    },
    /// A rule that only this parameter has is broken.
    #[error("{0}")]
    Rule(String),
}

/// `count` bytes, in words.
fn byte_count(count: usize) -> String {
    format!("{count} byte{}", if count == 1 { "" } else { "s" })
}

/// An integer as QUANTITY: `0x` and the shortest hex digits, zero is `0x0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity<T = u64>(pub T);

/// A number that can be written as QUANTITY.
pub trait QuantityNumber: Copy {
    /// The number in 32 bytes, big-endian.
    fn to_be_word(self) -> [u8; 32];
}

impl QuantityNumber for U256 {
    fn to_be_word(self) -> [u8; 32] {
        self.to_be_bytes()
    }
}

macro_rules! small_number {
    ($($type:ty),*) => {
        $(impl QuantityNumber for $type {
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

/// The digits are written in place by the vectorised encoder, because a block has thousands of
/// numbers.
impl<T: QuantityNumber> Serialize for Quantity<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let word = self.0.to_be_word();
        let mut text = [0_u8; 66];
        let all = encode(&word, &mut text).map_err(serde::ser::Error::custom)?;
        let zeros = all[2..]
            .bytes()
            .take_while(|digit| *digit == b'0')
            .count()
            .min(63);
        // The prefix moves to the right, over the leading zeros.
        text[zeros] = b'0';
        text[zeros + 1] = b'x';
        let shortest = std::str::from_utf8(&text[zeros..]).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(shortest)
    }
}

impl<T: QuantityNumber> Described for Quantity<T> {
    const TYPE: WireType = WireType::Named("QUANTITY");
}

impl Quantity<u64> {
    /// Reads a QUANTITY of at most 64 bits.
    ///
    /// # Errors
    /// The error names the rule that `text` breaks.
    pub fn decode(text: &str) -> Result<Self, ParamError> {
        let digits = quantity_digits(text)?;
        if digits.len() > 16 {
            return Err(ParamError::TooLarge { bits: 64 });
        }
        Ok(Self(number_of(digits)))
    }
}

impl Quantity<U256> {
    /// Reads a QUANTITY of at most 256 bits.
    ///
    /// # Errors
    /// The error names the rule that `text` breaks.
    pub fn decode(text: &str) -> Result<Self, ParamError> {
        let digits = quantity_digits(text)?;
        if digits.len() > 64 {
            return Err(ParamError::TooLarge { bits: 256 });
        }
        let mut bytes = [0_u8; 32];
        for (position, digit) in digits.bytes().rev().enumerate() {
            bytes[31 - position / 2] |= digit_value(digit) << (4 * (position % 2));
        }
        Ok(Self(U256::from_be_bytes(bytes)))
    }
}

/// The digits of a QUANTITY, after all rules but the size were checked.
fn quantity_digits(text: &str) -> Result<&str, ParamError> {
    let digits = hex_digits(text)?;
    match digits.as_bytes() {
        [] => Err(ParamError::NoDigits),
        [b'0', _, ..] => Err(ParamError::LeadingZero),
        _ => Ok(digits),
    }
}

/// The text after the prefix `0x`: nothing but hex digits, if any.
fn hex_digits(text: &str) -> Result<&str, ParamError> {
    let digits = text.strip_prefix("0x").ok_or(ParamError::MissingPrefix)?;
    match digits.chars().find(|digit| !digit.is_ascii_hexdigit()) {
        Some(digit) => Err(ParamError::Digit(digit)),
        None => Ok(digits),
    }
}

/// The value of at most 16 hex digits.
fn number_of(digits: &str) -> u64 {
    digits
        .bytes()
        .fold(0, |value, digit| value << 4 | u64::from(digit_value(digit)))
}

/// The value of a hex digit. [`hex_digits`] has checked that it is one.
const fn digit_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// Bytes as DATA: `0x` and two hex digits for each byte. No bytes are `0x`.
///
/// Everything with bytes can be written: a hash, an address, a slice.
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

/// Writes `bytes` as DATA into `text`, which must be long enough. Returns the part that was
/// written.
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
    /// The error names the rule that `text` breaks.
    pub fn decode(text: &str) -> Result<Self, ParamError> {
        hex::decode(data_digits(text)?)
            .map(Data)
            .map_err(|_| ParamError::OddDigits)
    }
}

impl<const N: usize> Data<[u8; N]> {
    /// Reads DATA of exactly `N` bytes.
    ///
    /// # Errors
    /// The error names the rule that `text` breaks.
    pub fn decode_fixed(text: &str) -> Result<Self, ParamError> {
        let digits = data_digits(text)?;
        if digits.len() != 2 * N {
            return Err(ParamError::Length {
                expected: N,
                got: digits.len() / 2,
            });
        }
        let mut bytes = [0_u8; N];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| ParamError::OddDigits)?;
        Ok(Self(bytes))
    }
}

/// The digits of DATA: an even number of hex digits.
fn data_digits(text: &str) -> Result<&str, ParamError> {
    let digits = hex_digits(text)?;
    if digits.len() % 2 != 0 {
        return Err(ParamError::OddDigits);
    }
    Ok(digits)
}

/// `value` as QUANTITY text.
pub fn quantity(value: impl LowerHex) -> String {
    format!("{value:#x}")
}

/// `bytes` as DATA text.
pub fn data(bytes: impl AsRef<[u8]>) -> String {
    // The vectorised encoder of const-hex. Its decoder is not used for reading, because it
    // skips a prefix by itself: `0x0x12` would pass.
    alloy_primitives::hex::encode_prefixed(bytes)
}

/// The tag `safe` names the block this far below the head.
pub(crate) const SAFE_DEPTH: u64 = 32;
/// The tag `finalized` names the block this far below the head. From this depth on, old blocks move
/// into the blocks file.
pub(crate) const FINALIZED_DEPTH: u64 = 256;

/// The block that a parameter names. An absent parameter names the highest block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockRef {
    /// The block of this number.
    Number(u64),
    /// The genesis block.
    Earliest,
    /// The highest block.
    #[default]
    Latest,
    /// The block that is being built.
    Pending,
    /// The block `SAFE_DEPTH` below the head, or the genesis block.
    Safe,
    /// The block `FINALIZED_DEPTH` below the head, or the genesis block.
    Finalized,
    /// The block of this hash (EIP-1898).
    Hash {
        /// The hash.
        hash: B256,
        /// Whether the block must be canonical.
        require_canonical: bool,
    },
}

impl BlockRef {
    /// The number that the reference stands for while block `head` is the highest one. `None` for
    /// the pending block and for a hash.
    pub const fn number(self, head: u64) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Earliest => Some(0),
            Self::Latest => Some(head),
            Self::Safe => Some(head.saturating_sub(SAFE_DEPTH)),
            Self::Finalized => Some(head.saturating_sub(FINALIZED_DEPTH)),
            Self::Pending | Self::Hash { .. } => None,
        }
    }

    /// Reads a number, a tag or a hash. Unlike a QUANTITY, the number may have leading zeros,
    /// because many clients write block 0 as `0x00`, and its meaning is clear.
    ///
    /// # Errors
    /// The error names the rule that `text` breaks.
    pub fn decode(text: &str) -> Result<Self, ParamError> {
        match text {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            "pending" => Ok(Self::Pending),
            "safe" => Ok(Self::Safe),
            "finalized" => Ok(Self::Finalized),
            _ => match padded_number(text) {
                Ok(number) => Ok(Self::Number(number)),
                // `geth` takes 32 bytes for a hash, too. No number of a block has so many digits.
                Err(ParamError::TooLarge { .. }) if text.len() == "0x".len() + 64 => {
                    Data::<[u8; 32]>::decode_fixed(text).map(|hash| Self::Hash {
                        hash: hash.0.into(),
                        require_canonical: false,
                    })
                }
                Err(reason) => Err(ParamError::BlockRef(Box::new(reason))),
            },
        }
    }
}

/// A number of at most 64 bits in hex digits, with or without leading zeros.
fn padded_number(text: &str) -> Result<u64, ParamError> {
    let digits = hex_digits(text)?;
    if digits.is_empty() {
        return Err(ParamError::NoDigits);
    }
    match digits.trim_start_matches('0') {
        "" => Ok(0),
        shortest if shortest.len() > 16 => Err(ParamError::TooLarge { bits: 64 }),
        shortest => Ok(number_of(shortest)),
    }
}

/// A plain JSON number of up to 64 bits. Few parts of the interface have plain numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Integer(pub u64);

impl Described for Integer {
    const TYPE: WireType = WireType::Named("Number");
}

/// A plain JSON number of up to 256 bits. Only for results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlainNumber(pub U256);

impl Described for PlainNumber {
    const TYPE: WireType = WireType::Named("Number");
}

impl Serialize for PlainNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits = RawValue::from_string(self.0.to_string()).map_err(serde::ser::Error::custom)?;
        digits.serialize(serializer)
    }
}

/// A plain JSON number that need not be whole. Only for results.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct Fraction(pub f64);

impl Described for Fraction {
    const TYPE: WireType = WireType::Named("Fraction");
}

/// A plain JSON number from 0 to 100 that need not be whole. Only for parameters.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Percentile(pub f64);

/// A plain JSON number or a QUANTITY, for methods whose clients write either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_quantity(text: &str, expected: Result<u64, ParamError>) {
        assert_eq!(
            Quantity::<u64>::decode(text).map(|value| value.0),
            expected,
            "{text}"
        );
        let wide = Quantity::<U256>::decode(text).map(|value| value.0);
        if expected != Err(ParamError::TooLarge { bits: 64 }) {
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
        check_quantity("0x10000000000000000", Err(ParamError::TooLarge { bits: 64 }));
        check_quantity("0x", Err(ParamError::NoDigits));
        check_quantity("0x0400", Err(ParamError::LeadingZero));
        check_quantity("0x00", Err(ParamError::LeadingZero));
        check_quantity("ff", Err(ParamError::MissingPrefix));
        check_quantity("1", Err(ParamError::MissingPrefix));
        check_quantity("", Err(ParamError::MissingPrefix));
        check_quantity("0X1", Err(ParamError::MissingPrefix));
        check_quantity("0x1g", Err(ParamError::Digit('g')));
        check_quantity("0x-1", Err(ParamError::Digit('-')));
        check_quantity("0x1 ", Err(ParamError::Digit(' ')));
        check_quantity("0xé", Err(ParamError::Digit('é')));
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
            Err(ParamError::TooLarge { bits: 256 })
        );
    }

    #[track_caller]
    fn check_data(text: &str, expected: Result<&[u8], ParamError>) {
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
        check_data("0xf0f0f", Err(ParamError::OddDigits));
        check_data("004200", Err(ParamError::MissingPrefix));
        check_data("0x0x12", Err(ParamError::Digit('x')));
        check_data("0xzz", Err(ParamError::Digit('z')));
    }

    #[test]
    fn data_of_fixed_length() {
        assert_eq!(Data::<[u8; 2]>::decode_fixed("0x0102"), Ok(Data([1, 2])));
        assert_eq!(
            Data::<[u8; 2]>::decode_fixed("0x01"),
            Err(ParamError::Length { expected: 2, got: 1 })
        );
        assert_eq!(Data::<[u8; 2]>::decode_fixed("0x010"), Err(ParamError::OddDigits));
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
