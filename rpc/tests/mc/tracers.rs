//! The tracers, traces of calls, Parity's traces, raw bytes, and the account's part of the pool.

use chain::trace::{CallOptions, TraceRequest, Tracer};
use primitives::{Block, Receipt, ReceiptForm, Transaction, TxRules, U256};
use rpc::types::data;
use rpc::{FilterLimits, Limits};
use serde_json::{Value, json};

use crate::mc::calls::{RUNTIME, deploy, word};
use crate::mc::harness::{BENEFICIARY, Net, account, quantity};

/// Deploys a contract that calls the contract at `callee` with the word that it gets, and 3 sha.
fn deploy_forwarder(net: &Net, callee: &str) -> String {
    // CALLDATACOPY of a word; CALL with value 3; then CREATE of nothing.
    let runtime = format!(
        "602060006000376000600060206000600373{}62030d40f150600060006000f000",
        &callee[2..]
    );
    let len = runtime.len() / 2;
    let hash = net.send(json!({
        "data": format!("0x60{len:02x}600c60003960{len:02x}6000f3{runtime}"), "gas": "0x186a0", "value": "0x64",
    }));
    net.mine();
    let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
    assert_eq!(receipt["status"], "0x1");
    receipt["contractAddress"]
        .as_str()
        .expect("an address")
        .to_owned()
}

/// A node with a contract that forwards to another one, and the hash of a transaction that calls
/// the first one with `value`.
fn scene(value: u64) -> (Net, String, String, String) {
    scene_on(Net::start(), value)
}

fn scene_on(net: Net, value: u64) -> (Net, String, String, String) {
    let (contract, _) = deploy(&net);
    let forwarder = deploy_forwarder(&net, &contract);
    let hash = net.send(json!({"to": forwarder, "data": word(value), "gas": "0x7a120"}));
    net.mine();
    (net, contract, forwarder, hash)
}

fn trace(net: &Net, hash: &str, options: Value) -> Value {
    net.ok("debug_traceTransaction", json!([hash, options]))
}

#[test]
fn calls_with_logs() {
    let (net, contract, forwarder, hash) = scene(5);
    let options = json!({"tracer": "callTracer", "tracerConfig": {"withLog": true}});
    let calls = trace(&net, &hash, options.clone());
    let log =
        json!({"address": contract, "topics": [word(0x11), word(5)], "data": word(5), "position": "0x0"});
    assert_eq!(calls["calls"][0]["logs"], json!([log]));
    assert_eq!(
        (&calls["calls"][0]["to"], &calls["to"]),
        (&json!(contract), &json!(forwarder))
    );
    assert_eq!(calls["calls"][1]["type"], "CREATE");
    assert!(calls.get("logs").is_none());
    // Without the option there are none, and none of a call that fails.
    let plain = trace(&net, &hash, json!({"tracer": "callTracer"}));
    assert!(plain["calls"][0].get("logs").is_none());
    let (net, _, _, failing) = scene(0xdead);
    let calls = trace(&net, &failing, options);
    assert_eq!(calls["calls"][0]["error"], "evm: execution reverted");
    assert!(calls["calls"][0].get("logs").is_none());
}

