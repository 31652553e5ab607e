//! The contract that the tests use. Its source, compiler, interface and code are in
//! `vectors/counter.json`.

use std::sync::OnceLock;

use serde_json::Value;

/// The value that the constructor stores.
pub const FIRST_VALUE: u128 = 42;
/// Topic of the only event: Keccak-256 of `Changed(address,uint256)`.
pub const CHANGED: &str = "0xb52dda022b6c1a1f40905a85f257f689aa5d69d850e49cf939d688fbe5af5946";

/// The content of `vectors/counter.json`.
pub fn counter() -> &'static Value {
    static COUNTER: OnceLock<Value> = OnceLock::new();
    COUNTER.get_or_init(|| {
        serde_json::from_str(include_str!("../vectors/counter.json"))
            .expect("every test of the contract would fail")
    })
}

/// Code that creates the contract.
pub fn creation_code() -> &'static str {
    counter()["bytecode"].as_str().expect("a string")
}

/// Code of the created contract.
pub fn runtime_code() -> &'static str {
    counter()["runtime"].as_str().expect("a string")
}

/// Input of a call of `get()`.
pub fn get() -> String {
    input("get()", &[])
}

/// Input of a call of `set(uint256)`.
pub fn set(value: u128) -> String {
    input("set(uint256)", &[value])
}

fn input(signature: &str, words: &[u128]) -> String {
    let selector = counter()["selectors"][signature].as_str().expect("a string");
    let words: String = words.iter().map(|word| format!("{word:064x}")).collect();
    format!("0x{selector}{words}")
}

/// A number as a word of 32 bytes.
pub fn word(value: u128) -> String {
    format!("{value:#066x}")
}
