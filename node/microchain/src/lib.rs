//! The chain of one MicroChain, and what a member does (docs/microchain-design.md).
//!
//! | question | module |
//! |---|---|
//! | what comes to the engine, and what goes out? | [`event`] |
//! | what is read from the chain base, and what is called there? | [`contract`] |
//! | what does a VNODE tell of the base chain itself? | [`branch`] |
//! | how are arguments and results of contracts written? | [`abi`] |
//! | what does a member do with it? | `engine` |
//! | which messages do SCSs send each other? | `message` |
//! | what do clients read? | [`reader`], `records` |
//! | why does something fail? | `error` |
//! | what is a valid block header? | `block` |
//! | how is a block executed and stored? | `ledger`, with the package `chain` |
//! | which transactions wait? | `pool` |
//! | which may wait? | `admission` |
//! | which of them does a producer take into a block? | `fill` |
//! | what is asked of DappBase? | `dapp_base` |
//! | which contracts are known by their code? | [`codes`] |
//! | what must survive a crash? | `memory` |
//! | what does an SCS that joins take in place of all blocks? | `snapshot` |
//!
//! ```text
//! base chain ── ContractState ──►┌────────┐── Action::Call ──► base chain
//! other SCSs ── PeerMessage ────►│ Engine │── Action::Send ──► other SCSs
//! clients ───── Transaction ────►└────────┘── Reader ────────► clients
//! ```
//!
//! Blocks are executed and stored by the packages `chain` and `store`. This package knows time as a
//! number that comes with each event. It knows no sockets, no JSON and no threads.

pub mod abi;
mod admission;
mod block;
pub mod branch;
pub mod codes;
pub mod contract;
mod dapp_base;
mod engine;
mod error;
pub mod event;
mod fill;
mod ledger;
mod memory;
mod message;
mod pool;
pub mod reader;
mod records;
mod snapshot;

#[cfg(test)]
use features as _;

pub use admission::TransactionRefusal;
pub use contract::{BaseCall, ContractState};
pub use engine::MemberEngine;
pub use error::EngineError;
pub use event::{Action, DappBaseRules, EngineOptions, Event, MemberMessage, MicroChainSetup};
pub use reader::Reader;
