//! Opens connections: dials nodes, and lets others in. The handshakes of connections from outside
//! run side by side, within the bounds of [`InboundGuard`].

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use primitives::SecretKey;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::contact::NodeContact;
use crate::dial::{DIAL_TIMEOUT, InboundGuard};
use crate::entropy::Entropy;
use crate::moment::SystemClock;
use crate::rlpx::{ConnectionError, HandshakeForm, PeerConnection, RlpxSettings};

/// Peers from outside that wait for the reader. While they do, no more handshakes are begun.
pub const WAITING_PEERS_MAX: usize = 16;
/// Wait after a socket error, such as too few descriptors.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// A connection that came in, after its handshake.
pub type InboundPeer = (PeerConnection<TcpStream>, SocketAddr);

/// Dials a node and makes the handshake in the form of EIP-8.
///
/// # Errors
/// [`ConnectionError`] if the node cannot be reached or the handshake fails.
pub async fn dial(
    contact: &NodeContact,
    key: SecretKey,
    settings: RlpxSettings,
    entropy: Entropy,
) -> Result<PeerConnection<TcpStream>, ConnectionError> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let stream = timeout(DIAL_TIMEOUT, TcpStream::connect(contact.tcp_address()))
        .await
        .map_err(late)??;
    stream.set_nodelay(true)?;
    PeerConnection::dial(stream, key, contact.id, HandshakeForm::Eip8, settings, entropy).await
}

/// Lets other nodes in. It ends when this is dropped.
#[derive(Debug)]
pub struct PeerListener {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl PeerListener {
    /// Starts to accept connections. Also returns those whose handshake was good.
    ///
    /// # Errors
    /// An error of the system if the socket has no address.
    pub fn start(
        listener: TcpListener,
        key: SecretKey,
        settings: RlpxSettings,
        guard: InboundGuard,
        entropy: Entropy,
    ) -> io::Result<(Self, mpsc::Receiver<InboundPeer>)> {
        let address = listener.local_addr()?;
        let (peers, receiver) = mpsc::channel(WAITING_PEERS_MAX);
        let acceptor = InboundAcceptor {
            key,
            settings,
            guard: Arc::new(Mutex::new(guard)),
            entropy,
            peers,
        };
        let task = tokio::spawn(acceptor.run(listener));
        Ok((Self { address, task }, receiver))
    }

    /// The address of the socket.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for PeerListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct InboundAcceptor {
    key: SecretKey,
    settings: RlpxSettings,
    guard: Arc<Mutex<InboundGuard>>,
    entropy: Entropy,
    peers: mpsc::Sender<InboundPeer>,
}

/// A handshake that the guard has let in. Dropping it frees its place.
struct AdmittedHandshake(Arc<Mutex<InboundGuard>>);

impl Drop for AdmittedHandshake {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ended();
    }
}

impl InboundAcceptor {
    async fn run(mut self, listener: TcpListener) {
        let clock = SystemClock::start();
        while !self.peers.is_closed() {
            let (stream, from) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(ERROR_PAUSE).await;
                    continue;
                }
            };
            let now = clock.now().elapsed;
            let admitted = self
                .guard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .admit(from.ip(), now);
            if let Err(refusal) = admitted {
                tracing::trace!(%from, %refusal, "a connection is closed");
                continue;
            }
            let place = AdmittedHandshake(Arc::clone(&self.guard));
            let (key, settings) = (self.key.clone(), self.settings.clone());
            let (entropy, peers) = (self.entropy.fork(), self.peers.clone());
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                match PeerConnection::accept(stream, key, settings, entropy).await {
                    Ok(connection) => {
                        // The place is free once the reader has taken the peer.
                        let _ = peers.send((connection, from)).await;
                    }
                    Err(error) => tracing::debug!(%from, %error, "a handshake failed"),
                }
                drop(place);
            });
        }
    }
}
