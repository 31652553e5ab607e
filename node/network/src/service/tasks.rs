//! The tasks around the connections of one network: listener, dials, deadlines, router, discovery.
//!
//! The chain's network and the networks of application chains have them alike.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use primitives::B512;
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::core::Core;
use super::dialing::{self, DialLoop};
use super::dns;
use super::finding::FindingLoop;
use super::records::OwnRecord;
use super::threads::start_task;
use super::{NetworkSettings, NetworkStartError};
use crate::dial::InboundGuard;
use crate::discovery::{
    Discovery, DiscoveryDialect, DiscoveryEvent, DiscoveryHandle, DiscoverySettings, DiscoverySocket,
    PacketEndpoint, SEEDS_MAX,
};
use crate::entropy::Entropy;
use crate::messages::WireFamily;
use crate::messages::snap::SNAP_OFFER;
use crate::nat::{NatOption, NatStatus, PortRequest, RouterSearch, TransportProtocol, keep_mapped};
use crate::node_files::SeenNodes;
use crate::rlpx::{RlpxDisconnect, RlpxSettings};
use crate::sockets::PeerListener;

/// The version of the base protocol in the Hello: from 5 on messages are compressed.
const BASE_VERSION: u64 = 5;
/// Connections that the system keeps until they are accepted, as the runtime does.
const CONNECTIONS_WAITING_MAX: i32 = 1024;
/// The node waits for its Disconnects to be sent for this long when it stops.
const STOP_WAIT: Duration = Duration::from_millis(300);
/// The end of the connections is looked at meanwhile at this interval.
const STOP_STEP: Duration = Duration::from_millis(10);

/// The sockets of a network. Without the second one there is no discovery.
pub(super) struct NetworkSockets {
    pub(super) connections: TcpListener,
    pub(super) discovery: Option<UdpSocket>,
}

impl NetworkSockets {
    /// Opens the sockets. Discovery has the port of connections, unless there is a
    /// `discovery_port`; without `has_discovery` there is none.
    pub(super) async fn bind(
        listen: SocketAddr,
        has_discovery: bool,
        discovery_port: Option<u16>,
    ) -> Result<Self, NetworkStartError> {
        let failed = |address| move |source| NetworkStartError::Listen { address, source };
        let connections = listen_at(listen).await.map_err(failed(listen))?;
        let port = connections.local_addr().map_err(failed(listen))?.port();
        let address = SocketAddr::new(listen.ip(), discovery_port.unwrap_or(port));
        let discovery = if has_discovery {
            Some(discover_at(address).await.map_err(failed(address))?)
        } else {
            None
        };
        Ok(Self {
            connections,
            discovery,
        })
    }

    /// The address at which connections are accepted.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.connections.local_addr()
    }

    /// The port of discovery; 0 if there is none.
    fn discovery_port(&self) -> io::Result<u16> {
        let address = self.discovery.as_ref().map(UdpSocket::local_addr).transpose()?;
        Ok(address.map_or(0, |address| address.port()))
    }
}

/// A socket of IPv6 that takes IPv4, too, whatever the system's default is.
fn for_both_kinds(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV6, kind, None)?;
    socket.set_only_v6(false)?;
    socket.set_nonblocking(true)?;
    if kind == Type::STREAM && cfg!(unix) {
        // As the runtime does: a port whose last connections are still ending is free.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Whether a node that listens there is reached by IPv4 and by IPv6.
const fn is_for_both_kinds(address: SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_unspecified()
}

async fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    if !is_for_both_kinds(address) {
        return TcpListener::bind(address).await;
    }
    let socket = for_both_kinds(address, Type::STREAM)?;
    socket.listen(CONNECTIONS_WAITING_MAX)?;
    TcpListener::from_std(socket.into())
}

async fn discover_at(address: SocketAddr) -> io::Result<UdpSocket> {
    if !is_for_both_kinds(address) {
        return UdpSocket::bind(address).await;
    }
    UdpSocket::from_std(for_both_kinds(address, Type::DGRAM)?.into())
}

/// The running tasks of a network.
pub(super) struct NetworkTasks {
    core: Arc<Core>,
    tasks: Vec<JoinHandle<()>>,
    /// Tasks that have something to do when `stop` is told, and end then.
    ending: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    listener: PeerListener,
    address: SocketAddr,
    discovery_port: u16,
    nat: watch::Receiver<NatStatus>,
    values: Option<DiscoveryHandle>,
    record: Arc<OwnRecord>,
}

