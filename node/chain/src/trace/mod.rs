//! Runs transactions of the chain again, and tells what they did.
//!
//! A block's earlier transactions are run on its parent's state, then the one asked for, with an
//! inspector beside it: [`StepTrace`] has every step of the interpreter, [`CallFrame`] the tree of
//! calls. Time and size are bounded. Knows no JSON.

mod bounds;
mod calls;
mod replay;
mod steps;
mod storage;

pub use calls::CallFrame;
pub use steps::{StepOptions, StepTrace, TraceStep};
pub use storage::{STORAGE_RANGE_MAX, StorageEntry, StorageRange};

use std::time::Duration;

use primitives::B256;
use store::StoreError;

use crate::evm::execute::TransactionError;
use crate::import::BlockId;
use crate::state::StateError;
use crate::view::{StoredBlock, View};
use bounds::TraceBounds;
use replay::BlockReplay;

/// How long a trace may take unless told otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// How long a trace may take at most.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(25);
/// How long traces of one request may get, in bytes of their text, roughly.
pub const TRACE_BYTES_MAX: usize = 48 << 20;

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// Every step of the interpreter.
    Steps(StepOptions),
    /// The calls.
    Calls {
        /// The transaction's own alone, not those within.
        only_top: bool,
    },
}

/// What is to be traced, and for how long at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// What is to be told.
    pub tracer: Tracer,
    /// Time for all of it; more than [`TIMEOUT_MAX`] is cut to that.
    pub timeout: Duration,
}

/// What a transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
    /// TraceStep by step.
    Steps(StepTrace),
    /// Call by call.
    Calls(CallFrame),
}

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "fields are what was got and expected, as the texts say"
)]
pub enum TraceError {
    /// Nothing was run in block 0.
    #[error("block 0 is not traceable: nothing was run in it")]
    Genesis,
    /// The state that the block was run on is not at hand.
    #[error(
        "block {number} ({hash}) is not part of the chain, nor its parent: the state it was run on is not kept"
    )]
    OffChain { number: u64, hash: B256 },
    /// The block has fewer transactions.
    #[error("transaction {got} of a block with {count}")]
    NoTransaction { got: usize, count: usize },
    /// It took too long.
    #[error("the trace was not ready after {0:?}")]
    Timeout(Duration),
    /// It got too long.
    #[error(
        "the trace is longer than {max} bytes: disable memory, stack or storage, give a limit, or trace the calls alone"
    )]
    TooLong { max: usize },
    /// A transaction of a block on the chain does not run again.
    #[error("transaction {index} of block {number} does not run again: {error}")]
    Transaction {
        number: u64,
        index: usize,
        error: TransactionError,
    },
    /// The state could not be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl View {
    /// What transaction `index` of `block` did.
    ///
    /// # Errors
    /// [`TraceError`] when the block's state is not at hand, or time or size is over.
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
        let mut bounds = TraceBounds::new(request.timeout.min(TIMEOUT_MAX), TRACE_BYTES_MAX);
        let mut replay = BlockReplay::begin(self, block)?;
        replay.run_to(index, &bounds)?;
        replay.trace(index, &request.tracer, &mut bounds)
    }

    /// What each transaction of `block` did; the bounds are for all of them together.
    ///
    /// # Errors
    /// As [`View::trace_transaction`].
    pub fn trace_block(&self, block: &StoredBlock, request: &TraceRequest) -> Result<Vec<Trace>, TraceError> {
        let mut bounds = TraceBounds::new(request.timeout.min(TIMEOUT_MAX), TRACE_BYTES_MAX);
        let mut replay = BlockReplay::begin(self, block)?;
        (0..block.body.transactions.len())
            .map(|index| replay.trace(index, &request.tracer, &mut bounds))
            .collect()
    }
}

/// The block's place, for errors.
fn off_chain(id: BlockId) -> TraceError {
    TraceError::OffChain {
        number: id.number,
        hash: id.hash,
    }
}
