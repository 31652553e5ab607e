//! Traces in the form of Parity: a flat list of calls, each with its place in the tree of calls,
//! the rewards of the block, and what a transaction changed.

use std::collections::BTreeMap;

use chain::trace::{AccountDiff, CallFrame, FlatCall, FlatCalls, StateDiff, ValueDiff, error_word};
use primitives::{Address, B256, U256};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::types::{Data, Quantity};
use crate::wire_type::{Described, WireType};

#[derive(Clone, Copy, Debug)]
pub(crate) struct TracePlace {
    pub(crate) block_hash: B256,
    pub(crate) block_number: u64,
    /// Hash and index of the transaction. `None` for rewards.
    pub(crate) transaction: Option<(B256, usize)>,
}

/// A call of a transaction, or a reward, as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ParityTraceObject<'a> {
    action: ActionObject<'a>,
    #[serde(flatten)]
    place: Option<PlaceObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "ParityResult::is_left_out")]
    result: ParityResult<'a>,
    subtraces: usize,
    trace_address: Vec<usize>,
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlaceObject {
    block_hash: Data<B256>,
    block_number: u64,
    transaction_hash: Option<Data<B256>>,
    transaction_position: Option<usize>,
}

impl From<TracePlace> for PlaceObject {
    fn from(place: TracePlace) -> Self {
        Self {
            block_hash: Data(place.block_hash),
            block_number: place.block_number,
            transaction_hash: place.transaction.map(|(hash, _)| Data(hash)),
            transaction_position: place.transaction.map(|(_, index)| index),
        }
    }
}

impl Described for ParityTraceObject<'_> {
    const TYPE: WireType = WireType::Named("ParityTrace");
}

#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum ActionObject<'a> {
    Call {
        call_type: &'static str,
        from: Data<Address>,
        gas: Quantity,
        input: Data<&'a [u8]>,
        to: Data<Address>,
        value: Quantity<U256>,
    },
    Create {
        creation_method: &'static str,
        from: Data<Address>,
        gas: Quantity,
        init: Data<&'a [u8]>,
        value: Quantity<U256>,
    },
    Destruction {
        address: Data<Address>,
        refund_address: Data<Address>,
        balance: Quantity<U256>,
    },
    Reward {
        author: Data<Address>,
        reward_type: &'static str,
        value: Quantity<U256>,
    },
}

/// The result of a call.
#[derive(Debug)]
enum ParityResult<'a> {
    Call {
        gas_used: u64,
        output: &'a [u8],
    },
    Create {
        gas_used: u64,
        address: Address,
        code: &'a [u8],
    },
    /// A destruction or a reward: null.
    Nothing,
    /// A failure: the member is left out.
    Failed,
}

impl ParityResult<'_> {
    const fn is_left_out(&self) -> bool {
        matches!(self, Self::Failed)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallResultObject<'a> {
    gas_used: Quantity,
    output: Data<&'a [u8]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CreateResultObject<'a> {
    address: Data<Address>,
    code: Data<&'a [u8]>,
    gas_used: Quantity,
}

impl Serialize for ParityResult<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Call { gas_used, output } => CallResultObject {
                gas_used: Quantity(*gas_used),
                output: Data(*output),
            }
            .serialize(serializer),
            Self::Create {
                gas_used,
                address,
                code,
            } => CreateResultObject {
                address: Data(*address),
                code: Data(*code),
                gas_used: Quantity(*gas_used),
            }
            .serialize(serializer),
            Self::Nothing | Self::Failed => serializer.serialize_none(),
        }
    }
}

impl<'a> ParityTraceObject<'a> {
    /// A call at its place, or without one if the answer does not name places.
    pub(crate) fn call(call: FlatCall<'a>, place: Option<TracePlace>) -> Self {
        let frame = call.frame;
        let gas = Quantity(frame.gas);
        let value = Quantity(frame.value.unwrap_or_default());
        let from = Data(frame.from);
        let to = frame.to.unwrap_or_default();
        let (kind, action, result) = match frame.kind {
            "CREATE" | "CREATE2" => {
                let action = ActionObject::Create {
                    creation_method: if frame.kind == "CREATE" {
                        "create"
                    } else {
                        "create2"
                    },
                    from,
                    gas,
                    init: Data(&frame.input),
                    value,
                };
                let result = ParityResult::Create {
                    gas_used: frame.gas_used,
                    address: to,
                    code: &frame.output,
                };
                ("create", action, result)
            }
            "SELFDESTRUCT" => {
                let action = ActionObject::Destruction {
                    address: from,
                    refund_address: Data(to),
                    balance: value,
                };
                ("suicide", action, ParityResult::Nothing)
            }
            _ => {
                let action = ActionObject::Call {
                    call_type: call.call_type(),
                    from,
                    gas,
                    input: Data(&frame.input),
                    to: Data(to),
                    value,
                };
                let result = ParityResult::Call {
                    gas_used: frame.gas_used,
                    output: &frame.output,
                };
                ("call", action, result)
            }
        };
        Self {
            action,
            place: place.map(PlaceObject::from),
            error: frame.error.as_deref().map(error_word),
            result: if frame.error.is_some() {
                ParityResult::Failed
            } else {
                result
            },
            subtraces: call.subtraces,
            trace_address: call.address,
            kind,
        }
    }

