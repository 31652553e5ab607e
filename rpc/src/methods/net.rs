//! The `net` module (docs/interface.md, 4.3): network id, listening, peers.

use crate::error::RpcResult;
use crate::facts::NodeFacts;
use crate::table::Method;
use crate::types::Quantity;

/// The rows of this module.
pub fn methods<C: NodeFacts + 'static>() -> Vec<Method<C>> {
    vec![
        Method::inline("net_version", [], network_id)
            .summary("Returns the network id: 99 main, 101 test, 100 local development."),
        Method::inline("net_listening", [], is_listening)
            .summary("Returns whether the node listens for network connections."),
        Method::inline("net_peerCount", [], peer_count).summary("Returns the number of connected peers."),
    ]
}

/// `net_listening` of an application-chain node, which has no peers of its own.
pub(crate) fn listening<C: 'static>() -> Method<C> {
    Method::inline("net_listening", [], |_: &C| Ok(true))
        .summary("Returns true: a server that answers this does listen.")
}

/// `net_version`: decimal digits.
fn network_id<C: NodeFacts>(facts: &C) -> RpcResult<String> {
    Ok(facts.network_id().to_string())
}

/// `net_listening`.
fn is_listening<C: NodeFacts>(facts: &C) -> RpcResult<bool> {
    Ok(facts.is_listening())
}

/// `net_peerCount`.
fn peer_count<C: NodeFacts>(facts: &C) -> RpcResult<Quantity> {
    Ok(Quantity(facts.peer_count()))
}
