//! JSON-RPC over WebSockets: one message in each text frame, in both directions.
//!
//! The handshake is an HTTP request. It goes through the same acceptor as the requests of the HTTP
//! server, with the same limits. Then `duplex` exchanges the messages. A client that breaks a rule
//! is told by a close code: 1002 for a protocol error, 1007 for text that is not UTF-8, 1008 for
//! reading too slowly or if its token is withdrawn or expires, 1009 for a message that is too long,
//! 1011 if the node failed, 1013 if too little memory is left or the idle connection makes room for
//! another, 1001 when the server stops.
//!
//! The library answers pings by itself, so a client that pings and does not read would fill the
//! write buffer. Nothing more is read from a client before its last ping is answered, within the
//! time for any other message. The write buffer has room for short messages that leave together,
//! one frame of a message and a few control frames, and control frames have a rate.
//!
//! Knows frames and close codes, and nothing of what the messages say.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use daemon::{TokenBucket, TokenRate};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, SinkExt, StreamExt};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use warp::Reply;
use warp::http::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use warp::http::{Method, StatusCode};

use super::acceptor::{ConnectionContext, HttpRequest, HttpService};
use super::duplex::{self, DuplexChannel, DuplexEnd, DuplexError};
use super::metered::Metered;
use super::pace::{PacedMessage, ReadPace};
use super::replies::{HttpResponse, refusal};
use super::routes::NO_CHAIN;
use super::{Cors, Guards, Healthy, Hosts, ServeError, TcpServer, admission};
use crate::dispatch::{Answering, Dispatcher};
use crate::text::{PIECE_LEN, Text};
use crate::wallet_chains::WalletChains;

pub use crate::control::PORT_WS as PORT;

/// Bytes of one read, held by each connection.
const READ_LEN: usize = 4096;
/// A silent client is pinged this many times per idle timeout.
const PINGS_PER_TIMEOUT: u32 = 4;
/// Longest time that a client without a place has to read its close frame.
const NO_PLACE_TIMEOUT: Duration = Duration::from_millis(200);
/// Bytes of a client's control frame before its content: two of the header, four of the mask.
const CONTROL_HEADER_LEN: usize = 6;
/// Short messages that follow each other leave together when they have this many bytes.
const BATCH_LEN: usize = 16 * 1024;
/// Most bytes in the write buffer of a connection: short messages, a frame of a message, and some
/// control frames.
const WRITE_LEN_MAX: usize = BATCH_LEN + PIECE_LEN + 1024;
/// Control frames that a client may send: pings, and answers to pings. Whatever comes after more of
/// them is read later.
const CONTROL_FRAMES: TokenRate = TokenRate {
    burst: 1024.0,
    per_second: 64.0,
};
/// The response to a request that is not a WebSocket handshake.
const GREETING: &str = "this is a JSON-RPC 2.0 endpoint for WebSockets";

/// The address of the WebSocket server, and the clients that it serves.
#[derive(Clone, Debug)]
pub struct WsOptions {
    /// An address or a name. `localhost` means 127.0.0.1 and, where it exists, `::1`.
    pub host: String,
    /// The port. 0 takes a free one.
    pub port: u16,
    /// Browser origins that may connect. A client that sends no origin may always connect; browsers
    /// always send one.
    pub origins: Cors,
    /// Host names that requests may name, as for the HTTP server.
    pub hosts: Hosts,
    /// TLS, tokens, and the rate of each client address.
    pub guards: Guards,
}

impl Default for WsOptions {
    fn default() -> Self {
        Self {
            host: crate::control::HOST.to_owned(),
            port: PORT,
            origins: Cors::default(),
            hosts: Hosts::default(),
            guards: Guards::default(),
        }
    }
}

/// Starts to listen and to answer with `dispatcher`.
///
/// # Errors
/// If the address cannot be found or listened on.
pub fn start<C: Healthy + Send + Sync + 'static>(
    dispatcher: Arc<Dispatcher<C>>,
    options: &WsOptions,
) -> BoxFuture<'_, Result<TcpServer, ServeError>> {
    start_server(dispatcher, options)
}

fn start_server(
    dispatcher: Arc<dyn Answering>,
    options: &WsOptions,
) -> BoxFuture<'_, Result<TcpServer, ServeError>> {
    let (limits, traffic) = (dispatcher.limits().clone(), dispatcher.traffic().clone());
    let policy = HandshakePolicy {
        origins: options.origins.clone(),
        hosts: options.hosts.clone(),
        guards: options.guards.clone(),
    };
    let handshakes = Handshakes::new(dispatcher, policy, None);
    let services = Arc::new(move |context: &ConnectionContext| handshakes.service(context));
    let WsOptions {
        host, port, guards, ..
    } = options;
    Box::pin(async move { TcpServer::start(host, *port, &limits, &traffic, guards, services).await })
}

