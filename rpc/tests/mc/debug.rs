//! The module `debug`: traces, raw blocks and states, refused blocks, setting the head.

use std::time::Duration;

use chain::import::Imported;
use primitives::{B256, Block, TxRules, U256, hex, keccak256};
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::calls::{RUNTIME, deploy, word};
use crate::mc::harness::{Net, account, quantity};

/// Data that creates a contract of `runtime` code, at most 255 bytes.
fn creation_of(runtime: &str) -> String {
    let length = runtime.len() / 2;
    format!("0x60{length:02x}600c60003960{length:02x}6000f3{runtime}")
}

/// Deploys a contract that calls `callee` without data and writes the returned word to its memory.
fn deploy_caller(net: &Net, callee: &str) -> String {
    let runtime = format!("6020600060006000600073{}61fffff100", &callee[2..]);
    let hash = net.send(json!({"data": creation_of(&runtime), "gas": "0x186a0"}));
    net.mine();
    let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
    receipt["contractAddress"]
        .as_str()
        .expect("an address")
        .to_owned()
}

fn names(trace: &Value) -> Vec<&str> {
    let steps = trace["structLogs"].as_array().expect("steps");
    steps
        .iter()
        .map(|step| step["op"].as_str().expect("a name"))
        .collect()
}

fn digits(value: u64) -> String {
    format!("{value:064x}")
}

#[test]
fn every_step_of_a_transaction() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    net.send(json!({"to": contract, "data": word(4)}));
    let hash = net.send(json!({"to": contract, "data": word(5)}));
    net.mine();
    let trace = net.ok("debug_traceTransaction", json!([hash]));
    let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
    assert_eq!(
        quantity(trace["gas"].as_u64().expect("a number")),
        receipt["gasUsed"]
    );
    assert_eq!(
        (&trace["failed"], &trace["returnValue"]),
        (&json!(false), &json!(""))
    );
    let expected = "CALLDATASIZE PUSH1 JUMPI JUMPDEST PUSH1 CALLDATALOAD DUP1 PUSH2 EQ PUSH1 JUMPI DUP1 PUSH1 \
                SSTORE DUP1 PUSH1 MSTORE DUP1 PUSH1 PUSH1 PUSH1 LOG2 STOP";
    assert_eq!(names(&trace).join(" "), expected);

    let steps = trace["structLogs"].as_array().expect("steps");
    let first = json!({
        "pc": 0, "op": "CALLDATASIZE", "gas": steps[0]["gas"], "gasCost": 2, "depth": 1,
        "stack": [], "memory": [],
    });
    assert_eq!(steps[0], first);
    // The earlier transaction of the block stored 4. This write changes the slot and costs 5000.
    let write = &steps[13];
    assert_eq!(
        (&write["op"], &write["gasCost"], &write["pc"]),
        (&json!("SSTORE"), &json!(5000), &json!(30))
    );
    assert_eq!(write["stack"], json!([digits(5), digits(5), digits(0)]));
    assert_eq!(write["storage"], json!({digits(0): digits(5)}));
    assert_eq!(steps[21]["memory"], json!([digits(5)]));
    let costs: u64 = steps
        .iter()
        .map(|step| step["gasCost"].as_u64().expect("a number"))
        .sum();
    let before = steps[0]["gas"].as_u64().expect("a number");
    let last = steps.last().expect("a step");
    assert_eq!(before - costs, last["gas"].as_u64().expect("a number"));

    let options = json!({"disableStack": true, "disableMemory": true, "disableStorage": true, "limit": 14});
    let short = net.ok("debug_traceTransaction", json!([hash, options]));
    assert_eq!(names(&short).len(), 14);
    for step in short["structLogs"].as_array().expect("steps") {
        let members = step.as_object().expect("an object");
        assert!(
            !["stack", "memory", "storage"]
                .iter()
                .any(|name| members.contains_key(*name)),
            "{step}"
        );
    }
    assert_eq!(short["gas"], trace["gas"]);
}

