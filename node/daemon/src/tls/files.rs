//! The files with certificate and key: how they are read, and what makes them unusable.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{CertificateError, Error, RootCertStore, ServerConfig};

/// Longest file, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;
/// The begin of a line that names what a section of a PEM file has.
const SECTION_MARK: &str = "-----BEGIN ";
/// Most names of sections in an error.
const SECTIONS_SHOWN_MAX: usize = 4;

/// Files with the certificates and the key of a server, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates, the server's own first, then those of who signed it.
    pub certificates: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Certificates of clients, or of who signed them: other clients cannot connect. `None` for all
    /// clients.
    pub clients: Option<PathBuf>,
}

/// An error of the files.
#[derive(Debug, thiserror::Error)]
pub enum TlsFilesError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file has something else.
    #[error("{}: got {got}, expected {expected}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The content of the file.
        got: String,
        /// The content that was expected.
        expected: &'static str,
    },
    /// The key is that of another certificate.
    #[error(
        "{}: got a key that does not belong to the first certificate in {}, expected its key",
        key.display(),
        certificates.display()
    )]
    OtherKey {
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificates.
        certificates: PathBuf,
    },
}

/// The expected content of a file of certificates.
const CERTIFICATES: &str = "at least one certificate (PEM, BEGIN CERTIFICATE)";
/// The expected content of a file with a key.
const KEY: &str = "a private key without password (PEM, BEGIN PRIVATE KEY)";

