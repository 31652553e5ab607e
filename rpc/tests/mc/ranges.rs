//! Ranges of blocks in the filter object: every combination of `fromBlock` and `toBlock`, for
//! `getLogs` and for filters, under both names. Source: docs/interface.md, 2.6.

use serde_json::{Value, json};

use crate::mc::calls::{deploy, word};
use crate::mc::harness::Net;

/// The end of a range that is not given.
const ABSENT: &str = "";
/// A range that is backwards whatever the head is.
const REFUSED: Option<&[u64]> = None;

/// `fromBlock`, `toBlock`, and which of the logs of [`scene`] are within the range.
const RANGES: &[(&str, &str, Option<&[u64]>)] = &[
    (ABSENT, ABSENT, Some(&[3])),
    (ABSENT, "earliest", Some(&[])),
    (ABSENT, "0x2", Some(&[])),
    (ABSENT, "0x4", Some(&[3])),
    (ABSENT, "0x9", Some(&[3])),
    (ABSENT, "latest", Some(&[3])),
    (ABSENT, "pending", Some(&[3, 4])),
    ("latest", ABSENT, Some(&[3])),
    ("latest", "earliest", Some(&[])),
    ("latest", "0x2", Some(&[])),
    ("latest", "0x4", Some(&[3])),
    ("latest", "0x9", Some(&[3])),
    ("latest", "latest", Some(&[3])),
    ("latest", "pending", Some(&[3, 4])),
    ("earliest", ABSENT, Some(&[1, 2, 3])),
    ("earliest", "earliest", Some(&[])),
    ("earliest", "0x0", Some(&[])),
    ("earliest", "0x3", Some(&[1, 2])),
    ("earliest", "0x9", Some(&[1, 2, 3])),
    ("earliest", "latest", Some(&[1, 2, 3])),
    ("earliest", "pending", Some(&[1, 2, 3, 4])),
    ("0x0", ABSENT, Some(&[1, 2, 3])),
    ("0x0", "earliest", Some(&[])),
    ("0x0", "0x2", Some(&[1])),
    ("0x3", ABSENT, Some(&[2, 3])),
    ("0x3", "earliest", REFUSED),
    ("0x3", "0x0", REFUSED),
    ("0x3", "0x2", REFUSED),
    ("0x3", "0x3", Some(&[2])),
    ("0x3", "0x9", Some(&[2, 3])),
    ("0x3", "latest", Some(&[2, 3])),
    ("0x3", "pending", Some(&[2, 3, 4])),
    ("0x9", ABSENT, Some(&[])),
    ("0x9", "earliest", REFUSED),
    ("0x9", "0x3", REFUSED),
    ("0x9", "0x9", Some(&[])),
    ("0x9", "0xa", Some(&[])),
    ("0x9", "latest", Some(&[])),
    ("0x9", "pending", Some(&[])),
    ("0x5", ABSENT, Some(&[])),
    ("0x5", "latest", Some(&[])),
    ("0x5", "pending", Some(&[4])),
    ("pending", ABSENT, Some(&[4])),
    ("pending", "earliest", REFUSED),
    ("pending", "0x4", Some(&[])),
    ("pending", "0x5", Some(&[4])),
    ("pending", "0x9", Some(&[4])),
    ("pending", "latest", REFUSED),
    ("pending", "pending", Some(&[4])),
];

/// A node whose head is block 4, and a contract. Its logs 1, 2 and 3 are in the blocks 2, 3 and 4,
/// and its log 4 is in the pending block.
fn scene() -> (Net, String) {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    for value in 1..=4 {
        net.send(json!({"to": contract, "data": word(value)}));
        if value < 4 {
            net.mine();
        }
    }
    assert_eq!(net.ok("mc_blockNumber", json!([])), "0x4");
    (net, contract)
}

/// The second topic of each log.
fn second_topics(logs: &Value) -> Vec<u64> {
    let value = |log: &Value| {
        let text = log["topics"][1].as_str().expect("two topics");
        u64::from_str_radix(&text[2..], 16).expect("a small number")
    };
    logs.as_array().expect("an array").iter().map(value).collect()
}

/// Compares the answers of `getLogs`, and of `newFilter` with `getFilterLogs`.
#[track_caller]
fn check(net: &Net, module: &str, filter: &Value, expected: Option<&[u64]>) {
    let (get_logs, new_filter) = (format!("{module}_getLogs"), format!("{module}_newFilter"));
    let Some(expected) = expected else {
        let text = "invalid from and to block combination: from > to";
        net.check_error(&get_logs, json!([filter]), -32000, text);
        net.check_error(&new_filter, json!([filter]), -32000, text);
        return;
    };
    let found = net.ok(&get_logs, json!([filter]));
    assert_eq!(second_topics(&found), expected, "{get_logs} {filter}");
    let id = net.ok(&new_filter, json!([filter]));
    let found = net.ok(&format!("{module}_getFilterLogs"), json!([id]));
    assert_eq!(second_topics(&found), expected, "getFilterLogs {filter}");
    assert_eq!(
        net.ok(&format!("{module}_uninstallFilter"), json!([id])),
        json!(true)
    );
}

#[test]
fn every_combination_of_ends() {
    let (net, contract) = scene();
    for (from, to, expected) in RANGES {
        for module in ["mc", "eth"] {
            let mut filter = json!({"address": contract});
            for (name, end) in [("fromBlock", from), ("toBlock", to)] {
                if *end != ABSENT {
                    filter[name] = json!(end);
                }
            }
            check(&net, module, &filter, *expected);
            // Null is the same as nothing.
            for (name, end) in [("fromBlock", from), ("toBlock", to)] {
                if *end == ABSENT {
                    filter[name] = json!(null);
                }
            }
            check(&net, module, &filter, *expected);
        }
    }
}
