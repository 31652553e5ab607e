//! MicroChains on the base chain without an SCS: a development node, and chain3 as the client.

use std::fs;

use e2e::clients::javascript;
use e2e::ledger::MINER;
use e2e::{Vnode, quantity};
use serde_json::{Value, json};

use crate::microchain::folder;

/// Addresses and keys of the funded accounts, from the banner.
fn accounts(node: &Vnode) -> Vec<Value> {
    let banner = node.banner();
    let lines = banner.lines().filter(|line| line.trim_start().starts_with('('));
    let accounts: Vec<_> = lines
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            json!({ "address": words[1], "key": words.last() })
        })
        .collect();
    assert_eq!(accounts.len(), 10, "accounts in {banner}");
    accounts
}

/// The argument of a script: the node, its accounts and the contracts.
fn stage(node: &Vnode) -> Value {
    let compiled = folder().join("compiled.json");
    assert!(
        fs::exists(&compiled).is_ok_and(|exists| exists),
        "{}",
        compiled.display()
    );
    json!({ "url": node.url(), "accounts": accounts(node), "compiled": compiled })
}

#[test]
fn microchains_live_on_the_base_chain() {
    let Some(clients) = javascript() else { return };
    let node = Vnode::dev([
        "--dev.seal",
        "instant",
        "--dev.period",
        "1",
        "--moacbase",
        MINER,
        "--rpcapi",
        "mc,net,chain3,debug",
    ]);
    node.wait_for_head(1);
    let result = clients.run("microchain.mjs", &stage(&node));

    // The chain bases and the Dapps were created, by transactions in blocks that can be read.
    let created = result["created"].as_object().expect("contracts by name");
    for name in [
        "ScsPool",
        "VnodePool",
        "ChainBase",
        "TokenChainBase",
        "DappBase",
        "Token",
        "Counter",
    ] {
        assert!(created.contains_key(name), "{name} was not created: {created:?}");
    }
    let sent: usize = (1..=node.head())
        .map(|number| {
            let block = node.rpc("mc_getBlockByNumber", json!([format!("{number:#x}"), false]));
            assert!(
                quantity(&block["gasUsed"]) <= quantity(&block["gasLimit"]),
                "block {number}"
            );
            block["transactions"].as_array().map_or(0, Vec::len)
        })
        .sum();
    let expected = result["transactions"].as_u64().expect("a number");
    assert!(
        sent as u64 >= expected,
        "got {sent} transactions in blocks, expected {expected}"
    );
}

#[test]
fn attacks_on_a_chain_base_get_nothing() {
    let Some(clients) = javascript() else { return };
    let node = Vnode::dev([
        "--dev.seal",
        "instant",
        "--moacbase",
        MINER,
        "--rpcapi",
        "mc,net,chain3,debug,evm",
    ]);
    let result = clients.run("microchain-attacks.mjs", &stage(&node));
    assert_eq!(result["attacks"], 4);
}
