//! Transactions that are run again, and calls, with their traces and with what they change.
//!
//! Each answer has the output, the calls (`trace`) and the changed values (`stateDiff`), as far as
//! they are asked for. `vmTrace` is refused: the steps of the interpreter are shown by
//! `debug_traceTransaction`.

use chain::call::{CallRequest, StateAt};
use chain::rules::body::sender;
use chain::trace::{ReplayTrace, Trace, TraceRequest, Tracer};
use primitives::{B256, Transaction};

use super::super::debug::trace_error;
use super::super::mc::{CallObject, call_request, stored_number, with_state};
use crate::budget::query_limit;
use crate::decode::{FromParam, pair};
use crate::error::{RpcError, RpcResult, failure};
use crate::json::{Json, JsonArray, JsonOf};
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::{ReplayObject, shown_hash};
use crate::table::Method;
use crate::types::{BlockRef, Data, ParamError};
use crate::wire_type::WireType;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::heavy(
            "trace_replayBlockTransactions",
            ["block", "types"],
            replay_block_transactions,
        )
        .summary(
            "Runs the transactions of a block again. Returns for each its output, its calls (type trace) and \
             the values that it changed (type stateDiff). The type vmTrace is refused.",
        ),
        Method::heavy("trace_replayTransaction", ["hash", "types"], replay_transaction).summary(
            "Runs a transaction again. Returns its output, its calls (type trace) and the values that it \
             changed (type stateDiff). The type vmTrace is refused.",
        ),
        Method::heavy("trace_call", ["call", "types", "block"], trace_call).summary(
            "Runs a call on the state after a block. Returns its output, its calls (type trace) and the \
             values that it would change (type stateDiff). No transaction is made.",
        ),
        Method::heavy("trace_callMany", ["calls", "block"], trace_call_many).summary(
            "Runs calls one after another, each on the state that the one before it leaves. Each is an array \
             of a call and its types. Returns for each what trace_call returns.",
        ),
        Method::heavy("trace_rawTransaction", ["transaction", "types"], trace_raw).summary(
            "Runs a signed transaction as a call on the state after the newest block. Returns what \
             trace_call returns. The transaction is not sent, and its nonce is not checked.",
        ),
    ]
}

/// The parts of the answer that are asked for, beside the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TraceTypes {
    calls: bool,
    /// The changed values.
    changes: bool,
}

impl TraceTypes {
    const fn tracer(self) -> Tracer {
        Tracer::Replay {
            changes: self.changes,
        }
    }

    fn request(self, node: &Node) -> TraceRequest {
        TraceRequest::new(self.tracer(), query_limit(node.settings.trace_timeout_max))
    }

    /// The answer of a run. Its trace was made by [`Self::tracer`], so it is of that kind.
    fn object<'t>(self, trace: &'t Trace, hash: Option<B256>) -> RpcResult<ReplayObject<'t>> {
        match trace {
            Trace::Replay(ReplayTrace { calls, changes }) => {
                Ok(ReplayObject::new(calls, self.calls, changes.as_ref(), hash))
            }
            _ => Err(RpcError::internal("the trace is of another kind")),
        }
    }
}

impl FromParam for TraceTypes {
    const TYPE: WireType = <Vec<String> as FromParam>::TYPE;

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let mut types = Self::default();
        for name in Vec::<String>::from_json(json)? {
            match name.as_str() {
                "trace" => types.calls = true,
                "stateDiff" => types.changes = true,
                "vmTrace" => {
                    return Err(ParamError::Rule(
                        "vmTrace is not supported, expected trace or stateDiff; debug_traceTransaction \
                         and debug_traceCall show steps"
                            .to_owned(),
                    ));
                }
                other => {
                    return Err(ParamError::Rule(format!(
                        "got {other:?}, expected trace or stateDiff"
                    )));
                }
            }
        }
        Ok(types)
    }
}

/// A call of `trace_callMany` with its types.
struct TypedCall(CallObject, TraceTypes);

impl FromParam for TypedCall {
    const TYPE: WireType = WireType::Named("TypedCall");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        pair(json).map(|(call, types)| Self(call, types))
    }
}

/// `trace_replayBlockTransactions`.
fn replay_block_transactions(
    node: &Node,
    (at, types): (BlockRef, TraceTypes),
) -> RpcResult<JsonOf<Vec<ReplayObject<'static>>>> {
    let view = node.view()?;
    let number = stored_number(&view, at, "trace")?;
    let block = view.block(number).map_err(failure)?;
    let block = block.ok_or_else(|| RpcError::refused(format!("block #{number} not found")))?;
    let mut out = JsonArray::new();
    // Block 0 has no transactions, and no parent to run them on.
    if !block.body.transactions.is_empty() {
        let traces = view
            .trace_block(&block, &types.request(node))
            .map_err(trace_error)?;
        for (transaction, trace) in block.body.transactions.iter().zip(&traces) {
            let hash = shown_hash(transaction, NameStyle::Ethereum);
            out.push(&types.object(trace, Some(hash))?)?;
        }
    }
    Ok(JsonOf::trust(Json::from_text(out.finish()?)))
}

