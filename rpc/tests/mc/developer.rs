//! The changes that contract developers make on the development network: blocks on demand,
//! snapshots, the clock, accounts, and senders without keys.

use chain::ChainSpec;
use primitives::U256;
use serde_json::{Value, json};
use store::Store;

use crate::mc::calls::{RUNTIME, deploy, word};
use crate::mc::harness::{Net, account, quantity};

const NOBODY: &str = "0x00000000000000000000000000000000000000ab";

fn head(net: &Net) -> u64 {
    net.view().head_number()
}

fn timestamp(net: &Net) -> u64 {
    net.view().head().header.timestamp
}

#[test]
fn blocks_on_demand() {
    let net = Net::start();
    assert_eq!(net.ok("evm_mine", json!([])), "0x0");
    assert_eq!(head(&net), 1);
    net.send(json!({"to": NOBODY, "value": "0x7"}));
    assert_eq!(net.ok("mc_getBalance", json!([NOBODY])), "0x0");
    let later = timestamp(&net) + 1000;
    net.ok("evm_mine", json!([later]));
    assert_eq!((head(&net), timestamp(&net)), (2, later));
    assert_eq!(net.ok("mc_getBalance", json!([NOBODY])), "0x7");
    net.ok("evm_mine", json!([{"timestamp": later + 5, "blocks": 3}]));
    assert_eq!(head(&net), 5);
    assert!(timestamp(&net) >= later + 7);
    net.ok("hardhat_mine", json!(["0x3", "0x64"]));
    assert_eq!(head(&net), 8);
    let of = |number: u64| {
        net.view()
            .header(number)
            .expect("a read")
            .expect("a block")
            .1
            .header
            .timestamp
    };
    assert_eq!((of(7) - of(6), of(8) - of(7)), (100, 100));
    net.ok("anvil_mine", json!([]));
    assert_eq!(head(&net), 9);
    let message = format!(
        "timestamp of the next block: got 5, expected more than {}, the one of the head",
        timestamp(&net)
    );
    net.check_error("evm_mine", json!([5]), -32000, &message);
    net.check_error("evm_setNextBlockTimestamp", json!([5]), -32000, &message);
    net.check_error(
        "hardhat_mine",
        json!([1001]),
        -32602,
        "invalid argument 0: got 1001 blocks, expected at most 1000",
    );
}

#[test]
fn the_clock_moves() {
    let net = Net::start();
    net.ok("evm_mine", json!([]));
    let before = timestamp(&net);
    assert_eq!(net.ok("evm_increaseTime", json!(["0xe10"])), 3600);
    assert_eq!(timestamp(&net), before);
    net.ok("evm_mine", json!([]));
    assert!((3600..3700).contains(&(timestamp(&net) - before)));
    // The time of the next block is for one block. The clock goes on from there.
    let next = timestamp(&net) + 50_000;
    net.ok("evm_setNextBlockTimestamp", json!([next]));
    net.ok("evm_mine", json!([]));
    assert_eq!(timestamp(&net), next);
    net.ok("evm_mine", json!([]));
    assert!((1..100).contains(&(timestamp(&net) - next)));
    // A call in the pending block sees the clock.
    let now = net.ok(
        "mc_call",
        json!([{"to": NOBODY}, "pending", {NOBODY: {"code": "0x4260005260206000f3"}}]),
    );
    let now = U256::from_str_radix(&now.as_str().expect("a word")[2..], 16).expect("hex");
    assert!(now > U256::from(next));
}

#[test]
fn snapshots() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    let call = || net.ok("mc_call", json!([{"to": contract}]));
    let first = net.ok("evm_snapshot", json!([]));
    net.send(json!({"to": contract, "data": word(5)}));
    net.ok("evm_mine", json!([]));
    let second = net.ok("evm_snapshot", json!([]));
    net.send(json!({"to": contract, "data": word(6)}));
    net.ok("evm_mine", json!([]));
    net.ok("evm_increaseTime", json!([1_000_000]));
    assert_eq!(call(), word(6));
    assert_eq!(net.ok("evm_revert", json!([second])), true);
    assert_eq!((call(), head(&net)), (json!(word(5)), 2));
    assert!(net.chain.clock_ahead() < 1_000_000);
    assert_eq!(net.ok("evm_revert", json!([second])), false, "it is gone");
    let third = net.ok("evm_snapshot", json!([]));
    assert_eq!(net.ok("evm_revert", json!([first])), true);
    assert_eq!((call(), head(&net)), (json!(word(0)), 1));
    assert_eq!(
        net.ok("evm_revert", json!([third])),
        false,
        "later ones are gone, too"
    );
    // The same transaction can be sent again, and gets the same nonce.
    net.send(json!({"to": contract, "data": word(7)}));
    net.ok("evm_mine", json!([]));
    assert_eq!(call(), word(7));
    // If the chain went another way, there is nothing to go back to.
    let lost = net.ok("evm_snapshot", json!([]));
    net.ok("debug_setHead", json!([1]));
    assert_eq!(net.ok("evm_revert", json!([lost])), false);
}

