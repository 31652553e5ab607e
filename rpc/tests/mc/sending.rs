//! Accounts, signatures, and transactions that the node signs.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use primitives::{EcdsaSignature, TxForm, U256, UnsignedTransaction, hex, recover, signed_message_digest};
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::harness::{Net, account, key};

#[test]
fn accounts_in_order() {
    let net = Net::start();
    let expected: Vec<_> = (0..3).map(account).collect();
    assert_eq!(net.ok("mc_accounts", json!([])), json!(expected));
}

#[test]
fn signatures_recover_to_the_account() {
    let net = Net::start();
    for message in [&b""[..], b"hello", &[0xff; 1000]] {
        let params = json!([account(1), data(message)]);
        let signature = net.ok("mc_sign", params);
        let bytes = hex::decode(signature.as_str().expect("DATA")).expect("hex");
        assert!(matches!(bytes[64], 27 | 28));
        let signature = EcdsaSignature::from_rsv(&bytes).expect("65 bytes");
        let signer = recover(&signed_message_digest(message), &signature).expect("a signer");
        assert_eq!(data(signer), account(1));
    }
    net.check_error(
        "mc_sign",
        json!([account(2), "0x00"]),
        -32000,
        "authentication needed: password or unlock",
    );
    net.check_error("mc_sign", json!([account(3), "0x00"]), -32000, "unknown account");
    net.check_error(
        "mc_sign",
        json!([account(1)]),
        -32602,
        "missing value for required argument 1",
    );
    net.check_error(
        "mc_sign",
        json!([account(1), "hello"]),
        -32602,
        "invalid argument 1: missing 0x prefix",
    );
}

#[test]
fn missing_fields_are_filled_in() {
    let net = Net::start();
    let show = |hash: &str| net.ok("mc_getTransactionByHash", json!([hash]));
    let plain = show(&net.send(json!({"to": account(5)})));
    assert_eq!(plain["gas"], "0x15f90");
    assert_eq!(plain["gasPrice"], net.ok("mc_gasPrice", json!([])));
    assert_eq!(plain["value"], "0x0");
    assert_eq!(plain["input"], "0x");
    assert_eq!(plain["nonce"], "0x0");
    let second = show(&net.send(
        json!({"to": account(5), "gasPrice": "0x5", "gas": "0x5208", "value": "0x3",
        "input": "0x01"}),
    ));
    assert_eq!(second["nonce"], "0x1");
    assert_eq!(second["gasPrice"], "0x5");
    assert_eq!(second["gas"], "0x5208");
    assert_eq!(second["value"], "0x3");
    assert_eq!(second["input"], "0x01");
    // A transaction with the same nonce and a higher price replaces the waiting one.
    let third = net.send(json!({"to": account(6), "nonce": "0x1", "gasPrice": "0x6"}));
    let block = net.mine();
    let hashes: Vec<_> = block
        .transactions
        .iter()
        .map(|tx| json!(data(tx.hash())))
        .collect();
    assert_eq!(hashes, [plain["hash"].clone(), json!(third)]);
    assert_eq!(
        net.ok("mc_getTransactionByHash", json!([second["hash"]])),
        Value::Null
    );
}

#[test]
fn transactions_sent_at_the_same_time_get_nonces_of_their_own() {
    let net = Net::start();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    net.send(json!({"to": account(5), "value": "0x1"}));
                }
            });
        }
    });
    assert_eq!(
        net.ok("mc_getTransactionCount", json!([account(0), "pending"])),
        "0x28"
    );
    let block = net.mine();
    let nonces: BTreeSet<_> = block.transactions.iter().map(|tx| tx.tx_nonce).collect();
    assert_eq!(nonces, (0..40).collect());
}

