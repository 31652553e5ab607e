//! Traces transactions by running them again.
//!
//! The block's earlier transactions run first, on the state of its parent. Then the requested one
//! runs with an inspector: [`StepTrace`] has every step of the interpreter, [`CallFrame`] the tree
//! of calls, [`PrestateTrace`] the accounts that were read or changed, [`ReplayTrace`] the calls
//! and what was changed. Calls that are no transactions are traced in the same way. Time and size
//! of a trace are limited. The texts of traces in JSON are made elsewhere.

mod bounds;
mod calls;
mod flat;
mod prestate;
mod recorder;
mod replay;
mod selectors;
mod state_diff;
mod steps;
mod storage;
mod stream;

pub use calls::{CallFrame, CallLog, CallOptions, InnerCalls};
pub use flat::{FlatCall, FlatCalls, error_word};
pub use prestate::{AccountValues, PrestateTrace};
pub use selectors::SelectorCounts;
pub use state_diff::{AccountDiff, StateDiff, ValueDiff};
pub use steps::{StepOptions, StepTrace, TraceStep};
pub use storage::{STORAGE_RANGE_MAX, StorageEntry, StorageRange};
pub use stream::{StepSink, StreamEnd, StreamOptions, StreamedStep, stream_transaction};

use std::time::Duration;

use primitives::{B256, Header};
use revm::DatabaseCommit;
use revm::state::EvmState;
use store::StoreError;

use crate::call::{CallRequest, EvmCallError, StateAt};
use crate::evm::builtin_contracts;
use crate::evm::execute::TransactionError;
use crate::import::BlockId;
use crate::query_limit::{QueryLimit, QueryStop};
use crate::spec::Rule;
use crate::state::{BlockState, StateError, StateNotKept};
use crate::view::{StoredBlock, View};
use bounds::TraceBounds;
use recorder::{Recorder, RunFacts};
use replay::BlockReplay;

/// The default time limit of a trace.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// The usual size limit of all traces of one request, in bytes of their text.
pub(crate) const TRACE_BYTES_MAX: usize = 48 << 20;

/// The kind of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// Every step of the interpreter.
    Steps(StepOptions),
    /// The calls.
    Calls(CallOptions),
    /// The accounts that were read or changed.
    Prestate {
        /// Only what was changed, with the new values.
        changes: bool,
    },
    /// The calls, with [`CallOptions::own_gas`], and what the transaction changed.
    Replay {
        /// Whether to list what was changed.
        changes: bool,
    },
    /// The number of calls of each function.
    Selectors,
    /// Nothing: the transaction is only run.
    Nothing,
}

impl Tracer {
    /// The trace of a transaction that was not executed.
    fn empty(&self) -> Trace {
        match self {
            Self::Steps(_) => Trace::Steps(StepTrace::default()),
            Self::Calls(_) => Trace::Calls(CallFrame::default()),
            Self::Prestate { changes } => Trace::Prestate(PrestateTrace::empty(*changes)),
            Self::Replay { changes } => Trace::Replay(ReplayTrace {
                calls: CallFrame::default(),
                changes: changes.then(StateDiff::new),
            }),
            Self::Selectors => Trace::Selectors(SelectorCounts::new()),
            Self::Nothing => Trace::Nothing,
        }
    }
}

/// The kind of a trace, and the limits of the whole request.
#[derive(Clone, Debug)]
pub struct TraceRequest {
    /// The kind of the trace.
    pub tracer: Tracer,
    /// Time and memory of the request.
    pub limit: QueryLimit,
    /// The size limit of all traces together, in bytes of their text. It is approximate.
    pub bytes_max: usize,
}

impl TraceRequest {
    /// A request with the usual size limit.
    pub fn new(tracer: Tracer, limit: impl Into<QueryLimit>) -> Self {
        Self {
            tracer,
            limit: limit.into(),
            bytes_max: TRACE_BYTES_MAX,
        }
    }
}

/// The trace of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
    /// Its steps.
    Steps(StepTrace),
    /// Its calls.
    Calls(CallFrame),
    /// The accounts that it read or changed.
    Prestate(PrestateTrace),
    /// Its calls, and what it changed.
    Replay(ReplayTrace),
    /// The number of calls of each function.
    Selectors(SelectorCounts),
    /// Nothing was recorded.
    Nothing,
}

/// The calls of a transaction, and what it changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayTrace {
    /// The transaction's own call. Its kind is empty if the transaction was not executed.
    pub calls: CallFrame,
    /// The changes of the state, if they were asked for.
    pub changes: Option<StateDiff>,
}

