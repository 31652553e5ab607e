//! Certificates for tests, in files, and requests over TLS from clients that trust them.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::wait::SOCKET_PATIENCE;

/// Longest time for one answer.
const TIMEOUT: Duration = SOCKET_PATIENCE;

/// A certificate that vouches for itself, and its key, in files (PEM).
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate. Clients that trust this file trust the server.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    host: String,
}

impl CertificateFiles {
    /// Writes a new certificate for `host` and its key into `folder`, as `NAME.pem` and `NAME.key`.
    ///
    /// # Panics
    /// If they cannot be made or written.
    pub fn write(folder: &Path, name: &str, host: &str) -> Self {
        let made = rcgen::generate_simple_self_signed(vec![host.to_owned()]).expect("a certificate");
        let files = Self {
            certificate: folder.join(format!("{name}.pem")),
            key: folder.join(format!("{name}.key")),
            host: host.to_owned(),
        };
        fs::write(&files.certificate, made.cert.pem()).expect("a write");
        fs::write(&files.key, made.signing_key.serialize_pem()).expect("a write");
        files
    }

    /// Overwrites these files with the content of others.
    ///
    /// # Panics
    /// If a file cannot be copied.
    pub fn replace_with(&self, others: &Self) {
        fs::copy(&others.certificate, &self.certificate).expect("a copy");
        fs::copy(&others.key, &self.key).expect("a copy");
    }

    /// The path of the certificate as an argument.
    ///
    /// # Panics
    /// If it has other characters than text.
    pub fn certificate(&self) -> &str {
        self.certificate
            .to_str()
            .expect("folders of tests have plain names")
    }

    /// The path of the key as an argument.
    ///
    /// # Panics
    /// If it has other characters than text.
    pub fn key(&self) -> &str {
        self.key.to_str().expect("folders of tests have plain names")
    }

    /// Connects to `address` as a client that trusts this certificate, and no other.
    ///
    /// # Errors
    /// If the server has another certificate, or does not speak TLS.
    ///
    /// # Panics
    /// If the certificate cannot be read, or nothing listens at `address`.
    pub fn connect(&self, address: SocketAddr) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut roots = RootCertStore::empty();
        let own = CertificateDer::from_pem_file(&self.certificate).expect("a certificate");
        roots.add(own).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(self.host.clone()).expect("a name");
        let mut connection = ClientConnection::new(Arc::new(config), name).expect("good settings");
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).expect("the server listens");
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(connection, stream))
    }

    /// Posts `body` as JSON to `address`, with these header lines, each with its end. Returns the
    /// status and the body of the answer.
    ///
    /// # Errors
    /// If the connection fails, or the answer is not HTTP.
    ///
    /// # Panics
    /// As [`Self::connect`].
    pub fn post(&self, address: SocketAddr, headers: &str, body: &str) -> io::Result<(u16, String)> {
        let mut stream = self.connect(address)?;
        write!(
            stream,
            "POST / HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nconnection: close\r\n\
             {headers}content-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.get(9..12).and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        status
            .zip(body)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, answer))
    }
}
