//! Transactions of type 1 (EIP-2930): sent, signed, looked up.

use primitives::{AccessListEntry, B256, Transaction, TxForm, TxRules, UnsignedTransaction, hex};
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::calls::deploy_code;
use crate::mc::harness::{Net, account, key, transfer};

fn access_list() -> Value {
    let slot = data(B256::repeat_byte(3));
    json!([{"address": account(5), "storageKeys": [slot]}])
}

/// The members that Ethereum's clients read from a transaction of type 1.
fn check_typed(shown: &Value) {
    assert_eq!(shown["type"], "0x1");
    assert_eq!(shown["chainId"], "0x3d");
    assert_eq!(shown["accessList"], access_list());
    assert_eq!(shown["yParity"], shown["v"]);
}

fn decode(raw: &Value) -> Transaction {
    let bytes = hex::decode(raw.as_str().expect("DATA")).expect("hex");
    Transaction::decode_raw(&bytes, TxRules::Ethereum).expect("a transaction")
}

#[test]
fn a_transaction_with_an_access_list_is_signed_sent_and_mined() {
    let net = Net::of_ethereums_family(0);
    let request = json!({"from": account(0), "to": account(6), "gas": "0xc350", "value": "0x1",
        "gasPrice": "0x4a817c800", "accessList": access_list()});
    let prepared = net.ok("eth_signTransaction", json!([request]));
    check_typed(&prepared["tx"]);
    let decoded = decode(&prepared["raw"]);
    assert_eq!(decoded.form, TxForm::AccessList);
    assert_eq!(decoded.recover_sender(true), Ok(key(0).address()));
    let hash = net.ok("eth_sendTransaction", json!([request]));
    assert_eq!(hash, json!(data(decoded.hash())));
    check_typed(&net.ok("eth_getTransactionByHash", json!([hash])));
    net.mine();
    let shown = net.ok("eth_getTransactionByHash", json!([hash]));
    check_typed(&shown);
    assert_eq!(shown["blockNumber"], "0x1");
    check_typed(&net.ok("mc_getTransactionByHash", json!([hash])));
    let receipt = net.ok("eth_getTransactionReceipt", json!([hash]));
    assert_eq!(receipt["type"], "0x1");
    assert_eq!(receipt["status"], "0x1");
    assert_eq!(receipt["gasUsed"], format!("{:#x}", 21_000 + 2400 + 1900));
    let block = net.ok("eth_getBlockByNumber", json!(["0x1", true]));
    check_typed(&block["transactions"][0]);
    let raw = net.ok("eth_getRawTransactionByHash", json!([hash]));
    assert_eq!(raw, prepared["raw"]);
}

#[test]
fn raw_transactions_of_every_form_are_taken() {
    let net = Net::of_ethereums_family(0);
    let listed = UnsignedTransaction {
        gas: 50_000,
        access_list: vec![AccessListEntry::default()],
        ..transfer()
    };
    let next = |tx_nonce| UnsignedTransaction {
        tx_nonce,
        ..listed.clone()
    };
    let sent = [
        next(0).sign(&key(4), 61, TxForm::AccessList),
        next(1).sign(&key(4), 61, TxForm::Ethereum),
        next(2).sign_unprotected(&key(4)),
    ];
    for transaction in &sent {
        let hash = net.ok("eth_sendRawTransaction", json!([data(transaction.encode_raw())]));
        assert_eq!(hash, json!(data(transaction.hash())));
    }
    net.mine();
    let block = net.ok("eth_getBlockByNumber", json!(["latest", true]));
    let members = |name: &str| -> Vec<Value> {
        let all = block["transactions"].as_array().expect("a list");
        all.iter().map(|shown| shown[name].clone()).collect()
    };
    assert_eq!(members("type"), ["0x1", "0x0", "0x0"]);
    assert_eq!(members("chainId"), [json!("0x3d"), json!("0x3d"), Value::Null]);
    let other = next(3).sign(&key(4), 63, TxForm::AccessList);
    net.check_error(
        "eth_sendRawTransaction",
        json!([data(other.encode_raw())]),
        -32000,
        "invalid sender: chain id: got 63, expected 61",
    );
    let mut later = other.encode_raw();
    later[0] = 2;
    net.check_error(
        "eth_sendRawTransaction",
        json!([data(later)]),
        -32000,
        "transaction type not supported: got type 0x02 (EIP-2718), expected type 0x01 or a list of 9 fields",
    );
}

