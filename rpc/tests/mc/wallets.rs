//! The requests of wallets and indexers: fees, receipts of blocks, proofs, typed data, overrides,
//! and blocks by tags and objects.

use alloy_dyn_abi::TypedData;
use primitives::{B256, EcdsaSignature, U256, keccak256, recover};
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::calls::{RUNTIME, deploy, word};
use crate::mc::examples::typed_data;
use crate::mc::harness::{Net, account, key, quantity};

const NOBODY: &str = "0x00000000000000000000000000000000000000ab";

#[test]
fn fees_of_blocks() {
    let net = Net::start();
    assert_eq!(net.ok("eth_maxPriorityFeePerGas", json!([])), "0x0");
    net.mine();
    for price in ["0x5", "0x9", "0x7"] {
        net.send(json!({"to": NOBODY, "gasPrice": price}));
    }
    let block = net.mine();
    let history = net.ok("eth_feeHistory", json!(["0x2", "latest", [0, 50, 100]]));
    // From here on the fees are in memory, and the answer comes from the thread of the connection.
    let again = net.ok("eth_feeHistory", json!(["0x2", "latest", [0, 50, 100]]));
    assert_eq!(again, history);
    let ratio = block.header.gas_used as f64 / block.header.gas_limit as f64;
    let expected = json!({
        "oldestBlock": "0x1",
        "reward": [["0x0", "0x0", "0x0"], ["0x5", "0x7", "0x9"]],
        "baseFeePerGas": ["0x0", "0x0", "0x0"],
        "gasUsedRatio": [0.0, ratio],
    });
    assert_eq!(history, expected);
    // More blocks than there are, a plain number, no percentiles.
    let all = net.ok("mc_feeHistory", json!([1000, "0x1"]));
    assert_eq!((&all["oldestBlock"], all.get("reward")), (&json!("0x0"), None));
    assert_eq!(all["gasUsedRatio"].as_array().map(Vec::len), Some(2));
    let none = net.ok("mc_feeHistory", json!(["0x0", "latest"]));
    assert_eq!(
        none,
        json!({"oldestBlock": "0x0", "baseFeePerGas": [], "gasUsedRatio": []})
    );
    let check =
        |params: Value, code: i64, message: &str| net.check_error("mc_feeHistory", params, code, message);
    check(json!(["0x1", "0x9"]), -32000, "block 9 is above the head block 2");
    check(
        json!(["0x1", "latest", [50, 10]]),
        -32602,
        "invalid argument 2: got 10 after 50, expected ascending percentiles",
    );
    check(
        json!(["0x1", "latest", [101]]),
        -32602,
        "invalid argument 2: element 0: expected a number from 0 to 100",
    );
    check(
        json!(["0x1", "latest", ["5"]]),
        -32602,
        "invalid argument 2: element 0: expected a number from 0 to 100",
    );
}

#[test]
fn receipts_of_a_block() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    let hashes = [
        net.send(json!({"to": contract, "data": word(1)})),
        net.send(json!({"to": NOBODY})),
        net.send(json!({"to": contract, "data": word(0xdead), "gas": "0x186a0"})),
        net.send(json!({"to": contract, "data": word(2)})),
    ];
    let (main, side) = net.mine_two();
    assert_eq!(main.transactions.len(), hashes.len());
    for name in ["eth", "mc"] {
        let each: Vec<_> = hashes
            .iter()
            .map(|hash| net.ok(&format!("{name}_getTransactionReceipt"), json!([hash])))
            .collect();
        let method = format!("{name}_getBlockReceipts");
        for at in [json!("latest"), json!("0x2"), json!(data(main.hash()).as_str())] {
            let at = match at.as_str() {
                Some(text) if text.len() == 66 => json!({"blockHash": text}),
                _ => at,
            };
            assert_eq!(net.ok(&method, json!([at])), json!(each), "{at}");
        }
    }
    let check = |at: Value, expected: Value| assert_eq!(net.ok("mc_getBlockReceipts", json!([at])), expected);
    check(json!("0x0"), json!([]));
    check(json!("0x99"), Value::Null);
    check(json!("pending"), Value::Null);
    check(json!({"blockHash": data(B256::repeat_byte(1))}), Value::Null);
    // A side block was not executed.
    check(json!({"blockHash": data(side.hash())}), Value::Null);
}

