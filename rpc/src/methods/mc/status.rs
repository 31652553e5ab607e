//! What the node says of itself and its chain as a whole (interface 4.4).

use primitives::U256;
use serde::Serialize;

use super::price::gas_price;
use crate::error::RpcResult;
use crate::facts::NodeFacts;
use crate::node::Node;
use crate::table::{Method, reply};
use crate::types::Quantity;

/// Version 63 of the protocol between nodes.
const PROTOCOL_VERSION: &str = "0x3f";

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::inline("mc_protocolVersion", |_, params| {
            reply(params.parse().map(|()| PROTOCOL_VERSION))
        })
        .says("-> String", "The version of the protocol between nodes."),
        Method::inline("mc_chainId", |node: &Node, params| {
            reply(params.parse().map(|()| Quantity(node.chain.spec().chain_id)))
        })
        .says("-> QUANTITY", "The chain id that transactions are signed for."),
        Method::reading("mc_syncing", |node, params| {
            reply(params.parse().and_then(|()| syncing(node)))
        })
        .says(
            "-> SyncStatus|Boolean",
            "How far a download of the chain is; false where there is none.",
        ),
        Method::blocking("mc_gasPrice", |node, params| {
            reply(params.parse().and_then(|()| price(node)))
        })
        .says(
            "-> QUANTITY",
            "A price per gas, in sha: the middle of what the last blocks paid.",
        ),
    ]
}

/// The answer of `mc_syncing` (interface 2.7).
#[derive(Serialize)]
#[serde(untagged)]
enum Syncing {
    /// Written as false.
    Done(bool),
    #[serde(rename_all = "camelCase")]
    Under {
        starting_block: Quantity,
        current_block: Quantity,
        highest_block: Quantity,
    },
}

/// `mc_syncing`: false, or how far the download is.
fn syncing(node: &Node) -> RpcResult<Syncing> {
    let Some(status) = node.sync_status() else {
        return Ok(Syncing::Done(false));
    };
    Ok(Syncing::Under {
        starting_block: Quantity(status.starting_block),
        current_block: Quantity(node.view()?.head_number()),
        highest_block: Quantity(status.highest_block),
    })
}

/// `mc_gasPrice`.
fn price(node: &Node) -> RpcResult<Quantity<U256>> {
    gas_price(node).map(Quantity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_states() {
        let check = |state: Syncing, expected: &str| {
            assert_eq!(serde_json::to_string(&state).expect("JSON"), expected);
        };
        check(Syncing::Done(false), "false");
        let under = Syncing::Under {
            starting_block: Quantity(1),
            current_block: Quantity(16),
            highest_block: Quantity(255),
        };
        check(
            under,
            r#"{"startingBlock":"0x1","currentBlock":"0x10","highestBlock":"0xff"}"#,
        );
    }
}
