//! Nodes that know each other, and a peer that the test itself plays.

use std::net::SocketAddr;
use std::time::Duration;

use e2e::vnode::{Launch, Vnode};
use e2e::wait::{SOCKET_PATIENCE, wait_for};
use network::testing::{
    ConnectionError, Entropy, HeadersRequest, HeadersStart, PeerConnection, PeerMessage, PeerStatus,
    RlpxSettings, WireProtocol, dial,
};
use network::{NodeContact, WireFamily};
use primitives::{B256, Enode, Header, SecretKey, U256, hex};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The played peer waits for a message for this long.
const MESSAGE_TIMEOUT: Duration = SOCKET_PATIENCE;

/// The played peer waits this long to see whether something comes.
const FLUSH_TIME: Duration = Duration::from_millis(50);

/// A node of the development network, with these options beside those for peers.
pub(crate) fn start(options: &[&str]) -> Vnode {
    let mut all = vec!["--rpcapi", "mc,net,admin,miner,txpool,personal"];
    all.extend(options);
    Launch::dev(all).start()
}

/// A node that can mine, but does not yet.
pub(crate) fn start_idle() -> Vnode {
    start(&["--minerthreads", "1"])
}

pub(crate) fn enode(node: &Vnode) -> Enode {
    let info = node.rpc("admin_nodeInfo", json!([]));
    let url = info["enode"].as_str().expect("a URL");
    url.parse().expect("an enode")
}

/// The enode URL as other programs take it.
pub(crate) fn plain_enode(node: &Vnode) -> String {
    let mut enode = enode(node);
    enode.query.clear();
    enode.to_string()
}

pub(crate) fn peer_count(node: &Vnode) -> usize {
    let count = node.rpc("net_peerCount", json!([]));
    let peers = node.rpc("admin_peers", json!([]));
    let peers = peers.as_array().expect("a list").len();
    // One may have come or gone in between.
    let _ = count;
    peers
}

/// Lets `from` dial `to`, and waits until both are peers.
pub(crate) fn connect(from: &Vnode, to: &Vnode) {
    let before = (peer_count(from), peer_count(to));
    assert_eq!(from.rpc("admin_addPeer", json!([plain_enode(to)])), true);
    wait_for("two peers", || {
        (peer_count(from) > before.0 && peer_count(to) > before.1).then_some(())
    });
}

pub(crate) fn head(node: &Vnode) -> Value {
    node.rpc("mc_getBlockByNumber", json!(["latest", false]))["hash"].clone()
}

/// Waits until all nodes have the same head, which is at least block `number`.
pub(crate) fn wait_for_agreement(nodes: &[&Vnode], number: u128) {
    wait_for("the same head everywhere", || {
        let heads: Vec<_> = nodes.iter().map(|node| head(node)).collect();
        let is_high = nodes.iter().all(|node| node.head() >= number);
        (is_high && heads.iter().all(|head| *head == heads[0])).then_some(())
    });
}

pub(crate) fn key(byte: u8) -> SecretKey {
    SecretKey::from_bytes(&[byte; 32]).expect("in range")
}

/// A peer that the test plays.
pub(crate) struct PlayedPeer {
    pub(crate) connection: PeerConnection<TcpStream>,
    pub(crate) protocol: WireProtocol,
}

impl PlayedPeer {
    /// Dials a node of the public network's family.
    pub(crate) async fn dial(node: &Vnode, byte: u8) -> Result<Self, ConnectionError> {
        let contact = NodeContact::from_enode(&enode(node)).expect("an address");
        Self::dial_contact(contact, byte, WireFamily::Mc.message_bytes_max()).await
    }

    /// Dials a node, to send it messages that are larger than allowed.
    pub(crate) async fn dial_to_send(
        node: &Vnode,
        byte: u8,
        message_bytes_max: usize,
    ) -> Result<Self, ConnectionError> {
        let contact = NodeContact::from_enode(&enode(node)).expect("an address");
        Self::dial_contact(contact, byte, message_bytes_max).await
    }

    /// Dials a node at another of its addresses.
    pub(crate) async fn dial_at(
        node: &Vnode,
        address: SocketAddr,
        byte: u8,
    ) -> Result<Self, ConnectionError> {
        let contact = NodeContact {
            id: enode(node).id,
            ip: address.ip(),
            udp: address.port(),
            tcp: address.port(),
        };
        Self::dial_contact(contact, byte, WireFamily::Mc.message_bytes_max()).await
    }

