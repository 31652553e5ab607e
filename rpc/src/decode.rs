//! From the JSON text of one value to the value: numbers, bytes, block references, arrays, objects.
//!
//! The fields of objects are read with [`ParamFields`], by the same decoders as parameters. So the
//! encodings are strict everywhere, and an error names the field. The positions of parameters are
//! in [`crate::params`], whose tests cover both modules.

use std::borrow::Cow;
use std::fmt;

use alloy_primitives::{Address, B64, B256, U256};
use primitives::parse_address;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::cut_name;
use crate::types::{BlockRef, Count, Data, Integer, ParamError, Percentile, Quantity};
use crate::wire_type::WireType;

/// Most fields of an object within parameters.
const FIELDS_MAX: usize = 64;
/// Most elements of an array within parameters.
const ELEMENTS_MAX: usize = 1024;

/// One parameter, or one field of an object within a parameter.
pub trait FromParam: Sized {
    /// The type on the wire. For an optional parameter it is the type of the value, without null.
    const TYPE: WireType;

    /// Reads the value from its JSON text, which is never `null`.
    ///
    /// # Errors
    /// [`ParamError`] if the text is not a value of this type.
    fn from_json(json: &str) -> Result<Self, ParamError>;

    /// The value of an absent parameter. `None` if the parameter is required.
    fn absent() -> Option<Self> {
        None
    }
}

macro_rules! string_param {
    ($type:ty, $name:literal, $expected:literal, $decode:expr) => {
        impl FromParam for $type {
            const TYPE: WireType = WireType::Named($name);

            fn from_json(json: &str) -> Result<Self, ParamError> {
                string(json, $expected).and_then(|text| $decode(&text))
            }
        }
    };
}

string_param!(Quantity<u64>, "QUANTITY", "a hex string", Self::decode);
string_param!(Quantity<U256>, "QUANTITY", "a hex string", Self::decode);
string_param!(Data, "DATA", "a hex string", Self::decode);
string_param!(Address, "DATA20", "a hex string", |text: &str| {
    Data::decode_fixed(text).map(|data| data.0.into())
});
/// An address as a person may have written it: capital letters are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenAddress(pub Address);

string_param!(WrittenAddress, "DATA20", "a hex string", Self::decode);

impl WrittenAddress {
    /// The address of a text.
    ///
    /// # Errors
    /// [`ParamError`] if it is none, or its capital letters are not those of its checksum.
    pub(crate) fn decode(text: &str) -> Result<Self, ParamError> {
        Data::<[u8; 20]>::decode_fixed(text)?;
        parse_address(text).map(Self).map_err(ParamError::Address)
    }
}

string_param!(B256, "DATA32", "a hex string", |text: &str| Data::decode_fixed(
    text
)
.map(|data| data.0.into()));
string_param!(B64, "DATA8", "a hex string", |text: &str| Data::decode_fixed(
    text
)
.map(|data| data.0.into()));
string_param!(String, "String", "a string", |text: &str| Ok(text.to_owned()));

impl FromParam for BlockRef {
    const TYPE: WireType = WireType::Named("BLOCKREF");

    /// Reads a number, a tag, a hash, or an object as in EIP-1898. The number may also be a plain
    /// JSON number, because its meaning is clear.
    fn from_json(json: &str) -> Result<Self, ParamError> {
        if json.starts_with('{') {
            return block_object(json);
        }
        match Integer::from_json(json) {
            Ok(Integer(number)) => Ok(Self::Number(number)),
            Err(ParamError::Integer) => Err(ParamError::BlockRef(Box::new(ParamError::Integer))),
            Err(_) => Self::decode(&string(json, "a block number or tag")?),
        }
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }
}

/// A block as an object with its number or its hash (EIP-1898).
fn block_object(json: &str) -> Result<BlockRef, ParamError> {
    let fields = ParamFields::read(json)?;
    let number: Option<Count> = fields.get("blockNumber")?;
    let hash: Option<B256> = fields.get("blockHash")?;
    let require_canonical: Option<bool> = fields.get("requireCanonical")?;
    match (number, hash) {
        (Some(Count(number)), None) => Ok(BlockRef::Number(number)),
        (None, Some(hash)) => Ok(BlockRef::Hash {
            hash,
            require_canonical: require_canonical.unwrap_or_default(),
        }),
        (number, _) => Err(ParamError::Rule(format!(
            "got {} of blockNumber and blockHash, expected one of them",
            if number.is_some() { "both" } else { "none" }
        ))),
    }
}

