//! How a client's messages travel: a post a call over HTTP, or one connection over the local socket
//! or a WebSocket.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rpc::limits::DEPTH_MAX;
use rpc::server::stream::{ValueStream, ValueStreamError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{self, Message};

use super::Endpoint;

/// Longest answer taken; far more than a node gives by default.
const ANSWER_LEN_MAX: usize = 1 << 30;
/// Bytes asked for in one read.
const READ_LEN: usize = 64 * 1024;

/// Why a message did not get through.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// HTTP failed.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// HTTP itself refuses.
    #[error("HTTP status {status}: {text}")]
    Status {
        /// The status.
        status: u16,
        /// What the answer says.
        text: String,
    },
    /// The body of an answer cannot be read.
    #[error("the answer cannot be read: {0}")]
    Body(String),
    /// A WebSocket failed.
    #[error("{0}")]
    Ws(#[from] Box<tungstenite::Error>),
    /// What comes on the socket is no JSON.
    #[error("{0}")]
    Stream(#[from] ValueStreamError),
    /// What comes is no JSON-RPC.
    #[error("got {got:?}, which is no JSON-RPC answer: {reason}")]
    NotJsonRpc {
        /// What is wrong.
        reason: String,
        /// Its beginning.
        got: String,
    },
    /// The node hung up.
    #[error("the connection has ended")]
    Closed,
    /// Nothing came.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
}

/// Posts one request; gives the answer's body.
pub(super) async fn post(uri: &Uri, request: String) -> Result<Bytes, TransportError> {
    let stream = tcp(uri, 80).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri
        .authority()
        .map(|authority| authority.as_str())
        .unwrap_or_default();
    let request = Request::post(path)
        .header(HOST, authority)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(request)))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_LEN_MAX).collect().await;
    let body = body
        .map_err(|error| TransportError::Body(error.to_string()))?
        .to_bytes();
    driver.abort();
    if !status.is_success() {
        return Err(TransportError::Status {
            status: status.as_u16(),
            text: String::from_utf8_lossy(&body[..body.len().min(200)])
                .trim()
                .to_owned(),
        });
    }
    Ok(body)
}

async fn tcp(uri: &Uri, port_default: u16) -> io::Result<TcpStream> {
    let host = uri.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((bare, uri.port_u16().unwrap_or(port_default))).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// What both local sockets are.
pub(super) trait Local: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Local for T {}

/// One connection that lasts.
pub(super) enum Stream {
    Ipc {
        socket: Box<dyn Local>,
        values: ValueStream,
        buffer: Vec<u8>,
    },
    Ws(Box<WebSocketStream<TcpStream>>),
}

impl Stream {
    /// Connects to the socket or the WebSocket that `endpoint` is.
    pub(super) async fn connect(endpoint: &Endpoint) -> Result<Self, TransportError> {
        match endpoint {
            Endpoint::Ipc(path) => Ok(Self::Ipc {
                socket: local(path).await?,
                values: ValueStream::new(ANSWER_LEN_MAX, DEPTH_MAX * 4),
                buffer: vec![0; READ_LEN],
            }),
            Endpoint::Ws(uri) | Endpoint::Http(uri) => {
                let stream = tcp(uri, 80).await?;
                let config = tungstenite::protocol::WebSocketConfig::default()
                    .max_message_size(Some(ANSWER_LEN_MAX))
                    .max_frame_size(Some(ANSWER_LEN_MAX));
                let opened = tokio_tungstenite::client_async_with_config(uri, stream, Some(config)).await;
                let (socket, _) = opened.map_err(Box::new)?;
                Ok(Self::Ws(Box::new(socket)))
            }
        }
    }

    pub(super) async fn send(&mut self, message: String) -> Result<(), TransportError> {
        match self {
            Self::Ipc { socket, .. } => Ok(socket.write_all(message.as_bytes()).await?),
            Self::Ws(socket) => Ok(socket
                .send(Message::Text(message.into()))
                .await
                .map_err(Box::new)?),
        }
    }

    /// The next message; `None` where the node has hung up. May be dropped while it waits.
    pub(super) async fn receive(&mut self) -> Result<Option<Bytes>, TransportError> {
        match self {
            Self::Ipc {
                socket,
                values,
                buffer,
            } => loop {
                if let Some(value) = values.next()? {
                    return Ok(Some(value));
                }
                match socket.read(buffer).await? {
                    0 => return Ok(None),
                    len => values.push(&buffer[..len]),
                }
            },
            Self::Ws(socket) => loop {
                match socket.next().await.transpose().map_err(Box::new)? {
                    None => return Ok(None),
                    Some(Message::Text(text)) => return Ok(Some(text.into())),
                    Some(Message::Binary(bytes)) => return Ok(Some(bytes)),
                    Some(_) => {}
                }
            },
        }
    }
}

#[cfg(unix)]
async fn local(path: &Path) -> io::Result<Box<dyn Local>> {
    Ok(Box::new(tokio::net::UnixStream::connect(path).await?))
}

#[cfg(windows)]
async fn local(path: &Path) -> io::Result<Box<dyn Local>> {
    let name = match path.to_str() {
        Some(text) if text.starts_with(r"\\.\pipe\") => path.to_owned(),
        _ => Path::new(r"\\.\pipe\").join(path.file_name().unwrap_or(path.as_os_str())),
    };
    Ok(Box::new(
        tokio::net::windows::named_pipe::ClientOptions::new().open(name)?,
    ))
}
