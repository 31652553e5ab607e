//! The `net` module (interface 4.3): network id, listening, peers.

use crate::facts::NodeFacts;
use crate::table::{Method, reply};
use crate::types::Quantity;

/// The rows of this module.
pub fn methods<C: NodeFacts>() -> Vec<Method<C>> {
    vec![
        Method::inline("net_version", |node: &C, params| {
            reply(params.parse().map(|()| node.network_id().to_string()))
        })
        .says(
            "-> String",
            "The network id: 99 main, 101 test, 100 local development.",
        ),
        Method::inline("net_listening", |node: &C, params| {
            reply(params.parse().map(|()| node.is_listening()))
        })
        .says("-> Boolean", "Whether the node listens for network connections."),
        Method::inline("net_peerCount", |node: &C, params| {
            reply(params.parse().map(|()| Quantity(node.peer_count())))
        })
        .says("-> QUANTITY", "How many peers are connected."),
    ]
}