#[test]
fn refused_transactions() {
    let net = Net::start();
    let check = |extra: Value, message: &str| {
        let mut object = json!({"from": account(0), "to": account(5)});
        for (name, value) in extra.as_object().expect("an object") {
            object[name] = value.clone();
        }
        net.check_error("mc_sendTransaction", json!([object]), -32000, message);
    };
    check(
        json!({"from": account(2)}),
        "authentication needed: password or unlock",
    );
    check(json!({"from": account(3)}), "unknown account");
    check(json!({"shardingFlag": "0x1"}), "Empty via with shardingFlag set");
    check(
        json!({"shardingFlag": "0x3", "via": "0x"}),
        "Empty via with shardingFlag set",
    );
    check(
        json!({"shardingFlag": "0x1", "via": account(7)}),
        "Mismatch address between VIA and VNODE PROXY when shardingFlag set",
    );
    check(
        json!({"shardingFlag": "0x4", "via": account(7)}),
        "shardingFlag error",
    );
    check(
        json!({"gas": "0x1"}),
        "intrinsic gasRemaining too low: got 1, expected 1000",
    );
    let limit = net.ok("mc_getBlockByNumber", json!(["pending", false]))["gasLimit"].clone();
    let limit = u64::from_str_radix(&limit.as_str().expect("a QUANTITY")[2..], 16).expect("a number");
    check(
        json!({"gas": "0xffffffffff"}),
        &format!("exceeds block gasRemaining limit: got 1099511627775, expected at most {limit}"),
    );
    net.send(json!({"to": account(5), "gasPrice": "0x64"}));
    check(
        json!({"nonce": "0x0", "gasPrice": "0x65"}),
        "replacement transaction underpriced: got 101, expected at least 110",
    );
    net.mine();
    check(
        json!({"nonce": "0x0"}),
        "nonce too low: got 0, expected at least 1",
    );
    let (code, message) = net.error(
        "mc_sendTransaction",
        &json!([{"from": account(0), "to": account(5), "value": format!("{:#x}", U256::MAX)}]).to_string(),
    );
    assert_eq!(code, -32000);
    assert!(
        message.starts_with("insufficient funds for gasRemaining * price + value: balance "),
        "{message}"
    );
    net.check_error(
        "mc_sendTransaction",
        json!([]),
        -32602,
        "missing value for required argument 0",
    );
    net.check_error(
        "mc_sendTransaction",
        json!([{"to": account(1)}]),
        -32602,
        "invalid argument 0: missing field from",
    );
    net.check_error(
        "mc_sendTransaction",
        json!([{"from": account(0)}]),
        -32602,
        "invalid argument 0: expected a field to, or the code of a contract as data",
    );
}

/// Clients of other chains may add members to a transaction object. Members that are true here are
/// accepted. Every method that makes a transaction refuses the others.
#[test]
fn transactions_of_other_chains_and_types() {
    let net = Net::start();
    let params = |method: &str, extra: Value| {
        let mut object = json!({"from": account(0), "to": account(5), "nonce": "0x0", "gasPrice": "0x64"});
        for (name, value) in extra.as_object().expect("an object") {
            object[name] = value.clone();
        }
        match method {
            "personal_sendTransaction" => json!([object, "password"]),
            "mc_resend" => json!([object, "0xc8"]),
            _ => json!([object]),
        }
    };
    net.ok(
        "mc_sendTransaction",
        params(
            "mc_sendTransaction",
            json!({"chainId": "0x64", "type": "0x0", "maxFeePerGas": null}),
        ),
    );
    for method in [
        "mc_sendTransaction",
        "eth_sendTransaction",
        "mc_signTransaction",
        "mc_fillTransaction",
        "mc_resend",
        "personal_sendTransaction",
    ] {
        let typed = |field: &str, kind: &str| {
            format!(
                "invalid argument 0: field {field}: got one, expected none: this chain has no transactions of type {kind}"
            )
        };
        for (extra, message) in [
            (
                json!({"maxFeePerGas": "0x5"}),
                typed("maxFeePerGas", "2 (EIP-1559)"),
            ),
            (
                json!({"maxPriorityFeePerGas": "0x5"}),
                typed("maxPriorityFeePerGas", "2 (EIP-1559)"),
            ),
            (json!({"blobs": ["0x"]}), typed("blobs", "3 (EIP-4844)")),
            (
                json!({"type": "0x2"}),
                "invalid argument 0: field type: got 2, expected 0, 1 or none".to_owned(),
            ),
        ] {
            net.check_error(method, params(method, extra), -32602, &message);
        }
        if method != "personal_sendTransaction" && method != "mc_resend" {
            let message = "field accessList or type: got a transaction of type 1 (EIP-2930), expected one without a type in block 1";
            for typed in [json!({"accessList": []}), json!({"type": "0x1"})] {
                net.check_error(method, params(method, typed), -32000, message);
            }
        }
        if method != "personal_sendTransaction" {
            for other in [json!("0x1"), json!(1)] {
                let message = "chainId does not match node's: got 1, expected 100";
                net.check_error(method, params(method, json!({"chainId": other})), -32000, message);
            }
        }
    }
    let status = net.ok("txpool_status", json!([]));
    assert_eq!(
        (&status["pending"], &status["queued"]),
        (&json!("0x1"), &json!("0x0"))
    );
}