/// Makes the service of each connection.
#[derive(Clone)]
pub(super) struct Handshakes {
    dispatcher: Arc<dyn Answering>,
    policy: Arc<HandshakePolicy>,
    /// The MicroChains that have paths of their own.
    chains: Option<Arc<WalletChains>>,
}

impl Handshakes {
    pub(super) fn new(
        dispatcher: Arc<dyn Answering>,
        policy: HandshakePolicy,
        chains: Option<Arc<WalletChains>>,
    ) -> Self {
        Self {
            dispatcher,
            policy: Arc::new(policy),
            chains,
        }
    }

    /// Returns the service of a connection. It answers the request that the connection begins with,
    /// and starts to serve the WebSocket.
    pub(super) fn service(&self, context: &ConnectionContext) -> HttpService {
        let (handshakes, context) = (self.clone(), context.clone());
        Box::new(move |request| ready(handshakes.answer(&context, request)).boxed())
    }

    fn answer(&self, context: &ConnectionContext, mut request: HttpRequest) -> HttpResponse {
        let path = request.uri().path();
        let has_path = path == "/" || (self.chains.is_some() && WalletChains::address_in(path).is_some());
        let admitted = self.policy.check(&request, has_path);
        let admitted = admitted
            .map_err(|refused| Box::new(refused.into_response()))
            .and_then(|accept_key| {
                let source = &context.source;
                let source = admission::admit(&self.policy.guards, source, request.headers())?;
                let missing = || Box::new(refusal(StatusCode::NOT_FOUND, NO_CHAIN));
                let dispatcher = self.dispatcher(request.uri().path()).ok_or_else(missing)?;
                Ok((accept_key, source, dispatcher))
            });
        match admitted {
            Ok((accept_key, source, dispatcher)) => {
                let grant = source.caller.grant.clone().for_connection();
                let mut context = context.clone();
                context.source = Arc::new(source.with_grant(grant));
                let upgrade = hyper::upgrade::on(&mut request);
                tokio::spawn(serve(dispatcher, upgrade, context));
                switching_protocols(accept_key)
            }
            Err(refused) => *refused,
        }
    }

    /// The dispatcher for a path: the server's own, or a MicroChain's. `None` if there is neither.
    fn dispatcher(&self, path: &str) -> Option<Arc<dyn Answering>> {
        if path == "/" {
            return Some(Arc::clone(&self.dispatcher));
        }
        Some(
            self.chains
                .as_ref()?
                .dispatcher(WalletChains::address_in(path)?)?,
        )
    }
}

/// Whether a request asks for a WebSocket.
pub(super) fn is_upgrade(request: &HttpRequest) -> bool {
    let headers = request.headers();
    request.method() == Method::GET
        && has_word(headers, &CONNECTION, "upgrade")
        && has_word(headers, &UPGRADE, "websocket")
}

/// Which clients may open a WebSocket.
#[derive(Debug)]
pub(super) struct HandshakePolicy {
    pub(super) origins: Cors,
    pub(super) hosts: Hosts,
    pub(super) guards: Guards,
}

/// The reason why a request opens no WebSocket.
struct HandshakeRefusal {
    status: StatusCode,
    reason: &'static str,
}

impl HandshakeRefusal {
    const fn new(status: StatusCode, reason: &'static str) -> Self {
        Self { status, reason }
    }

    fn into_response(self) -> HttpResponse {
        let mut response = refusal(self.status, self.reason).into_response();
        if self.status == StatusCode::UPGRADE_REQUIRED {
            let headers = response.headers_mut();
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        response
    }
}

impl HandshakePolicy {
    /// Returns the value of `Sec-WebSocket-Accept` if `request` may open a WebSocket. `has_path`
    /// says that its path can be one that is served.
    fn check(&self, request: &HttpRequest, has_path: bool) -> Result<HeaderValue, HandshakeRefusal> {
        let refuse = |status, reason| Err(HandshakeRefusal::new(status, reason));
        let headers = request.headers();
        if !self.hosts.allows_request(request.uri(), headers) {
            return refuse(StatusCode::FORBIDDEN, "host not allowed");
        }
        if !has_path {
            return refuse(StatusCode::NOT_FOUND, "not found");
        }
        if !is_upgrade(request) || !has_word(headers, &SEC_WEBSOCKET_VERSION, "13") {
            return refuse(StatusCode::UPGRADE_REQUIRED, GREETING);
        }
        let allows = |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| self.origins.allows(origin));
        if headers.get(ORIGIN).is_some_and(|origin| !allows(origin)) {
            return refuse(StatusCode::FORBIDDEN, "origin not allowed");
        }
        let Some(key) = headers.get(SEC_WEBSOCKET_KEY) else {
            return refuse(StatusCode::BAD_REQUEST, "missing Sec-WebSocket-Key");
        };
        HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
            .or_else(|_| refuse(StatusCode::BAD_REQUEST, "bad Sec-WebSocket-Key"))
    }
}

