//! Traces as JSON, in the forms that clients of `debug_traceTransaction` expect. Words of stack,
//! memory and storage are 64 hex digits without a prefix.
//!
//! A stranger decides how deep calls are. So calls are written by a loop ([`write_trace`]), and not
//! by recursion as other values are.

use std::collections::BTreeMap;

use chain::trace::{AccountValues, CallFrame, CallLog, PrestateTrace, SelectorCounts, Trace, TraceStep};
use primitives::{Address, B256, U256, hex};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::error::RpcResult;
use crate::json::JsonParts;
use crate::types::{Data, Quantity};
use crate::wire_type::{Described, WireType};

/// A trace as JSON, if it is not one of calls.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum TraceObject<'a> {
    #[serde(rename_all = "camelCase")]
    Steps {
        /// Gas used.
        gas: u64,
        /// Whether the transaction failed.
        failed: bool,
        /// The output as hex digits without a prefix.
        return_value: String,
        struct_logs: StepList<'a>,
    },
    /// The accounts that were read or changed, as they were before.
    Before(PrestateAccounts<'a>),
    /// The accounts that were changed.
    Changes {
        /// As they were before.
        pre: PrestateAccounts<'a>,
        /// The new values of the accounts.
        post: PrestateAccounts<'a>,
    },
    /// The number of calls of each function.
    Selectors(SelectorList<'a>),
    Nothing {},
}

/// Appends `trace` to `out`.
///
/// # Errors
/// If it does not fit.
pub(crate) fn write_trace(out: &mut JsonParts, trace: &Trace) -> RpcResult<()> {
    match trace {
        Trace::Calls(top) => write_calls(out, top),
        // No method with these objects asks for changes.
        Trace::Replay(replay) => write_calls(out, &replay.calls),
        Trace::Steps(steps) => out.value(&TraceObject::Steps {
            gas: steps.gas,
            failed: steps.failed,
            return_value: hex::encode(&steps.return_value),
            struct_logs: StepList(&steps.steps),
        }),
        Trace::Prestate(PrestateTrace::Before(accounts)) => {
            out.value(&TraceObject::Before(PrestateAccounts(accounts)))
        }
        Trace::Prestate(PrestateTrace::Changes { before, after }) => out.value(&TraceObject::Changes {
            pre: PrestateAccounts(before),
            post: PrestateAccounts(after),
        }),
        Trace::Selectors(counts) => out.value(&TraceObject::Selectors(SelectorList(counts))),
        Trace::Nothing => out.value(&TraceObject::Nothing {}),
    }
}

/// Appends the call `top` with the calls that it made.
fn write_calls(out: &mut JsonParts, top: &CallFrame) -> RpcResult<()> {
    write_call(out, top)?;
    // The calls that are begun, with their inner calls that are not written yet.
    let mut open = vec![(top, top.calls.iter())];
    while let Some((call, inner)) = open.last_mut() {
        match inner.next() {
            Some(next) => {
                let is_first = inner.len() + 1 == call.calls.len();
                out.text(if is_first { r#","calls":["# } else { "," })?;
                write_call(out, next)?;
                open.push((next, next.calls.iter()));
            }
            None => {
                if !call.calls.is_empty() {
                    out.text("]")?;
                }
                if !call.logs.is_empty() {
                    out.text(r#","logs":"#)?;
                    out.value(&CallLogList(&call.logs))?;
                }
                out.text("}")?;
                open.pop();
            }
        }
    }
    Ok(())
}

/// Appends a call without its inner calls and logs, and without the end of the object.
fn write_call(out: &mut JsonParts, call: &CallFrame) -> RpcResult<()> {
    out.text(r#"{"type":"#)?;
    out.value(call.kind)?;
    member(out, "from", &Data::<Address>(call.from))?;
    if let Some(to) = call.to {
        member(out, "to", &Data::<Address>(to))?;
    }
    if let Some(value) = call.value {
        member(out, "value", &Quantity(value))?;
    }
    member(out, "gas", &Quantity(call.gas))?;
    member(out, "gasUsed", &Quantity(call.gas_used))?;
    member(out, "input", &Data(&call.input))?;
    if !call.output.is_empty() {
        member(out, "output", &Data(&call.output))?;
    }
    if let Some(error) = &call.error {
        member(out, "error", error)?;
    }
    Ok(())
}

/// Appends a member of an object that has members already.
fn member(out: &mut JsonParts, name: &str, value: &impl Serialize) -> RpcResult<()> {
    out.text(format!(r#","{name}":"#))?;
    out.value(value)
}

impl Described for TraceObject<'_> {
    const TYPE: WireType = WireType::OneOf(&[
        WireType::Named("StepTrace"),
        WireType::Named("CallTrace"),
        WireType::Map(&WireType::Named("PrestateAccount")),
        WireType::Named("PrestateChanges"),
        WireType::Map(&WireType::Named("Number")),
    ]);
}

/// The steps of a trace. They are written one by one.
#[derive(Clone, Debug)]
pub(crate) struct StepList<'a>(&'a [TraceStep]);

impl Serialize for StepList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(StepObject))
    }
}

struct StepObject<'a>(&'a TraceStep);

impl Serialize for StepObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let step = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("pc", &step.pc)?;
        match step.name() {
            Some(name) => map.serialize_entry("op", name)?,
            None => map.serialize_entry("op", &format!("opcode {:#04x} not defined", step.opcode))?,
        }
        map.serialize_entry("gas", &step.gas)?;
        map.serialize_entry("gasCost", &step.gas_cost)?;
        map.serialize_entry("depth", &step.depth)?;
        if let Some(error) = &step.error {
            map.serialize_entry("error", error)?;
        }
        if let Some(stack) = &step.stack {
            map.serialize_entry("stack", &HexWords(stack.iter().map(U256::to_be_bytes)))?;
        }
        if let Some(memory) = &step.memory {
            let words = memory.chunks(32).map(|chunk| {
                let mut word = [0; 32];
                word[..chunk.len()].copy_from_slice(chunk);
                word
            });
            map.serialize_entry("memory", &HexWords(words))?;
        }
        if let Some(storage) = &step.storage {
            map.serialize_entry("storage", &HexSlots(storage))?;
        }
        map.end()
    }
}

