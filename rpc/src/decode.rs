//! From the JSON text of one value to the value: numbers, bytes, block references, arrays, objects.
//!
//! Objects are read member by member with [`Fields`], by the same decoders as parameters, so that
//! the strict encodings hold everywhere and an error names the member. Which parameter a value is
//! belongs to [`crate::params`], whose tests cover both.

use std::borrow::Cow;
use std::fmt;

use alloy_primitives::{Address, B64, B256, U256};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::types::{BlockRef, Count, Data, DecodeError, Integer, Quantity};
use crate::wire_type::WireType;

/// Most members an object within parameters can have.
const FIELDS_MAX: usize = 64;
/// Most members an array within parameters can have.
const ELEMENTS_MAX: usize = 1024;

/// One parameter, or one member of an object within a parameter.
pub trait FromParam: Sized {
    /// The type on the wire. For a type that may be absent, the type of a value that is there.
    const TYPE: WireType;

    /// Reads the value from its JSON text, which is never `null`.
    ///
    /// # Errors
    /// Names what was expected and what was found.
    fn from_json(json: &str) -> Result<Self, DecodeError>;

    /// The value where none is given; `None` where one is required.
    fn absent() -> Option<Self> {
        None
    }
}

macro_rules! string_param {
    ($type:ty, $name:literal, $expected:literal, $decode:expr) => {
        impl FromParam for $type {
            const TYPE: WireType = WireType::Named($name);

            fn from_json(json: &str) -> Result<Self, DecodeError> {
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

    fn from_json(json: &str) -> Result<Self, DecodeError> {
        Self::decode(&string(json, "a block number or tag")?)
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }
}

impl FromParam for bool {
    const TYPE: WireType = WireType::Named("Boolean");

    fn from_json(json: &str) -> Result<Self, DecodeError> {
        match json {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(DecodeError::Type {
                expected: "a Boolean",
                got: json_type(json),
            }),
        }
    }
}

impl FromParam for Integer {
    const TYPE: WireType = WireType::Named("Number");

    fn from_json(json: &str) -> Result<Self, DecodeError> {
        match json.as_bytes().first() {
            Some(b'-' | b'0'..=b'9') => json.parse().map(Self).map_err(|_| DecodeError::Integer),
            _ => Err(DecodeError::Type {
                expected: "a number",
                got: json_type(json),
            }),
        }
    }
}

impl FromParam for Count {
    const TYPE: WireType = WireType::Named("COUNT");

    fn from_json(json: &str) -> Result<Self, DecodeError> {
        if json.starts_with('"') {
            Quantity::<u64>::from_json(json).map(|number| Self(number.0))
        } else {
            Integer::from_json(json).map(|number| Self(number.0))
        }
    }
}

impl<T: FromParam> FromParam for Option<T> {
    const TYPE: WireType = T::TYPE;

    fn from_json(json: &str) -> Result<Self, DecodeError> {
        T::from_json(json).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

/// An array whose members may be null where `T` allows that.
impl<T: FromParam> FromParam for Vec<T> {
    const TYPE: WireType = WireType::Array(&T::TYPE);

    fn from_json(json: &str) -> Result<Self, DecodeError> {
        if !json.starts_with('[') {
            return Err(DecodeError::Type {
                expected: "an array",
                got: json_type(json),
            });
        }
        let members: Vec<&RawValue> =
            serde_json::from_str(json).map_err(|error| DecodeError::Rule(error.to_string()))?;
        if members.len() > ELEMENTS_MAX {
            return Err(DecodeError::TooMany {
                got: members.len(),
                max: ELEMENTS_MAX,
            });
        }
        let read = |(index, member): (usize, &&RawValue)| {
            value_or_absent(
                member.get(),
                DecodeError::Type {
                    expected: "a value",
                    got: "null",
                },
            )
            .map_err(|reason| DecodeError::Element {
                index,
                reason: Box::new(reason),
            })
        };
        members.iter().enumerate().map(read).collect()
    }
}

fn value_or_absent<T: FromParam>(json: &str, missing: DecodeError) -> Result<T, DecodeError> {
    match json {
        "null" => T::absent().ok_or(missing),
        _ => T::from_json(json),
    }
}

/// The members of an object within a parameter; unknown ones are ignored.
///
/// For an implementation of [`FromParam`] on a type that is an object on the wire.
#[derive(Debug)]
pub struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Takes an object apart.
    ///
    /// # Errors
    /// If `json` is no object, repeats a member or has more members than any method could use.
    pub fn read(json: &'a str) -> Result<Self, DecodeError> {
        if !json.starts_with('{') {
            return Err(DecodeError::Type {
                expected: "an object",
                got: json_type(json),
            });
        }
        let fields: Self =
            serde_json::from_str(json).map_err(|error| DecodeError::Rule(error.to_string()))?;
        if fields.0.len() > FIELDS_MAX {
            return Err(DecodeError::TooMany {
                got: fields.0.len(),
                max: FIELDS_MAX,
            });
        }
        for (position, (name, _)) in fields.0.iter().enumerate() {
            if fields.0[..position].iter().any(|(earlier, _)| earlier == name) {
                return Err(DecodeError::RepeatedField(name.clone().into_owned()));
            }
        }
        Ok(fields)
    }

    /// Reads the member `name`; absent and null are the same.
    ///
    /// # Errors
    /// If it is required and absent, or cannot be read.
    pub fn get<T: FromParam>(&self, name: &'static str) -> Result<T, DecodeError> {
        let json = self.json(name).unwrap_or("null");
        match value_or_absent(json, DecodeError::MissingField(name)) {
            Err(missing @ DecodeError::MissingField(field)) if field == name => Err(missing),
            Err(reason) => Err(DecodeError::Field {
                name,
                reason: Box::new(reason),
            }),
            Ok(value) => Ok(value),
        }
    }

    /// The JSON text of the member `name`, if there is one.
    pub fn json(&self, name: &str) -> Option<&'a str> {
        self.0
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.get())
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A member's name, borrowed where it has no escapes.
        #[derive(Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Fields<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &RawValue>()? {
                    // One more than allowed is kept: enough for `read` to refuse the object.
                    if fields.len() <= FIELDS_MAX {
                        fields.push((name, value));
                    }
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// The text of a JSON string.
///
/// # Errors
/// If `json` is of another type than a string, or has an invalid escape. `expected` says in the error
/// what the text should be.
pub fn string<'a>(json: &'a str, expected: &'static str) -> Result<Cow<'a, str>, DecodeError> {
    let Some(quoted) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Err(DecodeError::Type {
            expected,
            got: json_type(json),
        });
    };
    if quoted.contains('\\') {
        serde_json::from_str(json)
            .map(Cow::Owned)
            .map_err(|_| DecodeError::Escape)
    } else {
        Ok(Cow::Borrowed(quoted))
    }
}

/// The type of a JSON text, in words.
pub fn json_type(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a Boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}
