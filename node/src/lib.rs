//! The node: options, configuration and wiring of the base-chain node.
//!
//! The one place where `chain`, `miner` and `rpc` meet. Decides what runs with what; how
//! any of it works is in those packages.

pub mod accounts;
mod banner;
pub mod commands;
pub mod limits;
mod logging;
mod mining;
mod options;
mod passwords;
pub mod testvec;
mod txpool;
mod vnode;
mod vnodeconfig;

pub use options::{
    AccountRef, Command, DatasetChoice, DbCommand, HeightRef, Network, OptionsError, VnodeOptions,
};
pub use passwords::PasswordError;
pub use txpool::TxPoolOptions;
pub use vnode::{StartError, client_version, run};
pub use vnodeconfig::{ConfigError, VnodeConfig};