/// Words, each as 64 hex digits.
struct HexWords<I>(I);

impl<I: Iterator<Item = [u8; 32]> + Clone> Serialize for HexWords<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone().map(HexWord))
    }
}

/// A word as 64 hex digits.
struct HexWord([u8; 32]);

impl Serialize for HexWord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut digits = [0; 64];
        hex::encode_to_slice(self.0, &mut digits).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(std::str::from_utf8(&digits).map_err(serde::ser::Error::custom)?)
    }
}

struct HexSlots<'a>(&'a BTreeMap<U256, U256>);

impl Serialize for HexSlots<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.0.iter();
        serializer.collect_map(
            entries.map(|(slot, value)| (HexWord(slot.to_be_bytes()), HexWord(value.to_be_bytes()))),
        )
    }
}

struct CallLogList<'a>(&'a [CallLog]);

impl Serialize for CallLogList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|CallLog { log, position }| CallLogObject {
            address: Data(log.address),
            topics: log.topics.iter().copied().map(Data).collect(),
            data: Data(&log.data),
            position: Quantity(*position),
        }))
    }
}

#[derive(Serialize)]
struct CallLogObject<'a> {
    address: Data<Address>,
    topics: Vec<Data<B256>>,
    data: Data<&'a [u8]>,
    position: Quantity<usize>,
}

/// Accounts with their values, by address.
#[derive(Clone, Debug)]
pub(crate) struct PrestateAccounts<'a>(&'a BTreeMap<Address, AccountValues>);

impl Serialize for PrestateAccounts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let accounts = self.0.iter();
        serializer.collect_map(
            accounts.map(|(address, values)| (Data::<Address>(*address), PrestateAccountObject(values))),
        )
    }
}

struct PrestateAccountObject<'a>(&'a AccountValues);

