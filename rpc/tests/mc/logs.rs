//! `mc_getLogs`: ranges, tags, a single block, topics, the pending block, bounds.

use std::time::Duration;

use chain::import::Imported;
use chain::logs::LogLimits;
use chain::rules::body::transactions_root;
use chain::spec::{ChainSpec, DEV_ACCOUNTS};
use primitives::{Block, SYSTEM_CONTRACT, Transaction, TxForm, U256, UnsignedTransaction};
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::calls::{deploy, word};
use crate::mc::harness::{Net, account, in_memory, key, quantity};
use crate::mc::shapes::{LOG, check_shape};

/// A node, a contract, and blocks 2, 3 and 4. Each has one log of the contract. The first topic is
/// 0x11, the second is 1, 2 or 3.
fn scene() -> (Net, String, Vec<Block>) {
    scene_with(LogLimits::default())
}

fn scene_with(limits: LogLimits) -> (Net, String, Vec<Block>) {
    scene_of(Net::with(|settings| settings.log_limits = limits))
}

fn scene_of(net: Net) -> (Net, String, Vec<Block>) {
    let (contract, _) = deploy(&net);
    let block = |value| {
        net.send(json!({"to": contract, "data": word(value)}));
        net.mine()
    };
    let blocks = [1, 2, 3].map(block).to_vec();
    (net, contract, blocks)
}

/// The second topic of each log that matches `filter`.
#[track_caller]
fn second_topics(net: &Net, filter: Value) -> Vec<u64> {
    let logs = net.ok("mc_getLogs", json!([filter]));
    let value = |log: &Value| {
        let text = log["topics"][1].as_str().expect("two topics");
        u64::from_str_radix(&text[2..], 16).expect("small")
    };
    logs.as_array().expect("an array").iter().map(value).collect()
}

#[test]
fn a_log_equals_the_one_in_its_receipt() {
    let (net, contract, blocks) = scene();
    let filter = json!([{"fromBlock": "0x3", "toBlock": "0x3", "address": contract}]);
    let text = net.ok_text("mc_getLogs", filter.clone());
    let one = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    check_shape(one.expect("one log"), &LOG, &[]);
    let logs = net.ok("mc_getLogs", filter.clone());
    assert_eq!(logs[0]["blockHash"], data(blocks[1].hash()));
    let receipt = net.ok("mc_getTransactionReceipt", json!([logs[0]["transactionHash"]]));
    assert_eq!(logs, receipt["logs"]);
    assert_eq!(net.ok_text("eth_getLogs", filter), text);
}

/// A chain whose system contract logs the number of each block.
fn chain_with_system_contract() -> ChainSpec {
    let mut alloc = serde_json::Map::new();
    for (address, _) in DEV_ACCOUNTS {
        alloc.insert(address.to_string(), json!({"balance": "1000000000000000000000"}));
    }
    alloc.insert(
        SYSTEM_CONTRACT.to_string(),
        json!({"balance": "0", "code": "0x4360005260206000a0"}),
    );
    let file = json!({
        "config": {"chainId": 99, "panguBlock": 0, "nuwaBlock": 2, "enableClassicTx": 4, "ethash": {}},
        "nonce": "0x42", "difficulty": "0x20000", "gasLimit": "0x895440", "alloc": alloc,
    });
    let file = ChainSpec::from_genesis_file("with-system", &file.to_string());
    file.expect("a genesis file").spec
}

/// The system transaction is executed first, wherever it stands in its block, or if it does not.
#[test]
fn filters_and_searches_name_the_same_transaction_of_a_log() {
    let net = Net::of_spec(chain_with_system_contract(), in_memory());
    let filter = net.ok("mc_newFilter", json!([{}]));
    let changes: [fn(&mut Vec<Transaction>); 3] = [
        |transactions| transactions.swap(0, 1),
        |transactions| drop(transactions.remove(0)),
        |_| (),
    ];
    for (number, (change, place)) in (1..).zip(changes.into_iter().zip(["0x1", "0x0", "0x0"])) {
        net.send(json!({"to": account(1), "value": "0x1"}));
        let mut block = net.build(&net.view().head_hash(), b"main", &[]);
        let system = block.transactions[0].hash();
        change(&mut block.transactions);
        block.header.transactions_root = transactions_root(&block.transactions);
        net.chain.import(block).expect("a good block");
        let followed = net.ok("mc_getFilterChanges", json!([filter]));
        let found = net.ok("mc_getLogs", json!([{"fromBlock": quantity(number)}]));
        assert_eq!(followed, found, "block {number}");
        assert_eq!(found.as_array().expect("an array").len(), 1);
        assert_eq!(
            (&found[0]["transactionHash"], &found[0]["transactionIndex"]),
            (&json!(data(system)), &json!(place)),
            "block {number}"
        );
    }
}

