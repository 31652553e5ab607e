//! Transactions and receipts, pending and mined, native and classic.

use primitives::{Bytes, Transaction, TxForm, U256, UnsignedTransaction};
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::calls::{deploy, word};
use crate::mc::harness::{Net, account, key, quantity, transfer};
use crate::mc::shapes::{LOG, RECEIPT, TRANSACTION, check_shape};

/// A signed transfer with data.
fn signed(tx_nonce: u64, form: TxForm) -> Transaction {
    let unsigned = UnsignedTransaction {
        tx_nonce,
        value: U256::from(5),
        input: Bytes::from_static(b"\x00hi"),
        ..transfer()
    };
    unsigned.sign(&key(4), 100, form)
}

fn raw(transaction: &Transaction) -> Value {
    json!([data(transaction.encode_raw())])
}

#[test]
fn a_native_transaction_from_pool_to_block() {
    let net = Net::start();
    let sent = signed(0, TxForm::Native);
    let hash = data(sent.hash());
    assert_eq!(net.ok("mc_sendRawTransaction", raw(&sent)), json!(hash));
    let places = ["blockHash", "blockNumber", "transactionIndex"];
    let pending = net.ok_text("mc_getTransactionByHash", json!([hash]));
    check_shape(&pending, &TRANSACTION, &places);
    assert_eq!(net.ok("mc_getTransactionReceipt", json!([hash])), Value::Null);

    let block = net.mine();
    let text = net.ok_text("mc_getTransactionByHash", json!([hash]));
    check_shape(&text, &TRANSACTION, &[]);
    let expected = json!({
        "hash": hash,
        "nonce": "0x0",
        "blockHash": data(block.hash()),
        "blockNumber": "0x1",
        "transactionIndex": "0x0",
        "from": account(4),
        "to": account(6),
        "value": "0x5",
        "gasPrice": "0x4a817c800",
        "gas": "0x5208",
        "input": "0x006869",
        "syscnt": "0x0",
        "v": quantity(sent.v),
        "r": quantity(sent.r),
        "s": quantity(sent.s),
        "shardingFlag": "0x0",
    });
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), expected);
    for (method, params) in [
        (
            "mc_getTransactionByBlockHashAndIndex",
            json!([data(block.hash()), "0x0"]),
        ),
        ("mc_getTransactionByBlockNumberAndIndex", json!(["latest", "0x0"])),
    ] {
        assert_eq!(net.ok_text(method, params), text, "{method}");
    }
    net.check_error(
        "mc_sendRawTransaction",
        raw(&sent),
        -32000,
        "nonce too low: got 0, expected at least 1",
    );
}

#[test]
fn a_classic_transaction_is_found_by_both_hashes() {
    let net = Net::start();
    let sent = signed(0, TxForm::Classic);
    let native_hash = data(sent.hash());
    let ethereum_hash = data(sent.ethereum_hash().expect("a classic one"));
    assert_ne!(native_hash, ethereum_hash);
    assert_eq!(
        net.ok("eth_sendRawTransaction", raw(&sent)),
        json!(ethereum_hash),
        "the compatible library gets the hash that it computes itself"
    );
    let second = signed(1, TxForm::Classic);
    let answer = net.ok("mc_sendRawTransaction", raw(&second));
    assert_eq!(
        answer,
        json!(data(second.hash())),
        "the native name gets the hash of the stored form"
    );
    for mined in [false, true] {
        for hash in [&native_hash, &ethereum_hash] {
            let object = net.ok("mc_getTransactionByHash", json!([hash]));
            assert_eq!(object["hash"], json!(native_hash));
            assert_eq!(object["from"], account(4));
            assert_eq!(object["v"], quantity(sent.v));
            assert_eq!(object["blockNumber"].is_null(), !mined);
            let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
            assert_eq!(receipt.is_null(), !mined);
            if mined {
                assert_eq!(receipt["transactionHash"], json!(native_hash));
            }
        }
        if !mined {
            net.mine();
        }
    }
}

