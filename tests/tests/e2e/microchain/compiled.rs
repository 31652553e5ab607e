//! `contracts/compiled.json` is what the compiler makes of the sources, and SCSs know its code.
//!
//! The file is in the repository because programs include it, and nothing but Rust may be needed to
//! build them. With `UPDATE_CONTRACTS=1` the test writes it, and adds what `contracts/codes.txt`
//! lacks. The file has the hash of the sources that it was made of. While they are the same, only the
//! contracts of the tests are compiled, because the others take a minute; `COMPILE_ALL=1` compiles all.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use e2e::clients::javascript;
use e2e::wait::note;
use microchain::codes::table_entry;
use primitives::{hex, keccak256};
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

/// The compiler's answer for the contracts of `OF_TESTS`, and for ours if they must be compiled. The
/// compiler needs much processor time, so it runs once for all tests.
pub(crate) fn compiled() -> Option<&'static Value> {
    static COMPILED: OnceLock<Option<Value>> = OnceLock::new();
    COMPILED.get_or_init(compile).as_ref()
}

fn compile() -> Option<Value> {
    let clients = javascript()?;
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a write");
    let sources = sources();
    for (name, text) in &sources {
        write(name, text);
    }
    let pool = &sources["ScsPool.sol"];
    assert!(pool.contains(FORMS[0]), "the signature of our pool");
    let plain = pool.replace(FORMS[0], FORMS[1]);
    write(
        "PlainPool.sol",
        &plain.replace("contract ScsPool", "contract PlainPool"),
    );
    write("Thief.sol", include_str!("../application_chains/thief.sol"));
    let mut argument = json!({ "folder": folder.path() });
    if !compiles_all() && read("compiled.json")["sources"] == hash_of(&sources) {
        argument["only"] = json!(OF_TESTS);
    }
    Some(clients.run("contracts-compiled.mjs", &argument))
}

/// The Solidity sources in `contracts/` by name.
fn sources() -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder()).expect("the contracts");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_source = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "sol");
    let with_text = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).expect("a source"))
    };
    paths.filter(is_source).map(with_text).collect()
}

/// The hash of names and texts.
fn hash_of(sources: &BTreeMap<String, String>) -> String {
    keccak256(json!(sources).to_string().as_bytes()).to_string()
}

fn is_update() -> bool {
    std::env::var_os("UPDATE_CONTRACTS").is_some()
}

fn compiles_all() -> bool {
    is_update() || std::env::var_os("COMPILE_ALL").is_some()
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
    let hash = hash_of(&sources());
    if contracts.is_empty() {
        assert_eq!(read("compiled.json")["sources"], hash);
        note("contracts/compiled.json was made of these sources: not compiled");
        return;
    }
    check_codes(&compiled, is_update());
    if is_update() {
        let path = folder().join("compiled.json");
        compiled["sources"] = json!(hash);
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
    assert_eq!(
        stored["sources"], hash,
        "contracts/compiled.json was made of other sources: run this test with UPDATE_CONTRACTS=1"
    );
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
    for field in ["compiler", "settings", "sources"] {
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
