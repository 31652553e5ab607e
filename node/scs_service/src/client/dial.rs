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
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
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
    /// The certificate of this SCS, for a VNODE that asks for one.
    pub own: Option<ClientCertificate>,
}

/// The files with the certificate and the key of an SCS (PEM).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificates, the SCS's own first, then those of who signed it.
    pub certificates: PathBuf,
    /// The private key.
    pub key: PathBuf,
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
    /// Reads the files, as for a connection.
    ///
    /// # Errors
    /// [`AuthorityError`] says what is wrong with which file.
    pub fn check(&self) -> Result<(), AuthorityError> {
        self.connector().map(drop)
    }

    fn connector(&self) -> Result<TlsConnector, AuthorityError> {
        let fault = |path: &PathBuf| {
            let path = path.clone();
            move |cause| AuthorityError { path, cause }
        };
        let roots = self.read_authority().map_err(fault(&self.authority))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| fault(&self.authority)(error.into()))?
            .with_root_certificates(roots);
        let mut config = match &self.own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let certificates = own.read_certificates().map_err(fault(&own.certificates))?;
                let key = PrivateKeyDer::from_pem_file(&own.key);
                let key = key.map_err(|error| fault(&own.key)(error.into()))?;
                let config = builder.with_client_auth_cert(certificates, key);
                config.map_err(|error| fault(&own.key)(error.into()))?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }

    fn read_authority(&self) -> Result<RootCertStore, AuthorityFault> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(&self.authority)? {
            roots.add(certificate?)?;
        }
        if roots.is_empty() {
            return Err(AuthorityFault::Empty);
        }
        Ok(roots)
    }
}

impl ClientCertificate {
    fn read_certificates(&self) -> Result<Vec<CertificateDer<'static>>, AuthorityFault> {
        let certificates =
            CertificateDer::pem_file_iter(&self.certificates)?.collect::<Result<Vec<_>, _>>()?;
        if certificates.is_empty() {
            return Err(AuthorityFault::Empty);
        }
        Ok(certificates)
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
