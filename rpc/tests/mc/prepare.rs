//! Transactions that are made but not sent; transactions that are sent again; the list of pending
//! transactions.

use primitives::{Transaction, TxForm, TxRules, hex};
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::harness::{Net, account, key};

fn decode(raw: &Value) -> Transaction {
    let bytes = hex::decode(raw.as_str().expect("DATA")).expect("hex");
    Transaction::decode_raw(&bytes, TxRules::Moac).expect("a transaction")
}

#[test]
fn signed_and_not_sent() {
    let net = Net::start();
    let request = json!({"from": account(0), "to": account(5), "value": "0x5", "gasPrice": "0x9"});
    let signed = net.ok("mc_signTransaction", json!([request]));
    let transaction = decode(&signed["raw"]);
    assert_eq!(
        transaction.recover_sender(true).expect("a sender"),
        key(0).address()
    );
    assert_eq!(signed["tx"]["hash"], json!(data(transaction.hash())));
    assert_eq!(signed["tx"]["from"], json!(account(0)));
    assert_eq!(signed["tx"]["blockHash"], Value::Null);
    assert_eq!(
        (&signed["tx"]["gas"], &signed["tx"]["nonce"]),
        (&json!("0x15f90"), &json!("0x0"))
    );
    assert_eq!(net.ok("txpool_status", json!([]))["pending"], "0x0");
    // The signed transaction can be sent unchanged.
    assert_eq!(
        net.ok("mc_sendRawTransaction", json!([signed["raw"]])),
        signed["tx"]["hash"]
    );
    // The next transaction gets the next nonce.
    let next = net.ok("mc_signTransaction", json!([request]));
    assert_eq!(next["tx"]["nonce"], "0x1");
    let locked = json!([{"from": account(2), "to": account(5)}]);
    net.check_error(
        "mc_signTransaction",
        locked,
        -32000,
        "authentication needed: password or unlock",
    );
}

#[test]
fn filled_and_not_signed() {
    let net = Net::start();
    // The node does not hold the key of account 7.
    let request = json!({"from": account(7), "to": account(5), "value": "0x5", "data": "0x01"});
    let filled = net.ok("mc_fillTransaction", json!([request]));
    let tx = &filled["tx"];
    assert_eq!(
        (&tx["v"], &tx["r"], &tx["s"]),
        (&json!("0x0"), &json!("0x0"), &json!("0x0"))
    );
    assert_eq!(tx["gasPrice"], net.ok("mc_gasPrice", json!([])));
    assert_eq!(
        (&tx["gas"], &tx["nonce"], &tx["input"]),
        (&json!("0x15f90"), &json!("0x0"), &json!("0x01"))
    );
    assert!(
        filled["raw"].as_str().expect("DATA").ends_with("018080808080"),
        "{filled}"
    );
}

#[test]
fn gas_is_estimated_under_ethereums_names() {
    let net = Net::start();
    let transfer = json!({"from": account(0), "to": account(5), "value": "0x5"});
    for method in ["eth_signTransaction", "eth_fillTransaction"] {
        let prepared = net.ok(method, json!([transfer]));
        assert_eq!(prepared["tx"]["gas"], "0x3e8", "{method}");
    }
    let hash = net.ok("eth_sendTransaction", json!([transfer]));
    assert_eq!(net.ok("eth_getTransactionByHash", json!([hash]))["gas"], "0x3e8");
    // Tools decode what they get, so it has Ethereum's nine fields, and it can be sent as it is.
    let signed = net.ok("eth_signTransaction", json!([transfer]));
    assert_eq!(decode(&signed["raw"]).form, TxForm::Classic);
    let sent = net.ok("eth_sendRawTransaction", json!([signed["raw"]]));
    assert_eq!(sent, signed["tx"]["hash"]);
    // Named fields stay. A transaction that would fail is not sent, and a locked account is named
    // first.
    let named = json!({"from": account(0), "to": account(5), "gas": "0xc350"});
    let prepared = net.ok("eth_fillTransaction", json!([named]));
    assert_eq!(prepared["tx"]["gas"], "0xc350");
    let failing = json!([{"from": account(0), "data": "0x60006000fd"}]);
    for method in [
        "eth_sendTransaction",
        "eth_signTransaction",
        "eth_fillTransaction",
    ] {
        net.check_error(method, failing.clone(), 3, "execution reverted");
    }
    let locked = json!([{"from": account(2), "data": "0x60006000fd"}]);
    let message = "authentication needed: password or unlock";
    for method in ["eth_sendTransaction", "eth_signTransaction"] {
        net.check_error(method, locked.clone(), -32000, message);
    }
    assert_eq!(net.ok("txpool_status", json!([]))["pending"], "0x2");
}

