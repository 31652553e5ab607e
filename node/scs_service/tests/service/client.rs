//! The client of this package against the service.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use daemon::tls::{ServerTls, TlsFiles};
use primitives::{Address, B256, SecretKey, U256};
use scs_service::client::{
    ClientCertificate, ClientTls, ScsClient, ScsClientConfig, ScsClientError, ScsEvent,
};
use scs_service::message::ControlStatus;
use scs_service::proto::StorageRequest;
use scs_service::vnode::{ALPN, BlockNotices, HostContract, ScsRole, ScsServer, ServiceConfig};
use scs_service::{ScsId, WitnessWish};
use tokio::sync::mpsc::Receiver;

use crate::common::{
    CHAIN, CHAIN_ID, PATIENCE, PROXY, SLOW, Setup, TestHost, call, handshake, id, message, node_id,
    wait_until,
};

async fn next(events: &mut Receiver<ScsEvent>) -> ScsEvent {
    let next = tokio::time::timeout(PATIENCE, events.recv()).await;
    next.expect("an event comes").expect("the client runs")
}

/// The next event that is not about the head.
async fn event(events: &mut Receiver<ScsEvent>) -> ScsEvent {
    loop {
        match next(events).await {
            ScsEvent::Head(_) => {}
            event => return event,
        }
    }
}

fn config(address: String, mark: u8) -> ScsClientConfig {
    ScsClientConfig {
        reconnect_max: Duration::from_millis(300),
        ..ScsClientConfig::new(address, id(mark), CHAIN_ID)
    }
}

async fn connected(setup: &Setup, mark: u8) -> (ScsClient, Receiver<ScsEvent>) {
    let (client, mut events) = ScsClient::start(config(setup.address(), mark));
    assert_eq!(
        event(&mut events).await,
        ScsEvent::Connected { beneficiary: PROXY }
    );
    wait_until("the link", || client.is_connected()).await;
    (client, events)
}

#[tokio::test]
async fn events_come_with_their_meaning() {
    let setup = Setup::start().await;
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    setup.set_role(CHAIN, id(2), ScsRole::Monitor);
    let (one, mut events) = connected(&setup, 1).await;
    let (two, mut other_events) = connected(&setup, 2).await;
    assert_eq!(next(&mut events).await, ScsEvent::Head(0));
    setup.add_block(10, &[(CHAIN, 9)]);
    setup.add_block(20, &[]);
    let notice = ScsEvent::Notice {
        chain: CHAIN,
        status: ControlStatus::Distribute,
        transaction: B256::with_last_byte(10),
    };
    assert_eq!(event(&mut events).await, notice);
    assert_eq!(event(&mut other_events).await, notice);
    let call = call(b"a transaction");
    setup.service().submit(call.clone()).expect("taken");
    let expected = ScsEvent::DirectCall {
        chain: CHAIN,
        sender: call.sender,
        transaction: call.rlp,
    };
    assert_eq!(event(&mut events).await, expected);
    // Broadcasts travel over a stream of their own.
    let broadcast = message(2, 6, id(2), 1);
    two.broadcast(&broadcast).await.expect("sent");
    assert_eq!(event(&mut events).await, ScsEvent::Broadcast(broadcast));
    let homeless = scs_service::ScsMessage {
        chain: None,
        ..message(2, 0, id(1), 2)
    };
    let refused = one.broadcast(&homeless).await.expect_err("malformed");
    assert_eq!(refused.to_string(), "subchainid: got 0 bytes, expected 20 or 21");
}

