//! `contracts/compiled.json` is what the compiler makes of the sources, and SCSs know its code.
//!
//! The file is in the repository because programs include it, and nothing but Rust may be needed to
//! build them. With `UPDATE_CONTRACTS=1` the test writes it, and adds what `contracts/codes.txt`
//! lacks.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use e2e::clients::javascript;
use microchain::codes::table_entry;
use primitives::hex;
use serde_json::{Map, Value, json};

use crate::microchain::{folder, read};

/// The contracts that SCSs must know, and their kind in `contracts/codes.txt`.
const KNOWN: [(&str, &str); 4] = [
    ("chain-base", "ChainBase"),
    ("chain-base", "TokenChainBase"),
    ("pool-amount", "ScsPool"),
    ("dapp-base", "DappBase"),
];

/// Contracts beside those of the repository: a thief, and a pool that checks the signature that the
/// published one checks.
const OF_TESTS: [&str; 2] = ["Thief", "PlainPool"];
/// The content of a signature in our pool, and in the published one and our earlier one.
const FORMS: [&str; 2] = ["(scs, msg.sender, amount, address(this))", "(scs, msg.sender)"];

/// The compiler's answer for our contracts and those of `OF_TESTS`. The compiler needs much
/// processor time, so it runs once for all tests.
pub(crate) fn compiled() -> Option<&'static Value> {
    static COMPILED: OnceLock<Option<Value>> = OnceLock::new();
    COMPILED.get_or_init(compile).as_ref()
}

fn compile() -> Option<Value> {
    let clients = javascript()?;
    let sources = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(sources.path().join(name), text).expect("a write");
    for entry in fs::read_dir(folder()).expect("the contracts") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let Some(name) = name.filter(|name| Path::new(name).extension().is_some_and(|kind| kind == "sol"))
        else {
            continue;
        };
        let text = fs::read_to_string(&path).expect("a source");
        write(&name, &text);
        if name == "ScsPool.sol" {
            assert!(text.contains(FORMS[0]), "the signature of our pool");
            let plain = text.replace(FORMS[0], FORMS[1]);
            write(
                "PlainPool.sol",
                &plain.replace("contract ScsPool", "contract PlainPool"),
            );
        }
    }
    write("Thief.sol", include_str!("../application_chains/thief.sol"));
    Some(clients.run("contracts-compiled.mjs", &json!({ "folder": sources.path() })))
}

#[test]
fn compiled_contracts_are_what_the_compiler_makes() {
    let Some(mut compiled) = compiled().cloned() else {
        return;
    };
    let contracts = compiled["contracts"].as_object_mut().expect("contracts by name");
    for name in OF_TESTS {
        contracts.remove(name).expect("a contract of the tests");
    }
    let is_update = std::env::var_os("UPDATE_CONTRACTS").is_some();
    check_codes(&compiled, is_update);
    if is_update {
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

/// Checks that `codes.txt` has the code of each contract that SCSs must know. An update adds what
/// is missing.
fn check_codes(compiled: &Value, is_update: bool) {
    let path = folder().join("codes.txt");
    let mut text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for (kind, name) in KNOWN {
        let code = match kind {
            "dapp-base" => &compiled["contracts"][name]["bytecode"],
            _ => &compiled["deployed"][name],
        };
        let code = code.as_str().and_then(|code| hex::decode(code).ok());
        let (len, hash) = table_entry(&code.unwrap_or_else(|| panic!("no code of {name}")));
        let line = format!("{kind} {len} {hash} ");
        if text.contains(&line) {
            continue;
        }
        assert!(
            is_update,
            "contracts/codes.txt has no line {line:?} of {name}: run this test with UPDATE_CONTRACTS=1"
        );
        text += &format!("{line}ours, {name}\n");
        fs::write(&path, &text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
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
