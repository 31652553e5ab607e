//! Why a block is refused, and whether that is for good.

use std::sync::Arc;

use primitives::B256;
use store::StoreError;

use crate::evm::execute::TransactionError;
use crate::rules::HeaderError;
use crate::rules::body::{BodyError, SealCheckError};
use crate::state::StateError;

/// Why a block is refused.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "fields are the value got and the value expected, as the texts say"
)]
pub enum ImportError {
    /// The parent is not known.
    #[error("unknown parent {0}")]
    UnknownParent(B256),
    /// The header breaks a rule.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The seal is wrong.
    #[error(transparent)]
    Seal(#[from] SealCheckError),
    /// The body is not what the header says, or breaks a rule.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// A transaction cannot stand where it stands.
    #[error("transaction {index} ({hash}): {error}")]
    Transaction {
        index: usize,
        hash: B256,
        error: TransactionError,
    },
    /// Executing gives another state.
    #[error("state root {got}, the header has {expected}")]
    StateRoot { got: B256, expected: B256 },
    /// Executing gives other receipts.
    #[error("receipts root {got}, the header has {expected}")]
    ReceiptsRoot { got: B256, expected: B256 },
    /// Executing gives other logs.
    #[error("logs bloom differs: executing gives {got_bits} bits, the header has {expected_bits}")]
    Bloom { got_bits: u32, expected_bits: u32 },
    /// Executing uses another amount of gas.
    #[error("gas used {got}, the header has {expected}")]
    GasUsed { got: u64, expected: u64 },
    /// An earlier block of the branch turns out bad when its turn to be executed comes.
    #[error("block {number} ({hash}) of its branch: {error}")]
    Branch {
        number: u64,
        hash: B256,
        error: Box<Self>,
    },
    /// The block follows rules that are not built here.
    #[error("the rules of `{rules}` hold from here on, which this program does not have")]
    Beyond {
        /// What the genesis file calls them.
        rules: String,
    },
    /// It was executed before, and is bad.
    #[error("it was refused before: {reason}")]
    Bad { reason: Arc<str> },
    /// There was a panic; nothing of it was kept.
    #[error("a panic, which is a fault of this program: {0}")]
    Panicked(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state could not be read.
    #[error(transparent)]
    State(#[from] StateError),
}

impl ImportError {
    /// The failure of the store behind it, where that is what it is: the block may be good.
    pub fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error)
            | Self::State(StateError(error))
            | Self::Body(BodyError::Store(error))
            | Self::Transaction {
                error: TransactionError::State(StateError(error)),
                ..
            } => Some(error),
            Self::Branch { error, .. } => error.store_error(),
            _ => None,
        }
    }

    /// Whether the block itself is at fault, so that it is bad wherever and whenever it comes.
    pub fn is_of_the_block(&self) -> bool {
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
            Self::Bad { .. } => true,
            other => other.is_verdict(),
        }
    }

    /// Whether executing the block has shown that it is bad, and always will.
    pub(super) fn is_verdict(&self) -> bool {
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
