//! A server of application chains (SCS): one connection to a VNODE, one account on the base chain,
//! and an engine for each MicroChain.
//!
//! | question | module |
//! |---|---|
//! | which chain bases are followed, and what happens with an event? | [`runner`] |
//! | how is a chain base read? | [`base`], through a [`source`] |
//! | when does an earlier reading of it still hold? | [`refresh`] |
//! | how do transactions get into the base chain? | [`account`] |
//! | how does an engine run? | [`worker`] |
//! | which MicroChains does the data directory have? | [`folders`] |
//! | what do clients see? | [`served`] |
//!
//! What a member of a MicroChain does is in the package `microchain`, how messages travel in
//! `scs_service`, which methods clients call in `rpc`. Knows no options, no files of settings and
//! no sockets.

pub mod account;
pub mod base;
pub mod folders;
pub mod refresh;
pub mod runner;
pub mod served;
pub mod source;
pub mod worker;

pub use microchain::event::PERIOD_SECS_MAX;

pub use folders::FolderError;
pub use runner::{ScsNodeConfig, ScsRunner, ScsRunnerError};
