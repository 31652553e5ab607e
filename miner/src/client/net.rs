//! Connections: TCP, and TLS over it. Knows neither HTTP nor Stratum.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;

use super::tls::{TlsError, server_name};
use super::{ClientError, Endpoint};

/// A connection to an endpoint.
#[derive(Debug)]
pub(super) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects to `endpoint` within `patience`.
pub(super) async fn connect(
    endpoint: &Endpoint,
    tls: &Arc<ClientConfig>,
    patience: Duration,
) -> Result<Connection, ClientError> {
    let late = |_| ClientError::Timeout {
        what: "a connection",
        after: patience,
    };
    timeout(patience, open(endpoint, tls)).await.map_err(late)?
}

async fn open(endpoint: &Endpoint, tls: &Arc<ClientConfig>) -> Result<Connection, ClientError> {
    let place = (endpoint.host.as_str(), endpoint.port);
    let stream = TcpStream::connect(place).await.map_err(ClientError::Connect)?;
    // Messages are small, and each is worth sending at once.
    stream.set_nodelay(true).map_err(ClientError::Connect)?;
    if !endpoint.tls {
        return Ok(Connection::Plain(stream));
    }
    let connector = TlsConnector::from(Arc::clone(tls));
    let connected = connector.connect(server_name(&endpoint.host)?, stream).await;
    let stream = connected.map_err(TlsError::Handshake)?;
    Ok(Connection::Tls(Box::new(stream)))
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(task, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(task, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(task, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(task, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(task),
            Self::Tls(stream) => Pin::new(stream).poll_flush(task),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(task),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(task),
        }
    }
}
