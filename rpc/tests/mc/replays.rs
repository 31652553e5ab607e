//! Transactions that are run again, and calls, in Parity's form: `trace_replayTransaction` and so
//! on.

use primitives::{TxForm, U256, UnsignedTransaction};
use rpc::types::data;
use serde_json::{Value, json};

use crate::mc::calls::{RUNTIME, deploy, word};
use crate::mc::harness::{BENEFICIARY, Net, account, key, quantity};

/// The parts that most tests ask for.
const BOTH: [&str; 2] = ["trace", "stateDiff"];

/// `list` of `trace_transaction` without the places in the chain.
fn without_places(list: &Value) -> Value {
    let mut list = list.clone();
    for call in list.as_array_mut().expect("calls") {
        let members = call.as_object_mut().expect("an object");
        for place in [
            "blockHash",
            "blockNumber",
            "transactionHash",
            "transactionPosition",
        ] {
            assert!(members.remove(place).is_some(), "{place}");
        }
    }
    list
}

fn balance(net: &Net, address: &str, at: u64) -> Value {
    net.ok("eth_getBalance", json!([address, quantity(at)]))
}

#[test]
fn transactions_are_run_again() {
    let net = Net::start();
    let (contract, receipt) = deploy(&net);
    let created = receipt["transactionHash"].clone();
    let first = net.send(json!({"to": contract, "data": word(5), "gasPrice": "0x1"}));
    let second = net.send(json!({"to": contract, "data": word(0xdead)}));
    net.mine();

    let replay = net.ok("trace_replayTransaction", json!([first, BOTH]));
    let calls = without_places(&net.ok("trace_transaction", json!([first])));
    assert_eq!((&replay["trace"], &replay["output"]), (&calls, &json!("0x")));
    assert_eq!(
        (&replay["vmTrace"], replay.get("transactionHash")),
        (&Value::Null, None)
    );
    let diff = replay["stateDiff"].as_object().expect("accounts");
    let slot = json!({"*": {"from": word(0), "to": word(5)}});
    let of_contract = json!({"balance": "=", "code": "=", "nonce": "=", "storage": {word(0): slot}});
    assert_eq!(diff[&contract], of_contract);
    let nonce = json!({"*": {"from": "0x1", "to": "0x2"}});
    assert_eq!(diff[account(0).as_str()]["nonce"], nonce);
    assert_eq!(
        diff[account(0).as_str()]["balance"]["*"]["from"],
        balance(&net, &account(0), 1)
    );
    assert_eq!(
        diff[&data(BENEFICIARY)]["balance"]["*"]["from"],
        balance(&net, &data(BENEFICIARY), 1)
    );
    assert_eq!(diff.len(), 3);

    // A revert changes nothing of the contract, and its output is the data of the revert.
    let reverted = net.ok("trace_replayTransaction", json!([second, BOTH]));
    assert_eq!(
        (&reverted["output"], &reverted["trace"][0]["error"]),
        (&json!(word(0xdead)), &json!("Reverted"))
    );
    assert_eq!(reverted["stateDiff"].get(&contract), None);

    // A creation: every value of the account is new.
    let creation = net.ok("trace_replayTransaction", json!([created, ["stateDiff"]]));
    assert_eq!(
        (&creation["trace"], &creation["output"]),
        (&json!([]), &json!(RUNTIME))
    );
    let new = json!({"balance": {"+": "0x0"}, "code": {"+": RUNTIME}, "nonce": {"+": "0x1"}, "storage": {}});
    assert_eq!(creation["stateDiff"][&contract], new);

    // All of a block.
    let block = net.ok("trace_replayBlockTransactions", json!(["0x2", BOTH]));
    let with_hash = |mut replay: Value, hash: &str| {
        replay["transactionHash"] = json!(hash);
        replay
    };
    assert_eq!(
        block,
        json!([with_hash(replay, &first), with_hash(reverted, &second)])
    );
    let bare = net.ok("trace_replayBlockTransactions", json!(["0x2", []]));
    assert_eq!(
        (&bare[0]["trace"], &bare[0]["stateDiff"]),
        (&json!([]), &Value::Null)
    );
    assert_eq!(
        net.ok("trace_replayBlockTransactions", json!(["0x0", BOTH])),
        json!([])
    );
}

#[test]
fn destroyed_contracts_are_removed_in_the_changes() {
    let net = Net::start();
    // SSTORE of 1 at 1. The code reads slot 1 and destroys itself for its caller.
    let code = "0x60016001556006601160003960066000f36001545033ff";
    let hash = net.send(json!({"data": code, "gas": "0x186a0"}));
    net.mine();
    let contract = net.ok("mc_getTransactionReceipt", json!([hash]))["contractAddress"].clone();
    assert_eq!(net.ok("mc_getCode", json!([contract])), "0x6001545033ff");
    let hash = net.send(json!({"to": contract, "value": "0x7", "gas": "0x186a0"}));
    net.mine();
    let replay = net.ok("trace_replayTransaction", json!([hash, BOTH]));
    let gone = json!({
        "balance": {"-": "0x0"}, "code": {"-": "0x6001545033ff"}, "nonce": {"-": "0x1"},
        "storage": {word(1): {"-": word(1)}},
    });
    assert_eq!(replay["stateDiff"][contract.as_str().expect("an address")], gone);
    assert_eq!(replay["trace"][1]["type"], "suicide");
}

