//! Runs the logic of this package on sockets: listener, dials, discovery, router, connections.
//!
//! [`NetworkService`] owns the tasks and threads. [`NetworkHandle`] answers questions about peers
//! and changes the lists of nodes. Knows neither options nor JSON-RPC.

mod bounds;
mod called_subnets;
mod connection;
mod core;
mod dialing;
mod dns;
mod finding;
mod handle;
mod offers;
mod outbox;
mod records;
mod state_threads;
mod subnets;
mod syncing;
mod tasks;
#[cfg(test)]
mod tests;
mod threads;
mod told;
mod traffic;

use std::io;
use std::iter;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use alloy_eip2124::ForkFilter;
use chain::Chain;
use chain::import::BlockId;
use futures_util::future::BoxFuture;
use primitives::{B256, B512, SecretKey};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::core::{Core, CoreInboxes, CoreParts};
use crate::address::AddressRanges;
use crate::contact::NodeContact;
use crate::dial::{DialSettings, DialTarget, Dialer};
use crate::dns::DnsListUrl;
use crate::entropy::{Entropy, EntropyError};
use crate::fork_id::fork_filter;
use crate::messages::WireFamily;
use crate::nat::{NatOption, find_gateway};
use crate::node_files::SeenNodes;
use crate::peers::{CHECKS_MAX, ChainAccess, ChainAccessError, HubSettings, PeerHub};
use crate::sync::ChainSync;
use subnets::SubnetKeeper;
use syncing::SyncInbox;
use tasks::{NetworkSockets, NetworkTasks};
use threads::ChainNews;

pub use self::core::{ApplicationChains, PeerReport};
pub use handle::NetworkHandle;
pub use subnets::{SubnetPlan, SubnetReport};
pub use traffic::TrafficCounters;

/// The node waits for its subnets for this long when it stops.
const SUBNETS_STOP_WAIT: Duration = Duration::from_secs(1);

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct NetworkSettings {
    /// The node's key.
    pub key: SecretKey,
    /// The client name in the Hello.
    pub client: String,
    /// The capability.
    pub family: WireFamily,
    /// The id of the network in Status and in discovery.
    pub network_id: u64,
    /// The address at which the node listens, for TCP and UDP. Port 0 chooses a free one. The
    /// unspecified address of IPv6 is for IPv4, too.
    pub listen: SocketAddr,
    /// The port of discovery, if not that of connections.
    pub discovery_port: Option<u16>,
    /// Whether nodes are looked for.
    pub has_discovery: bool,
    /// The nodes that are asked first.
    pub boot_nodes: Vec<NodeContact>,
    /// Published lists of nodes. They are not read without discovery.
    pub dns_lists: Vec<DnsListUrl>,
    /// The DNS server that is asked for them, if not that of the system.
    pub dns_server: Option<SocketAddr>,
    /// The router.
    pub nat: NatOption,
    /// If there are some, only nodes in these ranges are spoken to.
    pub ranges: Option<AddressRanges>,
    /// The most peers. Static and trusted ones do not count.
    pub peers_max: usize,
    /// The most handshakes at a time: of connections from outside, and of dials.
    pub pending_max: usize,
    /// The folder of the file with the seen nodes.
    pub folder: PathBuf,
    /// The nodes that should always be peers.
    pub static_nodes: Vec<DialTarget>,
    /// The nodes that may always come.
    pub trusted_nodes: Vec<B512>,
    /// The blocks that peers must have. At most
    /// [`REQUIRED_BLOCKS_MAX`](crate::REQUIRED_BLOCKS_MAX) count.
    pub required_blocks: Vec<BlockId>,
    /// Whether the log has lines about the progress of a synchronization.
    pub has_progress_lines: bool,
    /// Whether miners get no work while there are no peers, or before the chain is near theirs.
    pub work_needs_peers: bool,
    /// Whether the state of a recent block is fetched if the chain has block 0 only.
    pub fetches_state: bool,
}

/// The reason why the network does not start.
#[derive(Debug, thiserror::Error)]
pub enum NetworkStartError {
    /// The port is taken, or the address is not this machine's.
    #[error("cannot listen for peers on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The system gives no randomness.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The chain cannot be read.
    #[error(transparent)]
    Chain(#[from] ChainAccessError),
    /// A thread cannot be started.
    #[error("cannot start a thread of the network: {0}")]
    Thread(io::Error),
}

/// The running network of a node.
pub struct NetworkService {
    handle: NetworkHandle,
    tasks: NetworkTasks,
    subnets: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl NetworkService {
    /// Starts to listen, to dial and to look for nodes.
    ///
    /// # Errors
    /// [`NetworkStartError`] if the node cannot listen.
    pub fn start(
        settings: NetworkSettings,
        chain: Chain,
    ) -> BoxFuture<'static, Result<Self, NetworkStartError>> {
        Box::pin(Self::begin(settings, chain))
    }

