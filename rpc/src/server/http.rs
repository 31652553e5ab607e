//! JSON-RPC over HTTP/1.1: `POST` at the root.
//!
//! The routes (`routes.rs`) are warp filters; the accept loop is our own, because it has to bound connections and
//! time, report bind errors and stop. Answers are 200 with a JSON body (204 if there is nothing to
//! answer) except where HTTP itself is refused: 403, 404, 405, 408, 413, 415, 503.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::connection::{Activity, Watched};
use super::routes::routes;
use super::{ACCEPT_PAUSE, Cors, Place, Running, ServeError, stopped};
use crate::dispatch::Dispatcher;
use crate::limits::Limits;

/// Default listening address.
pub const HOST: &str = "localhost";
/// Default listening port of the base-chain node.
pub const PORT: u16 = 8545;
/// Default listening port of the application-chain node.
pub const PORT_SCS: u16 = 8548;

/// The whole answer to a connection for which there is no place.
const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: text/plain\r\n\
    content-length: 21\r\n\r\ntoo many connections\n";
/// Most connections that are being told so at the same time; others are just closed.
const REFUSALS_MAX: usize = 64;
/// Time for a refused connection to read that it is refused.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Where and for whom to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// An address or a name; `localhost` means 127.0.0.1 and, where there is one, ::1.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Browser origins that may read answers.
    pub cors: Cors,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            host: HOST.to_owned(),
            port: PORT,
            cors: Cors::default(),
        }
    }
}

/// A running HTTP server. Dropping it closes it without waiting.
pub struct HttpServer {
    addresses: Vec<SocketAddr>,
    running: Running,
}

impl HttpServer {
    /// The addresses it listens on, with their real ports; at least one.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops listening: afterwards the port is free. Requests under way get their grace, but this
    /// does not wait for it, so a method may close the server that it was called through.
    pub async fn close(&mut self) {
        self.running.close().await;
    }

    /// Closes and waits until the last connection has ended, at most the grace for stopping.
    pub async fn stop(mut self) {
        self.running.close().await;
        self.running.drain().await;
    }
}

/// Starts to listen and to answer with `dispatcher`.
///
/// # Errors
/// If the address cannot be found or listened on.
pub async fn start<C: Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    options: &HttpOptions,
) -> Result<HttpServer, ServeError> {
    let listeners = bind(&options.host, options.port).await?;
    let limits = Arc::new(dispatcher.limits().clone());
    let mut running = Running::new(limits.connections_max);
    let mut addresses = Vec::new();
    let service = warp::service(routes(dispatcher, Arc::new(options.cors.clone())));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    for (listener, address) in listeners {
        addresses.push(address);
        let door = Door {
            limits: Arc::clone(&limits),
            places: Arc::clone(&running.places),
            refusals: Arc::clone(&refusals),
            stop: running.stop.subscribe(),
        };
        let service = TowerToHyperService::new(service.clone());
        running.listeners.spawn(door.accept(listener, service));
    }
    Ok(HttpServer { addresses, running })
}

/// The listeners for `host`: two for `localhost`, otherwise one.
async fn bind(host: &str, port: u16) -> Result<Vec<(TcpListener, SocketAddr)>, ServeError> {
    if !host.eq_ignore_ascii_case(HOST) {
        let bound = bind_first(host, port)
            .await
            .map_err(ServeError::bind(format_args!("{host}:{port}")))?;
        return Ok(vec![bound]);
    }
    let first = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let first = bind_one(first).await.map_err(ServeError::bind(first))?;
    let second = SocketAddr::from((Ipv6Addr::LOCALHOST, first.1.port()));
    let second = bind_one(second)
        .await
        .inspect_err(|error| tracing::debug!(%error, "not listening on ::1"))
        .ok();
    Ok([first].into_iter().chain(second).collect())
}

/// Listens on the first address of `host` that can be listened on.
async fn bind_first(host: &str, port: u16) -> io::Result<(TcpListener, SocketAddr)> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return bind_one((ip, port).into()).await;
    }
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in tokio::net::lookup_host((host, port)).await? {
        match bind_one(address).await {
            Ok(bound) => return Ok(bound),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn bind_one(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Lets connections in, up to a number.
struct Door {
    limits: Arc<Limits>,
    places: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

impl Door {
    async fn accept<S>(mut self, listener: TcpListener, service: S)
    where
        S: WebService,
    {
        loop {
            let accepted = tokio::select! {
                biased;
                () = stopped(&mut self.stop) => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => self.admit(stream, service.clone()),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn admit<S: WebService>(&self, stream: TcpStream, service: S) {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            tokio::spawn(serve(
                stream,
                service,
                Arc::clone(&self.limits),
                place,
                self.stop.clone(),
            ));
        } else if let Ok(refusal) = Arc::clone(&self.refusals).try_acquire_owned() {
            tokio::spawn(async move {
                let _ = timeout(REFUSAL_TIMEOUT, refuse(stream)).await;
                drop(refusal);
            });
        }
    }
}

/// Says that there is no place, and waits for the client to hang up: closing first, with its
/// request unread, would reset the connection before it has read this.
async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(NO_PLACE).await?;
    stream.shutdown().await?;
    let mut unread = [0; 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

/// What the routes become: a service that a connection can call.
trait WebService:
    hyper::service::Service<
        hyper::Request<hyper::body::Incoming>,
        Response = warp::reply::Response,
        Error = std::convert::Infallible,
        Future: Send + 'static,
    > + Clone
    + Send
    + 'static
{
}

impl<S> WebService for S where
    S: hyper::service::Service<
            hyper::Request<hyper::body::Incoming>,
            Response = warp::reply::Response,
            Error = std::convert::Infallible,
            Future: Send + 'static,
        > + Clone
        + Send
        + 'static
{
}

/// One connection, from its first byte to its end.
async fn serve<S: WebService>(
    stream: TcpStream,
    service: S,
    limits: Arc<Limits>,
    place: Place,
    mut stop: watch::Receiver<bool>,
) {
    // Answers are small and written at once: waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let activity = Activity::new(limits.header_timeout, limits.idle_timeout);
    let io = TokioIo::new(Watched {
        inner: stream,
        activity: activity.clone(),
    });
    let service = Watched {
        inner: service,
        activity: activity.clone(),
    };
    let connection = http1::Builder::new()
        .half_close(true)
        .header_read_timeout(None)
        .serve_connection(io, service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = activity.watch(connection.as_mut()) => ended,
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            timeout(limits.stop_grace, connection).await.ok()
        }
    };
    match ended {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(%error, "an HTTP connection failed"),
        None => tracing::debug!("an HTTP connection ran out of time"),
    }
    drop(place);
}
