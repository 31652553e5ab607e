//! Balances, nonces, code and storage at block numbers and in the pending block.

use primitives::{Transaction, U256};
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::calls::{RUNTIME, deploy, word};
use crate::mc::harness::{Net, account, key, quantity};

const NOBODY: &str = "0x00000000000000000000000000000000000000ab";

#[test]
fn balances_at_block_numbers() {
    let net = Net::start();
    net.send(json!({"to": NOBODY, "value": "0x7"}));
    net.mine();
    net.send(json!({"to": NOBODY, "value": "0x9"}));
    net.mine();
    net.send(json!({"to": NOBODY, "value": "0x1"}));
    let balance = |at: Value| net.ok("mc_getBalance", json!([NOBODY, at]));
    assert_eq!(balance(json!("earliest")), "0x0");
    assert_eq!(balance(json!("0x1")), "0x7");
    for latest in [json!("latest"), json!("0x2"), Value::Null] {
        assert_eq!(balance(latest), "0x10");
    }
    assert_eq!(net.ok("mc_getBalance", json!([NOBODY])), "0x10");
    assert_eq!(balance(json!("pending")), "0x11");
    // An account without balance and transactions.
    let stranger = "0x00000000000000000000000000000000000000cd";
    for at in ["latest", "pending"] {
        assert_eq!(net.ok("mc_getBalance", json!([stranger, at])), "0x0");
        assert_eq!(net.ok("mc_getTransactionCount", json!([stranger, at])), "0x0");
        assert_eq!(net.ok("mc_getCode", json!([stranger, at])), "0x");
        assert_eq!(net.ok("mc_getStorageAt", json!([stranger, "0x0", at])), word(0));
    }
    let coins = U256::from(1_000_000) * U256::from(10).pow(U256::from(18));
    let funded = net.ok("mc_getBalance", json!([account(9), "0x0"]));
    assert_eq!(funded, quantity(coins));
}

#[test]
fn transaction_counts() {
    let net = Net::start();
    let count = |at: &str| net.ok("mc_getTransactionCount", json!([account(0), at]));
    net.send(json!({"to": NOBODY}));
    assert_eq!((count("latest"), count("pending")), (json!("0x0"), json!("0x1")));
    net.mine();
    assert_eq!((count("latest"), count("pending")), (json!("0x1"), json!("0x1")));
    net.send(json!({"to": NOBODY}));
    net.send(json!({"to": NOBODY}));
    // A queued transaction waits for a missing nonce, so it does not count.
    net.send(json!({"to": NOBODY, "nonce": "0x9"}));
    assert_eq!((count("0x0"), count("0x1")), (json!("0x0"), json!("0x1")));
    assert_eq!((count("latest"), count("pending")), (json!("0x1"), json!("0x3")));
}

#[test]
fn code_and_storage() {
    let net = Net::start();
    let created = data(Transaction::created_address(&key(0).address(), 0));
    let code = |at: &str| net.ok("mc_getCode", json!([created, at]));
    let (contract, _) = deploy(&net);
    assert_eq!(contract, created);
    assert_eq!((code("0x0"), code("0x1")), (json!("0x"), json!(RUNTIME)));
    let slot = |position: &str, at: &str| net.ok("mc_getStorageAt", json!([contract, position, at]));
    assert_eq!(slot("0x0", "latest"), word(0));
    net.send(json!({"to": contract, "data": word(0x2a)}));
    assert_eq!(slot("0x0", "latest"), word(0));
    assert_eq!(slot("0x0", "pending"), word(0x2a));
    net.mine();
    assert_eq!(slot("0x0", "latest"), word(0x2a));
    assert_eq!(slot("0x0", "pending"), word(0x2a));
    assert_eq!(slot("0x0", "0x1"), word(0));
    assert_eq!(slot("0x1", "latest"), word(0));
    let as_data = word(0);
    assert_eq!(slot(&as_data, "latest"), word(0x2a));
    assert_eq!(net.ok("mc_getStorageAt", json!([contract, as_data])), word(0x2a));
}

#[test]
fn code_of_a_pending_creation() {
    let net = Net::start();
    let created = data(Transaction::created_address(&key(0).address(), 0));
    net.send(json!({"data": crate::mc::calls::creation()}));
    let code = |at: &str| net.ok("mc_getCode", json!([created, at]));
    assert_eq!((code("latest"), code("pending")), (json!("0x"), json!(RUNTIME)));
    // A call in the pending block finds the contract.
    let answer = net.ok("mc_call", json!([{"to": created}, "pending"]));
    assert_eq!(answer, word(0));
    assert_eq!(net.ok("mc_call", json!([{"to": created}])), "0x");
}