#[test]
fn receipts_add_up_gas_and_logs_of_the_block() {
    let net = Net::start();
    let (contract, receipt) = deploy(&net);
    assert_eq!(receipt["to"], Value::Null);
    assert_eq!(receipt["status"], "0x1");
    let sent = [
        json!({"to": contract, "data": word(1)}),
        json!({"to": account(7), "value": "0x1"}),
        json!({"to": contract, "data": word(2)}),
        json!({"to": contract, "data": word(0xdead)}),
        json!({"data": "0xfe"}),
    ];
    let hashes: Vec<_> = sent
        .into_iter()
        .map(|transaction| net.send(transaction))
        .collect();
    let block = net.mine();
    let mut cumulative = 0;
    let mut logs = 0;
    for (index, hash) in hashes.iter().enumerate() {
        let text = net.ok_text("mc_getTransactionReceipt", json!([hash]));
        let nulls: &[&str] = match index {
            4 => &["to", "contractAddress"],
            _ => &["contractAddress"],
        };
        check_shape(&text, &RECEIPT, nulls);
        let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
        let gas = number(&receipt["gasUsed"]);
        assert!(gas >= 1000, "{receipt}");
        cumulative += gas;
        assert_eq!(number(&receipt["cumulativeGasUsed"]), cumulative);
        assert_eq!(receipt["blockHash"], json!(data(block.hash())));
        assert_eq!(receipt["transactionIndex"], quantity(index));
        assert_eq!(receipt["from"], account(0));
        let status = if index < 3 { "0x1" } else { "0x0" };
        assert_eq!(receipt["status"], status, "{receipt}");
        let receipt_logs = receipt["logs"].as_array().expect("an array");
        assert_eq!(receipt_logs.len(), usize::from(index == 0 || index == 2));
        for log in receipt_logs {
            let expected = json!({
                "removed": false,
                "logIndex": quantity(logs),
                "transactionIndex": quantity(index),
                "transactionHash": hash,
                "blockHash": data(block.hash()),
                "blockNumber": "0x2",
                "address": contract,
                "data": word(index as u64 / 2 + 1),
                "topics": [word(0x11), word(index as u64 / 2 + 1)],
            });
            assert_eq!(*log, expected);
            let text = net.ok_text("mc_getTransactionReceipt", json!([hash]));
            let start = text.find("\"logs\":[").expect("logs") + "\"logs\":[".len();
            let end = text.find("],\"logsBloom\"").expect("the next field");
            check_shape(&text[start..end], &LOG, &[]);
            logs += 1;
        }
        let has_bits = receipt["logsBloom"]
            .as_str()
            .is_some_and(|bloom| bloom[2..].contains(|digit| digit != '0'));
        assert_eq!(has_bits, !receipt_logs.is_empty());
    }
    assert_eq!(cumulative, block.header.gas_used);
    assert_eq!(logs, 2);
}

fn number(quantity: &Value) -> u64 {
    let digits = quantity.as_str().and_then(|text| text.strip_prefix("0x"));
    u64::from_str_radix(digits.expect("a QUANTITY"), 16).expect("64 bits")
}

#[test]
fn unknown_transactions_are_null() {
    let net = Net::start();
    let hash = data(signed(0, TxForm::Native).hash());
    for method in ["mc_getTransactionByHash", "mc_getTransactionReceipt"] {
        assert_eq!(net.ok(method, json!([hash])), Value::Null);
        net.check_error(method, json!([]), -32602, "missing value for required argument 0");
        net.check_error(
            method,
            json!(["0x123"]),
            -32602,
            "invalid argument 0: odd number of hex digits",
        );
        net.check_error(
            method,
            json!([{}]),
            -32602,
            "invalid argument 0: got an object, expected a hex string",
        );
        net.check_error(
            method,
            json!([hash, hash]),
            -32602,
            "too many arguments, want at most 1",
        );
    }
}
