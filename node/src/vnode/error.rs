//! The errors of a node's start, and of its end.

use chain::chain::ChainOpenError;
use chain::state::StateNotKept;
use daemon::listen_text;
use history::IndexFileError;
use network::NetworkStartError;
use rpc::developer::DeveloperError;
use store::StoreError;

use crate::accounts::AccountsError;
use crate::config_file::ConfigError;
use crate::dashboard::DashboardError;
use crate::data_directory::DataDirectoryError;
use crate::guards::GuardsError;
use crate::logging::LogStartError;
use crate::node_metrics::MetricsError;
use crate::nodekey::NodeKeyError;
use crate::options::OptionsError;
use crate::peers::NetworkError;
use crate::scs::ScsStartError;
use crate::seals::SealDeviceError;
use crate::servers::ServersError;

/// The error of what runs beside a node.
pub type CompanionError = Box<dyn std::error::Error + Send + Sync>;

/// An error that keeps a node from starting, or ends it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options contradict each other.
    #[error("{0}")]
    Options(#[from] OptionsError),
    /// The log cannot be started.
    #[error(transparent)]
    Log(#[from] LogStartError),
    /// `vnodeconfig.json` cannot be used.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The data directory cannot be used.
    #[error("{0}")]
    Directory(#[from] DataDirectoryError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Accounts cannot be read or unlocked.
    #[error("{0}")]
    Accounts(#[from] AccountsError),
    /// The card for seals cannot be used.
    #[error(transparent)]
    Seals(#[from] SealDeviceError),
    /// The chain cannot be opened.
    #[error(transparent)]
    Chain(#[from] ChainOpenError),
    /// `--syncmode snap` on a network whose peers give no states.
    #[error(
        "--syncmode snap: got the network {0:?}, expected one with Ethereum's protocol, such as classic or mordor"
    )]
    NoSnap(String),
    /// `--syncmode full` in a folder whose state is half fetched.
    #[error(
        "--syncmode full: got a folder whose state is being fetched, expected an empty one or one whose state is whole; --syncmode snap goes on with it"
    )]
    HalfState,
    /// The miner cannot start.
    #[error("{0}")]
    Miner(#[from] engine::MinerError),
    /// The context of the JSON-RPC methods cannot be created.
    #[error(transparent)]
    Node(#[from] rpc::NodeError),
    /// The index by address cannot be used.
    #[error(transparent)]
    Index(#[from] IndexFileError),
    /// The folder does not have the states of all blocks.
    #[error("--index address runs all blocks again: {0}")]
    IndexStates(StateNotKept),
    /// The thread that builds the index by address cannot be started.
    #[error("cannot start the thread for the index by address: {0}")]
    IndexThread(std::io::Error),
    /// The thread for notices of work cannot be started.
    #[error("cannot start the thread for notices of work: {0}")]
    Notices(std::io::Error),
    /// A server cannot start.
    #[error(transparent)]
    Servers(#[from] ServersError),
    /// The files with certificates, keys or tokens cannot be used.
    #[error(transparent)]
    Guards(#[from] GuardsError),
    /// The service for SCS servers cannot start.
    #[error(transparent)]
    Scs(#[from] ScsStartError),
    /// The node's own key cannot be read or created.
    #[error(transparent)]
    NodeKey(#[from] NodeKeyError),
    /// The stored lists of peers and subnets cannot be used.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The companion of the node failed.
    #[error(transparent)]
    Companion(CompanionError),
    /// The peer-to-peer network cannot start.
    #[error("{}", peers_text(.0))]
    Peers(#[from] NetworkStartError),
    /// The metrics cannot be served.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The dashboard cannot be served.
    #[error(transparent)]
    Dashboard(#[from] DashboardError),
    /// The first block of a development network cannot be made.
    #[error(transparent)]
    Developer(#[from] Box<DeveloperError>),
    /// The chain can accept no more blocks.
    #[error("stopped, because the chain can accept no more blocks: {0}")]
    Failed(String),
    /// The system failed to provide threads or signals.
    #[error("{what}: {source}")]
    System {
        /// The attempt.
        what: &'static str,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// The text for a network that cannot start. It names the option of the port.
fn peers_text(error: &NetworkStartError) -> String {
    match error {
        NetworkStartError::Listen { address, source } => {
            let option = format!("--port {} (peers)", address.port());
            listen_text(address, source, &option)
        }
        other => other.to_string(),
    }
}

pub(super) fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> StartError {
    move |source| StartError::System { what, source }
}