#[test]
fn blocks_by_tags_and_objects() {
    let net = Net::start();
    for _ in 0..34 {
        net.mine();
    }
    let (main, side) = net.mine_two();
    let number = |at: Value| net.ok("eth_getBlockByNumber", json!([at, false]))["number"].clone();
    assert_eq!(
        (number(json!("safe")), number(json!("finalized"))),
        (json!("0x3"), json!("0x0"))
    );
    assert_eq!(number(json!({"blockNumber": "0x5"})), "0x5");
    assert_eq!(number(json!({"blockHash": data(main.hash())})), "0x23");
    assert_eq!(number(json!({"blockHash": data(side.hash())})), "0x23");
    let strict = json!({"blockHash": data(side.hash()), "requireCanonical": true});
    let message = format!("block {:#x} is not canonical", side.hash());
    net.check_error("eth_getBlockByNumber", json!([strict, false]), -32000, &message);
    let balance = |at: Value| net.ok("eth_getBalance", json!([account(9), at]));
    assert_eq!(
        balance(json!({"blockHash": data(main.hash())})),
        balance(json!("latest"))
    );
    let at_side = json!({"blockHash": data(side.hash())});
    net.check_error("eth_getBalance", json!([account(9), at_side]), -32000, &message);
    let unknown = json!({"blockHash": data(B256::repeat_byte(1))});
    let message = format!("block {:#x} not found", B256::repeat_byte(1));
    net.check_error("eth_call", json!([{"to": NOBODY}, unknown]), -32000, &message);
    net.check_error(
        "eth_getBalance",
        json!([account(9), {}]),
        -32602,
        "invalid argument 1: got none of blockNumber and blockHash, expected one of them",
    );
    // Ranges of logs may end at a tag, but not at a hash.
    assert_eq!(
        net.ok(
            "eth_getLogs",
            json!([{"fromBlock": "finalized", "toBlock": "safe"}])
        ),
        json!([])
    );
    net.check_error(
        "eth_getLogs",
        json!([{"fromBlock": {"blockHash": data(main.hash())}}]),
        -32602,
        "invalid argument 0: field fromBlock: got the hash of a block, expected a number or a tag: \
         blockHash names one block",
    );
}

