//! The door of a server on TCP: lets connections in up to a number, speaks HTTP/1.1 with each within
//! its time, and ends them when the server stops.
//!
//! Knows nothing of what requests say. A connection keeps its place until its last part is gone,
//! which after an upgrade is whoever talks on.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::connection::{Activity, Watched};
use super::http::HOST;
use super::{ACCEPT_PAUSE, Place, Running, ServeError, stopped};
use crate::limits::Limits;

/// The whole answer to a connection for which there is no place.
const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: text/plain\r\n\
    content-length: 21\r\n\r\ntoo many connections\n";
/// Most connections that are being told so at the same time; others are just closed.
const REFUSALS_MAX: usize = 64;
/// Time for a refused connection to read that it is refused.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Most bytes of a header, and of a body between two reads, held for a connection.
const BUFFER_LEN_MAX: usize = 64 * 1024;

/// A request as it comes through the door.
pub(super) type Request = hyper::Request<hyper::body::Incoming>;
/// A response as it leaves.
pub(super) type Response = warp::reply::Response;

/// A connection's place, shared by its parts.
pub(super) type Seat = Arc<Place>;

/// The listeners for `host`: two for `localhost`, otherwise one.
pub(super) async fn bind(host: &str, port: u16) -> Result<Vec<(TcpListener, SocketAddr)>, ServeError> {
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
#[derive(Clone)]
pub(super) struct Door {
    limits: Arc<Limits>,
    places: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

impl Door {
    /// The door of `running`.
    pub(super) fn new(limits: &Limits, running: &Running) -> Self {
        Self {
            limits: Arc::new(limits.clone()),
            places: Arc::clone(&running.places),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            stop: running.stop.subscribe(),
        }
    }

    /// Accepts until the server stops; each connection is served by what `service` makes for it.
    pub(super) async fn accept<S>(mut self, listener: TcpListener, service: impl Fn(&Seat) -> S)
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
                Ok((stream, _)) => self.admit(stream, &service),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn admit<S: WebService>(&self, stream: TcpStream, service: impl Fn(&Seat) -> S) {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            let seat = Arc::new(place);
            let service = service(&seat);
            let limits = Arc::clone(&self.limits);
            tokio::spawn(serve(stream, service, limits, seat, self.stop.clone()));
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

/// What a connection can call.
pub(super) trait WebService:
    Service<Request, Response = Response, Error = Infallible, Future: Send + 'static> + Send + 'static
{
}

impl<S> WebService for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send + 'static> + Send + 'static
{
}

/// One connection, from its first byte to its end.
async fn serve<S: WebService>(
    stream: TcpStream,
    service: S,
    limits: Arc<Limits>,
    seat: Seat,
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
        .max_buf_size(BUFFER_LEN_MAX)
        .serve_connection(io, service)
        .with_upgrades();
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
    drop(seat);
}
