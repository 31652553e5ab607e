//! Traces of transactions and blocks.

use chain::View;
use chain::trace::{Trace, TraceError};
use chain::view::StoredBlock;
use primitives::B256;

use super::request::TraceOptions;
use crate::error::{RpcError, RpcResult, failure};
use crate::json::Json;
use crate::node::Node;
use crate::objects::{TraceObject, TransactionTrace};
use crate::table::Method;
use crate::types::{BlockRef, Data};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::heavy("debug_traceTransaction", |node, params| {
            params.parse().and_then(|given| transaction(node, given))
        })
        .says(
            "hash: DATA32, options?: TraceOptions -> StepTrace|CallTrace",
            "What a transaction of the chain did: every step, or its calls with the tracer callTracer.",
        ),
        Method::heavy("debug_traceBlockByNumber", |node, params| {
            params.parse().and_then(|given| block_by_number(node, given))
        })
        .says(
            "block: BLOCKREF, options?: TraceOptions -> TransactionTrace[]",
            "What each transaction of a block did.",
        ),
        Method::heavy("debug_traceBlockByHash", |node, params| {
            params.parse().and_then(|given| block_by_hash(node, given))
        })
        .says(
            "hash: DATA32, options?: TraceOptions -> TransactionTrace[]",
            "What each transaction of a block did.",
        ),
    ]
}

/// `debug_traceTransaction`.
fn transaction(node: &Node, (hash, options): (B256, TraceOptions)) -> RpcResult<Json> {
    let view = node.view()?;
    let Some((block, index)) = view.transaction(&hash).map_err(failure)? else {
        return Err(RpcError::refused(format!("transaction {hash:#x} not found")));
    };
    let trace = view.trace_transaction(&block, index, &options.0);
    Json::write(&TraceObject::from(&trace.map_err(refused)?))
}

/// `debug_traceBlockByNumber`.
fn block_by_number(node: &Node, (at, options): (BlockRef, TraceOptions)) -> RpcResult<Json> {
    let view = node.view()?;
    let number = match at {
        BlockRef::Number(number) => number,
        BlockRef::Earliest => 0,
        BlockRef::Latest => view.head_number(),
        BlockRef::Pending => return Err(RpcError::refused("the pending block is not traceable")),
    };
    let block = view.block(number).map_err(failure)?;
    let block = block.ok_or_else(|| RpcError::refused(format!("block #{number} not found")))?;
    show(&view, &block, &options)
}

/// `debug_traceBlockByHash`.
fn block_by_hash(node: &Node, (hash, options): (B256, TraceOptions)) -> RpcResult<Json> {
    let view = node.view()?;
    let block = view.block_by_hash(&hash).map_err(failure)?;
    let block = block.ok_or_else(|| RpcError::refused(format!("block {hash:#x} not found")))?;
    show(&view, &block, &options)
}

fn show(view: &View, block: &StoredBlock, options: &TraceOptions) -> RpcResult<Json> {
    let traces: Vec<Trace> = view.trace_block(block, &options.0).map_err(refused)?;
    let transactions = block.body.transactions.iter();
    let objects: Vec<_> = transactions
        .zip(&traces)
        .map(|(transaction, trace)| TransactionTrace {
            tx_hash: Data(transaction.hash()),
            result: trace.into(),
        })
        .collect();
    Json::write(&objects)
}

/// What is the request's fault, and what the node's.
pub(super) fn refused(error: TraceError) -> RpcError {
    match error {
        TraceError::State(_) | TraceError::Store(_) | TraceError::Transaction { .. } => failure(error),
        TraceError::Genesis
        | TraceError::OffChain { .. }
        | TraceError::NoTransaction { .. }
        | TraceError::Timeout(_)
        | TraceError::TooLong { .. } => RpcError::refused(error.to_string()),
    }
}
