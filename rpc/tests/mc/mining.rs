//! Work, solutions and hashrates; the state of the node; the gas price.

use primitives::B256;
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::harness::{BENEFICIARY, Net, account, quantity};

#[test]
fn work_becomes_a_block() {
    let net = Net::start();
    let sent = net.send(json!({"to": account(5)}));
    let work = net.ok("mc_getWork", json!([]));
    let header_hash = work[0].clone();
    // The boundary is 2^256 / 512.
    let boundary = format!("0x0080{}", "00".repeat(30));
    assert_eq!(work, json!([header_hash, data(B256::ZERO), boundary]));
    let nonce = "0x00000000000000ff";
    let unknown = json!([nonce, data(B256::repeat_byte(1)), data(B256::ZERO)]);
    assert_eq!(net.ok("mc_submitWork", unknown), false);
    let solution = json!([nonce, header_hash, data(B256::repeat_byte(2))]);
    assert_eq!(net.ok("mc_submitWork", solution.clone()), true);
    // Each work package makes one block.
    assert_eq!(net.ok("mc_submitWork", solution), false);
    let block = net.ok("mc_getBlockByNumber", json!(["latest", false]));
    assert_eq!(block["number"], "0x1");
    assert_eq!(block["nonce"], nonce);
    assert_eq!(block["mixHash"], json!(data(B256::repeat_byte(2))));
    assert_eq!(block["miner"], data(BENEFICIARY));
    assert_eq!(block["transactions"], json!([sent]));
    let sealed = net.view().head().header.header_hash();
    assert_eq!(header_hash, json!(data(sealed)));
    // The call waits until the clock allows work for the next block.
    let next = net.ok("eth_getWork", json!([]));
    assert_ne!(next[0], header_hash);
    // As with geth, the number of the block is the fourth value.
    assert_eq!(
        (next[3].clone(), next.as_array().map(Vec::len)),
        (json!("0x2"), Some(4))
    );
}

#[test]
fn no_work_is_an_error() {
    let net = Net::start();
    net.chain.stop();
    net.check_error(
        "mc_getWork",
        json!([]),
        -32000,
        "mining not ready: no work after 2 s",
    );
}

#[test]
fn bad_solutions() {
    let net = Net::start();
    let hash = data(B256::ZERO);
    let check = |params: Value, message: &str| net.check_error("mc_submitWork", params, -32602, message);
    check(json!([]), "missing value for required argument 0");
    check(
        json!(["0x0000000000000001", hash]),
        "missing value for required argument 2",
    );
    check(
        json!(["0x01", hash, hash]),
        "invalid argument 0: got 1 byte, expected 8 bytes",
    );
    check(
        json!([1, hash, hash]),
        "invalid argument 0: got a number, expected a hex string",
    );
    check(
        json!(["0x0000000000000001", "0x", hash]),
        "invalid argument 1: got 0 bytes, expected 32 bytes",
    );
    check(
        json!(["0x0000000000000001", hash, "0x123"]),
        "invalid argument 2: odd number of hex digits",
    );
    net.check_error(
        "mc_getWork",
        json!([1]),
        -32602,
        "too many arguments, want at most 0",
    );
}

#[test]
fn hashrates_add_up() {
    let net = Net::start();
    let rate = || net.ok("mc_hashrate", json!([]));
    assert_eq!(rate(), "0x3e8");
    let report = |rate: &str, id: u8| net.ok("mc_submitHashrate", json!([rate, data(B256::repeat_byte(id))]));
    assert_eq!(report("0x10", 1), true);
    assert_eq!(report("0x100", 2), true);
    // A second report of the same miner replaces the first. Miners also write the rate in 32 bytes.
    let padded = format!("0x{:064x}", 0x20);
    assert_eq!(report(&padded, 1), true);
    assert_eq!(rate(), quantity(1000 + 0x20 + 0x100));
    net.check_error(
        "mc_submitHashrate",
        json!(["0x1"]),
        -32602,
        "missing value for required argument 1",
    );
    net.check_error(
        "mc_submitHashrate",
        json!(["0x01", data(B256::ZERO)]),
        -32602,
        "invalid argument 0: leading zero digits",
    );
}

#[test]
fn the_state_of_the_node() {
    let net = Net::start();
    let check = |method: &str, expected: Value| {
        assert_eq!(net.ok(method, json!([])), expected, "{method}");
        net.check_error(method, json!([1]), -32602, "too many arguments, want at most 0");
    };
    check("mc_protocolVersion", json!("0x3f"));
    check("mc_chainId", json!("0x64"));
    check("eth_chainId", json!("0x64"));
    check("mc_syncing", json!(false));
    let config = net.ok("eth_config", json!([]));
    assert_eq!(config["current"]["chainId"], json!("0x64"));
    let contracts = config["current"]["precompiles"].as_object().expect("an object");
    assert!(
        contracts
            .values()
            .any(|address| address == &json!(data(primitives::Address::with_last_byte(0x0d))))
    );
    check("mc_coinbase", json!(data(BENEFICIARY)));
    check("mc_mining", json!(false));
    check("net_version", json!("100"));
    check(
        "chain3_clientVersion",
        json!("Test/v1.2.3/linux-x86_64/rustc1.95"),
    );
    net.chain.work().set_mining(true);
    assert_eq!(net.ok("mc_mining", json!([])), true);
}

#[test]
fn the_price_follows_the_last_blocks() {
    let net = Net::start();
    let price = || net.ok("mc_gasPrice", json!([]));
    assert_eq!(price(), quantity(18_000_000_000_u64));
    for price in ["0x7", "0x9", "0x8"] {
        net.send(json!({"to": account(5), "gasPrice": price}));
    }
    net.mine();
    assert_eq!(price(), "0x8");
    net.send(json!({"to": account(5), "gasPrice": "0xffffffffffff"}));
    net.mine();
    assert_eq!(price(), "0x8");
    for _ in 0..9 {
        net.mine();
    }
    // The last ten blocks now have only the most expensive transaction, and its price is above the
    // highest suggested price.
    assert_eq!(price(), quantity(500_000_000_000_u64));
    net.mine();
    assert_eq!(price(), quantity(18_000_000_000_u64));
}