    /// The reward of a block, or of an uncle.
    pub(crate) fn reward(author: Address, is_uncle: bool, value: U256, place: TracePlace) -> Self {
        Self {
            action: ActionObject::Reward {
                author: Data(author),
                reward_type: if is_uncle { "uncle" } else { "block" },
                value: Quantity(value),
            },
            place: Some(place.into()),
            error: None,
            result: ParityResult::Nothing,
            subtraces: 0,
            trace_address: Vec::new(),
            kind: "reward",
        }
    }
}

/// The traces of a transaction or a call that was run again, as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayObject<'a> {
    output: Data<&'a [u8]>,
    state_diff: Option<StateDiffObject<'a>>,
    trace: ParityTraceList<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_hash: Option<Data<B256>>,
    /// Always null: clients expect the member.
    vm_trace: (),
}

impl Described for ReplayObject<'_> {
    const TYPE: WireType = WireType::Named("ParityReplay");
}

impl<'a> ReplayObject<'a> {
    /// The run whose own call is `top`. Its calls are listed if `with_calls` is set, and its
    /// changes if there are any; `hash` is shown where an answer has many transactions.
    pub(crate) fn new(
        top: &'a CallFrame,
        with_calls: bool,
        changes: Option<&'a StateDiff>,
        hash: Option<B256>,
    ) -> Self {
        // A system transaction that was not executed has no calls.
        let has_calls = with_calls && !top.kind.is_empty();
        Self {
            output: Data(&top.output),
            state_diff: changes.map(StateDiffObject),
            trace: ParityTraceList(has_calls.then(|| FlatCalls::of(top))),
            transaction_hash: hash.map(Data),
            vm_trace: (),
        }
    }
}

/// The calls of a run, which are written one by one.
#[derive(Debug)]
struct ParityTraceList<'a>(Option<FlatCalls<'a>>);

impl Serialize for ParityTraceList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let calls = self.0.clone().into_iter().flatten();
        serializer.collect_seq(calls.map(|call| ParityTraceObject::call(call, None)))
    }
}

/// The changed accounts, by address.
#[derive(Debug)]
struct StateDiffObject<'a>(&'a StateDiff);

impl Serialize for StateDiffObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let accounts = self.0.iter();
        serializer
            .collect_map(accounts.map(|(address, diff)| (Data::<Address>(*address), AccountDiffObject(diff))))
    }
}

struct AccountDiffObject<'a>(&'a AccountDiff);

impl Serialize for AccountDiffObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let AccountDiff {
            balance,
            tx_nonce,
            code,
            storage,
        } = self.0;
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("balance", &ValueDiffObject(balance.map(|value| Quantity(*value))))?;
        map.serialize_entry("code", &ValueDiffObject(code.map(Data)))?;
        map.serialize_entry("nonce", &ValueDiffObject(tx_nonce.map(|value| Quantity(*value))))?;
        map.serialize_entry("storage", &SlotDiffs(storage))?;
        map.end()
    }
}

struct SlotDiffs<'a>(&'a BTreeMap<U256, ValueDiff<U256>>);

impl Serialize for SlotDiffs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let word = |value: &U256| Data(B256::from(*value));
        let slots = self.0.iter();
        serializer.collect_map(slots.map(|(slot, diff)| (word(slot), ValueDiffObject(diff.map(word)))))
    }
}

/// A value that did not change is `"="`. Otherwise the key says what happened.
struct ValueDiffObject<T>(ValueDiff<T>);

impl<T: Serialize> Serialize for ValueDiffObject<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Change<'a, T> {
            from: &'a T,
            to: &'a T,
        }
        match &self.0 {
            ValueDiff::Same => serializer.serialize_str("="),
            ValueDiff::Added(value) => serializer.collect_map([("+", value)]),
            ValueDiff::Removed(value) => serializer.collect_map([("-", value)]),
            ValueDiff::Changed { from, to } => serializer.collect_map([("*", Change { from, to })]),
        }
    }
}
