//! Calls as a running node lists them (`trace_block`), made into trees again.

use chain::trace::CallFrame;
use primitives::{Address, Bytes, U256};
use serde::Deserialize;

/// A call of a transaction, or a reward.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeTrace {
    action: NodeAction,
    transaction_position: Option<usize>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    result: Option<NodeResult>,
    trace_address: Vec<usize>,
    #[serde(rename = "type")]
    kind: String,
}

/// The members of all kinds of calls.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAction {
    call_type: String,
    creation_method: String,
    from: String,
    to: String,
    gas: String,
    input: String,
    init: String,
    value: String,
    address: String,
    refund_address: String,
    balance: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeResult {
    gas_used: String,
    output: String,
    address: String,
    code: String,
}

/// A trace that is no call of a tree.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NodeTraceError {
    /// A member is not what its kind of call has.
    #[error("{member} of a {kind}: got {got:?}, expected {expected}")]
    Member {
        kind: String,
        member: &'static str,
        got: String,
        expected: &'static str,
    },
    /// A call stands where its caller has no place for it.
    #[error("traceAddress: got {got:?}, expected the next place of a tree")]
    Place { got: Vec<usize> },
}

/// A call whose inner calls are still read.
struct UnfinishedCall {
    frame: CallFrame,
    calls: Vec<CallFrame>,
}

/// The trees of a block's transactions, each with the index of its transaction. Rewards are left
/// out.
pub(super) fn call_trees(traces: Vec<NodeTrace>) -> Result<Vec<(usize, CallFrame)>, NodeTraceError> {
    let mut trees = Vec::new();
    let mut open: Vec<UnfinishedCall> = Vec::new();
    let mut index = 0;
    for trace in traces {
        let Some(position) = trace.transaction_position else {
            continue;
        };
        let depth = trace.trace_address.len();
        close(&mut open, depth, index, &mut trees);
        index = position;
        let expected = open.last().map(|caller| caller.calls.len());
        if open.len() != depth || trace.trace_address.last().copied() != expected {
            return Err(NodeTraceError::Place {
                got: trace.trace_address,
            });
        }
        open.push(UnfinishedCall {
            frame: trace.frame()?,
            calls: Vec::new(),
        });
    }
    close(&mut open, 0, index, &mut trees);
    Ok(trees)
}

/// Closes the calls that are `depth` deep or deeper.
fn close(open: &mut Vec<UnfinishedCall>, depth: usize, index: usize, trees: &mut Vec<(usize, CallFrame)>) {
    while open.len() > depth {
        let Some(UnfinishedCall { mut frame, calls }) = open.pop() else {
            return;
        };
        frame.calls = calls.into();
        match open.last_mut() {
            Some(caller) => caller.calls.push(frame),
            None => trees.push((index, frame)),
        }
    }
}

