//! Filters (interface 2.6, 3.1, 4.6).
//!
//! What filters are and how long they live is in [`crate::filters`].

use std::time::Instant;

use primitives::U256;

use crate::error::{RpcError, RpcResult};
use crate::filters::LogFilter;
use crate::node::Node;
use crate::params::Params;
use crate::table::{Json, Method, reply};
use crate::types::{Quantity, quantity};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::reading("mc_newFilter", |node, params| {
            let (filter,): (LogFilter,) = params.parse()?;
            id(node.filters.add_logs(filter, Instant::now()))
        }),
        Method::reading("mc_newBlockFilter", |node, params| {
            params.parse::<()>()?;
            id(node.filters.add_blocks(Instant::now()))
        }),
        // The first one makes the pool be looked at.
        Method::blocking("mc_newPendingTransactionFilter", |node, params| {
            params.parse::<()>()?;
            id(node.filters.add_pending(Instant::now()))
        }),
        Method::inline("mc_uninstallFilter", |node, params| {
            reply(params.parse().map(|given| uninstall(node, given)))
        }),
        Method::blocking("mc_getFilterChanges", |node, params| {
            let dialect = params.dialect();
            node.filters.changes(filter_id(params)?, dialect, Instant::now())
        }),
        Method::heavy("mc_getFilterLogs", |node, params| {
            let dialect = params.dialect();
            node.filters.all_logs(filter_id(params)?, dialect, Instant::now())
        }),
    ]
}

fn id(id: RpcResult<u128>) -> RpcResult {
    Json::write(&quantity(id?))
}

/// `mc_uninstallFilter`: whether the filter was there.
fn uninstall(node: &Node, (Quantity(id),): (Quantity<U256>,)) -> bool {
    u128::try_from(id).is_ok_and(|id| node.filters.remove(id, Instant::now()))
}

/// The id of a filter; a QUANTITY that is no id of ours is one of an unknown filter.
fn filter_id(params: Params<'_>) -> RpcResult<u128> {
    let (Quantity(id),): (Quantity<U256>,) = params.parse()?;
    u128::try_from(id).map_err(|_| RpcError::refused("filter not found"))
}