impl NetworkTasks {
    /// Starts them. `agreed` are nodes whose Status fitted. Without `seen` no nodes are remembered
    /// over restarts. `router` looks for a router.
    pub(super) fn start(
        settings: &NetworkSettings,
        core: &Arc<Core>,
        sockets: NetworkSockets,
        agreed: mpsc::Receiver<(B512, SocketAddr)>,
        seen: Option<SeenNodes>,
        router: RouterSearch,
        entropy: &mut Entropy,
    ) -> io::Result<Self> {
        let (address, discovery_port) = (sockets.address()?, sockets.discovery_port()?);
        let rlpx = rlpx_settings(settings, core.offers_snap(settings.family));
        let guard = InboundGuard::new(settings.ranges.clone(), settings.pending_max);
        let (listener, inbound) = PeerListener::start(
            sockets.connections,
            settings.key.clone(),
            rlpx.clone(),
            guard,
            entropy.fork(),
        )?;
        let (stop, stopped) = watch::channel(false);
        let (nat, nat_status) = watch::channel(NatStatus::default());
        let discovery = match sockets.discovery {
            Some(socket) => Some(start_discovery(
                settings,
                core,
                socket,
                address.port(),
                seen,
                entropy,
            )?),
            None => None,
        };
        let finding = discovery.as_ref().map(|(finding, _)| &finding.socket);
        let dial_loop = DialLoop {
            core: Arc::clone(core),
            key: settings.key.clone(),
            settings: rlpx,
            family: settings.family,
            discovery: finding.map(|socket| socket.handle().clone()),
            entropy: entropy.fork(),
        };
        let record = match finding {
            Some(socket) => OwnRecord::Told(socket.record().clone()),
            None => OwnRecord::untold(settings.key.clone(), first_record_sequence(core)),
        };
        let tasks = vec![
            start_task(dialing::take_inbound(Arc::clone(core), settings.family, inbound)),
            start_task(dial_loop.run()),
            start_task(run_timer(Arc::clone(core))),
        ];
        let ports = [
            (TransportProtocol::Tcp, address.port()),
            (TransportProtocol::Udp, discovery_port),
        ];
        let router = start_task(open_ports(router, ports, nat, stopped.clone()));
        let mut own = Self {
            core: Arc::clone(core),
            tasks,
            ending: vec![router],
            stop,
            listener,
            address,
            discovery_port,
            nat: nat_status.clone(),
            values: None,
            record: Arc::new(record),
        };
        if let Some((finding, events)) = discovery {
            own.values = Some(finding.socket.handle().clone());
            if let Some(reader) = dns::reader(settings, core, entropy) {
                own.add(start_task(reader.run()));
            }
            let finding = finding.run(events, agreed, nat_status, stopped);
            own.ending.push(start_task(finding));
        }
        Ok(own)
    }

    /// The address at which connections are accepted.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of discovery; 0 if there is none.
    pub(super) const fn discovery_port(&self) -> u16 {
        self.discovery_port
    }

    pub(super) const fn record(&self) -> &Arc<OwnRecord> {
        &self.record
    }

    pub(super) const fn nat(&self) -> &watch::Receiver<NatStatus> {
        &self.nat
    }

    /// Keys and values of discovery. `None` if there is no discovery.
    pub(super) const fn values(&self) -> Option<&DiscoveryHandle> {
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
        // The seen nodes are written and the router's mappings end when their keepers hear this.
        let _ = self.stop.send(true);
        let ending = self.ending;
        let ends = async move {
            for task in ending {
                let _ = task.await;
            }
        };
        let _ = tokio::time::timeout(STOP_WAIT, ends).await;
        let end = tokio::time::Instant::now() + STOP_WAIT;
        while tokio::time::Instant::now() < end && !core.state.lock().reports.is_empty() {
            tokio::time::sleep(STOP_STEP).await;
        }
    }
}

fn rlpx_settings(settings: &NetworkSettings, offers_snap: bool) -> RlpxSettings {
    let mut capabilities = settings.family.offers();
    capabilities.extend(offers_snap.then_some(SNAP_OFFER));
    RlpxSettings {
        version: BASE_VERSION,
        client: settings.client.clone(),
        capabilities,
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

/// Looks for a router and keeps the ports open on it until `stop` says so. Port 0 is none.
async fn open_ports(
    router: RouterSearch,
    ports: [(TransportProtocol, u16); 2],
    status: watch::Sender<NatStatus>,
    mut stop: watch::Receiver<bool>,
) {
    let found = tokio::select! {
        found = router => found,
        _ = stop.changed() => None,
    };
    let Some(gateway) = found else { return };
    let request = |(protocol, port)| {
        let port = NonZeroU16::new(port)?;
        Some(PortRequest { protocol, port })
    };
    let requests = ports.into_iter().filter_map(request).collect();
    keep_mapped(gateway, requests, status, stop).await;
}

/// The number of the first record of this run. The time rises from start to start.
fn first_record_sequence(core: &Core) -> u64 {
    u64::try_from(core.now().unix.as_millis()).unwrap_or(u64::MAX)
}

fn start_discovery(
    settings: &NetworkSettings,
    core: &Arc<Core>,
    socket: UdpSocket,
    tcp: u16,
    seen: Option<SeenNodes>,
    entropy: &mut Entropy,
) -> io::Result<(FindingLoop, mpsc::Receiver<DiscoveryEvent>)> {
    let now = core.now();
    let mut seeds = settings.boot_nodes.clone();
    // Random ones: nobody becomes the first by being seen last.
    let mut known: Vec<_> = seen.iter().flat_map(SeenNodes::latest).collect();
    entropy.shuffle(&mut known);
    seeds.extend(known.iter().map(|node| node.contact));
    seeds.truncate(SEEDS_MAX);
    let endpoint = PacketEndpoint {
        ip: settings.listen.ip(),
        udp: socket.local_addr()?.port(),
        tcp,
    };
    let fork_id = core.state.lock().hub.fork_id();
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
        fork_id,
        has_snap: core.offers_snap(settings.family),
        record_sequence: first_record_sequence(core),
        learns_address: settings.nat == NatOption::Any,
    };
    let discovery = Discovery::new(settings.key.clone(), discovery, now, entropy.fork());
    let (socket, events) = DiscoverySocket::start(socket, discovery, core.clock)?;
    let finding = FindingLoop {
        core: Arc::clone(core),
        socket,
        seen,
        endpoint,
        fork_id,
        entropy: entropy.fork(),
    };
    Ok((finding, events))
}
