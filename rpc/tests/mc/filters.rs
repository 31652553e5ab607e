//! Filters over HTTP, on a real chain, row by row. Sources: docs/interface.md, 2.6;
//! docs/interface.md, 3.1.

use std::time::{Duration, Instant};

use primitives::TxForm;
use rpc::types::data;
use rpc::{FilterLimits, Limits};
use serde_json::{Value, json};

use crate::mc::events::{Logger, data_of, word};
use crate::mc::harness::{Net, account, key, transfer};

/// Longer than any change takes to reach a filter. A test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

impl Net {
    fn new_filter(&self, method: &str, params: Value) -> Value {
        let id = self.ok(method, params);
        let digits = id
            .as_str()
            .and_then(|id| id.strip_prefix("0x"))
            .expect("a QUANTITY");
        assert!(!digits.starts_with('0') && digits.len() <= 32, "{id}");
        id
    }

    fn changes(&self, id: &Value) -> Value {
        self.ok("mc_getFilterChanges", json!([id]))
    }

    /// Polls until `count` changes have come. Returns all of them.
    #[track_caller]
    fn wait_for_changes(&self, id: &Value, count: usize) -> Value {
        let begun = Instant::now();
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(self.changes(id).as_array().expect("an array").clone());
            assert!(
                begun.elapsed() < PATIENCE,
                "got {all:?}, expected {count} changes"
            );
        }
        Value::from(all)
    }
}

#[test]
fn the_lifecycle_row_by_row() {
    let net = Net::start();
    let logger = Logger::create(&net);
    // (none) → active: each kind returns an id of its own.
    let logs = net.new_filter("mc_newFilter", json!([{}]));
    let blocks = net.new_filter("mc_newBlockFilter", json!([]));
    let pending = net.new_filter("mc_newPendingTransactionFilter", json!([]));
    assert!(logs != blocks && blocks != pending && logs != pending);
    // Active → active: the answer is empty if nothing changed.
    for id in [&logs, &blocks, &pending] {
        assert_eq!(net.changes(id), json!([]));
    }
    let hash = logger.log(&net, 1, 2, 3);
    assert_eq!(net.wait_for_changes(&pending, 1), json!([hash]));
    assert_eq!(net.changes(&pending), json!([]));
    let block = net.mine();
    assert_eq!(
        net.wait_for_changes(&blocks, 1),
        json!([block.hash().to_string()])
    );
    let found = net.wait_for_changes(&logs, 1);
    let expected = json!([{
        "removed": false,
        "logIndex": "0x0",
        "transactionIndex": "0x0",
        "transactionHash": hash,
        "blockHash": block.hash().to_string(),
        "blockNumber": "0x2",
        "address": logger.address,
        "data": word(3),
        "topics": [word(1), word(2)],
    }]);
    assert_eq!(found, expected);
    for id in [&logs, &blocks, &pending] {
        assert_eq!(net.changes(id), json!([]));
    }
    // All logs: a log filter returns them every time, other filters return an error.
    for _ in 0..2 {
        assert_eq!(net.ok("mc_getFilterLogs", json!([logs])), expected);
    }
    for id in [&blocks, &pending] {
        let text = "the filter is not a log filter: poll it with getFilterChanges";
        net.check_error("mc_getFilterLogs", json!([id]), -32000, text);
    }
    // Active → removed.
    for id in [&logs, &blocks, &pending] {
        assert_eq!(net.ok("mc_uninstallFilter", json!([id])), json!(true));
        assert_eq!(
            net.ok("mc_uninstallFilter", json!([id])),
            json!(false),
            "unchanged"
        );
        net.check_error("mc_getFilterChanges", json!([id]), -32000, "filter not found");
        net.check_error("mc_getFilterLogs", json!([id]), -32000, "filter not found");
    }
    // Unknown ids of every length, and an invalid id.
    for len in [0, 31, 32, 40, 63, 64, 65, 1000] {
        let unknown = json!([format!("0x1{}", "0".repeat(len))]);
        for module in ["mc", "eth"] {
            let method = |name| format!("{module}_{name}");
            assert_eq!(
                net.ok(&method("uninstallFilter"), unknown.clone()),
                json!(false),
                "{unknown}"
            );
            for name in ["getFilterChanges", "getFilterLogs"] {
                net.check_error(&method(name), unknown.clone(), -32000, "filter not found");
            }
        }
    }
    net.check_error(
        "mc_getFilterChanges",
        json!(["0x01"]),
        -32602,
        "invalid argument 0: leading zero digits",
    );
    assert!(net.node().filters.is_empty());
}

