//! The schemas of the encodings (docs/interface.md, 2.1), and of arrays, maps and alternatives.

use serde_json::{Map, Value, json};

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

/// The schemas of the encodings, by name, as JSON. DATA of a fixed length is not among them.
const ENCODINGS: &str = r##"{
    "QUANTITY": {
        "type": "string",
        "pattern": "^0x(0|[1-9a-fA-F][0-9a-fA-F]*)$",
        "description": "An integer as 0x and the fewest hex digits possible. Zero is 0x0."
    },
    "DATA": {
        "type": "string",
        "pattern": "^0x([0-9a-fA-F]{2})*$",
        "description": "Bytes as 0x and two hex digits for each byte."
    },
    "BLOCKREF": {
        "description": "The number of a block, a tag, a hash of 32 bytes, or an object with number or hash (EIP-1898). If it is absent or null, it is the highest block. `safe` is 32 blocks below the head, `finalized` 256.",
        "oneOf": [
            {"type": "string", "pattern": "^0x[0-9a-fA-F]+$"},
            {"type": "integer", "minimum": 0},
            {"type": "string", "enum": ["earliest", "latest", "pending", "safe", "finalized"]},
            {"$ref": "#/components/schemas/BlockObject"}
        ]
    },
    "WORD": {
        "description": "A number of at most 256 bits, as QUANTITY or as DATA of 32 bytes.",
        "oneOf": [{"$ref": "#/components/schemas/QUANTITY"}, {"$ref": "#/components/schemas/DATA32"}]
    },
    "TOPIC": {
        "description": "A condition for one topic of a log: one value, several values of which one must match, or null for any value.",
        "oneOf": [
            {"$ref": "#/components/schemas/DATA32"},
            {"type": "array", "items": {"$ref": "#/components/schemas/DATA32"}},
            {"type": "null"}
        ]
    },
    "TypedCall": {
        "description": "An array of a call, and of what to return beside its output: trace, stateDiff.",
        "type": "array",
        "items": {
            "oneOf": [
                {"$ref": "#/components/schemas/CallRequest"},
                {"type": "array", "items": {"$ref": "#/components/schemas/String"}}
            ]
        },
        "minItems": 2,
        "maxItems": 2
    },
    "Boolean": {"type": "boolean"},
    "String": {"type": "string"},
    "Number": {"type": "integer", "minimum": 0, "description": "A whole number, as a plain JSON number."},
    "Fraction": {"type": "number", "minimum": 0, "description": "A plain JSON number."},
    "Percentile": {"type": "number", "minimum": 0, "maximum": 100, "description": "A plain JSON number."},
    "Object": {"type": "object", "description": "Any object."},
    "COUNT": {
        "description": "A plain JSON number, or QUANTITY.",
        "oneOf": [{"$ref": "#/components/schemas/Number"}, {"$ref": "#/components/schemas/QUANTITY"}]
    },
    "ExchangeRecords": {
        "description": "As many nulls as there are records, then the records, the newest first. Null if there is none.",
        "oneOf": [
            {
                "type": "array",
                "items": {"oneOf": [{"$ref": "#/components/schemas/ExchangeRecord"}, {"type": "null"}]}
            },
            {"type": "null"}
        ]
    },
    "OpenRpc": {"type": "object", "description": "An OpenRPC document."}
}"##;

/// The schemas of the encodings, by name.
pub(super) fn plain() -> Map<String, Value> {
    let mut all: Map<String, Value> = serde_json::from_str(ENCODINGS).unwrap_or_default();
    for length in DATA_LENGTHS {
        let schema = json!({
            "type": "string",
            "pattern": format!("^0x[0-9a-fA-F]{{{}}}$", 2 * length),
            "description": format!("DATA of exactly {length} bytes."),
        });
        all.insert(format!("DATA{length}"), schema);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encodings_are_json() {
        assert_eq!(plain().len(), 15 + DATA_LENGTHS.len());
    }

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
