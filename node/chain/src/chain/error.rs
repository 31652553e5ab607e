//! Errors of opening a chain, of taking a transaction, and of changing the chain.

use store::StoreError;

use super::early_blocks::TooManyEarlyBlocks;
use crate::genesis::GenesisError;
use crate::import::ImportError;
use crate::mining::work::SolutionError;
use crate::pool::PoolError;
use crate::rules::body::SenderError;
use crate::state::StateNotKept;

/// The reason why the chain cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ChainOpenError {
    /// The store holds another chain, or block 0 cannot be written.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A reorganization that was cut short cannot go on.
    #[error(transparent)]
    Reorganization(#[from] ImportError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// The reason why a transaction is not taken into the pool.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The transaction has no sender on this chain.
    #[error(transparent)]
    Sender(#[from] SenderError),
    /// The pool refuses the transaction.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The node is still fetching a state.
    #[error(transparent)]
    NotKept(#[from] StateNotKept),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reason why the chain was not changed: by a block, by a solution, or by setting the head
/// back.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The solution is not accepted.
    #[error(transparent)]
    Solution(#[from] SolutionError),
    /// The block is refused.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The block is ahead of the clock, and there is no space for it to wait.
    #[error(transparent)]
    Early(#[from] TooManyEarlyBlocks),
    /// The head cannot be set to a block above it.
    #[error("block {got} is above the head block {head}")]
    AboveHead {
        /// The requested block number.
        got: u64,
        /// The number of the head.
        head: u64,
    },
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
    /// The chain has ended for the given reason and takes no more blocks.
    #[error("no more blocks can be taken: {0}")]
    Failed(String),
}
