//! A peer that the benchmark plays.

use std::net::IpAddr;
use std::time::Duration;

use network::testing::{
    Entropy, HandshakeForm, HeadersRequest, HeadersStart, OfferedCapability, PeerConnection, PeerMessage,
    PeerStatus, RlpxSettings, SNAP, SNAP_OFFER, SnapMessage, WireProtocol,
};
use network::{NodeContact, WireFamily};
use primitives::{Header, U256};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::Failure;

/// More than a node takes, as much as a frame takes: a played peer may send too much.
const MESSAGE_BYTES_MAX: usize = 13 << 20;
/// The place of `snap` among the shared capabilities, which are sorted: `eth` is the other.
const SNAP_INDEX: usize = 1;
/// Longest time for a connection and its handshake.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Asks for block 0.
pub const BLOCK_0: HeadersRequest = HeadersRequest {
    start: HeadersStart::Number(0),
    amount: 1,
    skip: 0,
    reverse: false,
};

/// A peer that the benchmark plays.
pub struct PlayedNode {
    /// The connection.
    pub connection: PeerConnection<TcpStream>,
    protocol: WireProtocol,
}

impl PlayedNode {
    /// Connects to a node, from the address `source` of this machine.
    ///
    /// # Errors
    /// If the node does not take the connection.
    pub async fn dial(
        contact: &NodeContact,
        family: WireFamily,
        source: IpAddr,
        entropy: &mut Entropy,
    ) -> Result<Self, Failure> {
        Self::dial_with(contact, family, source, entropy, family.offers()).await
    }

    async fn dial_with(
        contact: &NodeContact,
        family: WireFamily,
        source: IpAddr,
        entropy: &mut Entropy,
        capabilities: Vec<OfferedCapability>,
    ) -> Result<Self, Failure> {
        let settings = RlpxSettings {
            version: 5,
            client: "bench".to_owned(),
            capabilities,
            port: 0,
            message_bytes_max: MESSAGE_BYTES_MAX,
        };
        let (key, own) = (entropy.secret_key(), entropy.fork());
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        let dialled = async {
            let stream = socket.connect(contact.tcp_address()).await?;
            stream.set_nodelay(true)?;
            let form = HandshakeForm::Eip8;
            Ok::<_, Failure>(PeerConnection::dial(stream, key, contact.id, form, settings, own).await?)
        };
        let connection = timeout(DIAL_TIMEOUT, dialled).await??;
        let shared = connection.peer().shared.first().ok_or("no shared capability")?;
        let version = shared.offered.version;
        let protocol = family.protocol(version).ok_or("an unknown version")?;
        Ok(Self { connection, protocol })
    }

    /// A peer that the node has accepted.
    ///
    /// # Errors
    /// If the node does not accept it.
    pub async fn join(
        contact: &NodeContact,
        family: WireFamily,
        source: IpAddr,
        entropy: &mut Entropy,
    ) -> Result<Self, Failure> {
        let mut peer = Self::dial(contact, family, source, entropy).await?;
        peer.greet(|_| {}).await?;
        Ok(peer)
    }

    /// A peer of a node of Ethereum's family with `snap/1`, which the node has accepted.
    ///
    /// # Errors
    /// If the node does not accept it, or has no `snap/1`.
    pub async fn join_with_snap(
        contact: &NodeContact,
        source: IpAddr,
        entropy: &mut Entropy,
    ) -> Result<Self, Failure> {
        let family = WireFamily::Eth;
        let mut capabilities = family.offers();
        capabilities.push(SNAP_OFFER);
        let mut peer = Self::dial_with(contact, family, source, entropy, capabilities).await?;
        if peer.connection.peer().shared.len() <= SNAP_INDEX {
            return Err("the node does not offer snap/1".into());
        }
        peer.greet(|_| {}).await?;
        Ok(peer)
    }

    /// Asks for a part of a state. Returns the answer.
    ///
    /// # Errors
    /// If the connection ends, or the answer cannot be read.
    pub async fn ask_snap(&mut self, request: SnapMessage) -> Result<SnapMessage, Failure> {
        let (code, rlp) = PeerMessage::Snap(request).encode(self.protocol);
        self.connection.send(SNAP_INDEX, code - SNAP, &rlp)?;
        loop {
            let message = self.connection.next().await?;
            if message.capability != SNAP_INDEX {
                continue;
            }
            let answer = PeerMessage::decode(self.protocol, SNAP + message.code, &message.payload)
                .map_err(|error| error.to_string())?;
            if let PeerMessage::Snap(answer) = answer {
                return Ok(answer);
            }
        }
    }

    /// Queues a message. [`Self::next`] and [`Self::flush`] write it.
    ///
    /// # Errors
    /// If too much waits to be written.
    pub fn send(&mut self, message: &PeerMessage) -> Result<(), Failure> {
        let (code, rlp) = message.encode(self.protocol);
        Ok(self.connection.send(0, code, &rlp)?)
    }

    /// The code and the RLP of a message, to send it again and again.
    pub fn encode(&self, message: &PeerMessage) -> (u64, Vec<u8>) {
        message.encode(self.protocol)
    }

    /// The next message.
    ///
    /// # Errors
    /// If the connection ends.
    pub async fn next(&mut self) -> Result<PeerMessage, Failure> {
        let message = self.connection.next().await?;
        PeerMessage::decode(self.protocol, message.code, &message.payload)
            .map_err(|error| error.to_string().into())
    }

    /// Writes all that waits to be written. Messages of the node are dropped.
    ///
    /// # Errors
    /// If the connection ends.
    pub async fn flush(&mut self) -> Result<(), Failure> {
        while self.connection.next_or_written(Some(0)).await?.is_some() {}
        Ok(())
    }

    /// Says of itself what the node says of itself, changed by `change`. Returns what the node
    /// said.
    ///
    /// # Errors
    /// If the connection ends.
    pub async fn greet(&mut self, change: impl Fn(&mut PeerStatus)) -> Result<PeerStatus, Failure> {
        let PeerMessage::Status(theirs) = self.next().await? else {
            return Err("the first message is no Status".into());
        };
        let mut own = theirs.clone();
        change(&mut own);
        self.send(&PeerMessage::Status(own))?;
        Ok(theirs)
    }

    /// The first header that answers `request`.
    ///
    /// # Errors
    /// If the node has no such header, or the connection ends.
    pub async fn header(&mut self, request: HeadersRequest) -> Result<Header, Failure> {
        self.send(&PeerMessage::GetBlockHeaders(1, request))?;
        loop {
            if let PeerMessage::BlockHeaders(_, headers) = self.next().await? {
                return headers.into_iter().next().ok_or_else(|| "no such header".into());
            }
        }
    }

    /// Claims a chain of these headers, and answers with them until the node ends the connection.
    ///
    /// # Errors
    /// Always, in the end.
    pub async fn lie(&mut self, headers: &[Header]) -> Result<(), Failure> {
        let head = headers.first().ok_or("no headers")?.hash();
        self.greet(|status| {
            status.head = head;
            status.total_difficulty = status.total_difficulty.saturating_add(U256::from(1u64 << 40));
        })
        .await?;
        loop {
            if let PeerMessage::GetBlockHeaders(id, _) = self.next().await? {
                self.send(&PeerMessage::BlockHeaders(id, headers.to_vec()))?;
            }
        }
    }
}
