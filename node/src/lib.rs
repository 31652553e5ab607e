//! The node: options, configuration and wiring of the base-chain node.
//!
//! The one place where `chain`, `miner` and `rpc` meet. Decides what runs with what; how
//! any of it works is in those packages.

mod banner;
mod logging;
mod mining;
mod options;
pub mod testvec;
mod vnode;
mod vnodeconfig;

pub use options::{DatasetChoice, OptionsError, VnodeOptions};
pub use vnode::{StartError, client_version, run};
pub use vnodeconfig::{ConfigError, VnodeConfig};
