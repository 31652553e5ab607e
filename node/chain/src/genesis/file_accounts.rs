//! Reads the accounts of a genesis file.
//!
//! There may be a million of them, so they are read one by one. What stands beside them in the file
//! is read in [`file`](super::file).

use std::collections::BTreeMap;
use std::fmt;

use primitives::{Address, hex};
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::file_fields::{GenesisFields, GenesisFileError, uint};
use crate::spec::{GenesisAccount, GenesisAccounts};

/// The fewest bytes of an account in a genesis file: a key of 40 digits and an empty object.
const ACCOUNT_BYTES_MIN: usize = 45;

/// Reads the accounts of block 0, one by one.
pub(super) fn accounts(raw: &RawValue) -> Result<GenesisAccounts, GenesisFileError> {
    /// Collects accounts until the end or the first that is wrong.
    struct Accounts {
        alloc: GenesisAccounts,
        error: Option<GenesisFileError>,
    }
    impl<'de> Visitor<'de> for &mut Accounts {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some((key, value)) = map.next_entry::<String, Value>()? {
                match named_account(&key, value) {
                    Ok((address, account)) => drop(self.alloc.insert(address, account)),
                    Err(error) => {
                        self.error = Some(error);
                        return Err(A::Error::custom("an account is wrong"));
                    }
                }
            }
            Ok(())
        }
    }
    let text = raw.get();
    if text == "null" {
        return Ok(GenesisAccounts::default());
    }
    // A map that grows has its accounts twice for a moment. Each account is an object, and so is
    // what is inside it, so this is a bound.
    let objects = text.bytes().filter(|byte| *byte == b'{').count();
    let mut all = Accounts {
        alloc: GenesisAccounts::with_capacity(objects.min(text.len() / ACCOUNT_BYTES_MIN)),
        error: None,
    };
    let read = serde_json::Deserializer::from_str(text).deserialize_map(&mut all);
    match (read, all.error) {
        (Ok(()), _) => Ok(all.alloc),
        (Err(_), Some(error)) => Err(error),
        (Err(_), None) => Err(GenesisFileError::Value {
            key: "alloc".to_owned(),
            got: text.to_owned(),
            expected: "an object",
        }),
    }
}

/// An account of block 0 under its key in the file.
fn named_account(text: &str, value: Value) -> Result<(Address, GenesisAccount), GenesisFileError> {
    let wrong = |got, expected| GenesisFileError::Value {
        key: format!("alloc.{text}"),
        got,
        expected,
    };
    let address = address(text).ok_or_else(|| wrong(text.to_owned(), "an address of 20 bytes in hex"))?;
    let Value::Object(map) = value else {
        return Err(wrong(value.to_string(), "an object"));
    };
    let path = String::new();
    let account = account(GenesisFields { path, map });
    Ok((
        address,
        account.map_err(|error| error.below(&format!("alloc.{text}")))?,
    ))
}

fn account(mut fields: GenesisFields) -> Result<GenesisAccount, GenesisFileError> {
    let mut storage = BTreeMap::new();
    let slots = fields.object("storage")?;
    for (text, value) in &slots.map {
        let wrong = || slots.wrong(text, value, "a slot and its value in hex");
        let slot = uint(&Value::from(text.as_str())).ok_or_else(wrong)?;
        let value = uint(value).ok_or_else(wrong)?;
        if !value.is_zero() {
            storage.insert(slot, value);
        }
    }
    Ok(GenesisAccount {
        balance: fields.uint("balance")?.unwrap_or_default(),
        tx_nonce: fields.number("nonce")?.unwrap_or(0),
        code: fields.bytes("code")?.unwrap_or_default(),
        storage,
    })
}

fn address(text: &str) -> Option<Address> {
    let mut address = Address::ZERO;
    hex::decode_to_slice(text, address.as_mut_slice()).ok()?;
    Some(address)
}
