//! Filters (interface 2.6, 3.1, 4.6).
//!
//! What filters are and how long they live is in [`crate::filters`].

use std::time::Instant;

use chain::pool::PENDING_FEED_MAX;
use primitives::U256;

use super::logs;
use crate::error::{RpcError, RpcResult};
use crate::json::Json;
use crate::logs_filter::{LogCriteria, LogSpan, NumberRange};
use crate::node::Node;
use crate::params::Params;
use crate::table::{Method, reply};
use crate::types::{Quantity, quantity};

const _: () = assert!(
    PENDING_FEED_MAX == 65_536,
    "the number is told by the rows of pending transactions"
);

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::reading("mc_newFilter", |node: &Node, params| {
            let (criteria,): (LogCriteria,) = params.parse()?;
            id(node.filters.add_logs(criteria, Instant::now()))
        })
        .says(
            "filter: LogFilter -> QUANTITY",
            "A new filter of the logs to come: its id.",
        ),
        Method::reading("mc_newBlockFilter", |node: &Node, params| {
            params.parse::<()>()?;
            id(node.filters.add_blocks(Instant::now()))
        })
        .says("-> QUANTITY", "A new filter of the blocks to come: its id."),
        Method::reading("mc_newPendingTransactionFilter", |node: &Node, params| {
            params.parse::<()>()?;
            id(node.filters.add_pending(Instant::now()))
        })
        .says(
            "-> QUANTITY",
            "A new filter of the transactions that will wait: its id. Of those between two polls \
             the last 65,536 are told.",
        ),
        Method::inline("mc_uninstallFilter", |node: &Node, params| {
            reply(params.parse().map(|given| uninstall(node, given)))
        })
        .says(
            "id: QUANTITY -> Boolean",
            "Removes a filter; false where there is none.",
        ),
        Method::blocking("mc_getFilterChanges", |node: &Node, params| {
            let dialect = params.dialect();
            node.filters.changes(filter_id(params)?, dialect, Instant::now())
        })
        .says(
            "id: QUANTITY -> Log[]|DATA32[]",
            "What has happened since the last call: logs, or hashes of blocks or transactions.",
        ),
        Method::brief("mc_getFilterLogs", |node: &Node, params, reach| {
            let dialect = params.dialect();
            let filter = node.filters.log_filter(filter_id(params)?, Instant::now())?;
            // A filter that is still to begin has no logs yet.
            if let LogSpan::Range { from, to } = filter.span
                && NumberRange::resolve(from, to, node.view()?.head_number()).is_err()
            {
                return Ok(Json::from_text(b"[]".to_vec()));
            }
            logs::find(node, &filter, dialect, reach)
        })
        .says("id: QUANTITY -> Log[]", "All logs that a log filter wants."),
    ]
}

fn id(id: RpcResult<u128>) -> RpcResult<Json> {
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