fn switching_protocols(accept_key: HeaderValue) -> HttpResponse {
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept_key);
    response
}

/// Whether the comma-separated lists in header `name` contain `word`.
fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let lists = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut words = lists.flat_map(|list| list.split(','));
    words.any(|other| other.trim().eq_ignore_ascii_case(word))
}

/// Serves one WebSocket after its handshake.
async fn serve(dispatcher: Arc<dyn Answering>, upgrade: OnUpgrade, context: ConnectionContext) {
    let upgraded = match upgrade.await {
        Ok(upgraded) => upgraded,
        Err(error) => return tracing::debug!(%error, "a WebSocket was not opened"),
    };
    let limits = dispatcher.limits();
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_LEN)
        .write_buffer_size(BATCH_LEN)
        .max_write_buffer_size(WRITE_LEN_MAX)
        .max_message_size(Some(limits.body_len_max))
        .max_frame_size(Some(limits.body_len_max));
    let source = &context.source;
    let memory = source.caller.memory.clone();
    let io = Metered::new(TokioIo::new(upgraded), memory, limits.body_len_max);
    let now = Instant::now();
    let mut channel = WsChannel {
        socket: WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await,
        len_max: limits.body_len_max,
        pace: ReadPace::new(limits),
        idle_timeout: limits.idle_timeout,
        last_message: now,
        ping_at: now + limits.idle_timeout / PINGS_PER_TIMEOUT,
        control: ControlFrames::new(now),
    };
    let ended = tokio::select! {
        ended = duplex::serve(&*dispatcher, &mut channel, source, &context.stop) => Some(ended),
        () = context.place.displaced() => None,
        () = source.caller.grant.ended() => Some(Some(Err(DuplexError::Withdrawn))),
    };
    let mut close_timeout = limits.stop_grace;
    let (code, reason) = match ended {
        Some(Some(Ok(DuplexEnd::Closed))) => return,
        Some(Some(Ok(DuplexEnd::Stopped)) | None) => (CloseCode::Away, "the node stops".to_owned()),
        None => {
            // The connection has no place any more, so it may not stay for long.
            close_timeout = close_timeout.min(NO_PLACE_TIMEOUT);
            (
                CloseCode::Again,
                "the idle connection makes room for another".to_owned(),
            )
        }
        Some(Some(Err(error))) => {
            tracing::debug!(%error, "closing a WebSocket");
            match close_code(&error) {
                Some(code) => (code, error.to_string()),
                None => return,
            }
        }
    };
    // A client that does not read the close frame in time is cut off.
    let _ = timeout(close_timeout, channel.close(code, reason)).await;
    drop(context);
}

/// The close code that tells a client of `error`; `None` if the client cannot be told any more.
const fn close_code(error: &DuplexError) -> Option<CloseCode> {
    match error {
        DuplexError::SlowReader | DuplexError::Withdrawn => Some(CloseCode::Policy),
        DuplexError::TooLong(_) => Some(CloseCode::Size),
        DuplexError::Unreadable(_) => Some(CloseCode::Invalid),
        DuplexError::Protocol(_) => Some(CloseCode::Protocol),
        DuplexError::NoMemory | DuplexError::Starved => Some(CloseCode::Again),
        DuplexError::Node(_) => Some(CloseCode::Error),
        DuplexError::Silent | DuplexError::Io(_) => None,
    }
}

struct WsChannel {
    socket: WebSocketStream<Metered<TokioIo<hyper::upgrade::Upgraded>>>,
    len_max: usize,
    pace: ReadPace,
    idle_timeout: Duration,
    /// The time of the last message of any kind.
    last_message: Instant,
    ping_at: Instant,
    control: ControlFrames,
}

/// The control frames of a client, which it may send within a message, too.
struct ControlFrames {
    left: TokenBucket,
    /// Nothing is read before this time.
    paused_until: Option<Instant>,
    /// A ping, or the answer to one, that is not with the system yet. Nothing is read before.
    unsent: Option<PacedMessage>,
}

impl ControlFrames {
    fn new(now: Instant) -> Self {
        Self {
            left: TokenBucket::new(CONTROL_FRAMES, now.into_std()),
            paused_until: None,
            unsent: None,
        }
    }

    /// Notes a control frame that has come, and its answer if it is a ping.
    fn note(&mut self, frame: &Message, pace: ReadPace, now: Instant) {
        if let Err(wait) = self.left.try_take(now.into_std()) {
            self.paused_until = Some(now + wait);
        }
        if matches!(frame, Message::Ping(_)) {
            self.unsent = Some(pace.begin());
        }
    }
}

