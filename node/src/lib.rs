//! The node: options, configuration and wiring of the base-chain node.
//!
//! The one place where `chain`, `miner` and `rpc` meet. Decides what runs with what; how
//! any of it works is in those packages.

pub mod accounts;
mod banner;
pub mod commands;
pub mod console;
mod files;
mod limits;
mod listener;
mod logging;
mod mining;
mod network;
mod nodekey;
mod options;
mod passwords;
mod servers;
pub mod stratum;
pub mod system;
pub mod testvec;
mod txpool;
mod vnode;
mod vnodeconfig;

pub use limits::{LimitOptions, Seconds};
pub use network::NetworkError;
pub use nodekey::NodeKeyError;
pub use options::{
    AccountRef, Command, DatasetChoice, DbCommand, HeightRef, Network, OptionsError, VnodeOptions,
};
pub use passwords::PasswordError;
pub use txpool::TxPoolOptions;
pub use vnode::{StartError, client_version, run};
pub use vnodeconfig::{ConfigError, VnodeConfig};