#[test]
fn proofs_of_recent_blocks() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    net.send(json!({"to": contract, "data": word(0x2a)}));
    let block = net.mine();
    let proof = net.ok("eth_getProof", json!([contract, ["0x0", word(7)], "latest"]));
    assert_eq!(
        (&proof["nonce"], &proof["balance"]),
        (&json!("0x1"), &json!("0x0"))
    );
    let code = primitives::hex::decode(&RUNTIME[2..]).expect("hex");
    assert_eq!(proof["codeHash"], json!(data(keccak256(code))));
    let first = |proof: &Value| {
        let node = proof[0].as_str().expect("a node");
        keccak256(primitives::hex::decode(node).expect("hex"))
    };
    // The nodes themselves are checked against another implementation in the package `chain`.
    assert_eq!(first(&proof["accountProof"]), block.header.state_root);
    let slots = proof["storageProof"].as_array().expect("slots");
    assert_eq!(
        (&slots[0]["key"], &slots[0]["value"]),
        (&json!("0x0"), &json!("0x2a"))
    );
    assert_eq!(
        (&slots[1]["key"], &slots[1]["value"]),
        (&json!(word(7)), &json!("0x0"))
    );
    assert_eq!(proof["storageHash"], json!(data(first(&slots[0]["proof"]))));
    let nobody = net.ok(
        "eth_getProof",
        json!([NOBODY, [], {"blockHash": data(block.hash())}]),
    );
    assert_eq!(
        (&nobody["nonce"], &nobody["balance"]),
        (&json!("0x0"), &json!("0x0"))
    );
    assert_eq!(nobody["codeHash"], json!(data(keccak256([]))));
    assert_eq!(nobody["storageHash"], json!(data(primitives::EMPTY_ROOT)));
    assert_eq!(first(&nobody["accountProof"]), block.header.state_root);
    // Before the call the slot was empty, and the contract had no storage.
    let before = net.ok("eth_getProof", json!([contract, ["0x0"], "0x1"]));
    let parent = net.ok("eth_getBlockByNumber", json!(["0x1", false]));
    assert_eq!(json!(data(first(&before["accountProof"]))), parent["stateRoot"]);
    assert_eq!(before["storageHash"], json!(data(primitives::EMPTY_ROOT)));
    assert_eq!(before["storageProof"][0]["value"], json!("0x0"));
    // The state before block 1 is that of block 0.
    net.ok("eth_getProof", json!([contract, [], "earliest"]));
    for _ in 0..127 {
        net.mine();
    }
    net.ok("eth_getProof", json!([contract, [], "0x2"]));
    net.check_error(
        "eth_getProof",
        json!([contract, [], "0x1"]),
        -32000,
        "no proof of block 1: trie nodes are kept for the last 128 blocks, expected block 2 to 129",
    );
    net.check_error(
        "eth_getProof",
        json!([contract, [], "pending"]),
        -32000,
        "the pending block has no proof",
    );
    net.check_error(
        "eth_getProof",
        json!([contract, ["0x00"]]),
        -32602,
        "invalid argument 1: element 0: leading zero digits",
    );
}

#[test]
fn typed_data_are_signed() {
    let net = Net::start();
    let typed: TypedData = serde_json::from_value(typed_data()).expect("typed data");
    let digest = typed.eip712_signing_hash().expect("a digest");
    for method in ["eth_signTypedData", "mc_signTypedData_v4"] {
        for given in [typed_data(), json!(typed_data().to_string())] {
            let signature = net.ok(method, json!([account(0), given]));
            let bytes = primitives::hex::decode(signature.as_str().expect("DATA")).expect("hex");
            let signature = EcdsaSignature::from_rsv(&bytes).expect("a signature");
            assert_eq!(recover(&digest, &signature), Ok(key(0).address()));
        }
    }
    let locked = json!([account(2), typed_data()]);
    let expected = net.error("mc_sign", &json!([account(2), "0x"]).to_string());
    assert_eq!(net.error("mc_signTypedData", &locked.to_string()), expected);
    let (code, message) = net.error(
        "mc_signTypedData",
        &json!([account(0), {"types": {}}]).to_string(),
    );
    assert_eq!(code, -32602);
    assert!(message.starts_with("invalid argument 1: "), "{message}");
}

