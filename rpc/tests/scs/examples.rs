//! Runs every example of `rpc/examples-scs.json`, and compares that file and `rpc/openrpc-scs.json`
//! with the code. `docs/methods-scs.md` is made from the latter. If `UPDATE_EXAMPLES` is set, all
//! three files are written anew.

use rpc::methods;
use rpc::types::data;
use serde_json::{Map, Value, json};

use crate::scs::harness::{CHAIN, DAPP, TestScs, transaction, user_text};
use crate::shared::described::{document, is_update, read, write};
use crate::shared::reference::check_page;
use crate::shared::schema::fits;

/// The examples of these methods are in `rpc/examples.json`.
const SHARED: [&str; 1] = ["net_listening"];

/// The text of `docs/methods-scs.md` before the methods.
const PAGE_INTRO: &str = "All methods of `scs`, the server of application chains. `--rpcapi` names the \
    modules that it serves.";

/// The parameters of each method's example.
fn params(method: &str) -> Value {
    let (chain, user) = (data(CHAIN), user_text());
    let hash = data(transaction(1).hash());
    match method {
        "scs_getMicroChainInfo"
        | "scs_getDappList"
        | "scs_getDappAddrList"
        | "scs_getDappState"
        | "scs_getBlockNumber"
        | "scs_getTxpool" => json!([chain]),
        "scs_getNonce" | "scs_getBalance" => json!([chain, user]),
        "scs_getBlock" => json!([chain, "0x9"]),
        "scs_getBlockList" => json!([chain, 8, 9]),
        "scs_getReceiptByHash" | "scs_getTransactionByHash" => json!([chain, hash]),
        "scs_getReceiptByNonce" | "scs_getTransactionByNonce" => json!([chain, user, 1]),
        "scs_directCall" => json!([{"to": chain, "dappAddr": data(DAPP), "data": "0xabcd"}]),
        "scs_sendRawTransaction" => json!([data(transaction(3).encode_raw())]),
        "scs_getExchangeByAddress" => json!([chain, user, 0, 1, 0, 1, 0, 1, 0, 1]),
        "scs_getExchangeInfo" => json!([chain, 0, 1, 0, 1]),
        _ => json!([]),
    }
}

#[test]
fn examples_are_the_answers_of_an_scs() {
    let document = document(&methods::scs::methods());
    let scs = TestScs::start();
    let mut found = Map::new();
    for row in methods::scs::methods() {
        let name = row.name();
        if SHARED.contains(&name) {
            continue;
        }
        let params = params(name);
        let result = scs.ok(name, params.clone());
        let described = document["methods"].as_array().expect("methods");
        let described = described.iter().find(|method| method["name"] == name);
        let described = described.unwrap_or_else(|| panic!("{name} has no summary"));
        fits(&document, &described["result"]["schema"], &result)
            .unwrap_or_else(|reason| panic!("{name}: {reason}"));
        found.insert(name.to_owned(), json!({"params": params, "result": result}));
    }
    let found = Value::Object(found);
    if is_update() {
        write("examples-scs.json", &found);
    }
    assert_eq!(
        read("examples-scs.json"),
        found,
        "UPDATE_EXAMPLES=1 writes the file anew"
    );
}

#[test]
fn the_description_is_up_to_date() {
    let document = document(&methods::scs::methods());
    if is_update() {
        write("openrpc-scs.json", &document);
    }
    assert_eq!(
        read("openrpc-scs.json"),
        document,
        "UPDATE_EXAMPLES=1 writes the file anew"
    );
    assert_eq!(
        document["info"]["title"],
        "JSON-RPC of the application-chain node"
    );
    check_page("methods-scs.md", PAGE_INTRO, &document);
}
