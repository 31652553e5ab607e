//! Accepts TCP connections up to a number, speaks HTTP/1.1 on each of them within its time limits,
//! and ends them when the server stops.
//!
//! Knows nothing of what requests say. A connection keeps its slot until its last part has ended.
//! After an upgrade to a WebSocket that part is the task that serves the WebSocket.

use std::convert::Infallible;
use std::io;
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

use super::activity::{Activity, Watched};
use super::{ACCEPT_PAUSE, ConnectionSlot, ServerTasks, stopped};
use crate::client::ClientId;
use crate::limits::Limits;

/// The whole answer to a connection for which there is no slot.
const TOO_MANY_CONNECTIONS: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: text/plain\r\n\
    content-length: 21\r\n\r\ntoo many connections\n";
/// Most connections that are sent this answer at the same time. Others are closed without it.
const REFUSALS_MAX: usize = 64;
/// Time for a client to read this answer.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Most bytes of a header, and of a body between two reads, that are held for a connection.
const BUFFER_LEN_MAX: usize = 64 * 1024;

/// A request as it comes from the network.
pub(super) type HttpRequest = hyper::Request<hyper::body::Incoming>;
/// A response as it goes to the network.
pub(super) type HttpResponse = warp::reply::Response;

/// What a service may take over from its connection, to go on after an upgrade.
#[derive(Clone)]
pub(super) struct ConnectionContext {
    /// The connection's slot, shared by its parts. It is free when the last part drops it.
    _slot: Arc<ConnectionSlot>,
    /// Becomes true when the server stops.
    pub(super) stop: watch::Receiver<bool>,
    /// The client that has connected.
    pub(super) client: ClientId,
}

/// Answers the requests of one connection.
pub(super) trait HttpService:
    Service<HttpRequest, Response = HttpResponse, Error = Infallible, Future: Send + 'static> + Send + 'static
{
}

impl<S> HttpService for S where
    S: Service<HttpRequest, Response = HttpResponse, Error = Infallible, Future: Send + 'static>
        + Send
        + 'static
{
}

/// Accepts connections, up to a number.
#[derive(Clone)]
pub(super) struct Acceptor {
    limits: Arc<Limits>,
    slots: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

impl Acceptor {
    /// The acceptor of the server with these `tasks`.
    pub(super) fn new(limits: &Limits, tasks: &ServerTasks) -> Self {
        Self {
            limits: Arc::new(limits.clone()),
            slots: Arc::clone(&tasks.slots),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            stop: tasks.stop.subscribe(),
        }
    }

    /// Accepts until the server stops. Each connection is served by what `service` makes for it.
    pub(super) async fn run<S: HttpService>(
        mut self,
        listener: TcpListener,
        service: impl Fn(&ConnectionContext) -> S,
    ) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = stopped(&mut self.stop) => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => self.admit(stream, ClientId::at(address.ip()), &service),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Starts to serve the connection if a slot is free, otherwise refuses it.
    fn admit<S: HttpService>(
        &self,
        stream: TcpStream,
        client: ClientId,
        service: impl Fn(&ConnectionContext) -> S,
    ) {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            let context = ConnectionContext {
                _slot: Arc::new(slot),
                stop: self.stop.clone(),
                client,
            };
            let service = service(&context);
            tokio::spawn(serve(stream, service, Arc::clone(&self.limits), context));
        } else if let Ok(refusal) = Arc::clone(&self.refusals).try_acquire_owned() {
            tokio::spawn(async move {
                let _ = timeout(REFUSAL_TIMEOUT, refuse(stream)).await;
                drop(refusal);
            });
        }
    }
}

/// Sends the refusal and waits until the client closes the connection. Closing first, while its
/// request is unread, would reset the connection before the client has read the refusal.
async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(TOO_MANY_CONNECTIONS).await?;
    stream.shutdown().await?;
    let mut unread = [0; 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

/// Serves one connection from its first byte to its end.
async fn serve<S: HttpService>(
    stream: TcpStream,
    service: S,
    limits: Arc<Limits>,
    mut context: ConnectionContext,
) {
    // Answers are small and written at once. Waiting to fill a packet would only delay them.
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
        () = stopped(&mut context.stop) => {
            connection.as_mut().graceful_shutdown();
            timeout(limits.stop_grace, connection).await.ok()
        }
    };
    match ended {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(%error, "an HTTP connection failed"),
        None => tracing::debug!("an HTTP connection ran out of time"),
    }
    drop(context);
}
