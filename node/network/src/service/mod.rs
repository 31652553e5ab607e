//! Runs the logic of this package on sockets: listener, dials, discovery, router, connections.
//!
//! [`NetworkService`] owns the tasks and threads. [`NetworkHandle`] answers questions about peers
//! and changes the lists of nodes. Knows neither options nor JSON-RPC.

mod connection;
mod core;
mod dialing;
mod finding;
mod handle;
mod syncing;
mod threads;
mod traffic;

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chain::Chain;
use crossbeam_channel::bounded;
use parking_lot::Mutex;
use primitives::{B512, SecretKey};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use self::core::{Core, CoreState};
use crate::address::AddressRanges;
use crate::contact::NodeContact;
use crate::dial::{DialSettings, Dialer, InboundGuard};
use crate::discovery::{Discovery, DiscoveryDialect, DiscoverySettings, DiscoverySocket, SEEDS_MAX};
use crate::entropy::{Entropy, EntropyError};
use crate::fork_id::fork_filter;
use crate::messages::WireFamily;
use crate::moment::SystemClock;
use crate::nat::{NatOption, NatStatus, PortRequest, TransportProtocol, find_gateway, keep_mapped};
use crate::node_files::SeenNodes;
use crate::peers::{BLOCKS_WAITING_MAX, ChainAccess, ChainAccessError, HubSettings, PeerHub};
use crate::rlpx::{RlpxDisconnect, RlpxSettings};
use crate::sockets::PeerListener;
use crate::sync::ChainSync;
use dialing::DialLoop;
use finding::FindingLoop;
use syncing::SyncInbox;

pub use self::core::{ApplicationChains, OUTBOX_MESSAGES_MAX, PeerReport};
pub use connection::PEER_JOBS_MAX;
pub use handle::NetworkHandle;
pub use traffic::TrafficCounters;

/// The version of the base protocol in the Hello: from 5 on messages are compressed.
const BASE_VERSION: u64 = 5;
/// Nodes that discovery must still be told of. More are left out.
const AGREED_MAX: usize = 64;
/// How long the node waits for its Disconnects to be sent when it stops.
const STOP_WAIT: Duration = Duration::from_millis(300);
/// How often the end of the connections is looked at meanwhile.
const STOP_STEP: Duration = Duration::from_millis(10);

/// What a node says and allows.
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
    /// Where the node listens, for TCP and UDP. Port 0 chooses a free one.
    pub listen: SocketAddr,
    /// Whether nodes are looked for.
    pub has_discovery: bool,
    /// The nodes that are asked first.
    pub boot_nodes: Vec<NodeContact>,
    /// The router.
    pub nat: NatOption,
    /// If there are some, only nodes in these ranges are spoken to.
    pub ranges: Option<AddressRanges>,
    /// The most peers. Static and trusted ones do not count.
    pub peers_max: usize,
    /// The folder of the file with the seen nodes.
    pub folder: PathBuf,
    /// The nodes that should always be peers.
    pub static_nodes: Vec<NodeContact>,
    /// The nodes that may always come.
    pub trusted_nodes: Vec<B512>,
}

/// Why the network does not start.
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
    tasks: Vec<JoinHandle<()>>,
    finding: Option<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    /// Dropping it ends the mappings of the router.
    listener: PeerListener,
}

