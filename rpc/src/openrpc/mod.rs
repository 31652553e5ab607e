//! The description of all methods in the form of OpenRPC. It is the answer of `rpc.discover` and
//! the content of `rpc/openrpc.json`, and of `rpc/openrpc-scs.json` for an application-chain node.
//!
//! The description is made from the rows. The parameters and the result of a method come from its
//! `MethodSignature`, which names types. The schemas of these types are in `types.rs` and
//! `objects.rs`. The examples are in `rpc/examples.json` and `rpc/examples-scs.json`. Tests run
//! each of them against a node.

mod objects;
mod types;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::control::{PORT, PORT_SCS};
use crate::table::{MethodInfo, MethodSignature};

/// The version of OpenRPC.
const OPENRPC_VERSION: &str = "1.3.2";

/// The parameters and the result of an example, by the name of the method.
static EXAMPLES: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let read = |text| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
    let mut all = read(include_str!("../../examples.json"));
    all.extend(read(include_str!("../../examples-scs.json")));
    all
});

/// The module that only application-chain nodes serve.
const SCS_MODULE: &str = "scs";

/// The example of a method: an object with its `params` and its `result`.
pub fn example(method: &str) -> Option<&'static Value> {
    EXAMPLES.get(method)
}

/// Describes `methods`. A method without a summary is left out, and so is a type that no method
/// uses.
pub fn document<'a>(methods: impl IntoIterator<Item = &'a MethodInfo>) -> Value {
    let all: Vec<_> = methods.into_iter().collect();
    let is_scs = all.iter().any(|method| method.module() == SCS_MODULE);
    let (title, port) = if is_scs {
        ("JSON-RPC of the application-chain node", PORT_SCS)
    } else {
        ("JSON-RPC of the base-chain node", PORT)
    };
    let described = all.into_iter().filter(|method| !method.summary().is_empty());
    let described: Vec<_> = described.map(describe).collect();
    let schemas = used_schemas(&described, is_scs);
    json!({
        "openrpc": OPENRPC_VERSION,
        "info": {
            "title": title,
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Parameters have positions. Optional parameters at the end may be left out or be null. \
                An HTTP or WebSocket listener serves the modules that `rpc_modules` lists. The local socket \
                serves all modules.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "servers": [{"name": "default", "url": format!("http://localhost:{port}")}],
        "methods": described,
        "components": {"schemas": schemas},
    })
}

/// Types of application-chain nodes, beside those whose names begin with `MicroChain`.
const SCS_TYPES: [&str; 5] = [
    "AccountExchange",
    "DirectCall",
    "ExchangeRecord",
    "ExchangeRecords",
    "WaitingExchange",
];

/// The schemas that the methods refer to, and those that these refer to. A base-chain node
/// describes all types but those of application-chain nodes.
fn used_schemas(methods: &[Value], is_scs: bool) -> Map<String, Value> {
    let all = schemas();
    let mut used = BTreeSet::new();
    let mut open = Vec::new();
    for method in methods {
        references(method, &mut open);
    }
    while let Some(name) = open.pop() {
        if let Some(schema) = all.get(&name)
            && used.insert(name)
        {
            references(schema, &mut open);
        }
    }
    let is_own = |name: &str| is_scs || name.starts_with("MicroChain") || SCS_TYPES.contains(&name);
    all.into_iter()
        .filter(|(name, _)| used.contains(name) || !is_own(name))
        .collect()
}

/// Collects the names of the schemas that `value` refers to.
pub(crate) fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(path) if name == "$ref" => {
                        found.push(path.trim_start_matches("#/components/schemas/").to_owned());
                    }
                    value => references(value, found),
                }
            }
        }
        Value::Array(members) => members.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

fn describe(method: &MethodInfo) -> Value {
    let signature = method.signature();
    let params: Vec<_> = signature
        .params
        .iter()
        .map(|param| {
            json!({
                "name": param.name,
                "required": param.is_required,
                "schema": types::schema(&param.wire_type.to_string()),
            })
        })
        .collect();
    let mut described = json!({
        "name": method.name(),
        "summary": method.summary(),
        "tags": [{"name": method.module()}],
        "paramStructure": "by-position",
        "params": params,
        "result": {"name": "result", "schema": types::schema(&signature.result.to_string())},
    });
    if let Some(alias) = method.alias() {
        described["x-alias"] = alias.into();
    }
    if let Some(example) = EXAMPLES.get(method.name()) {
        described["examples"] = json!([example_pairing(signature, example)]);
    }
    described
}

fn example_pairing(signature: &MethodSignature, example: &Value) -> Value {
    let values = example["params"].as_array().into_iter().flatten();
    let params: Vec<_> = signature
        .params
        .iter()
        .zip(values)
        .map(|(param, value)| json!({"name": param.name, "value": value}))
        .collect();
    json!({
        "name": "example",
        "params": params,
        "result": {"name": "result", "value": example["result"]},
    })
}

/// The schemas of all named types.
pub(crate) fn schemas() -> Map<String, Value> {
    types::plain().into_iter().chain(objects::schemas()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_json() {
        let examples = include_str!("../../examples.json");
        assert!(serde_json::from_str::<Map<String, Value>>(examples).is_ok());
    }
}
