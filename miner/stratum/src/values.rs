//! Values inside messages: hashes and numbers in all the forms that pools use.
//!
//! Pools differ in the prefix `0x`, in leading zeros, and in whether a number is a string. All of
//! these forms are accepted. Errors contain the value.

use ethash::B256;
use serde_json::Value;

use crate::error::MessageError;
use crate::extranonce::Extranonce;

/// The most characters of a bad value that an error contains.
const SHOWN_LEN_MAX: usize = 80;

/// The error for a value that is not as expected.
pub(crate) fn unexpected(what: &'static str, got: &Value, expected: &'static str) -> MessageError {
    MessageError::Value {
        what,
        got: shown(got),
        expected,
    }
}

/// The beginning of a value for an error or a log, without control characters.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    let printed = text.chars().filter(|character| !character.is_control());
    printed.take(SHOWN_LEN_MAX).collect()
}

/// Reads a hash of 32 bytes. All 64 digits are required.
pub(crate) fn hash(what: &'static str, value: &Value) -> Result<B256, MessageError> {
    hash_with_digits(64, value).ok_or_else(|| unexpected(what, value, "64 hexadecimal digits"))
}

/// Reads a boundary: a 32-byte number whose leading zeros may be missing.
pub(crate) fn boundary(what: &'static str, value: &Value) -> Result<B256, MessageError> {
    hash_with_digits(1, value).ok_or_else(|| unexpected(what, value, "1 to 64 hexadecimal digits"))
}

/// Reads a hash of `digits_min` to 64 hexadecimal digits.
fn hash_with_digits(digits_min: usize, value: &Value) -> Option<B256> {
    let text = value.as_str()?;
    let text = text.strip_prefix("0x").unwrap_or(text);
    if !(digits_min..=64).contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    format!("{text:0>64}").parse().ok()
}

/// Reads a number: a string of hexadecimal digits, or a JSON number.
pub(crate) fn number(what: &'static str, value: &Value) -> Result<u64, MessageError> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
        }
        _ => None,
    };
    number.ok_or_else(|| unexpected(what, value, "a hexadecimal number of at most 64 bits"))
}

/// Reads a decimal number: a JSON number, or a string. Ports have this form in the dialects before
/// EthereumStratum/2.0.0.
pub(crate) fn decimal(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// Reads yes or no in any of their forms. Unknown forms are no.
pub(crate) fn flag(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_u64() != Some(0),
        Value::String(text) => matches!(text.as_str(), "1" | "true" | "0x1"),
        _ => false,
    }
}

/// Reads a string.
pub(crate) fn text<'a>(what: &'static str, value: &'a Value) -> Result<&'a str, MessageError> {
    value.as_str().ok_or_else(|| unexpected(what, value, "a string"))
}

/// Reads an extranonce.
pub(crate) fn extranonce(value: &Value) -> Result<Extranonce, MessageError> {
    text("extranonce", value)?
        .parse()
        .map_err(|_| unexpected("extranonce", value, "at most 12 hexadecimal digits"))
}

/// Entry `index` of a list; null if there is none.
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
    fn numbers_and_flags_are_read_in_every_form() {
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
