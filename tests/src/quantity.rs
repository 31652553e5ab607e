//! Strict readers of the encodings QUANTITY and DATA: docs/interface.md, 2.1.

use serde_json::Value;

/// Reads a QUANTITY: `0x`, no leading zeros, at least one digit.
///
/// # Panics
/// For anything else, and for a number of more than 128 bits.
#[track_caller]
pub fn quantity(value: &Value) -> u128 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    let digits = digits.unwrap_or_else(|| panic!("got {value}, expected a QUANTITY"));
    assert!(
        digits == "0" || !digits.starts_with('0'),
        "got {value}, expected no leading zeros"
    );
    u128::from_str_radix(digits, 16)
        .unwrap_or_else(|error| panic!("got {value}, expected a QUANTITY: {error}"))
}

/// Writes a QUANTITY.
pub fn to_quantity(number: u128) -> Value {
    Value::String(format!("{number:#x}"))
}

/// Checks that `value` is DATA of exactly `length` bytes. Returns its text.
///
/// # Panics
/// For anything else.
#[track_caller]
pub fn data(value: &Value, length: usize) -> &str {
    let text = value
        .as_str()
        .unwrap_or_else(|| panic!("got {value}, expected DATA of {length} bytes"));
    let bytes = text.strip_prefix("0x").map(hex::decode);
    assert!(
        matches!(&bytes, Some(Ok(bytes)) if bytes.len() == length),
        "got {text}, expected DATA of {length} bytes"
    );
    text
}

/// Checks that two objects have the same values for `members`, which are separated by spaces.
///
/// # Panics
/// If a value differs.
#[track_caller]
pub fn assert_same_members(got: &Value, expected: &Value, members: &str) {
    for member in members.split(' ') {
        assert_eq!(got[member], expected[member], "{member}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_read_strictly() {
        assert_eq!(quantity(&json!("0x0")), 0);
        assert_eq!(quantity(&json!("0x400")), 1024);
        assert_eq!(to_quantity(1024), json!("0x400"));
        for bad in [json!("0x"), json!("0x0400"), json!("ff"), json!(1), Value::Null] {
            assert!(std::panic::catch_unwind(|| quantity(&bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn data_is_read_strictly() {
        assert_eq!(data(&json!("0x0400"), 2), "0x0400");
        for bad in [json!("0x040"), json!("0400"), json!("0x04"), Value::Null] {
            assert!(std::panic::catch_unwind(|| data(&bad, 2)).is_err(), "{bad}");
        }
    }
}