    async fn begin(settings: NetworkSettings, chain: Chain) -> Result<Self, NetworkStartError> {
        let mut entropy = Entropy::from_system()?;
        let news = ChainNews::of(&chain);
        let access: Arc<dyn ChainAccess> = Arc::new(chain.clone());
        let listen_error = |source| NetworkStartError::Listen {
            address: settings.listen,
            source,
        };
        let sockets =
            NetworkSockets::bind(settings.listen, settings.has_discovery, settings.discovery_port).await?;
        let dialer = settings.dialer(&mut entropy);
        let genesis = access.reader()?.canonical_hash(0)?.unwrap_or_default();
        let head = access.head()?;
        let forks = fork_filter(chain.spec(), genesis, head.number);
        let hub = settings.hub(&dialer, genesis, forks);
        let mut hub = PeerHub::new(hub, Arc::clone(&access), head, entropy.fork());
        hub.require_blocks(&settings.required_blocks);
        let (sync_inbox, sync_inputs) = SyncInbox::new();
        let outcomes = sync_inbox.clone();
        let sync = ChainSync::start(chain.clone(), genesis, move |outcome| outcomes.outcome(outcome))
            .map_err(NetworkStartError::Thread)?;
        let sync = if settings.has_progress_lines {
            sync
        } else {
            sync.without_progress_lines()
        };
        let sync = if settings.work_needs_peers {
            sync.with_work_for_seen_networks()
                .map_err(ChainAccessError::from)?
        } else {
            sync
        };
        let sync = if settings.fetches_state {
            sync.with_fetched_state().map_err(ChainAccessError::from)?
        } else {
            sync
        };
        let (core, inboxes) = Core::new(CoreParts {
            hub,
            dialer,
            trusted: settings.trusted_nodes.iter().copied().collect(),
            chain: access,
            sync: sync_inbox,
            sync_status: sync.shared(),
            application_chains: Arc::default(),
            is_subnet: false,
            fetches_state: settings.fetches_state,
            bounds: Arc::default(),
        });
        let CoreInboxes {
            checks,
            imports,
            states,
            agreed,
        } = inboxes;
        state_threads::start(&core, &states).map_err(NetworkStartError::Thread)?;
        let checks = iter::repeat_n(("peer-checks", checks), CHECKS_MAX);
        for (name, jobs) in checks.chain([("peer-imports", imports)]) {
            let core = Arc::downgrade(&core);
            threads::start(name, move || threads::work(&core, &jobs)).map_err(NetworkStartError::Thread)?;
        }
        let follower = Arc::downgrade(&core);
        let followed = chain.clone();
        threads::start("peer-news", move || threads::follow(&follower, &followed, &news))
            .map_err(NetworkStartError::Thread)?;
        let syncing = Arc::downgrade(&core);
        threads::start("sync", move || syncing::run(&syncing, sync, &sync_inputs))
            .map_err(NetworkStartError::Thread)?;

        let seen = SeenNodes::open(&settings.folder, core.now().unix);
        let router = Box::pin(find_gateway(settings.nat));
        let tasks = NetworkTasks::start(
            &settings,
            &core,
            sockets,
            agreed,
            Some(seen),
            router,
            &mut entropy,
        )
        .map_err(listen_error)?;
        let (keeper, subnets) = SubnetKeeper::new(
            Arc::clone(&core),
            chain,
            settings.clone(),
            tasks.values().cloned(),
            entropy,
        );
        let (stop, stopped) = watch::channel(false);
        let handle = NetworkHandle::new(core, &settings, &tasks, subnets);
        Ok(Self {
            handle,
            tasks,
            subnets: threads::start_task(keeper.run(stopped)),
            stop,
        })
    }

    /// Answers questions about peers.
    pub const fn handle(&self) -> &NetworkHandle {
        &self.handle
    }

    /// Tells the peers that the node stops, and ends all tasks.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // The keeper ends the subnets when it hears this.
            let _ = self.stop.send(true);
            let subnets = tokio::time::timeout(SUBNETS_STOP_WAIT, self.subnets);
            let (_, ()) = tokio::join!(subnets, self.tasks.stop());
        })
    }
}

impl NetworkSettings {
    fn hub(&self, dialer: &Dialer, genesis: B256, forks: Option<ForkFilter>) -> HubSettings {
        HubSettings {
            family: self.family,
            network_id: self.network_id,
            genesis,
            forks,
            peers_max: self.peers_max,
            // Without discovery only static nodes are dialled, and they take no places.
            inbound_max: if self.has_discovery {
                (self.peers_max - dialer.dialled_max().min(self.peers_max)).max(1)
            } else {
                self.peers_max
            },
        }
    }

    fn dialer(&self, entropy: &mut Entropy) -> Dialer {
        let settings = DialSettings {
            id: self.key.public_key(),
            peers_max: self.peers_max,
            dials_max: self.pending_max,
            ranges: self.ranges.clone(),
        };
        let mut dialer = Dialer::new(settings, entropy.fork());
        for node in &self.static_nodes {
            dialer.add_static(node.clone(), Duration::ZERO);
        }
        dialer
    }
}