#[test]
fn idle_filters_are_removed() {
    let limits = FilterLimits {
        idle_timeout: Duration::from_millis(600),
        ..FilterLimits::default()
    };
    let net = Net::start_with(Limits::default(), limits);
    let [polled, idle, asked] = [(); 3].map(|()| net.new_filter("mc_newFilter", json!([{}])));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(900) {
        assert_eq!(net.changes(&polled), json!([]));
        // A request for all logs does not count as a poll.
        let _ = net.raw("mc_getFilterLogs", &json!([asked]).to_string());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(net.changes(&polled), json!([]));
    net.check_error("mc_getFilterChanges", json!([idle]), -32000, "filter not found");
    net.check_error("mc_getFilterChanges", json!([asked]), -32000, "filter not found");
    assert_eq!(net.ok("mc_uninstallFilter", json!([polled])), json!(true));
}

#[test]
fn filters_are_bounded() {
    let limits = FilterLimits {
        filters_max: 6,
        idle_timeout: Duration::from_millis(400),
        ..FilterLimits::default()
    };
    let net = Net::start_with(Limits::default(), limits);
    let begun = Instant::now();
    for _ in 0..3 {
        net.new_filter("mc_newBlockFilter", json!([]));
    }
    let (code, message) = net.error("mc_newFilter", "[{}]");
    if begun.elapsed() < limits.idle_timeout {
        let text = "too many filters: got 3 and 1 more, expected at most 3 for this client now, of 6 for all";
        assert_eq!((code, message.as_str()), (-32000, text));
    }
    std::thread::sleep(Duration::from_millis(500));
    net.new_filter("mc_newFilter", json!([{}]));
    assert_eq!(net.node().filters.len(), 1, "the idle filters are removed");
}

/// A filter object with the longest criteria: about 400 KiB in memory.
pub(crate) fn large_filter() -> Value {
    let values: Vec<_> = (0..1024).map(|number| format!("0x{number:064x}")).collect();
    json!({ "topics": [values, values, values, values] })
}

/// The room for criteria is full of idle filters. They must leave, although there is no room for
/// the filter that asks, and although nobody asks at all.
#[test]
fn idle_filters_leave_the_room_for_criteria() {
    let limits = FilterLimits {
        idle_timeout: Duration::from_secs(2),
        // Two large filters for this client.
        client_share_percent: 2,
        ..FilterLimits::default()
    };
    let net = Net::start_with(Limits::default(), limits);
    let large = json!([large_filter()]);
    let mut count = 0;
    let refusal = loop {
        let body = net.raw("mc_newFilter", &large.to_string());
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        if let Some(error) = answer.get("error") {
            break error["message"].as_str().expect("a message").to_owned();
        }
        count += 1;
        assert!(count < 200, "got {count} large filters, expected a refusal");
    };
    let text = "too many filters and subscriptions: bytes of their criteria: got ";
    assert!(refusal.starts_with(text), "{refusal}");
    let begun = Instant::now();
    while !net.node().filters.is_empty() {
        assert!(
            begun.elapsed() < PATIENCE,
            "{} filters are left",
            net.node().filters.len()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    net.new_filter("mc_newFilter", large);
}

#[test]
fn the_topic_matrix_on_a_chain() {
    let net = Net::start();
    let logger = Logger::create(&net);
    let (a, b, c) = (word(0xaa), word(0xbb), word(0xcc));
    let other = account(5);
    let cases = [
        (json!({}), true),
        (json!({ "topics": [] }), true),
        (json!({ "topics": [a] }), true),
        (json!({ "topics": [null, b] }), true),
        (json!({ "topics": [a, b] }), true),
        (json!({ "topics": [[a, b], [a, b]] }), true),
        (json!({ "topics": [b] }), false),
        (json!({ "topics": [a, c] }), false),
        (json!({ "topics": [[c], [a, b]] }), false),
        (json!({ "topics": [a, b, null] }), false),
        (json!({ "address": logger.address }), true),
        (json!({ "address": [other, logger.address], "topics": [a] }), true),
        (json!({ "address": other }), false),
        (json!({ "address": other, "topics": [a] }), false),
        (json!({ "fromBlock": "0x2" }), true),
        (json!({ "fromBlock": "0x2", "toBlock": "0x2" }), true),
        (json!({ "fromBlock": "earliest", "toBlock": "0x1" }), false),
        (json!({ "fromBlock": "0x3" }), false),
        (json!({ "fromBlock": "pending", "toBlock": "pending" }), true),
    ];
    let ids: Vec<_> = cases
        .iter()
        .map(|(filter, _)| net.new_filter("mc_newFilter", json!([filter])))
        .collect();
    logger.log(&net, 0xaa, 0xbb, 1);
    net.mine();
    // As soon as the first filter has the log, the feeds have the block. So the other filters need
    // no wait.
    let first = net.wait_for_changes(&ids[0], 1);
    for (id, (filter, expected)) in ids.iter().zip(&cases).skip(1) {
        let wanted = if *expected { first.clone() } else { json!([]) };
        assert_eq!(net.changes(id), wanted, "{filter}");
        // The same criteria over the existing blocks.
        let mut from_start = filter.clone();
        if filter.get("fromBlock").is_none() {
            from_start["fromBlock"] = json!("earliest");
        }
        if from_start["fromBlock"] == "0x3" {
            from_start["toBlock"] = json!("0x4");
        }
        // No existing block is above the head.
        let wanted = if filter["fromBlock"] == "pending" {
            json!([])
        } else {
            wanted
        };
        let id = net.new_filter("mc_newFilter", json!([from_start]));
        assert_eq!(net.ok("mc_getFilterLogs", json!([id])), wanted, "{from_start}");
    }
    net.check_error(
        "mc_newFilter",
        json!([{ "topics": [a, a, a, a, a] }]),
        -32602,
        "invalid argument 0: field topics: got 5 members, expected at most 4",
    );
}

#[test]
fn reorganizations_send_removed_and_new_logs() {
    let net = Net::start();
    let logger = Logger::create(&net);
    let logs = net.new_filter("mc_newFilter", json!([{}]));
    let blocks = net.new_filter("mc_newBlockFilter", json!([]));
    let parent = net.view().head_hash();
    logger.log(&net, 1, 1, 1);
    logger.log(&net, 1, 1, 2);
    let old = net.build(&parent, b"old", &[]);
    // A branch of two blocks. The first has the same transactions as the old block.
    let first = net.build(&parent, b"new", &[]);
    net.chain.import(old.clone()).expect("a good block");
    assert_eq!(data_of(&net.wait_for_changes(&logs, 2)), [1, 2]);
    assert_eq!(net.wait_for_changes(&blocks, 1), json!([old.hash().to_string()]));
    net.chain.import(first.clone()).expect("a good block");
    let second = net.build(&first.hash(), b"new", &[]);
    net.chain.import(second.clone()).expect("a good block");
    assert_eq!(net.view().head_hash(), second.hash());

    let changed = net.wait_for_changes(&logs, 4);
    assert_eq!(
        data_of(&changed),
        [2, 1, 1, 2],
        "removed from the last to the first, then added in order"
    );
    for (log, (removed, block)) in changed.as_array().expect("an array").iter().zip([
        (true, &old),
        (true, &old),
        (false, &first),
        (false, &first),
    ]) {
        assert_eq!(
            (&log["removed"], &log["blockHash"]),
            (&json!(removed), &json!(block.hash().to_string()))
        );
    }
    assert_eq!(
        net.wait_for_changes(&blocks, 2),
        json!([first.hash().to_string(), second.hash().to_string()])
    );
    assert_eq!(net.changes(&logs), json!([]));
    let all = net.new_filter("mc_newFilter", json!([{ "fromBlock": "earliest" }]));
    let all = net.ok("mc_getFilterLogs", json!([all]));
    assert_eq!(data_of(&all), [1, 2], "removed logs are not found");
    assert_eq!(all[0]["blockHash"], json!(first.hash().to_string()));
}

#[test]
fn long_changes_come_in_parts() {
    let limits = FilterLimits {
        answer_len_max: 1000,
        ..FilterLimits::default()
    };
    let net = Net::start_with(Limits::default(), limits);
    let logger = Logger::create(&net);
    let id = net.new_filter("mc_newFilter", json!([{}]));
    for data in 1..=9 {
        logger.log(&net, 1, 1, data);
        net.mine();
    }
    // The feeds get all blocks first. Then it takes several polls to get every log once.
    let mut got = Vec::new();
    let (begun, mut polls) = (Instant::now(), 0);
    std::thread::sleep(Duration::from_millis(200));
    while got.len() < 9 {
        let part = data_of(&net.changes(&id));
        polls += usize::from(!part.is_empty());
        got.extend(part);
        assert!(begun.elapsed() < PATIENCE, "{got:?}");
    }
    assert_eq!(got, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert!(polls > 2, "{polls} polls");
}

#[test]
fn pending_transactions_come_once() {
    let net = Net::start();
    let early = net.new_filter("mc_newPendingTransactionFilter", json!([]));
    let first = net.send(json!({ "to": account(1), "value": "0x1" }));
    assert_eq!(net.wait_for_changes(&early, 1), json!([first]));
    let late = net.new_filter("mc_newPendingTransactionFilter", json!([]));
    let second = net.send(json!({ "to": account(1), "value": "0x2" }));
    // A transaction behind a missing nonce is not pending until the nonce is filled.
    let gap = net.send(json!({ "to": account(1), "value": "0x3", "nonce": "0x3" }));
    assert_eq!(net.wait_for_changes(&late, 1), json!([second]));
    let third = net.send(json!({ "to": account(1), "value": "0x4" }));
    let filled = net.wait_for_changes(&late, 2);
    let filled: Vec<_> = filled
        .as_array()
        .expect("an array")
        .iter()
        .map(|hash| hash.as_str().expect("a hash"))
        .collect();
    assert!(
        filled.contains(&gap.as_str()) && filled.contains(&third.as_str()),
        "{filled:?}"
    );
    net.mine();
    assert_eq!(net.changes(&late), json!([]));
    assert_eq!(net.wait_for_changes(&early, 3).as_array().map(Vec::len), Some(3));
}

#[test]
fn names_of_the_compatible_library() {
    let net = Net::start();
    let logger = Logger::create(&net);
    let id = net.new_filter("eth_newFilter", json!([{}]));
    logger.log(&net, 1, 2, 3);
    net.mine();
    assert_eq!(data_of(&net.wait_for_changes(&id, 1)), [3]);
    assert_eq!(net.ok("eth_getFilterChanges", json!([id])), json!([]));
    assert_eq!(data_of(&net.ok("eth_getFilterLogs", json!([id]))), [3]);
    assert_eq!(net.ok("eth_uninstallFilter", json!([id])), json!(true));
}

#[test]
fn filters_survive_a_head_that_is_set_back() {
    let net = Net::start();
    let logger = Logger::create(&net);
    let blocks = net.new_filter("mc_newBlockFilter", json!([]));
    let logs = net.new_filter("mc_newFilter", json!([{}]));
    let behind = net.new_filter("mc_newBlockFilter", json!([]));
    for data in 1..=3 {
        logger.log(&net, 1, 2, data);
        net.mine();
    }
    assert_eq!(net.changes(&blocks).as_array().map(Vec::len), Some(3));
    assert_eq!(data_of(&net.changes(&logs)), [1, 2, 3]);
    assert_eq!(net.ok("debug_setHead", json!([2])), json!(null));
    for id in [&blocks, &logs, &behind] {
        // The changes of deleted blocks are lost, but the poll does not fail.
        net.changes(id);
    }
    logger.log(&net, 1, 2, 9);
    let next = net.mine();
    let next = json!([next.hash().to_string()]);
    assert_eq!(net.changes(&blocks), next);
    assert_eq!(net.changes(&behind), next);
    assert_eq!(data_of(&net.changes(&logs)), [9]);
}

#[test]
fn pending_filters_show_ethereum_hashes_of_mined_transactions() {
    let net = Net::start();
    let id = net.new_filter("eth_newPendingTransactionFilter", json!([]));
    let raw = transfer().sign(&key(0), 100, TxForm::Classic).encode_raw();
    let hash = net.ok("eth_sendRawTransaction", json!([data(raw)]));
    net.mine();
    assert_eq!(net.ok("eth_getFilterChanges", json!([id])), json!([hash]));
}