impl FromParam for bool {
    const TYPE: WireType = WireType::Named("Boolean");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        match json {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(ParamError::Type {
                expected: "a Boolean",
                got: json_type(json),
            }),
        }
    }
}

impl FromParam for Integer {
    const TYPE: WireType = WireType::Named("Number");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        match json.as_bytes().first() {
            Some(b'-' | b'0'..=b'9') => json.parse().map(Self).map_err(|_| ParamError::Integer),
            _ => Err(ParamError::Type {
                expected: "a number",
                got: json_type(json),
            }),
        }
    }
}

impl FromParam for Count {
    const TYPE: WireType = WireType::Named("COUNT");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        if json.starts_with('"') {
            Quantity::<u64>::from_json(json).map(|number| Self(number.0))
        } else {
            Integer::from_json(json).map(|number| Self(number.0))
        }
    }
}

impl FromParam for Percentile {
    const TYPE: WireType = WireType::Named("Percentile");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let got = match json.as_bytes().first() {
            Some(b'-' | b'0'..=b'9') => json.parse().ok(),
            _ => None,
        };
        got.filter(|number: &f64| (0.0..=100.0).contains(number))
            .map(Self)
            .ok_or_else(|| ParamError::Rule("expected a number from 0 to 100".to_owned()))
    }
}

impl<T: FromParam> FromParam for Option<T> {
    const TYPE: WireType = T::TYPE;

    fn from_json(json: &str) -> Result<Self, ParamError> {
        T::from_json(json).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

/// An array. Its elements may be null if `T` may be absent.
impl<T: FromParam> FromParam for Vec<T> {
    const TYPE: WireType = WireType::Array(&T::TYPE);

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let ArrayMembers { members, count } = array_members(json)?;
        if count > ELEMENTS_MAX {
            return Err(ParamError::TooMany {
                got: count,
                max: ELEMENTS_MAX,
            });
        }
        let members = members.into_iter().enumerate();
        members.map(|(index, member)| element(index, member)).collect()
    }
}

/// Reads an array of exactly two elements, which may have different types.
///
/// # Errors
/// If `json` is not an array of two elements, or if one of them cannot be read.
pub(crate) fn pair<A: FromParam, B: FromParam>(json: &str) -> Result<(A, B), ParamError> {
    let ArrayMembers { members, count } = array_members(json)?;
    match members[..] {
        [first, second] if count == 2 => Ok((element(0, first)?, element(1, second)?)),
        _ => Err(ParamError::Rule(format!(
            "got {count} element{}, expected 2",
            if count == 1 { "" } else { "s" }
        ))),
    }
}

fn array_members(json: &str) -> Result<ArrayMembers<'_>, ParamError> {
    if !json.starts_with('[') {
        return Err(ParamError::Type {
            expected: "an array",
            got: json_type(json),
        });
    }
    serde_json::from_str(json).map_err(|error| ParamError::Rule(error.to_string()))
}

fn element<T: FromParam>(index: usize, member: &RawValue) -> Result<T, ParamError> {
    let null = ParamError::Type {
        expected: "a value",
        got: "null",
    };
    value_or_absent(member.get(), null).map_err(|reason| ParamError::Element {
        index,
        reason: Box::new(reason),
    })
}

/// The members of an array as JSON text, at most [`ELEMENTS_MAX`] of them.
struct ArrayMembers<'a> {
    members: Vec<&'a RawValue>,
    /// The number of members of the array.
    count: usize,
}

impl<'de> Deserialize<'de> for ArrayMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ArrayVisitor)
    }
}

struct ArrayVisitor;

impl<'de> Visitor<'de> for ArrayVisitor {
    type Value = ArrayMembers<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let (mut members, mut count) = (Vec::new(), 0);
        // The text of a member costs more memory than a short member does in the request.
        while let Some(member) = array.next_element()? {
            count += 1;
            if count <= ELEMENTS_MAX {
                members.push(member);
            }
        }
        Ok(ArrayMembers { members, count })
    }
}

fn value_or_absent<T: FromParam>(json: &str, missing: ParamError) -> Result<T, ParamError> {
    match json {
        "null" => T::absent().ok_or(missing),
        _ => T::from_json(json),
    }
}