#[test]
fn accounts_before_and_changes() {
    let (net, contract, forwarder, hash) = scene(5);
    let before = net.ok("eth_getBalance", json!([account(0), "0x2"]));
    let nonce = u64::from_str_radix(
        &net.ok("eth_getTransactionCount", json!([account(0), "0x2"]))
            .as_str()
            .expect("text")[2..],
        16,
    );
    let nonce = nonce.expect("a number");
    let all = trace(&net, &hash, json!({"tracer": "prestateTracer"}));
    assert_eq!(all[account(0)], json!({"balance": before, "nonce": nonce}));
    let expected = json!({"balance": "0x0", "nonce": 1, "code": RUNTIME, "storage": {word(0): word(0)}});
    assert_eq!(all[&contract], expected);
    assert_eq!(
        (&all[&forwarder]["balance"], &all[&forwarder]["nonce"]),
        (&json!("0x64"), &json!(1))
    );
    assert!(all.get(data(BENEFICIARY)).is_some());

    let changes = trace(
        &net,
        &hash,
        json!({"tracer": "prestateTracer", "tracerConfig": {"diffMode": true}}),
    );
    let (pre, post) = (&changes["pre"], &changes["post"]);
    assert_eq!(pre[account(0)], all[account(0)]);
    assert_eq!(post[account(0)]["nonce"], json!(nonce + 1));
    assert_eq!(
        post[account(0)]["balance"],
        net.ok("eth_getBalance", json!([account(0), "0x3"]))
    );
    assert_eq!(
        pre[&contract],
        json!({"balance": "0x0", "nonce": 1, "code": RUNTIME})
    );
    assert_eq!(
        post[&contract],
        json!({"balance": "0x3", "storage": {word(0): word(5)}})
    );
    assert_eq!(post[&forwarder], json!({"balance": "0x61", "nonce": 2}));
    // The contract that was created has no values before.
    let created = trace(&net, &hash, json!({"tracer": "callTracer"}))["calls"][1]["to"].clone();
    let created = created.as_str().expect("an address");
    assert!(pre.get(created).is_none());
    assert_eq!(post[created], json!({"nonce": 1}));

    // A creation by the transaction itself.
    let deployed = net.ok("eth_getBlockByNumber", json!(["0x1", false]))["transactions"][0].clone();
    let own = trace(
        &net,
        deployed.as_str().expect("a hash"),
        json!({"tracer": "prestateTracer"}),
    );
    assert!(own.get(&contract).is_none(), "{own}");
    let own = json!({"tracer": "prestateTracer", "tracerConfig": {"diffMode": true}});
    let own = trace(&net, deployed.as_str().expect("a hash"), own);
    assert_eq!(own["post"][&contract], json!({"nonce": 1, "code": RUNTIME}));
}

#[test]
fn destroyed_contracts_are_gone_afterwards() {
    let net = Net::start();
    // SSTORE of 1 at 1; the code is SELFDESTRUCT to the caller.
    let code = "0x60016001556002601160003960026000f333ff";
    let hash = net.send(json!({"data": code, "gas": "0x186a0"}));
    net.mine();
    let contract = net.ok("mc_getTransactionReceipt", json!([hash]))["contractAddress"].clone();
    assert_eq!(net.ok("mc_getCode", json!([contract])), "0x33ff");
    let hash = net.send(json!({"to": contract, "value": "0x7", "gas": "0x186a0"}));
    net.mine();
    assert_eq!(net.ok("mc_getCode", json!([contract])), "0x");
    let changes = trace(
        &net,
        &hash,
        json!({"tracer": "prestateTracer", "tracerConfig": {"diffMode": true}}),
    );
    let contract = contract.as_str().expect("an address");
    assert_eq!(
        changes["pre"][contract],
        json!({"balance": "0x0", "nonce": 1, "code": "0x33ff"})
    );
    assert!(changes["post"].get(contract).is_none());
    let flat = net.ok("trace_transaction", json!([hash]));
    assert_eq!(flat[1]["type"], "suicide");
    assert_eq!(
        flat[1]["action"],
        json!({"address": contract, "refundAddress": account(0), "balance": "0x7"})
    );
    assert_eq!(
        (&flat[1]["result"], &flat[1]["traceAddress"]),
        (&Value::Null, &json!([0]))
    );
}

#[test]
fn functions_and_nothing() {
    let (net, _, _, hash) = scene(5);
    let counts = trace(&net, &hash, json!({"tracer": "4byteTracer"}));
    assert_eq!(counts, json!({"0x00000000-28": 2}));
    assert_eq!(trace(&net, &hash, json!({"tracer": "noopTracer"})), json!({}));
    let block = net.ok(
        "debug_traceBlockByNumber",
        json!(["latest", {"tracer": "4byteTracer"}]),
    );
    assert_eq!(block, json!([{"txHash": hash, "result": counts}]));
}

