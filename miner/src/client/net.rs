//! TCP connections, with or without TLS. This module knows neither HTTP nor Stratum.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;

use super::endpoint::MiningEndpoint;
use super::error::ClientError;
use super::tls;

/// The byte stream of a connection to an endpoint.
#[derive(Debug)]
pub(super) enum EndpointStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects to `endpoint` within `time_limit`.
pub(super) async fn connect(
    endpoint: &MiningEndpoint,
    tls: &Arc<ClientConfig>,
    time_limit: Duration,
) -> Result<EndpointStream, ClientError> {
    let timed_out = |_| ClientError::Timeout {
        what: "a connection",
        after: time_limit,
    };
    timeout(time_limit, open(endpoint, tls))
        .await
        .map_err(timed_out)?
}

async fn open(endpoint: &MiningEndpoint, config: &Arc<ClientConfig>) -> Result<EndpointStream, ClientError> {
    let address = (endpoint.host.as_str(), endpoint.port);
    let stream = TcpStream::connect(address).await.map_err(ClientError::Connect)?;
    // Messages are small and must be sent at once.
    stream.set_nodelay(true).map_err(ClientError::Connect)?;
    if !endpoint.tls {
        return Ok(EndpointStream::Plain(stream));
    }
    let stream = tls::connect(config, &endpoint.host, stream).await?;
    Ok(EndpointStream::Tls(Box::new(stream)))
}

impl AsyncRead for EndpointStream {
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

impl AsyncWrite for EndpointStream {
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