/// The fields of an object within a parameter. Unknown fields are ignored.
///
/// A type that is an object on the wire implements [`FromParam`] with [`Self::read`] and
/// [`Self::get`].
#[derive(Debug)]
pub struct ParamFields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> ParamFields<'a> {
    /// Reads the names of the fields, and their values as text.
    ///
    /// # Errors
    /// If `json` is not an object, if a field appears twice, or if there are too many fields.
    pub fn read(json: &'a str) -> Result<Self, ParamError> {
        let fields = Self::read_members(json, FIELDS_MAX)?;
        for (position, (name, _)) in fields.0.iter().enumerate() {
            if fields.0[..position].iter().any(|(earlier, _)| earlier == name) {
                return Err(ParamError::RepeatedField(cut_name(name)));
            }
        }
        Ok(fields)
    }

    /// Reads the members of an object that has at most `max`.
    fn read_members(json: &'a str, max: usize) -> Result<Self, ParamError> {
        if !json.starts_with('{') {
            return Err(ParamError::Type {
                expected: "an object",
                got: json_type(json),
            });
        }
        let fields: Self = serde_json::from_str(json).map_err(|error| ParamError::Rule(error.to_string()))?;
        if fields.0.len() > max {
            return Err(ParamError::TooMany {
                got: fields.0.len(),
                max,
            });
        }
        Ok(fields)
    }

    /// Reads the field `name`. A field that is null counts as absent.
    ///
    /// # Errors
    /// If the field is required and absent, or cannot be read.
    pub fn get<T: FromParam>(&self, name: &'static str) -> Result<T, ParamError> {
        let json = self.json(name).unwrap_or("null");
        match value_or_absent(json, ParamError::MissingField(name)) {
            Err(missing @ ParamError::MissingField(field)) if field == name => Err(missing),
            Err(reason) => Err(ParamError::Field {
                name,
                reason: Box::new(reason),
            }),
            Ok(value) => Ok(value),
        }
    }

    /// The JSON text of the field `name`, if it is present.
    pub fn json(&self, name: &str) -> Option<&'a str> {
        self.0
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.get())
    }
}

impl<'de> Deserialize<'de> for ParamFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The name of a field. It is borrowed if it has no escapes.
        #[derive(Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = ParamFields<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &RawValue>()? {
                    // One member more than allowed is kept, so that the object is refused.
                    if fields.len() <= ELEMENTS_MAX {
                        fields.push((name, value));
                    }
                }
                Ok(ParamFields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// Reads an object whose members have no fixed names. `member` gets the name and the JSON text of
/// each.
///
/// # Errors
/// If `json` is not an object, if it has more than [`ELEMENTS_MAX`] members, and any error of
/// `member`.
pub(crate) fn read_map<T>(
    json: &str,
    member: impl FnMut((&str, &str)) -> Result<T, ParamError>,
) -> Result<Vec<T>, ParamError> {
    let members = ParamFields::read_members(json, ELEMENTS_MAX)?;
    let named = members.0.iter().map(|(name, value)| (name.as_ref(), value.get()));
    named.map(member).collect()
}

/// The text of a JSON string.
///
/// # Errors
/// If `json` is of another type than a string, or has an invalid escape. `expected` says in the
/// error what the text should be.
pub(crate) fn string<'a>(json: &'a str, expected: &'static str) -> Result<Cow<'a, str>, ParamError> {
    let Some(quoted) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Err(ParamError::Type {
            expected,
            got: json_type(json),
        });
    };
    if quoted.contains('\\') {
        serde_json::from_str(json)
            .map(Cow::Owned)
            .map_err(|_| ParamError::Escape)
    } else {
        Ok(Cow::Borrowed(quoted))
    }
}