#[test]
fn accounts_are_changed_in_blocks() {
    let net = Net::start();
    let ok = |method: &str, params: Value| assert_eq!(net.ok(method, params), true, "{method}");
    ok("hardhat_setBalance", json!([NOBODY, "0x7b"]));
    assert_eq!(net.ok("mc_getBalance", json!([NOBODY])), "0x7b");
    ok("anvil_setNonce", json!([NOBODY, "0x9"]));
    assert_eq!(net.ok("mc_getTransactionCount", json!([NOBODY])), "0x9");
    ok("hardhat_setCode", json!([NOBODY, RUNTIME]));
    ok("anvil_setStorageAt", json!([NOBODY, "0x0", word(0x2a)]));
    assert_eq!(net.ok("mc_call", json!([{"to": NOBODY}])), word(0x2a));
    ok("hardhat_setStorageAt", json!([NOBODY, "0x0", word(0)]));
    assert_eq!(net.ok("mc_call", json!([{"to": NOBODY}])), word(0));
    assert_eq!(
        (head(&net), net.ok("mc_getBalance", json!([NOBODY, "0x0"]))),
        (5, json!("0x0"))
    );
    assert_eq!(net.ok("mc_getBalance", json!([NOBODY])), "0x7b");
    // The pool's transactions are not in such a block, and are judged by the new state.
    let pending = net.send(json!({"to": NOBODY, "data": word(5)}));
    ok("hardhat_setBalance", json!([NOBODY, "0x0"]));
    assert_eq!(
        net.ok("mc_getTransactionByHash", json!([pending]))["blockHash"],
        Value::Null
    );
    net.ok("evm_mine", json!([]));
    assert_eq!(net.ok("mc_call", json!([{"to": NOBODY}])), word(5));
    // A block with a change can be run again.
    let trace = net.ok(
        "debug_traceTransaction",
        json!([pending, {"tracer": "callTracer"}]),
    );
    assert_eq!(trace["to"], NOBODY);
    let proof = net.ok("mc_getProof", json!([NOBODY, ["0x0"], "latest"]));
    assert_eq!(proof["storageProof"][0]["value"], "0x5");
    let (code, message) = net.error("hardhat_setBalance", &json!([NOBODY, "7"]).to_string());
    assert_eq!(
        (code, message.as_str()),
        (-32602, "invalid argument 1: missing 0x prefix")
    );
}

#[test]
fn accounts_without_keys_send() {
    let net = Net::start();
    let request = json!({"from": NOBODY, "to": account(5), "value": "0x5", "gasPrice": "0x0"});
    net.check_error("mc_sendTransaction", json!([request]), -32000, "unknown account");
    net.ok("hardhat_setBalance", json!([NOBODY, quantity(1_000_000_u64)]));
    net.ok("hardhat_impersonateAccount", json!([NOBODY]));
    net.ok("evm_setAutomine", json!([true]));
    assert_eq!(net.ok("hardhat_getAutomine", json!([])), true);
    let hash = net.ok("eth_sendTransaction", json!([request]));
    let receipt = net.ok("eth_getTransactionReceipt", json!([hash]));
    assert_eq!(
        (&receipt["from"], &receipt["status"]),
        (&json!(NOBODY), &json!("0x1"))
    );
    let shown = net.ok("eth_getTransactionByHash", json!([hash]));
    assert_eq!(
        (&shown["from"], &shown["s"], &shown["nonce"]),
        (&json!(NOBODY), &json!("0x0"), &json!("0x0"))
    );
    assert_eq!(net.ok("mc_getBalance", json!([NOBODY])), quantity(999_995_u64));
    // Own accounts send as always, and get their block at once, too.
    let own = net.send(json!({"to": NOBODY, "value": "0x5"}));
    assert_eq!(net.ok("eth_getTransactionReceipt", json!([own]))["status"], "0x1");
    assert_ne!(net.ok("eth_getTransactionByHash", json!([own]))["s"], "0x0");
    net.ok("hardhat_stopImpersonatingAccount", json!([NOBODY]));
    net.check_error("mc_sendTransaction", json!([request]), -32000, "unknown account");
    net.ok("anvil_autoImpersonateAccount", json!([true]));
    net.ok("eth_sendTransaction", json!([request]));
    net.ok("anvil_autoImpersonateAccount", json!([false]));
    net.ok("evm_setAutomine", json!([false]));
    net.send(json!({"to": NOBODY}));
    assert_eq!(net.ok("txpool_status", json!([]))["pending"], "0x1");
}

