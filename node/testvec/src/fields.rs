//! Reads the fields of test vectors. Errors name the field.
//!
//! The vectors come from many authors, so leading zeros and numbers without 0x are accepted here;
//! the JSON-RPC interface refuses them.

use std::collections::BTreeMap;
use std::fmt::Display;

use chain::spec::{GenesisAccount, GenesisAccounts};
use primitives::{Address, B256, Bytes, U256, hex};
use serde_json::{Map, Value};

use super::error::TestVectorError;

/// The error for the member `key`.
pub(super) fn wrong(
    key: impl Into<String>,
    got: impl Display,
    expected: impl Into<String>,
) -> TestVectorError {
    TestVectorError::value(got, expected).in_member(key)
}

/// Returns the member `key` of an object.
pub(super) fn member<'a>(object: &'a Value, key: &str) -> Result<&'a Value, TestVectorError> {
    object
        .get(key)
        .ok_or_else(|| TestVectorError::Missing(key.to_owned()))
}

/// Returns a string member.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> Result<&'a str, TestVectorError> {
    let value = member(object, key)?;
    value.as_str().ok_or_else(|| wrong(key, value, "a string"))
}

/// Returns a member that is true or false.
pub(super) fn boolean(object: &Value, key: &str) -> Result<bool, TestVectorError> {
    let value = member(object, key)?;
    value.as_bool().ok_or_else(|| wrong(key, value, "true or false"))
}

/// Returns the elements of a member.
pub(super) fn array<'a>(object: &'a Value, key: &str) -> Result<&'a Vec<Value>, TestVectorError> {
    let value = member(object, key)?;
    value.as_array().ok_or_else(|| wrong(key, value, "an array"))
}

/// Reads a number: a JSON number, or a string with decimal digits or with hex digits after 0x.
pub(super) fn number(value: &Value) -> Option<U256> {
    match value {
        Value::Number(number) => number.as_u64().map(U256::from),
        Value::String(text) => match text.strip_prefix("0x") {
            Some("") => Some(U256::ZERO),
            Some(digits) => U256::from_str_radix(digits, 16).ok(),
            None => U256::from_str_radix(text, 10).ok(),
        },
        _ => None,
    }
}

/// Returns a number member.
pub(super) fn uint(object: &Value, key: &str) -> Result<U256, TestVectorError> {
    let value = member(object, key)?;
    number(value).ok_or_else(|| wrong(key, value, "a number of at most 256 bits"))
}

/// Returns a number member below 2^64.
pub(super) fn uint64(object: &Value, key: &str) -> Result<u64, TestVectorError> {
    let value = uint(object, key)?;
    u64::try_from(value).map_err(|_| wrong(key, value, "at most 64 bits"))
}

/// Reads bytes in hex, with or without 0x.
pub(super) fn bytes(value: &Value) -> Result<Vec<u8>, TestVectorError> {
    let text = value
        .as_str()
        .ok_or_else(|| TestVectorError::value(value, "bytes in hex"))?;
    hex::decode(text).map_err(|error| TestVectorError::refused(error).in_member(format!("{text:.80}")))
}

/// Returns a member with bytes.
pub(super) fn data(object: &Value, key: &str) -> Result<Vec<u8>, TestVectorError> {
    bytes(member(object, key)?).map_err(|error| error.in_member(key))
}

/// Returns a member with exactly `N` bytes.
pub(super) fn fixed<const N: usize>(object: &Value, key: &str) -> Result<[u8; N], TestVectorError> {
    let bytes = data(object, key)?;
    let got = bytes.len();
    bytes
        .try_into()
        .map_err(|_| wrong(key, format!("{got} bytes"), N.to_string()))
}

/// Returns an address member; `None` if it is absent, null or an empty string.
pub(super) fn optional_address(object: &Value, key: &str) -> Result<Option<Address>, TestVectorError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() || text == "0x" => Ok(None),
        Some(_) => Ok(Some(Address::from(fixed::<20>(object, key)?))),
    }
}

/// Reads the accounts of `pre`.
pub(super) fn accounts(pre: &Value) -> Result<GenesisAccounts, TestVectorError> {
    let object: &Map<String, Value> = pre.as_object().ok_or_else(|| wrong("pre", pre, "an object"))?;
    let mut accounts = GenesisAccounts::default();
    for (address, fields) in object {
        let bytes: [u8; 20] = hex::decode(address)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| wrong("pre", address, "an address"))?;
        let account = account(fields).map_err(|error| error.in_object(format!("pre.{address}")))?;
        accounts.insert(Address::from(bytes), account);
    }
    Ok(accounts)
}

fn account(fields: &Value) -> Result<GenesisAccount, TestVectorError> {
    let mut storage = BTreeMap::new();
    for (slot, value) in fields
        .get("storage")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let read =
            |value: &Value| number(value).ok_or_else(|| wrong(format!("storage.{slot}"), value, "a number"));
        let (slot_number, value) = (read(&Value::from(slot.as_str()))?, read(value)?);
        if !value.is_zero() {
            storage.insert(slot_number, value);
        }
    }
    Ok(GenesisAccount {
        balance: uint(fields, "balance")?,
        tx_nonce: uint64(fields, "nonce")?,
        code: Bytes::from(data(fields, "code")?),
        storage,
    })
}

/// Bytes as hex with 0x.
pub(super) fn hex_text(bytes: impl AsRef<[u8]>) -> String {
    hex::encode_prefixed(bytes)
}

/// A hash as hex with 0x.
pub(super) fn hash_text(hash: B256) -> String {
    hex_text(hash)
}
