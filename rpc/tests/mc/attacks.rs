//! Requests that are made to end a node: by nesting, by types that expand, by calls within calls.
//!
//! The threads of the node under test have little stack. An overflow would end the test's process.

use rpc::{Limits, Modules, methods};
use serde_json::{Value, json};

use crate::mc::harness::{Net, account, quantity};

const NOBODY: &str = "0x00000000000000000000000000000000000000ab";

/// Typed data with these types, by name, and an empty message of the type `T0`.
fn typed_data(types: impl IntoIterator<Item = (String, Value)>) -> Value {
    let types: serde_json::Map<_, _> = types.into_iter().collect();
    json!({"types": types, "primaryType": "T0", "domain": {}, "message": {}})
}

/// A struct type `T<index>` with `count` members of the type `kind`.
fn struct_type(index: usize, count: usize, kind: &str) -> (String, Value) {
    let members = (0..count).map(|member| json!({"name": format!("m{member}"), "type": kind}));
    (format!("T{index}"), members.collect())
}

/// Types that refer to the next one `count` times each, and the last one to `bool`.
fn graph(types: usize, count: usize) -> Value {
    typed_data((0..types).map(|index| match index + 1 {
        next if next == types => struct_type(index, count, "bool"),
        next => struct_type(index, count, &format!("T{next}")),
    }))
}

#[test]
fn typed_data_do_not_end_the_node() {
    assert!(
        Modules::default().contains("mc"),
        "strangers may call these methods"
    );
    let net = Net::start();
    let levels = format!("bool{}", "[]".repeat(32_700));
    let long = "a".repeat(1 << 20);
    let with = |name: &str, value: Value| {
        let mut data = typed_data([]);
        data[name] = value;
        data
    };
    let attacks = [
        (
            "types within types",
            graph(1376, 1),
            "got 1376 types, expected at most 128",
        ),
        (
            "arrays of arrays",
            typed_data([struct_type(0, 1, &levels)]),
            "got 9 array suffixes, expected at most 8",
        ),
        ("a graph", graph(20, 3), "type T0: missing member m0"),
        ("a larger graph", graph(40, 4), "type T0: missing member m0"),
        (
            "a member's name that is a type's text",
            typed_data([("T0".to_owned(), json!([{"name": "a,bool b", "type": "bool"}]))]),
            "a member's name: got",
        ),
        (
            "a long primary type",
            with("primaryType", json!(long)),
            "primaryType: got 1048576 bytes, expected at most 256",
        ),
        (
            "a long domain",
            with("domain", json!({"chainId": long})),
            "domain: JSON text: got 1048590 bytes, expected at most 65536",
        ),
    ];
    let (locked_code, locked) = net.error("mc_sign", &json!([account(2), "0x"]).to_string());
    for (name, attack, reason) in attacks {
        for attack in [attack.clone(), json!(attack.to_string())] {
            for method in ["eth_signTypedData_v4", "mc_signTypedData"] {
                let (code, message) = net.error(method, &json!([account(0), attack]).to_string());
                assert_eq!(code, -32602, "{name}: {message}");
                assert!(message.contains(reason), "{name}: {message}");
                assert!(message.len() < 1024, "{name}: {}", message.len());
                // Nothing is read for an account that cannot sign.
                let params = json!([account(2), attack]);
                net.check_error(method, params, locked_code, &locked);
            }
        }
    }
    assert_eq!(net.ok("mc_blockNumber", json!([])), "0x0");
}

#[test]
fn nested_parameters_do_not_end_the_node() {
    // The methods that change the listeners of other tests' nodes have none here.
    let net = Net::start();
    let depth = Limits::default().depth_max - 2;
    let lists = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |name: &str| {
        format!(
            "{}1{}",
            format!(r#"{{"{name}":"#).repeat(depth),
            "}".repeat(depth)
        )
    };
    let names = [
        "topics",
        "address",
        "tracerConfig",
        "stateDiff",
        "blockHash",
        "accessList",
        "storageKeys",
        "types",
        "message",
        "fromBlock",
    ];
    let shapes: Vec<_> = std::iter::once(lists).chain(names.map(objects)).collect();
    // The text of typed data is a string, so the nesting within it is not the request's.
    let in_text = json!(format!(
        "{}{}",
        r#"{"types":{"a":"#.repeat(50_000),
        "}}".repeat(50_000)
    ))
    .to_string();
    for method in methods::all() {
        for shape in shapes.iter().chain([&in_text]) {
            let params = format!("[{shape},{shape},{shape}]");
            let answer = net.raw(method.name(), &params);
            assert!(answer.contains(r#""id":1"#), "{}: {answer}", method.name());
        }
    }
    for body in ["[".repeat(4 << 20), r#"{"a":"#.repeat(500_000)] {
        assert!(net.post(&body).contains("nested deeper than 64 levels"));
    }
    assert_eq!(net.ok("mc_chainId", json!([])), "0x64");
}

/// A contract that calls itself as deep as it can: CALL of ADDRESS with all gas.
const CALLS_ITSELF: &str = "0x60006000600060006000305af1";
/// The deepest call of a transaction.
const CALL_DEPTH_MAX: usize = 1024;

#[test]
fn deep_calls_do_not_end_the_node() {
    // So much gas that a 64th of it, kept by each call, leaves enough for the deepest one.
    let gas = 1_u64 << 60;
    let net = Net::with(|settings| settings.call_gas_max = gas);

    let call = json!({"to": NOBODY, "gas": quantity(gas)});
    let state = json!({NOBODY: {"code": CALLS_ITSELF}});
    let traced = |options: Value| {
        let options = options.as_object().expect("an object").clone();
        let mut all = json!({"stateOverrides": state});
        all.as_object_mut().expect("an object").extend(options);
        net.raw("debug_traceCall", &json!([call, "latest", all]).to_string())
    };
    for config in [json!({}), json!({"withLog": true})] {
        let answer = traced(json!({"tracer": "callTracer", "tracerConfig": config}));
        // The transaction's own call, the calls below it, and one that is refused as too deep.
        assert_eq!(answer.matches(r#""type":"CALL""#).count(), CALL_DEPTH_MAX + 2);
        assert!(
            answer.ends_with(&format!("{}}}", "]}".repeat(CALL_DEPTH_MAX + 1))),
            "each call ends"
        );
    }
    for tracer in ["prestateTracer", "4byteTracer", "noopTracer"] {
        assert!(traced(json!({"tracer": tracer})).contains("result"), "{tracer}");
    }
    assert_eq!(net.ok("eth_call", json!([call, "latest", state])), "0x");
    for method in ["eth_estimateGas", "eth_createAccessList"] {
        let answer = net.raw(method, &json!([call, "latest", state]).to_string());
        assert!(answer.contains(r#""id":1"#), "{answer}");
    }
}
