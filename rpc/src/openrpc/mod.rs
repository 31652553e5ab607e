//! The description of all methods in the form of OpenRPC: what `rpc.discover` answers, and what
//! lies in `rpc/openrpc.json`.
//!
//! Made from the rows: each has its parameters and result as a [`Signature`], whose types are
//! those of the interface's section 2 (`types.rs`, `objects.rs`). The examples lie in
//! `rpc/examples.json`; a test runs each of them against a node.

mod objects;
mod signature;
mod types;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::table::Method;

pub use signature::{Param, Signature};

/// The form that the description has.
const OPENRPC_VERSION: &str = "1.3.2";

/// Parameters and results of the examples, by method.
static EXAMPLES: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../examples.json")).unwrap_or_default());

/// Describes `methods`. A row without a signature is left out.
pub fn document<C>(methods: &[Method<C>]) -> Value {
    let described = methods.iter().filter_map(|method| {
        let signature = Signature::parse(method.signature())?;
        Some(describe(method, &signature))
    });
    json!({
        "openrpc": OPENRPC_VERSION,
        "info": {
            "title": "JSON-RPC of the base-chain node",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Parameters are positional; trailing optional ones may be left out or null. \
                A listener has the modules that it was given (`rpc_modules`); the local channel has all.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "servers": [{"name": "default", "url": "http://localhost:8545"}],
        "methods": described.collect::<Vec<_>>(),
        "components": {"schemas": schemas()},
    })
}

fn describe<C>(method: &Method<C>, signature: &Signature<'_>) -> Value {
    let params: Vec<_> = signature
        .params
        .iter()
        .map(|param| {
            json!({
                "name": param.name,
                "required": param.is_required,
                "schema": types::schema(param.kind),
            })
        })
        .collect();
    let mut described = json!({
        "name": method.name(),
        "summary": method.summary(),
        "tags": [{"name": method.module()}],
        "paramStructure": "by-position",
        "params": params,
        "result": {"name": "result", "schema": types::schema(signature.result)},
    });
    if let Some(alias) = method.alias() {
        described["x-alias"] = alias.into();
    }
    if let Some(example) = EXAMPLES.get(method.name()) {
        described["examples"] = json!([example_pairing(signature, example)]);
    }
    described
}

fn example_pairing(signature: &Signature<'_>, example: &Value) -> Value {
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

/// Every named type.
fn schemas() -> Map<String, Value> {
    types::plain().chain(objects::schemas()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that a schema refers to.
    fn references(value: &Value, found: &mut Vec<String>) {
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

    #[test]
    fn every_named_type_is_there_and_every_type_is_named() {
        let mut rows = crate::methods::all();
        rows.extend([Method::modules(), Method::discover()]);
        let document = document(&rows);
        let mut named = Vec::new();
        references(&document, &mut named);
        let schemas = document["components"]["schemas"].as_object().expect("types");
        for name in &named {
            assert!(schemas.contains_key(name), "no type {name}");
        }
        for name in schemas.keys() {
            assert!(named.contains(name), "nobody speaks of {name}");
        }
    }

    #[test]
    fn the_examples_are_json() {
        let examples = include_str!("../../examples.json");
        assert!(serde_json::from_str::<Map<String, Value>>(examples).is_ok());
    }
}
