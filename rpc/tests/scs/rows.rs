//! The answer of each row, for a MicroChain of the SCS and for one that it does not serve.

use primitives::Address;
use rpc::types::data;
use serde_json::{Value, json};

use crate::scs::harness::{
    CHAIN, DAPP, DAPP_BASE, HEAD, ID, TestScs, UNKNOWN, block_hash, transaction, user, user_text,
};

#[test]
fn the_scs_itself() {
    let scs = TestScs::start();
    scs.check("net_listening", json!([]), json!(true));
    scs.check("scs_listening", json!([]), json!(true));
    scs.check("scs_getSCSId", json!([]), json!(data(ID)));
    scs.check("scs_protocolVersion", json!([]), json!("0x1"));
    scs.check("scs_datadir", json!([]), json!("/home/scs/scsdata"));
    scs.check("scs_getMicroChainList", json!([]), json!([data(CHAIN)]));
    scs.check_error("scs_getSCSId", json!([1]), -32602, "too many arguments");
    scs.check_error("scs_getNothing", json!([]), -32601, "scs_getNothing");
}

#[test]
fn a_microchain_and_its_dapps() {
    let scs = TestScs::start();
    scs.check(
        "scs_getMicroChainInfo",
        json!([data(CHAIN)]),
        json!({
            // The public SCS answers with the lowest 64 bits of the supply, which is a fault.
            "balance": "0xc9f2c9cd04674edea40000000", "blockReward": "0x1c6bf52634000",
            "bondLimit": "0xde0b6b3a7640000", "owner": user().address().to_checksum(None),
            "scsList": [ID.to_checksum(None)], "txReward": "0x174876e800", "viaReward": "0x2386f26fc10000",
        }),
    );
    scs.check("scs_getMicroChainInfo", json!([data(UNKNOWN)]), Value::Null);
    for method in ["scs_getDappList", "scs_getDappAddrList"] {
        scs.check(method, json!([data(CHAIN)]), json!([data(DAPP_BASE), data(DAPP)]));
        scs.check(method, json!([data(UNKNOWN)]), json!([]));
    }
    scs.check("scs_getDappState", json!([data(CHAIN)]), json!(1));
    scs.check("scs_getDappState", json!([data(UNKNOWN)]), json!(0));
    for method in [
        "scs_getMicroChainInfo",
        "scs_getDappList",
        "scs_getDappState",
        "scs_getBlockNumber",
    ] {
        scs.check_error(method, json!([]), -32602, "missing value");
        scs.check_error(method, json!(["0x1234"]), -32602, "");
    }
}

#[test]
fn accounts() {
    let scs = TestScs::start();
    scs.check("scs_getNonce", json!([data(CHAIN), user_text()]), json!(3));
    scs.check("scs_getNonce", json!([data(CHAIN), data(ID)]), json!(0));
    scs.check("scs_getNonce", json!([data(UNKNOWN), user_text()]), json!(0));
    scs.check(
        "scs_getBalance",
        json!([data(CHAIN), user_text()]),
        json!("0x3e8"),
    );
    scs.check(
        "scs_getBalance",
        json!([data(UNKNOWN), user_text()]),
        json!("0x0"),
    );
}

#[test]
fn blocks_by_number_and_by_name() {
    let scs = TestScs::start();
    scs.check("scs_getBlockNumber", json!([data(CHAIN)]), json!("0x10"));
    scs.check("scs_getBlockNumber", json!([data(UNKNOWN)]), json!("0x0"));
    let nine = scs.ok("scs_getBlock", json!([data(CHAIN), 9]));
    assert_eq!(nine, scs.ok("scs_getBlock", json!([data(CHAIN), "0x9"])));
    assert_eq!(nine["hash"], data(block_hash(9)));
    assert_eq!(nine["parentHash"], data(block_hash(8)));
    assert_eq!(nine["miner"], data(ID));
    assert_eq!(
        (&nine["number"], &nine["timestamp"]),
        (&json!("0x9"), &json!("0x5a"))
    );
    let hashes: Vec<_> = (0..3).map(|nonce| data(transaction(nonce).hash())).collect();
    assert_eq!(nine["transactions"], json!(hashes));
    for name in ["extraData", "receiptsRoot", "stateRoot", "transactionsRoot"] {
        assert!(nine[name].is_string(), "{name}");
    }
    let number = |at: &str| scs.ok("scs_getBlock", json!([data(CHAIN), at]))["number"].clone();
    assert_eq!(number("earliest"), "0x0");
    assert_eq!(number("latest"), format!("{HEAD:#x}"));
    scs.check("scs_getBlock", json!([data(CHAIN), "0x11"]), Value::Null);
    scs.check("scs_getBlock", json!([data(UNKNOWN), 1]), Value::Null);
    for chain in [CHAIN, UNKNOWN] {
        scs.check_error(
            "scs_getBlock",
            json!([data(chain), "pending"]),
            -32602,
            "got pending",
        );
        scs.check_error(
            "scs_getBlockList",
            json!([data(chain), "pending", 4]),
            -32602,
            "got pending",
        );
    }
}

