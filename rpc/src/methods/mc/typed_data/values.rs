//! The values of typed data and their hashes (EIP-712, `encodeData` and `hashStruct`).
//!
//! A value is hashed while it is read, so that its members are never in memory together. Arrays and
//! structs within each other are read by recursion, to a depth of [`VALUE_DEPTH_MAX`].

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use alloy_dyn_abi::DynSolType;
use alloy_primitives::Keccak256;
use chain::query_limit::QueryLimit;
use primitives::{B256, hex, keccak256};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::types::{MemberStem, NAME_LEN_MAX, StructTypes, rule};
use crate::types::ParamError;

/// Deepest nesting of arrays and structs in a value. The array that a type's suffix names counts.
pub(super) const VALUE_DEPTH_MAX: usize = 32;
/// After this many values the reader asks whether anybody still waits.
const CHECK_INTERVAL: u32 = 1024;

/// Reads values of these types.
pub(super) struct ValueReader<'t> {
    types: &'t StructTypes,
    limit: &'t QueryLimit,
    /// Whether a member that its type does not have is an error. Otherwise it is passed over.
    refuses_unknown: bool,
    /// Values read so far.
    count: Cell<u32>,
}

impl<'t> ValueReader<'t> {
    /// The work ends early when `limit` says so.
    pub(super) const fn new(types: &'t StructTypes, limit: &'t QueryLimit) -> Self {
        Self {
            types,
            limit,
            refuses_unknown: false,
            count: Cell::new(0),
        }
    }

    /// Makes a member that its type does not have an error.
    pub(super) const fn refusing_unknown_members(self) -> Self {
        Self {
            refuses_unknown: true,
            ..self
        }
    }

    /// The hash of a value of the struct type `name`. Errors call the value `part`.
    ///
    /// # Errors
    /// If the value is not of this type, or nested too deeply, and when nobody waits any more.
    pub(super) fn hash_struct(&self, part: &str, name: &str, json: &str) -> Result<B256, ParamError> {
        let stem = MemberStem::Struct(name.to_owned());
        let mut reader = serde_json::Deserializer::from_str(json);
        let root = ValueSeed {
            reader: self,
            name: part,
            stem: &stem,
            suffixes: &[],
            depth: 0,
        };
        let hash = root.deserialize(&mut reader);
        hash.and_then(|hash| reader.end().map(|()| hash))
            .map_err(|error| rule(format!("{part}: {error}")))
    }
}

/// A value that is to be read. Its result is the word that stands for it in the hash of its struct.
#[derive(Clone, Copy)]
struct ValueSeed<'r> {
    reader: &'r ValueReader<'r>,
    /// The member of which the value is, or is an element.
    name: &'r str,
    stem: &'r MemberStem,
    /// The arrays around the value's elements, the innermost first.
    suffixes: &'r [Option<usize>],
    depth: usize,
}

