//! The struct types of typed data, and their hashes (EIP-712, `encodeType` and `typeHash`).
//!
//! A stranger sends these types, and they may form any graph. So nothing here follows one type into
//! another by recursion, no type is ever expanded, and each hash is computed at most once.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use alloy_dyn_abi::DynSolType;
use primitives::{B256, keccak256};
use serde::Deserialize;

use crate::decode::{ParamFields, json_type};
use crate::types::ParamError;

pub(super) const DOMAIN_TYPE: &str = "EIP712Domain";
/// The members of a domain whose type is not declared, with their types, in the standard's order.
const DOMAIN_MEMBERS: [(&str, &str); 5] = [
    ("name", "string"),
    ("version", "string"),
    ("chainId", "uint256"),
    ("verifyingContract", "address"),
    ("salt", "bytes32"),
];
/// Longest JSON text of all types, and of the domain, in bytes. With [`TYPES_MAX`] it bounds the
/// text that is hashed for the types to 8 MiB.
pub(super) const TYPES_LEN_MAX: usize = 64 * 1024;
/// Most types.
pub(super) const TYPES_MAX: usize = 128;
/// Most members of a type.
pub(super) const MEMBERS_MAX: usize = 128;
/// Longest name of a type or of a member, in bytes.
pub(super) const NAME_LEN_MAX: usize = 256;
/// Most array suffixes of a member's type: `uint256[][2]` has two.
pub(super) const ARRAY_SUFFIXES_MAX: usize = 8;

/// The struct types, by name.
pub(super) struct StructTypes(BTreeMap<String, StructDefinition>);

/// The members of a struct type.
pub(super) struct StructDefinition {
    pub(super) members: Vec<StructMember>,
    /// The index of each member, by name.
    pub(super) positions: HashMap<String, usize>,
    type_hash: OnceCell<B256>,
}

/// A member of a struct type.
pub(super) struct StructMember {
    pub(super) name: String,
    /// The type as it was sent.
    text: String,
    pub(super) stem: MemberStem,
    /// The length of each array around the stem, the innermost first. `None` is any length.
    pub(super) suffixes: Vec<Option<usize>>,
}

/// The type of a member without its array suffixes.
pub(super) enum MemberStem {
    /// A type of the language.
    Basic(DynSolType),
    /// The struct type of this name.
    Struct(String),
}

/// A member as it was sent.
#[derive(Deserialize)]
struct SentMember<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    text: Cow<'a, str>,
}

impl StructTypes {
    /// Reads the types from their JSON text.
    ///
    /// # Errors
    /// If the text cannot be read, or is beyond one of the bounds above.
    pub(super) fn read(json: &str) -> Result<Self, ParamError> {
        at_most("types: JSON text", json.len(), TYPES_LEN_MAX, "bytes")?;
        let sent: BTreeMap<Cow<'_, str>, Vec<SentMember<'_>>> =
            serde_json::from_str(json).map_err(|error| rule(format!("types: {error}")))?;
        at_most("types", sent.len(), TYPES_MAX, "types")?;
        let types = sent.into_iter().map(|(name, members)| {
            let definition = StructDefinition::new(&name, members)?;
            Ok((name.into_owned(), definition))
        });
        Ok(Self(types.collect::<Result<_, ParamError>>()?))
    }

    /// The type of a domain that is not declared: the members of the standard that `json` gives.
    /// A member that is null counts as given, so that it is refused later. A signature would be
    /// valid on every chain if its chain id were left out without a word.
    ///
    /// # Errors
    /// If the domain cannot be read.
    pub(super) fn of_domain(json: &str) -> Result<Self, ParamError> {
        let fields = ParamFields::read(json).map_err(|error| rule(format!("domain: {error}")))?;
        let given = DOMAIN_MEMBERS
            .iter()
            .filter(|(name, _)| fields.json(name).is_some());
        let members = given.map(|&(name, text)| SentMember {
            name: name.into(),
            text: text.into(),
        });
        let definition = StructDefinition::new(DOMAIN_TYPE, members.collect())?;
        Ok(Self(BTreeMap::from([(DOMAIN_TYPE.to_owned(), definition)])))
    }

    /// The type `name`.
    ///
    /// # Errors
    /// If there is no such type.
    pub(super) fn get(&self, name: &str) -> Result<&StructDefinition, ParamError> {
        self.0
            .get(name)
            .ok_or_else(|| rule(format!("type {name:?}: got no such type in types, expected one")))
    }

    /// Whether there is a type `name`.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The hash of the type `name`.
    ///
    /// # Errors
    /// If the type, or one that it refers to, does not exist.
    pub(super) fn type_hash(&self, name: &str) -> Result<B256, ParamError> {
        let definition = self.get(name)?;
        if let Some(hash) = definition.type_hash.get() {
            return Ok(*hash);
        }
        let hash = keccak256(self.encode_type(name)?.as_bytes());
        Ok(*definition.type_hash.get_or_init(|| hash))
    }

