//! The certificate and the key of the service.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::ServerError;

/// The name of HTTP/2 in the handshake of TLS.
const ALPN_HTTP2: &[u8] = b"h2";

/// Files with the certificates and the key of the service, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates, the service's own first.
    pub certificates: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// [`ServerError::Tls`] if a file cannot be used.
    pub(super) fn acceptor(&self) -> Result<TlsAcceptor, ServerError> {
        let certificates = CertificateDer::pem_file_iter(&self.certificates)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| tls_error(&self.certificates, &error))?;
        if certificates.is_empty() {
            return Err(tls_error(&self.certificates, &"got no certificate, expected one"));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| tls_error(&self.key, &error))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| tls_error(&self.certificates, &error))?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(|error| tls_error(&self.key, &error))?;
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn tls_error(path: &Path, reason: &dyn std::fmt::Display) -> ServerError {
    ServerError::Tls {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}