/// `trace_replayTransaction`.
fn replay_transaction(
    node: &Node,
    (hash, types): (B256, TraceTypes),
) -> RpcResult<JsonOf<ReplayObject<'static>>> {
    let view = node.view()?;
    let Some((block, index)) = view.transaction(&hash).map_err(failure)? else {
        return Err(RpcError::refused(format!("transaction {hash:#x} not found")));
    };
    let trace = view.trace_transaction(&block, index, &types.request(node));
    JsonOf::write(&types.object(&trace.map_err(trace_error)?, None)?)
}

/// `trace_call`: on the state after the block.
fn trace_call(
    node: &Node,
    (call, types, at): (CallObject, TraceTypes, BlockRef),
) -> RpcResult<JsonOf<ReplayObject<'static>>> {
    let request = call_request(node, call, Default::default(), Default::default())?;
    run_request(node, &request, types, at)
}

/// Runs a request on the state after the block `at`.
fn run_request(
    node: &Node,
    request: &CallRequest,
    types: TraceTypes,
    at: BlockRef,
) -> RpcResult<JsonOf<ReplayObject<'static>>> {
    let view = node.view()?;
    let trace = with_state(node, &view, at, |place: StateAt<'_>| {
        view.trace_call(place, request, &types.request(node))
            .map_err(trace_error)
    })?;
    JsonOf::write(&types.object(&trace, None)?)
}

/// `trace_callMany`: on the state after the block.
fn trace_call_many(
    node: &Node,
    (calls, at): (Vec<TypedCall>, BlockRef),
) -> RpcResult<JsonOf<Vec<ReplayObject<'static>>>> {
    let types: Vec<_> = calls.iter().map(|call| call.1).collect();
    let requests = calls.into_iter().map(|TypedCall(call, types)| {
        let request = call_request(node, call, Default::default(), Default::default())?;
        Ok((request, types.tracer()))
    });
    let requests: Vec<_> = requests.collect::<RpcResult<_>>()?;
    let view = node.view()?;
    let TraceRequest { limit, bytes_max, .. } = TraceTypes::default().request(node);
    let traces = with_state(node, &view, at, |place| {
        view.trace_calls(place, &requests, (limit, bytes_max))
            .map_err(trace_error)
    })?;
    let mut out = JsonArray::new();
    for (types, trace) in types.into_iter().zip(&traces) {
        out.push(&types.object(trace, None)?)?;
    }
    Ok(JsonOf::trust(Json::from_text(out.finish()?)))
}

/// `trace_rawTransaction`: as a call of the account that has signed.
fn trace_raw(node: &Node, (raw, types): (Data, TraceTypes)) -> RpcResult<JsonOf<ReplayObject<'static>>> {
    let spec = node.chain.spec();
    let transaction = Transaction::decode_raw(&raw.0, spec.tx_rules()).map_err(RpcError::refused_by)?;
    if transaction.sharding_flag != 0 {
        return Err(RpcError::refused(format!(
            "shardingFlag: got {}, expected 0: the transaction is not run on this chain",
            transaction.sharding_flag
        )));
    }
    let number = node.view()?.head_number() + 1;
    let from = sender(spec, number, &transaction).map_err(RpcError::refused_by)?;
    let request = CallRequest {
        from: Some(from),
        to: transaction.to,
        gas: Some(transaction.gas),
        gas_max: Some(node.settings.call_gas_max),
        gas_price: transaction.gas_price,
        value: transaction.value,
        input: transaction.input,
        access_list: transaction.access_list,
        ..CallRequest::default()
    };
    run_request(node, &request, types, BlockRef::Latest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        let both = TraceTypes {
            calls: true,
            changes: true,
        };
        assert_eq!(
            TraceTypes::from_json(r#"["trace","stateDiff","trace"]"#),
            Ok(both)
        );
        assert_eq!(TraceTypes::from_json("[]"), Ok(TraceTypes::default()));
        let error = |json| TraceTypes::from_json(json).expect_err("refused").to_string();
        assert_eq!(
            error(r#"["steps"]"#),
            r#"got "steps", expected trace or stateDiff"#
        );
        assert!(error(r#"["trace","vmTrace"]"#).starts_with("vmTrace is not supported"));
        assert_eq!(error(r#""trace""#), "got a string, expected an array");
    }

    #[test]
    fn calls_with_types() {
        let error = |json| {
            TypedCall::from_json(json)
                .map(|_| ())
                .expect_err("refused")
                .to_string()
        };
        assert!(TypedCall::from_json(r#"[{},["trace"]]"#).is_ok());
        assert_eq!(error(r#"[{}]"#), "got 1 element, expected 2");
        assert_eq!(error(r#"[{},[],1]"#), "got 3 elements, expected 2");
        assert_eq!(error("{}"), "got an object, expected an array");
        assert_eq!(
            error(r#"[{},["x"]]"#),
            r#"element 1: got "x", expected trace or stateDiff"#
        );
    }
}
