//! `contracts/compiled.json` is what the compiler makes of the sources, and SCSs know its code.
//!
//! The file is in the repository because programs include it, and nothing but Rust may be needed to
//! build them. With `UPDATE_CONTRACTS=1` the test writes it, and adds what `contracts/codes.txt`
//! lacks. The code of the contracts of the tests stands in a file of its own. `compiled.json` has a
//! checksum over the sources, what compiles them and all results. While nothing of these has
//! changed, nothing is compiled, because that takes a minute; `COMPILE_ALL=1` compiles always.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use e2e::binary::workspace;
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

/// The creation code of a contract of `OF_TESTS`. `None` if it must be compiled and cannot be.
pub(crate) fn code_of_tests(name: &str) -> Option<String> {
    let compiled = if is_known() {
        Some(of_tests())
    } else {
        compiled().cloned()
    };
    let code = compiled?["contracts"][name]["bytecode"]
        .as_str()
        .map(str::to_owned);
    Some(code.unwrap_or_else(|| panic!("no code of {name}")))
}

/// The compiler's answer, which the tests share.
fn compiled() -> Option<&'static Value> {
    static COMPILED: OnceLock<Option<Value>> = OnceLock::new();
    COMPILED.get_or_init(compile).as_ref()
}

fn compile() -> Option<Value> {
    let clients = javascript()?;
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in sources() {
        fs::write(folder.path().join(name), text).expect("a write");
    }
    Some(clients.run("contracts-compiled.mjs", &json!({ "folder": folder.path() })))
}

/// The Solidity sources by name: those in `contracts/`, and those of the tests.
fn sources() -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder()).expect("the contracts");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_source = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "sol");
    let with_text = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).expect("a source"))
    };
    let mut sources: BTreeMap<_, _> = paths.filter(is_source).map(with_text).collect();
    let pool = &sources["ScsPool.sol"];
    assert!(pool.contains(FORMS[0]), "the signature of our pool");
    let plain = pool.replace(FORMS[0], FORMS[1]);
    let plain = plain.replace("contract ScsPool", "contract PlainPool");
    sources.insert("PlainPool.sol".to_owned(), plain);
    let thief = include_str!("../application_chains/thief.sol");
    sources.insert("Thief.sol".to_owned(), thief.to_owned());
    sources
}

/// A hash over the sources, the compiler's version and its script, the code that it made, and
/// `codes.txt`. Whoever changes one of them by hand must compile.
fn checksum(contracts: &Value, own: &Value) -> String {
    let codes = fs::read_to_string(folder().join("codes.txt")).expect("the codes");
    let packages: Value =
        serde_json::from_str(include_str!("../../../clients/js/package.json")).expect("JSON");
    let all = json!({
        "sources": sources(),
        "solc": packages["dependencies"]["solc"],
        "script": include_str!("../../../clients/js/contracts-compiled.mjs"),
        "contracts": contracts,
        "own": own,
        "codes": codes,
    });
    keccak256(all.to_string().as_bytes()).to_string()
}

/// Whether nothing has changed since the files were written.
fn is_known() -> bool {
    let stored = read("compiled.json");
    stored["checksum"] == checksum(&stored["contracts"], &of_tests())
}

/// The file with the code of the contracts of the tests.
fn of_tests() -> Value {
    let text = fs::read_to_string(path_of_tests()).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

fn path_of_tests() -> PathBuf {
    workspace().join("tests/tests/e2e/application_chains/compiled.json")
}

#[test]
fn compiled_contracts_are_what_the_compiler_makes() {
    let is_update = std::env::var_os("UPDATE_CONTRACTS").is_some();
    if !is_update && std::env::var_os("COMPILE_ALL").is_none() && is_known() {
        note("nothing has changed since the contracts were compiled: not compiled");
        return;
    }
    let Some(mut compiled) = compiled().cloned() else {
        return;
    };
    let contracts = compiled["contracts"].as_object_mut().expect("contracts by name");
    let own: Map<_, _> = OF_TESTS
        .into_iter()
        .map(|name| {
            let contract = contracts.remove(name).expect("a contract of the tests");
            (name.to_owned(), json!({ "bytecode": contract["bytecode"] }))
        })
        .collect();
    let own = json!({ "contracts": own });
    check_codes(&compiled, is_update);
    compiled["checksum"] = json!(checksum(&compiled["contracts"], &own));
    if is_update {
        let write = |path: PathBuf, text: String| {
            fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        };
        write(folder().join("compiled.json"), lines(&compiled));
        write(path_of_tests(), format!("{own:#}\n"));
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
    for field in ["compiler", "settings", "checksum"] {
        assert_eq!(
            stored[field], compiled[field],
            "{field} of contracts/compiled.json; UPDATE_CONTRACTS=1 writes it"
        );
    }
    assert!(
        of_tests() == own,
        "{}: run this test with UPDATE_CONTRACTS=1",
        path_of_tests().display()
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
    for field in ["compiler", "settings", "checksum"] {
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
