//! The module `miner`: mining on and off, and the settings of new blocks.

use chain::ChainSpec;
use primitives::Address;
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::harness::{Net, account, key};

#[test]
fn mining_starts_and_stops() {
    let net = Net::start();
    assert_eq!(net.ok("miner_start", json!([])), Value::Null);
    assert_eq!(*net.miner.running.lock(), Some(None));
    assert_eq!(net.ok("mc_mining", json!([])), true);
    assert_eq!(net.ok("miner_start", json!([3])), Value::Null);
    assert_eq!(*net.miner.running.lock(), Some(Some(3)));
    assert_eq!(net.ok("miner_start", json!(["0x4"])), Value::Null);
    assert_eq!(*net.miner.running.lock(), Some(Some(4)));
    assert_eq!(net.ok("miner_stop", json!([])), true);
    assert_eq!(*net.miner.running.lock(), None);
    assert_eq!(net.ok("mc_mining", json!([])), false);
    assert_eq!(net.ok("miner_stop", json!([])), true);
    net.check_error(
        "miner_start",
        json!([u64::MAX]),
        -32000,
        "cannot start so many threads",
    );
    assert_eq!(net.ok("mc_mining", json!([])), false);
}

#[test]
fn mining_needs_a_beneficiary() {
    let net = Net::start();
    net.chain
        .change_settings(|settings| settings.beneficiary = Address::ZERO);
    let message = "moacbase missing: expected --moacbase ADDRESS, or miner_setMoacbase";
    for method in ["mc_coinbase", "mc_getWork", "miner_start"] {
        net.check_error(method, json!([]), -32000, message);
    }
    assert_eq!(net.ok("miner_setMoacbase", json!([account(6)])), true);
    assert_eq!(net.ok("mc_coinbase", json!([])), json!(account(6)));
    assert_eq!(net.ok("mc_getWork", json!([])).as_array().map(Vec::len), Some(3));
    net.check_error(
        "miner_setMoacbase",
        json!([data(Address::ZERO)]),
        -32602,
        "invalid argument 0: nobody has the key of the zero address",
    );
}

#[test]
fn extra_data_and_gas_price() {
    let net = Net::start();
    assert_eq!(net.ok("miner_setExtra", json!(["hello"])), true);
    let pending = net.ok("mc_getBlockByNumber", json!(["pending", false]));
    assert_eq!(pending["extraData"], "0x68656c6c6f");
    net.check_error(
        "miner_setExtra",
        json!(["x".repeat(33)]),
        -32000,
        "extra data: got 33 bytes, expected at most 32",
    );
    assert_eq!(net.ok("miner_getHashrate", json!([])), json!(1000));
    assert_eq!(net.ok("miner_getGasPrice", json!([])), json!(0));
    assert_eq!(net.ok("miner_setGasPrice", json!(["0x64"])), true);
    assert_eq!(net.ok("miner_getGasPrice", json!([])), json!(100));
    // The price is for transactions of other nodes.
    let unsigned = primitives::UnsignedTransaction {
        gas: 1000,
        gas_price: primitives::U256::from(99),
        to: Some(key(6).address()),
        ..Default::default()
    };
    let chain_id = ChainSpec::dev().chain_id;
    let transaction = unsigned.sign(&key(7), chain_id, primitives::TxForm::Native);
    let refused = net.chain.submit_transaction(transaction);
    let text = refused.expect_err("too cheap").to_string();
    assert_eq!(text, "transaction underpriced: got 99, expected at least 100");
}