impl NodeTrace {
    fn frame(self) -> Result<CallFrame, NodeTraceError> {
        let wrong = |member, got: &str, expected| NodeTraceError::Member {
            kind: self.kind.clone(),
            member,
            got: got.chars().take(80).collect(),
            expected,
        };
        let account = |member, text: &str| -> Result<Address, NodeTraceError> {
            text.parse().map_err(|_| wrong(member, text, "an address"))
        };
        let amount = |member, text: &str| -> Result<U256, NodeTraceError> {
            text.parse().map_err(|_| wrong(member, text, "a number"))
        };
        let gas = |member, text: &str| -> Result<u64, NodeTraceError> {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            u64::from_str_radix(digits, 16).map_err(|_| wrong(member, text, "an amount of gas"))
        };
        let data = |member, text: &str| -> Result<Bytes, NodeTraceError> {
            text.parse().map_err(|_| wrong(member, text, "bytes"))
        };
        let action = &self.action;
        let result = self.result.as_ref();
        let gas_used = result.map_or(Ok(0), |result| gas("gasUsed", &result.gas_used))?;
        let mut frame = match self.kind.as_str() {
            "suicide" => CallFrame {
                kind: "SELFDESTRUCT",
                from: account("address", &action.address)?,
                to: Some(account("refundAddress", &action.refund_address)?),
                value: Some(amount("balance", &action.balance)?),
                ..CallFrame::default()
            },
            "create" => CallFrame {
                kind: match action.creation_method.as_str() {
                    "create2" => "CREATE2",
                    _ => "CREATE",
                },
                from: account("from", &action.from)?,
                to: result
                    .map(|result| account("address", &result.address))
                    .transpose()?,
                value: Some(amount("value", &action.value)?),
                gas: gas("gas", &action.gas)?,
                gas_used,
                input: data("init", &action.init)?,
                output: result.map_or(Ok(Bytes::new()), |result| data("code", &result.code))?,
                ..CallFrame::default()
            },
            "call" => CallFrame {
                kind: match action.call_type.as_str() {
                    "staticcall" => "STATICCALL",
                    "delegatecall" => "DELEGATECALL",
                    "callcode" => "CALLCODE",
                    "call" => "CALL",
                    got => return Err(wrong("callType", got, "a kind of call")),
                },
                from: account("from", &action.from)?,
                to: Some(account("to", &action.to)?),
                value: Some(amount("value", &action.value)?),
                gas: gas("gas", &action.gas)?,
                gas_used,
                input: data("input", &action.input)?,
                output: result.map_or(Ok(Bytes::new()), |result| data("output", &result.output))?,
                ..CallFrame::default()
            },
            got => return Err(wrong("type", got, "call, create or suicide")),
        };
        frame.error = self.error;
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use chain::trace::FlatCalls;
    use serde_json::{Value, json};

    use super::*;

    const A: &str = "0x00000000000000000000000000000000000000aa";

    fn call(position: usize, place: &[usize]) -> Value {
        json!({
            "action": {"callType": "call", "from": A, "to": A, "gas": "0x10", "input": "0x01", "value": "0x2"},
            "blockHash": "0x00", "blockNumber": 7, "transactionHash": "0x00", "transactionPosition": position,
            "result": {"gasUsed": "0x5", "output": "0x"},
            "subtraces": 0, "traceAddress": place, "type": "call",
        })
    }

    fn read(traces: Vec<Value>) -> Result<Vec<(usize, CallFrame)>, NodeTraceError> {
        call_trees(serde_json::from_value(Value::Array(traces)).expect("traces"))
    }

    #[test]
    fn lists_become_the_trees_that_they_were_made_of() {
        let mut created = call(0, &[0, 1]);
        created["type"] = json!("create");
        created["action"] =
            json!({"creationMethod": "create2", "from": A, "gas": "0x1", "init": "0x60", "value": "0x0"});
        created["error"] = json!("Out of gas");
        created.as_object_mut().expect("an object").remove("result");
        let mut destroyed = call(3, &[0]);
        destroyed["type"] = json!("suicide");
        destroyed["action"] = json!({"address": A, "refundAddress": A, "balance": "0x9"});
        destroyed["result"] = Value::Null;
        let reward = json!({
            "action": {"author": A, "rewardType": "block", "value": "0x1"}, "transactionPosition": null,
            "result": null, "subtraces": 0, "traceAddress": [], "type": "reward",
        });
        let traces = vec![
            call(0, &[]),
            call(0, &[0]),
            call(0, &[0, 0]),
            created,
            call(0, &[1]),
            call(3, &[]),
            destroyed,
            reward,
        ];
        let trees = read(traces).expect("trees");
        let list: Vec<_> = trees
            .iter()
            .flat_map(|(index, top)| FlatCalls::of(top).map(move |call| (*index, call)))
            .map(|(index, call)| (index, call.frame.kind, call.address, call.subtraces))
            .collect();
        assert_eq!(
            list,
            [
                (0, "CALL", vec![], 2),
                (0, "CALL", vec![0], 2),
                (0, "CALL", vec![0, 0], 0),
                (0, "CREATE2", vec![0, 1], 0),
                (0, "CALL", vec![1], 0),
                (3, "CALL", vec![], 1),
                (3, "SELFDESTRUCT", vec![0], 0),
            ]
        );
        let top = &trees[0].1;
        assert_eq!((top.gas, top.gas_used, top.value), (16, 5, Some(U256::from(2))));
        let failed = &top.calls[0].calls[1];
        assert_eq!((failed.to, failed.error.as_deref()), (None, Some("Out of gas")));
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let check = |traces: Vec<Value>, expected: &str| {
            let error = read(traces).expect_err("no tree");
            assert_eq!(error.to_string(), expected);
        };
        check(
            vec![call(0, &[]), call(0, &[1])],
            "traceAddress: got [1], expected the next place of a tree",
        );
        check(
            vec![call(0, &[0])],
            "traceAddress: got [0], expected the next place of a tree",
        );
        let mut bad = call(0, &[]);
        bad["action"]["to"] = json!("0x1");
        check(vec![bad], r#"to of a call: got "0x1", expected an address"#);
    }
}