/// The type of a JSON text, in words.
pub(crate) const fn json_type(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a Boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which block a reference names, or why it names none. The decisions are in
    /// docs/differences.md, 3.
    #[test]
    fn block_references() {
        use BlockRef::{Earliest, Finalized, Latest, Number, Pending, Safe};
        let most = u64::MAX;
        let padded = format!("\"0x{:064x}\"", 5);
        for (json, expected) in [
            ("\"earliest\"", Earliest),
            ("\"latest\"", Latest),
            ("\"pending\"", Pending),
            ("\"safe\"", Safe),
            ("\"finalized\"", Finalized),
            ("\"0x0\"", Number(0)),
            ("\"0x10\"", Number(16)),
            ("\"0xffffffffffffffff\"", Number(most)),
            // Leading zeros.
            ("\"0x00\"", Number(0)),
            ("\"0x0400\"", Number(1024)),
            ("\"0x000000000000000000000000\"", Number(0)),
            (padded.as_str(), Number(5)),
            ("\"0x0ffffffffffffffff\"", Number(most)),
            // Plain numbers.
            ("0", Number(0)),
            ("5", Number(5)),
            ("18446744073709551615", Number(most)),
        ] {
            assert_eq!(BlockRef::from_json(json), Ok(expected), "{json}");
        }
        assert_eq!(BlockRef::absent(), Some(Latest));
        let listed = "expected a block number, a hash of 32 bytes, or one of earliest, latest, pending, safe, finalized";
        for (json, reason) in [
            ("\"\"", "missing 0x prefix"),
            ("\"5\"", "missing 0x prefix"),
            ("\"newest\"", "missing 0x prefix"),
            ("\"Latest\"", "missing 0x prefix"),
            ("\"0X5\"", "missing 0x prefix"),
            ("\"0x\"", "expected at least one hex digit after 0x"),
            ("\"0xg\"", "invalid hex digit 'g'"),
            ("\"0x-1\"", "invalid hex digit '-'"),
            ("\"0x10000000000000000\"", "number does not fit 64 bits"),
            ("-1", "expected a whole number of at most 64 bits"),
            ("1.5", "expected a whole number of at most 64 bits"),
            ("1e3", "expected a whole number of at most 64 bits"),
            (
                "18446744073709551616",
                "expected a whole number of at most 64 bits",
            ),
        ] {
            let got = BlockRef::from_json(json).expect_err("refused").to_string();
            assert_eq!(got, format!("{listed}: {reason}"), "{json}");
        }
        for (json, got) in [("true", "a Boolean"), ("[]", "an array")] {
            let expected = format!("got {got}, expected a block number or tag");
            assert_eq!(
                BlockRef::from_json(json).expect_err("refused").to_string(),
                expected
            );
        }
    }

    #[test]
    fn blocks_as_objects() {
        let hash = B256::repeat_byte(7);
        let of_hash = |require_canonical| {
            Ok(BlockRef::Hash {
                hash,
                require_canonical,
            })
        };
        let check = |json: &str, expected: Result<BlockRef, &str>| {
            let got = BlockRef::from_json(json).map_err(|error| error.to_string());
            assert_eq!(got, expected.map_err(str::to_owned), "{json}");
        };
        check(r#"{"blockNumber":"0x10"}"#, Ok(BlockRef::Number(16)));
        check(r#"{"blockNumber":7,"blockHash":null}"#, Ok(BlockRef::Number(7)));
        check(&format!(r#"{{"blockHash":"{hash}"}}"#), of_hash(false));
        check(
            &format!(r#"{{"blockHash":"{hash}","requireCanonical":true}}"#),
            of_hash(true),
        );
        check(&format!("\"{hash}\""), of_hash(false));
        check(
            "{}",
            Err("got none of blockNumber and blockHash, expected one of them"),
        );
        check(
            &format!(r#"{{"blockHash":"{hash}","blockNumber":"0x1"}}"#),
            Err("got both of blockNumber and blockHash, expected one of them"),
        );
        check(
            r#"{"blockHash":"0x12"}"#,
            Err("field blockHash: got 1 byte, expected 32 bytes"),
        );
        check(
            r#"{"blockNumber":"latest"}"#,
            Err("field blockNumber: missing 0x prefix"),
        );
        check(
            r#"{"blockNumber":"0x1","requireCanonical":1}"#,
            Err("field requireCanonical: got a number, expected a Boolean"),
        );
    }

    #[test]
    fn tags_below_the_head() {
        use crate::types::{FINALIZED_DEPTH, SAFE_DEPTH};
        assert_eq!(BlockRef::Safe.number(1000), Some(1000 - SAFE_DEPTH));
        assert_eq!(BlockRef::Finalized.number(1000), Some(1000 - FINALIZED_DEPTH));
        assert_eq!(BlockRef::Safe.number(5), Some(0));
        assert_eq!(BlockRef::Finalized.number(5), Some(0));
        assert_eq!(BlockRef::Pending.number(5), None);
    }
}
