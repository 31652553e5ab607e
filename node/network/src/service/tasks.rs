//! The tasks around the connections of one network: listener, dials, deadlines, router, discovery.
//!
//! The chain's network and the networks of application chains have them alike.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use primitives::B512;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::NetworkSettings;
use super::core::Core;
use super::dialing::{self, DialLoop};
use super::dns;
use super::finding::{self, FindingLoop};
use crate::dial::InboundGuard;
use crate::discovery::{
    Discovery, DiscoveryDialect, DiscoveryEvent, DiscoverySettings, DiscoverySocket, DiscoveryValues,
    SEEDS_MAX,
};
use crate::entropy::Entropy;
use crate::messages::WireFamily;
use crate::nat::{NatOption, NatStatus, PortRequest, TransportProtocol, find_gateway, keep_mapped};
use crate::node_files::SeenNodes;
use crate::rlpx::{RlpxDisconnect, RlpxSettings};
use crate::sockets::PeerListener;

/// The version of the base protocol in the Hello: from 5 on messages are compressed.
const BASE_VERSION: u64 = 5;
/// How long the node waits for its Disconnects to be sent when it stops.
const STOP_WAIT: Duration = Duration::from_millis(300);
/// How often the end of the connections is looked at meanwhile.
const STOP_STEP: Duration = Duration::from_millis(10);

/// The sockets of a network. Without the second one there is no discovery.
pub(super) struct NetworkSockets {
    pub(super) connections: TcpListener,
    pub(super) discovery: Option<UdpSocket>,
}

impl NetworkSockets {
    /// Opens sockets of the same port for TCP and UDP.
    pub(super) async fn bind(listen: SocketAddr, has_discovery: bool) -> io::Result<Self> {
        let connections = TcpListener::bind(listen).await?;
        let port = connections.local_addr()?.port();
        let discovery = if has_discovery {
            Some(UdpSocket::bind(SocketAddr::new(listen.ip(), port)).await?)
        } else {
            None
        };
        Ok(Self {
            connections,
            discovery,
        })
    }

    /// Where connections are accepted.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.connections.local_addr()
    }
}

/// The running tasks of a network.
pub(super) struct NetworkTasks {
    core: Arc<Core>,
    tasks: Vec<JoinHandle<()>>,
    finding: Option<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    listener: PeerListener,
    address: SocketAddr,
    nat: watch::Receiver<NatStatus>,
    values: Option<DiscoveryValues>,
}

impl NetworkTasks {
    /// Starts them. `agreed` are nodes whose Status fitted. Without `seen` no nodes are remembered
    /// over restarts.
    pub(super) fn start(
        settings: &NetworkSettings,
        core: &Arc<Core>,
        sockets: NetworkSockets,
        agreed: mpsc::Receiver<(B512, SocketAddr)>,
        seen: Option<SeenNodes>,
        entropy: &mut Entropy,
    ) -> io::Result<Self> {
        let address = sockets.address()?;
        let rlpx = rlpx_settings(settings);
        let guard = InboundGuard::new(settings.ranges.clone());
        let (listener, inbound) = PeerListener::start(
            sockets.connections,
            settings.key.clone(),
            rlpx.clone(),
            guard,
            entropy.fork(),
        )?;
        let dial_loop = DialLoop {
            core: Arc::clone(core),
            key: settings.key.clone(),
            settings: rlpx,
            family: settings.family,
            entropy: entropy.fork(),
        };
        let (stop, stopped) = watch::channel(false);
        let (nat, nat_status) = watch::channel(NatStatus::default());
        let has_discovery = sockets.discovery.is_some();
        let tasks = vec![
            tokio::spawn(dialing::take_inbound(Arc::clone(core), settings.family, inbound)),
            tokio::spawn(dial_loop.run()),
            tokio::spawn(run_timer(Arc::clone(core))),
            tokio::spawn(open_ports(settings.nat, address.port(), has_discovery, nat)),
        ];
        let mut own = Self {
            core: Arc::clone(core),
            tasks,
            finding: None,
            stop,
            listener,
            address,
            nat: nat_status.clone(),
            values: None,
        };
        if let Some(socket) = sockets.discovery {
            let (finding, events) = start_discovery(settings, core, socket, seen, entropy)?;
            own.values = Some(finding.socket.values());
            if let Some(reader) = dns::reader(settings, core, entropy) {
                own.add(tokio::spawn(reader.run()));
            }
            own.finding = Some(tokio::spawn(finding.run(events, agreed, nat_status, stopped)));
        }
        Ok(own)
    }

    /// Where connections are accepted.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is known of the router.
    pub(super) const fn nat(&self) -> &watch::Receiver<NatStatus> {
        &self.nat
    }

    /// Keys and values of discovery. `None` if there is no discovery.
    pub(super) const fn values(&self) -> Option<&DiscoveryValues> {
        self.values.as_ref()
    }

    /// Runs another task as long as these.
    pub(super) fn add(&mut self, task: JoinHandle<()>) {
        self.tasks.push(task);
    }

    /// Tells the peers that the network stops, and ends all tasks.
    pub(super) async fn stop(self) {
        let core = self.core;
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
    seen: Option<SeenNodes>,
    entropy: &mut Entropy,
) -> io::Result<(FindingLoop, mpsc::Receiver<DiscoveryEvent>)> {
    let now = core.now();
    let mut seeds = settings.boot_nodes.clone();
    seeds.extend(seen.iter().flat_map(SeenNodes::latest).map(|node| node.contact));
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
        is_strict: core.is_subnet,
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