impl Serialize for PrestateAccountObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = self.0;
        let mut map = serializer.serialize_map(None)?;
        if let Some(balance) = values.balance {
            map.serialize_entry("balance", &Quantity(balance))?;
        }
        if let Some(tx_nonce) = values.tx_nonce {
            map.serialize_entry("nonce", &tx_nonce)?;
        }
        if let Some(code) = &values.code {
            map.serialize_entry("code", &Data(code))?;
        }
        if !values.storage.is_empty() {
            map.serialize_entry("storage", &DataSlots(&values.storage))?;
        }
        map.end()
    }
}

/// Slots as DATA of 32 bytes.
struct DataSlots<'a>(&'a BTreeMap<U256, U256>);

impl Serialize for DataSlots<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let word = |word: &U256| Data(B256::from(*word));
        serializer.collect_map(self.0.iter().map(|(slot, value)| (word(slot), word(value))))
    }
}

/// The number of calls of each function. The name of a count is the selector and the length of the
/// arguments.
#[derive(Clone, Debug)]
pub(crate) struct SelectorList<'a>(&'a SelectorCounts);

impl Serialize for SelectorList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = |(selector, len): &([u8; 4], usize)| format!("0x{}-{len}", hex::encode(selector));
        serializer.collect_map(self.0.iter().map(|(key, count)| (name(key), count)))
    }
}

/// The traces of the transactions of a block.
pub(crate) struct BlockTraces;

impl Described for BlockTraces {
    const TYPE: WireType = WireType::Array(&WireType::Named("TransactionTrace"));
}

/// Appends the traces of a block's transactions to `out`.
///
/// # Errors
/// If they do not fit.
pub(crate) fn write_block_traces<'t>(
    out: &mut JsonParts,
    traces: impl Iterator<Item = (B256, &'t Trace)>,
) -> RpcResult<()> {
    out.text("[")?;
    for (index, (hash, trace)) in traces.enumerate() {
        out.text(if index == 0 {
            r#"{"txHash":"#
        } else {
            r#",{"txHash":"#
        })?;
        out.value(&Data(hash))?;
        out.text(r#","result":"#)?;
        write_trace(out, trace)?;
        out.text("}")?;
    }
    out.text("]")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deep_calls_need_little_stack() {
        let write = || {
            let top = (0..5000).fold(CallFrame::default(), |inner, _| CallFrame {
                calls: vec![inner].into(),
                ..CallFrame::default()
            });
            let mut out = JsonParts::new();
            write_trace(&mut out, &Trace::Calls(top)).expect("memory");
            let text = String::from_utf8(out.finish().into_text().to_vec()).expect("text");
            assert!(text.ends_with(&"]}".repeat(5000)), "{} bytes", text.len());
        };
        let thread = std::thread::Builder::new().stack_size(daemon::SERVING_STACK_LEN / 8);
        thread.spawn(write).expect("a thread").join().expect("no panic");
    }

    #[test]
    fn calls_are_written_with_their_calls_and_logs() {
        let call = |kind, calls: Vec<CallFrame>| CallFrame {
            kind,
            calls: calls.into(),
            ..CallFrame::default()
        };
        let mut inner = call("CREATE", vec![call("SELFDESTRUCT", Vec::new())]);
        inner.logs = vec![CallLog {
            log: primitives::Log::default(),
            position: 1,
        }];
        inner.error = Some("a \"reason\"".to_owned());
        let top = call("CALL", vec![call("STATICCALL", Vec::new()), inner]);
        let zero = Data::<Address>(Address::ZERO);
        let object =
            |kind: &str| json!({"type": kind, "from": zero, "gas": "0x0", "gasUsed": "0x0", "input": "0x"});
        let mut expected = object("CALL");
        expected["calls"] = json!([object("STATICCALL"), object("CREATE")]);
        let inner = &mut expected["calls"][1];
        inner["error"] = json!("a \"reason\"");
        inner["calls"] = json!([object("SELFDESTRUCT")]);
        inner["logs"] = json!([{"address": zero, "topics": [], "data": "0x", "position": "0x1"}]);
        let mut out = JsonParts::new();
        let trace = Trace::Calls(top);
        write_block_traces(&mut out, [(B256::ZERO, &trace); 2].into_iter()).expect("memory");
        let text = out.finish().into_text().to_vec();
        let one = json!({"txHash": Data(B256::ZERO), "result": expected});
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&text).expect("JSON"),
            json!([one, one])
        );
    }
}