/// Ethereum's newer rules know no transactions of contracts (EIP-3607), but developers send them.
#[test]
fn contracts_send_under_newer_rules() {
    let spec = ChainSpec::dev_of_fork("Shanghai").expect("a fork");
    let net = Net::of_spec(spec, Store::in_memory().expect("a store"));
    net.ok("evm_setAutomine", json!([true]));
    net.ok("hardhat_setCode", json!([NOBODY, "0x00"]));
    net.ok("hardhat_setBalance", json!([NOBODY, "0xde0b6b3a7640000"]));
    net.ok("hardhat_impersonateAccount", json!([NOBODY]));
    let request = json!({"from": NOBODY, "to": account(5), "value": "0x5"});
    let hash = net.ok("eth_sendTransaction", json!([request]));
    assert_eq!(
        net.ok("eth_getTransactionReceipt", json!([hash]))["status"],
        "0x1"
    );
}

#[test]
fn blocks_at_intervals() {
    let net = Net::start();
    net.ok("evm_setIntervalMining", json!([5]));
    while head(&net) < 3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    net.ok("evm_setIntervalMining", json!([0]));
}

#[test]
fn the_network_begins_again() {
    let net = Net::start();
    let first = net.ok("hardhat_metadata", json!([]));
    net.ok("anvil_mine", json!(["0x3"]));
    let hash = net.send(json!({"to": NOBODY, "value": "0x7"}));
    net.send(json!({"to": NOBODY, "value": "0x8"}));
    assert_eq!(net.ok("anvil_dropTransaction", json!([hash])), json!(true));
    assert_eq!(net.ok("hardhat_dropTransaction", json!([hash])), json!(false));
    assert_eq!(
        net.ok("txpool_status", json!([])),
        json!({"pending": "0x0", "queued": "0x1"})
    );
    let info = net.ok("anvil_nodeInfo", json!([]));
    assert_eq!(
        (
            &info["currentBlockNumber"],
            &info["environment"]["chainId"],
            &info["hardFork"]
        ),
        (&json!("0x3"), &json!(100), &json!("fuxi"))
    );
    let forking = json!([{"forking": {"jsonRpcUrl": "http://127.0.0.1:1"}}]);
    let expected =
        "invalid argument 0: field forking: got one, expected none: this node copies no chain from a URL";
    net.check_error("hardhat_reset", forking, -32602, expected);
    net.ok("hardhat_impersonateAccount", json!([NOBODY]));
    let accounts = || {
        net.ok("eth_accounts", json!([]))
            .as_array()
            .expect("an array")
            .len()
    };
    assert_eq!(accounts(), 4);
    assert_eq!(net.ok("anvil_reset", json!([])), json!(true));
    assert_eq!((head(&net), accounts()), (0, 3));
    assert_eq!(net.ok("anvil_metadata", json!([])), first);
    assert_eq!(net.ok("txpool_status", json!([]))["queued"], "0x0");
    for (method, begin) in [
        (
            "anvil_setNextBlockBaseFeePerGas",
            "blocks of this chain have no base fee",
        ),
        (
            "hardhat_setNextBlockBaseFeePerGas",
            "blocks of this chain have no base fee",
        ),
        ("anvil_setChainId", "the id is part of the signatures"),
    ] {
        let (code, text) = net.error(method, r#"["0x1"]"#);
        assert!(code == -32000 && text.starts_with(begin), "{method}: {text}");
    }
}

#[test]
fn the_gas_limit_is_set_in_a_block() {
    let net = Net::start();
    let limit = |block: Value| net.ok("mc_getBlockByNumber", json!([block, false]))["gasLimit"].clone();
    for (asked, method) in [
        ("0x1c9c380", "evm_setBlockGasLimit"),
        ("0xf4240", "anvil_setBlockGasLimit"),
    ] {
        let before = head(&net);
        assert_eq!(net.ok(method, json!([asked])), true);
        assert_eq!(head(&net), before + 1);
        net.ok("evm_mine", json!([{"blocks": 2}]));
        assert_eq!([limit(json!("latest")), limit(json!("pending"))], [asked; 2]);
    }
    // After a way back the limit is steered to: no block differs from its parent by too much.
    let snapshot = net.ok("evm_snapshot", json!([]));
    net.ok("evm_setBlockGasLimit", json!(["0x1c9c380"]));
    assert_eq!(net.ok("evm_revert", json!([snapshot])), true);
    net.ok("evm_mine", json!([]));
    assert_eq!(
        limit(json!("latest")),
        format!("{:#x}", 1_000_000 + 1_000_000 / 1024 - 1)
    );
    for bad in ["0x1387", "0x8000000000000000"] {
        let (code, text) = net.error("evm_setBlockGasLimit", &format!("[\"{bad}\"]"));
        assert_eq!(code, -32000, "{text}");
        assert!(
            text.starts_with("gas limit: got ") && text.contains("expected 5000 to "),
            "{text}"
        );
    }
}

#[test]
fn a_state_is_dumped_and_loaded() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    net.ok("anvil_setStorageAt", json!([contract, "0x7", word(9)]));
    net.ok("anvil_setBalance", json!([NOBODY, "0x1234"]));
    let state = net.ok("anvil_dumpState", json!([]));
    assert_eq!(state, net.ok("hardhat_dumpState", json!([])));

    let other = Net::start();
    let own = "0x00000000000000000000000000000000000000cd";
    other.ok("anvil_setBalance", json!([own, "0x55"]));
    assert_eq!(other.ok("anvil_loadState", json!([state])), true);
    let same = [
        ("mc_getCode", json!([contract])),
        ("mc_getBalance", json!([NOBODY])),
        ("mc_getStorageAt", json!([contract, "0x7"])),
        ("mc_getTransactionCount", json!([account(0)])),
    ];
    for (method, params) in same {
        assert_eq!(
            other.ok(method, params.clone()),
            net.ok(method, params),
            "{method}"
        );
    }
    assert_eq!(
        other.ok("mc_getBalance", json!([own])),
        "0x55",
        "other accounts stay"
    );

    // The values as anvil writes them: without compression, numbers without leading zeros.
    let plain = json!({"block": null, "best_block_number": 3, "accounts": {NOBODY: {
        "nonce": 5, "balance": "0x77", "code": "0x6001", "storage": {"0x1": "0x2"},
    }}});
    let text = format!("0x{}", hex::encode(plain.to_string()));
    let before = head(&other);
    assert_eq!(other.ok("hardhat_loadState", json!([text])), true);
    assert_eq!(head(&other), before + 1);
    assert_eq!(other.ok("mc_getStorageAt", json!([NOBODY, "0x1"])), word(2));
    assert_eq!(other.ok("mc_getTransactionCount", json!([NOBODY])), "0x5");
    assert_eq!(other.ok("hardhat_loadState", json!([text])), true);
    assert_eq!(head(&other), before + 1, "nothing was left to change");

    for (bad, reason) in [
        ("0x", "state: EOF"),
        ("0x1f8b", "state: "),
        ("0x7b7d", "state: missing field `accounts`"),
    ] {
        let (code, error) = other.error("anvil_loadState", &format!("[\"{bad}\"]"));
        assert!(code == -32602 && error.contains(reason), "{error}");
    }
    let wrong = plain.to_string().replace("0x77", "0x077");
    let (_, error) = other.error(
        "anvil_loadState",
        &json!([format!("0x{}", hex::encode(wrong))]).to_string(),
    );
    assert!(error.contains(&format!("account {NOBODY}: ")), "{error}");
}
