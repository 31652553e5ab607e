//! `contracts/selectors.json` lists the functions of the public network's contracts. Our contracts
//! have these functions and few others, and `docs/microchain.md` names the same selectors.

use std::collections::BTreeMap;
use std::fs;

use e2e::binary::workspace;
use primitives::{hex, keccak256};
use serde_json::Value;

use crate::microchain::read;

/// Selectors of functions that only older contracts have.
const OLDER: [&str; 2] = ["32434a2e", "4e592e2f"];
/// Functions that only ours have: contract, signature.
const OWN: [(&str, &str); 1] = [("DappBase", "getRedeemPage(uint256,uint256)")];
/// The distance from the name of a function to its selector, in bytes.
const NAME_DISTANCE: usize = 90;

/// The type of a parameter as it stands in a signature, with the parts of a tuple.
fn type_name(parameter: &Value) -> String {
    let name = parameter["type"].as_str().expect("a type");
    name.strip_prefix("tuple").map_or_else(
        || name.to_owned(),
        |array| format!("({}){array}", type_names(&parameter["components"])),
    )
}

fn type_names(parameters: &Value) -> String {
    let list = parameters.as_array().expect("a list of parameters");
    list.iter().map(type_name).collect::<Vec<_>>().join(",")
}

/// The functions of an ABI: signature, types of the results, mutability.
fn functions(abi: &Value) -> Vec<[String; 3]> {
    let members = abi.as_array().expect("an ABI is a list");
    let functions = members.iter().filter(|member| member["type"] == "function");
    let mut functions: Vec<_> = functions
        .map(|function| {
            let name = function["name"].as_str().expect("a name");
            let mutability = function["stateMutability"].as_str().expect("a mutability");
            [
                format!("{name}({})", type_names(&function["inputs"])),
                type_names(&function["outputs"]),
                mutability.to_owned(),
            ]
        })
        .collect();
    functions.sort();
    functions
}

/// The listed functions of a contract: signature, types of the results, mutability, selector.
fn listed(rows: &Value) -> Vec<[String; 4]> {
    let rows = rows.as_array().expect("a list of functions");
    let field = |row: &Value, name: &str| row[name].as_str().expect("a text").to_owned();
    rows.iter()
        .map(|row| {
            assert!(
                row["callers"]
                    .as_array()
                    .is_some_and(|callers| !callers.is_empty()),
                "{row}"
            );
            ["function", "returns", "mutability", "selector"].map(|name| field(row, name))
        })
        .collect()
}

#[test]
fn contracts_have_the_listed_functions() {
    let compiled = read("compiled.json");
    let list = read("selectors.json");
    for (contract, rows) in list.as_object().expect("contracts by name") {
        let rows = listed(rows);
        for [function, .., selector] in &rows {
            let expected = hex::encode(&keccak256(function)[..4]);
            assert_eq!(*selector, expected, "selector of {contract}.{function}");
        }
        let mut expected: Vec<_> = rows
            .into_iter()
            .map(|[name, returns, mutability, _]| [name, returns, mutability])
            .collect();
        expected.sort();
        let mut compiled = functions(&compiled["contracts"][contract]["abi"]);
        let before = compiled.len();
        compiled.retain(|[name, ..]| !OWN.contains(&(contract.as_str(), name.as_str())));
        let own = OWN.iter().filter(|(of, _)| of == contract).count();
        assert_eq!(before - compiled.len(), own, "own functions of {contract}");
        assert_eq!(compiled, expected, "{contract}");
    }
}

#[test]
fn the_facts_name_the_same_selectors() {
    let mut names = BTreeMap::new();
    for rows in read("selectors.json")
        .as_object()
        .expect("contracts by name")
        .values()
    {
        for [function, .., selector] in listed(rows) {
            let name = function.split_once('(').expect("a signature").0.to_owned();
            names.insert(selector, name);
        }
    }
    let text = fs::read_to_string(workspace().join("docs/microchain.md")).expect("the facts");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_word = |byte: u8| byte.is_ascii_alphanumeric();
    let mut found = 0;
    for end in 8..text.len() {
        let Some(word) = text.get(end - 8..end) else {
            continue;
        };
        let alone = !text.as_bytes()[..end - 8].last().copied().is_some_and(is_word)
            && !is_word(text.as_bytes()[end]);
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        // All selectors have a digit, and words in hex letters do not.
        let selector = alone && word.bytes().all(hex) && word.bytes().any(|byte| byte.is_ascii_digit());
        if !selector || OLDER.contains(&word) {
            continue;
        }
        let name = names
            .get(word)
            .unwrap_or_else(|| panic!("docs/microchain.md has {word}, no function has it"));
        let start = (0..=end - 8)
            .rev()
            .find(|at| end - 8 - at >= NAME_DISTANCE && text.is_char_boundary(*at));
        let before = &text[start.unwrap_or(0)..end - 8];
        assert!(before.contains(name.as_str()), "{word} is {name}, got {before:?}");
        found += 1;
    }
    assert!(found >= 30, "found {found} selectors in docs/microchain.md");
}
