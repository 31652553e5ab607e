//! JSON-RPC over WebSockets: a message in each frame of text, in both directions.
//!
//! The handshake is an HTTP request through the same door as those of the HTTP server, with its
//! bounds; then the conversation is `talk.rs`'s. A client that breaks a rule is told by a close
//! code: 1002 for the protocol, 1007 for text that is none, 1008 for reading too slowly, 1009 for a
//! message too long, 1013 where memory is short, 1001 when the server stops.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::service::Service;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use warp::Reply;
use warp::http::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use warp::http::{Method, StatusCode};

use super::door::{Door, Request, Response, Seat, bind};
use super::metered::Metered;
use super::routes::refusal;
use super::talk::{Channel, End, Fault, talk};
use super::{Cors, Hosts, Running, ServeError, stopped};
use crate::dispatch::Dispatcher;

/// Default listening port.
pub const PORT: u16 = 8546;

/// Bytes asked for in one read, held by each connection.
const READ_LEN: usize = 4096;
/// In each such part of the idle time, a silent client is pinged once.
const PINGS_PER_TIMEOUT: u32 = 4;
/// What a visitor without the protocol sees.
const GREETING: &str = "this is a JSON-RPC 2.0 endpoint for WebSockets";

/// Where and for whom to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WsOptions {
    /// An address or a name; `localhost` means 127.0.0.1 and, where there is one, ::1.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Browser origins that may connect. A client that names no origin, as browsers always do, may
    /// connect in any case.
    pub origins: Cors,
    /// Names under which the server may be spoken to, as over HTTP.
    pub hosts: Hosts,
}

impl Default for WsOptions {
    fn default() -> Self {
        Self {
            host: super::http::HOST.to_owned(),
            port: PORT,
            origins: Cors::default(),
            hosts: Hosts::default(),
        }
    }
}

/// Who may open a WebSocket.
#[derive(Debug)]
struct Guard {
    origins: Cors,
    hosts: Hosts,
}

/// A running WebSocket server. Dropping it closes it without waiting.
pub struct WsServer {
    addresses: Vec<SocketAddr>,
    running: Running,
}

impl WsServer {
    /// The addresses it listens on, with their real ports; at least one.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops listening, without waiting for connections to end: see `HttpServer::close`.
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
    options: &WsOptions,
) -> Result<WsServer, ServeError> {
    let listeners = bind(&options.host, options.port).await?;
    let mut running = Running::new(dispatcher.limits().connections_max);
    let door = Door::new(dispatcher.limits(), &running);
    let guard = Arc::new(Guard {
        origins: options.origins.clone(),
        hosts: options.hosts.clone(),
    });
    let mut addresses = Vec::new();
    for (listener, address) in listeners {
        addresses.push(address);
        let (dispatcher, guard) = (Arc::clone(&dispatcher), Arc::clone(&guard));
        let stop = running.stop.subscribe();
        let greeter = move |seat: &Seat| Greeter {
            dispatcher: Arc::clone(&dispatcher),
            guard: Arc::clone(&guard),
            seat: Arc::clone(seat),
            stop: stop.clone(),
        };
        running.listeners.spawn(door.clone().accept(listener, greeter));
    }
    Ok(WsServer { addresses, running })
}

/// Answers the request that a connection begins with.
struct Greeter<C> {
    dispatcher: Arc<Dispatcher<C>>,
    guard: Arc<Guard>,
    seat: Seat,
    stop: watch::Receiver<bool>,
}

impl<C: Send + Sync + 'static> Service<Request> for Greeter<C> {
    type Response = Response;
    type Error = Infallible;
    type Future = Ready<Result<Response, Infallible>>;

    fn call(&self, mut request: Request) -> Self::Future {
        let response = match accept(&request, &self.guard) {
            Ok(proof) => {
                let upgrade = hyper::upgrade::on(&mut request);
                let (dispatcher, seat) = (Arc::clone(&self.dispatcher), Arc::clone(&self.seat));
                tokio::spawn(serve(dispatcher, upgrade, seat, self.stop.clone()));
                switching(proof)
            }
            Err(refusal) => refused(refusal),
        };
        ready(Ok(response))
    }
}

/// Why a request opens no WebSocket.
type Refusal = (StatusCode, &'static str);

/// What to answer a request that opens a WebSocket with: the proof that its key was read.
fn accept(request: &Request, guard: &Guard) -> Result<HeaderValue, Refusal> {
    let headers = request.headers();
    if !guard.hosts.allows_request(request.uri(), headers) {
        return Err((StatusCode::FORBIDDEN, "host not allowed"));
    }
    if request.uri().path() != "/" {
        return Err((StatusCode::NOT_FOUND, "not found"));
    }
    let asks = request.method() == Method::GET
        && has(headers, &CONNECTION, "upgrade")
        && has(headers, &UPGRADE, "websocket");
    if !asks || !has(headers, &SEC_WEBSOCKET_VERSION, "13") {
        return Err((StatusCode::UPGRADE_REQUIRED, GREETING));
    }
    let allowed = |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| guard.origins.allows(origin));
    if headers.get(ORIGIN).is_some_and(|origin| !allowed(origin)) {
        return Err((StatusCode::FORBIDDEN, "origin not allowed"));
    }
    let key = headers.get(SEC_WEBSOCKET_KEY);
    let key = key.ok_or((StatusCode::BAD_REQUEST, "missing Sec-WebSocket-Key"))?;
    HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
        .map_err(|_| (StatusCode::BAD_REQUEST, "bad Sec-WebSocket-Key"))
}

fn switching(proof: HeaderValue) -> Response {
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, proof);
    response
}

fn refused((status, reason): Refusal) -> Response {
    let mut response = refusal(status, reason).into_response();
    if status == StatusCode::UPGRADE_REQUIRED {
        let headers = response.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    }
    response
}