#[test]
fn lists_of_blocks() {
    let scs = TestScs::start();
    let list = scs.ok("scs_getBlockList", json!([data(CHAIN), 8, "0xa"]));
    assert_eq!(list["startBlk"], "0x8");
    assert_eq!(list["endBlk"], "0xa");
    assert_eq!(list["microchainAddress"], data(CHAIN));
    let blocks = list["blockList"].as_array().expect("a list");
    let numbers: Vec<_> = blocks.iter().map(|block| block["number"].clone()).collect();
    assert_eq!(numbers, ["0x8", "0x9", "0xa"]);
    assert!(blocks.iter().all(|block| block["miner"] == data(ID)));
    let count = |start: u64, end: u64| {
        let list = scs.ok("scs_getBlockList", json!([data(CHAIN), start, end]));
        list["blockList"].as_array().expect("a list").len()
    };
    assert_eq!((count(16, 16), count(15, 40), count(17, 40)), (1, 2, 0));
    scs.check_error(
        "scs_getBlockList",
        json!([data(CHAIN), 5, 4]),
        -32602,
        "end 4 before the start 5",
    );
    scs.check_error(
        "scs_getBlockList",
        json!([data(CHAIN), 0, 1000]),
        -32602,
        "at most 1000 blocks",
    );
    assert_eq!(count(0, 999), 17);
    let unknown = scs.ok("scs_getBlockList", json!([data(UNKNOWN), 1, 3]));
    assert_eq!(unknown["blockList"], json!([]));
}

#[test]
fn receipts_and_transactions_have_one_shape() {
    let scs = TestScs::start();
    let hash = |nonce| data(transaction(nonce).hash());
    for nonce in 0..3 {
        let receipt = scs.ok("scs_getReceiptByHash", json!([data(CHAIN), hash(nonce)]));
        let by_nonce = json!([data(CHAIN), user_text(), nonce]);
        let by_hex = json!([data(CHAIN), user_text(), format!("{nonce:#x}")]);
        scs.check("scs_getReceiptByNonce", by_nonce.clone(), receipt.clone());
        scs.check("scs_getReceiptByNonce", by_hex, receipt.clone());
        scs.check("scs_getTransactionByNonce", by_nonce, receipt.clone());
        scs.check(
            "scs_getTransactionByHash",
            json!([data(CHAIN), hash(nonce)]),
            receipt.clone(),
        );
        // The sample passes a hash where the text asks for an account.
        scs.check(
            "scs_getTransactionByNonce",
            json!([data(CHAIN), hash(nonce)]),
            receipt.clone(),
        );
        assert_eq!(receipt["transactionHash"], hash(nonce));
        assert_eq!(receipt["hash"], hash(nonce));
        assert_eq!(receipt["transactionIndex"], format!("{nonce:#x}"));
        assert_eq!(receipt["blockHash"], data(block_hash(9)));
        assert_eq!(receipt["blockNumber"], "0x9");
        assert_eq!(receipt["from"], user_text());
        assert_eq!(receipt["to"], data(CHAIN));
        assert_eq!(receipt["failed"], nonce == 2);
        assert_eq!(receipt["status"], if nonce == 2 { "0x0" } else { "0x1" });
        let created = if nonce == 0 {
            json!(data(DAPP))
        } else {
            Value::Null
        };
        assert_eq!(receipt["contractAddress"], created);
        assert_eq!(receipt["queryInBlock"], 0);
        assert_eq!(receipt["logsBloom"].as_str().map(str::len), Some(514));
        assert_eq!(receipt["result"], if nonce == 1 { "AAH/" } else { "" }, "base64");
    }
    let logs = scs.ok("scs_getReceiptByNonce", json!([data(CHAIN), user_text(), 1]))["logs"].clone();
    assert_eq!(
        logs,
        json!([{
            "address": data(DAPP), "blockHash": data(block_hash(9)), "blockNumber": 9, "data": "bG9nZ2Vk",
            "logIndex": 4, "removed": false, "topics": [format!("0x{}", "07".repeat(32))],
            "transactionHash": hash(1), "transactionIndex": 1,
        }])
    );
}

