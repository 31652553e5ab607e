//! The `ots` module: what the explorer Otterscan asks, at level 8 of its interface.
//!
//! Hashes and objects have the forms that Ethereum's clients expect. What a transaction did is
//! found by running it again, so an archive node answers for every block, and a node with recent
//! states for those.

mod blocks;
mod search;
mod traces;

use primitives::Address;

use super::mc::at_state;
use crate::error::RpcResult;
use crate::node::Node;
use crate::table::Method;
use crate::types::{BlockRef, Integer};

/// The level of the interface.
const API_LEVEL: u64 = 8;

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    let mut rows = vec![
        Method::inline("ots_getApiLevel", [], api_level)
            .summary("Returns the level of Otterscan's interface that this node has."),
        Method::reading("ots_hasCode", ["address", "block"], has_code)
            .summary("Returns whether there is a contract at an address."),
    ];
    rows.extend(traces::methods());
    rows.extend(blocks::methods());
    rows.extend(search::methods());
    rows
}

/// `ots_getApiLevel`.
const fn api_level(_: &Node) -> RpcResult<Integer> {
    Ok(Integer(API_LEVEL))
}

/// `ots_hasCode`.
fn has_code(node: &Node, (address, at): (Address, BlockRef)) -> RpcResult<bool> {
    let view = node.view()?;
    let code = at_state(node, &view, at, |place| view.code_in(place, &address))?;
    Ok(!code.is_empty())
}