impl NetworkService {
    /// Starts to listen, to dial and to look for nodes.
    ///
    /// # Errors
    /// [`NetworkStartError`] if the node cannot listen.
    pub async fn start(settings: NetworkSettings, chain: Chain) -> Result<Self, NetworkStartError> {
        let mut entropy = Entropy::from_system()?;
        let heads = chain.subscribe();
        let access: Arc<dyn ChainAccess> = Arc::new(chain.clone());
        let listen_error = |source| NetworkStartError::Listen {
            address: settings.listen,
            source,
        };
        let socket = TcpListener::bind(settings.listen).await.map_err(listen_error)?;
        let address = socket.local_addr().map_err(listen_error)?;
        let hub = new_hub(&settings, &chain, Arc::clone(&access), entropy.fork())?;
        let (checks, checks_inbox) = bounded(BLOCKS_WAITING_MAX);
        let (imports, imports_inbox) = bounded(BLOCKS_WAITING_MAX);
        let (agreed, agreed_inbox) = mpsc::channel(AGREED_MAX);
        let (sync_inbox, sync_inputs) = SyncInbox::new();
        let outcomes = sync_inbox.clone();
        let genesis = hub.genesis();
        let sync = ChainSync::start(chain.clone(), genesis, move |outcome| outcomes.outcome(outcome))
            .map_err(NetworkStartError::Thread)?;
        let core = Arc::new(Core {
            sync: sync_inbox,
            sync_status: sync.shared(),
            state: Mutex::new(CoreState {
                hub,
                dialer: new_dialer(&settings),
                trusted: settings.trusted_nodes.iter().copied().collect(),
                outboxes: Default::default(),
                reports: Default::default(),
                is_stopping: false,
            }),
            chain: access,
            clock: SystemClock::start(),
            checks,
            imports,
            timer: Notify::new(),
            dial: Notify::new(),
            application_chains: OnceLock::new(),
            traffic: Default::default(),
            agreed,
        });
        for (name, jobs) in [("peer-checks", checks_inbox), ("peer-imports", imports_inbox)] {
            let core = Arc::downgrade(&core);
            threads::start(name, move || threads::work(&core, &jobs)).map_err(NetworkStartError::Thread)?;
        }
        let follower = Arc::downgrade(&core);
        threads::start("peer-news", move || threads::follow(&follower, &chain, &heads))
            .map_err(NetworkStartError::Thread)?;

        let syncing = Arc::downgrade(&core);
        threads::start("sync", move || syncing::run(&syncing, sync, &sync_inputs))
            .map_err(NetworkStartError::Thread)?;

        let rlpx = rlpx_settings(&settings);
        let guard = InboundGuard::new(settings.ranges.clone());
        let (listener, inbound) =
            PeerListener::start(socket, settings.key.clone(), rlpx.clone(), guard, entropy.fork())
                .map_err(listen_error)?;
        let dial_loop = DialLoop {
            core: Arc::clone(&core),
            key: settings.key.clone(),
            settings: rlpx,
            family: settings.family,
            entropy: entropy.fork(),
        };
        let (stop, stopped) = watch::channel(false);
        let (nat, nat_status) = watch::channel(NatStatus::default());
        let mut tasks = vec![
            tokio::spawn(dialing::take_inbound(Arc::clone(&core), settings.family, inbound)),
            tokio::spawn(dial_loop.run()),
            tokio::spawn(run_timer(Arc::clone(&core))),
        ];
        tasks.push(tokio::spawn(open_ports(
            settings.nat,
            address.port(),
            settings.has_discovery,
            nat,
        )));
        let finding = if settings.has_discovery {
            let address = SocketAddr::new(settings.listen.ip(), address.port());
            let socket = UdpSocket::bind(address).await.map_err(listen_error)?;
            let (finding, events) =
                start_discovery(&settings, &core, socket, &mut entropy).map_err(listen_error)?;
            Some(tokio::spawn(finding.run(
                events,
                agreed_inbox,
                nat_status.clone(),
                stopped,
            )))
        } else {
            None
        };
        let handle = NetworkHandle::new(core, &settings, address, nat_status);
        Ok(Self {
            handle,
            tasks,
            finding,
            stop,
            listener,
        })
    }

    /// Answers questions about peers.
    pub const fn handle(&self) -> &NetworkHandle {
        &self.handle
    }

    /// Tells the peers that the node stops, and ends all tasks.
    pub async fn stop(self) {
        let core = self.handle.core();
        drop(self.listener);
        {
            let mut state = core.state.lock();
            state.is_stopping = true;
            let peers: Vec<_> = state.outboxes.keys().copied().collect();
            for peer in peers {
                let actions = state.hub.drop_peer(peer, RlpxDisconnect::Quitting, core.now());
                core.perform(&mut state, actions);
            }
        }
        for task in self.tasks {
            task.abort();
        }
        // Whoever keeps the seen nodes writes them when it hears this.
        let _ = self.stop.send(true);
        if let Some(finding) = self.finding {
            let _ = tokio::time::timeout(STOP_WAIT, finding).await;
        }
        let end = tokio::time::Instant::now() + STOP_WAIT;
        while tokio::time::Instant::now() < end && !core.state.lock().reports.is_empty() {
            tokio::time::sleep(STOP_STEP).await;
        }
    }
}

