//! TLS connections to pools whose certificate is trusted by file, trusted unchecked, or not
//! trusted.

use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use daemon::tls::TlsOptions;
use ethash::B256;
use miner::client::ClientConfig;
use miner::client::testing::ClientEnd;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::harness::{Client, config};
use crate::pool::{ScriptedPool, Talk};

type EncryptedTalk = Talk<StreamOwned<ServerConnection, TcpStream>>;

/// A certificate for `localhost`, as a file and as the configuration of a server.
struct Certificate {
    _folder: tempfile::TempDir,
    path: PathBuf,
    server: Arc<ServerConfig>,
}

impl Certificate {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("pool.pem");
        std::fs::write(&path, made.cert.pem()).expect("a file");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("protocols")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a key that fits");
        Self {
            _folder: folder,
            path,
            server: Arc::new(server),
        }
    }

    fn encrypt(&self, stream: TcpStream) -> EncryptedTalk {
        let connection = ServerConnection::new(Arc::clone(&self.server)).expect("a connection");
        Talk::new(StreamOwned::new(connection, stream))
    }
}

/// Settings for a client that connects to `pool` by the name in the certificate.
fn client_config(pool: &ScriptedPool, tls: TlsOptions) -> ClientConfig {
    let url = pool.url("stratum2+ssl").replace("127.0.0.1", "localhost");
    ClientConfig {
        tls,
        response_timeout: Duration::from_secs(5),
        ..config(&[url])
    }
}

fn serve(pool: &ScriptedPool, certificate: &Certificate, client: &Client) -> EncryptedTalk {
    let mut talk = certificate.encrypt(pool.accept().into_inner());
    talk.ethereum_stratum1_login("af4c");
    talk.ethereum_stratum1_job("1", B256::repeat_byte(1), true);
    client.task(B256::repeat_byte(1));
    talk
}

#[test]
fn a_pool_is_trusted_by_file_or_unchecked() {
    let certificate = Certificate::new();
    for tls in [
        TlsOptions {
            authority: Some(certificate.path.clone()),
            trust_anybody: false,
        },
        TlsOptions {
            authority: None,
            trust_anybody: true,
        },
    ] {
        let pool = ScriptedPool::listen();
        let client = Client::start(client_config(&pool, tls));
        serve(&pool, &certificate, &client);
    }
}

#[test]
fn a_redirected_connection_stays_encrypted() {
    let certificate = Certificate::new();
    let tls = TlsOptions {
        authority: Some(certificate.path.clone()),
        trust_anybody: false,
    };
    let (pool, other) = (ScriptedPool::listen(), ScriptedPool::listen());
    let client = Client::start(client_config(&pool, tls));
    let mut talk = serve(&pool, &certificate, &client);
    let params = serde_json::json!(["LOCALHOST", other.address.port(), 0]);
    talk.send(&serde_json::json!({"id": null, "method": "client.reconnect", "params": params}));
    // A login without encryption would fail here. The connection stays open until the failures are
    // read: its end would be one.
    let _connection = serve(&other, &certificate, &client);
    assert_eq!(client.status().endpoints[0].failures, 0);
}

#[test]
fn a_pool_that_is_not_trusted_gets_no_login() {
    let (certificate, other) = (Certificate::new(), Certificate::new());
    for tls in [
        TlsOptions::default(),
        TlsOptions {
            authority: Some(other.path),
            trust_anybody: false,
        },
    ] {
        let pool = ScriptedPool::listen();
        let client = Client::start(ClientConfig {
            max_wait: Some(Duration::from_millis(50)),
            ..client_config(&pool, tls)
        });
        let mut stream = pool.accept().into_inner();
        let mut connection = ServerConnection::new(Arc::clone(&certificate.server)).expect("a connection");
        let refused: Result<_, std::io::Error> = connection.complete_io(&mut stream);
        // In TLS 1.3 the server finishes its handshake before the alert of the client arrives.
        let refused = refused
            .and_then(|_| connection.complete_io(&mut stream))
            .map(drop);
        assert!(
            refused.is_err() || connection.process_new_packets().is_err(),
            "the client accepted the certificate"
        );
        // The client may be trying again; closing the listener ends that.
        drop((stream, pool));
        match client.end() {
            ClientEnd::NoConnection { last, .. } => {
                assert!(last.contains("handshake") || last.contains("connect"), "{last}");
            }
            other => panic!("got {other:?}"),
        }
    }
}
