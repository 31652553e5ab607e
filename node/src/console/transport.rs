//! The transports of the client: one HTTP POST for each call, or one persistent connection over the
//! local socket or a WebSocket.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use daemon::tls::{TlsError, TlsOptions};
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rpc::limits::DEPTH_MAX;
use rpc::server::stream::{ValueStream, ValueStreamError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::options::{ClientAccess, NodeEndpoint};

/// Longest answer that is accepted, in bytes; far more than a node sends by default.
const ANSWER_LEN_MAX: usize = 1 << 30;
/// Size of the read buffer, in bytes.
const READ_LEN: usize = 64 * 1024;

/// An error while messages are exchanged with the node.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// HTTP failed.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// The HTTP status is an error.
    #[error("HTTP status {status}: {text}")]
    Status {
        /// The status.
        status: u16,
        /// Beginning of the body.
        text: String,
    },
    /// The body of an answer cannot be read.
    #[error("the answer cannot be read: {0}")]
    Body(String),
    /// TLS failed.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The token cannot be sent.
    #[error("--token: got characters that a header cannot have, expected visible ones")]
    Token,
    /// A WebSocket failed.
    #[error("{0}")]
    Ws(#[from] Box<tungstenite::Error>),
    /// The local socket sent something that is not JSON.
    #[error("{0}")]
    Stream(#[from] ValueStreamError),
    /// The answer is not JSON-RPC.
    #[error("got {got:?}, expected a JSON-RPC answer: {reason}")]
    NotJsonRpc {
        /// The fault.
        reason: String,
        /// Beginning of the answer.
        got: String,
    },
    /// The node closed the connection.
    #[error("the node closed the connection")]
    Closed,
    /// The node did not answer in time.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
}

/// Posts one request. Returns the body of the answer.
pub(super) async fn post(uri: &Uri, access: &ClientAccess, request: String) -> Result<Bytes, TransportError> {
    let stream = open(uri, access).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri
        .authority()
        .map(|authority| authority.as_str())
        .unwrap_or_default();
    let mut request = Request::post(path)
        .header(HOST, authority)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(request)))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    authorize(request.headers_mut(), access)?;
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

/// Adds the token to the headers of a request, if there is one.
fn authorize(headers: &mut HeaderMap, access: &ClientAccess) -> Result<(), TransportError> {
    let Some(token) = &access.token else { return Ok(()) };
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value = value.map_err(|_| TransportError::Token)?;
    value.set_sensitive(true);
    headers.insert(AUTHORIZATION, value);
    Ok(())
}

/// Connects to the server of a URL, with TLS if its scheme says so.
async fn open(uri: &Uri, access: &ClientAccess) -> Result<Box<dyn ByteStream>, TransportError> {
    let is_encrypted = matches!(uri.scheme_str(), Some("https" | "wss"));
    let port_default = if is_encrypted { 443 } else { 80 };
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(port_default))).await?;
    stream.set_nodelay(true)?;
    if !is_encrypted {
        return Ok(Box::new(stream));
    }
    let tls = TlsOptions {
        authority: access.tls_ca.clone(),
        trust_anybody: false,
    };
    Ok(Box::new(tls.client()?.connect(host, stream).await?))
}

/// The bytes of a connection: TCP, TLS, a Unix socket, or a named pipe on Windows.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A persistent connection to the node.
pub(super) enum NodeConnection {
    Ipc {
        socket: Box<dyn ByteStream>,
        values: ValueStream,
        buffer: Vec<u8>,
    },
    Ws(Box<WebSocketStream<Box<dyn ByteStream>>>),
}

impl NodeConnection {
    /// Connects to the local socket or WebSocket at `endpoint`.
    pub(super) async fn connect(
        endpoint: &NodeEndpoint,
        access: &ClientAccess,
    ) -> Result<Self, TransportError> {
        match endpoint {
            NodeEndpoint::Ipc(path) => Ok(Self::Ipc {
                socket: connect_local(path).await?,
                values: ValueStream::new(ANSWER_LEN_MAX, DEPTH_MAX * 4),
                buffer: vec![0; READ_LEN],
            }),
            NodeEndpoint::Ws(uri) | NodeEndpoint::Http(uri) => {
                let stream = open(uri, access).await?;
                let mut request = uri.into_client_request().map_err(Box::new)?;
                authorize(request.headers_mut(), access)?;
                let config = tungstenite::protocol::WebSocketConfig::default()
                    .max_message_size(Some(ANSWER_LEN_MAX))
                    .max_frame_size(Some(ANSWER_LEN_MAX));
                let opened = tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await;
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

    /// Receives the next message; `None` if the node closed the connection. This is cancel safe: if
    /// the future is dropped, no bytes are lost.
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
                    // The answer to a ping is queued. It is sent before more is read, so that the
                    // answers for a node that does not read them do not pile up.
                    Some(Message::Ping(_)) => socket.flush().await.map_err(Box::new)?,
                    Some(_) => {}
                }
            },
        }
    }
}

#[cfg(unix)]
async fn connect_local(path: &Path) -> io::Result<Box<dyn ByteStream>> {
    Ok(Box::new(tokio::net::UnixStream::connect(path).await?))
}

#[cfg(windows)]
async fn connect_local(path: &Path) -> io::Result<Box<dyn ByteStream>> {
    let name = match path.to_str() {
        Some(text) if text.starts_with(r"\\.\pipe\") => path.to_owned(),
        _ => Path::new(r"\\.\pipe\").join(path.file_name().unwrap_or(path.as_os_str())),
    };
    Ok(Box::new(
        tokio::net::windows::named_pipe::ClientOptions::new().open(name)?,
    ))
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    /// More than all buffers between the two hold.
    const FLOOD_LEN: usize = 1 << 20;

    #[tokio::test]
    async fn a_node_that_does_not_read_the_answers_to_its_pings_is_not_read() {
        let (near, mut far) = tokio::io::duplex(4096);
        let near: Box<dyn ByteStream> = Box::new(near);
        let socket = WebSocketStream::from_raw_socket(near, Role::Client, None).await;
        let mut node = NodeConnection::Ws(Box::new(socket));
        let mut sent = 0;
        let flood = async {
            let ping = [&[0x89, 125][..], &[b'x'; 125]].concat();
            while sent < FLOOD_LEN {
                far.write_all(&ping).await.expect("the console is there");
                sent += ping.len();
            }
        };
        let exchange = async {
            tokio::select! {
                () = flood => {}
                received = node.receive() => panic!("got {received:?}, expected no message"),
            }
        };
        let ended = timeout(Duration::from_secs(2), exchange).await;
        assert!(ended.is_err(), "the console has read {FLOOD_LEN} bytes");
    }
}