#[test]
fn traces_of_calls() {
    let (net, contract, forwarder, hash) = scene(5);
    let request = json!({"from": account(0), "to": forwarder, "data": word(5), "gas": "0x7a120"});
    // On the state before the transaction the call does the same.
    let options = json!({"tracer": "callTracer", "tracerConfig": {"withLog": true}});
    let of_call = net.ok("debug_traceCall", json!([request, "0x2", options]));
    assert_eq!(of_call, trace(&net, &hash, options));
    let steps = net.ok("debug_traceCall", json!([request, "0x2"]));
    assert_eq!(steps["structLogs"], trace(&net, &hash, json!({}))["structLogs"]);
    let before = net.ok(
        "debug_traceCall",
        json!([request, "latest", {"tracer": "prestateTracer"}]),
    );
    assert_eq!(before[&contract]["storage"], json!({word(0): word(5)}));
    // With another state and another block.
    let overrides = json!({
        "tracer": "callTracer",
        "stateOverrides": {&contract: {"code": "0x4360005260206000f3"}},
        "blockOverrides": {"number": "0x99"},
    });
    let replaced = net.ok("debug_traceCall", json!([{"to": contract}, "pending", overrides]));
    assert_eq!(replaced["output"], word(0x99));
    net.check_error(
        "debug_traceCall",
        json!([{"to": contract}, "0x99"]),
        -32000,
        "block 153 is above the head block 3",
    );
    net.check_error(
        "debug_traceCall",
        json!([{"to": contract}, "latest", {"tracer": "x"}]),
        -32602,
        "invalid argument 2: field tracer: got \"x\", expected none or one of callTracer, prestateTracer, \
         4byteTracer, noopTracer",
    );
    let view = net.view();
    let request = TraceRequest::new(Tracer::Calls(CallOptions::default()), std::time::Duration::ZERO);
    let at = chain::call::StateAt::Block(3);
    let error = view.trace_call(at, &chain::call::CallRequest::default(), &request);
    assert!(error.expect_err("no time").to_string().contains("was not ready"));
}

#[test]
fn parity_traces() {
    let (net, contract, forwarder, hash) = scene(5);
    let receipt = net.ok("eth_getTransactionReceipt", json!([hash]));
    let flat = net.ok("trace_transaction", json!([hash]));
    let list = flat.as_array().expect("traces");
    assert_eq!(list.len(), 3);
    let top = &list[0];
    assert_eq!(
        (&top["type"], &top["traceAddress"], &top["subtraces"]),
        (&json!("call"), &json!([]), &json!(2))
    );
    assert_eq!(top["action"]["callType"], "call");
    assert_eq!(
        (
            &top["action"]["from"],
            &top["action"]["to"],
            &top["action"]["input"]
        ),
        (&json!(account(0)), &json!(forwarder), &json!(word(5)))
    );
    assert_eq!(
        (&top["blockHash"], &top["blockNumber"]),
        (&receipt["blockHash"], &json!(3))
    );
    assert_eq!(
        (&top["transactionHash"], &top["transactionPosition"]),
        (&json!(hash), &json!(0))
    );
    assert_eq!(
        (&list[1]["traceAddress"], &list[2]["traceAddress"]),
        (&json!([0]), &json!([1]))
    );
    assert_eq!(
        (&list[1]["action"]["to"], &list[1]["action"]["value"]),
        (&json!(contract), &json!("0x3"))
    );
    assert_eq!(
        (&list[2]["type"], &list[2]["action"]["init"]),
        (&json!("create"), &json!("0x"))
    );
    assert_eq!(list[2]["result"]["code"], "0x");

    let block = net.ok("trace_block", json!(["0x3"]));
    let block = block.as_array().expect("traces");
    assert_eq!(block[..3], list[..]);
    let reward = json!({
        "action": {"author": data(BENEFICIARY), "rewardType": "block", "value": "0x1bc16d674ec80000"},
        "blockHash": receipt["blockHash"], "blockNumber": 3, "result": null, "subtraces": 0, "traceAddress": [],
        "transactionHash": null, "transactionPosition": null, "type": "reward",
    });
    assert_eq!(block[3..], [reward]);
    assert_eq!(net.ok("trace_block", json!(["0x0"])), json!([]));
    for (method, unknown) in [
        ("trace_block", json!("0x99")),
        ("trace_transaction", json!(word(1))),
    ] {
        assert_eq!(net.ok(method, json!([unknown])), Value::Null);
    }
    // A failure has a word of Parity's and no result.
    let (net, _, _, failing) = scene(0xdead);
    let flat = net.ok("trace_transaction", json!([failing]));
    assert_eq!(
        (&flat[1]["error"], flat[1].get("result")),
        (&json!("Reverted"), None)
    );
}

