//! What a member of a MicroChain does: the engine of one MicroChain.

use primitives::Address;

use crate::event::{Action, EngineOptions, Event, MicroChainSetup};
use crate::reader::Reader;

/// Why the engine cannot go on for now. It has lost nothing: the next event tries again.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The setup cannot be that of a MicroChain.
    #[error("setup of the MicroChain: {0}")]
    Setup(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::StoreError),
}

/// The engine of one MicroChain. One thread works with it; clients read through [`Reader`]s.
#[derive(Debug)]
pub struct Engine {
    setup: MicroChainSetup,
    id: Address,
    reader: Reader,
}

impl Engine {
    /// Opens the chain in the folder of `options`, or makes it with block 0. The chain starts when
    /// a [`ContractState`](crate::ContractState) says that it has started.
    ///
    /// # Errors
    /// [`EngineError`] if the store fails or has another chain.
    pub fn open(setup: MicroChainSetup, options: &EngineOptions) -> Result<Self, EngineError> {
        Ok(Self {
            setup,
            id: options.key.address(),
            reader: Reader::default(),
        })
    }

    /// Takes an event at the time `now_ms`, in unix milliseconds, and returns what is to be done.
    ///
    /// # Errors
    /// [`EngineError`] if the store failed, for example because the disk is full. Nothing is lost.
    pub fn handle(&mut self, _now_ms: u64, _event: Event) -> Result<Vec<Action>, EngineError> {
        Ok(Vec::new())
    }

    /// When [`Event::Tick`] is to be given next, in unix milliseconds.
    pub fn next_tick(&self, now_ms: u64) -> u64 {
        now_ms + 1000 * self.setup.period_secs
    }

    /// From which position on [`ContractState::deposits`](crate::ContractState::deposits) are
    /// wanted.
    pub fn deposits_from(&self) -> u64 {
        0
    }

    /// The id of this SCS.
    pub const fn id(&self) -> Address {
        self.id
    }

    /// What the MicroChain is.
    pub const fn setup(&self) -> &MicroChainSetup {
        &self.setup
    }

    /// A reader for clients.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }
}
