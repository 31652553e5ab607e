//! Errors of an import, and whether they hold for good.

use std::sync::Arc;

use primitives::{B256, PanicMessage, U256};
use store::StoreError;

use super::BlockId;
use crate::evm::execute::{BlockExecutionError, TransactionError};
use crate::rules::HeaderError;
use crate::rules::body::BodyError;
use crate::rules::seal::SealCheckError;
use crate::state::{StateError, StateNotKept};

/// The reason why a block is refused.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "fields are the value got and the value expected, as the texts say"
)]
pub enum ImportError {
    /// The store does not have the block's parent.
    #[error("unknown parent {0}")]
    UnknownParent(B256),
    /// The header breaks a rule.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The seal is wrong.
    #[error(transparent)]
    Seal(#[from] SealCheckError),
    /// The body does not match the header, or breaks a rule.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// A transaction is not valid at its place in the block.
    #[error("transaction {index} ({hash}): {error}")]
    Transaction {
        index: usize,
        hash: B256,
        error: TransactionError,
    },
    /// The head cannot become a block whose state is not kept, or the child of one.
    #[error("the chain cannot be set back so far: {0}")]
    StateNotKept(StateNotKept),
    /// A block can be written without being executed, and a fetched state can end, only while a
    /// state is fetched and the head is the block of it.
    #[error("got a block that is not executed, expected a node that fetches the state of it")]
    NotFetched,
    /// Execution gives another state than the header says.
    #[error("state root: got {got}, expected {expected}")]
    StateRoot { got: B256, expected: B256 },
    /// Execution gives other receipts than the header says.
    #[error("receipts root: got {got}, expected {expected}")]
    ReceiptsRoot { got: B256, expected: B256 },
    /// Execution gives other logs than the header says.
    #[error("logs bloom: got {got_bits} bits set, expected the header's bloom with {expected_bits}")]
    Bloom { got_bits: u32, expected_bits: u32 },
    /// Execution uses another amount of gas than the header says.
    #[error("gas used: got {got}, expected {expected}")]
    GasUsed { got: u64, expected: u64 },
    /// An earlier block of the same branch is invalid. It was stored as a side block without being
    /// executed.
    #[error("block {number} ({hash}) of the block's branch: {error}")]
    Branch {
        number: u64,
        hash: B256,
        error: Box<Self>,
    },
    /// A header of a run of headers is refused.
    #[error("header {number} ({hash}): {error}")]
    OfHeader {
        number: u64,
        hash: B256,
        error: Box<Self>,
    },
    /// A header of a run does not build on the one before.
    #[error("parent hash: got {got}, expected {expected}, the header before")]
    ParentHash { got: B256, expected: B256 },
    /// There is no space for these headers without bodies.
    #[error("headers without bodies: got {got}, expected at most {max}")]
    TooManyHeaders { got: usize, max: usize },
    /// The block would be a side block too far below the head.
    #[error("number of a side block: got {got}, expected at least {lowest}")]
    SideBlockAge { got: u64, lowest: u64 },
    /// There is no space for the side block, because all others have more total difficulty.
    #[error(
        "{max} side blocks are stored; got total difficulty {got}, expected more than the least of theirs"
    )]
    TooManySideBlocks { got: U256, max: usize },
    /// There is no space for the side block, because all others have more total difficulty.
    #[error(
        "side blocks have {max} bytes; got total difficulty {got}, expected more than the least of theirs"
    )]
    TooManySideBytes { got: U256, max: u64 },
    /// The block's branch is the heavier one, but leaves the chain too far below the head.
    #[error("depth of the reorganization: got {got} blocks, expected at most {max}")]
    ReorgDepth { got: u64, max: u64 },
    /// The block follows rules that this program does not have.
    #[error("the rules of `{rules}` begin at this block, and this program does not have them")]
    UnsupportedRules {
        /// The name of the rules in the genesis file.
        rules: String,
    },
    /// The block was executed before and found invalid.
    #[error("the block was refused before: {reason}")]
    KnownInvalid { reason: Arc<str> },
    /// The import panicked. Nothing of the block was stored.
    #[error("a panic, which is a fault of this program: {0}")]
    Panicked(PanicMessage),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state could not be read.
    #[error(transparent)]
    State(#[from] StateError),
}

impl From<BlockExecutionError> for ImportError {
    fn from(error: BlockExecutionError) -> Self {
        match error {
            BlockExecutionError::State(error) => Self::State(error),
            BlockExecutionError::Refused { index, hash, error } => Self::Transaction { index, hash, error },
        }
    }
}

impl ImportError {
    /// The store's error, if the import failed because of the store. Then the block may be valid.
    pub fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error)
            | Self::State(StateError(error))
            | Self::Body(BodyError::Store(error))
            | Self::Transaction {
                error: TransactionError::State(StateError(error)),
                ..
            } => Some(error),
            Self::Branch { error, .. } | Self::OfHeader { error, .. } => error.store_error(),
            _ => None,
        }
    }

    /// Like [`Self::store_error`], by value.
    pub(super) fn into_store_error(self) -> Option<StoreError> {
        match self {
            Self::Store(error)
            | Self::State(StateError(error))
            | Self::Body(BodyError::Store(error))
            | Self::Transaction {
                error: TransactionError::State(StateError(error)),
                ..
            } => Some(error),
            Self::Branch { error, .. } | Self::OfHeader { error, .. } => error.into_store_error(),
            _ => None,
        }
    }

    /// The same error, about the earlier block `id` of a branch.
    pub(super) fn in_branch(self, id: &BlockId) -> Self {
        Self::Branch {
            number: id.number,
            hash: id.hash,
            error: Box::new(self),
        }
    }

    /// The same error, about the header `id` of a run of headers.
    pub(super) fn of_header(self, id: &BlockId) -> Self {
        Self::OfHeader {
            number: id.number,
            hash: id.hash,
            error: Box::new(self),
        }
    }

    /// Whether the error shows that the block with this header is invalid for good, or an earlier
    /// block of its branch: whatever body comes with the header.
    pub fn proves_invalid(&self) -> bool {
        match self {
            Self::Branch { error, .. } => error.proves_invalid(),
            // Another body may be the header's.
            Self::Body(BodyError::TransactionsRoot { .. } | BodyError::UnclesHash { .. }) => false,
            Self::Body(_) => self.is_invalid_block(),
            other => other.is_execution_failure(),
        }
    }

    /// Whether the block or the named header itself is invalid, so that it will be refused whenever
    /// it comes.
    ///
    /// Not so for a failure of the store or of a light cache, for a block from the future, and for
    /// an earlier block of the branch.
    pub fn is_invalid_block(&self) -> bool {
        match self {
            Self::Header(error) => !matches!(error, HeaderError::Future { .. }),
            Self::Seal(error) => !matches!(error, SealCheckError::Cache(_)),
            Self::Body(error) => !matches!(
                error,
                BodyError::Store(_)
                    | BodyError::UncleSeal {
                        error: SealCheckError::Cache(_),
                        ..
                    }
            ),
            Self::KnownInvalid { .. } => true,
            Self::OfHeader { error, .. } => error.is_invalid_block(),
            other => other.is_execution_failure(),
        }
    }

    /// Whether executing the block has shown that it is invalid. Every execution would show the
    /// same.
    pub(super) fn is_execution_failure(&self) -> bool {
        self.store_error().is_none()
            && matches!(
                self,
                Self::Transaction { .. }
                    | Self::StateRoot { .. }
                    | Self::ReceiptsRoot { .. }
                    | Self::Bloom { .. }
                    | Self::GasUsed { .. }
            )
    }
}
