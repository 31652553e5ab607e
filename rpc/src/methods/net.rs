//! The `net` module (interface 4.3): network id, listening, peers.

use super::NodeFacts;
use crate::table::{Method, reply};
use crate::types::Quantity;

/// The rows of this module.
pub fn methods<C: NodeFacts>() -> Vec<Method<C>> {
    vec![
        Method::inline("net_version", |node, params| {
            reply(params.parse().map(|()| node.network_id().to_string()))
        }),
        Method::inline("net_listening", |node, params| {
            reply(params.parse().map(|()| node.is_listening()))
        }),
        Method::inline("net_peerCount", |node, params| {
            reply(params.parse().map(|()| Quantity(node.peer_count())))
        }),
    ]
}
