//! Accepts TCP connections up to a number, speaks HTTP/1.1 on each of them within its time limits,
//! and ends them when the server stops.
//!
//! Knows nothing of what requests say, with one exception: `GET /health` and `GET /ready` are
//! answered even if all places are taken. For this a few more connections are accepted for a
//! moment. Every other request on them is refused. A connection keeps its place until its last part
//! has ended. After an upgrade to a WebSocket that part is the task that serves the WebSocket.
//! Which connection makes room for another is decided by [`Places`]. The handshake of TLS has the
//! time of the first header, and whoever shakes hands has a place.

use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::tls::{ServerStream, ServerTls, TlsHandshakeError};
use daemon::{ClientId, Place, PlaceLimits, Places, accept, stopped};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use warp::http::StatusCode;

use super::activity::{Activity, Watched, WatchedAnswer};
use super::replies::{HttpResponse, refusal};
use super::split::SplitStream;
use crate::access::{Grant, TokenPlace};
use crate::caller::RpcCaller;
use crate::limits::Limits;
use crate::meters::ConnectionMeter;
use crate::traffic::TrafficMemory;

/// The paths of the node's state.
const STATE_PATHS: [&str; 2] = ["/health", "/ready"];
/// The answer to a request of plain HTTP where TLS is expected.
const HTTPS_EXPECTED: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n\
                              connection: close\r\ncontent-length: 41\r\n\r\n\
                              got plain HTTP, expected https:// or wss\n";
/// The answer to a request for which there is no place.
const TOO_MANY_CONNECTIONS: &str = "too many connections";
/// Places for connections that are only told that there is no place, or how the node is.
const RESERVED_PLACES: usize = 64;
/// Time for a client on a reserved place to send its request, and to read the answer.
const RESERVED_TIMEOUT: Duration = Duration::from_secs(1);

/// Most bytes of a header, and of a body between two reads, that are held for a connection.
const BUFFER_LEN_MAX: usize = 64 * 1024;

/// A request as it comes from the network.
pub(super) type HttpRequest = hyper::Request<hyper::body::Incoming>;

/// A connection, with all that a service takes over to go on after an upgrade.
#[derive(Clone)]
pub(super) struct ConnectionContext {
    /// The connection's place, shared by its parts. It is free when the last part drops it.
    pub(super) place: Arc<Place<Activity>>,
    /// The client that has connected.
    pub(super) source: Arc<RequestSource>,
    /// Becomes true when the server stops.
    pub(super) stop: watch::Receiver<bool>,
    /// Counts the connection until its last part has ended.
    _meter: Arc<ConnectionMeter>,
}

/// The origin of a request. Every request has it as an extension.
pub(super) struct RequestSource {
    pub(super) caller: RpcCaller,
    pub(super) activity: Activity,
    /// The connection's place among those that use the same token.
    pub(super) token_place: Arc<Mutex<Option<TokenPlace>>>,
}

impl RequestSource {
    /// A connection without a token so far.
    pub(super) fn new(caller: RpcCaller, activity: Activity) -> Self {
        Self {
            caller,
            activity,
            token_place: Arc::default(),
        }
    }

    /// The same connection, with what it was granted.
    pub(super) fn with_grant(&self, grant: Grant) -> Self {
        Self {
            caller: self.caller.with_grant(grant),
            activity: self.activity.clone(),
            token_place: Arc::clone(&self.token_place),
        }
    }
}

/// A response that may have to be waited for. On the heap: the future of the routes has a long
/// type, and the code of connections would be compiled for it.
pub(super) type HttpResponseFuture = BoxFuture<'static, HttpResponse>;

/// Answers the requests of one connection.
pub(super) type HttpService = Box<dyn Fn(HttpRequest) -> HttpResponseFuture + Send>;

/// Makes the service of each connection.
pub(super) type HttpServices = Arc<dyn Fn(&ConnectionContext) -> HttpService + Send + Sync>;

/// Accepts connections, up to a number.
#[derive(Clone)]
pub(super) struct Acceptor {
    limits: Arc<Limits>,
    reserved_limits: Arc<Limits>,
    traffic: TrafficMemory,
    places: Places<Activity>,
    reserved: Places<Activity>,
    tls: Option<Arc<ServerTls>>,
}

impl Acceptor {
    /// An acceptor with its own places. The memory of messages is in `traffic`. Connections speak
    /// TLS if there is `tls`.
    pub(super) fn new(limits: &Limits, traffic: &TrafficMemory, tls: Option<Arc<ServerTls>>) -> Self {
        let places = |total| Places::new(PlaceLimits::with_share(total, limits.client_share_percent));
        Self {
            limits: Arc::new(limits.clone()),
            reserved_limits: Arc::new(Limits {
                header_timeout: RESERVED_TIMEOUT,
                idle_timeout: RESERVED_TIMEOUT,
                ..limits.clone()
            }),
            traffic: traffic.clone(),
            places: places(limits.connections_max),
            reserved: places(RESERVED_PLACES),
            tls,
        }
    }

    pub(super) fn all_places(&self) -> Vec<Places<Activity>> {
        vec![self.places.clone(), self.reserved.clone()]
    }