#[test]
fn what_is_in_no_block_is_null() {
    let scs = TestScs::start();
    let waiting = data(transaction(3).hash());
    for chain in [CHAIN, UNKNOWN] {
        for method in ["scs_getReceiptByHash", "scs_getTransactionByHash"] {
            scs.check(method, json!([data(chain), waiting]), Value::Null);
        }
        for method in ["scs_getReceiptByNonce", "scs_getTransactionByNonce"] {
            scs.check(method, json!([data(chain), user_text(), 3]), Value::Null);
            scs.check(
                method,
                json!([data(chain), data(Address::ZERO), "0x0"]),
                Value::Null,
            );
        }
    }
    let both = json!([data(CHAIN), waiting, 1]);
    scs.check_error("scs_getReceiptByNonce", both, -32602, "got a hash and a nonce");
    let neither = json!([data(CHAIN), user_text()]);
    scs.check_error("scs_getReceiptByNonce", neither, -32602, "missing value");
}

#[test]
fn calls_go_to_a_dapp() {
    let scs = TestScs::start();
    let check = |call: Value, dapp: Address, from: Address| {
        let expected = data([dapp.as_slice(), from.as_slice(), &[0xab, 0xcd]].concat());
        scs.check("scs_directCall", json!([call]), json!(expected));
    };
    let from = Address::repeat_byte(0x33);
    let text = |address: Address| data(address);
    check(
        json!({"from": text(from), "to": text(CHAIN), "dappAddr": text(DAPP), "data": "0xabcd"}),
        DAPP,
        from,
    );
    check(
        json!({"to": text(CHAIN), "dappAddr": text(DAPP), "data": "0xabcd"}),
        DAPP,
        Address::ZERO,
    );
    // Without a Dapp, or with the MicroChain in its place, the first Dapp is meant.
    check(
        json!({"to": text(CHAIN), "data": "0xabcd"}),
        DAPP_BASE,
        Address::ZERO,
    );
    check(
        json!({"to": text(CHAIN), "dappAddr": null, "data": "0xabcd"}),
        DAPP_BASE,
        Address::ZERO,
    );
    check(
        json!({"to": text(CHAIN), "dappAddr": text(CHAIN), "data": "0xabcd"}),
        DAPP_BASE,
        Address::ZERO,
    );
    scs.check(
        "scs_directCall",
        json!([{"to": text(UNKNOWN), "data": "0xabcd"}]),
        json!("0x"),
    );
    scs.check_error(
        "scs_directCall",
        json!([{"to": text(CHAIN)}]),
        -32000,
        "the call failed",
    );
    scs.check_error("scs_directCall", json!([{"data": "0x"}]), -32602, "to");
    scs.check_error("scs_directCall", json!([]), -32602, "missing value");
}

#[test]
fn waiting_transactions() {
    let scs = TestScs::start();
    let pool = scs.ok("scs_getTxpool", json!([data(CHAIN)]));
    let of = |part: &str| {
        let accounts = pool[part].as_object().expect("by account");
        let (account, by_nonce) = accounts.iter().next().expect("one account");
        assert_eq!(account.to_lowercase(), user_text());
        by_nonce.as_object().expect("by nonce").clone()
    };
    assert_eq!(of("pending")["3"]["hash"], data(transaction(3).hash()));
    assert_eq!(of("queued").keys().collect::<Vec<_>>(), ["5"]);
    scs.check(
        "scs_getTxpool",
        json!([data(UNKNOWN)]),
        json!({"pending": {}, "queued": {}}),
    );
    let raw = data(transaction(3).encode_raw());
    scs.check(
        "scs_sendRawTransaction",
        json!([raw]),
        json!(data(transaction(3).hash())),
    );
    scs.check_error(
        "scs_sendRawTransaction",
        json!(["0x01"]),
        -32000,
        "shardingFlag error",
    );
    scs.check_error("scs_sendRawTransaction", json!(["01"]), -32602, "");
}