impl TlsFiles {
    /// Reads the files and checks that they fit. `protocols` are offered to clients (ALPN), the
    /// preferred one first.
    ///
    /// # Errors
    /// [`TlsFilesError`] if a file cannot be used, or the certificate has expired.
    pub(crate) fn read(&self, protocols: &[Vec<u8>]) -> Result<Arc<ServerConfig>, TlsFilesError> {
        let text = read(&self.certificates)?;
        let fault = |got: String| content(&self.certificates, got, CERTIFICATES);
        let certificates = CertificateDer::pem_slice_iter(&text)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| fault(got(&error, &text)))?;
        let Some(own) = certificates.first() else {
            return Err(fault(sections(&text)));
        };
        self.check_time(own)?;
        let text = read(&self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&text)
            .map_err(|error| content(&self.key, got(&error, &text), KEY))?;
        let provider = Arc::new(ring::default_provider());
        provider
            .key_provider
            .load_private_key(key.clone_key())
            .map_err(|error| content(&self.key, format!("a key that cannot be used ({error})"), KEY))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| fault(error.to_string()))?;
        let builder = match &self.clients {
            None => builder.with_no_client_auth(),
            Some(path) => builder.with_client_cert_verifier(client_verifier(path, provider)?),
        };
        let mut config = builder
            .with_single_cert(certificates, key)
            .map_err(|error| match error {
                Error::InconsistentKeys(_) => TlsFilesError::OtherKey {
                    key: self.key.clone(),
                    certificates: self.certificates.clone(),
                },
                error => fault(error.to_string()),
            })?;
        config.alpn_protocols = protocols.to_vec();
        Ok(Arc::new(config))
    }

    /// Checks that a certificate has not expired. One that is not valid yet is used with a warning,
    /// because the clock of a machine that has just started may be wrong.
    fn check_time(&self, certificate: &CertificateDer<'_>) -> Result<(), TlsFilesError> {
        let mut roots = RootCertStore::empty();
        let fault = |got: String| content(&self.certificates, got, "a certificate that is valid now");
        roots
            .add(certificate.clone())
            .map_err(|error| content(&self.certificates, error.to_string(), CERTIFICATES))?;
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        // Building cannot fail, because there is a root.
        let verifier = verifier.map_err(|error| fault(error.to_string()))?;
        // The time is checked before anything else, so other findings say that the time is right.
        // Signers and names are for clients to judge.
        let name = ServerName::from(std::net::Ipv4Addr::LOCALHOST);
        let verified = verifier.verify_server_cert(certificate, &[], &name, &[], UnixTime::now());
        match verified {
            Err(Error::InvalidCertificate(
                reason @ (CertificateError::Expired | CertificateError::ExpiredContext { .. }),
            )) => Err(fault(reason.to_string())),
            Err(Error::InvalidCertificate(
                reason @ (CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }),
            )) => {
                let path = self.certificates.display();
                tracing::warn!(%path, "clients will refuse the certificate for now: {reason}");
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Lets only clients pass whose certificates are in the file, or are signed by one in it.
fn client_verifier(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsFilesError> {
    let text = read(path)?;
    let fault = |got: String| content(path, got, CERTIFICATES);
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| fault(got(&error, &text)))?;
        roots.add(certificate).map_err(|error| fault(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(fault(sections(&text)));
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|error| fault(error.to_string()))
}

fn content(path: &Path, got: String, expected: &'static str) -> TlsFilesError {
    TlsFilesError::Content {
        path: path.to_owned(),
        got,
        expected,
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsFilesError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes));
    let read = read.map_err(|source| TlsFilesError::Read {
        path: path.to_owned(),
        source,
    })?;
    if read as u64 > FILE_LEN_MAX {
        return Err(content(
            path,
            format!("more than {FILE_LEN_MAX} bytes"),
            "a short PEM file",
        ));
    }
    Ok(bytes)
}

/// The content of a PEM file instead of the expected one. Shows nothing of a key.
fn got(error: &pem::Error, text: &[u8]) -> String {
    match error {
        pem::Error::NoItemsFound => sections(text),
        pem::Error::MissingSectionEnd { .. } => "a section without its last line".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "a section with a bad first line".to_owned(),
        pem::Error::Base64Decode(_) => "a section that is not base64".to_owned(),
        other => other.to_string(),
    }
}

/// The names of the sections of a PEM file, as text for an error.
fn sections(text: &[u8]) -> String {
    if text.iter().all(u8::is_ascii_whitespace) {
        return "an empty file".to_owned();
    }
    let text = String::from_utf8_lossy(text);
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(SECTION_MARK)?.strip_suffix("-----"))
        .take(SECTIONS_SHOWN_MAX)
        .collect();
    match names.as_slice() {
        [] => "text that is not PEM".to_owned(),
        names => names.join(", "),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    /// Files in a folder that lives as long as they.
    pub(crate) struct MadeFiles {
        pub(crate) files: TlsFiles,
        pub(crate) own: CertificateDer<'static>,
        _folder: tempfile::TempDir,
    }

    impl MadeFiles {
        /// A certificate for `localhost` that is valid from 2000 until `year`.
        pub(crate) fn until(year: i32) -> Self {
            Self::between(2000, year)
        }

        fn between(first: i32, last: i32) -> Self {
            let key = KeyPair::generate().expect("a key");
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
            params.not_before = date_time_ymd(first, 1, 1);
            params.not_after = date_time_ymd(last, 1, 1);
            let certificate = params.self_signed(&key).expect("a certificate");
            let folder = tempfile::tempdir().expect("a folder");
            let files = TlsFiles {
                certificates: folder.path().join("cert.pem"),
                key: folder.path().join("key.pem"),
                clients: None,
            };
            std::fs::write(&files.certificates, certificate.pem()).expect("a write");
            std::fs::write(&files.key, key.serialize_pem()).expect("a write");
            Self {
                files,
                own: certificate.der().clone(),
                _folder: folder,
            }
        }
    }

    #[track_caller]
    fn check(files: &TlsFiles, path: &Path, expected: &[&str]) {
        let error = files.read(&[]).expect_err("they cannot be used").to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        for part in expected {
            assert!(error.contains(part), "{error}: expected {part:?} in it");
        }
    }

    #[test]
    fn good_files_are_used() {
        let made = MadeFiles::until(2200);
        let config = made.files.read(&[b"h2".to_vec()]).expect("good files");
        assert_eq!(config.alpn_protocols, [b"h2".to_vec()]);
        MadeFiles::between(2190, 2200)
            .files
            .read(&[])
            .expect("a certificate for later is used");
    }

    #[test]
    fn an_expired_certificate_is_refused() {
        let made = MadeFiles::until(2001);
        check(
            &made.files,
            &made.files.certificates,
            &["expired", "expected a certificate that is valid now"],
        );
    }

    #[test]
    fn the_key_of_another_certificate_is_refused() {
        let (made, other) = (MadeFiles::until(2200), MadeFiles::until(2200));
        let files = TlsFiles {
            key: other.files.key.clone(),
            ..made.files.clone()
        };
        check(&files, &made.files.certificates, &["does not belong"]);
        check(&files, &other.files.key, &["expected its key"]);
    }

    #[test]
    fn files_with_something_else_are_refused() {
        let made = MadeFiles::until(2200);
        let TlsFiles {
            certificates, key, ..
        } = made.files.clone();
        let swapped = TlsFiles {
            certificates: key.clone(),
            key: certificates.clone(),
            clients: None,
        };
        check(&swapped, &key, &["got PRIVATE KEY", "at least one certificate"]);
        let twice = TlsFiles {
            certificates: certificates.clone(),
            key: certificates.clone(),
            clients: None,
        };
        let without_clients = TlsFiles {
            clients: Some(key.clone()),
            ..made.files.clone()
        };
        check(
            &without_clients,
            &key,
            &["got PRIVATE KEY", "at least one certificate"],
        );
        check(&twice, &certificates, &["got CERTIFICATE", "a private key"]);
        let whole = std::fs::read_to_string(&certificates).expect("readable");
        for (text, got) in [
            ("", "got an empty file"),
            ("\n \n", "got an empty file"),
            ("certificate", "got text that is not PEM"),
            (&whole[..whole.len() / 2], "got a section without its last line"),
            (
                "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n",
                "got a section that is not base64",
            ),
        ] {
            std::fs::write(&certificates, text).expect("a write");
            check(&made.files, &certificates, &[got]);
        }
        let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        std::fs::write(&certificates, nonsense).expect("a write");
        assert!(made.files.read(&[]).is_err());
        std::fs::write(&certificates, whole).expect("a write");
        std::fs::write(&key, nonsense.replace("CERTIFICATE", "PRIVATE KEY")).expect("a write");
        check(&made.files, &key, &["a key that cannot be used"]);
        std::fs::remove_file(&key).expect("removed");
        check(&made.files, &key, &["cannot read"]);
    }
}
