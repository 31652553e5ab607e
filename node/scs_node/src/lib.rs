//! A server of application chains (SCS): one connection to a VNODE, one account on the base chain,
//! and an engine for each MicroChain.
//!
//! | question | module |
//! |---|---|
//! | which chain bases are followed, and what happens with an event? | `runner` |
//! | how is a chain base read? | `base`, through a `source` |
//! | when does an earlier reading of it still hold? | `refresh` |
//! | how do transactions get into the base chain? | `account` |
//! | how does an engine run? | `worker` |
//! | which MicroChains does the data directory have? | `folders` |
//! | what do clients see? | `served` |
//!
//! The work of a member of a MicroChain is in the package `microchain`, the transport of messages
//! in `scs_service`, the methods for clients in `rpc`. Knows no options, no files of settings and
//! no sockets.

mod account;
mod base;
mod folders;
mod refresh;
mod runner;
mod served;
mod source;
mod worker;

pub use microchain::event::PERIOD_SECS_MAX;

pub use folders::FolderError;
pub use runner::{EngineStartError, ScsNodeConfig, ScsRunner, ScsRunnerError};