#[test]
fn one_call_of_a_transaction() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    // CALL of the contract with a word of zero and no value.
    let code = format!("0x60006000602060006000{}{}5af100", "73", &contract[2..]);
    let hash = net.send(json!({"data": code, "gas": "0x186a0"}));
    net.mine();
    let list = net.ok("trace_transaction", json!([hash]));
    assert_eq!(list.as_array().map(Vec::len), Some(2));
    for (place, index) in [(json!([]), 0), (json!([0]), 1), (json!(["0x0"]), 1)] {
        assert_eq!(net.ok("trace_get", json!([hash, place])), list[index], "{place}");
    }
    for (hash, place) in [
        (hash.as_str(), json!([1])),
        (hash.as_str(), json!([0, 0])),
        (&word(3), json!([])),
    ] {
        assert_eq!(net.ok("trace_get", json!([hash, place])), Value::Null);
    }
    net.check_error(
        "trace_get",
        json!([hash, "0x0"]),
        -32602,
        "invalid argument 1: got a string, expected an array",
    );
}

#[test]
fn calls_and_their_changes() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    let write = json!({"from": account(0), "to": contract, "data": word(7)});
    let one = net.ok("trace_call", json!([write, BOTH, "latest"]));
    let slot = json!({"*": {"from": word(0), "to": word(7)}});
    assert_eq!(one["stateDiff"][&contract]["storage"], json!({word(0): slot}));
    assert_eq!(one["trace"][0]["action"]["to"], json!(contract));
    assert_eq!(net.ok("trace_call", json!([write, BOTH])), one);
    // Nothing was kept, except for the next call of the same request.
    let read = json!({"to": contract});
    assert_eq!(net.ok("trace_call", json!([read, []]))["output"], json!(word(0)));
    let many = net.ok(
        "trace_callMany",
        json!([[[write, BOTH], [read, ["trace"]]], "latest"]),
    );
    assert_eq!((&many[0], &many[1]["output"]), (&one, &json!(word(7))));
    assert_eq!(net.ok("trace_callMany", json!([[]])), json!([]));
    assert_eq!(net.ok("trace_call", json!([read, []]))["output"], json!(word(0)));
    // On an earlier state there is no contract.
    assert_eq!(net.ok("trace_call", json!([read, [], "0x0"]))["output"], "0x");
    net.check_error(
        "trace_callMany",
        json!([[[write, BOTH], [read]]]),
        -32602,
        "invalid argument 0: element 1: got 1 element, expected 2",
    );
    net.check_error(
        "trace_call",
        json!([read, [], "0x9"]),
        -32000,
        "block 9 is above the head block 1",
    );
}

#[test]
fn signed_transactions_as_calls() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    let unsigned = UnsignedTransaction {
        tx_nonce: 99,
        gas_price: U256::from(3),
        gas: 100_000,
        to: Some(contract.parse().expect("an address")),
        input: U256::from(8).to_be_bytes_vec().into(),
        ..Default::default()
    };
    let raw = |chain_id| data(unsigned.sign(&key(4), chain_id, TxForm::Native).encode_raw());
    let traced = net.ok("trace_rawTransaction", json!([raw(100), BOTH]));
    assert_eq!(traced["trace"][0]["action"]["from"], json!(account(4)));
    let slot = json!({"*": {"from": word(0), "to": word(8)}});
    assert_eq!(traced["stateDiff"][&contract]["storage"], json!({word(0): slot}));
    assert_eq!(
        net.ok("txpool_status", json!([]))["queued"],
        "0x0",
        "it was not sent"
    );
    let (code, message) = net.error("trace_rawTransaction", &json!([raw(5), BOTH]).to_string());
    assert!(code == -32000 && message.contains("chain id"), "{code} {message}");
    let (code, _) = net.error("trace_rawTransaction", &json!(["0x01", BOTH]).to_string());
    assert_eq!(code, -32000);
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let net = Net::start();
    net.mine();
    let steps = "vmTrace is not supported, expected trace or stateDiff; debug_traceTransaction and \
                 debug_traceCall show steps";
    for (method, first, index) in [
        ("trace_replayBlockTransactions", json!("0x1"), 1),
        ("trace_replayTransaction", json!(word(1)), 1),
        ("trace_call", json!({}), 1),
        ("trace_rawTransaction", json!("0x"), 1),
    ] {
        let message = format!("invalid argument {index}: {steps}");
        net.check_error(method, json!([first, ["trace", "vmTrace"]]), -32602, &message);
    }
    net.check_error(
        "trace_replayTransaction",
        json!([word(1), BOTH]),
        -32000,
        &format!("transaction {} not found", word(1)),
    );
    net.check_error(
        "trace_replayBlockTransactions",
        json!(["0x9", BOTH]),
        -32000,
        "block #9 not found",
    );
    net.check_error(
        "trace_replayBlockTransactions",
        json!(["pending", BOTH]),
        -32000,
        "the pending block has no trace",
    );
    net.check_error(
        "trace_replayBlockTransactions",
        json!(["0x1"]),
        -32602,
        "missing value for required argument 1",
    );
}