/// Whether a header's list has this word.
fn has(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let lists = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut words = lists.flat_map(|list| list.split(','));
    words.any(|own| own.trim().eq_ignore_ascii_case(word))
}

/// One connection after its handshake.
async fn serve<C: Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    upgrade: OnUpgrade,
    seat: Seat,
    mut stop: watch::Receiver<bool>,
) {
    let upgraded = match upgrade.await {
        Ok(upgraded) => upgraded,
        Err(error) => return tracing::debug!(%error, "a WebSocket was not opened"),
    };
    let limits = dispatcher.limits();
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_LEN)
        .write_buffer_size(0)
        .max_message_size(Some(limits.body_len_max))
        .max_frame_size(Some(limits.body_len_max));
    let io = Metered::new(TokioIo::new(upgraded), dispatcher.traffic().clone());
    let now = Instant::now();
    let mut channel = WsChannel {
        socket: WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await,
        len_max: limits.body_len_max,
        write_timeout: limits.write_timeout,
        idle_timeout: limits.idle_timeout,
        heard: now,
        ping_at: now + limits.idle_timeout / PINGS_PER_TIMEOUT,
    };
    let mut told = stop.clone();
    let ended = {
        let mut talk = std::pin::pin!(talk(&dispatcher, &mut channel, &mut told));
        tokio::select! {
            ended = talk.as_mut() => Some(ended),
            () = stopped(&mut stop) => timeout(limits.stop_grace, talk).await.ok(),
        }
    };
    let (code, reason) = match ended {
        Some(Ok(End::Closed)) => return,
        Some(Ok(End::Stopped)) | None => (CloseCode::Away, "the node stops".to_owned()),
        Some(Err(fault)) => {
            tracing::debug!(error = %fault, "a WebSocket connection is given up");
            match close_code(&fault) {
                Some(code) => (code, fault.to_string()),
                None => return,
            }
        }
    };
    // A client that does not even read this is cut off.
    let _ = timeout(limits.stop_grace, channel.close(code, reason)).await;
    drop(seat);
}

/// What a client is told; nothing where there is nobody to tell.
fn close_code(fault: &Fault) -> Option<CloseCode> {
    match fault {
        Fault::Slow => Some(CloseCode::Policy),
        Fault::TooLong(_) => Some(CloseCode::Size),
        Fault::Broken(_) => Some(CloseCode::Invalid),
        Fault::Protocol(_) => Some(CloseCode::Protocol),
        Fault::NoRoom => Some(CloseCode::Again),
        Fault::Failed(_) => Some(CloseCode::Error),
        Fault::Silent | Fault::Io(_) => None,
    }
}

struct WsChannel {
    socket: WebSocketStream<Metered<TokioIo<hyper::upgrade::Upgraded>>>,
    len_max: usize,
    write_timeout: Duration,
    idle_timeout: Duration,
    /// When anything came the last time.
    heard: Instant,
    ping_at: Instant,
}

impl WsChannel {
    async fn put(&mut self, message: Message, flush: bool) -> Result<(), Fault> {
        let put = async {
            self.socket.feed(message).await?;
            if flush { self.socket.flush().await } else { Ok(()) }
        };
        match timeout(self.write_timeout, put).await {
            Ok(result) => result.map_err(|error| fault(error, self.len_max)),
            Err(_) => Err(Fault::Slow),
        }
    }

    /// Says goodbye, and waits until the client does: closing with something unread would reset the
    /// connection before it has read this.
    async fn close(&mut self, code: CloseCode, reason: String) {
        let frame = CloseFrame {
            code,
            reason: reason.into(),
        };
        if self.socket.close(Some(frame)).await.is_ok() {
            while let Some(Ok(_)) = self.socket.next().await {
                self.socket.get_mut().reset();
            }
        }
    }
}

impl Channel for WsChannel {
    const HALF_CLOSES: bool = false;

    async fn receive(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let message = tokio::select! {
                // What has come is looked at first: while enough is under way nothing is read, and
                // a client that waits is not silent.
                biased;
                message = self.socket.next() => message,
                () = sleep_until(self.ping_at) => {
                    if self.heard.elapsed() >= self.idle_timeout {
                        return Err(Fault::Silent);
                    }
                    self.ping_at = Instant::now() + self.idle_timeout / PINGS_PER_TIMEOUT;
                    self.put(Message::Ping(Bytes::new()), false).await?;
                    continue;
                }
            };
            let Some(message) = message else { return Ok(None) };
            let message = message.map_err(|error| fault(error, self.len_max))?;
            self.heard = Instant::now();
            self.socket.get_mut().reset();
            match message {
                Message::Text(text) => return Ok(Some(text.into())),
                Message::Binary(bytes) => return Ok(Some(bytes)),
                // Pings are answered, and a goodbye returned, with the next read.
                Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => {}
            }
        }
    }

    async fn send(&mut self, message: Vec<u8>) -> Result<(), Fault> {
        let text = String::from_utf8(message).map_err(|error| Fault::Protocol(error.to_string()))?;
        self.put(Message::Text(text.into()), true).await
    }
}

fn fault(error: Error, len_max: usize) -> Fault {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { .. }) => Fault::TooLong(len_max),
        Error::Utf8(reason) => Fault::Broken(crate::error::RpcError::parse(reason)),
        Error::Io(error) if error.kind() == std::io::ErrorKind::OutOfMemory => Fault::NoRoom,
        Error::Io(error) => Fault::Io(error),
        Error::ConnectionClosed | Error::AlreadyClosed => {
            Fault::Io(std::io::Error::from(std::io::ErrorKind::ConnectionAborted))
        }
        error => Fault::Protocol(error.to_string()),
    }
}