#[tokio::test]
async fn calls_return_values() {
    let setup = Setup::start().await;
    let contract = HostContract {
        balance: U256::MAX,
        tx_nonce: 3,
        storage_root: B256::repeat_byte(1),
        code_hash: B256::repeat_byte(2),
        code: primitives::Bytes::from_static(b"code"),
    };
    let slots = BTreeMap::from([(U256::from(1), U256::MAX), (U256::from(2), U256::from(5))]);
    setup
        .host
        .0
        .lock()
        .contracts
        .insert(CHAIN, (contract.clone(), slots.clone()));
    let (client, _events) = connected(&setup, 1).await;
    let account = client.account_info(CHAIN).await.expect("an answer");
    assert_eq!((account.balance, account.tx_nonce), (U256::MAX, 3));
    assert_eq!(account.code_hash, contract.code_hash);
    let all = vec![StorageRequest::default()];
    let read = client
        .chain_info(CHAIN, all.clone())
        .await
        .expect("an answer")
        .expect("it exists");
    assert_eq!(
        (read.balance, read.code, read.storage),
        (U256::MAX, contract.code, slots)
    );
    assert_eq!(read.storage_root, contract.storage_root);
    let nobody = client
        .chain_info(Address::repeat_byte(9), all)
        .await
        .expect("an answer");
    assert_eq!(nobody, None);
    client
        .remote_call(primitives::Bytes::from_static(b"good"))
        .await
        .expect("taken");
    let refused = client
        .remote_call(primitives::Bytes::from_static(b"bad"))
        .await
        .expect_err("refused");
    assert!(refused.to_string().ends_with("nonce too low"), "{refused}");
    assert!(!refused.is_unanswered(), "{refused}");
    let output = client
        .public_call(CHAIN, primitives::Bytes::from_static(b"in"))
        .await;
    assert_eq!(output.expect("an answer"), [CHAIN.as_slice(), b"in"].concat());
    setup.host.0.lock().blocks = (0..3)
        .map(|number| BlockNotices {
            hash: B256::repeat_byte(number),
            notices: Vec::new(),
        })
        .collect();
    let headers = client.base_headers(1, 9).await.expect("an answer");
    assert_eq!(
        headers.iter().map(|header| header.number).collect::<Vec<_>>(),
        [1, 2]
    );
    assert!(client.base_headers(3, 9).await.expect("an answer").is_empty());
    let mut wish = WitnessWish {
        number: 2,
        hash: B256::repeat_byte(2),
        contract: CHAIN,
        slots: vec![U256::from(7)],
        input: Some(primitives::Bytes::from_static(b"in")),
    };
    let proof = client.witness(&wish).await.expect("an answer");
    assert_eq!(proof.expect("a proof"), [CHAIN.as_slice(), b"in"].concat());
    wish.hash = B256::ZERO;
    assert_eq!(client.witness(&wish).await.expect("an answer"), None);
    let block = primitives::Bytes::from_static(b"block");
    let hash = B256::repeat_byte(3);
    client
        .upload_block(CHAIN, 7, hash, block.clone())
        .await
        .expect("kept");
    let fetch = client.download_block(id(1).0, CHAIN, 7, None).await;
    assert_eq!(fetch.expect("an answer"), Some(block));
    let again = client.download_block(id(1).0, CHAIN, 7, Some(hash)).await;
    assert_eq!(again.expect("an answer"), None);
}

#[tokio::test]
async fn a_node_may_do_what_it_has_not_answered() {
    let setup = Setup::start().await;
    let config = ScsClientConfig {
        call_timeout: SLOW / 2,
        ..config(setup.address(), 1)
    };
    let (client, _events) = ScsClient::start(config);
    wait_until("the link", || client.is_connected()).await;
    let late = client.remote_call(primitives::Bytes::from_static(b"slow")).await;
    let late = late.expect_err("no answer in time");
    assert!(late.is_unanswered(), "{late}");
    wait_until("the transaction", || {
        setup.host.0.lock().submitted == [&b"slow"[..]]
    })
    .await;

    // The connection breaks before the answer.
    let (client, _events) = connected(&setup, 2).await;
    let slow = client.remote_call(primitives::Bytes::from_static(b"slow"));
    let stop = async {
        tokio::time::sleep(SLOW / 8).await;
        setup.server.stop().await;
    };
    let (broken, ()) = tokio::join!(slow, stop);
    let broken = broken.expect_err("the connection is gone");
    assert!(broken.is_unanswered(), "{broken}");
}