#[test]
fn filtered_traces() {
    let (net, contract, forwarder, _) = scene(5);
    net.send(json!({"to": contract, "data": word(6)}));
    net.mine();
    let filter = |filter: Value| {
        let found = net.ok("trace_filter", json!([filter]));
        let found = found.as_array().expect("traces").clone();
        found
            .iter()
            .map(|trace| {
                (
                    trace["blockNumber"].as_u64().expect("a number"),
                    trace["type"].clone(),
                )
            })
            .collect::<Vec<_>>()
    };
    let call = |number: u64| (number, json!("call"));
    assert_eq!(
        filter(json!({"fromBlock": "0x1", "toAddress": [contract]})),
        [(1, json!("create")), call(3), call(4)]
    );
    let both = json!({"fromBlock": "earliest", "fromAddress": [forwarder], "toAddress": [contract]});
    assert_eq!(filter(both), [call(3)]);
    let page = json!({"fromBlock": "0x1", "toAddress": [contract], "after": 1, "count": 1});
    assert_eq!(filter(page), [call(3)]);
    let rewards = json!({"fromBlock": "0x2", "toBlock": "0x3", "toAddress": [data(BENEFICIARY)]});
    assert_eq!(filter(rewards), [(2, json!("reward")), (3, json!("reward"))]);
    assert_eq!(filter(json!({"fromBlock": "0x4", "toBlock": "0x2"})), []);
    assert_eq!(filter(json!({"fromBlock": "0x9"})), []);
    net.check_error(
        "trace_filter",
        json!([{"toAddress": contract}]),
        -32602,
        "invalid argument 0: field toAddress: got a string, expected an array",
    );
}

/// A search over many blocks needs the memory for the traces of one.
#[test]
fn traces_of_many_blocks_fit_into_little_memory() {
    const BLOCKS: usize = 120;
    let limits = Limits {
        traffic_len_max: 16 << 20,
        ..Limits::default()
    };
    let (net, contract, forwarder, _) = scene_on(Net::start_with(limits, FilterLimits::default()), 5);
    for _ in 1..BLOCKS {
        net.send(json!({"to": forwarder, "data": word(5), "gas": "0x7a120", "value": "0x3"}));
        net.mine();
    }
    let found = net.ok(
        "trace_filter",
        json!([{"fromBlock": "0x2", "toAddress": [contract]}]),
    );
    assert_eq!(found.as_array().map(Vec::len), Some(BLOCKS));
    let page = net.ok("ots_searchTransactionsBefore", json!([contract, 0, 100]));
    assert_eq!(page["txs"].as_array().map(Vec::len), Some(100));
}

#[test]
fn raw_bytes() {
    let (net, _, _, hash) = scene(5);
    let bytes = |method: &str, params: Value| {
        let text = net.ok(method, params);
        primitives::hex::decode(text.as_str().expect("DATA")).expect("hex")
    };
    let head = net.view().head_hash();
    let block = bytes("debug_getRawBlock", json!(["latest"]));
    let block = Block::decode(&block, TxRules::Moac).expect("a block");
    assert_eq!(block.hash(), head);
    assert_eq!(
        bytes("debug_getRawHeader", json!([data(head)])),
        block.header.encode()
    );
    let raw = bytes("debug_getRawTransaction", json!([hash]));
    let transaction = Transaction::decode_raw(&raw, TxRules::Moac).expect("a transaction");
    assert_eq!(data(transaction.hash()), hash);
    let receipts = net.ok("debug_getRawReceipts", json!(["latest"]));
    let first = primitives::hex::decode(receipts[0].as_str().expect("DATA")).expect("hex");
    let receipt = Receipt::decode(&first, ReceiptForm::Five).expect("a receipt");
    assert_eq!(receipt.cumulative_gas_used, block.header.gas_used);
    assert_eq!(net.ok("debug_getRawTransaction", json!([word(7)])), Value::Null);
    for method in ["debug_getRawBlock", "debug_getRawHeader", "debug_getRawReceipts"] {
        net.check_error(method, json!(["0x99"]), -32000, "block not found");
    }
}

