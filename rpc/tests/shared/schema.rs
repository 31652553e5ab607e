//! Whether JSON has the type that a description of methods names.

use serde_json::Value;

/// Checks whether `value` has the type that `schema` of `document` describes.
pub(crate) fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let mismatch = || Err(format!("{value} does not match {schema}"));
    if let Some(path) = schema["$ref"].as_str() {
        let named = document
            .pointer(path.trim_start_matches('#'))
            .ok_or("no such type")?;
        return fits(document, named, value);
    }
    if let Some(alternatives) = schema["oneOf"].as_array() {
        let fitting = alternatives
            .iter()
            .filter(|one| fits(document, one, value).is_ok());
        return if fitting.count() > 0 { Ok(()) } else { mismatch() };
    }
    if let Some(members) = schema["enum"].as_array() {
        return if members.contains(value) {
            Ok(())
        } else {
            mismatch()
        };
    }
    let is_right = match schema["type"].as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64() || value.is_number() && !value.is_f64() && !value.is_i64(),
        Some("string") => {
            let pattern = schema["pattern"].as_str();
            value
                .as_str()
                .is_some_and(|text| pattern.is_none_or(|pattern| matches(pattern, text)))
        }
        Some("array") => {
            let members = value.as_array().ok_or("not an array")?;
            members
                .iter()
                .try_for_each(|member| fits(document, &schema["items"], member))?;
            true
        }
        Some("object") => {
            let members = value.as_object().ok_or("not an object")?;
            let required = schema["required"].as_array().into_iter().flatten();
            for name in required.filter_map(Value::as_str) {
                if !members.contains_key(name) {
                    return Err(format!("no member {name} in {value}"));
                }
            }
            for (name, member) in members {
                let additional = schema.get("additionalProperties");
                match schema["properties"].get(name).or(additional) {
                    Some(schema) => fits(document, schema, member)?,
                    None if schema.get("properties").is_some() => {
                        return Err(format!("unknown member {name} in {value}"));
                    }
                    None => {}
                }
            }
            true
        }
        _ => return Err(format!("`fits` does not know the schema {schema}")),
    };
    if is_right { Ok(()) } else { mismatch() }
}

/// Whether `text` matches the pattern of a plain type. Knows the patterns of this package only.
fn matches(pattern: &str, text: &str) -> bool {
    let Some(digits) = text.strip_prefix("0x") else {
        return false;
    };
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let length = pattern
        .strip_prefix("^0x[0-9a-fA-F]{")
        .and_then(|rest| rest.strip_suffix("}$"));
    let is_length = match (length, pattern) {
        (Some(length), _) => digits.len() == length.parse::<usize>().expect("a length"),
        (None, "^0x([0-9a-fA-F]{2})*$") => digits.len().is_multiple_of(2),
        (None, "^0x[0-9a-fA-F]+$") => !digits.is_empty(),
        (None, "^0x(0|[1-9a-fA-F][0-9a-fA-F]*)$") => {
            digits == "0" || !digits.is_empty() && !digits.starts_with('0')
        }
        other => panic!("unknown pattern {other:?}"),
    };
    is_hex && is_length
}