#[tokio::test]
async fn a_broken_connection_is_told_and_made_again() {
    let setup = Setup::start().await;
    let address = setup.address();
    let (client, mut events) = connected(&setup, 1).await;
    setup.server.stop().await;
    let ScsEvent::Disconnected { reason } = event(&mut events).await else {
        panic!("it is connected");
    };
    assert!(!reason.is_empty());
    wait_until("the link to be gone", || !client.is_connected()).await;
    let lost = client.account_info(CHAIN).await.expect_err("no connection");
    assert!(matches!(lost, ScsClientError::NotConnected), "{lost}");
    let refused = client.broadcast(&message(2, 0, id(1), 1)).await;
    assert!(matches!(refused, Err(ScsClientError::NotConnected)));
    // The VNODE comes back at the same address.
    let config = ServiceConfig {
        node_id: node_id(),
        beneficiary: Some(PROXY),
        ..ServiceConfig::default()
    };
    let host = std::sync::Arc::<TestHost>::default();
    let heads = setup.heads.subscribe();
    let again = ScsServer::start(&address, None, config, host, heads)
        .await
        .expect("the port is free");
    loop {
        match event(&mut events).await {
            ScsEvent::Connected { .. } => break,
            ScsEvent::Disconnected { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    wait_until("the SCS", || again.service().counters().connected == 1).await;
    drop(client);
    wait_until("the end of the client", || {
        again.service().counters().connected == 0
    })
    .await;
}

#[tokio::test]
async fn a_hundred_scss_of_one_address_are_connected() {
    let setup = Setup::start().await;
    let clients: Vec<_> = (1..=100)
        .map(|mark| ScsClient::start(config(setup.address(), mark)))
        .collect();
    wait_until("all of them", || {
        clients.iter().all(|(client, _)| client.is_connected())
    })
    .await;
    assert_eq!(setup.service().counters().connected, 100);
}

#[tokio::test]
async fn a_hundred_scss_of_one_connection_are_connected() {
    let setup = Setup::start().await;
    let connection = setup.connect().await;
    let mut streams = Vec::new();
    for mark in 1..=100 {
        let opened = tokio::time::timeout(PATIENCE, connection.stream()).await;
        let mut stream = opened.unwrap_or_else(|_| panic!("no stream {mark}"));
        assert_eq!(stream.shake_hands(id(mark)).await, "shakereply");
        streams.push(stream);
    }
    assert_eq!(setup.service().counters().connected, streams.len() as u64);
}

/// Passes bytes on between a client and the service, until it is told to keep them.
struct Relay {
    address: String,
    is_dead: tokio::sync::watch::Sender<bool>,
}

impl Relay {
    async fn start(target: String) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (is_dead, dead) = tokio::sync::watch::channel(false);
        tokio::spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.expect("a connection");
                let mut far = tokio::net::TcpStream::connect(&target).await.expect("it listens");
                let mut dead = dead.clone();
                tokio::spawn(async move {
                    let until_dead = async { drop(dead.wait_for(|dead| *dead).await) };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => return,
                        () = until_dead => {}
                    }
                    std::future::pending::<()>().await;
                });
            }
        });
        Self { address, is_dead }
    }
}

