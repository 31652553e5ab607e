//! The module `txpool`: waiting transactions by account and nonce.

use serde_json::{Value, json};

use crate::mc::harness::{Net, account, key};
use crate::mc::shapes::{TRANSACTION, check_shape};

fn checksummed(index: usize) -> String {
    key(index).address().to_checksum(None)
}

#[test]
fn pending_and_queued() {
    let net = Net::start();
    let empty = json!({"pending": {}, "queued": {}});
    assert_eq!(net.ok("txpool_content", json!([])), empty);
    assert_eq!(net.ok("txpool_inspect", json!([])), empty);

    let first = net.send(json!({"to": account(5), "value": "0x7", "gasPrice": "0x9", "gas": "0x5208"}));
    net.send(json!({"data": "0x00", "gas": "0x186a0", "gasPrice": "0x3"}));
    net.send(json!({"to": account(5), "nonce": "0xf", "gasPrice": "0x3"}));
    let status = json!({"pending": "0x2", "queued": "0x1"});
    assert_eq!(net.ok("txpool_status", json!([])), status);

    let content = net.ok("txpool_content", json!([]));
    let sender = checksummed(0);
    let names = |part: &str| -> Vec<String> {
        let transactions = content[part][&sender].as_object().expect("an object");
        transactions.keys().cloned().collect()
    };
    assert_eq!(
        (names("pending"), names("queued")),
        (vec!["0".into(), "1".into()], vec!["15".into()])
    );
    let shown = &content["pending"][&sender]["0"];
    assert_eq!(shown["hash"], json!(first));
    let mut table = TRANSACTION;
    table.sort_unstable();
    let places = ["blockHash", "blockNumber", "transactionIndex"];
    check_shape(&shown.to_string(), &table, &places);

    let inspected = net.ok("txpool_inspect", json!([]));
    let lines = &inspected["pending"][&sender];
    assert_eq!(lines["0"], format!("{}: 7 sha + 21000 × 9 gas", checksummed(5)));
    assert_eq!(lines["1"], "contract creation: 0 sha + 100000 × 3 gas");
    assert_eq!(
        inspected["queued"][&sender]["15"],
        format!("{}: 0 sha + 90000 × 3 gas", checksummed(5))
    );

    net.mine();
    let after = net.ok("txpool_content", json!([]));
    assert_eq!(after["pending"], json!({}));
    assert_eq!(after["queued"][&sender]["15"]["nonce"], "0xf");
    for method in ["txpool_content", "txpool_inspect", "txpool_status"] {
        net.check_error(
            method,
            json!([Value::Null]),
            -32602,
            "too many arguments, want at most 0",
        );
    }
}

#[test]
fn a_pool_longer_than_a_response_is_refused() {
    let net = Net::with(|settings| settings.response_len_max = 1000);
    net.send(json!({"to": account(5), "gasPrice": "0x3"}));
    net.ok("txpool_content", json!([]));
    net.ok("mc_pendingTransactions", json!([]));
    for _ in 0..20 {
        net.send(json!({"to": account(5), "gasPrice": "0x3"}));
    }
    for method in ["txpool_content", "txpool_inspect", "mc_pendingTransactions"] {
        net.check_error(
            method,
            json!([]),
            -32000,
            "the response is longer than 1000 bytes",
        );
    }
    let status = json!({"pending": "0x15", "queued": "0x0"});
    assert_eq!(net.ok("txpool_status", json!([])), status);
}
