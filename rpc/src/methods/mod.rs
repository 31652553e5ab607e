//! The methods, one file or folder for each module, each with its rows.

pub mod admin;
pub mod chain3;
pub mod debug;
pub mod developer;
pub(crate) mod erigon;
pub mod mc;
pub mod miner;
pub mod net;
pub mod ots;
pub mod personal;
pub mod scs;
mod tokens;
pub mod trace;
pub mod txpool;
pub mod vnode;

use crate::node::Node;
use crate::table::Method;

/// Every row of a base-chain node. Those of an application-chain node are in [`scs`].
pub fn all() -> Vec<Method<Node>> {
    let mut rows = chain3::methods();
    rows.extend(net::methods());
    rows.extend(mc::methods());
    rows.extend(admin::methods());
    rows.extend(txpool::methods());
    rows.extend(personal::methods());
    rows.extend(vnode::methods());
    rows.extend(tokens::methods());
    rows.extend(miner::methods());
    rows.extend(debug::methods());
    rows.extend(trace::methods());
    rows.extend(ots::methods());
    rows.extend(erigon::methods());
    rows.extend(developer::methods());
    rows
}

/// Methods of a base-chain node that make no sense on an application chain: work for miners, and
/// setting back a chain whose blocks others have.
const OF_BASE_CHAINS: [&str; 4] = [
    "mc_getWork",
    "mc_submitWork",
    "mc_submitHashrate",
    "debug_setHead",
];

/// The rows that an application-chain node serves for each MicroChain (`wallet_chains.rs`).
pub(crate) fn application_chain() -> Vec<Method<Node>> {
    let mut rows = chain3::methods();
    rows.extend(net::methods());
    rows.extend(mc::methods());
    rows.extend(txpool::methods());
    rows.extend(debug::methods());
    rows.extend(trace::methods());
    rows.extend(ots::methods());
    rows.extend(erigon::methods());
    rows.retain(|row| !OF_BASE_CHAINS.contains(&row.name()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openrpc::{self, references};

    #[test]
    fn every_named_type_is_there_and_every_type_is_named() {
        let mut rows = all();
        rows.extend([Method::modules(), Method::discover()]);
        let vnode = openrpc::document(rows.iter().map(Method::info));
        let scs = openrpc::document(super::scs::methods().iter().map(Method::info));
        let mut named = Vec::new();
        for document in [&vnode, &scs] {
            let mut named_here = Vec::new();
            references(document, &mut named_here);
            let schemas = document["components"]["schemas"].as_object().expect("types");
            for name in &named_here {
                assert!(
                    schemas.contains_key(name),
                    "no schema for {name}: add it to rpc/src/openrpc"
                );
            }
            named.extend(named_here);
        }
        for name in openrpc::schemas().keys() {
            assert!(named.contains(name), "no method uses the type {name}");
        }
    }
}