#[test]
fn reads_show_the_value() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    net.send(json!({"to": contract, "data": word(9)}));
    net.mine();
    let hash = net.send(json!({"to": contract}));
    net.mine();
    let trace = net.ok("debug_traceTransaction", json!([hash, {}]));
    assert_eq!(trace["returnValue"], digits(9));
    let steps = trace["structLogs"].as_array().expect("steps");
    let read = steps.iter().find(|step| step["op"] == "SLOAD").expect("a read");
    assert_eq!(read["storage"], json!({digits(0): digits(9)}));
}

#[test]
fn failed_transactions() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    let reverted = net.send(json!({"to": contract, "data": word(0xdead), "gas": "0x186a0"}));
    let starved = net.send(json!({"to": contract, "data": word(1), "gas": "0x1388"}));
    let invalid = net.send(json!({"data": "0xfe", "gas": "0x186a0"}));
    net.mine();
    let check = |hash: &str, returned: &str, error: &str, used: &str| {
        let trace = net.ok("debug_traceTransaction", json!([hash]));
        assert_eq!(
            (&trace["failed"], &trace["returnValue"]),
            (&json!(true), &json!(returned)),
            "{error}"
        );
        let calls = net.ok("debug_traceTransaction", json!([hash, {"tracer": "callTracer"}]));
        assert_eq!(calls["error"], error);
        assert_eq!(calls["gasUsed"], used);
        let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
        assert_eq!(receipt["gasUsed"], used);
        trace
    };
    let used = net.ok("mc_getTransactionReceipt", json!([reverted]))["gasUsed"].clone();
    check(
        &reverted,
        &digits(0xdead),
        "evm: execution reverted",
        used.as_str().expect("text"),
    );
    // The gas that was left before the instruction that failed goes back. So it is in a block of
    // the public network.
    let trace = check(&starved, "", "out of gas", "0x4da");
    let last = trace["structLogs"]
        .as_array()
        .and_then(|steps| steps.last())
        .expect("a step");
    assert_eq!(
        (&last["op"], &last["error"]),
        (&json!("SSTORE"), &json!("out of gas"))
    );
    check(&invalid, "", "Invalid opcode", "0x186a0");
}

#[test]
fn calls_within_calls() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    let caller = deploy_caller(&net, &contract);
    net.send(json!({"to": contract, "data": word(7)}));
    let hash = net.send(json!({"to": caller, "value": "0x3", "gas": "0x30d40"}));
    net.mine();
    let calls = net.ok("debug_traceTransaction", json!([hash, {"tracer": "callTracer"}]));
    let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
    let inner = json!({
        "type": "CALL", "from": caller, "to": contract, "value": "0x0", "gas": "0xffff",
        "gasUsed": calls["calls"][0]["gasUsed"], "input": "0x", "output": word(7),
    });
    let whole = json!({
        "type": "CALL", "from": account(0), "to": caller, "value": "0x3", "gas": "0x30d40",
        "gasUsed": receipt["gasUsed"], "input": "0x", "calls": [inner],
    });
    assert_eq!(calls, whole);
    let options = json!({"tracer": "callTracer", "tracerConfig": {"onlyTopCall": true}});
    let top = net.ok("debug_traceTransaction", json!([hash, options]));
    assert!(top.get("calls").is_none(), "{top}");
    assert_eq!(top["gasUsed"], calls["gasUsed"]);
    // The steps enter the inner call and return from it.
    let steps = net.ok("debug_traceTransaction", json!([hash]));
    let depths: Vec<_> = steps["structLogs"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| step["depth"].as_u64().expect("a number"))
        .collect();
    let depth_changes: Vec<_> = depths.chunk_by(|a, b| a == b).map(|run| run[0]).collect();
    assert_eq!(depth_changes, [1, 2, 1]);
}

#[test]
fn creations() {
    let net = Net::start();
    let (contract, receipt) = deploy(&net);
    let hash = receipt["transactionHash"].clone();
    let calls = net.ok("debug_traceTransaction", json!([hash, {"tracer": "callTracer"}]));
    assert_eq!(
        (&calls["type"], &calls["to"]),
        (&json!("CREATE"), &json!(contract))
    );
    assert_eq!(calls["output"], json!(RUNTIME));
    let trace = net.ok("debug_traceTransaction", json!([hash]));
    assert_eq!(trace["returnValue"], json!(RUNTIME[2..]));
}

