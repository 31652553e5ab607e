//! The errors of the engine and of reads.

use chain::application::ExtraError;
use chain::call::{CallOutcome, EvmCallError};
use chain::genesis::GenesisError;
use chain::state::StateError;
use store::StoreError;

use crate::abi::AbiError;
use crate::admission::TransactionRefusal;
use crate::event::PERIOD_SECS_MAX;

/// The reason why the engine cannot go on for now. Nothing is lost: the next event tries again.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The period is not that of a MicroChain.
    #[error("setup of the MicroChain: seconds of a slot: got {got}, expected 1 to {PERIOD_SECS_MAX}")]
    Period {
        /// The seconds.
        got: u64,
    },
    /// A block that was built here has no space for the signature.
    #[error("setup of the MicroChain: {0}")]
    Extra(#[from] ExtraError),
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

/// The reason why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The SCS has joined a short while ago, and the state of the MicroChain is not here yet.
    #[error(
        "the state of the MicroChain: got a part of a snapshot so far, expected all of it; try again later"
    )]
    Joining,
    /// The chain begins with a later block here.
    #[error(
        "block of the MicroChain: got {got}, which is not kept here, expected block {first} or a later one"
    )]
    BlockNotKept {
        /// The block.
        got: u64,
        /// The first block from which on there are all.
        first: u64,
    },
    /// A call could not be run.
    #[error(transparent)]
    Call(#[from] EvmCallError),
    /// A function of a contract of the MicroChain failed.
    #[error("{function}: got {got:?}, expected a result")]
    Failed {
        /// The function.
        function: &'static str,
        /// The outcome of the call.
        got: Box<CallOutcome>,
    },
    /// A transaction is not taken.
    #[error(transparent)]
    Refused(#[from] Box<TransactionRefusal>),
    /// A transaction with this content would fail without being run.
    #[error("not allowed on this MicroChain: {0}")]
    NotAllowed(String),
    /// A contract of the MicroChain answered with other bytes than its function has.
    #[error("{function}: {error}")]
    Answer {
        /// The function.
        function: &'static str,
        /// The fault.
        error: AbiError,
    },
}