#[test]
fn transactions_of_an_account_in_the_pool() {
    let net = Net::start();
    let pending = net.send(json!({"to": account(5), "value": "0x1"}));
    let queued = net.send(json!({"to": account(5), "nonce": "0x9"}));
    let content = net.ok("txpool_contentFrom", json!([account(0)]));
    assert_eq!(
        (&content["pending"]["0"]["hash"], &content["queued"]["9"]["hash"]),
        (&json!(pending), &json!(queued))
    );
    let none = net.ok("txpool_contentFrom", json!([account(1)]));
    assert_eq!(none, json!({"pending": {}, "queued": {}}));
    let (code, message) = net.error("txpool_contentFrom", "[\"0x1\"]");
    assert_eq!(
        (code, message.as_str()),
        (-32602, "invalid argument 0: odd number of hex digits")
    );
}

#[test]
fn otterscan_asks() {
    let (net, contract, forwarder, hash) = scene(5);
    let ok = |method: &str, params: Value| net.ok(method, params);
    assert_eq!(ok("ots_getApiLevel", json!([])), 8);
    assert_eq!(ok("ots_hasCode", json!([contract, "latest"])), true);
    assert_eq!(ok("ots_hasCode", json!([contract, "0x0"])), false);
    assert_eq!(
        ok("erigon_getHeaderByNumber", json!(["0x2"])),
        ok("eth_getHeaderByNumber", json!(["0x2"]))
    );

    let calls = ok("debug_traceTransaction", json!([hash, {"tracer": "callTracer"}]));
    let created = calls["calls"][1]["to"].clone();
    assert_eq!(
        ok("ots_getInternalOperations", json!([hash])),
        json!([
            {"type": 0, "from": forwarder, "to": contract, "value": "0x3"},
            {"type": 2, "from": forwarder, "to": created, "value": "0x0"},
        ])
    );
    let entries = ok("ots_traceTransaction", json!([hash]));
    let kinds: Vec<_> = entries
        .as_array()
        .expect("entries")
        .iter()
        .map(|entry| (&entry["type"], &entry["depth"]))
        .collect();
    let expected = [
        (json!("CALL"), json!(0)),
        (json!("CALL"), json!(1)),
        (json!("CREATE"), json!(1)),
    ];
    assert_eq!(
        kinds,
        expected
            .iter()
            .map(|(kind, depth)| (kind, depth))
            .collect::<Vec<_>>()
    );
    assert_eq!(ok("ots_getTransactionError", json!([hash])), "0x");
    let failing = net.send(json!({"to": contract, "data": word(0xdead), "gas": "0x186a0"}));
    net.mine();
    assert_eq!(ok("ots_getTransactionError", json!([failing])), word(0xdead));

    let details = ok("ots_getBlockDetails", json!(["0x3"]));
    assert_eq!(details["block"]["transactionCount"], 1);
    assert!(details["block"].get("transactions").is_none() && details["block"]["logsBloom"].is_null());
    assert_eq!(details["issuance"]["issuance"], "0x1bc16d674ec80000");
    let used = ok("eth_getTransactionReceipt", json!([hash]))["gasUsed"].clone();
    let price = ok("eth_getTransactionByHash", json!([hash]))["gasPrice"].clone();
    let number = |value: &Value| U256::from_str_radix(&value.as_str().expect("text")[2..], 16).expect("hex");
    assert_eq!(details["totalFees"], quantity(number(&used) * number(&price)));
    let by_hash = ok("ots_getBlockDetailsByHash", json!([details["block"]["hash"]]));
    assert_eq!(by_hash, details);
    assert_eq!(ok("ots_getBlockDetails", json!(["0x99"])), Value::Null);

    let creator = ok("ots_getContractCreator", json!([contract]));
    assert_eq!(creator["creator"], json!(account(0)));
    let made = ok("eth_getTransactionReceipt", json!([creator["hash"]]));
    assert_eq!(made["contractAddress"], json!(contract));
    // The one inside has no code, so nobody knows it as a contract.
    assert_eq!(ok("ots_getContractCreator", json!([created])), Value::Null);
    assert_eq!(ok("ots_getContractCreator", json!([account(9)])), Value::Null);

    let nonce = ok("eth_getTransactionByHash", json!([hash]))["nonce"].clone();
    assert_eq!(
        ok("ots_getTransactionBySenderAndNonce", json!([account(0), nonce])),
        json!(hash)
    );
    assert_eq!(
        ok("ots_getTransactionBySenderAndNonce", json!([account(0), "0x99"])),
        Value::Null
    );
}

