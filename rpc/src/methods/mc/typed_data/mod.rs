//! Signatures of typed data (EIP-712).
//!
//! A stranger sends types and values. So the account is looked up before anything is read, and all
//! work is bounded by the length of the text: `types.rs` and `values.rs` name the bounds.
//! `alloy-dyn-abi` encodes the values of basic types, which have no depth. Types that refer to each
//! other never reach it, because it expands them. The domain is a struct and is read as the message
//! is.
//!
//! Data that another signer may read in another way are refused: a wrong digest is worse than none.

mod types;
mod values;

use std::time::Duration;

use chain::query_limit::QueryLimit;
use primitives::{Address, B256, SecretKey, keccak256};

use self::types::{DOMAIN_TYPE, NAME_LEN_MAX, StructTypes, TYPES_LEN_MAX, at_most, check_object, rule};
use self::values::ValueReader;
use super::accounts::account_error;
use crate::budget::{query_limit, reserve_values};
use crate::decode::{FromParam, ParamFields, json_type, string};
use crate::error::{RpcError, RpcResult};
use crate::node::Node;
use crate::table::Method;
use crate::types::{Data, ParamError};
use crate::wire_type::WireType;

/// Bytes that are reserved for each byte of the parameter: its copy, the copy without escapes, and
/// what is read of it.
const MEMORY_FACTOR: usize = 3;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::heavy("mc_signTypedData", ["address", "typedData"], sign).summary(
            "Signs typed data (EIP-712) for an unlocked account. Returns r, s and V, which is 27 or 28.",
        ),
        Method::heavy("mc_signTypedData_v4", ["address", "typedData"], sign).summary(
            "Signs typed data (EIP-712) for an unlocked account. Returns r, s and V, which is 27 or 28.",
        ),
    ]
}

/// Typed data as JSON text, which is not read yet: an object, or the text of such an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TypedDataJson(String);

impl FromParam for TypedDataJson {
    const TYPE: WireType = WireType::OneOf(&[WireType::Named("TypedData"), WireType::Named("String")]);

    fn from_json(json: &str) -> Result<Self, ParamError> {
        match json.as_bytes().first() {
            Some(b'{' | b'"') => Ok(Self(json.to_owned())),
            _ => Err(ParamError::Type {
                expected: "typed data",
                got: json_type(json),
            }),
        }
    }
}

impl TypedDataJson {
    /// The bytes of the data that are signed.
    ///
    /// # Errors
    /// If they are malformed or beyond a bound, and when `limit` says that nobody waits any more.
    fn digest(&self, limit: &QueryLimit) -> Result<B256, ParamError> {
        const PREFIX: [u8; 2] = [0x19, 0x01];
        let text = match self.0.starts_with('"') {
            true => string(&self.0, "typed data")?,
            false => self.0.as_str().into(),
        };
        let fields = ParamFields::read(text.trim_ascii())?;
        let types = fields.json("types").ok_or(ParamError::MissingField("types"))?;
        check_object("types", types)?;
        let primary_type: String = fields.get("primaryType")?;
        at_most("primaryType", primary_type.len(), NAME_LEN_MAX, "bytes")?;
        let domain = fields.json("domain").unwrap_or("{}");
        check_object("domain", domain)?;
        at_most("domain: JSON text", domain.len(), TYPES_LEN_MAX, "bytes")?;
        let types = StructTypes::read(types)?;
        if !types.contains(&primary_type) {
            return Err(rule(format!(
                "primaryType: got {primary_type:?}, expected one of the types"
            )));
        }
        let mut signed = [&PREFIX, domain_separator(domain, &types, limit)?.as_slice()].concat();
        // A signature of the domain alone has no message.
        if primary_type != DOMAIN_TYPE {
            let message = fields.json("message").unwrap_or("null");
            let reader = ValueReader::new(&types, limit);
            let hash = reader.hash_struct("message", &primary_type, message)?;
            signed.extend_from_slice(hash.as_slice());
        }
        Ok(keccak256(signed))
    }
}

/// The digest of typed data (EIP-712) that is signed. `json` is their JSON text: an object, or the
/// text of such an object.
///
/// # Errors
/// [`ParamError`] if the data are malformed or beyond a bound.
pub fn typed_data_digest(json: &str) -> Result<B256, ParamError> {
    TypedDataJson::from_json(json)?.digest(&query_limit(Duration::MAX))
}

/// The hash of the domain. Its type is the one that is declared. A domain without a declared type
/// has those members of the standard that it gives.
fn domain_separator(json: &str, types: &StructTypes, limit: &QueryLimit) -> Result<B256, ParamError> {
    let of_standard;
    let types = if types.contains(DOMAIN_TYPE) {
        types
    } else {
        of_standard = StructTypes::of_domain(json)?;
        &of_standard
    };
    let reader = ValueReader::new(types, limit).refusing_unknown_members();
    reader.hash_struct("domain", DOMAIN_TYPE, json)
}

/// `mc_signTypedData` and `mc_signTypedData_v4`.
fn sign(node: &Node, (address, data): (Address, TypedDataJson)) -> RpcResult<Data<[u8; 65]>> {
    // The key is copied. So reading does not keep the accounts waiting, and signing does not fail
    // if the account is locked meanwhile. The copy is wiped when it is dropped.
    let key = node
        .accounts
        .with_key(&address, SecretKey::clone)
        .map_err(account_error)?;
    reserve_values(MEMORY_FACTOR * data.0.len())?;
    // The time of the message is the limit.
    let digest = data
        .digest(&query_limit(Duration::MAX))
        .map_err(|reason| RpcError::invalid_argument(1, reason))?;
    Ok(Data(key.sign(&digest).to_rsv()))
}

#[cfg(test)]
mod tests;