    /// The type `name`, followed by all types that it refers to, sorted by name.
    fn encode_type(&self, name: &str) -> Result<String, ParamError> {
        let mut referred = BTreeSet::new();
        let mut open = vec![self.get(name)?];
        while let Some(definition) = open.pop() {
            for member in &definition.members {
                if let MemberStem::Struct(inner) = &member.stem
                    && inner != name
                    && referred.insert(inner.as_str())
                {
                    open.push(self.get(inner)?);
                }
            }
        }
        let mut text = String::new();
        for name in std::iter::once(name).chain(referred) {
            self.get(name)?.write(name, &mut text);
        }
        Ok(text)
    }
}

impl StructDefinition {
    fn new(name: &str, sent: Vec<SentMember<'_>>) -> Result<Self, ParamError> {
        check_identifier("a type's name", name)?;
        // Some signers would read a member of this type as a struct, and others as the basic type.
        if DynSolType::parse(name).is_ok() {
            return Err(rule(format!(
                "type {name}: got the name of a basic type, expected another name"
            )));
        }
        at_most(&format!("type {name}"), sent.len(), MEMBERS_MAX, "members")?;
        let mut members = Vec::with_capacity(sent.len());
        let mut positions = HashMap::with_capacity(sent.len());
        for SentMember { name: member, text } in sent {
            check_identifier("a member's name", &member)?;
            if positions.insert(member.to_string(), members.len()).is_some() {
                return Err(rule(format!("type {name}: member {member:?} given twice")));
            }
            members.push(StructMember::new(member.into_owned(), text.into_owned())?);
        }
        Ok(Self {
            members,
            positions,
            type_hash: OnceCell::new(),
        })
    }

    /// Appends the type as in `Mail(Person from,string contents)`.
    fn write(&self, name: &str, text: &mut String) {
        text.push_str(name);
        text.push('(');
        for (index, member) in self.members.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            text.extend([separator, &member.text, " ", &member.name]);
        }
        text.push(')');
    }
}

impl StructMember {
    fn new(name: String, text: String) -> Result<Self, ParamError> {
        let (stem, mut rest) = text.split_at(text.find('[').unwrap_or(text.len()));
        check_identifier("a member's type", stem)?;
        let stem =
            DynSolType::parse(stem).map_or_else(|_| MemberStem::Struct(stem.to_owned()), MemberStem::Basic);
        let mut suffixes = Vec::new();
        while let Some((suffix, later)) = rest.split_once(']') {
            at_most(
                &format!("member {name:?}"),
                suffixes.len() + 1,
                ARRAY_SUFFIXES_MAX,
                "array suffixes",
            )?;
            suffixes.push(array_len(suffix).ok_or_else(|| suffix_error(&name, suffix))?);
            rest = later;
        }
        match rest {
            "" => Ok(Self {
                name,
                text,
                stem,
                suffixes,
            }),
            rest => Err(suffix_error(&name, rest)),
        }
    }
}

/// The length of an array, from the suffix without its closing bracket.
fn array_len(suffix: &str) -> Option<Option<usize>> {
    match suffix.strip_prefix('[')? {
        "" => Some(None),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|len| *len > 0).map(Some)
        }
        _ => None,
    }
}

fn suffix_error(name: &str, suffix: &str) -> ParamError {
    let suffix: String = suffix.chars().take(NAME_LEN_MAX).collect();
    rule(format!(
        "member {name:?}: got {suffix:?} after the type's name, expected [] or [length]"
    ))
}

/// Checks a name of a type or of a member. Another character could make two different types have
/// the same text, which is what is hashed. A colon separates name spaces, as some protocols do.
fn check_identifier(what: &str, name: &str) -> Result<(), ParamError> {
    at_most(what, name.len(), NAME_LEN_MAX, "bytes")?;
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$');
    let is_later = |byte: u8| is_first(byte) || byte.is_ascii_digit() || byte == b':';
    match name.as_bytes() {
        [first, rest @ ..] if is_first(*first) && rest.iter().all(|byte| is_later(*byte)) => Ok(()),
        _ => Err(rule(format!(
            "{what}: got {name:?}, expected a name of letters and digits"
        ))),
    }
}

/// Checks the number of `got` things, which may be `max`.
pub(super) fn at_most(what: &str, got: usize, max: usize, unit: &str) -> Result<(), ParamError> {
    if got > max {
        return Err(rule(format!("{what}: got {got} {unit}, expected at most {max}")));
    }
    Ok(())
}

/// Checks that a part of the typed data is an object.
pub(super) fn check_object(what: &str, json: &str) -> Result<(), ParamError> {
    if json.starts_with('{') {
        return Ok(());
    }
    Err(rule(format!(
        "{what}: got {}, expected an object",
        json_type(json)
    )))
}

pub(super) const fn rule(reason: String) -> ParamError {
    ParamError::Rule(reason)
}