#[test]
fn sent_again() {
    let net = Net::start();
    let request = json!({"from": account(0), "to": account(5), "value": "0x5", "nonce": "0x0"});
    let mut first = request.clone();
    first["gasPrice"] = json!("0x64");
    first["gas"] = json!("0x5208");
    let first = net.ok("mc_sendTransaction", json!([first]));
    let again = net.ok("mc_resend", json!([request, "0xc8"]));
    assert_ne!(again, first);
    assert_eq!(net.ok("mc_getTransactionByHash", json!([first])), Value::Null);
    let shown = net.ok("mc_getTransactionByHash", json!([again]));
    assert_eq!(
        (&shown["gasPrice"], &shown["gas"]),
        (&json!("0xc8"), &json!("0x5208"))
    );
    let third = net.ok("mc_resend", json!([request, "0x190", "0x6000"]));
    let shown = net.ok("mc_getTransactionByHash", json!([third]));
    assert_eq!(
        (&shown["gasPrice"], &shown["gas"]),
        (&json!("0x190"), &json!("0x6000"))
    );
    // A replacement must have a higher price.
    net.check_error(
        "mc_resend",
        json!([request, "0x191"]),
        -32000,
        "replacement transaction underpriced: got 401, expected at least 440",
    );
    let other = json!({"from": account(0), "to": account(6), "nonce": "0x0"});
    net.check_error(
        "mc_resend",
        json!([other, "0xffff"]),
        -32000,
        "no such transaction of nonce 0 is in the pool",
    );
    let nameless = json!({"from": account(0), "to": account(5)});
    net.check_error(
        "mc_resend",
        json!([nameless]),
        -32000,
        "missing transaction nonce in transaction spec",
    );
}

#[test]
fn own_pending_transactions() {
    let net = Net::start();
    assert_eq!(net.ok("mc_pendingTransactions", json!([])), json!([]));
    let own = net.send(json!({"to": account(5)}));
    // The node does not hold the key of this sender.
    let foreign = primitives::UnsignedTransaction {
        gas: 1000,
        to: Some(key(6).address()),
        ..Default::default()
    };
    let foreign = foreign.sign(&key(7), 100, primitives::TxForm::Native);
    net.ok("mc_sendRawTransaction", json!([data(foreign.encode_raw())]));
    // Queued behind a missing nonce.
    net.send(json!({"to": account(5), "nonce": "0x9"}));
    let pending = net.ok("mc_pendingTransactions", json!([]));
    assert_eq!(pending.as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&pending[0]["hash"], &pending[0]["blockNumber"]),
        (&json!(own), &Value::Null)
    );
}

#[test]
fn raw_bytes() {
    let net = Net::start();
    let hash = net.send(json!({"to": account(5), "value": "0x3"}));
    let waiting = net.ok("mc_getRawTransactionByHash", json!([hash]));
    assert_eq!(json!(data(decode(&waiting).hash())), json!(hash));
    let block = net.mine();
    let by_hash = json!([data(block.hash()), "0x0"]);
    assert_eq!(net.ok("mc_getRawTransactionByHash", json!([hash])), waiting);
    assert_eq!(
        net.ok("mc_getRawTransactionByBlockHashAndIndex", by_hash),
        waiting
    );
    let by_number = json!(["latest", "0x0"]);
    assert_eq!(
        net.ok("mc_getRawTransactionByBlockNumberAndIndex", by_number),
        waiting
    );
    let nowhere = format!("0x{}", "ab".repeat(32));
    for (method, params) in [
        ("mc_getRawTransactionByHash", json!([nowhere])),
        ("mc_getRawTransactionByBlockHashAndIndex", json!([nowhere, "0x0"])),
        ("mc_getRawTransactionByBlockNumberAndIndex", json!(["0x1", "0x1"])),
        ("mc_getRawTransactionByBlockNumberAndIndex", json!(["0x9", "0x0"])),
    ] {
        assert_eq!(net.ok(method, params), Value::Null, "{method}");
    }
}
