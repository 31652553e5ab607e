//! Values inside messages: hashes and numbers in the ways that pools write them.
//!
//! Pools differ in `0x`, leading zeros and whether a number is a string; all of that is read.
//! Errors name the value that was got.

use ethash::B256;
use serde_json::Value;

use crate::message::MessageError;

/// Characters of a bad value that an error shows.
const SHOWN: usize = 80;

/// An error about `got`, which should have been `expected`.
pub(crate) fn unexpected(what: &'static str, got: &Value, expected: &'static str) -> MessageError {
    MessageError::Value {
        what,
        got: got.to_string().chars().take(SHOWN).collect(),
        expected,
    }
}

/// A hash of 32 bytes.
pub(crate) fn hash(what: &'static str, value: &Value) -> Result<B256, MessageError> {
    hash_of_at_least(64, value).ok_or_else(|| unexpected(what, value, "64 hexadecimal digits"))
}

/// A boundary: a hash whose leading zeros may be left out.
pub(crate) fn boundary(what: &'static str, value: &Value) -> Result<B256, MessageError> {
    hash_of_at_least(1, value).ok_or_else(|| unexpected(what, value, "1 to 64 hexadecimal digits"))
}

fn hash_of_at_least(digits: usize, value: &Value) -> Option<B256> {
    let text = value.as_str()?;
    let text = text.strip_prefix("0x").unwrap_or(text);
    if !(digits..=64).contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    format!("{text:0>64}").parse().ok()
}

/// A number, as hexadecimal digits or as JSON's own.
pub(crate) fn number(what: &'static str, value: &Value) -> Result<u64, MessageError> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
        }
        _ => None,
    };
    number.ok_or_else(|| unexpected(what, value, "a hexadecimal number of at most 64 bits"))
}

/// A decimal number, as JSON's own or in a string: ports outside EthereumStratum/2.0.0.
pub(crate) fn decimal(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// Yes or no, in any of the ways there are.
pub(crate) fn flag(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_u64() != Some(0),
        Value::String(text) => matches!(text.as_str(), "1" | "true" | "0x1"),
        _ => false,
    }
}

/// A string.
pub(crate) fn text<'a>(what: &'static str, value: &'a Value) -> Result<&'a str, MessageError> {
    value.as_str().ok_or_else(|| unexpected(what, value, "a string"))
}

/// Entry `index` of a list; null where there is none.
pub(crate) fn entry(list: &Value, index: usize) -> &Value {
    list.get(index).unwrap_or(&Value::Null)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hashes_need_all_digits_and_boundaries_do_not() {
        let digits = "ab".repeat(32);
        let expected = B256::repeat_byte(0xab);
        assert_eq!(hash("x", &json!(digits)), Ok(expected));
        assert_eq!(hash("x", &json!(format!("0x{digits}"))), Ok(expected));
        assert_eq!(boundary("x", &json!("0xff")).map(|b| b.0[31]), Ok(0xff));
        for bad in [
            json!("0xff"),
            json!(""),
            json!(7),
            json!(format!("{digits}0")),
            json!("zz"),
        ] {
            assert!(hash("x", &bad).is_err(), "{bad}");
        }
        assert!(boundary("x", &json!("")).is_err());
        assert!(hash("x", &json!("é".repeat(32))).is_err());
    }

    #[test]
    fn numbers_come_as_they_please() {
        for value in [json!(255), json!("ff"), json!("0xff"), json!("00ff")] {
            assert_eq!(number("x", &value), Ok(255), "{value}");
        }
        for bad in [
            json!(-1),
            json!("+1"),
            json!(""),
            json!("10000000000000000"),
            Value::Null,
        ] {
            assert!(number("x", &bad).is_err(), "{bad}");
        }
        assert!(flag(&json!("1")) && flag(&json!(true)) && flag(&json!(1)));
        assert!(!flag(&json!("0")) && !flag(&Value::Null) && !flag(&json!(0)));
    }
}
