//! The methods, one file or folder for each module, each with its rows.

pub mod admin;
pub mod chain3;
pub mod debug;
pub mod mc;
pub mod miner;
pub mod net;
pub mod personal;
pub mod txpool;
pub mod vnode;

use crate::node::Node;
use crate::table::Method;

/// Every row of a base-chain node.
pub fn all() -> Vec<Method<Node>> {
    let mut rows = chain3::methods();
    rows.extend(net::methods());
    rows.extend(mc::methods());
    rows.extend(admin::methods());
    rows.extend(txpool::methods());
    rows.extend(personal::methods());
    rows.extend(vnode::methods());
    rows.extend(miner::methods());
    rows.extend(debug::methods());
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::openrpc;

    /// Collects the names of the schemas that `value` refers to.
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
        let mut rows = all();
        rows.extend([Method::modules(), Method::discover()]);
        let document = openrpc::document(rows.iter().map(Method::info));
        let mut named = Vec::new();
        references(&document, &mut named);
        let schemas = document["components"]["schemas"].as_object().expect("types");
        for name in &named {
            assert!(
                schemas.contains_key(name),
                "no schema for {name}: add it to rpc/src/openrpc"
            );
        }
        for name in schemas.keys() {
            assert!(named.contains(name), "no method uses the type {name}");
        }
    }
}
