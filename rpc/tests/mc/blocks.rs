//! Blocks by number, tag and hash; counts; uncles; the pending block.

use chain::rules::payment::BlockPayment;
use primitives::{B256, U256};
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::harness::{BENEFICIARY, Net, account, quantity};
use crate::mc::shapes::{BLOCK, TRANSACTION, check_shape};

const NOWHERE: &str = "0xaa000000000000000000000000000000000000000000000000000000000000aa";

#[test]
fn a_block_has_the_shape_of_the_interface() {
    let net = Net::start();
    net.send(json!({"to": account(5), "value": "0x1"}));
    net.send(json!({"to": account(5), "value": "0x2"}));
    let block = net.mine();
    let hash = data(block.hash());
    for full in [false, true] {
        let by_hash = net.ok_text("mc_getBlockByHash", json!([hash, full]));
        check_shape(&by_hash, &BLOCK, &[]);
        assert_eq!(net.ok_text("mc_getBlockByNumber", json!(["0x1", full])), by_hash);
        assert_eq!(
            net.ok_text("mc_getBlockByNumber", json!(["latest", full])),
            by_hash
        );
        assert_eq!(net.ok_text("mc_getBlockByNumber", json!([null, full])), by_hash);
        // Under Ethereum's names a transaction also has its type and its chain.
        let ethereum = net.ok_text("eth_getBlockByNumber", json!(["0x1", full]));
        assert_eq!(ethereum.replace(r#","type":"0x0","chainId":"0x64""#, ""), by_hash);
    }
    let object = net.ok("mc_getBlockByHash", json!([hash, false]));
    let header = &block.header;
    let expected = json!({
        "number": "0x1",
        "hash": hash,
        "parentHash": data(header.parent_hash),
        "nonce": "0x0000000000000000",
        "mixHash": data(B256::ZERO),
        "sha3Uncles": data(primitives::EMPTY_UNCLES_HASH),
        "logsBloom": data(header.logs_bloom),
        "transactionsRoot": data(header.transactions_root),
        "stateRoot": data(header.state_root),
        "receiptsRoot": data(header.receipts_root),
        "miner": data(BENEFICIARY),
        "difficulty": "0x200",
        "totalDifficulty": "0x400",
        "extraData": "0x6d61696e",
        "size": quantity(block.encode().len()),
        "gasLimit": quantity(header.gas_limit),
        "gasUsed": "0x7d0",
        "timestamp": quantity(header.timestamp),
        "transactions": block.transactions.iter().map(|tx| data(tx.hash())).collect::<Vec<_>>(),
        "uncles": [],
    });
    assert_eq!(object, expected);
    let full = net.ok("mc_getBlockByHash", json!([hash, true]));
    let transactions = full["transactions"].as_array().expect("an array");
    assert_eq!(transactions.len(), 2);
    for (index, transaction) in transactions.iter().enumerate() {
        check_members(transaction, &[]);
        let place = (&transaction["blockHash"], &transaction["transactionIndex"]);
        assert_eq!(place, (&json!(hash), &json!(quantity(index))));
        assert_eq!(transaction["hash"], object["transactions"][index]);
        assert_eq!(transaction["from"], json!(account(0)));
    }
}

/// Like [`check_shape`], for a transaction whose fields are not in their order any more.
#[track_caller]
fn check_members(object: &Value, nulls: &[&str]) {
    let mut table = TRANSACTION;
    table.sort_unstable();
    check_shape(&object.to_string(), &table, nulls);
}

#[test]
fn the_genesis_block() {
    let net = Net::start();
    let earliest = net.ok_text("mc_getBlockByNumber", json!(["earliest", true]));
    check_shape(&earliest, &BLOCK, &[]);
    assert_eq!(net.ok_text("mc_getBlockByNumber", json!(["0x0", true])), earliest);
    let object = net.ok("mc_getBlockByNumber", json!(["0x0", true]));
    assert_eq!(object["nonce"], "0x0000000000000042");
    assert_eq!(object["totalDifficulty"], "0x200");
    assert_eq!(net.ok("mc_blockNumber", json!([])), "0x0");
}

#[test]
fn the_pending_block() {
    let net = Net::start();
    let head = net.mine();
    let waiting = net.send(json!({"to": account(5)}));
    let nulls = ["number", "hash", "nonce", "logsBloom"];
    let pending = net.ok_text("mc_getBlockByNumber", json!(["pending", false]));
    check_shape(&pending, &BLOCK, &nulls);
    let object = net.ok("mc_getBlockByNumber", json!(["pending", true]));
    assert_eq!(object["parentHash"], json!(data(head.hash())));
    assert_eq!(object["miner"], data(BENEFICIARY));
    assert_eq!(object["totalDifficulty"], "0x600");
    assert_eq!(object["gasUsed"], "0x3e8");
    assert_eq!(object["transactions"].as_array().map(Vec::len), Some(1));
    let transaction = &object["transactions"][0];
    assert_eq!(transaction["hash"], waiting);
    check_members(transaction, &["blockHash", "blockNumber", "transactionIndex"]);
    let count = |method: &str| net.ok(method, json!(["pending"]));
    assert_eq!(count("mc_getBlockTransactionCountByNumber"), "0x1");
    assert_eq!(count("mc_getUncleCountByBlockNumber"), "0x0");
    let by_index = net.ok(
        "mc_getTransactionByBlockNumberAndIndex",
        json!(["pending", "0x0"]),
    );
    assert_eq!(&by_index, transaction);
    assert_eq!(
        net.ok("mc_getUncleByBlockNumberAndIndex", json!(["pending", "0x0"])),
        Value::Null
    );
    // A tag may contain JSON escapes.
    let escaped = net.raw("mc_getBlockByNumber", r#"["pend\u0069ng",false]"#);
    assert!(escaped.contains(r#""number":null"#), "{escaped}");
}

#[test]
fn side_blocks_are_found_by_hash_only() {
    let net = Net::start();
    net.mine();
    net.send(json!({"to": account(5)}));
    let (main, side) = net.mine_two();
    assert_ne!(main.hash(), side.hash());
    let object = net.ok_text("mc_getBlockByHash", json!([data(side.hash()), true]));
    check_shape(&object, &BLOCK, &[]);
    let object: Value = serde_json::from_str(&object).expect("JSON");
    assert_eq!(object["number"], "0x2");
    assert_eq!(object["transactions"][0]["blockHash"], json!(data(side.hash())));
    let by_number = net.ok("mc_getBlockByNumber", json!(["0x2", false]));
    assert_eq!(by_number["hash"], json!(data(main.hash())));
    let count = net.ok("mc_getBlockTransactionCountByHash", json!([data(side.hash())]));
    assert_eq!(count, "0x1");
    let by_index = net.ok(
        "mc_getTransactionByBlockHashAndIndex",
        json!([data(side.hash()), "0x0"]),
    );
    assert_eq!(by_index["blockHash"], json!(data(side.hash())));
    // The transaction itself is found in the canonical block.
    let hash = data(main.transactions[0].hash());
    let transaction = net.ok("mc_getTransactionByHash", json!([hash]));
    assert_eq!(transaction["blockHash"], json!(data(main.hash())));
}

/// A pool looks up each block that it has sealed.
#[test]
fn what_a_block_paid() {
    let net = Net::start();
    net.mine();
    net.send(json!({"to": account(5), "gasPrice": "0x64"}));
    let (main, side) = net.mine_two();
    let ask = |block: &Value| net.ok("mc_getBlockReward", json!([block]));
    let of_side = || ask(&json!(data(side.hash())));
    let found = ask(&json!("0x2"));
    let fees = U256::from(main.header.gas_used) * U256::from(0x64);
    assert_eq!(found, ask(&json!(data(main.hash()))));
    assert_eq!(
        (&found["status"], &found["uncles"]),
        (&json!("canonical"), &json!([]))
    );
    assert_eq!(found["fees"], json!(format!("{fees:#x}")));
    assert_eq!(found["hash"], json!(data(main.hash())));
    assert_eq!(found["uncleOf"], Value::Null);
    let lost = of_side();
    assert_eq!((&lost["status"], &lost["total"]), (&json!("side"), &json!("0x0")));

    let nephew = net.mine_with(&[&side]);
    let paid = of_side();
    let place = json!({"number": "0x3", "hash": data(nephew.hash())});
    assert_eq!((&paid["status"], &paid["uncleOf"]), (&json!("uncle"), &place));
    let spec = net.chain.spec();
    let payment = BlockPayment::of(spec, 3, &nephew.uncles);
    assert_eq!(paid["total"], json!(format!("{:#x}", payment.uncles[0].1)));
    let of_nephew = ask(&json!("latest"));
    assert_eq!(of_nephew["reward"], json!(format!("{:#x}", payment.miner)));
    assert_eq!(of_nephew["uncles"][0]["reward"], paid["total"]);
    assert_eq!(of_nephew["uncles"][0]["hash"], json!(data(side.hash())));

    // One that nobody included in time is lost.
    let (_, other) = net.mine_two();
    for _ in 0..5 {
        net.mine();
    }
    let state = || ask(&json!(data(other.hash())))["status"].clone();
    assert_eq!(state(), "side");
    net.mine();
    assert_eq!(state(), "lost");

    assert_eq!(ask(&json!("0xffff")), Value::Null);
    assert_eq!(ask(&json!(NOWHERE)), Value::Null);
    assert_eq!(ask(&json!("pending")), Value::Null);
    net.check_error(
        "mc_getBlockReward",
        json!(["0xzz"]),
        -32602,
        "invalid argument 0: expected a block number, a hash of 32 bytes, or one of earliest, latest, pending, safe, finalized: \
         invalid hex digit 'z'",
    );
}

#[test]
fn uncles() {
    let net = Net::start();
    net.mine();
    let (_, side) = net.mine_two();
    let nephew = net.mine_with(&[&side]);
    assert_eq!(nephew.uncles, std::slice::from_ref(&side.header));
    let by_hash = json!([data(nephew.hash()), "0x0"]);
    let uncle = net.ok_text("mc_getUncleByBlockHashAndIndex", by_hash);
    check_shape(&uncle, &BLOCK, &[]);
    let by_number = net.ok_text("mc_getUncleByBlockNumberAndIndex", json!(["0x3", "0x0"]));
    assert_eq!(by_number, uncle);
    // The side block has no transactions, so its block object equals its uncle object.
    assert_eq!(
        net.ok_text("mc_getBlockByHash", json!([data(side.hash()), false])),
        uncle
    );
    let object = net.ok("mc_getBlockByNumber", json!(["0x3", false]));
    assert_eq!(object["uncles"], json!([data(side.hash())]));
    assert_eq!(
        net.ok("mc_getUncleCountByBlockHash", json!([data(nephew.hash())])),
        "0x1"
    );
    assert_eq!(net.ok("mc_getUncleCountByBlockNumber", json!(["0x3"])), "0x1");
    assert_eq!(net.ok("mc_getUncleCountByBlockNumber", json!(["0x2"])), "0x0");
    // Rewards: three blocks of two coins, 7/8 of two coins for the uncle, 1/32 for including it.
    // One account gets them all.
    let coin = U256::from(10).pow(U256::from(18));
    let paid = coin * U256::from(6)
        + coin * U256::from(2) * U256::from(7) / U256::from(8)
        + coin * U256::from(2) / U256::from(32);
    let balance = net.ok("mc_getBalance", json!([data(BENEFICIARY), "0x3"]));
    assert_eq!(balance, quantity(paid));
}

#[test]
fn unknown_blocks_are_null() {
    let net = Net::start();
    let block = net.mine();
    let null = |method: &str, params: Value| {
        assert_eq!(net.ok(method, params.clone()), Value::Null, "{method} {params}");
    };
    for at in ["0x2", "0xffffffffffffffff"] {
        null("mc_getBlockByNumber", json!([at, true]));
        null("mc_getBlockTransactionCountByNumber", json!([at]));
        null("mc_getUncleCountByBlockNumber", json!([at]));
        null("mc_getUncleByBlockNumberAndIndex", json!([at, "0x0"]));
        null("mc_getTransactionByBlockNumberAndIndex", json!([at, "0x0"]));
    }
    null("mc_getBlockByHash", json!([NOWHERE, false]));
    null("mc_getBlockTransactionCountByHash", json!([NOWHERE]));
    null("mc_getUncleCountByBlockHash", json!([NOWHERE]));
    null("mc_getUncleByBlockHashAndIndex", json!([NOWHERE, "0x0"]));
    null("mc_getTransactionByBlockHashAndIndex", json!([NOWHERE, "0x0"]));
    for index in ["0x0", "0xffffffffffffffff"] {
        null(
            "mc_getUncleByBlockHashAndIndex",
            json!([data(block.hash()), index]),
        );
        null(
            "mc_getTransactionByBlockHashAndIndex",
            json!([data(block.hash()), index]),
        );
    }
}

#[test]
fn bad_parameters() {
    let net = Net::start();
    let check = |method: &str, params: Value, message: &str| net.check_error(method, params, -32602, message);
    let missing = |index: usize| format!("missing value for required argument {index}");
    check("mc_getBlockByHash", json!([]), &missing(0));
    check("mc_getBlockByHash", json!([null, true]), &missing(0));
    check("mc_getBlockByHash", json!([NOWHERE]), &missing(1));
    check("mc_getBlockByNumber", json!(["0x0"]), &missing(1));
    check("mc_getUncleByBlockNumberAndIndex", json!(["0x0"]), &missing(1));
    check(
        "mc_getBlockByHash",
        json!(["0x00", true]),
        "invalid argument 0: got 1 byte, expected 32 bytes",
    );
    check(
        "mc_getBlockByHash",
        json!([NOWHERE, "true"]),
        "invalid argument 1: got a string, expected a Boolean",
    );
    let bad_ref = "invalid argument 0: expected a block number, a hash of 32 bytes, or one of earliest, latest, pending, safe, finalized";
    for (at, reason) in [
        ("0x", "expected at least one hex digit after 0x"),
        ("1", "missing 0x prefix"),
        ("newest", "missing 0x prefix"),
        ("0x10000000000000000", "number does not fit 64 bits"),
    ] {
        let message = format!("{bad_ref}: {reason}");
        check("mc_getBlockByNumber", json!([at, true]), &message);
        check("mc_getBlockTransactionCountByNumber", json!([at]), &message);
    }
    check(
        "mc_getBlockByNumber",
        json!([false, true]),
        "invalid argument 0: got a Boolean, expected a block number or tag",
    );
    check("mc_blockNumber", json!([1]), "too many arguments, want at most 0");
    check(
        "mc_getUncleByBlockNumberAndIndex",
        json!(["0x0", "0x00"]),
        "invalid argument 1: leading zero digits",
    );
}

#[test]
fn a_header_without_a_body_is_found_by_hash_and_is_no_block() {
    let net = Net::start();
    net.mine();
    let next = net.build(&net.view().head_hash(), b"later", &[]);
    let hash = data(next.hash());
    assert_eq!(net.ok("mc_getHeaderByHash", json!([hash])), Value::Null);
    let imported = net
        .chain
        .import_headers(vec![next.header.clone()])
        .expect("a good header");
    assert_eq!((imported.added, imported.best.hash), (1, next.hash()));
    let header = net.ok("mc_getHeaderByHash", json!([hash]));
    assert_eq!(header["hash"], json!(hash));
    assert_eq!(header["number"], json!("0x2"));
    // For everything else there is no such block.
    let nothing = [
        ("mc_getBlockByHash", json!([hash, true])),
        ("mc_getBlockByNumber", json!(["0x2", false])),
        ("mc_getHeaderByNumber", json!(["0x2"])),
        ("mc_getBlockTransactionCountByHash", json!([hash])),
        ("mc_getUncleCountByBlockHash", json!([hash])),
        ("mc_getUncleByBlockHashAndIndex", json!([hash, "0x0"])),
        ("mc_getTransactionByBlockHashAndIndex", json!([hash, "0x0"])),
    ];
    for (method, params) in nothing {
        assert_eq!(net.ok(method, params), Value::Null, "{method}");
    }
    assert_eq!(net.ok("mc_blockNumber", json!([])), json!("0x1"));
    net.chain.import(next).expect("a good block");
    assert_eq!(net.ok("mc_getHeaderByHash", json!([hash])), header);
    assert_eq!(
        net.ok("mc_getBlockByHash", json!([hash, true]))["hash"],
        json!(hash)
    );
}
