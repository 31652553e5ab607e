//! The calls of indexers and explorers: graph-node's, and those of Blockscout's Geth and Nethermind
//! forms, as their sources list them. Each must be answered with a result.

use e2e::Vnode;
use e2e::contract::{CHANGED, counter, get, set};
use serde_json::{Value, json};

/// A node that has a block with a transfer and a call that leaves a log, and what is in it.
struct Indexed {
    node: Vnode,
    account: String,
    contract: String,
    transaction: String,
    block: String,
}

impl Indexed {
    fn start() -> Self {
        let node = Vnode::dev([
            "--dev.seal",
            "instant",
            "--rpcapi",
            "mc,net,chain3,txpool,debug,trace",
        ]);
        let account = node.accounts()[0].clone();
        let send = |request: Value| {
            let hash = node.rpc("eth_sendTransaction", json!([request]));
            let receipt = node.receipt(hash.as_str().expect("a hash"));
            assert_eq!(receipt["status"], "0x1", "{receipt}");
            receipt
        };
        let created = send(json!({"from": account, "data": counter()["bytecode"]}));
        let contract = created["contractAddress"]
            .as_str()
            .expect("an address")
            .to_owned();
        send(json!({"from": account, "to": node.accounts()[1], "value": "0x1"}));
        let changed = send(json!({"from": account, "to": contract, "data": set(7)}));
        let text = |member: &str| changed[member].as_str().expect("a hash").to_owned();
        Self {
            account,
            contract,
            transaction: text("transactionHash"),
            block: text("blockHash"),
            node,
        }
    }

    /// Calls all methods. Returns those without a result, with their errors.
    fn failures(&self, calls: &[(&str, Value)]) -> Vec<String> {
        let result = |(method, params): &(&str, Value)| match self.node.try_rpc(method, params.clone()) {
            Ok(Value::Null) => Some(format!("{method}{params}: null")),
            Ok(_) => None,
            Err(error) => Some(format!("{method}{params}: {error}")),
        };
        calls.iter().filter_map(result).collect()
    }
}

#[test]
fn graph_node_gets_what_it_asks_for() {
    let indexed = Indexed::start();
    let Indexed {
        account,
        contract,
        transaction,
        block,
        ..
    } = &indexed;
    let at = json!({ "blockHash": block });
    let calls = [
        ("net_version", json!([])),
        ("web3_clientVersion", json!([])),
        ("eth_syncing", json!([])),
        ("eth_getBlockByNumber", json!(["latest", false])),
        ("eth_getBlockByNumber", json!(["finalized", false])),
        ("eth_getBlockByHash", json!([block, true])),
        ("eth_getTransactionReceipt", json!([transaction])),
        ("eth_getBlockReceipts", json!([at])),
        ("eth_getLogs", json!([{"blockHash": block}])),
        (
            "eth_getLogs",
            json!([{"fromBlock": "0x1", "toBlock": "0x3", "address": [contract], "topics": [[CHANGED]]}]),
        ),
        (
            "eth_call",
            json!([{"to": contract, "data": get(), "gas": "0x2faf080"}, at]),
        ),
        ("eth_getBalance", json!([account, at])),
        ("eth_getCode", json!([contract, at])),
        (
            "trace_filter",
            json!([{"fromBlock": "0x1", "toBlock": "0x3", "toAddress": [contract]}]),
        ),
    ];
    assert_eq!(indexed.failures(&calls), Vec::<String>::new());
    let logs = indexed.node.rpc("eth_getLogs", calls[9].1.clone());
    assert_eq!(logs.as_array().map(Vec::len), Some(1), "{logs}");
    let traces = indexed.node.rpc("trace_filter", calls[13].1.clone());
    // The creation and the call.
    assert_eq!(traces.as_array().map(Vec::len), Some(2), "{traces}");
}

#[test]
fn blockscout_gets_what_it_asks_for() {
    let indexed = Indexed::start();
    let Indexed {
        account,
        contract,
        transaction,
        block,
        ..
    } = &indexed;
    let tracer = json!({"tracer": "callTracer", "timeout": "20s"});
    let get = get();
    let calls = [
        ("eth_blockNumber", json!([])),
        ("eth_chainId", json!([])),
        ("net_version", json!([])),
        ("web3_clientVersion", json!([])),
        ("eth_getBlockByNumber", json!(["latest", true])),
        ("eth_getBlockByNumber", json!(["pending", true])),
        ("eth_getBlockByHash", json!([block, true])),
        ("eth_getUncleCountByBlockHash", json!([block])),
        ("eth_getTransactionByHash", json!([transaction])),
        ("eth_getTransactionReceipt", json!([transaction])),
        ("eth_getBlockReceipts", json!(["0x3"])),
        ("eth_getBalance", json!([account, "0x3"])),
        ("eth_getTransactionCount", json!([account, "latest"])),
        ("eth_getCode", json!([contract, "latest"])),
        ("eth_getStorageAt", json!([contract, "0x0", "latest"])),
        ("eth_call", json!([{"to": contract, "data": get}, "latest"])),
        (
            "eth_getLogs",
            json!([{"fromBlock": "0x1", "toBlock": "0x3", "address": contract}]),
        ),
        ("eth_gasPrice", json!([])),
        (
            "eth_estimateGas",
            json!([{"from": account, "to": contract, "data": get}]),
        ),
        ("txpool_content", json!([])),
        // The form for Geth.
        ("debug_traceTransaction", json!([transaction, tracer])),
        ("debug_traceBlockByNumber", json!(["0x3", tracer])),
        ("debug_traceBlockByHash", json!([block, tracer])),
        // The form for Nethermind.
        ("trace_block", json!(["0x3"])),
        ("trace_transaction", json!([transaction])),
        ("trace_replayTransaction", json!([transaction, ["trace"]])),
        ("trace_replayBlockTransactions", json!(["0x3", ["trace"]])),
    ];
    assert_eq!(indexed.failures(&calls), Vec::<String>::new());
    // An uncle that a block does not have is null, and bytes that are no transaction are refused.
    let none = indexed
        .node
        .rpc("eth_getUncleByBlockHashAndIndex", json!([block, "0x0"]));
    assert_eq!(none, Value::Null);
    indexed
        .node
        .refused("eth_sendRawTransaction", json!(["0x00"]), -32000);
}
