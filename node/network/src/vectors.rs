//! The published vectors that the tests of this package read.

use primitives::hex;

/// The hex text at `pointer` of the vectors of EIP-8, as bytes.
pub(crate) fn eip8(pointer: &str) -> Vec<u8> {
    let file = include_str!("../../../tests/vectors/eip8.json");
    let vectors: serde_json::Value = serde_json::from_str(file).expect("JSON");
    let text = vectors.pointer(pointer).and_then(|value| value.as_str());
    hex::decode(text.unwrap_or_else(|| panic!("no vector {pointer}"))).expect("hex")
}

/// The messages of EIP-2481: name, code and bytes.
pub(crate) fn eip2481() -> Vec<(String, u64, Vec<u8>)> {
    let file = include_str!("../../../tests/vectors/eip2481.json");
    let vectors: serde_json::Value = serde_json::from_str(file).expect("JSON");
    let row = |message: &serde_json::Value| {
        let name = message["name"].as_str().expect("a name").to_owned();
        let rlp = message["rlp"].as_str().expect("hex text");
        (
            name,
            message["code"].as_u64().expect("a code"),
            hex::decode(rlp).expect("hex"),
        )
    };
    vectors["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .map(row)
        .collect()
}