/// A nine-field transaction has two hashes. Each client gets the one it knows.
#[test]
fn a_log_names_its_transaction_as_its_receipt_does() {
    let (net, contract, _) = scene();
    let call = |index: usize, form| {
        let unsigned = UnsignedTransaction {
            gas_price: U256::from(20),
            gas: 100_000,
            to: Some(contract.parse().expect("an address")),
            input: vec![9; 32].into(),
            ..Default::default()
        };
        let transaction = unsigned.sign(&key(index), 100, form);
        net.ok("eth_sendRawTransaction", json!([data(transaction.encode_raw())]));
        transaction
    };
    let (classic, native) = (call(4, TxForm::Classic), call(5, TxForm::Native));
    net.mine();
    for (method, receipt, shown) in [
        ("mc_getLogs", "mc_getTransactionReceipt", classic.hash()),
        (
            "eth_getLogs",
            "eth_getTransactionReceipt",
            classic.ethereum_hash().expect("nine fields"),
        ),
    ] {
        let logs = net.ok(method, json!([{}]));
        let logs = logs.as_array().expect("an array");
        let mut hashes: Vec<_> = logs.iter().map(|log| log["transactionHash"].clone()).collect();
        let mut expected = [data(shown), data(native.hash())].map(Value::from);
        hashes.sort_by_key(Value::to_string);
        expected.sort_by_key(Value::to_string);
        assert_eq!(hashes, expected, "{method}");
        for log in logs {
            let receipt = net.ok(receipt, json!([log["transactionHash"]]));
            assert_eq!(receipt["logs"], json!([log]), "{method}");
        }
    }
}

#[test]
fn ranges_and_tags() {
    let (net, _, _) = scene();
    let check = |filter: Value, expected: &[u64]| {
        assert_eq!(second_topics(&net, filter.clone()), expected, "{filter}")
    };
    check(json!({"fromBlock": "earliest"}), &[1, 2, 3]);
    check(json!({"fromBlock": "0x2", "toBlock": "0x3"}), &[1, 2]);
    check(
        json!({"fromBlock": "0x3", "toBlock": "0xffffffffffffffff"}),
        &[2, 3],
    );
    check(json!({}), &[3]);
    check(json!({"fromBlock": null, "toBlock": "latest"}), &[3]);
    check(json!({"fromBlock": "0x0", "toBlock": "0x1"}), &[]);
    check(json!({"fromBlock": "0x50", "toBlock": "0x60"}), &[]);
}

/// The topic rules of docs/interface.md, 2.6 over the whole chain.
#[test]
fn topic_matrix() {
    let (net, contract, _) = scene();
    let (a, b) = (word(0x11), word(2));
    let check = |topics: Value, expected: &[u64]| {
        let filter = json!({"fromBlock": "earliest", "topics": topics});
        assert_eq!(second_topics(&net, filter.clone()), expected, "{filter}");
    };
    check(json!([]), &[1, 2, 3]);
    check(json!([a]), &[1, 2, 3]);
    check(json!([null, b]), &[2]);
    check(json!([a, b]), &[2]);
    check(json!([[a, b], [a, b]]), &[2]);
    check(json!([null, [word(3), word(1)]]), &[1, 3]);
    check(json!([b]), &[]);
    check(json!([null, null]), &[1, 2, 3]);
    check(json!([null, null, null]), &[]);
    let other = data([7; 20]);
    for (address, expected) in [
        (json!(contract), &[2][..]),
        (json!([other, contract]), &[2]),
        (json!(other), &[]),
    ] {
        let filter = json!({"fromBlock": "earliest", "address": address, "topics": [a, b]});
        assert_eq!(second_topics(&net, filter), expected);
    }
}

#[test]
fn one_block_by_hash_canonical_or_not() {
    let (net, contract, blocks) = scene();
    let by_hash = |block: &Block| {
        second_topics(
            &net,
            json!({"blockHash": data(block.hash()), "address": contract}),
        )
    };
    assert_eq!(by_hash(&blocks[0]), [1]);
    net.send(json!({"to": contract, "data": word(4)}));
    let (main, side) = net.mine_two();
    assert_eq!(by_hash(&main), [4]);
    let hash = data(side.hash());
    net.check_error(
        "mc_getLogs",
        json!([{"blockHash": hash, "address": contract}]),
        -32000,
        &format!("block {hash} is not canonical and was not executed: it has no logs yet"),
    );
    assert_eq!(
        second_topics(&net, json!({})),
        [4],
        "the side block is in no range"
    );
    // The branch of the side block becomes the longer one.
    let next = net.build(&side.hash(), b"next", &[]);
    let imported = net.chain.import(next).expect("a good block");
    assert!(matches!(imported, Imported::Head { reverted, .. } if reverted.len() == 1));
    let logs = net.ok("mc_getLogs", json!([{"fromBlock": "0x5", "toBlock": "0x5"}]));
    assert_eq!(logs[0]["blockHash"], data(side.hash()));
    assert_eq!(logs[0]["removed"], false);
    assert_eq!(by_hash(&main), [4]);
    let nobody = data([7; 32]);
    net.check_error(
        "mc_getLogs",
        json!([{"blockHash": nobody}]),
        -32000,
        &format!("unknown block {nobody}"),
    );
    net.check_error(
        "mc_getLogs",
        json!([{"blockHash": nobody, "fromBlock": "0x1"}]),
        -32602,
        "invalid argument 0: blockHash excludes fromBlock and toBlock",
    );
}