#[test]
fn otterscan_turns_pages() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    let mut hashes = Vec::new();
    for block in 0..3 {
        for value in 1..=2_u64 {
            hashes.push(net.send(json!({"to": contract, "data": word(10 * block + value)})));
        }
        net.mine();
        net.mine();
    }
    let page = net.ok("ots_getBlockTransactions", json!(["0x2", 0, 1]));
    let shown = &page["fullblock"]["transactions"];
    assert_eq!(shown.as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&shown[0]["hash"], &shown[0]["input"]),
        (&json!(hashes[1]), &json!("0x00000000"))
    );
    assert_eq!(page["fullblock"]["transactionCount"], 2);
    assert_eq!(
        (
            &page["receipts"][0]["transactionHash"],
            &page["receipts"][0]["logs"]
        ),
        (&json!(hashes[1]), &Value::Null)
    );
    let page = net.ok("ots_getBlockTransactions", json!(["0x2", 1, 1]));
    assert_eq!(page["fullblock"]["transactions"][0]["hash"], json!(hashes[0]));
    let page = net.ok("ots_getBlockTransactions", json!(["0x2", 2, 1]));
    assert_eq!(
        (&page["fullblock"]["transactions"], &page["receipts"]),
        (&json!([]), &json!([]))
    );

    let found = |method: &str, block: u64, size: u64| {
        let page = net.ok(method, json!([contract, block, size]));
        let hashes: Vec<_> = page["txs"]
            .as_array()
            .expect("transactions")
            .iter()
            .map(|transaction| transaction["hash"].as_str().expect("a hash").to_owned())
            .collect();
        assert_eq!(page["receipts"].as_array().map(Vec::len), Some(hashes.len()));
        (hashes, page["firstPage"] == true, page["lastPage"] == true)
    };
    let newest_first: Vec<_> = hashes.iter().rev().cloned().collect();
    // Whole blocks are added, so a page may be longer.
    let (first, is_first, is_last) = found("ots_searchTransactionsBefore", 0, 3);
    assert_eq!(
        (first.as_slice(), is_first, is_last),
        (&newest_first[..4], true, false)
    );
    let (rest, is_first, is_last) = found("ots_searchTransactionsBefore", 4, 3);
    assert_eq!((&rest[..2], is_first, is_last), (&newest_first[4..], false, true));
    assert_eq!(rest.len(), 3, "the last one created the contract");
    let (oldest, is_first, is_last) = found("ots_searchTransactionsAfter", 0, 3);
    assert_eq!(
        (&oldest[..2], is_first, is_last),
        (&newest_first[4..], false, true)
    );
    let (newest, is_first, is_last) = found("ots_searchTransactionsAfter", 2, 100);
    assert_eq!(
        (newest.as_slice(), is_first, is_last),
        (&newest_first[..4], true, false)
    );
    let sender = net.ok("ots_searchTransactionsBefore", json!([account(0), 0, 100]));
    assert_eq!(sender["txs"].as_array().map(Vec::len), Some(7));
    net.check_error(
        "ots_searchTransactionsBefore",
        json!([contract, 0, 101]),
        -32602,
        "invalid argument 2: got 101, expected 1 to 100",
    );
}