    /// Accepts until the server stops. Each connection is served by what `services` makes for it.
    pub(super) async fn run(
        self,
        listener: TcpListener,
        stop: watch::Receiver<bool>,
        services: HttpServices,
    ) {
        let stopped = stop.clone();
        // The connections end by themselves, and the server waits for their places.
        let admit = move |(stream, address)| {
            self.admit(stream, address, &stop, &*services).map(tokio::spawn);
            None::<Ready<()>>
        };
        accept(listener, "the JSON-RPC server", stopped, admit).await;
    }

    /// Returns the task that serves the connection, if there is a place for it or a reserved one.
    fn admit(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        stop: &watch::Receiver<bool>,
        services: &dyn Fn(&ConnectionContext) -> HttpService,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let client = ClientId::from(address.ip());
        let take = |places: &Places<Activity>, limits| {
            let activity = Activity::new(limits);
            let place = places.take(client, activity.clone(), Instant::now())?;
            Some((place, activity))
        };
        let (taken, is_reserved, limits) = match take(&self.places, &self.limits) {
            Some(taken) => (Some(taken), false, &self.limits),
            None => (
                take(&self.reserved, &self.reserved_limits),
                true,
                &self.reserved_limits,
            ),
        };
        let (place, activity) = taken?;
        // Answers are small and written at once. Waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let stream = SplitStream::new(stream);
        let caller = RpcCaller::remote(client, &self.traffic).with_hang_up(Arc::new(stream.hang_up()));
        let context = ConnectionContext {
            place: Arc::new(place),
            source: Arc::new(RequestSource::new(caller, activity)),
            stop: stop.clone(),
            _meter: Arc::new(ConnectionMeter::new()),
        };
        let service = services(&context);
        let service = if is_reserved { for_state(service) } else { service };
        let (tls, limits) = (self.tls.clone(), Arc::clone(limits));
        Some(async move {
            let stream = match tls {
                None => Some(ServerStream::Plain(stream)),
                Some(tls) => Box::pin(shake_hands(&tls, stream, &context)).await,
            };
            if let Some(stream) = stream {
                serve(stream, service, limits, context).await;
            }
        })
    }
}

/// Shakes hands with a client. Returns `None` if that fails, takes too long, or has to end.
async fn shake_hands(
    tls: &ServerTls,
    stream: SplitStream,
    context: &ConnectionContext,
) -> Option<ServerStream<SplitStream>> {
    let (client, mut stop) = (context.source.caller.client, context.stop.clone());
    let handshake = pin!(async {
        match tls.accept(stream).await {
            Err(TlsHandshakeError::PlainText { got, mut stream }) => {
                if got.is_http() {
                    // The client may be gone already, so errors are ignored.
                    let _ = stream.write_all(HTTPS_EXPECTED.as_bytes()).await;
                }
                Err(format!("got {got}, expected the handshake of TLS"))
            }
            shaken => shaken.map_err(|error| error.to_string()),
        }
    });
    let shaken = tokio::select! {
        shaken = context.source.activity.watch(handshake) => shaken,
        () = context.place.displaced() => None,
        () = stopped(&mut stop) => None,
    };
    match shaken {
        Some(Ok(stream)) => return Some(stream),
        Some(Err(reason)) => tracing::debug!(?client, "a connection without TLS: {reason}"),
        None => tracing::debug!(
            ?client,
            "a handshake of TLS ran out of time, or made room for another"
        ),
    }
    None
}

/// Passes requests for the paths of the state on. Refuses others, because there is no place.
fn for_state(service: HttpService) -> HttpService {
    Box::new(move |request| match STATE_PATHS.contains(&request.uri().path()) {
        true => service(request),
        false => ready(refusal(StatusCode::SERVICE_UNAVAILABLE, TOO_MANY_CONNECTIONS)).boxed(),
    })
}

/// Serves one connection from its first byte to its end. Its requests get their source.
async fn serve(
    stream: ServerStream<SplitStream>,
    service: HttpService,
    limits: Arc<Limits>,
    mut context: ConnectionContext,
) {
    let activity = &context.source.activity;
    let io = TokioIo::new(Watched {
        inner: stream,
        activity: activity.clone(),
    });
    let source = Arc::clone(&context.source);
    let service = service_fn(move |mut request: HttpRequest| {
        request.extensions_mut().insert(Arc::clone(&source));
        WatchedAnswer::new(source.activity.clone(), || service(request))
    });
    let connection = http1::Builder::new()
        .half_close(true)
        .header_read_timeout(None)
        .max_buf_size(BUFFER_LEN_MAX)
        .serve_connection(io, service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = activity.watch(connection.as_mut()) => ended,
        () = context.place.displaced() => None,
        () = stopped(&mut context.stop) => {
            connection.as_mut().graceful_shutdown();
            timeout(limits.stop_grace, connection).await.ok()
        }
    };
    match ended {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(%error, "an HTTP connection failed"),
        None => tracing::debug!("an HTTP connection ran out of time, or made room for another"),
    }
    drop(context);
}
