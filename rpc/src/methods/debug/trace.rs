//! Traces of transactions and blocks.

use chain::View;
use chain::trace::{Trace, TraceError, TraceRequest};
use chain::view::StoredBlock;
use primitives::B256;

use super::request::{TraceCallOptions, TraceOptions};
use crate::error::{RpcError, RpcResult, failure};
use crate::json::{JsonOf, JsonParts};
use crate::methods::mc::{CallObject, call_error, call_request, stored_number, with_state};
use crate::node::Node;
use crate::objects::{BlockTraces, TraceObject, write_block_traces, write_trace};
use crate::table::Method;
use crate::types::BlockRef;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::heavy("debug_traceTransaction", ["hash", "options"], trace_transaction).summary(
            "Returns the trace of a transaction: its steps or, with a tracer, its calls (callTracer), \
             the accounts that it read or changed (prestateTracer), the functions that it called \
             (4byteTracer), or nothing (noopTracer).",
        ),
        Method::heavy("debug_traceCall", ["call", "block", "options"], trace_call)
            .summary("Returns the trace of a call. No transaction is made."),
        Method::heavy(
            "debug_traceBlockByNumber",
            ["block", "options"],
            trace_block_by_number,
        )
        .summary("Returns the trace of each transaction of a block."),
        Method::heavy("debug_traceBlockByHash", ["hash", "options"], trace_block_by_hash)
            .summary("Returns the trace of each transaction of a block."),
    ]
}

/// The traces of all transactions of a block, as JSON.
type BlockTrace = JsonOf<BlockTraces>;

/// The trace that `options` ask for, within the limits of the node.
fn request(node: &Node, options: &TraceOptions) -> TraceRequest {
    options.request(node.settings.trace_timeout_max)
}

/// `debug_traceTransaction`.
fn trace_transaction(
    node: &Node,
    (hash, options): (B256, TraceOptions),
) -> RpcResult<JsonOf<TraceObject<'static>>> {
    let view = node.view()?;
    let Some((block, index)) = view.transaction(&hash).map_err(failure)? else {
        return Err(RpcError::refused(format!("transaction {hash:#x} not found")));
    };
    let trace = view.trace_transaction(&block, index, &request(node, &options));
    written(&trace.map_err(trace_error)?)
}

/// `debug_traceCall`: on the state after the block.
fn trace_call(
    node: &Node,
    (call, at, options): (CallObject, BlockRef, TraceCallOptions),
) -> RpcResult<JsonOf<TraceObject<'static>>> {
    let request = call_request(node, call, options.state, options.block)?;
    let view = node.view()?;
    let trace = with_state(node, &view, at, |place| {
        view.trace_call(place, &request, &self::request(node, &options.trace))
            .map_err(trace_error)
    })?;
    written(&trace)
}

fn written(trace: &Trace) -> RpcResult<JsonOf<TraceObject<'static>>> {
    let mut out = JsonParts::new();
    write_trace(&mut out, trace)?;
    Ok(JsonOf::trust(out.finish()))
}

/// `debug_traceBlockByNumber`.
fn trace_block_by_number(node: &Node, (at, options): (BlockRef, TraceOptions)) -> RpcResult<BlockTrace> {
    let view = node.view()?;
    let number = stored_number(&view, at, "trace")?;
    let block = view.block(number).map_err(failure)?;
    let block = block.ok_or_else(|| RpcError::refused(format!("block #{number} not found")))?;
    trace_block(&view, &block, &request(node, &options))
}

/// `debug_traceBlockByHash`.
fn trace_block_by_hash(node: &Node, (hash, options): (B256, TraceOptions)) -> RpcResult<BlockTrace> {
    let view = node.view()?;
    let block = view.block_by_hash(&hash).map_err(failure)?;
    let block = block.ok_or_else(|| RpcError::refused(format!("block {hash:#x} not found")))?;
    trace_block(&view, &block, &request(node, &options))
}

fn trace_block(view: &View, block: &StoredBlock, request: &TraceRequest) -> RpcResult<BlockTrace> {
    let traces: Vec<Trace> = view.trace_block(block, request).map_err(trace_error)?;
    let transactions = block.body.transactions.iter();
    let mut out = JsonParts::new();
    let traces = transactions.zip(&traces);
    write_block_traces(
        &mut out,
        traces.map(|(transaction, trace)| (transaction.hash(), trace)),
    )?;
    Ok(JsonOf::trust(out.finish()))
}

/// The error for the caller. Faults of the request are refused; other errors are failures of the
/// node.
pub(in crate::methods) fn trace_error(error: TraceError) -> RpcError {
    match error {
        TraceError::Call(error) => call_error(error),
        TraceError::State(_) | TraceError::Store(_) | TraceError::Transaction { .. } => failure(error),
        TraceError::Genesis
        | TraceError::NotKept(_)
        | TraceError::OffChain { .. }
        | TraceError::NoTransaction { .. }
        | TraceError::NoMemory
        | TraceError::Stopped(_)
        | TraceError::TooLarge { .. } => RpcError::refused_by(error),
    }
}