#[test]
fn whole_blocks() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    let hashes: Vec<_> = [word(1), word(2), word(0xdead)]
        .into_iter()
        .map(|input| net.send(json!({"to": contract, "data": input})))
        .collect();
    let block = net.mine();
    let options = json!({"tracer": "callTracer"});
    let by_number = net.ok("debug_traceBlockByNumber", json!(["latest", options]));
    let by_hash = json!([data(block.hash()), options]);
    assert_eq!(net.ok("debug_traceBlockByHash", by_hash), by_number);
    for (index, hash) in hashes.iter().enumerate() {
        let alone = net.ok("debug_traceTransaction", json!([hash, options]));
        assert_eq!(by_number[index], json!({"txHash": hash, "result": alone}));
    }
    // A side block whose parent is canonical can be executed again.
    net.mine();
    net.send(json!({"to": contract, "data": word(3)}));
    let head = net.view().head_hash();
    let side = net.build(&head, b"side", &[]);
    net.mine();
    assert_eq!(
        net.chain.import(side.clone()).expect("a good block"),
        Imported::Side
    );
    let traced = net.ok("debug_traceBlockByHash", json!([data(side.hash()), options]));
    assert_eq!(traced.as_array().map(Vec::len), Some(1));

    let refused =
        |method: &str, params: Value, message: &str| net.check_error(method, params, -32000, message);
    let nowhere = format!("0x{}", "ab".repeat(32));
    refused(
        "debug_traceBlockByNumber",
        json!(["0x0"]),
        "block 0 is not traceable: it has no transactions",
    );
    refused("debug_traceBlockByNumber", json!(["0x63"]), "block #99 not found");
    refused(
        "debug_traceBlockByNumber",
        json!(["pending"]),
        "the pending block has no trace",
    );
    refused(
        "debug_traceBlockByHash",
        json!([nowhere]),
        &format!("block {nowhere} not found"),
    );
    refused(
        "debug_traceTransaction",
        json!([nowhere]),
        &format!("transaction {nowhere} not found"),
    );
    net.check_error(
        "debug_traceTransaction",
        json!([nowhere, {"tracer": "bigramTracer"}]),
        -32602,
        "invalid argument 1: field tracer: got \"bigramTracer\", expected none or one of callTracer, \
         prestateTracer, 4byteTracer, noopTracer",
    );
}

#[test]
fn traces_are_bounded() {
    let net = Net::start();
    // The code expands its memory to 64 KiB and loops for ever. Each step shows the whole memory.
    let hash = net.send(json!({"data": creation_of("600061ffe0525b600656"), "gas": "0x186a0"}));
    net.mine();
    let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
    let hash = net.send(json!({"to": receipt["contractAddress"], "gas": "0x7a1200"}));
    net.mine();
    let (code, message) = net.error("debug_traceTransaction", &json!([hash]).to_string());
    assert_eq!(code, -32000);
    assert!(message.starts_with("the trace is longer than "), "{message}");
    let (_, message) = net.error(
        "debug_traceTransaction",
        &json!([hash, {"timeout": "0ms"}]).to_string(),
    );
    assert_eq!(message, "the trace was not ready after 0ns");
    let few = json!([hash, {"limit": 5, "disableMemory": true}]);
    assert_eq!(names(&net.ok("debug_traceTransaction", few)).len(), 5);
}

#[test]
fn the_operator_limits_the_time_of_traces() {
    let net = Net::with(|settings| settings.trace_timeout_max = Duration::ZERO);
    let hash = net.send(json!({"to": account(5)}));
    net.mine();
    for options in [
        json!({}),
        json!({"timeout": "60m"}),
        json!({"tracer": "callTracer"}),
    ] {
        net.check_error(
            "debug_traceTransaction",
            json!([hash, options]),
            -32000,
            "the trace was not ready after 0ns",
        );
    }
}

