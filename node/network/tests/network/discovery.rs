//! Discovery over UDP sockets on loopback.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use network::NodeContact;
use network::testing::{
    Discovery, DiscoveryDialect, DiscoveryEvent, DiscoveryPacket, DiscoverySettings, DiscoverySocket,
    NodeClaims, NodeRecord, PACKET_BYTES_MAX, PacketEndpoint, PacketTail, SystemClock,
};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::operators::ethereum;
use crate::service_node::{PATIENCE, start_node};
use crate::support::{entropy, key};

pub(crate) struct RunningNode {
    pub(crate) contact: NodeContact,
    socket: DiscoverySocket,
    pub(crate) events: mpsc::Receiver<DiscoveryEvent>,
}

pub(crate) async fn start(byte: u8, dialect: DiscoveryDialect, seeds: Vec<NodeContact>) -> RunningNode {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
    let address = socket.local_addr().expect("an address");
    let settings = DiscoverySettings {
        dialect,
        endpoint: PacketEndpoint::new(address.ip(), address.port(), address.port()),
        seeds,
        ranges: None,
        is_strict: false,
        fork_id: None,
        has_snap: false,
        record_sequence: 1,
        learns_address: false,
    };
    let clock = SystemClock::start();
    let discovery = Discovery::new(key(byte), settings, clock.now(), entropy(byte));
    let (socket, events) = DiscoverySocket::start(socket, discovery, clock).expect("an address");
    let contact = NodeContact {
        id: key(byte).public_key(),
        ip: address.ip(),
        udp: address.port(),
        tcp: address.port(),
    };
    RunningNode {
        contact,
        socket,
        events,
    }
}

#[tokio::test]
async fn nodes_find_each_other_over_sockets() {
    let public = DiscoveryDialect::Public { network_id: 99 };
    for dialect in [DiscoveryDialect::Ethereum, public] {
        let first = start(1, dialect, Vec::new()).await;
        let mut others = Vec::new();
        for byte in 2..8 {
            others.push(start(byte, dialect, vec![first.contact]).await);
        }
        for other in &mut others {
            let event = other.events.recv().await;
            assert!(matches!(event, Some(DiscoveryEvent::Verified(_))), "{event:?}");
        }
        let wanted = others[5].contact;
        let seeker = &mut others[0];
        // A search that begins before the others are known is repeated.
        'search: loop {
            seeker.socket.handle().lookup(wanted.id).await;
            while let Some(event) = seeker.events.recv().await {
                if let DiscoveryEvent::LookupDone { nodes, .. } = event {
                    if nodes.contains(&wanted) {
                        break 'search;
                    }
                    break;
                }
            }
        }
    }
}

/// A node that proves one address and whose record names another one, `named`.
struct Misleading {
    socket: UdpSocket,
    node: SocketAddr,
    named: SocketAddr,
}

impl Misleading {
    async fn send(&self, packet: &DiscoveryPacket) {
        let (bytes, _) = packet.seal(&key(41), DiscoveryDialect::Ethereum, u64::from(u32::MAX));
        self.socket.send_to(&bytes, self.node).await.expect("loopback");
    }

    fn endpoint(&self) -> PacketEndpoint {
        let own = self.socket.local_addr().expect("an address");
        PacketEndpoint::new(own.ip(), own.port(), 0)
    }

    /// Plays the node for ever.
    async fn run(&self) {
        let tail = PacketTail {
            record_sequence: Some(1),
            network_id: None,
        };
        let (from, to) = (
            self.endpoint(),
            PacketEndpoint::new(self.node.ip(), self.node.port(), 0),
        );
        self.send(&DiscoveryPacket::Ping { from, to, tail }).await;
        let mut buffer = [0; PACKET_BYTES_MAX];
        loop {
            let (count, _) = self.socket.recv_from(&mut buffer).await.expect("loopback");
            let read = DiscoveryPacket::open(&buffer[..count], DiscoveryDialect::Ethereum);
            let read = read.expect("a good packet");
            let claims = NodeClaims {
                ip: Some(self.named.ip()),
                tcp: self.named.port(),
                udp: self.named.port(),
                fork_id: None,
                has_snap: false,
            };
            let (ping_hash, request_hash) = (read.hash, read.hash);
            match read.packet {
                DiscoveryPacket::Ping { .. } => {
                    self.send(&DiscoveryPacket::Pong { to, ping_hash, tail }).await;
                }
                DiscoveryPacket::EnrRequest => {
                    let record = NodeRecord::sign(&key(41), 1, &claims).encode().into();
                    self.send(&DiscoveryPacket::EnrResponse { request_hash, record })
                        .await;
                }
                _ => {}
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_leads_to_no_connection_elsewhere() {
    let node = start_node(40, ethereum(5), |_| {}).await;
    let elsewhere = IpAddr::from([127, 0, 0, 2]);
    let trap = TcpListener::bind((elsewhere, 0)).await.expect("a free port");
    let named = trap.local_addr().expect("an address");
    let asked = UdpSocket::bind(named).await.expect("a free port");
    let misleading = Misleading {
        socket: UdpSocket::bind("127.0.0.1:0").await.expect("a free port"),
        node: SocketAddr::new(node.network().address().ip(), node.network().discovery_port()),
        named,
    };
    // The node asks the address in the record whether it is that of the node, and has no answer.
    let mut buffer = [0; PACKET_BYTES_MAX];
    tokio::select! {
        () = misleading.run() => {}
        question = timeout(PATIENCE, asked.recv_from(&mut buffer)) => {
            let (count, _) = question.expect("a question").expect("loopback");
            let read = DiscoveryPacket::open(&buffer[..count], DiscoveryDialect::Ethereum);
            let packet = read.expect("a good packet").packet;
            assert!(matches!(packet, DiscoveryPacket::Ping { .. }), "{packet:?}");
        }
        _ = trap.accept() => panic!("the node connects to an address that nobody has proven"),
    }
    let accepted = timeout(Duration::from_secs(2), trap.accept()).await;
    assert!(
        accepted.is_err(),
        "the node connects to an address that nobody has proven"
    );
    node.stop().await;
}
