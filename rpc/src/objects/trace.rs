//! Traces as JSON, in the forms that clients of `debug_traceTransaction` expect. Words of stack,
//! memory and storage are 64 hex digits without a prefix.

use std::collections::BTreeMap;

use chain::trace::{AccountValues, CallFrame, CallLog, PrestateTrace, SelectorCounts, Trace, TraceStep};
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
    /// The accounts that were read or changed, as they were before.
    Before(PrestateAccounts<'a>),
    /// The accounts that were changed.
    Changes {
        /// As they were before.
        pre: PrestateAccounts<'a>,
        /// Their new values.
        post: PrestateAccounts<'a>,
    },
    /// How often each function was called.
    Selectors(SelectorList<'a>),
    /// Nothing.
    Nothing {},
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
            // No method with these objects asks for changes.
            Trace::Replay(replay) => Self::Calls(CallTraceObject(&replay.calls)),
            Trace::Prestate(PrestateTrace::Before(accounts)) => Self::Before(PrestateAccounts(accounts)),
            Trace::Prestate(PrestateTrace::Changes { before, after }) => Self::Changes {
                pre: PrestateAccounts(before),
                post: PrestateAccounts(after),
            },
            Trace::Selectors(counts) => Self::Selectors(SelectorList(counts)),
            Trace::Nothing => Self::Nothing {},
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

struct HexSlots<'a>(&'a BTreeMap<U256, U256>);

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
        if !call.logs.is_empty() {
            map.serialize_entry("logs", &CallLogList(&call.logs))?;
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
pub struct PrestateAccounts<'a>(&'a BTreeMap<Address, AccountValues>);

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

/// How often each function was called. The name of a count is the selector and the length of the
/// arguments.
#[derive(Clone, Debug)]
pub struct SelectorList<'a>(&'a SelectorCounts);

impl Serialize for SelectorList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = |(selector, len): &([u8; 4], usize)| format!("0x{}-{len}", hex::encode(selector));
        serializer.collect_map(self.0.iter().map(|(key, count)| (name(key), count)))
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
