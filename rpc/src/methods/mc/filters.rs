//! Filters (docs/interface.md, 2.6; docs/interface.md, 3.1; docs/interface.md, 4.6).
//!
//! Filters themselves are in [`crate::filters`].

use std::time::Instant;

use chain::pool::PENDING_FEED_MAX;
use daemon::ClientId;
use primitives::B256;

use super::logs::find_logs;
use crate::error::{RpcError, RpcResult};
use crate::ids::NamedId;
use crate::json::JsonOf;
use crate::logs_filter::LogCriteria;
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::LogObject;
use crate::table::{InlineError, Method, ReadScope};
use crate::types::{Data, Quantity};
use crate::wire_type::{Described, WireType};

const _: () = assert!(
    PENDING_FEED_MAX == 65_536,
    "two summaries of methods name this number: mc_newPendingTransactionFilter and mc_subscribe"
);

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::reading("mc_newFilter", ["filter"], new_log_filter)
            .summary("Creates a filter of new logs. Returns its id."),
        Method::reading("mc_newBlockFilter", [], new_block_filter)
            .summary("Creates a filter of new blocks. Returns its id."),
        Method::reading("mc_newPendingTransactionFilter", [], new_pending_filter).summary(
            "Creates a filter of new pending transactions. Returns its id. If more than 65,536 \
             transactions arrive between two polls, only the last 65,536 are returned.",
        ),
        Method::inline("mc_uninstallFilter", ["id"], uninstall)
            .summary("Removes a filter. Returns false if there is no such filter."),
        Method::blocking("mc_getFilterChanges", ["id"], changes)
            .summary("Returns the changes since the last call: logs, or hashes of blocks or transactions."),
        Method::brief("mc_getFilterLogs", ["id"], logs).summary("Returns all logs that match a log filter."),
    ]
}

/// `mc_newFilter`.
fn new_log_filter(node: &Node, (criteria,): (LogCriteria,), client: ClientId) -> RpcResult<Quantity<u128>> {
    let id = node.filters.add_logs(client, criteria, Instant::now())?;
    Ok(Quantity(id))
}

/// `mc_newBlockFilter`.
fn new_block_filter(node: &Node, (): (), client: ClientId) -> RpcResult<Quantity<u128>> {
    node.filters.add_blocks(client, Instant::now()).map(Quantity)
}

/// `mc_newPendingTransactionFilter`.
fn new_pending_filter(node: &Node, (): (), client: ClientId) -> RpcResult<Quantity<u128>> {
    node.filters.add_pending(client, Instant::now()).map(Quantity)
}

/// `mc_uninstallFilter`: whether the filter existed.
fn uninstall(node: &Node, (NamedId(id),): (NamedId,)) -> RpcResult<bool> {
    Ok(id.is_some_and(|id| node.filters.remove(id, Instant::now())))
}

/// The answer of `mc_getFilterChanges`: logs, or hashes of blocks or transactions.
struct FilterChanges;

impl Described for FilterChanges {
    const TYPE: WireType = WireType::OneOf(&[
        <[LogObject<'_>] as Described>::TYPE,
        <[Data<B256>] as Described>::TYPE,
    ]);
}

/// `mc_getFilterChanges`.
fn changes(node: &Node, (id,): (NamedId,), name_style: NameStyle) -> RpcResult<JsonOf<FilterChanges>> {
    let changes = node.filters.changes(known_id(id)?, name_style, Instant::now())?;
    Ok(JsonOf::trust(changes))
}

/// `mc_getFilterLogs`.
fn logs(
    node: &Node,
    (id,): (NamedId,),
    scope: ReadScope,
    name_style: NameStyle,
) -> Result<JsonOf<[LogObject<'static>]>, InlineError> {
    let filter = node.filters.log_filter(known_id(id)?, Instant::now())?;
    find_logs(node, &filter, scope, name_style)
}

/// The id that a filter may have.
fn known_id(NamedId(id): NamedId) -> RpcResult<u128> {
    id.ok_or_else(|| RpcError::refused("filter not found"))
}
