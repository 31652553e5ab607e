//! Makes a connection: TCP, TLS if there is a certificate, HTTP/2.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::ScsClientConfig;
use crate::wire::RequestSender;

/// Longest time for a connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How the certificate of a VNODE is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// A file of certificates (PEM): that of the VNODE, or of who signed it.
    pub authority: PathBuf,
    /// The name in the certificate; `None` for the host that is connected to.
    pub name: Option<String>,
}

/// A connection. `task` ends when the connection does.
pub(super) struct Dialed {
    pub(super) sender: RequestSender,
    pub(super) task: JoinHandle<Result<(), hyper::Error>>,
}

impl Drop for Dialed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connects to the VNODE. The error is a text for people.
pub(super) async fn dial(config: &ScsClientConfig) -> Result<Dialed, String> {
    let connected = timeout(CONNECT_TIMEOUT, connect(config)).await;
    connected.map_err(|_| format!("no connection to {} after {CONNECT_TIMEOUT:?}", config.address))?
}

async fn connect(config: &ScsClientConfig) -> Result<Dialed, String> {
    let address = &config.address;
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| format!("cannot connect to {address}: {error}"))?;
    let _ = stream.set_nodelay(true);
    let Some(tls) = &config.tls else {
        return start_http(stream, config).await;
    };
    let name = match (&tls.name, address.rsplit_once(':')) {
        (Some(name), _) => name.as_str(),
        (None, Some((host, _))) => host.trim_start_matches('[').trim_end_matches(']'),
        (None, None) => address,
    };
    let server_name = ServerName::try_from(name.to_owned())
        .map_err(|error| format!("host {name:?} is not a name for a certificate: {error}"))?;
    let connected = tls.connector()?.connect(server_name, stream).await;
    let stream = connected.map_err(|error| {
        let authority = tls.authority.display();
        format!("TLS with {address}: got {error}, expected one for {name} that {authority} vouches for")
    })?;
    start_http(stream, config).await
}

impl ClientTls {
    /// Reads the file, as for a connection.
    ///
    /// # Errors
    /// What is wrong with the file, as a text for people.
    pub fn check(&self) -> Result<(), String> {
        self.connector().map(drop)
    }

    fn connector(&self) -> Result<TlsConnector, String> {
        let failed = |reason: &dyn std::fmt::Display| format!("{}: {reason}", self.authority.display());
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_file_iter(&self.authority).map_err(|error| failed(&error))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| failed(&error))?;
            roots.add(certificate).map_err(|error| failed(&error))?;
        }
        if roots.is_empty() {
            return Err(failed(&"got no certificate, expected one"));
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

async fn start_http<S>(stream: S, config: &ScsClientConfig) -> Result<Dialed, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(config.keep_alive)
        .keep_alive_timeout(config.keep_alive)
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| format!("HTTP/2 with {}: {error}", config.address))?;
    Ok(Dialed {
        sender: RequestSender(sender),
        task: tokio::spawn(connection),
    })
}
