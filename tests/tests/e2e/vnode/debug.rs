//! Traces and `debug_setHead`, on a chain that was mined.

use e2e::contract::{creation_code, set, word};
use e2e::{Vnode, quantity};
use serde_json::{Value, json};

const APIS: &str = "mc,net,chain3,debug,txpool,miner";

#[test]
fn traces_agree_with_receipts() {
    let node = Vnode::with_blocks(["--rpcapi", APIS]);
    let accounts = node.accounts();
    let created = node.send(json!({"from": accounts[0], "data": creation_code(), "gas": "0x7a120"}));
    let contract = node.receipt(&created)["contractAddress"].clone();
    let sent = [
        node.send(json!({"from": accounts[1], "to": contract, "data": set(7)})),
        node.send(json!({"from": accounts[2], "to": contract, "data": set(0), "gas": "0x186a0"})),
        node.send(json!({"from": accounts[3], "to": accounts[4], "value": "0x5"})),
    ];
    for hash in sent.iter().chain([&created]) {
        let receipt = node.receipt(hash);
        let steps = node.rpc("debug_traceTransaction", json!([hash]));
        assert_eq!(
            u128::from(steps["gas"].as_u64().expect("a number")),
            quantity(&receipt["gasUsed"])
        );
        assert_eq!(steps["failed"], json!(receipt["status"] == "0x0"), "{hash}");
        let calls = node.rpc("debug_traceTransaction", json!([hash, {"tracer": "callTracer"}]));
        assert_eq!(calls["gasUsed"], receipt["gasUsed"]);
        assert_eq!(calls.get("error").is_some(), receipt["status"] == "0x0");
        let block = node.rpc(
            "debug_traceBlockByHash",
            json!([receipt["blockHash"], {"tracer": "callTracer"}]),
        );
        let index = quantity(&receipt["transactionIndex"]) as usize;
        assert_eq!(block[index], json!({"txHash": hash, "result": calls}));
    }
    let receipt = node.receipt(&sent[0]);
    let next = quantity(&receipt["transactionIndex"]) + 1;
    let range = json!([receipt["blockHash"], next as u64, contract, "0x0", 10]);
    let storage = node.rpc("debug_storageRangeAt", range)["storage"].to_string();
    assert!(storage.contains(&word(7)), "{storage}");
}

#[test]
fn a_head_that_was_set_back_stays_and_can_be_extended() {
    let node = Vnode::dev(["--mine", "--rpcapi", APIS]);
    let accounts = node.accounts();
    node.wait_for_head(1);
    let sent = node.send(json!({"from": accounts[0], "to": accounts[1], "value": "0x5"}));
    let receipt = node.receipt(&sent);
    let included = quantity(&receipt["blockNumber"]);
    assert_eq!(node.rpc("miner_stop", json!([])), true);
    let before = node.block(included - 1);
    assert_eq!(
        node.rpc("debug_setHead", json!([included as u64 - 1])),
        Value::Null
    );
    assert_eq!(node.block(included - 1), before);
    assert_eq!(node.rpc("mc_getTransactionByHash", json!([sent])), Value::Null);
    assert_eq!(node.rpc("txpool_status", json!([]))["pending"], "0x0");
    let gone = node.rpc("mc_getBlockByHash", json!([receipt["blockHash"], false]));
    assert_eq!(gone, Value::Null);
    let head = node.head();
    let refused = node.refused("debug_setHead", json!([head as u64 + 5]), -32000);
    assert_eq!(
        refused,
        format!("block {} is above the head block {head}", head + 5)
    );
    assert_eq!(node.rpc("miner_start", json!([])), Value::Null);
    node.wait_for_head(head + 2);
    // The first nonce of the sender can be used again.
    let again = node.send(json!({"from": accounts[0], "to": accounts[1], "value": "0x6"}));
    assert_eq!(
        node.rpc("mc_getTransactionByHash", json!([again]))["nonce"],
        "0x0"
    );
    node.receipt(&again);
}
