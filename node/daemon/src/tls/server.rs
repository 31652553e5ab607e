//! The settings that new connections use, and the handshake.

use std::io;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

use super::files::{TlsFiles, TlsFilesError};
use super::first_bytes::{FirstBytes, Replayed};
use crate::stream::MaybeTls;

/// The first byte of a client that speaks TLS: a record of the handshake.
const HANDSHAKE_RECORD: u8 = 22;
/// Most bytes that are read before it is known that the client speaks TLS. A usual first message
/// fits, and so does the whole request of a client that speaks plain HTTP.
const FIRST_LEN_MAX: usize = 2048;

/// The stream of a connection that a client has opened.
pub type ServerStream<S> = MaybeTls<S, TlsStream<Replayed<S>>>;

/// Certificate and key of a server. Connections share one value.
#[derive(Debug)]
pub struct ServerTls {
    files: TlsFiles,
    protocols: Vec<Vec<u8>>,
    config: RwLock<Arc<ServerConfig>>,
}

/// An error of the handshake of a connection.
#[derive(Debug, thiserror::Error)]
pub enum TlsHandshakeError<S> {
    /// The client does not speak TLS.
    #[error("got {got}, expected the handshake of TLS")]
    PlainText {
        /// The first bytes of the client.
        got: FirstBytes,
        /// The connection, on which an answer can be written.
        stream: S,
    },
    /// The client left without a byte.
    #[error("got no byte, expected the handshake of TLS")]
    Left,
    /// The handshake failed, for example because the client does not trust the certificate.
    #[error("the handshake of TLS failed: {0}")]
    Failed(#[from] io::Error),
}

impl ServerTls {
    /// Reads the files. `protocols` are offered to clients (ALPN); without any, a client may offer
    /// what it likes.
    ///
    /// # Errors
    /// [`TlsFilesError`] if a file cannot be used.
    pub fn load(files: TlsFiles, protocols: &[&[u8]]) -> Result<Self, TlsFilesError> {
        let protocols: Vec<_> = protocols.iter().map(|name| name.to_vec()).collect();
        let config = RwLock::new(files.read(&protocols)?);
        Ok(Self {
            files,
            protocols,
            config,
        })
    }

    /// Reads the files again. New connections use what they have now; open ones go on.
    ///
    /// # Errors
    /// [`TlsFilesError`] if a file cannot be used. Then nothing changes.
    pub fn reload(&self) -> Result<(), TlsFilesError> {
        let config = self.files.read(&self.protocols)?;
        *self.config.write() = config;
        Ok(())
    }

    /// The files.
    pub const fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Shakes hands with the client of a new connection. The caller limits the time.
    ///
    /// # Errors
    /// [`TlsHandshakeError`] if the client cannot, or does not want to, speak TLS.
    pub async fn accept<S>(&self, mut stream: S) -> Result<ServerStream<S>, TlsHandshakeError<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut first = vec![0; FIRST_LEN_MAX];
        let len = stream.read(&mut first).await?;
        first.truncate(len);
        match first.first() {
            None => return Err(TlsHandshakeError::Left),
            Some(&HANDSHAKE_RECORD) => {}
            Some(_) => {
                let got = FirstBytes(first);
                return Err(TlsHandshakeError::PlainText { got, stream });
            }
        }
        let config = Arc::clone(&self.config.read());
        let replayed = Replayed::new(first, stream);
        let shaken = Box::pin(TlsAcceptor::from(config).accept(replayed)).await?;
        Ok(ServerStream::Tls(Box::new(shaken)))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::version::{TLS12, TLS13};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

    use super::*;
    use crate::tls::files::tests::MadeFiles;

    fn client(own: &CertificateDer<'static>, version: &'static SupportedProtocolVersion) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(own.clone()).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_root_certificates(roots)
            .with_no_client_auth();
        TlsConnector::from(Arc::new(config))
    }

    /// A client that trusts `own` says a word to the server and hears it again.
    async fn echo(
        tls: &ServerTls,
        own: &CertificateDer<'static>,
        version: &'static SupportedProtocolVersion,
    ) -> io::Result<()> {
        let (near, far) = tokio::io::duplex(1 << 16);
        let name = ServerName::try_from("localhost").expect("a name");
        let talk = async {
            let mut stream = client(own, version).connect(name, near).await?;
            stream.write_all(b"hello").await?;
            stream.flush().await?;
            let mut heard = [0; 5];
            stream.read_exact(&mut heard).await?;
            assert_eq!(&heard, b"hello");
            Ok::<_, io::Error>(())
        };
        let serve = async {
            let mut stream = tls.accept(far).await.map_err(io::Error::other)?;
            let mut heard = [0; 5];
            stream.read_exact(&mut heard).await?;
            stream.write_all(&heard).await?;
            stream.flush().await
        };
        let (talked, served) = tokio::join!(talk, serve);
        talked.and(served)
    }

    #[tokio::test]
    async fn both_versions_are_spoken() {
        let made = MadeFiles::until(2200);
        let tls = ServerTls::load(made.files.clone(), &[b"http/1.1"]).expect("good files");
        for version in [&TLS12, &TLS13] {
            echo(&tls, &made.own, version).await.expect("an echo");
        }
    }

    #[tokio::test]
    async fn files_are_read_again() {
        let (first, second) = (MadeFiles::until(2200), MadeFiles::until(2200));
        let tls = ServerTls::load(first.files.clone(), &[]).expect("good files");
        std::fs::write(&first.files.certificates, "").expect("a write");
        assert!(tls.reload().is_err());
        echo(&tls, &first.own, &TLS13).await.expect("the old one stays");
        std::fs::copy(&second.files.certificates, &first.files.certificates).expect("a copy");
        assert!(tls.reload().is_err(), "the key is still the old one");
        std::fs::copy(&second.files.key, &first.files.key).expect("a copy");
        tls.reload().expect("good files");
        echo(&tls, &second.own, &TLS13).await.expect("the new one");
        assert!(
            echo(&tls, &first.own, &TLS13).await.is_err(),
            "the old one is gone"
        );
    }

    #[tokio::test]
    async fn what_is_not_tls_is_named_and_given_back() {
        let made = MadeFiles::until(2200);
        let tls = ServerTls::load(made.files.clone(), &[]).expect("good files");
        let (mut near, far) = tokio::io::duplex(1 << 16);
        near.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("sent");
        let error = tls.accept(far).await.expect_err("no TLS");
        let text = error.to_string();
        assert!(text.starts_with("got \"GET / HTTP/1.1\\r\\n"), "{text}");
        let TlsHandshakeError::PlainText { got, mut stream } = error else {
            panic!("got {error:?}")
        };
        assert!(got.is_http());
        stream.write_all(b"no").await.expect("an answer");
        let mut answer = [0; 2];
        near.read_exact(&mut answer).await.expect("the answer");
        let (near, far) = tokio::io::duplex(64);
        drop(near);
        assert!(matches!(tls.accept(far).await, Err(TlsHandshakeError::Left)));
        let (mut near, far) = tokio::io::duplex(64);
        near.write_all(&[HANDSHAKE_RECORD, 3, 1, 0, 2, 9, 9])
            .await
            .expect("sent");
        drop(near);
        assert!(matches!(tls.accept(far).await, Err(TlsHandshakeError::Failed(_))));
    }
}