#[test]
fn typed_transactions_wait_for_their_fork() {
    let net = Net::of_ethereums_family(2);
    let typed = transfer().sign(&key(4), 61, TxForm::AccessList);
    let raw = json!([data(typed.encode_raw())]);
    let message = "transaction type not supported: got a transaction of type 0x01, expected one without a type in block 1";
    net.check_error("eth_sendRawTransaction", raw.clone(), -32000, message);
    net.mine();
    net.ok("eth_sendRawTransaction", raw);
    net.mine();
    assert_eq!(
        net.ok("eth_getBlockTransactionCountByNumber", json!(["latest"])),
        "0x1"
    );
}

#[test]
fn calls_and_estimates_count_the_access_list() {
    let net = Net::of_ethereums_family(0);
    let call = json!({"from": account(0), "to": account(6), "value": "0x1"});
    let mut listed = call.clone();
    listed["accessList"] = access_list();
    assert_eq!(net.ok("eth_estimateGas", json!([call])), "0x5208");
    let expected = format!("{:#x}", 21_000 + 2400 + 1900);
    assert_eq!(net.ok("eth_estimateGas", json!([listed])), expected);
    assert_eq!(net.ok("eth_call", json!([listed, "latest"])), "0x");
}

#[test]
fn the_access_list_of_a_call_is_found() {
    let net = Net::of_ethereums_family(0);
    // BALANCE of account 5, BALANCE of a precompiled contract, SLOAD of slot 7, and then a revert.
    let code = format!("73{}3160043160075460006000fd", &account(5)[2..]);
    let contract = data(deploy_code(&net, &code));
    let slots = |numbers: &[u8]| -> Vec<String> {
        let slot = |number: &u8| data(B256::with_last_byte(*number));
        numbers.iter().map(slot).collect()
    };
    let entry = |address: &str, numbers: &[u8]| json!({"address": address, "storageKeys": slots(numbers)});
    let sorted = |mut entries: Vec<Value>| {
        entries.sort_by_key(|entry| entry["address"].to_string());
        Value::Array(entries)
    };
    let call = |to: &str| json!({"from": account(0), "to": to, "gas": "0x186a0"});
    let found = net.ok("eth_createAccessList", json!([call(&contract)]));
    let list = sorted(vec![entry(&contract, &[7]), entry(&account(5), &[])]);
    assert_eq!(found["accessList"], list);
    assert_eq!(found["error"], "execution reverted");
    // Each account and slot of the list is paid for at first, and is cheap then.
    let steps = 3 + 100 + 3 + 100 + 3 + 100 + 3 + 3;
    assert_eq!(
        found["gasUsed"],
        format!("{:#x}", 21_000 + 2 * 2400 + 1900 + steps)
    );

    // The contract reads slot 1 if it has less gas than 78,000, and slot 0 otherwise. With a list
    // it has less.
    let contract = data(deploy_code(&net, "5a620130b0115400"));
    let found = net.ok("eth_createAccessList", json!([call(&contract), "latest"]));
    assert_eq!(found["accessList"], json!([entry(&contract, &[0, 1])]));
    assert_eq!(found.get("error"), None);
    let steps = 2 + 3 + 3 + 100;
    assert_eq!(
        found["gasUsed"],
        format!("{:#x}", 21_000 + 2400 + 2 * 1900 + steps)
    );
    // A transaction with this list uses the same gas.
    let list = &found["accessList"];
    let hash =
        net.send(json!({"to": contract, "gas": "0x186a0", "gasPrice": "0x4a817c800", "accessList": list}));
    net.mine();
    let receipt = net.ok("eth_getTransactionReceipt", json!([hash]));
    assert_eq!(receipt["gasUsed"], found["gasUsed"]);

    // A transfer touches nothing but the two accounts. What a client lists stays.
    let found = net.ok("eth_createAccessList", json!([call(&account(6))]));
    assert_eq!(found, json!({"accessList": [], "gasUsed": "0x5208"}));
    let mut listed = call(&account(6));
    listed["accessList"] = access_list();
    let found = net.ok("eth_createAccessList", json!([listed]));
    assert_eq!(found["accessList"], access_list());
    // A creation: the new account is free, and so is what it calls itself.
    let creation = json!({"from": account(0), "data": "0x303160015500", "gas": "0x186a0"});
    let found = net.ok("eth_createAccessList", json!([creation]));
    let created = found["accessList"].as_array().expect("a list");
    assert_eq!(
        (created.len(), &created[0]["storageKeys"]),
        (1, &json!(slots(&[1])))
    );

    let other = Net::start();
    other.check_error(
        "mc_createAccessList",
        json!([call(&account(6)), "latest"]),
        -32000,
        "access lists (EIP-2930): the rules of block 0 do not know them",
    );
}