/// A transfer of nothing.
fn transfer() -> UnsignedTransaction {
    UnsignedTransaction {
        gas_price: U256::from(1),
        gas: 1000,
        to: Some(key(5).address()),
        ..Default::default()
    }
}

#[test]
fn what_this_node_signs_has_a_cap_of_fees_under_ethereums_names() {
    let net = Net::start();
    // Just above a coin and a coin.
    let of_price = |price: u64| json!([{"from": account(0), "to": account(5), "gas": "0x186a0", "gasPrice": format!("{price:#x}")}]);
    let (high, low) = (of_price(10_000_000_000_001), of_price(10_000_000_000_000));
    let expected = "tx fee (1.0000000000001 coins) exceeds the configured cap (1 coins): gas 100000 at the \
                    price 10000000000001; --rpc.txfeecap changes the cap";
    for method in ["eth_sendTransaction", "eth_signTransaction"] {
        net.check_error(method, high.clone(), -32000, expected);
        net.ok(method, low.clone());
    }
    net.ok("mc_signTransaction", high);
}

#[test]
fn wrong_checksums_of_addresses_in_objects_are_refused() {
    let net = Net::start();
    let good = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
    let wrong = good.replace("F6F4", "f6F4");
    let expected = format!(
        "invalid argument 0: field to: the checksum of the address is wrong: got {wrong}, expected {good}"
    );
    let transfer = |to: &str| json!([{"from": account(0), "to": to, "gas": "0x186a0"}]);
    for method in [
        "mc_sendTransaction",
        "eth_sendTransaction",
        "mc_call",
        "eth_estimateGas",
    ] {
        net.check_error(method, transfer(&wrong), -32602, &expected);
        net.ok(method, transfer(good));
        net.ok(method, transfer(&good.to_uppercase().replace("0X", "0x")));
    }
    let with_password = json!([transfer(&wrong)[0], "one"]);
    net.check_error("personal_sendTransaction", with_password, -32602, &expected);
}

#[test]
fn known_transactions_are_named_by_the_hash_the_sender_knows() {
    let net = Net::start();
    let unsigned = transfer();
    let classic = unsigned.sign(&key(4), 100, TxForm::Classic);
    let params = json!([data(classic.encode_raw())]);
    net.ok("eth_sendRawTransaction", params.clone());
    let ethereum_hash = classic.ethereum_hash().expect("nine fields");
    let known = |hash| format!("known transaction: {hash:x}");
    let already = |hash| format!("already known: {hash:x}");
    net.check_error(
        "eth_sendRawTransaction",
        params.clone(),
        -32000,
        &already(ethereum_hash),
    );
    net.check_error("mc_sendRawTransaction", params, -32000, &known(classic.hash()));
    // A transaction of twelve fields has the same hash under both names.
    let native = unsigned.sign(&key(6), 100, TxForm::Native);
    let params = json!([data(native.encode_raw())]);
    net.ok("eth_sendRawTransaction", params.clone());
    net.check_error("eth_sendRawTransaction", params, -32000, &already(native.hash()));
}

