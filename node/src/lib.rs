//! The node: options, configuration and wiring of the base-chain node.
//!
//! This is the only package where `chain`, `miner` and `rpc` meet. It decides which parts run and
//! connects them; the parts themselves are implemented in those packages.

pub mod accounts;
mod banner;
mod block_finders;
pub mod commands;
mod config_file;
pub mod console;
mod dashboard;
mod data_directory;
mod exposure;
mod files;
mod guards;
mod listener;
mod log_file;
mod logging;
mod mining;
mod node_metrics;
mod nodekey;
mod options;
mod output;
pub mod package;
mod passwords;
mod peers;
mod scs;
mod scs_demo;
pub mod scs_program;
mod servers;
mod service_manager;
mod span_export;
pub mod stratum;
mod sync_rate;
mod sync_row;
pub mod system;
pub mod testvec;
mod token_file;
mod version;
mod vnode;
mod vnodeconfig;

pub use config_file::ConfigError;
pub use data_directory::DataDirectoryError;
pub use guards::GuardsError;
pub use logging::LogStartError;
pub use nodekey::NodeKeyError;
pub use options::{
    AccessOptions, AccountCommand, AccountRef, BootNodes, ClientAccess, DbCommand, DevSeal, DnsLists,
    HeightRef, LimitOptions, LogOptions, MinerDatasetOption, Network, NodeEndpoint, NodeEndpointError,
    NodeProgram, OptionsError, OptionsFileError, PeerOptions, ScsOptions, Seconds, TxPoolOptions,
    VnodeCommand, VnodeOptions, parse_options, write_options,
};
pub use passwords::PasswordError;
pub use peers::NetworkError;
pub use scs::ScsStartError;
pub use scs_demo::ScsDemoError;
pub use servers::ServersError;
pub use token_file::TokenFileError;
pub use version::client_version;
pub use vnode::{StartError, run, run_demo};
pub use vnodeconfig::VnodeConfig;
