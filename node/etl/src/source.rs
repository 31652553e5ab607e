//! The chain that tables are made of: a view of a store, or whatever else has blocks, receipts and
//! calls.

use std::error::Error;
use std::time::Duration;

use chain::query_limit::{CancelFlag, QueryLimit};
use chain::state::StateNotKept;
use chain::trace::{CallFrame, CallOptions, TraceError, TraceRequest, Tracer};
use chain::view::StoredBlock;
use chain::{ChainSpec, View};
use primitives::{B256, Receipt};
use store::{StoreError, TableId};

/// The most memory for the traces of one block, in bytes of their text. A block with more has only
/// the transactions' own calls.
const BLOCK_TRACE_BYTES_MAX: usize = 256 << 20;

/// The reason why a source does not give what is asked of it.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The block cannot be run again.
    #[error("traces of block {number}: {error}")]
    Trace {
        /// The number of the block.
        number: u64,
        /// The reason why it cannot be run.
        error: TraceError,
    },
    /// Traces need a state that is not kept.
    #[error("{0}; leave out the traces, or export from a node that keeps all states (--state archive)")]
    NotKept(StateNotKept),
    /// A source outside this process failed.
    #[error(transparent)]
    Outside(Box<dyn Error + Send + Sync>),
}

/// The chain that tables are made of. Many threads ask it.
pub trait TableSource: Sync {
    /// The rules of the chain.
    fn spec(&self) -> &ChainSpec;

    /// The hash of the canonical block `number`; `None` above the head.
    ///
    /// # Errors
    /// [`SourceError`] if the source fails.
    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, SourceError>;

    /// The canonical block `number`; `None` above the head.
    ///
    /// # Errors
    /// [`SourceError`] if the source fails.
    fn block(&self, number: u64) -> Result<Option<StoredBlock>, SourceError>;

    /// The receipts of a canonical block above block 0, in the order in which they count for the
    /// root.
    ///
    /// # Errors
    /// [`SourceError`] if the source fails, or has no receipts of it.
    fn receipts(&self, block: &StoredBlock) -> Result<Vec<Receipt>, SourceError>;

    /// Checks that blocks from `first` on can be traced.
    ///
    /// # Errors
    /// [`SourceError`] if the state before them is not kept.
    fn require_traces(&self, first: u64) -> Result<(), SourceError>;

    /// The calls of the transactions of a canonical block, each with the index of its transaction.
    ///
    /// # Errors
    /// [`SourceError`] if the block cannot be run, or `cancelled` is set meanwhile.
    fn call_trees(
        &self,
        block: &StoredBlock,
        cancelled: &CancelFlag,
    ) -> Result<Vec<(usize, CallFrame)>, SourceError>;
}

/// A canonical block that the source ought to have is missing.
pub(crate) fn no_block(number: u64) -> SourceError {
    missing(number, "no such block")
}

fn missing(number: u64, what: &str) -> SourceError {
    StoreError::corrupt(TableId::NumberToHash, &number.to_be_bytes(), what.to_owned()).into()
}

impl TableSource for View {
    fn spec(&self) -> &ChainSpec {
        Self::spec(self)
    }

    fn canonical_hash(&self, number: u64) -> Result<Option<B256>, SourceError> {
        Ok(Self::canonical_hash(self, number)?)
    }

    fn block(&self, number: u64) -> Result<Option<StoredBlock>, SourceError> {
        Ok(Self::block(self, number)?)
    }

    fn receipts(&self, block: &StoredBlock) -> Result<Vec<Receipt>, SourceError> {
        let receipts = Self::receipts(self, &block.id())?;
        receipts.ok_or_else(|| missing(block.record.header.number, "no receipts"))
    }

    fn require_traces(&self, first: u64) -> Result<(), SourceError> {
        // The first block is run on the state of its parent.
        self.require_state(first.saturating_sub(1))
            .map_err(SourceError::NotKept)
    }

    fn call_trees(
        &self,
        block: &StoredBlock,
        cancelled: &CancelFlag,
    ) -> Result<Vec<(usize, CallFrame)>, SourceError> {
        let number = block.record.header.number;
        let trace = |only_top| {
            let options = CallOptions {
                only_top,
                own_gas: true,
                ..CallOptions::default()
            };
            let limit = QueryLimit::new(Duration::MAX).cancelled_by(cancelled);
            let mut request = TraceRequest::new(Tracer::Calls(options), limit);
            request.bytes_max = if only_top {
                usize::MAX
            } else {
                BLOCK_TRACE_BYTES_MAX
            };
            Self::call_trees(self, block, &request)
        };
        let trees = match trace(false) {
            Err(TraceError::TooLarge { max }) => {
                tracing::warn!(
                    "the traces of block {number} are longer than {max} bytes: only the transactions' own calls are written"
                );
                trace(true)
            }
            trees => trees,
        };
        trees.map_err(|error| SourceError::Trace { number, error })
    }
}
