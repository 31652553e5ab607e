//! Nodes for the tests: keys, settings, a listener.

use network::testing::{
    Entropy, InboundGuard, InboundMessage, InboundPeer, PeerConnection, PeerListener, PeerMessage,
    PeerStatus, RlpxSettings, WireProtocol,
};
use network::{NodeContact, WireFamily};
use primitives::{B256, SecretKey, U256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

pub(crate) fn key(byte: u8) -> SecretKey {
    SecretKey::from_bytes(&[byte; 32]).expect("in range")
}

pub(crate) fn entropy(byte: u8) -> Entropy {
    Entropy::from_seed([byte; 32])
}

pub(crate) fn settings(family: WireFamily, version: u64) -> RlpxSettings {
    RlpxSettings {
        version,
        client: "vnode-test/1".to_owned(),
        capabilities: family.offers(),
        port: 0,
        message_bytes_max: family.message_bytes_max(),
    }
}

/// A listener on loopback with the key of `byte`, and where it is.
pub(crate) async fn listen(
    byte: u8,
    settings: RlpxSettings,
) -> (PeerListener, mpsc::Receiver<InboundPeer>, NodeContact) {
    let socket = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let guard = InboundGuard::default();
    let (listener, peers) =
        PeerListener::start(socket, key(byte), settings, guard, entropy(byte)).expect("an address");
    let contact = NodeContact {
        id: key(byte).public_key(),
        ip: listener.address().ip(),
        udp: listener.address().port(),
        tcp: listener.address().port(),
    };
    (listener, peers, contact)
}

/// The version of the only capability of a connection.
pub(crate) fn protocol<S: AsyncRead + AsyncWrite + Unpin>(
    connection: &PeerConnection<S>,
    family: WireFamily,
) -> WireProtocol {
    let shared = connection.peer().shared[0].offered;
    assert_eq!(shared.name, family.name());
    family.protocol(shared.version).expect("offered by us")
}

pub(crate) fn status(protocol: WireProtocol) -> PeerMessage {
    PeerMessage::Status(PeerStatus {
        version: protocol.version(),
        network_id: 1337,
        total_difficulty: U256::from(131_072),
        head: B256::repeat_byte(1),
        genesis: B256::repeat_byte(1),
        fork_id: protocol.has_fork_id().then_some(network::testing::ForkId {
            hash: network::testing::ForkHash([1, 2, 3, 4]),
            next: 0,
        }),
    })
}

/// Sends a message and waits for the next one.
pub(crate) async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut PeerConnection<S>,
    protocol: WireProtocol,
    message: &PeerMessage,
) -> PeerMessage {
    let (code, payload) = message.encode(protocol);
    connection.send(0, code, &payload).expect("there is room");
    let InboundMessage { code, payload, .. } = connection.next().await.expect("an answer");
    PeerMessage::decode(protocol, code, &payload).expect("a good message")
}
