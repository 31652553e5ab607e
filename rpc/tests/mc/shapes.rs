//! The object tables of docs/interface.md, 2, and the comparison of an object with such a table.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// Block object. Source: docs/interface.md, 2.2.
pub(crate) const BLOCK: [(&str, &str); 20] = [
    ("number", "QUANTITY"),
    ("hash", "DATA 32"),
    ("parentHash", "DATA 32"),
    ("nonce", "DATA 8"),
    ("mixHash", "DATA 32"),
    ("sha3Uncles", "DATA 32"),
    ("logsBloom", "DATA 256"),
    ("transactionsRoot", "DATA 32"),
    ("stateRoot", "DATA 32"),
    ("receiptsRoot", "DATA 32"),
    ("miner", "DATA 20"),
    ("difficulty", "QUANTITY"),
    ("totalDifficulty", "QUANTITY"),
    ("extraData", "DATA"),
    ("size", "QUANTITY"),
    ("gasLimit", "QUANTITY"),
    ("gasUsed", "QUANTITY"),
    ("timestamp", "QUANTITY"),
    ("transactions", "array"),
    ("uncles", "array"),
];

/// Transaction object: the eleven fields, and those of block and pool results. Source:
/// docs/interface.md, 2.3.
pub(crate) const TRANSACTION: [(&str, &str); 16] = [
    ("hash", "DATA 32"),
    ("nonce", "QUANTITY"),
    ("blockHash", "DATA 32"),
    ("blockNumber", "QUANTITY"),
    ("transactionIndex", "QUANTITY"),
    ("from", "DATA 20"),
    ("to", "DATA 20"),
    ("value", "QUANTITY"),
    ("gasPrice", "QUANTITY"),
    ("gas", "QUANTITY"),
    ("input", "DATA"),
    ("syscnt", "QUANTITY"),
    ("v", "QUANTITY"),
    ("r", "QUANTITY"),
    ("s", "QUANTITY"),
    ("shardingFlag", "QUANTITY"),
];

/// Receipt object without the `root` of the older form. Source: docs/interface.md, 2.4.
pub(crate) const RECEIPT: [(&str, &str); 12] = [
    ("transactionHash", "DATA 32"),
    ("transactionIndex", "QUANTITY"),
    ("blockHash", "DATA 32"),
    ("blockNumber", "QUANTITY"),
    ("from", "DATA 20"),
    ("to", "DATA 20"),
    ("cumulativeGasUsed", "QUANTITY"),
    ("gasUsed", "QUANTITY"),
    ("contractAddress", "DATA 20"),
    ("logs", "array"),
    ("logsBloom", "DATA 256"),
    ("status", "QUANTITY"),
];

/// Log object. Source: docs/interface.md, 2.5.
pub(crate) const LOG: [(&str, &str); 9] = [
    ("removed", "Boolean"),
    ("logIndex", "QUANTITY"),
    ("transactionIndex", "QUANTITY"),
    ("transactionHash", "DATA 32"),
    ("blockHash", "DATA 32"),
    ("blockNumber", "QUANTITY"),
    ("address", "DATA 20"),
    ("data", "DATA"),
    ("topics", "array"),
];

/// Compares an object with its table: names, order and types. Exactly the fields in `nulls` must be
/// null.
#[track_caller]
pub(crate) fn check_shape(json: &str, table: &[(&str, &str)], nulls: &[&str]) {
    let Members(members) = serde_json::from_str(json).expect("an object");
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    let expected: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, expected, "{json}");
    for ((name, value), (_, kind)) in members.iter().zip(table) {
        if nulls.contains(&name.as_str()) {
            assert!(value.is_null(), "{name}: got {value}, expected null");
        } else {
            assert!(fits(value, kind), "{name}: got {value}, expected {kind}");
        }
    }
}

/// Whether `value` has the type `kind` of the interface.
fn fits(value: &Value, kind: &str) -> bool {
    match kind {
        "array" => return value.is_array(),
        "Boolean" => return value.is_boolean(),
        _ => {}
    }
    let Some(digits) = value.as_str().and_then(|text| text.strip_prefix("0x")) else {
        return false;
    };
    let is_hex = digits
        .bytes()
        .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let is_length = match kind.strip_prefix("DATA ") {
        Some(length) => digits.len() == 2 * length.parse::<usize>().expect("a length"),
        None if kind == "DATA" => digits.len().is_multiple_of(2),
        None => digits == "0" || (!digits.is_empty() && !digits.starts_with('0')),
    };
    is_hex && is_length
}

/// The members of an object in their order.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[test]
fn kinds() {
    let check = |text: &str, kind, expected| assert_eq!(fits(&Value::from(text), kind), expected, "{text}");
    check("0x0", "QUANTITY", true);
    check("0x10", "QUANTITY", true);
    check("0x", "QUANTITY", false);
    check("0x01", "QUANTITY", false);
    check("0xAB", "DATA", false);
    check("0x", "DATA", true);
    check("0x1", "DATA", false);
    check("0x0102", "DATA 2", true);
    check("0x0102", "DATA 3", false);
    assert!(!fits(&Value::Null, "DATA") && !fits(&Value::from(1), "QUANTITY"));
}
