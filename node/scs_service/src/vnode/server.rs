//! The server: listens, takes connections as long as there are places, and ends them when the node
//! stops.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use daemon::tls::ServerTls;
use daemon::{Claim, ClientAddress, Place, PlaceLimits, Places, StatedClaim, accept, all_ended, stopped};
use futures_util::future::BoxFuture;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Status;

use super::answers::UnsentAnswers;
use super::client_share::ClientShare;
use super::host::ScsHost;
use super::limits::{CONNECTION_WINDOW, HEADERS_LEN_MAX, RESETS_MAX, SEND_BUFFER_MAX, STREAM_WINDOW};
use super::notices::{NoticeFollower, notice_loop};
use super::pushing::{call_loop, ping_loop};
use super::routes::route;
use super::service::{ScsService, ServiceConfig, ServiceState};

/// The name of HTTP/2 in the handshake of TLS.
pub const ALPN: &[u8] = b"h2";
/// Time for a client to finish the handshake of TLS, and to send its first request.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The time between two looks whether a connection has been idle for too long, or does not read an
/// answer.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The time in which the streams tell their clients that the node stops.
const STOP_GRACE: Duration = Duration::from_millis(300);

/// The reason why the service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("the service for SCS servers cannot listen on {address}: {reason}")]
    Bind {
        /// The address.
        address: String,
        /// The error of the system.
        reason: io::Error,
    },
}

/// The running service. Dropping it ends it without waiting.
pub struct ScsServer {
    address: SocketAddr,
    service: ScsService,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl ScsServer {
    /// Listens on `address` (`host:port`; `:port` for all addresses of the machine) and serves
    /// SCSs, over TLS if there is `tls`. `heads` has the number of the head and notifies of each
    /// change of the head.
    ///
    /// # Errors
    /// [`ServerError`] if it cannot listen.
    pub fn start(
        address: &str,
        tls: Option<Arc<ServerTls>>,
        config: ServiceConfig,
        host: Arc<dyn ScsHost>,
        heads: watch::Receiver<u64>,
    ) -> BoxFuture<'_, Result<Self, ServerError>> {
        Box::pin(Self::begin(address, tls, config, host, heads))
    }

    async fn begin(
        address: &str,
        tls: Option<Arc<ServerTls>>,
        config: ServiceConfig,
        host: Arc<dyn ScsHost>,
        heads: watch::Receiver<u64>,
    ) -> Result<Self, ServerError> {
        let bind_error = |reason| ServerError::Bind {
            address: address.to_owned(),
            reason,
        };
        let listener = listen(address).await.map_err(bind_error)?;
        let address = listener.local_addr().map_err(bind_error)?;
        let (state, calls) = ServiceState::new(host, config, heads);
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(until_stopped(stopped.clone(), ping_loop(Arc::clone(&state))));
        let follower = NoticeFollower::new(state.head());
        let notices = notice_loop(Arc::clone(&state), follower);
        tasks.spawn(until_stopped(stopped.clone(), notices));
        tasks.spawn(until_stopped(
            stopped.clone(),
            call_loop(Arc::clone(&state), calls),
        ));
        tasks.spawn(accept_connections(listener, Arc::clone(&state), tls, stopped));
        Ok(Self {
            address,
            service: ScsService(state),
            stop,
            tasks,
        })
    }

    /// The address where SCSs connect, with the real port.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The service.
    pub const fn service(&self) -> &ScsService {
        &self.service
    }

