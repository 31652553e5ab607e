//! Public clients against a real node: chain3, ethers, viem, web3, web3.py, cast, an independent
//! miner; and the calls of indexers.
//!
//! A script uses a client and returns what it got. The test compares this with what the node
//! returns to our own calls.

mod anvil;
mod cast;
mod chain3;
mod ethers;
mod explorer_abi;
mod frameworks;
mod indexers;
mod outside_miner;
mod scs_service;
mod viem;
mod web3;
mod web3py;

use e2e::contract::{CHANGED, FIRST_VALUE, runtime_code, word};
use e2e::ledger::{BalanceLedger, COIN, MINER, STRANGER};
use e2e::{Caller, Vnode, data, quantity};
use serde_json::{Value, json};

/// The value that the scripts store in the contract.
const SECOND_VALUE: u128 = 7;

/// A node that makes blocks and has one.
fn mining() -> Vnode {
    let node = Vnode::with_blocks(["--moacbase", MINER]);
    node.wait_for_head(1);
    node
}

/// Address and key of account `index`, from the banner.
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

/// Compares what a client got with the chain: a transfer of one coin, a contract that was created
/// and changed, and its event.
#[track_caller]
fn check_contract(node: &Vnode, result: &Value, from: &str) {
    let receipt = node.receipt(text(&result["hash"]));
    assert_eq!(
        (&receipt["status"], &receipt["from"]),
        (&json!("0x1"), &json!(from.to_lowercase()))
    );
    assert_eq!(quantity(&result["balance"]), COIN);
    assert_eq!(
        (quantity(&result["first"]), quantity(&result["second"])),
        (FIRST_VALUE, SECOND_VALUE)
    );
    assert_eq!(quantity(&result["event"]["value"]), SECOND_VALUE);
    assert_eq!(text(&result["event"]["by"]).to_lowercase(), from.to_lowercase());
    check_chain(node, text(&result["contract"]), from);
    let mut ledger = BalanceLedger::genesis(&node.accounts());
    ledger.check(node, node.head());
    assert_eq!(ledger.balance(STRANGER), COIN);
}

/// Checks that the contract at `address` has its code, the second value and one event of `by`.
#[track_caller]
fn check_chain(node: &Caller, address: &str, by: &str) {
    let code = node.rpc("mc_getCode", json!([address, "latest"]));
    assert_eq!(code, runtime_code(), "{address}");
    let value = node.rpc("mc_getStorageAt", json!([address, "0x0", "latest"]));
    assert_eq!(value, json!(word(SECOND_VALUE)));
    let logs = node.rpc("mc_getLogs", json!([{"fromBlock": "0x0", "address": address}]));
    let logs = logs.as_array().expect("a list");
    assert_eq!(logs.len(), 1, "{logs:?}");
    let by = format!("0x{:0>64}", by.trim_start_matches("0x").to_lowercase());
    assert_eq!(logs[0]["topics"], json!([CHANGED, by]));
    assert_eq!(logs[0]["data"], json!(word(SECOND_VALUE)));
    data(&logs[0]["transactionHash"], 32);
}
