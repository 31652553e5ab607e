//! TLS of connections to servers, and which certificates are trusted.
//!
//! The program contains the usual certificate authorities. More can be given in a file.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::stream::MaybeTls;

/// The stream of a connection to a server.
pub type ClientStream = MaybeTls<TcpStream, TlsStream<TcpStream>>;

/// The certificates that are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// A file of certificates (PEM) that are trusted in addition to the usual authorities.
    pub authority: Option<PathBuf>,
    /// Trust every certificate. The connection is then encrypted, but the identity of the other
    /// side is not checked.
    pub trust_anybody: bool,
}

/// An error of a TLS connection.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of certificates cannot be used.
    #[error("{}: {reason}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The host is not a name that certificates can contain.
    #[error("host {host:?} is not a valid name for a certificate: {reason}")]
    Name {
        /// The host.
        host: String,
        /// The reason.
        reason: InvalidDnsNameError,
    },
    /// TLS cannot be set up with these settings.
    #[error("TLS setup failed: {0}")]
    Setup(#[from] Error),
    /// The handshake failed, most often because the certificate is not trusted.
    #[error("TLS handshake failed: {}{}", advice(.0), .0)]
    Handshake(std::io::Error),
}

/// The cause of a failed handshake in plain words, if it is one that a user can end.
fn advice(error: &std::io::Error) -> &'static str {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "the server's certificate is neither trusted nor signed by an authority that is; a file of trusted \
             certificates makes it so: "
        }
        Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "the server's certificate is for another name: ",
        // The checker of certificates has no variant of its own for it.
        Some(Error::InvalidCertificate(other)) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the server's certificate is one of an authority (CA:TRUE), which cannot be the server's own; make one with \
             basicConstraints CA:FALSE: "
        }
        _ => "",
    }
}

impl TlsOptions {
    /// Reads the file of certificates.
    ///
    /// # Errors
    /// [`TlsError`] if the file cannot be used.
    pub fn client(&self) -> Result<TlsClient, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        if self.trust_anybody {
            let verifier = Arc::new(AnyCertificate { provider });
            let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
            return Ok(TlsClient(Arc::new(builder.with_no_client_auth())));
        }
        let mut roots = RootCertStore::empty();
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        if let Some(path) = &self.authority {
            let error = |reason: String| TlsError::Authority {
                path: path.clone(),
                reason,
            };
            let certificates =
                CertificateDer::pem_file_iter(path).map_err(|reason| error(reason.to_string()))?;
            let mut count = 0;
            for certificate in certificates {
                let certificate = certificate.map_err(|reason| error(reason.to_string()))?;
                roots
                    .add(certificate)
                    .map_err(|reason| error(reason.to_string()))?;
                count += 1;
            }
            if count == 0 {
                return Err(error("certificates: got 0, expected at least 1".into()));
            }
        }
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        Ok(TlsClient(Arc::new(config)))
    }
}

/// Encrypts connections to servers.
#[derive(Clone, Debug)]
pub struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// Makes `stream`, a connection to `host` (a name, or an IP address without brackets), an
    /// encrypted one.
    ///
    /// # Errors
    /// [`TlsError`] if the certificate of `host` is not trusted.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> Result<ClientStream, TlsError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|reason| TlsError::Name {
            host: host.to_owned(),
            reason,
        })?;
        let connector = TlsConnector::from(Arc::clone(&self.0));
        let connected = connector.connect(name, stream).await;
        let connected = connected.map_err(TlsError::Handshake)?;
        Ok(MaybeTls::Tls(Box::new(connected)))
    }
}

/// Accepts every certificate. The other side must still have the key of its certificate.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let options = |path: &std::path::Path| TlsOptions {
            authority: Some(path.to_owned()),
            trust_anybody: false,
        };
        let error = options(file.path()).client().expect_err("it is empty");
        assert!(error.to_string().contains("certificates: got 0"), "{error}");
        let absent = file.path().with_extension("absent");
        assert!(options(&absent).client().is_err());
        assert!(TlsOptions::default().client().is_ok());
    }

    /// The error of a client that trusts `certificate`, at a server on 127.0.0.1 that shows it.
    async fn refusal(certificate: rcgen::CertificateParams, is_trusted: bool) -> String {
        use tokio_rustls::TlsAcceptor;
        use tokio_rustls::rustls::ServerConfig;
        use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = certificate.self_signed(&key).expect("a certificate");
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), certificate.pem()).expect("written");
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .expect("a key of the certificate");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = async move {
            let (stream, _) = listener.accept().await.expect("a client");
            let _ = TlsAcceptor::from(Arc::new(config)).accept(stream).await;
        };
        let options = TlsOptions {
            authority: is_trusted.then(|| file.path().to_owned()),
            trust_anybody: false,
        };
        let client = async {
            let stream = TcpStream::connect(address).await.expect("the server");
            let client = options.client().expect("options");
            client
                .connect("localhost", stream)
                .await
                .expect_err("it is refused")
                .to_string()
        };
        tokio::join!(server, client).1
    }

    #[tokio::test]
    async fn a_refused_certificate_is_explained() {
        let named = |name: &str| rcgen::CertificateParams::new([name.to_owned()]).expect("a name");
        let mut authority = named("localhost");
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let error = refusal(authority, true).await;
        assert!(error.contains("basicConstraints CA:FALSE: "), "{error}");
        let error = refusal(named("localhost"), false).await;
        assert!(
            error.contains("a file of trusted certificates makes it so: "),
            "{error}"
        );
        let error = refusal(named("elsewhere"), true).await;
        assert!(error.contains("is for another name: "), "{error}");
    }
}