fn new_hub(
    settings: &NetworkSettings,
    chain: &Chain,
    access: Arc<dyn ChainAccess>,
    entropy: Entropy,
) -> Result<PeerHub, ChainAccessError> {
    let reader = access.reader()?;
    let genesis = reader.canonical_hash(0)?.unwrap_or_default();
    let head = access.head()?;
    let dialled_max = new_dialer(settings).dialled_max();
    let hub = HubSettings {
        family: settings.family,
        network_id: settings.network_id,
        genesis,
        forks: fork_filter(chain.spec(), genesis, head.number),
        peers_max: settings.peers_max,
        // Without discovery only static nodes are dialled, and they take no places.
        inbound_max: if settings.has_discovery {
            (settings.peers_max - dialled_max.min(settings.peers_max)).max(1)
        } else {
            settings.peers_max
        },
    };
    Ok(PeerHub::new(hub, access, head, entropy))
}

fn new_dialer(settings: &NetworkSettings) -> Dialer {
    let mut dialer = Dialer::new(DialSettings {
        id: settings.key.public_key(),
        peers_max: settings.peers_max,
        ranges: settings.ranges.clone(),
    });
    for node in &settings.static_nodes {
        dialer.add_static(*node, Duration::ZERO);
    }
    dialer
}

fn rlpx_settings(settings: &NetworkSettings) -> RlpxSettings {
    RlpxSettings {
        version: BASE_VERSION,
        client: settings.client.clone(),
        capabilities: settings.family.offers(),
        port: 0,
        message_bytes_max: settings.family.message_bytes_max(),
    }
}

/// Calls the hub at its deadlines, for ever.
async fn run_timer(core: Arc<Core>) {
    loop {
        let deadline = core.state.lock().hub.deadline();
        let instant = deadline.and_then(|deadline| core.clock.instant(deadline));
        let due = async {
            match instant {
                Some(instant) => tokio::time::sleep_until(instant.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => {
                core.with_hub(|hub, now| hub.on_time(now));
            }
            () = core.timer.notified() => {}
        }
    }
}

/// Looks for a router and keeps the port open on it.
async fn open_ports(option: NatOption, port: u16, has_discovery: bool, status: watch::Sender<NatStatus>) {
    let Some(port) = NonZeroU16::new(port) else { return };
    let Some(gateway) = find_gateway(option).await else {
        return;
    };
    let protocols = [TransportProtocol::Tcp, TransportProtocol::Udp];
    let protocols = protocols.into_iter().take(1 + usize::from(has_discovery));
    let requests = protocols.map(|protocol| PortRequest { protocol, port }).collect();
    keep_mapped(gateway, requests, status).await;
}

fn start_discovery(
    settings: &NetworkSettings,
    core: &Arc<Core>,
    socket: UdpSocket,
    entropy: &mut Entropy,
) -> io::Result<(FindingLoop, mpsc::Receiver<crate::discovery::DiscoveryEvent>)> {
    let now = core.now();
    let seen = SeenNodes::open(&settings.folder, now.unix);
    let mut seeds = settings.boot_nodes.clone();
    seeds.extend(seen.latest().map(|node| node.contact));
    seeds.truncate(SEEDS_MAX);
    let endpoint = finding::endpoint(settings.listen.ip(), socket.local_addr()?.port());
    let discovery = DiscoverySettings {
        dialect: match settings.family {
            WireFamily::Eth => DiscoveryDialect::Ethereum,
            WireFamily::Mc => DiscoveryDialect::Public {
                network_id: settings.network_id,
            },
        },
        endpoint,
        seeds,
        ranges: settings.ranges.clone(),
        is_strict: false,
        fork_id: core.state.lock().hub.fork_id(),
        // The time rises from start to start.
        record_sequence: u64::try_from(now.unix.as_millis()).unwrap_or(u64::MAX),
    };
    let discovery = Discovery::new(settings.key.clone(), discovery, now, entropy.fork());
    let (socket, events) = DiscoverySocket::start(socket, discovery, core.clock)?;
    let finding = FindingLoop {
        core: Arc::clone(core),
        socket,
        seen,
        endpoint,
        entropy: entropy.fork(),
    };
    Ok((finding, events))
}
