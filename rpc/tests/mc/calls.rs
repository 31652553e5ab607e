//! Calls and estimates, on a small contract assembled by hand.

use chain::call::{CallRequest, StateAt, TIMEOUT_DEFAULT};
use serde_json::{Value, json};

use crate::mc::harness::{Net, account, quantity};

/// The contract's code. Without data it returns slot 0. With one word of data it stores the word in
/// slot 0 and logs it, with 0x11 and the word as topics. If the word is 0xdead it reverts and
/// returns the word.
pub(crate) const RUNTIME: &str = concat!(
    "0x36600f57",               // CALLDATASIZE; jumps to `write` if there is data
    "60005460005260206000f3",   // SLOAD 0, MSTORE 0, RETURN 0..32
    "5b6000358061dead14602c57", // write: CALLDATALOAD 0; jumps to `refuse` if it is 0xdead
    "80600055",                 // SSTORE 0
    "80600052",                 // MSTORE 0
    "8060116020",               // topics word and 0x11, length 32
    "6000a200",                 // LOG2 from 0, STOP
    "5b60005260206000fd",       // refuse: MSTORE 0, REVERT 0..32
);

/// The data that creates the contract: CODECOPY of the code that follows, RETURN.
pub(crate) fn creation() -> String {
    format!("0x6035600c60003960356000f3{}", &RUNTIME[2..])
}

/// `value` as 32 bytes of DATA.
pub(crate) fn word(value: u64) -> String {
    format!("0x{value:064x}")
}

/// Deploys the contract in a block of its own. Returns its address and the receipt.
#[track_caller]
pub(crate) fn deploy(net: &Net) -> (String, Value) {
    let hash = net.send(json!({"data": creation()}));
    net.mine();
    let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
    let contract = receipt["contractAddress"].as_str().expect("an address");
    (contract.to_owned(), receipt)
}

/// Deploys a contract with code `runtime`.
pub(crate) fn deploy_code(net: &Net, runtime: &str) -> primitives::Address {
    let len = runtime.len() / 2;
    let hash = net.send(json!({"data": format!("0x60{len:02x}600c60003960{len:02x}6000f3{runtime}")}));
    net.mine();
    let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
    assert_eq!(receipt["status"], "0x1", "{runtime}");
    let address = receipt["contractAddress"].as_str().expect("an address");
    address.parse().expect("an address")
}

#[test]
fn quick_calls_agree_with_full_calls_or_are_refused() {
    let net = Net::start();
    let check = |runtime: &str, is_quick: bool| {
        let request = CallRequest {
            to: Some(deploy_code(&net, runtime)),
            ..CallRequest::default()
        };
        let view = net.view();
        let at = StateAt::Block(view.head_number());
        let quick = view.quick_call(at, &request).expect("a call");
        assert_eq!(quick.is_some(), is_quick, "{runtime}");
        if let Some(quick) = quick {
            assert_eq!(
                quick,
                view.call(at, &request, TIMEOUT_DEFAULT).expect("a call"),
                "{runtime}"
            );
        }
    };
    // The remaining gas, the return value, failures.
    check("5a60005260206000f3", true);
    check(&RUNTIME[2..], true);
    check("60016000fd", true);
    // A full call says which opcode it is.
    check("fe", false);
    // KECCAK256 of 256 bytes, and of 8 KiB.
    check("6101006000205000", true);
    check("6120006000205000", false);
    // A loop; a built-in contract; a new contract; much memory.
    check("5b600056", false);
    check("600060006000600060006002620186a0f100", false);
    check("600060006000f000", false);
    check("620fffff5100", false);
}

#[test]
fn huge_prices_and_values_are_refused() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    let most = quantity(primitives::U256::MAX);
    let high = json!({"to": contract, "gasPrice": "0x585a3849b1ed328167c0000000"});
    let check = |method: &str, request: &Value| {
        let (code, message) = net.error(method, &json!([request]).to_string());
        assert_eq!(code, -32000, "{method} {request}: {message}");
        assert!(message.contains("does not fit in 256 bits"), "{message}");
    };
    for request in [
        json!({"to": contract, "gasPrice": most}),
        json!({"to": contract, "gasPrice": "0x1", "gas": "0x5208", "value": most}),
    ] {
        check("mc_call", &request);
        check("mc_estimateGas", &request);
    }
    check("mc_call", &high);
    // The gas of one block at that price does fit.
    net.ok("mc_estimateGas", json!([high]));
    let (code, message) = net.error("mc_call", &json!([{"to": contract, "gas": "0x1"}]).to_string());
    assert_eq!(
        (code, message.as_str()),
        (-32000, "intrinsic gasRemaining too low: got 1, expected 1000")
    );
}

