//! The values of a genesis file: JSON objects whose keys are read one by one.
//!
//! This module knows forms of values, but not the meaning of keys.

use primitives::{Bytes, U256, hex};
use serde_json::{Map, Value};

use crate::spec::RuleBundleError;

/// The reason why a genesis file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenesisFileError {
    /// The text is not a JSON object.
    #[error("line {line}, column {column}: {reason}")]
    Json {
        /// The line of the fault, counted from 1.
        line: usize,
        /// The column of the fault, counted from 1.
        column: usize,
        /// The fault.
        reason: String,
    },
    /// A value is not of the form that its key needs.
    #[error("{key}: got {got}, expected {expected}")]
    Value {
        /// The path of the key, as `config.chainId`.
        key: String,
        /// The value.
        got: String,
        /// The form that the value should have.
        expected: &'static str,
    },
    /// Rules begin at blocks that do not go together.
    #[error("config: {0}")]
    Rules(RuleBundleError),
    /// A required key is missing.
    #[error("{0} is missing")]
    Missing(String),
}

impl GenesisFileError {
    /// The same fault, of a value below `path`.
    pub(super) fn below(self, path: &str) -> Self {
        match self {
            Self::Value { key, got, expected } => Self::Value {
                key: format!("{path}.{key}"),
                got,
                expected,
            },
            Self::Missing(key) => Self::Missing(format!("{path}.{key}")),
            other => other,
        }
    }
}

/// A JSON object that is being read. Every key that is read is removed; the remaining keys are
/// unknown.
pub(super) struct GenesisFields {
    /// The path of the object, with a dot at its end.
    pub(super) path: String,
    pub(super) map: Map<String, Value>,
}

impl GenesisFields {
    pub(super) fn wrong(&self, key: &str, got: &Value, expected: &'static str) -> GenesisFileError {
        GenesisFileError::Value {
            key: format!("{}{key}", self.path),
            got: got.to_string(),
            expected,
        }
    }

    pub(super) fn take<T>(
        &mut self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, GenesisFileError> {
        match self.map.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(&value)
                .map(Some)
                .ok_or_else(|| self.wrong(key, &value, expected)),
        }
    }

    pub(super) fn boolean(&mut self, key: &str, default: bool) -> Result<bool, GenesisFileError> {
        match self.map.remove(key) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(value),
            Some(other) => Err(self.wrong(key, &other, "true or false")),
        }
    }

    pub(super) fn uint(&mut self, key: &str) -> Result<Option<U256>, GenesisFileError> {
        self.take(key, "a number", uint)
    }

    pub(super) fn number(&mut self, key: &str) -> Result<Option<u64>, GenesisFileError> {
        self.take(key, "a number below 2^64", |value| {
            u64::try_from(uint(value)?).ok()
        })
    }

    pub(super) fn bytes(&mut self, key: &str) -> Result<Option<Bytes>, GenesisFileError> {
        self.take(key, "bytes in hex", |value| {
            hex::decode(value.as_str()?).ok().map(Bytes::from)
        })
    }

    pub(super) fn fixed<const N: usize>(&mut self, key: &str) -> Result<Option<[u8; N]>, GenesisFileError> {
        self.take(key, "bytes in hex of the right length", |value| {
            hex::decode(value.as_str()?).ok()?.try_into().ok()
        })
    }

    pub(super) fn object(&mut self, key: &str) -> Result<Self, GenesisFileError> {
        let map = match self.map.remove(key) {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(map)) => map,
            Some(other) => return Err(self.wrong(key, &other, "an object")),
        };
        let path = format!("{}{key}.", self.path);
        Ok(Self { path, map })
    }

    /// The paths of the keys that were not read.
    pub(super) fn unread_keys(&self) -> Vec<String> {
        self.map.keys().map(|key| format!("{}{key}", self.path)).collect()
    }
}

/// Reads a number: hex with 0x, decimal text, or a JSON number of up to 64 bits.
pub(super) fn uint(value: &Value) -> Option<U256> {
    match value {
        Value::Number(number) => number.as_u64().map(U256::from),
        Value::String(text) => match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some("") => Some(U256::ZERO),
            Some(digits) => U256::from_str_radix(digits, 16).ok(),
            None => U256::from_str_radix(text, 10).ok(),
        },
        _ => None,
    }
}