#[test]
fn no_state_above_the_head() {
    let net = Net::start();
    net.mine();
    let check = |method: &str, params: Value, got: u64| {
        let message = format!("block {got} is above the head block 1");
        net.check_error(method, params, -32000, &message);
    };
    check("mc_getBalance", json!([NOBODY, "0x2"]), 2);
    check("mc_getTransactionCount", json!([NOBODY, "0x2"]), 2);
    check("mc_getCode", json!([NOBODY, "0xff"]), 255);
    check("mc_getStorageAt", json!([NOBODY, "0x0", "0x2"]), 2);
    check("mc_call", json!([{"to": NOBODY}, "0x2"]), 2);
    check("mc_estimateGas", json!([{"to": NOBODY}, "0x2"]), 2);
    check("mc_getBalance", json!([NOBODY, "0xffffffffffffffff"]), u64::MAX);
}

#[test]
fn bad_parameters() {
    let net = Net::start();
    let check = |method: &str, params: Value, message: &str| net.check_error(method, params, -32602, message);
    for method in ["mc_getBalance", "mc_getTransactionCount", "mc_getCode"] {
        check(method, json!([]), "missing value for required argument 0");
        check(
            method,
            json!([null, "latest"]),
            "missing value for required argument 0",
        );
        check(
            method,
            json!([5]),
            "invalid argument 0: got a number, expected a hex string",
        );
        check(
            method,
            json!(["0xab"]),
            "invalid argument 0: got 1 byte, expected 20 bytes",
        );
        check(
            method,
            json!([NOBODY, "0x"]),
            "invalid argument 1: expected a block number, a hash of 32 bytes, or one of earliest, latest, pending, safe, finalized: \
            expected at least one hex digit after 0x",
        );
        check(
            method,
            json!([NOBODY, true]),
            "invalid argument 1: got a Boolean, expected a block number or tag",
        );
        check(
            method,
            json!([NOBODY, "latest", 1]),
            "too many arguments, want at most 2",
        );
    }
    let bare = &NOBODY[2..];
    check(
        "mc_getBalance",
        json!([bare]),
        "invalid argument 0: missing 0x prefix",
    );
    check(
        "mc_getStorageAt",
        json!([NOBODY]),
        "missing value for required argument 1",
    );
    check(
        "mc_getStorageAt",
        json!([NOBODY, "0x00", "latest"]),
        "invalid argument 1: leading zero digits",
    );
    check(
        "mc_getStorageAt",
        json!([NOBODY, 0]),
        "invalid argument 1: got a number, expected a hex string",
    );
}

/// The forms of a block reference that have one clear meaning, beside QUANTITY and tags. What is
/// refused is in the tests of `decode`.
#[test]
fn block_numbers_may_be_padded_or_plain() {
    let net = Net::start();
    let rich = account(3);
    net.send(json!({ "to": rich, "value": "0x1" }));
    net.mine();
    net.mine();
    let before = net.ok("mc_getBalance", json!([rich, "0x0"]));
    let after = net.ok("mc_getBalance", json!([rich, "0x1"]));
    assert_ne!(before, after);
    for (at, expected) in [
        (json!("0x00"), &before),
        (json!("0x0000000000"), &before),
        (json!(0), &before),
        (json!("0x01"), &after),
        (json!("0x0001"), &after),
        (json!(1), &after),
    ] {
        for method in ["mc_getBalance", "eth_getBalance"] {
            assert_eq!(net.ok(method, json!([rich, at])), *expected, "{method} {at}");
        }
    }
    let number = |at: Value| net.ok("eth_getBlockByNumber", json!([at, false]))["number"].clone();
    assert_eq!(number(json!("0x02")), "0x2");
    assert_eq!(number(json!(2)), "0x2");
    assert_eq!(number(json!(null)), "0x2");
    let filter = json!([{ "fromBlock": 0, "toBlock": "0x02" }]);
    assert_eq!(net.ok("eth_getLogs", filter), json!([]));
    // Nothing is above the head, in whatever form.
    assert_eq!(net.ok("eth_getBlockByNumber", json!([3, false])), json!(null));
    // The chain is shorter than the depths of these tags.
    assert_eq!(number(json!("safe")), "0x0");
    assert_eq!(number(json!("finalized")), "0x0");
}
