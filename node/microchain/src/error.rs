//! Why the engine or a read fails.

use chain::call::EvmCallError;
use chain::genesis::GenesisError;
use chain::state::StateError;
use store::StoreError;

/// Why the engine cannot go on for now. It has lost nothing: the next event tries again.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The setup cannot be that of a MicroChain.
    #[error("setup of the MicroChain: {0}")]
    Setup(String),
    /// The store has another chain.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state could not be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// DappBase could not be asked.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A call could not be run.
    #[error(transparent)]
    Call(#[from] EvmCallError),
    /// A contract of the MicroChain answered with other bytes than its function has.
    #[error("{function}: {error}")]
    Answer {
        /// The function.
        function: &'static str,
        /// What is wrong.
        error: String,
    },
}
