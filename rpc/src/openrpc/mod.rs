//! The description of all methods in the form of OpenRPC. It is the answer of `rpc.discover` and
//! the content of `rpc/openrpc.json`.
//!
//! The description is made from the rows. The parameters and the result of a method come from its
//! [`MethodSignature`], which names types. The schemas of these types are in `types.rs` and
//! `objects.rs`. The examples are in `rpc/examples.json`. A test runs each of them against a node.

mod objects;
mod types;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::table::{MethodInfo, MethodSignature};

/// The version of OpenRPC.
const OPENRPC_VERSION: &str = "1.3.2";

/// The parameters and the result of an example, by the name of the method.
static EXAMPLES: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../examples.json")).unwrap_or_default());

/// Describes `methods`. A method without a summary is left out.
pub fn document<'a>(methods: impl IntoIterator<Item = &'a MethodInfo>) -> Value {
    let methods = methods.into_iter();
    let described = methods
        .filter(|method| !method.summary().is_empty())
        .map(describe);
    json!({
        "openrpc": OPENRPC_VERSION,
        "info": {
            "title": "JSON-RPC of the base-chain node",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Parameters have positions. Optional parameters at the end may be left out or be null. \
                An HTTP or WebSocket listener serves the modules that `rpc_modules` lists. The local socket \
                serves all modules.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "servers": [{"name": "default", "url": "http://localhost:8545"}],
        "methods": described.collect::<Vec<_>>(),
        "components": {"schemas": schemas()},
    })
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
fn schemas() -> Map<String, Value> {
    types::plain().chain(objects::schemas()).collect()
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
