//! Other people's libraries against a real node: chain3, ethers, web3 and an Ethash of theirs.

use e2e::clients::{javascript, python};
use e2e::contract::{CHANGED, FIRST_VALUE, counter};
use e2e::ledger::{COIN, Ledger};
use e2e::{Vnode, data, quantity, to_quantity};
use serde_json::{Value, json};

/// Nobody's account but the miner's.
const MINER: &str = "0x00000000000000000000000000000000000000aa";
/// A receiver with nothing.
const STRANGER: &str = "0x00000000000000000000000000000000000000bb";
const PRICE: u128 = 2_000_000_000;

fn mining() -> Vnode {
    let node = Vnode::dev(["--mine", "--moacbase", MINER]);
    node.wait_for_head(1);
    node
}

/// Address and key of account `index`, as the banner tells them.
fn account(node: &Vnode, index: usize) -> (String, String) {
    let banner = node.banner();
    let mark = format!("({index}) ");
    let line = banner
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(&mark))
        .expect("ten accounts");
    let (address, rest) = line.split_once(' ').expect("an address");
    (
        address.to_owned(),
        rest.rsplit_once("key ").expect("a key").1.to_owned(),
    )
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("got {value}, expected a string"))
}

#[test]
fn chain3_signs_sends_and_deploys() {
    let Some(clients) = javascript() else { return };
    let node = mining();
    let ((from, key), (creator, _)) = (account(&node, 1), account(&node, 2));
    let value = 5 * COIN + 1;
    let result = clients.run(
        "chain3.mjs",
        &json!({
            "url": node.url(), "key": key, "from": from, "to": STRANGER, "creator": creator,
            "value": to_quantity(value), "gasPrice": to_quantity(PRICE), "counter": counter(),
        }),
    );
    let receipt = node.receipt(text(&result["hash"]));
    assert_eq!(receipt["status"], "0x1");
    assert_eq!(result["receipt"]["status"], "0x1");
    let transaction = node.rpc("mc_getTransactionByHash", json!([result["hash"]]));
    assert_eq!(transaction["from"], json!(from.to_lowercase()));
    assert_eq!(quantity(&transaction["value"]), value);
    assert_eq!(node.balance(STRANGER), value);
    assert_eq!(result["balance"], json!(value.to_string()));
    assert_eq!(
        (&result["first"], &result["second"]),
        (&json!(FIRST_VALUE.to_string()), &json!("7"))
    );
    assert_eq!(result["changed"]["logs"][0]["topics"][0], json!(CHANGED));
    let mut ledger = Ledger::genesis(&node.accounts());
    ledger.check(&node, node.head());
    assert_eq!(ledger.balance(STRANGER), value);
}

#[test]
fn ethers_signs_sends_and_deploys() {
    let Some(clients) = javascript() else { return };
    let node = mining();
    let (from, key) = account(&node, 3);
    let result = clients.run(
        "ethers.mjs",
        &json!({"url": node.url(), "key": key, "to": STRANGER, "value": to_quantity(COIN), "counter": counter()}),
    );
    assert_eq!(result["status"], json!(1));
    check_contract(&node, &result, &from);
    assert!(
        result["whole"]["hash"].is_string(),
        "wallet.sendTransaction: {}",
        result["whole"]["error"]
    );
}

#[test]
fn web3_signs_sends_and_deploys() {
    let Some(clients) = javascript() else { return };
    let node = mining();
    let (from, key) = account(&node, 4);
    let result = clients.run(
        "web3.mjs",
        &json!({"url": node.url(), "key": key, "to": STRANGER, "value": to_quantity(COIN), "counter": counter()}),
    );
    assert_eq!(result["status"], json!("0x1"));
    check_contract(&node, &result, &from);
}

/// What both libraries saw must be what the chain has.
#[track_caller]
fn check_contract(node: &Vnode, result: &Value, from: &str) {
    assert_eq!(node.receipt(text(&result["hash"]))["status"], "0x1");
    assert_eq!(quantity(&result["balance"]), COIN);
    assert_eq!(
        (quantity(&result["first"]), quantity(&result["second"])),
        (FIRST_VALUE, 7)
    );
    assert_eq!(quantity(&result["event"]["value"]), 7);
    assert_eq!(text(&result["event"]["by"]).to_lowercase(), from.to_lowercase());
    data(&json!(text(&result["contract"])), 20);
    let mut ledger = Ledger::genesis(&node.accounts());
    ledger.check(node, node.head());
    assert!(ledger.balance(STRANGER) >= COIN);
}

#[test]
fn an_outside_miner_with_its_own_ethash_seals_blocks() {
    let Some(clients) = python() else { return };
    let node = Vnode::dev(["--mine", "--minerthreads", "0"]);
    let sealed = clients.run("outside_miner.py", &json!({"url": node.url(), "blocks": 3}));
    let sealed = sealed.as_array().expect("a list");
    assert_eq!((sealed.len(), node.head()), (3, 3));
    for (one, number) in sealed.iter().zip(1..) {
        let block = node.block(number);
        assert_eq!(
            (&block["nonce"], &block["mixHash"]),
            (&one["nonce"], &one["mixHash"])
        );
        assert_eq!(one["block"], block);
    }
}
