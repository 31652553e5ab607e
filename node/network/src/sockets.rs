//! Opens connections: dials nodes, and lets others in. The handshakes of connections from outside
//! run side by side, within the bounds of [`InboundGuard`].

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use primitives::SecretKey;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;

use crate::contact::NodeContact;
use crate::dial::{DIAL_TIMEOUT, InboundGuard, InboundRefusal};
use crate::entropy::Entropy;
use crate::moment::SystemClock;
use crate::rlpx::{ConnectionError, HandshakeForm, PeerConnection, RlpxSettings};

/// Peers from outside that wait for the reader. While they do, no more handshakes are begun.
pub(crate) const WAITING_PEERS_MAX: usize = 16;
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
            handshakes: Arc::new(RunningHandshakes::new(guard)),
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

/// The handshakes of connections from outside. Each is a task.
struct RunningHandshakes(Mutex<HandshakeTasks>);

struct HandshakeTasks {
    guard: InboundGuard,
    /// `None` until the task has begun.
    tasks: HashMap<u64, Option<AbortHandle>>,
}

impl RunningHandshakes {
    fn new(guard: InboundGuard) -> Self {
        Self(Mutex::new(HandshakeTasks {
            guard,
            tasks: HashMap::new(),
        }))
    }

    /// Lets a connection from `ip` in and starts the task that `run` makes of its place. A
    /// handshake that makes way for it ends.
    fn start<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        ip: IpAddr,
        now: Duration,
        run: impl FnOnce(AdmittedHandshake) -> F,
    ) -> Result<(), InboundRefusal> {
        let mut state = self.0.lock();
        let admission = state.guard.admit(ip, now)?;
        let closed = admission.closed.and_then(|number| state.tasks.remove(&number));
        state.tasks.insert(admission.number, None);
        // A runtime that is stopping drops a task at once, and with it the place, which needs the
        // lock.
        drop(state);
        if let Some(task) = closed.flatten() {
            tracing::trace!(%ip, "a half-open connection makes way for this one");
            task.abort();
        }
        let place = AdmittedHandshake {
            handshakes: Arc::clone(self),
            number: admission.number,
        };
        let task = tokio::spawn(run(place)).abort_handle();
        let is_noted = {
            let mut state = self.0.lock();
            let noted = state.tasks.get_mut(&admission.number);
            noted.map(|noted| *noted = Some(task.clone())).is_some()
        };
        if !is_noted {
            // The handshake has ended, or has made way.
            task.abort();
        }
        Ok(())
    }
}

/// A connection that the guard has let in. Dropping it frees its place.
struct AdmittedHandshake {
    handshakes: Arc<RunningHandshakes>,
    number: u64,
}

impl AdmittedHandshake {
    /// The handshake is good: the connection does not make way any more.
    fn settle(&self) {
        self.handshakes.0.lock().guard.settled(self.number);
    }
}

impl Drop for AdmittedHandshake {
    fn drop(&mut self) {
        let state = &mut *self.handshakes.0.lock();
        state.guard.ended(self.number);
        state.tasks.remove(&self.number);
    }
}

struct InboundAcceptor {
    key: SecretKey,
    settings: RlpxSettings,
    handshakes: Arc<RunningHandshakes>,
    entropy: Entropy,
    peers: mpsc::Sender<InboundPeer>,
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
            let (key, settings) = (self.key.clone(), self.settings.clone());
            let (entropy, peers) = (self.entropy.fork(), self.peers.clone());
            let run = |place: AdmittedHandshake| async move {
                let _ = stream.set_nodelay(true);
                match PeerConnection::accept(stream, key, settings, entropy).await {
                    Ok(connection) => {
                        place.settle();
                        // The place is free once the reader has taken the peer.
                        let _ = peers.send((connection, from)).await;
                    }
                    Err(error) => tracing::debug!(%from, %error, "a handshake failed"),
                }
                drop(place);
            };
            let started = self.handshakes.start(from.ip(), clock.now().elapsed, run);
            if let Err(refusal) = started {
                tracing::trace!(%from, %refusal, "a connection is closed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::mpsc as channel;

    use tokio::runtime::{Builder, Handle};

    use super::*;

    /// Lets a connection in when it is dropped, which is when its runtime stops.
    struct LateConnection(Arc<RunningHandshakes>, Handle);

    impl Drop for LateConnection {
        fn drop(&mut self) {
            let _context = self.1.enter();
            let run = |place: AdmittedHandshake| async move {
                pending::<()>().await;
                drop(place);
            };
            let started = self.0.start([127, 0, 0, 1].into(), Duration::ZERO, run);
            assert_eq!(started, Ok(()));
        }
    }

    #[test]
    fn a_runtime_that_stops_frees_the_place_of_a_connection() {
        let handshakes = Arc::new(RunningHandshakes::new(InboundGuard::new(None, 4)));
        let late = Arc::clone(&handshakes);
        let (done, ended) = channel::channel();
        std::thread::spawn(move || {
            let runtime = Builder::new_multi_thread()
                .worker_threads(1)
                .build()
                .expect("a runtime");
            let connection = LateConnection(late, runtime.handle().clone());
            runtime.spawn(async move {
                pending::<()>().await;
                drop(connection);
            });
            drop(runtime);
            done.send(()).expect("the test waits");
        });
        let ended = ended.recv_timeout(Duration::from_secs(60));
        assert_eq!(ended, Ok(()), "it waits for a lock that it holds");
        assert!(handshakes.0.lock().tasks.is_empty());
    }
}