#[test]
fn storage_by_ranges() {
    let net = Net::start();
    // The code stores the first word of its data in the slot that the second word names.
    let hash = net.send(json!({"data": creation_of("6000356020355500")}));
    net.mine();
    let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
    let contract = receipt["contractAddress"].clone();
    let put = |slot: u64, value: u64| {
        let input = format!("{}{}", word(value), &word(slot)[2..]);
        net.send(json!({"to": contract, "data": input}));
    };
    (1..=3).for_each(|slot| put(slot, slot + 100));
    net.mine();
    put(2, 0);
    put(4, 104);
    put(1, 201);
    let block = net.mine();
    let hashed = |slot: u64| data(keccak256(U256::from(slot).to_be_bytes::<32>()));
    let range = |index: usize, from: &str, limit: usize| {
        let params = json!([data(block.hash()), index, contract, from, limit]);
        net.ok("debug_storageRangeAt", params)
    };
    let check = |index: usize, slots: &[(u64, u64)]| {
        let storage: serde_json::Map<_, _> = slots
            .iter()
            .map(|(slot, value)| (hashed(*slot), json!({"key": word(*slot), "value": word(*value)})))
            .collect();
        let expected = json!({"storage": storage, "nextKey": null});
        assert_eq!(range(index, "0x0", 10), expected, "before transaction {index}");
    };
    check(0, &[(1, 101), (2, 102), (3, 103)]);
    check(1, &[(1, 101), (3, 103)]);
    check(2, &[(1, 101), (3, 103), (4, 104)]);
    check(3, &[(1, 201), (3, 103), (4, 104)]);
    // One slot at a time, in the order of the hashes.
    let mut order: Vec<_> = [1, 3, 4].map(hashed).to_vec();
    order.sort_unstable();
    let mut from = "0x0".to_owned();
    for (index, hash) in order.iter().enumerate() {
        let part = range(3, &from, 1);
        let found: Vec<_> = part["storage"].as_object().expect("an object").keys().collect();
        assert_eq!(found, [hash]);
        assert_eq!(
            part["nextKey"],
            order.get(index + 1).map_or(Value::Null, |next| json!(next))
        );
        from = part["nextKey"].as_str().unwrap_or_default().to_owned();
    }
    let nobody = json!([data(block.hash()), 0, account(9), "0x0", 10]);
    assert_eq!(
        net.ok("debug_storageRangeAt", nobody),
        json!({"storage": {}, "nextKey": null})
    );
    net.check_error(
        "debug_storageRangeAt",
        json!([data(block.hash()), 4, contract, "0x0", 1]),
        -32000,
        "transaction index: got 4, but the block has 3 transactions",
    );
}

#[test]
fn dumps() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    net.send(json!({"to": contract, "data": word(5)}));
    let block = net.mine();
    let dump = net.ok("debug_dumpBlock", json!(["latest"]));
    assert_eq!(dump["root"], json!(data(block.header.state_root)));
    // Ten funded accounts, the contract, the miner.
    assert_eq!(dump["accounts"].as_object().map(serde_json::Map::len), Some(12));
    let shown = &dump["accounts"][&contract];
    assert_eq!(shown["storage"], json!({word(0): word(5)}));
    assert_eq!((&shown["code"], &shown["nonce"]), (&json!(RUNTIME), &json!(1)));
    assert_eq!(
        dump["accounts"][account(9)]["balance"],
        "1000000000000000000000000"
    );
    let before = net.ok("debug_dumpBlock", json!(["0x1"]));
    assert_eq!(before["accounts"][&contract]["storage"], json!({}));
    net.check_error("debug_dumpBlock", json!(["0x3"]), -32000, "block #3 not found");
}

#[test]
fn raw_blocks() {
    let net = Net::start();
    net.send(json!({"to": account(5)}));
    let block = net.mine();
    for number in [json!(1), json!("0x1")] {
        let rlp = net.ok("debug_getBlockRlp", json!([number]));
        let bytes = hex::decode(rlp.as_str().expect("DATA")).expect("hex");
        assert_eq!(Block::decode(&bytes, TxRules::Moac), Ok(block.clone()));
    }
    let text = net.ok("debug_printBlock", json!([1]));
    assert!(
        text.as_str().is_some_and(|text| text.contains("gas_limit")),
        "{text}"
    );
    let seed = |number: u64| net.ok("debug_seedHash", json!([number]));
    assert_eq!(seed(29_999), json!(data(B256::ZERO)));
    assert_eq!(seed(30_000), json!(data(keccak256(B256::ZERO))));
    // The last block that has an epoch, the first that has none, and the highest number.
    let last = 30_000 * 32_640 - 1;
    assert!(seed(last).is_string());
    for beyond in [last + 1, u64::MAX] {
        let text = format!("block {beyond} is after the last epoch, 32639");
        net.check_error("debug_seedHash", json!([beyond]), -32000, &text);
    }
    for method in ["debug_getBlockRlp", "debug_printBlock"] {
        net.check_error(method, json!([2]), -32000, "block #2 not found");
        net.check_error(
            method,
            json!([-1]),
            -32602,
            "invalid argument 0: expected a whole number of at most 64 bits",
        );
    }
}

