//! The acts of a transaction: its calls, the money that it moved inside, and why it failed.

use chain::trace::{CallFrame, CallOptions, Trace, TraceRequest, Tracer};
use chain::view::StoredBlock;
use primitives::{Address, B256, U256};
use serde::{Serialize, Serializer};

use crate::budget::{query_limit, reserve_values};
use crate::error::{RpcError, RpcResult, failure};
use crate::json::JsonOf;
use crate::methods::debug::trace_error;
use crate::node::Node;
use crate::table::Method;
use crate::types::{Data, Quantity};
use crate::wire_type::{Described, WireType};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::heavy("ots_getInternalOperations", ["hash"], internal_operations).summary(
            "Returns the transfers, creations and destructions that the calls of a transaction made.",
        ),
        Method::heavy("ots_getTransactionError", ["hash"], transaction_error)
            .summary("Returns the output of a failed transaction, which a revert explains."),
        Method::heavy("ots_traceTransaction", ["hash"], trace_transaction)
            .summary("Returns all calls of a transaction as a flat list, with their depths."),
    ]
}

/// The trace of calls.
pub(super) fn request(node: &Node) -> TraceRequest {
    let limit = query_limit(node.settings.trace_timeout_max);
    TraceRequest::new(Tracer::Calls(CallOptions::default()), limit)
}

/// The call tree of a transaction in a block.
fn call_tree(node: &Node, hash: &B256) -> RpcResult<CallFrame> {
    let view = node.view()?;
    let found: Option<(StoredBlock, usize)> = view.transaction(hash).map_err(failure)?;
    let Some((block, index)) = found else {
        return Err(RpcError::refused(format!("transaction {hash:#x} not found")));
    };
    let trace = view.trace_transaction(&block, index, &request(node));
    match trace.map_err(trace_error)? {
        Trace::Calls(top) => Ok(top),
        _ => Ok(CallFrame::default()),
    }
}

/// A call, and how deep it is. Each call is before those that it made.
pub(super) fn walk<'a>(top: &'a CallFrame, mut visit: impl FnMut(&'a CallFrame, usize, bool)) {
    let mut open = vec![(top, 0, false)];
    while let Some((frame, depth, in_failure)) = open.pop() {
        let failed = in_failure || frame.error.is_some();
        visit(frame, depth, failed);
        let inner = frame.calls.iter().rev();
        open.extend(inner.map(|call| (call, depth + 1, failed)));
    }
}

/// A transfer (0), destruction (1), creation (2) or CREATE2 (3) inside a transaction.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct OtsOperation {
    #[serde(rename = "type")]
    kind: u8,
    from: Data<Address>,
    to: Data<Address>,
    value: Quantity<U256>,
}

impl Described for OtsOperation {
    const TYPE: WireType = WireType::Named("OtsOperation");
}

fn operations(top: &CallFrame) -> Vec<OtsOperation> {
    let mut found = Vec::new();
    walk(top, |frame, depth, failed| {
        let value = frame.value.unwrap_or_default();
        let kind = match frame.kind {
            "CALL" if !value.is_zero() => 0,
            "SELFDESTRUCT" => 1,
            "CREATE" => 2,
            "CREATE2" => 3,
            _ => return,
        };
        if depth > 0 && !failed {
            found.push(OtsOperation {
                kind,
                from: Data(frame.from),
                to: Data(frame.to.unwrap_or_default()),
                value: Quantity(value),
            });
        }
    });
    found
}

/// `ots_getInternalOperations`: of calls that succeeded.
fn internal_operations(node: &Node, (hash,): (B256,)) -> RpcResult<JsonOf<Vec<OtsOperation>>> {
    let top = call_tree(node, &hash)?;
    let found = operations(&top);
    reserve_values(found.len() * size_of::<OtsOperation>())?;
    JsonOf::write(&found)
}

/// `ots_getTransactionError`: empty if the transaction succeeded, or failed without output.
fn transaction_error(node: &Node, (hash,): (B256,)) -> RpcResult<Data> {
    let top = call_tree(node, &hash)?;
    Ok(Data(match top.error {
        Some(_) => top.output.to_vec(),
        None => Vec::new(),
    }))
}

/// A call as JSON.
#[derive(Serialize)]
struct OtsTraceEntry<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    depth: usize,
    from: Data<Address>,
    to: Data<Address>,
    value: Option<Quantity<U256>>,
    input: Data<&'a [u8]>,
    output: Data<&'a [u8]>,
}

impl Described for OtsTraceEntry<'_> {
    const TYPE: WireType = WireType::Named("OtsTraceEntry");
}

/// All calls of a transaction, written one by one.
struct OtsTrace<'a>(&'a CallFrame);

impl Described for OtsTrace<'_> {
    const TYPE: WireType = WireType::Array(&<OtsTraceEntry<'_> as Described>::TYPE);
}

impl Serialize for OtsTrace<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = Vec::new();
        walk(self.0, |frame, depth, _| {
            if !frame.kind.is_empty() && (depth == 0 || !frame.is_builtin) {
                list.push((frame, depth));
            }
        });
        serializer.collect_seq(list.into_iter().map(|(frame, depth)| OtsTraceEntry {
            kind: frame.kind,
            depth,
            from: Data(frame.from),
            to: Data(frame.to.unwrap_or_default()),
            // A delegate call runs with the value of its caller, and moves none.
            value: frame.value.filter(|_| frame.kind != "DELEGATECALL").map(Quantity),
            input: Data(&frame.input),
            output: Data(&frame.output),
        }))
    }
}

/// `ots_traceTransaction`.
fn trace_transaction(node: &Node, (hash,): (B256,)) -> RpcResult<JsonOf<OtsTrace<'static>>> {
    let top = call_tree(node, &hash)?;
    JsonOf::write(&OtsTrace(&top))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_calls_that_succeeded() {
        let call = |kind, value: u64, error: Option<&str>, calls: Vec<CallFrame>| CallFrame {
            kind,
            value: Some(U256::from(value)),
            error: error.map(str::to_owned),
            calls: calls.into(),
            ..CallFrame::default()
        };
        let failed = call(
            "CALL",
            3,
            Some("out of gas"),
            vec![call("CREATE", 4, None, Vec::new())],
        );
        let inner = call("CALL", 0, None, vec![call("SELFDESTRUCT", 5, None, Vec::new())]);
        let last = call("CREATE2", 6, None, Vec::new());
        let top = call(
            "CALL",
            1,
            None,
            vec![call("CALL", 2, None, Vec::new()), failed, inner, last],
        );
        let kinds: Vec<_> = operations(&top)
            .into_iter()
            .map(|operation| (operation.kind, operation.value.0))
            .collect();
        let expected = [(0, 2), (1, 5), (3, 6)].map(|(kind, value)| (kind, U256::from(value)));
        assert_eq!(kinds, expected);
    }
}