#[test]
fn pending_logs_have_no_block() {
    let (net, contract, _) = scene();
    net.send(json!({"to": contract, "data": word(9)}));
    let up_to_pending = json!({"fromBlock": "0x4", "toBlock": "pending", "address": contract});
    assert_eq!(second_topics(&net, up_to_pending), [3, 9]);
    assert_eq!(second_topics(&net, json!({"fromBlock": "0x4"})), [3]);
    let text = net.ok_text(
        "mc_getLogs",
        json!([{"fromBlock": "pending", "toBlock": "pending"}]),
    );
    let one = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let nulls = [
        "logIndex",
        "transactionIndex",
        "transactionHash",
        "blockHash",
        "blockNumber",
    ];
    check_shape(one.expect("one log"), &LOG, &nulls);
    net.mine();
    assert_eq!(second_topics(&net, json!({})), [9]);
}

#[test]
fn errors_of_bounds_name_the_option() {
    let limits = LogLimits {
        results_max: 2,
        range_max: 4,
        blocks_read_max: 3,
    };
    let (net, contract, _) = scene_with(limits);
    let check =
        |filter: Value, message: &str| net.check_error("mc_getLogs", json!([filter]), -32000, message);
    assert_eq!(
        second_topics(&net, json!({"fromBlock": "0x1", "toBlock": "0x3"})),
        [1, 2]
    );
    check(
        json!({"fromBlock": "0x1"}),
        "more than 2 logs match: ask for fewer, or start the node with a larger --rpc.logs.maxresults",
    );
    check(
        json!({"fromBlock": "0x0", "toBlock": "0x99"}),
        "block range: got 5 blocks, expected at most 4: ask in parts, or start the node with a larger --rpc.logs.maxrange",
    );
    // The pending block counts too.
    net.send(json!({"to": contract, "data": word(4)}));
    assert_eq!(
        second_topics(&net, json!({"fromBlock": "0x4", "toBlock": "pending"})),
        [3, 4]
    );
    net.send(json!({"to": contract, "data": word(5)}));
    check(
        json!({"fromBlock": "0x4", "toBlock": "pending"}),
        "more than 2 logs match: ask for fewer, or start the node with a larger --rpc.logs.maxresults",
    );
    let none = LogLimits {
        blocks_read_max: 0,
        ..LogLimits::default()
    };
    let (net, contract, _) = scene_with(none);
    assert!(second_topics(&net, json!({"fromBlock": "0x0", "address": data([7; 20])})).is_empty());
    net.check_error(
        "mc_getLogs",
        json!([{"fromBlock": "0x0", "address": contract}]),
        -32000,
        "more than 0 blocks would have to be read: ask for less at once, or start the node with a larger --rpc.logs.maxblocks",
    );
}

#[test]
fn a_long_response_is_refused() {
    let (net, _, _) = scene_of(Net::with(|settings| settings.response_len_max = 1000));
    assert_eq!(
        second_topics(&net, json!({"fromBlock": "0x2", "toBlock": "0x2"})),
        [1]
    );
    let all = json!([{"fromBlock": "0x0"}]);
    let id = net.ok("mc_newFilter", all.clone());
    for (method, params) in [("mc_getLogs", all), ("mc_getFilterLogs", json!([id]))] {
        let message = "the logs are longer than 1000 bytes: ask for less at once, or start the node with a larger --rpc.maxresponse";
        net.check_error(method, params, -32000, message);
    }
}

#[test]
fn a_search_has_a_time_limit() {
    let (net, _, blocks) = scene_of(Net::with(|settings| settings.logs_timeout = Duration::ZERO));
    let head = blocks[2].header.number;
    assert!(head >= 4, "{head} blocks are searched one by one");
    let all = json!([{"fromBlock": "0x0"}]);
    let id = net.ok("mc_newFilter", all.clone());
    for (method, params) in [("mc_getLogs", all), ("mc_getFilterLogs", json!([id]))] {
        let message = "execution aborted (timeout = 0ns): ask for less at once, or start the node with a larger --rpc.logs.timeout";
        net.check_error(method, params, -32000, message);
    }
}

#[test]
fn a_filter_is_an_object() {
    let net = Net::start();
    net.check_error(
        "mc_getLogs",
        json!([]),
        -32602,
        "missing value for required argument 0",
    );
    net.check_error(
        "mc_getLogs",
        json!(["0x1"]),
        -32602,
        "invalid argument 0: got a string, expected an object",
    );
    net.check_error(
        "mc_getLogs",
        json!([{"topics": [["0x1"]]}]),
        -32602,
        "invalid argument 0: field topics: element 0: element 0: odd number of hex digits",
    );
}