    /// Tells the SCSs that the node stops, and ends all connections.
    pub async fn stop(mut self) {
        for scs in self.service.0.registry.all() {
            scs.queue.fail(Status::unavailable("the node stops"));
        }
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Runs a task until the server stops or is dropped.
async fn until_stopped(mut stop: watch::Receiver<bool>, task: impl Future<Output = ()>) {
    tokio::select! {
        () = stopped(&mut stop) => {}
        () = task => {}
    }
}

/// Listens on `host:port` or `:port`. `localhost` is 127.0.0.1.
async fn listen(address: &str) -> io::Result<TcpListener> {
    let bad = || io::Error::new(io::ErrorKind::InvalidInput, "expected host:port or :port");
    let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
    let port: u16 = port.parse().map_err(|_| bad())?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if bare.is_empty() {
        let both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await;
        return match both {
            Ok(listener) => Ok(listener),
            // The machine has no IPv6.
            Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
        };
    }
    if bare.eq_ignore_ascii_case("localhost") {
        return TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    }
    match bare.parse::<IpAddr>() {
        Ok(ip) => TcpListener::bind((ip, port)).await,
        Err(_) => TcpListener::bind((bare, port)).await,
    }
}

/// The state that the calls and streams of a connection share.
pub(super) struct ConnectionState {
    /// The number of the connection.
    pub(super) number: u64,
    /// The share of its address.
    pub(super) client: Arc<ClientShare>,
    place: Place<StatedClaim>,
    open: AtomicUsize,
    registered: AtomicUsize,
    /// The time at which the last call or stream ended; `None` before the first one.
    idle_since: Mutex<Option<Instant>>,
    /// The answers that are not sent yet.
    pub(super) unsent: Mutex<UnsentAnswers>,
}

impl ConnectionState {
    /// Counts a stream on which an SCS has shaken hands. The connection then never makes room.
    pub(super) fn add_registered(&self) {
        self.registered.fetch_add(1, Ordering::Relaxed);
        self.place.set(Claim::Active, Instant::now());
    }

    /// Counts a stream that has ended, or lost its SCS.
    pub(super) fn remove_registered(&self) {
        if self.registered.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.place.set(Claim::Known, Instant::now());
        }
    }
}

/// A call or stream that is open on a connection.
pub(super) struct OpenCall(Arc<ConnectionState>);

impl OpenCall {
    /// Counts it for its connection and its address.
    ///
    /// # Errors
    /// A status if the address has too many.
    pub(super) fn begin(connection: &Arc<ConnectionState>) -> Result<Self, Status> {
        connection.open.fetch_add(1, Ordering::Relaxed);
        if connection.registered.load(Ordering::Relaxed) == 0 {
            connection.place.set(Claim::Known, Instant::now());
        }
        let call = Self(Arc::clone(connection));
        connection.client.add_open()?;
        Ok(call)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        *self.0.idle_since.lock() = Some(Instant::now());
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.client.remove_open();
    }
}

/// Accepts connections until the server stops, then waits until all of them have ended.
async fn accept_connections(
    listener: TcpListener,
    state: Arc<ServiceState>,
    tls: Option<Arc<ServerTls>>,
    stop: watch::Receiver<bool>,
) {
    let limits = &state.config.limits;
    let places = Places::new(PlaceLimits {
        total: limits.connections_max,
        per_client: limits.address_connections_max,
    });
    let mut next_number = 0;
    let admit = |(stream, peer): (TcpStream, SocketAddr)| {
        let (client, now) = (ClientAddress::from(peer.ip()), Instant::now());
        if !state.config.allow.may_connect(client) {
            tracing::debug!(%peer, "this address may not use the service for SCS servers");
            return None;
        }
        let Some(place) = places.take(client, StatedClaim::new(now), now) else {
            tracing::debug!(%peer, "too many connections to the service for SCS servers");
            return None;
        };
        next_number += 1;
        let connection = Arc::new(ConnectionState {
            number: next_number,
            client: state.shares.get(client, limits, now),
            place,
            open: AtomicUsize::new(0),
            registered: AtomicUsize::new(0),
            idle_since: Mutex::new(None),
            unsent: Mutex::default(),
        });
        let (tls, state) = (tls.clone(), Arc::clone(&state));
        Some(serve_stream(stream, tls, connection, state, stop.clone()))
    };
    all_ended(accept(listener, "the service for SCS servers", stop.clone(), admit).await).await;
}

/// Serves a connection, after the handshake of TLS if there is one.
async fn serve_stream(
    stream: TcpStream,
    tls: Option<Arc<ServerTls>>,
    connection: Arc<ConnectionState>,
    state: Arc<ServiceState>,
    stopped: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return serve(stream, connection, state, stopped).await;
    };
    let mut stop = stopped.clone();
    let handshake = timeout(FIRST_REQUEST_TIMEOUT, tls.accept(stream));
    let shaken = tokio::select! {
        _ = stop.wait_for(|stop| *stop) => return,
        () = connection.place.displaced() => return,
        shaken = handshake => shaken,
    };
    match shaken {
        Ok(Ok(stream)) => Box::pin(serve(stream, connection, state, stopped)).await,
        Ok(Err(error)) => {
            let peer = connection.client.address;
            tracing::debug!(%peer, %error, "the handshake of TLS failed");
        }
        Err(_) => {}
    }
}

/// Speaks HTTP/2 on a connection until it ends, is idle for too long, does not read an answer, has
/// to make room, or the server stops.
async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    connection: Arc<ConnectionState>,
    state: Arc<ServiceState>,
    mut stopped: watch::Receiver<bool>,
) {
    let limits = &state.config.limits;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER_MAX)
        .max_header_list_size(HEADERS_LEN_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX)
        .keep_alive_interval(limits.keep_alive)
        .keep_alive_timeout(limits.keep_alive_answer);
    let service = service_fn(|request| {
        let (state, connection) = (Arc::clone(&state), Arc::clone(&connection));
        async move { Ok::<_, Infallible>(Box::pin(route(state, connection, request)).await) }
    });
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let started = Instant::now();
    let mut checks =
        tokio::time::interval(CHECK_INTERVAL.min(limits.idle_timeout).min(limits.answer_timeout));
    loop {
        tokio::select! {
            result = served.as_mut() => {
                if let Err(error) = result {
                    let peer = connection.client.address;
                    tracing::debug!(%peer, %error, "a connection of the service ended");
                }
                return;
            }
            () = connection.place.displaced() => return,
            _ = stopped.wait_for(|stop| *stop) => break,
            _ = checks.tick() => {
                let idle_since = *connection.idle_since.lock();
                let is_idle = match idle_since {
                    None => started.elapsed() > FIRST_REQUEST_TIMEOUT.min(limits.idle_timeout),
                    Some(since) => since.elapsed() > limits.idle_timeout,
                };
                if is_idle && connection.open.load(Ordering::Relaxed) == 0 {
                    return;
                }
                let oldest = connection.unsent.lock().oldest();
                if oldest.is_some_and(|made| made.elapsed() > limits.answer_timeout) {
                    let peer = connection.client.address;
                    tracing::debug!(%peer, "a client of the service does not read an answer");
                    return;
                }
            }
        }
    }
    served.as_mut().graceful_shutdown();
    let _ = timeout(STOP_GRACE, served).await;
}
