//! The schemas of the encodings (docs/interface.md, 2.1), and of arrays, maps and alternatives.

use serde_json::{Value, json};

/// The lengths of DATA that have a type of their own, such as `DATA20`.
const DATA_LENGTHS: [usize; 5] = [8, 20, 32, 65, 256];

/// The schema of a type in the notation of [`crate::wire_type::WireType`].
pub(super) fn schema(kind: &str) -> Value {
    let mut alternatives: Vec<_> = kind.split('|').map(single).collect();
    match alternatives.len() {
        1 => alternatives.swap_remove(0),
        _ => json!({"oneOf": alternatives}),
    }
}

fn single(kind: &str) -> Value {
    if let Some(member) = kind.strip_suffix("[]") {
        json!({"type": "array", "items": single(member)})
    } else if let Some(member) = kind.strip_suffix("{}") {
        json!({"type": "object", "additionalProperties": single(member)})
    } else if kind == "null" {
        json!({"type": "null"})
    } else {
        json!({"$ref": format!("#/components/schemas/{kind}")})
    }
}

/// The schemas of the encodings, by name.
pub(super) fn plain() -> impl Iterator<Item = (String, Value)> {
    let text = |pattern: &str, says: &str| json!({"type": "string", "pattern": pattern, "description": says});
    let quantity = "^0x(0|[1-9a-fA-F][0-9a-fA-F]*)$";
    let named = [
        (
            "QUANTITY",
            text(
                quantity,
                "An integer as 0x and the fewest hex digits possible. Zero is 0x0.",
            ),
        ),
        (
            "DATA",
            text(
                "^0x([0-9a-fA-F]{2})*$",
                "Bytes as 0x and two hex digits for each byte.",
            ),
        ),
        (
            "BLOCKREF",
            json!({
                "description": "The number of a block, a tag, or an object with number or hash (EIP-1898). If it is absent or null, it is the highest block. `safe` is 32 blocks below the head, `finalized` 256.",
                "oneOf": [
                    {"type": "string", "pattern": "^0x[0-9a-fA-F]+$"},
                    {"type": "integer", "minimum": 0},
                    {"type": "string", "enum": ["earliest", "latest", "pending", "safe", "finalized"]},
                    schema("BlockObject"),
                ],
            }),
        ),
        (
            "WORD",
            json!({
                "description": "A number of at most 256 bits, as QUANTITY or as DATA of 32 bytes.",
                "oneOf": [schema("QUANTITY"), schema("DATA32")],
            }),
        ),
        (
            "TOPIC",
            json!({
                "description": "A condition for one topic of a log: one value, several values of which one must match, or null for any value.",
                "oneOf": [schema("DATA32"), schema("DATA32[]"), schema("null")],
            }),
        ),
        (
            "TypedCall",
            json!({
                "description": "An array of a call, and of what to return beside its output: trace, stateDiff.",
                "type": "array",
                "items": {"oneOf": [schema("CallRequest"), schema("String[]")]},
                "minItems": 2,
                "maxItems": 2,
            }),
        ),
        ("Boolean", json!({"type": "boolean"})),
        ("String", json!({"type": "string"})),
        (
            "Number",
            json!({"type": "integer", "minimum": 0, "description": "A whole number, as a plain JSON number."}),
        ),
        (
            "Fraction",
            json!({"type": "number", "minimum": 0, "description": "A plain JSON number."}),
        ),
        (
            "Percentile",
            json!({"type": "number", "minimum": 0, "maximum": 100, "description": "A plain JSON number."}),
        ),
        ("Object", json!({"type": "object", "description": "Any object."})),
        (
            "COUNT",
            json!({
                "description": "A plain JSON number, or QUANTITY.",
                "oneOf": [schema("Number"), schema("QUANTITY")],
            }),
        ),
        (
            "ExchangeRecords",
            json!({
                "description": "As many nulls as there are records, then the records, the newest first. Null if there is none.",
                "oneOf": [
                    {"type": "array", "items": {"oneOf": [schema("ExchangeRecord"), schema("null")]}},
                    schema("null"),
                ],
            }),
        ),
        (
            "OpenRpc",
            json!({"type": "object", "description": "An OpenRPC document."}),
        ),
    ];
    let fixed = DATA_LENGTHS.into_iter().map(move |length| {
        let pattern = format!("^0x[0-9a-fA-F]{{{}}}$", 2 * length);
        let says = format!("DATA of exactly {length} bytes.");
        (format!("DATA{length}"), text(&pattern, &says))
    });
    let named = named.into_iter().map(|(name, schema)| (name.to_owned(), schema));
    named
        .collect::<Vec<_>>()
        .into_iter()
        .chain(fixed.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composed_types() {
        let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
        assert_eq!(schema("DATA"), reference("DATA"));
        assert_eq!(
            schema("Log[]|null"),
            json!({"oneOf": [{"type": "array", "items": reference("Log")}, {"type": "null"}]})
        );
        assert_eq!(
            schema("String{}{}"),
            json!({"type": "object", "additionalProperties":
                {"type": "object", "additionalProperties": reference("String")}})
        );
    }
}