#[test]
fn refused_raw_transactions() {
    let net = Net::start();
    let unsigned = transfer();
    let check = |bytes: Vec<u8>, message: &str| {
        let params = json!([data(bytes)]);
        net.check_error("mc_sendRawTransaction", params, -32000, message);
    };
    let other_chain = unsigned.sign(&key(4), 99, TxForm::Native);
    check(
        other_chain.encode_raw(),
        "invalid sender: chain id: got 99, expected 100",
    );
    let to_microchain = |sharding_flag| {
        let unsigned = UnsignedTransaction {
            sharding_flag,
            via: Some(key(7).address()),
            ..unsigned.clone()
        };
        unsigned.sign(&key(4), 100, TxForm::Native).encode_raw()
    };
    check(to_microchain(1), "via error");
    check(to_microchain(4), "shardingFlag error");
    let sent = unsigned.sign(&key(4), 100, TxForm::Native);
    let params = json!([data(sent.encode_raw())]);
    net.ok("mc_sendRawTransaction", params.clone());
    net.check_error(
        "mc_sendRawTransaction",
        params,
        -32000,
        &format!("known transaction: {:x}", sent.hash()),
    );
    for got in [0x01, 0x02, 0x7f] {
        check(
            [&[got][..], &sent.encode_raw()].concat(),
            &format!(
                "transaction type not supported: got type {got:#04x} (EIP-2718), expected a list of 12 or 9 fields"
            ),
        );
    }
    for bytes in [
        vec![],
        vec![0x80],
        vec![0xc0],
        vec![0xf8],
        sent.encode_raw()[1..].to_vec(),
    ] {
        let params = json!([data(&bytes)]);
        let (code, message) = net.error("mc_sendRawTransaction", &params.to_string());
        assert_eq!(code, -32000, "{bytes:02x?}");
        assert!(message.starts_with("transaction"), "{message}");
    }
    net.check_error(
        "mc_sendRawTransaction",
        json!(["0x123"]),
        -32602,
        "invalid argument 0: odd number of hex digits",
    );
    net.check_error(
        "mc_sendRawTransaction",
        json!([]),
        -32602,
        "missing value for required argument 0",
    );
}

#[test]
fn a_sender_waits_until_a_peer_was_sent_the_transaction() {
    let net = Net::with(|settings| settings.send_wait = Duration::from_millis(20));
    let request = |value: &str| json!([{"from": account(0), "to": account(5), "value": value}]);
    let reason = "the transaction is in the pool of this node, but no peer was sent it in 20 ms";
    net.check_error("mc_sendTransaction", request("0x1"), -32000, reason);
    assert_eq!(
        net.chain.pool().counts(),
        (1, 0),
        "the transaction stays in the pool"
    );
    net.network.is_reached.store(true, Ordering::Relaxed);
    let hash = net.ok("mc_sendTransaction", request("0x2"));
    let found = net.ok("mc_getTransactionByHash", json!([hash]));
    assert_eq!(found["nonce"], "0x1");
}

#[test]
fn senders_that_wait_for_a_peer_do_not_wait_for_each_other() {
    let net = Net::with(|settings| settings.send_wait = Duration::from_secs(600));
    std::thread::scope(|scope| {
        for value in ["0x1", "0x2", "0x3"] {
            let request = json!([{"from": account(0), "to": account(5), "value": value}]);
            let net = &net;
            scope.spawn(move || net.ok("mc_sendTransaction", request));
        }
        let start = Instant::now();
        while net.chain.pool().counts() != (3, 0) && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let counts = net.chain.pool().counts();
        net.network.is_reached.store(true, Ordering::Relaxed);
        assert_eq!(counts, (3, 0), "all are in the pool while all wait");
    });
}
