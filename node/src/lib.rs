//! The node: options, configuration and wiring of the base-chain node.
//!
//! Here alone `chain`, `miner` and `rpc` meet. The package decides which parts run and connects
//! them; the parts themselves are implemented in those packages.

pub mod accounts;
mod banner;
pub mod commands;
pub mod config_file;
pub mod console;
pub mod dashboard;
pub mod data_directory;
pub mod exposure;
mod files;
pub mod guards;
mod listener;
mod log_file;
pub mod logging;
mod mining;
pub mod node_metrics;
mod nodekey;
mod options;
mod output;
mod passwords;
mod peers;
pub mod progress;
mod scs;
mod seals;
mod servers;
mod service_manager;
pub mod span_export;
mod sync_rate;
mod sync_row;
pub mod system;
pub mod testing;
mod token_file;
pub mod tools;
mod version;
mod vnode;
mod vnodeconfig;
mod work_notices;

pub use nodekey::NodeKeyError;
pub use options::{
    AccessOptions, AccountCommand, AccountRef, BootNodes, ClientAccess, DbCommand, DevSeal, DnsLists,
    ExportFormat, HeightRef, LimitOptions, LogOptions, MinerDatasetOption, Network, NodeEndpoint,
    NodeEndpointError, NodeProgram, OptionValueError, OptionsError, OptionsFileError, PARTITION_BLOCKS,
    PERIOD_SECS_MAX, PeerOptions, SHELLS, ScsOptions, Seconds, SyncMode, TABLES, TxPoolOptions, VnodeCommand,
    VnodeOptions, parse_options, states_of, vnode_command, write_options,
};
pub use output::print_line;
pub use passwords::PasswordError;
pub use peers::NetworkError;
pub use scs::ScsStartError;
pub use seals::SealDeviceError;
pub use servers::ServersError;
pub use token_file::TokenFileError;
pub use version::{client_version, print_version, version_of};
pub use vnode::{Companion, CompanionError, RunningNode, StartError, run, run_with};
pub use vnodeconfig::VnodeConfig;