impl<'r> ValueSeed<'r> {
    fn expected(&self) -> Cow<'r, str> {
        match (self.suffixes, self.stem) {
            ([], MemberStem::Basic(basic)) => basic.sol_type_name(),
            ([], MemberStem::Struct(name)) => Cow::Owned(format!("an object of type {name}")),
            _ => Cow::Borrowed("an array"),
        }
    }

    fn wrong<E: Error>(&self, got: impl fmt::Display) -> E {
        E::custom(format_args!(
            "member {}: got {got}, expected {}",
            self.name,
            self.expected()
        ))
    }

    /// The word of a value of a basic type.
    fn basic<E: Error>(&self, got: &str, value: impl Into<Value>) -> Result<B256, E> {
        let word = match (self.suffixes, self.stem) {
            ([], MemberStem::Basic(basic)) => basic.coerce_json(&value.into()).ok(),
            _ => None,
        };
        word.and_then(|value| value.as_word())
            .ok_or_else(|| self.wrong(got))
    }

    /// The depth within this array or struct.
    fn inner_depth<E: Error>(&self) -> Result<usize, E> {
        if self.depth == VALUE_DEPTH_MAX {
            return Err(self.wrong(format_args!(
                "a value nested deeper than {VALUE_DEPTH_MAX} levels"
            )));
        }
        Ok(self.depth + 1)
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = B256;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<B256, D::Error> {
        let count = self.reader.count.get().wrapping_add(1);
        self.reader.count.set(count);
        if count.is_multiple_of(CHECK_INTERVAL) {
            self.reader.limit.check().map_err(D::Error::custom)?;
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = B256;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.expected())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<B256, E> {
        self.basic("a Boolean", value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<B256, E> {
        self.basic("a number", value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<B256, E> {
        self.basic("a number", value)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<B256, E> {
        Err(self.wrong("a number that is not a whole one of 64 bits"))
    }

    fn visit_unit<E: Error>(self) -> Result<B256, E> {
        Err(self.wrong("null"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<B256, E> {
        match (self.suffixes, self.stem) {
            ([], MemberStem::Basic(DynSolType::String)) => Ok(keccak256(text.as_bytes())),
            ([], MemberStem::Basic(DynSolType::Bytes)) if is_hex(text) => {
                let bytes = hex::decode(text);
                bytes.map(keccak256).map_err(|_| self.wrong("another string"))
            }
            ([], MemberStem::Basic(basic)) if !is_plain(basic, text) => Err(self.wrong("another string")),
            _ => self.basic("another string", text),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<B256, A::Error> {
        let Some((len, suffixes)) = self.suffixes.split_last() else {
            // Bytes may be an array of numbers.
            if matches!(self.stem, MemberStem::Basic(DynSolType::Bytes)) {
                let mut bytes = Keccak256::new();
                // An error of the library would repeat an element of any length.
                while let Some(element) = array.next_element::<&RawValue>()? {
                    let byte: Result<u8, _> = element.get().parse();
                    bytes.update([byte.map_err(|_| self.wrong("an element that is not a byte"))?]);
                }
                return Ok(bytes.finalize());
            }
            return Err(self.wrong("an array"));
        };
        let element = Self {
            suffixes,
            depth: self.inner_depth()?,
            ..self
        };
        let (mut words, mut count) = (Keccak256::new(), 0);
        while let Some(word) = array.next_element_seed(element)? {
            words.update(word);
            count += 1;
        }
        match len {
            Some(len) if *len != count => Err(A::Error::custom(format_args!(
                "member {}: got {count} elements, expected {len}",
                self.name
            ))),
            _ => Ok(words.finalize()),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<B256, A::Error> {
        /// The name of a member. It is borrowed if it has no escapes.
        #[derive(Deserialize)]
        struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);

        let ([], MemberStem::Struct(name)) = (self.suffixes, self.stem) else {
            return Err(self.wrong("an object"));
        };
        let depth = self.inner_depth()?;
        let types = self.reader.types;
        let definition = types.get(name).map_err(A::Error::custom)?;
        let mut words = vec![None; definition.members.len()];
        while let Some(MemberName(member)) = map.next_key()? {
            let Some(position) = definition.positions.get(&*member) else {
                if self.reader.refuses_unknown {
                    let unknown: String = member.chars().take(NAME_LEN_MAX).collect();
                    return Err(A::Error::custom(format_args!(
                        "type {name}: got the member {unknown:?}, expected only members of this type"
                    )));
                }
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let member = &definition.members[*position];
            if words[*position].is_some() {
                return Err(A::Error::custom(format_args!(
                    "type {name}: member {} given twice",
                    member.name
                )));
            }
            words[*position] = Some(map.next_value_seed(ValueSeed {
                reader: self.reader,
                name: &member.name,
                stem: &member.stem,
                suffixes: &member.suffixes,
                depth,
            })?);
        }
        let mut hashed = Keccak256::new();
        hashed.update(types.type_hash(name).map_err(A::Error::custom)?);
        for (word, member) in words.iter().zip(&definition.members) {
            let missing = || A::Error::custom(format_args!("type {name}: missing member {}", member.name));
            hashed.update(word.ok_or_else(missing)?);
        }
        Ok(hashed.finalize())
    }
}

/// Whether all signers read `text` as the same value of a basic type.
fn is_plain(basic: &DynSolType, text: &str) -> bool {
    match basic {
        DynSolType::Int(_) | DynSolType::Uint(_) => is_integer(text),
        DynSolType::Bytes | DynSolType::FixedBytes(_) | DynSolType::Address | DynSolType::Function => {
            is_hex(text)
        }
        DynSolType::String => true,
        _ => false,
    }
}

/// Whether `text` is an integer in decimal or, after `0x`, in hex. A minus may stand before it.
fn is_integer(text: &str) -> bool {
    let absolute = text.strip_prefix('-').unwrap_or(text);
    let (digits, is_digit): (_, fn(&u8) -> bool) = match absolute.strip_prefix("0x") {
        Some(digits) => (digits, u8::is_ascii_hexdigit),
        None => (absolute, u8::is_ascii_digit),
    };
    !digits.is_empty() && digits.as_bytes().iter().all(is_digit)
}

/// Whether `text` is `0x` and whole bytes in hex.
fn is_hex(text: &str) -> bool {
    text.strip_prefix("0x")
        .is_some_and(|digits| digits.len() % 2 == 0 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