    async fn dial_contact(
        contact: NodeContact,
        byte: u8,
        message_bytes_max: usize,
    ) -> Result<Self, ConnectionError> {
        let settings = RlpxSettings {
            version: 5,
            client: "played/1".to_owned(),
            capabilities: WireFamily::Mc.offers(),
            port: 0,
            message_bytes_max,
        };
        let connection = dial(&contact, key(byte), settings, Entropy::from_seed([byte; 32])).await?;
        Ok(Self {
            connection,
            protocol: WireFamily::Mc.protocol(63).expect("known"),
        })
    }

    pub(crate) fn send(&mut self, message: &PeerMessage) {
        let (code, rlp) = message.encode(self.protocol);
        self.connection.send(0, code, &rlp).expect("there is room");
    }

    /// The next message, or the end of the connection.
    pub(crate) async fn next(&mut self) -> Result<PeerMessage, ConnectionError> {
        let message = timeout(MESSAGE_TIMEOUT, self.connection.next()).await;
        let message = message.expect("something happens in time")?;
        let decoded = PeerMessage::decode(self.protocol, message.code, &message.payload);
        Ok(decoded.expect("the node sends good messages"))
    }

    /// Lets the queued messages be written. No message may come meanwhile.
    pub(crate) async fn flush(&mut self) {
        while self.connection.backlog() > 0 {
            let came = timeout(FLUSH_TIME, self.connection.next()).await;
            assert!(came.is_err(), "{came:?}");
        }
    }

    /// Whether a message comes in a short time.
    pub(crate) async fn has_answer(&mut self) -> bool {
        timeout(FLUSH_TIME, self.connection.next()).await.is_ok()
    }

    /// Waits for a message for which `choose` gives a value.
    pub(crate) async fn wait_for<T>(&mut self, choose: impl Fn(&PeerMessage) -> Option<T>) -> T {
        loop {
            let message = self.next().await.expect("the connection goes on");
            if let Some(value) = choose(&message) {
                return value;
            }
        }
    }

    /// Exchanges Status with what the node says of itself, changed by `change`.
    pub(crate) async fn greet(&mut self, change: impl Fn(&mut PeerStatus)) -> PeerStatus {
        let PeerMessage::Status(theirs) = self.next().await.expect("a Status") else {
            panic!("the first message is a Status");
        };
        let mut own = theirs.clone();
        change(&mut own);
        self.send(&PeerMessage::Status(own));
        theirs
    }

    /// Dials a node and says the node's own Status.
    pub(crate) async fn join(node: &Vnode, byte: u8) -> Self {
        let mut peer = Self::dial(node, byte).await.expect("a handshake");
        peer.greet(|_| {}).await;
        peer
    }

    /// Asks for a header of the canonical chain.
    pub(crate) async fn header(&mut self, number: u64) -> Header {
        let request = HeadersRequest {
            start: HeadersStart::Number(number),
            amount: 1,
            skip: 0,
            reverse: false,
        };
        self.send(&PeerMessage::GetBlockHeaders(1, request));
        self.wait_for(|message| match message {
            PeerMessage::BlockHeaders(_, headers) => Some(headers[0].clone()),
            _ => None,
        })
        .await
    }

    /// Waits until the node ends the connection. Returns why.
    pub(crate) async fn wait_for_end(&mut self) -> String {
        loop {
            if let Err(error) = self.next().await {
                return error.to_string();
            }
        }
    }
}

/// Fails unless a connection has ended for this reason. The socket may fail before the reason is
/// read.
pub(crate) fn assert_end(end: &str, reason: &str) {
    assert!(end.contains(reason) || end.contains("socket"), "{end}");
}

/// Fails if a node has more memory than before by `most` bytes.
pub(crate) fn assert_memory(before: usize, after: usize, most: usize) {
    assert!(
        after < before + most,
        "{before} bytes before, {after} bytes after, expected at most {most} more"
    );
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a runtime")
}

pub(crate) fn genesis(node: &Vnode) -> B256 {
    let hash = node.block(0)["hash"].clone();
    hash.as_str().expect("a hash").parse().expect("32 bytes")
}

/// The total difficulty of block 0 of the development network.
pub(crate) fn genesis_difficulty() -> U256 {
    U256::from(512)
}

pub(crate) fn hex_text(bytes: impl AsRef<[u8]>) -> String {
    format!("0x{}", hex::encode(bytes))
}