#[test]
fn calls_may_have_members_of_other_chains() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    let fees = json!({"to": contract, "chainId": "0x64", "type": "0x2", "maxFeePerGas": "0x77359400",
        "maxPriorityFeePerGas": "0x1", "accessList": [{"address": contract, "storageKeys": []}]});
    let plain = json!({"to": contract});
    for method in ["mc_call", "eth_call", "eth_estimateGas"] {
        assert_eq!(
            net.ok(method, json!([fees])),
            net.ok(method, json!([plain])),
            "{method}"
        );
        net.check_error(
            method,
            json!([{"to": contract, "chainId": "0x1"}]),
            -32000,
            "chainId does not match node's: got 1, expected 100",
        );
        net.check_error(
            method,
            json!([{"to": contract, "authorizationList": []}]),
            -32602,
            "invalid argument 0: field authorizationList: got one, expected none: \
            this chain has no transactions of type 4 (EIP-7702)",
        );
        net.check_error(
            method,
            json!([{"to": contract, "gasPrice": "0x1", "maxFeePerGas": "0x1"}]),
            -32602,
            "invalid argument 0: fields gasPrice and maxFeePerGas exclude each other, expected one of them",
        );
    }
}

#[test]
fn calls_that_are_not_quick_are_answered_too() {
    let net = Net::start();
    // Counts to 10,000.
    let contract = deploy_code(
        &net,
        "6000 5b 6001 01 80 612710 11 6002 57 60005260206000f3"
            .replace(' ', "")
            .as_str(),
    );
    let answer = net.ok("mc_call", json!([{"to": contract.to_string()}]));
    assert_eq!(answer, word(10_000));
    let sha256 = json!([{"to": format!("0x{:040x}", 2), "data": "0x"}]);
    let expected = "0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(net.ok("mc_call", sha256), expected);
}

#[test]
fn calls_change_no_state() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    let read = json!([{"to": contract}]);
    assert_eq!(net.ok("mc_call", read.clone()), word(0));
    net.send(json!({"to": contract, "input": word(5)}));
    assert_eq!(net.ok("mc_call", json!([{"to": contract}, "pending"])), word(5));
    net.mine();
    assert_eq!(net.ok("mc_call", read.clone()), word(5));
    assert_eq!(net.ok("mc_call", json!([{"to": contract}, "0x1"])), word(0));
    assert_eq!(net.ok("eth_call", json!([{"to": contract}, "latest"])), word(5));
    // A call that writes returns nothing and changes nothing.
    let write = json!([{"to": contract, "data": word(6), "from": account(3), "gas": "0x30d40"}]);
    assert_eq!(net.ok("mc_call", write), "0x");
    assert_eq!(net.ok("mc_call", read), word(5));
    // The caller needs no funds for the value and the price.
    let rich = json!([{"from": contract, "to": account(1), "value": quantity(primitives::U256::MAX >> 1),
        "gasPrice": "0x1"}]);
    assert_eq!(net.ok("mc_call", rich), "0x");
    // More gas than the maximum is reduced to it, not refused.
    let greedy = json!([{"to": contract, "gas": "0xffffffffffffffff"}]);
    assert_eq!(net.ok("mc_call", greedy), word(5));
}

#[test]
fn reverts_are_errors_with_data() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    let object = json!({"to": contract, "data": word(0xdead)});
    for method in ["mc_call", "mc_estimateGas"] {
        let body = net.raw(method, &json!([object]).to_string());
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        let expected = json!({
            "code": -32000,
            "message": "evm: execution reverted",
            "data": word(0xdead),
        });
        assert_eq!(answer["error"], expected, "{method}");
    }
}