#[test]
fn calls_on_another_state() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    net.send(json!({"to": contract, "data": word(4)}));
    net.mine();
    let call = |to: &str, state: Value| net.ok("eth_call", json!([{"to": to}, "latest", state]));
    assert_eq!(call(&contract, json!({})), word(4));
    assert_eq!(
        call(&contract, json!({&contract: {"stateDiff": {"0x0": word(5)}}})),
        word(5)
    );
    assert_eq!(
        call(&contract, json!({&contract: {"stateDiff": {"0x1": "0x5"}}})),
        word(4)
    );
    assert_eq!(
        call(&contract, json!({&contract: {"state": {"0x1": "0x5"}}})),
        word(0)
    );
    assert_eq!(
        call(
            NOBODY,
            json!({NOBODY: {"code": RUNTIME, "state": {word(0): word(6)}}})
        ),
        word(6)
    );
    assert_eq!(call(&contract, json!({&contract: {"code": "0x"}})), "0x");
    // SELFBALANCE is 47; the code returns it.
    let balance = "0x4760005260206000f3";
    assert_eq!(
        call(NOBODY, json!({NOBODY: {"code": balance, "balance": "0x7"}})),
        word(7)
    );
    // The code creates a contract, whose address depends on the nonce.
    let creator = "0x600060006000f060005260206000f3";
    let created = |nonce: &str| call(NOBODY, json!({NOBODY: {"code": creator, "nonce": nonce}}));
    assert_ne!(created("0x1"), created("0x2"));
    assert_ne!(created("0x1"), word(0));
    // Nothing was changed.
    assert_eq!(
        (call(&contract, json!(null)), call(NOBODY, json!(null))),
        (json!(word(4)), json!("0x"))
    );
    // An estimate pays for the first value of an empty slot, but not for a slot that has one.
    let estimate = |state: Value| {
        let gas = net.ok(
            "eth_estimateGas",
            json!([{"to": contract, "data": word(9)}, "latest", state]),
        );
        u64::from_str_radix(&gas.as_str().expect("text")[2..], 16).expect("a number")
    };
    assert!(estimate(json!({&contract: {"state": {}}})) > estimate(json!({})) + 10_000);
    // The same call on the pending block.
    let pending = net.ok(
        "eth_call",
        json!([{"to": contract}, "pending", {&contract: {"state": {"0x0": "0x8"}}}]),
    );
    assert_eq!(pending, word(8));
}

#[test]
fn calls_in_another_block() {
    let net = Net::start();
    net.mine();
    let call = |opcode: &str, block: Value| {
        let code = format!("0x{opcode}60005260206000f3");
        net.ok(
            "eth_call",
            json!([{"to": NOBODY}, "latest", {NOBODY: {"code": code}}, block]),
        )
    };
    let coinbase = data(key(3).address());
    assert_eq!(call("43", json!({"number": "0x77"})), word(0x77));
    assert_eq!(call("42", json!({"time": "0x78"})), word(0x78));
    assert_eq!(call("45", json!({"gasLimit": "0x79"})), word(0x79));
    assert_eq!(call("44", json!({"difficulty": "0x7a"})), word(0x7a));
    assert_eq!(
        call("41", json!({"coinbase": coinbase})),
        format!("0x{:0>64}", &coinbase[2..])
    );
    assert_eq!(call("43", json!(null)), word(1));
    net.check_error(
        "eth_call",
        json!([{"to": NOBODY}, "latest", {}, {"number": "x"}]),
        -32602,
        "invalid argument 3: field number: missing 0x prefix",
    );
    net.check_error(
        "eth_call",
        json!([{"to": NOBODY}, "latest", {NOBODY: {"state": {}, "stateDiff": {}}}]),
        -32602,
        &format!(
            "invalid argument 2: {NOBODY}: fields state and stateDiff exclude each other, expected one of them"
        ),
    );
}

#[test]
fn the_operator_bounds_the_gas_of_calls() {
    let net = Net::with(|settings| settings.call_gas_max = 30_000);
    // GAS, returned.
    let code = "0x5a60005260206000f3";
    let gas = |request: Value| {
        let left = net.ok("eth_call", json!([request, "latest", {NOBODY: {"code": code}}]));
        U256::from_str_radix(&left.as_str().expect("text")[2..], 16).expect("a number")
    };
    assert!(gas(json!({"to": NOBODY})) < U256::from(30_000));
    assert!(gas(json!({"to": NOBODY, "gas": "0xffffff"})) < U256::from(30_000));
    assert!(gas(json!({"to": NOBODY, "gas": "0x2710"})) < U256::from(10_000));
    let high =
        json!([{"to": NOBODY, "gas": quantity(10_000_000_u64)}, "latest", {NOBODY: {"code": "0x5b600056"}}]);
    let (code, message) = net.error("eth_estimateGas", &high.to_string());
    assert_eq!(
        (code, message.as_str()),
        (
            -32000,
            "gas required exceeds allowance (30000) or always failing transaction"
        )
    );
}
