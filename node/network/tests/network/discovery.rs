//! Discovery over UDP sockets on loopback.

use network::NodeContact;
use network::discovery::{
    Discovery, DiscoveryDialect, DiscoveryEvent, DiscoverySettings, DiscoverySocket, PacketEndpoint,
};
use network::moment::SystemClock;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use crate::support::{entropy, key};

struct RunningNode {
    contact: NodeContact,
    socket: DiscoverySocket,
    events: mpsc::Receiver<DiscoveryEvent>,
}

async fn start(byte: u8, dialect: DiscoveryDialect, seeds: Vec<NodeContact>) -> RunningNode {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
    let address = socket.local_addr().expect("an address");
    let settings = DiscoverySettings {
        dialect,
        endpoint: PacketEndpoint::new(address.ip(), address.port(), address.port()),
        seeds,
        ranges: None,
        is_strict: false,
        fork_id: None,
        record_sequence: 1,
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
            seeker.socket.lookup(wanted.id).await;
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
