//! `contracts/compiled.json` is what the compiler makes of the sources.
//!
//! The file is in the repository because programs include it, and nothing but Rust may be needed to
//! build them. With `UPDATE_CONTRACTS=1` the test writes it.

use std::fmt::Write as _;
use std::fs;

use e2e::clients::javascript;
use serde_json::{Map, Value, json};

use crate::microchain::{folder, read};

#[test]
fn compiled_contracts_are_what_the_compiler_makes() {
    let Some(clients) = javascript() else { return };
    let compiled = clients.run("contracts-compiled.mjs", &json!({ "folder": folder() }));
    if std::env::var_os("UPDATE_CONTRACTS").is_some() {
        let path = folder().join("compiled.json");
        fs::write(&path, lines(&compiled)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let stored = read("compiled.json");
    let contracts = |file: &Value| file["contracts"].as_object().cloned().unwrap_or_default();
    let (stored_contracts, expected) = (contracts(&stored), contracts(&compiled));
    let stale: Vec<_> = names(&stored_contracts, &expected)
        .into_iter()
        .filter(|name| stored_contracts.get(name) != expected.get(name))
        .collect();
    assert!(
        stale.is_empty(),
        "contracts/compiled.json has other code than the sources of {stale:?}: run this test with \
         UPDATE_CONTRACTS=1"
    );
    for field in ["compiler", "settings"] {
        assert_eq!(
            stored[field], compiled[field],
            "{field} of contracts/compiled.json"
        );
    }
}

/// All names of both, without duplicates.
fn names(some: &Map<String, Value>, others: &Map<String, Value>) -> Vec<String> {
    let mut names: Vec<String> = some.keys().chain(others.keys()).cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// The file's text, with a line for each member of an ABI, so that changes can be read.
fn lines(compiled: &Value) -> String {
    let mut text = String::from("{\n");
    let contracts = compiled["contracts"].as_object().expect("contracts by name");
    for field in ["compiler", "settings"] {
        writeln!(text, "  \"{field}\": {},", compiled[field]).expect("a string takes text");
    }
    text += "  \"contracts\": {\n";
    let blocks: Vec<String> = contracts
        .iter()
        .map(|(name, contract)| {
            let members = contract["abi"].as_array().expect("an ABI is a list");
            let members: Vec<_> = members.iter().map(|member| format!("        {member}")).collect();
            let bytecode = &contract["bytecode"];
            let abi = members.join(",\n");
            format!("    \"{name}\": {{\n      \"abi\": [\n{abi}\n      ],\n      \"bytecode\": {bytecode}\n    }}")
        })
        .collect();
    text + &blocks.join(",\n") + "\n  }\n}\n"
}
