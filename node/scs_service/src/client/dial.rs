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

use super::{AuthorityError, AuthorityFault, ScsClientConfig, ScsLinkError};
use crate::wire::RequestSender;

/// Longest time for a connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings for the check of a VNODE's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// A file of certificates (PEM): the VNODE's own, or its signer's.
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

/// Connects to the VNODE.
pub(super) async fn dial(config: &ScsClientConfig) -> Result<Dialed, ScsLinkError> {
    let connected = timeout(CONNECT_TIMEOUT, connect(config)).await;
    connected.map_err(|_| ScsLinkError::ConnectTimeout {
        address: config.address.clone(),
        limit: CONNECT_TIMEOUT,
    })?
}

async fn connect(config: &ScsClientConfig) -> Result<Dialed, ScsLinkError> {
    let address = &config.address;
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| ScsLinkError::Connect {
            address: address.clone(),
            error,
        })?;
    let _ = stream.set_nodelay(true);
    let Some(tls) = &config.tls else {
        return start_http(stream, config).await;
    };
    let name = match (&tls.name, address.rsplit_once(':')) {
        (Some(name), _) => name.as_str(),
        (None, Some((host, _))) => host.trim_start_matches('[').trim_end_matches(']'),
        (None, None) => address,
    };
    let server_name = ServerName::try_from(name.to_owned()).map_err(|error| ScsLinkError::HostName {
        name: name.to_owned(),
        error,
    })?;
    let connected = tls.connector()?.connect(server_name, stream).await;
    let stream = connected.map_err(|error| ScsLinkError::Tls {
        address: address.clone(),
        name: name.to_owned(),
        authority: tls.authority.clone(),
        error,
    })?;
    start_http(stream, config).await
}

impl ClientTls {
    /// Reads the file, as for a connection.
    ///
    /// # Errors
    /// [`AuthorityError`] says what is wrong with the file.
    pub fn check(&self) -> Result<(), AuthorityError> {
        self.connector().map(drop)
    }

    fn connector(&self) -> Result<TlsConnector, AuthorityError> {
        self.read_authority().map_err(|cause| AuthorityError {
            path: self.authority.clone(),
            cause,
        })
    }

    fn read_authority(&self) -> Result<TlsConnector, AuthorityFault> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(&self.authority)? {
            roots.add(certificate?)?;
        }
        if roots.is_empty() {
            return Err(AuthorityFault::Empty);
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

async fn start_http<S>(stream: S, config: &ScsClientConfig) -> Result<Dialed, ScsLinkError>
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
        .map_err(|error| ScsLinkError::Http {
            address: config.address.clone(),
            error,
        })?;
    Ok(Dialed {
        sender: RequestSender(sender),
        task: tokio::spawn(connection),
    })
}
