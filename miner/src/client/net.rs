//! TCP connections, with or without TLS. This module knows neither HTTP nor Stratum.

use std::time::Duration;

use daemon::tls::{ClientStream, TlsClient};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::endpoint::MiningEndpoint;
use super::error::ClientError;

/// Connects to `endpoint` within `time_limit`.
pub(super) async fn connect(
    endpoint: &MiningEndpoint,
    tls: &TlsClient,
    time_limit: Duration,
) -> Result<ClientStream, ClientError> {
    let timed_out = |_| ClientError::Timeout {
        what: "a connection",
        after: time_limit,
    };
    timeout(time_limit, open(endpoint, tls))
        .await
        .map_err(timed_out)?
}

async fn open(endpoint: &MiningEndpoint, tls: &TlsClient) -> Result<ClientStream, ClientError> {
    let address = (endpoint.host.as_str(), endpoint.port);
    let stream = TcpStream::connect(address).await.map_err(ClientError::Connect)?;
    // Messages are small and must be sent at once.
    stream.set_nodelay(true).map_err(ClientError::Connect)?;
    if endpoint.tls {
        Ok(tls.connect(&endpoint.host, stream).await?)
    } else {
        Ok(ClientStream::Plain(stream))
    }
}