#[test]
fn refused_blocks_are_remembered() {
    let net = Net::start();
    assert_eq!(net.ok("debug_getBadBlocks", json!([])), json!([]));
    let mut bad = net.build(&net.view().head_hash(), b"bad", &[]);
    bad.header.state_root = B256::repeat_byte(1);
    let hash = data(bad.hash());
    for _ in 0..2 {
        net.chain.import(bad.clone()).expect_err("another state");
    }
    // A block whose parent is unknown may be valid, so it is not recorded.
    let mut early = net.build(&net.view().head_hash(), b"early", &[]);
    early.header.parent_hash = B256::repeat_byte(2);
    net.chain.import(early).expect_err("no parent");
    let shown = net.ok("debug_getBadBlocks", json!([]));
    assert_eq!(shown.as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(
        (&shown[0]["hash"], &shown[0]["block"]["hash"]),
        (&json!(hash), &json!(hash))
    );
    assert_eq!(shown[0]["rlp"], json!(data(bad.encode())));
    let reason = shown[0]["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("state root: got 0x"), "{reason}");
}

#[test]
fn the_head_is_set_back() {
    let net = Net::start();
    let first = net.mine();
    let sent = net.send(json!({"to": account(5), "value": "0x7"}));
    let (second, side) = net.mine_two();
    net.send(json!({"to": account(5), "value": "0x8"}));
    net.mine();
    net.check_error(
        "debug_setHead",
        json!([4]),
        -32000,
        "block 4 is above the head block 3",
    );
    let before = net.ok("mc_getBalance", json!([account(5), "0x1"]));
    assert_eq!(net.ok("debug_setHead", json!([1])), Value::Null);
    assert_eq!(net.ok("mc_blockNumber", json!([])), "0x1");
    assert_eq!(net.view().head_hash(), first.hash());
    assert_eq!(net.ok("mc_getBalance", json!([account(5)])), before);
    assert_eq!(net.ok("mc_getTransactionByHash", json!([sent])), Value::Null);
    for gone in [&second, &side] {
        let object = net.ok("mc_getBlockByHash", json!([data(gone.hash()), false]));
        assert_eq!(object, Value::Null);
    }
    assert_eq!(
        net.ok("txpool_status", json!([]))["pending"],
        "0x0",
        "the transactions of removed blocks do not come back"
    );
    // A removed block can be imported again.
    let again = net.chain.import(second.clone()).expect("a good block");
    assert!(matches!(again, Imported::Head { .. }), "{again:?}");
    assert_eq!(
        net.ok("mc_getTransactionByHash", json!([sent]))["blockHash"],
        json!(data(second.hash()))
    );
    // Back to block 0, and on from there.
    assert_eq!(net.ok("debug_setHead", json!(["0x0"])), Value::Null);
    assert_eq!(net.ok("mc_blockNumber", json!([])), "0x0");
    assert_eq!(
        net.ok("mc_getTransactionCount", json!([account(0), "pending"])),
        "0x0"
    );
    net.send(json!({"to": account(5), "from": account(0)}));
    assert_eq!(net.mine().transactions.len(), 1);
}

#[test]
fn long_texts_are_refused() {
    let net = Net::with(|settings| settings.response_len_max = 1000);
    let head = net.mine();
    assert_eq!(head.header.number, 1);
    for (method, params) in [
        ("debug_printBlock", json!([1])),
        ("debug_dumpBlock", json!(["latest"])),
    ] {
        net.check_error(method, params, -32000, "the response is longer than 1000 bytes");
    }
}
