//! A server of application chains (SCS): one connection to a VNODE, one account on the base chain,
//! and an engine for each MicroChain.
//!
//! | question | module |
//! |---|---|
//! | which chain bases are followed, and what happens with an event? | `runner` |
//! | how is a chain base read? | `base`, through a `source` |
//! | how is a VNODE checked that is not believed? | `proven` |
//! | which chain bases are joined, and what is signed for them? | [`admission`] |
//! | which withdrawals are too small? | `exchange` |
//! | when does an earlier reading of it still hold? | `refresh` |
//! | how much gas may a call use? | `gas` |
//! | how do transactions get into the base chain? | `account` |
//! | how does an engine run? | `worker` |
//! | which MicroChains does the data directory have? | `folders` |
//! | what do clients see? | `served` |
//! | what do ordinary wallets see? | `wallet` |
//! | what does the operator see? | `watch` |
//!
//! The work of a member of a MicroChain is in the package `microchain`, the transport of messages
//! in `scs_service`, the methods for clients in `rpc`. Knows no options, no files of settings and
//! no sockets.

mod account;
pub mod admission;
mod base;
mod checkpoint;
mod exchange;
mod folders;
mod gas;
mod proven;
mod refresh;
mod runner;
mod served;
mod source;
mod wallet;
mod watch;
mod worker;

pub use microchain::event::{CONFIRMATIONS_DEFAULT, CONFIRMATIONS_MAX, PERIOD_SECS_MAX};

pub use checkpoint::{BadCheckpoint, BaseCheckpoint};
pub use folders::FolderError;
pub use proven::{BaseCheckError, BaseChecks, BaseHeaderError, ProofRefusal};
pub use runner::{EngineStartError, ScsNodeConfig, ScsRunner, ScsRunnerError};
pub use served::{ChainFigures, ServedChains};
pub use watch::{GAS_MONEY_LOW, describe as describe_figures, is_gas_money_low, record as record_figures};