#[test]
fn failing_calls() {
    let net = Net::start();
    let (contract, _) = deploy(&net);
    let check = |method: &str, object: Value, message: &str| {
        net.check_error(method, json!([object]), -32000, message);
    };
    let short = json!({"to": contract, "data": word(1), "gas": "0x1388"});
    check("mc_call", short.clone(), "out of gas");
    check(
        "mc_estimateGas",
        short,
        "gas required exceeds allowance (5000) or always failing transaction",
    );
    check(
        "mc_estimateGas",
        json!({"data": "0xfe"}),
        "Invalid opcode: INVALID (0xfe)",
    );
    let push0 = net.error("eth_call", r#"[{"data": "0x5f"}]"#).1;
    assert!(
        push0.starts_with("invalid opcode: PUSH0 (0x5f) is of Ethereum's fork Shanghai"),
        "{push0}"
    );
    check(
        "mc_estimateGas",
        json!({"to": contract, "gas": "0x1"}),
        "gas required exceeds allowance: got 1, expected at least 1000",
    );
}

#[test]
fn estimates_are_exact() {
    let net = Net::start();
    let transfer = json!([{"from": account(0), "to": account(1), "value": "0x1"}]);
    assert_eq!(net.ok("mc_estimateGas", transfer), "0x3e8");
    let (contract, _) = deploy(&net);
    let object = json!({"from": account(0), "to": contract, "data": word(0x77)});
    let estimate = net.ok("mc_estimateGas", json!([object]));
    let gas = estimate
        .as_str()
        .and_then(|text| u64::from_str_radix(&text[2..], 16).ok());
    let gas = gas.expect("a QUANTITY");
    let with_gas = |gas: u64| {
        let mut object = object.clone();
        object["gas"] = json!(quantity(gas));
        let hash = net.send(object);
        net.mine();
        let receipt = net.ok("mc_getTransactionReceipt", json!([hash]));
        receipt["status"].clone()
    };
    assert_eq!(with_gas(gas - 1), "0x0");
    assert_eq!(with_gas(gas), "0x1");
    // A contract creation with no field but the data.
    let creation = net.ok("mc_estimateGas", json!([{"data": creation()}, "latest"]));
    let gas = u64::from_str_radix(&creation.as_str().expect("a QUANTITY")[2..], 16).expect("a number");
    assert!((63_600..80_000).contains(&gas), "{gas}");
    assert_eq!(net.ok("mc_estimateGas", json!([{}])), "0xcf08");
}

#[test]
fn calls_without_a_receiver_run_a_creation() {
    let net = Net::start();
    let word_42 = "0x602a60005260206000f3";
    for (call, expected) in [
        // The code that the new contract would have.
        (json!({"data": creation()}), format!("0x{}", &RUNTIME[2..])),
        (
            json!({"to": null, "input": creation()}),
            format!("0x{}", &RUNTIME[2..]),
        ),
        // A program that only computes something.
        (json!({"data": word_42}), word(42)),
        (
            json!({"data": word_42, "from": account(1), "value": "0x1"}),
            word(42),
        ),
        (json!({"data": word_42, "gas": "0x186a0"}), word(42)),
        // No code.
        (json!({"data": "0x"}), "0x".to_owned()),
        (json!({}), "0x".to_owned()),
    ] {
        for at in ["earliest", "latest", "pending"] {
            for method in ["mc_call", "eth_call"] {
                assert_eq!(
                    net.ok(method, json!([call, at])),
                    expected,
                    "{method} {call} {at}"
                );
            }
        }
    }
    let count = net.ok("mc_getTransactionCount", json!([account(1), "pending"]));
    assert_eq!(count, "0x0", "no nonce was used");

    // 53,000 are for the creation, the rest for the bytes of the input.
    let input_gas = |data: &str| {
        let bytes = data.as_bytes()[2..].chunks(2);
        53_000 + bytes.map(|byte| if byte == b"00" { 4 } else { 68 }).sum::<u64>()
    };
    for data in ["0x", word_42, &creation()] {
        let least = input_gas(data);
        let call = json!([{"data": data, "gas": quantity(least - 1)}]);
        let text = format!(
            "intrinsic gasRemaining too low: got {}, expected {least}",
            least - 1
        );
        net.check_error("mc_call", call.clone(), -32000, &text);
        let text = format!(
            "gas required exceeds allowance: got {}, expected at least {least}",
            least - 1
        );
        net.check_error("eth_estimateGas", call, -32000, &text);
    }
    assert_eq!(
        net.ok("mc_estimateGas", json!([{"data": "0x"}])),
        quantity(53_000)
    );

    // The estimate is what the call and the transaction need.
    let estimate = net.ok(
        "eth_estimateGas",
        json!([{"data": creation(), "from": account(0)}]),
    );
    let gas = estimate
        .as_str()
        .and_then(|text| u64::from_str_radix(&text[2..], 16).ok());
    let gas = gas.expect("a QUANTITY");
    let with_gas = |gas: u64| json!([{"data": creation(), "from": account(0), "gas": quantity(gas)}]);
    assert_eq!(net.ok("mc_call", with_gas(gas)), format!("0x{}", &RUNTIME[2..]));
    net.check_error("mc_call", with_gas(gas - 1), -32000, "out of gas");
    let (_, receipt) = deploy(&net);
    assert_eq!(receipt["gasUsed"], estimate);

    // Failures of the code that runs.
    let body = net.raw(
        "mc_call",
        &json!([{"data": "0x61dead60005260206000fd"}]).to_string(),
    );
    let answer: Value = serde_json::from_str(&body).expect("JSON");
    let expected = json!({"code": -32000, "message": "evm: execution reverted", "data": word(0xdead)});
    assert_eq!(answer["error"], expected);
    net.check_error(
        "mc_call",
        json!([{"data": "0xfe"}]),
        -32000,
        "Invalid opcode: INVALID (0xfe)",
    );
}

#[test]
fn bad_parameters() {
    let net = Net::start();
    let check = |method: &str, params: Value, message: &str| net.check_error(method, params, -32602, message);
    for method in ["mc_call", "mc_estimateGas"] {
        check(method, json!([]), "missing value for required argument 0");
        check(method, json!([null]), "missing value for required argument 0");
        check(
            method,
            json!(["0x"]),
            "invalid argument 0: got a string, expected an object",
        );
        check(
            method,
            json!([{"to": "0x12"}]),
            "invalid argument 0: field to: got 1 byte, expected 20 bytes",
        );
        check(
            method,
            json!([{"to": account(1), "data": "0xabc"}]),
            "invalid argument 0: field data: odd number of hex digits",
        );
        check(
            method,
            json!([{"to": account(1), "value": 1}]),
            "invalid argument 0: field value: got a number, expected a hex string",
        );
        check(
            method,
            json!([{"to": account(1)}, "0x"]),
            "invalid argument 1: expected a block number, a hash of 32 bytes, or one of earliest, latest, pending, safe, finalized: \
            expected at least one hex digit after 0x",
        );
    }
}
