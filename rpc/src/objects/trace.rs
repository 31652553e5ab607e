//! Traces as JSON, in the forms that clients of `debug_traceTransaction` expect. Words of stack,
//! memory and storage are 64 hex digits without a prefix.

use chain::trace::{CallFrame, Trace, TraceStep};
use primitives::{Address, B256, U256, hex};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::types::{Data, Quantity};
use crate::wire_type::{Described, WireType};

/// A trace as JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum TraceObject<'a> {
    /// Step by step.
    #[serde(rename_all = "camelCase")]
    Steps {
        /// Gas used.
        gas: u64,
        /// Whether the transaction failed.
        failed: bool,
        /// The output as hex digits without a prefix.
        return_value: String,
        /// The steps.
        struct_logs: StepList<'a>,
    },
    /// The calls.
    Calls(CallTraceObject<'a>),
}

impl Described for TraceObject<'_> {
    const TYPE: WireType = WireType::OneOf(&[WireType::Named("StepTrace"), WireType::Named("CallTrace")]);
}

impl<'a> From<&'a Trace> for TraceObject<'a> {
    fn from(trace: &'a Trace) -> Self {
        match trace {
            Trace::Steps(steps) => Self::Steps {
                gas: steps.gas,
                failed: steps.failed,
                return_value: hex::encode(&steps.return_value),
                struct_logs: StepList(&steps.steps),
            },
            Trace::Calls(top) => Self::Calls(CallTraceObject(top)),
        }
    }
}

/// The steps of a trace. They are written one by one.
#[derive(Clone, Debug)]
pub struct StepList<'a>(&'a [TraceStep]);

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

struct HexSlots<'a>(&'a std::collections::BTreeMap<U256, U256>);

impl Serialize for HexSlots<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.0.iter();
        serializer.collect_map(
            entries.map(|(slot, value)| (HexWord(slot.to_be_bytes()), HexWord(value.to_be_bytes()))),
        )
    }
}

/// A call with the calls that it made.
#[derive(Clone, Debug)]
pub struct CallTraceObject<'a>(&'a CallFrame);

impl Serialize for CallTraceObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let call = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", call.kind)?;
        map.serialize_entry("from", &Data::<Address>(call.from))?;
        if let Some(to) = call.to {
            map.serialize_entry("to", &Data::<Address>(to))?;
        }
        if let Some(value) = call.value {
            map.serialize_entry("value", &Quantity(value))?;
        }
        map.serialize_entry("gas", &Quantity(call.gas))?;
        map.serialize_entry("gasUsed", &Quantity(call.gas_used))?;
        map.serialize_entry("input", &Data(&call.input))?;
        if !call.output.is_empty() {
            map.serialize_entry("output", &Data(&call.output))?;
        }
        if let Some(error) = &call.error {
            map.serialize_entry("error", error)?;
        }
        if !call.calls.is_empty() {
            map.serialize_entry("calls", &CallTraceList(&call.calls))?;
        }
        map.end()
    }
}

struct CallTraceList<'a>(&'a [CallFrame]);

impl Serialize for CallTraceList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(CallTraceObject))
    }
}

/// A transaction of a traced block with its trace.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransactionTrace<'a> {
    pub(crate) tx_hash: Data<B256>,
    pub(crate) result: TraceObject<'a>,
}

impl Described for TransactionTrace<'_> {
    const TYPE: WireType = WireType::Named("TransactionTrace");
}