impl WsChannel {
    /// Waits until the last ping is answered, and until the client may send more. Dropping the
    /// future loses nothing.
    async fn settle_control(&mut self) -> Result<(), DuplexError> {
        if let Some(unsent) = &mut self.control.unsent {
            let written = unsent.write(0, self.socket.flush()).await;
            let written = written.ok_or(DuplexError::SlowReader)?;
            written.map_err(|error| duplex_error(error, self.len_max))?;
            self.control.unsent = None;
        }
        if let Some(end) = self.control.paused_until {
            sleep_until(end).await;
            self.control.paused_until = None;
        }
        Ok(())
    }

    /// Writes a part of a message.
    async fn write(&mut self, message: &mut PacedMessage, part: Message) -> Result<(), DuplexError> {
        let len = part.len();
        match message.write(len, self.socket.feed(part)).await {
            Some(result) => result.map_err(|error| duplex_error(error, self.len_max)),
            None => Err(DuplexError::SlowReader),
        }
    }

    /// Sends a close frame and waits for that of the client. Closing the connection first, with
    /// something unread, would reset it before the client has read the frame.
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

impl DuplexChannel for WsChannel {
    const HALF_CLOSES: bool = false;

    async fn receive(&mut self) -> Result<Option<Bytes>, DuplexError> {
        loop {
            self.settle_control().await?;
            let message = tokio::select! {
                // Bytes that have come are looked at before the timer. While the most calls allowed
                // are running nothing is read, and a client that waits for answers is not silent.
                biased;
                message = self.socket.next() => message,
                () = sleep_until(self.ping_at) => {
                    if self.last_message.elapsed() >= self.idle_timeout {
                        return Err(DuplexError::Silent);
                    }
                    self.ping_at = Instant::now() + self.idle_timeout / PINGS_PER_TIMEOUT;
                    let ping = Message::Ping(Bytes::new());
                    self.write(&mut self.pace.begin(), ping).await?;
                    self.control.unsent = Some(self.pace.begin());
                    continue;
                }
            };
            let Some(message) = message else { return Ok(None) };
            let message = message.map_err(|error| duplex_error(error, self.len_max))?;
            self.last_message = Instant::now();
            let message = match message {
                Message::Text(text) => text.into(),
                Message::Binary(bytes) => bytes,
                // tungstenite has queued the answer to a ping or a close frame. Such a frame may
                // come between the parts of a message, which keep their memory.
                control => {
                    self.socket.get_mut().forget(CONTROL_HEADER_LEN + control.len());
                    self.control.note(&control, self.pace, Instant::now());
                    continue;
                }
            };
            self.socket.get_mut().reset();
            return Ok(Some(message));
        }
    }

    /// Sends a short message in one frame, and a long one in several. The frame that is being
    /// written is in memory a second time, so it must not be long.
    async fn send(&mut self, message: Text, has_more: bool) -> Result<(), DuplexError> {
        let mut paced = self.pace.begin();
        let mut pieces = message.into_pieces();
        let mut opcode = Data::Text;
        while let Some(mut piece) = pieces.pop_front() {
            if piece.len() > PIECE_LEN {
                pieces.push_front(piece.split_off(PIECE_LEN));
            }
            let frame = Frame::message(piece, OpCode::Data(opcode), pieces.is_empty());
            self.write(&mut paced, Message::Frame(frame)).await?;
            opcode = Data::Continue;
        }
        if has_more {
            return Ok(());
        }
        let written = paced.write(0, self.socket.flush()).await;
        let written = written.ok_or(DuplexError::SlowReader)?;
        written.map_err(|error| duplex_error(error, self.len_max))?;
        // An answer to a ping has left with the message.
        self.control.unsent = None;
        Ok(())
    }
}

fn duplex_error(error: Error, len_max: usize) -> DuplexError {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { .. }) => DuplexError::TooLong(len_max),
        Error::Utf8(reason) => DuplexError::Unreadable(crate::error::RpcError::parse(reason)),
        Error::Io(error) if error.kind() == std::io::ErrorKind::OutOfMemory => DuplexError::NoMemory,
        Error::Io(error) if error.kind() == std::io::ErrorKind::FileTooLarge => DuplexError::TooLong(len_max),
        Error::WriteBufferFull(_) => DuplexError::SlowReader,
        Error::Io(error) => DuplexError::Io(error),
        Error::ConnectionClosed | Error::AlreadyClosed => {
            DuplexError::Io(std::io::Error::from(std::io::ErrorKind::ConnectionAborted))
        }
        error => DuplexError::Protocol(error.to_string()),
    }
}