/// The reason why a trace cannot be made.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the values that the error texts name")]
pub enum TraceError {
    /// Block 0 has no transactions.
    #[error("block 0 is not traceable: it has no transactions")]
    Genesis,
    /// The store does not have the state that the block was executed on.
    #[error(
        "block {number} ({hash}) is not traceable: neither the block nor its parent is canonical, so the state it was executed on is not stored"
    )]
    OffChain { number: u64, hash: B256 },
    /// The block has fewer transactions.
    #[error("transaction index: got {got}, but the block has {count} transactions")]
    NoTransaction { got: usize, count: usize },
    /// The time limit was exceeded, or nobody waits for the trace any more.
    #[error("{}", stop_text(.0))]
    Stopped(#[from] QueryStop),
    /// Too little memory is left for the values of the trace.
    #[error("the trace needs more memory than is left: trace less, or try again later")]
    NoMemory,
    /// The size limit was exceeded.
    #[error(
        "the trace is longer than {max} bytes: disable memory, stack or storage, set a limit, or trace calls only"
    )]
    TooLarge { max: usize },
    /// A transaction of an executed block failed when it was run again.
    #[error("transaction {index} of block {number} cannot be run again: {error}")]
    Transaction {
        number: u64,
        index: usize,
        error: TransactionError,
    },
    /// The state that the block was executed on is too old.
    #[error(transparent)]
    NotKept(#[from] StateNotKept),
    /// The call cannot be run.
    #[error(transparent)]
    Call(#[from] EvmCallError),
    /// The state could not be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl View {
    /// Traces transaction `index` of `block`.
    ///
    /// # Errors
    /// [`TraceError`] when the block's state is not stored, or a limit is exceeded.
    pub fn trace_transaction(
        &self,
        block: &StoredBlock,
        index: usize,
        request: &TraceRequest,
    ) -> Result<Trace, TraceError> {
        let count = block.body.transactions.len();
        if index >= count {
            return Err(TraceError::NoTransaction { got: index, count });
        }
        let mut bounds = TraceBounds::new(request.limit.clone(), request.bytes_max);
        let mut replay = BlockReplay::begin(self, block)?;
        replay.run_to(index, &bounds)?;
        replay.trace(index, &request.tracer, &mut bounds)
    }

    /// Traces all transactions of `block`. The limits are for all of them together.
    ///
    /// # Errors
    /// As [`View::trace_transaction`].
    pub fn trace_block(&self, block: &StoredBlock, request: &TraceRequest) -> Result<Vec<Trace>, TraceError> {
        let mut bounds = TraceBounds::new(request.limit.clone(), request.bytes_max);
        let mut replay = BlockReplay::begin(self, block)?;
        replay.trace_all(&request.tracer, &mut bounds)
    }

    /// The calls of the transactions of `block`, each with the index of its transaction.
    /// Transactions that were not executed have none. A `request` for anything but calls gives
    /// nothing.
    ///
    /// # Errors
    /// As [`View::trace_transaction`].
    pub fn call_trees(
        &self,
        block: &StoredBlock,
        request: &TraceRequest,
    ) -> Result<Vec<(usize, CallFrame)>, TraceError> {
        // Block 0 has no transactions, and no parent to run them on.
        if block.body.transactions.is_empty() {
            return Ok(Vec::new());
        }
        let traces = self.trace_block(block, request)?.into_iter().enumerate();
        let trees = traces.filter_map(|(index, trace)| match trace {
            Trace::Calls(top) if !top.kind.is_empty() => Some((index, top)),
            _ => None,
        });
        Ok(trees.collect())
    }
}

impl View {
    /// Traces a call. It is no transaction: it needs no funds, and its changes are dropped.
    ///
    /// # Errors
    /// [`TraceError`] when the call cannot be run, or a limit is exceeded.
    pub fn trace_call(
        &self,
        at: StateAt<'_>,
        request: &CallRequest,
        trace: &TraceRequest,
    ) -> Result<Trace, TraceError> {
        let mut bounds = TraceBounds::new(trace.limit.clone(), trace.bytes_max);
        let (header, mut state) = self.open_call(at, request)?;
        let traced = self.trace_on((&header, &mut state), request, &trace.tracer, &mut bounds)?;
        Ok(traced.0)
    }

    /// Traces calls one after another on one state, so that each sees the changes of those before
    /// it. What the first call replaces in the state and in the block holds for all of them.
    ///
    /// # Errors
    /// As [`View::trace_call`], for the first call that cannot be traced. The limits are for all of
    /// them together.
    pub fn trace_calls(
        &self,
        at: StateAt<'_>,
        calls: &[(CallRequest, Tracer)],
        (limit, bytes_max): (QueryLimit, usize),
    ) -> Result<Vec<Trace>, TraceError> {
        let Some((first, _)) = calls.first() else {
            return Ok(Vec::new());
        };
        let mut bounds = TraceBounds::new(limit, bytes_max);
        let (header, mut state) = self.open_call(at, first)?;
        let mut traces = Vec::with_capacity(calls.len());
        for (request, tracer) in calls {
            let (trace, changes) = self.trace_on((&header, &mut state), request, tracer, &mut bounds)?;
            state.commit(changes);
            traces.push(trace);
        }
        Ok(traces)
    }

    /// Traces a call, and returns its changes, which are not committed.
    fn trace_on(
        &self,
        (header, state): (&Header, &mut BlockState<'_>),
        request: &CallRequest,
        tracer: &Tracer,
        bounds: &mut TraceBounds,
    ) -> Result<(Trace, EvmState), TraceError> {
        bounds.check()?;
        let builtin = builtin_contracts(self.spec(), header.number);
        state.set_remove_empty(self.spec().rules_at(header.number).has(Rule::Eip161));
        let refunds = self.spec().failed_calls_refund_gas;
        let mut recorder = Recorder::new(tracer, refunds, &builtin, bounds);
        let gas = request.gas_of_call();
        let outcome = self.run_call(header, state, request, gas, &mut recorder)?;
        let facts = RunFacts {
            gas,
            is_metered: true,
        };
        let trace = recorder.trace(tracer, facts, &outcome, state)?;
        bounds.check()?;
        Ok((trace, outcome.changes))
    }
}

fn stop_text(stop: &QueryStop) -> String {
    match stop {
        QueryStop::Timeout(timeout) => format!("the trace was not ready after {timeout:?}"),
        QueryStop::Cancelled => stop.to_string(),
    }
}

/// The error for a block whose parent's state is not stored.
const fn off_chain(id: BlockId) -> TraceError {
    TraceError::OffChain {
        number: id.number,
        hash: id.hash,
    }
}