#[tokio::test]
async fn an_scs_without_proof_comes_back_when_its_old_connection_is_dead() {
    let setup = Setup::with(|config| {
        config.limits.keep_alive = Duration::from_millis(200);
        config.limits.keep_alive_answer = Duration::from_millis(300);
    })
    .await;
    let relay = Relay::start(setup.address()).await;
    let (_old, mut events) = ScsClient::start(config(relay.address.clone(), 1));
    assert_eq!(
        event(&mut events).await,
        ScsEvent::Connected { beneficiary: PROXY }
    );
    let (_new, mut events) = ScsClient::start(config(setup.address(), 1));
    let ScsEvent::Disconnected { reason } = event(&mut events).await else {
        panic!("the first connection has the place");
    };
    assert!(reason.contains("this handshake proves nothing"), "{reason}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(setup.service().counters().connected, 1);
    assert!(events.try_recv().is_err(), "a living connection keeps its place");
    relay.is_dead.send_replace(true);
    assert_eq!(
        event(&mut events).await,
        ScsEvent::Connected { beneficiary: PROXY }
    );
}

#[tokio::test]
async fn proof_gets_an_scs_its_place_back_and_keeps_it() {
    let setup = Setup::start().await;
    let key = SecretKey::from_bytes(&[7; 32]).expect("a key");
    let own = ScsId(key.address());
    let mut squatter = setup.scs(own).await;
    let proving = ScsClientConfig {
        key: Some(key),
        ..ScsClientConfig::new(setup.address(), own, CHAIN_ID)
    };
    let (client, mut events) = ScsClient::start(proving.clone());
    assert_eq!(
        event(&mut events).await,
        ScsEvent::Connected { beneficiary: PROXY }
    );
    assert_eq!(squatter.error().await.code(), tonic::Code::Aborted);
    let mut stranger = setup.connect().await.stream().await;
    stranger.send(handshake(own)).await;
    assert_eq!(stranger.error().await.code(), tonic::Code::AlreadyExists);
    assert!(client.is_connected());
    // The same key on a new connection.
    let (_again, mut new_events) = ScsClient::start(proving);
    assert_eq!(
        event(&mut new_events).await,
        ScsEvent::Connected { beneficiary: PROXY }
    );
    assert!(matches!(event(&mut events).await, ScsEvent::Disconnected { .. }));
}

#[tokio::test]
async fn a_client_without_pings_connects_again() {
    let setup = Setup::start().await;
    let impatient = ScsClientConfig {
        ping_wait_max: Duration::from_millis(1500),
        ..config(setup.address(), 1)
    };
    // The first ping comes within a second, and with the same head not again for ten.
    let (_client, mut events) = ScsClient::start(impatient);
    let connected = ScsEvent::Connected { beneficiary: PROXY };
    assert_eq!(event(&mut events).await, connected);
    let ScsEvent::Disconnected { reason } = event(&mut events).await else {
        panic!("no ping has come");
    };
    assert!(reason.starts_with("no ping of the VNODE for 1.5s"), "{reason}");
    assert_eq!(event(&mut events).await, connected);
}

#[tokio::test]
async fn a_refused_handshake_is_told_once() {
    let setup = Setup::start().await;
    let wrong = ScsClientConfig {
        reconnect_max: Duration::from_millis(200),
        ..ScsClientConfig::new(setup.address(), id(1), 99)
    };
    let (_client, mut events) = ScsClient::start(wrong);
    let expected = ScsEvent::Disconnected {
        reason: "handshake: got \"chainiderror\", expected \"shakereply\"".to_owned(),
    };
    assert_eq!(event(&mut events).await, expected);
    let quiet = tokio::time::timeout(Duration::from_secs(1), events.recv()).await;
    assert!(
        quiet.is_err(),
        "further attempts fail for the same reason: {quiet:?}"
    );
}

#[tokio::test]
async fn tls_protects_the_connection() {
    let folder = std::env::temp_dir().join(format!("scs-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let certified = rcgen::generate_simple_self_signed(vec!["vnode.test".to_owned()]).expect("a certificate");
    let files = TlsFiles {
        certificates: folder.join("cert.pem"),
        key: folder.join("key.pem"),
        clients: None,
    };
    std::fs::write(&files.certificates, certified.cert.pem()).expect("a write");
    std::fs::write(&files.key, certified.signing_key.serialize_pem()).expect("a write");
    let plain = Setup::start().await;
    let config = ServiceConfig {
        node_id: node_id(),
        beneficiary: Some(PROXY),
        ..ServiceConfig::default()
    };
    let heads = plain.heads.subscribe();
    let host = std::sync::Arc::clone(&plain.host) as _;
    let loaded = ServerTls::load(files.clone(), &[ALPN]).expect("good files");
    let loaded = Some(std::sync::Arc::new(loaded));
    let server = ScsServer::start("127.0.0.1:0", loaded, config, host, heads).await;
    let server = server.expect("a free port");
    let tls = |name: &str| {
        Some(ClientTls {
            authority: files.certificates.clone(),
            name: Some(name.to_owned()),
            own: None,
        })
    };
    let start = |tls| {
        ScsClient::start(ScsClientConfig {
            tls,
            ..self::config(server.address().to_string(), 1)
        })
    };
    let (client, mut events) = start(tls("vnode.test"));
    assert_eq!(
        event(&mut events).await,
        ScsEvent::Connected { beneficiary: PROXY }
    );
    wait_until("the link", || client.is_connected()).await;
    client.account_info(CHAIN).await.expect("an answer");
    for wrong in [tls("other.test"), None] {
        let (_client, mut events) = start(wrong);
        assert!(matches!(event(&mut events).await, ScsEvent::Disconnected { .. }));
    }
    drop((client, server));
    // A service that wants certificates of its clients.
    let only = TlsFiles {
        clients: Some(files.certificates.clone()),
        ..files.clone()
    };
    let loaded = ServerTls::load(only, &[ALPN]).expect("good files");
    let config = ServiceConfig {
        node_id: node_id(),
        beneficiary: Some(PROXY),
        ..ServiceConfig::default()
    };
    let host = std::sync::Arc::clone(&plain.host) as _;
    let loaded = Some(std::sync::Arc::new(loaded));
    let server = ScsServer::start("127.0.0.1:0", loaded, config, host, plain.heads.subscribe()).await;
    let server = server.expect("a free port");
    let start = |tls| {
        ScsClient::start(ScsClientConfig {
            tls,
            ..self::config(server.address().to_string(), 1)
        })
    };
    let own = ClientCertificate {
        certificates: files.certificates.clone(),
        key: files.key.clone(),
    };
    let with_own = tls("vnode.test").map(|tls| ClientTls {
        own: Some(own),
        ..tls
    });
    with_own
        .as_ref()
        .expect("it is there")
        .check()
        .expect("good files");
    let (_known, mut events) = start(with_own);
    assert_eq!(
        event(&mut events).await,
        ScsEvent::Connected { beneficiary: PROXY }
    );
    let (_unknown, mut events) = start(tls("vnode.test"));
    assert!(matches!(event(&mut events).await, ScsEvent::Disconnected { .. }));
    std::fs::remove_dir_all(&folder).expect("a removal");
}

#[tokio::test]
async fn an_scs_is_asked_directly() {
    use std::convert::Infallible;

    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use scs_service::proto::{BlockSyncRequest, ServiceReply};
    use tonic::{Request, Response, Status};

    /// Answers `moac.SCS/Sync`, as an SCS does.
    #[derive(Clone)]
    struct Sync;

    impl tower_service::Service<Request<BlockSyncRequest>> for Sync {
        type Response = Response<ServiceReply>;
        type Error = Status;
        type Future = std::future::Ready<Result<Self::Response, Status>>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Status>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<BlockSyncRequest>) -> Self::Future {
            let request = request.into_inner();
            let body = format!("block {} for {}", request.blocknumber, request.scsid.len());
            std::future::ready(Ok(Response::new(ServiceReply {
                requestid: request.requestid,
                replybody: Bytes::from(body),
            })))
        }
    }

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        let service = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
            assert_eq!(request.uri().path(), "/moac.SCS/Sync");
            let codec = tonic_prost::ProstCodec::<ServiceReply, BlockSyncRequest>::default();
            Ok::<_, Infallible>(tonic::server::Grpc::new(codec).unary(Sync, request).await)
        });
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    });
    let answer = scs_service::client::ask_for_block(&config(address, 1), CHAIN, 7).await;
    assert_eq!(answer.expect("an answer")[..], b"block 7 for 42"[..]);
}
