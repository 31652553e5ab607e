//! Handshake, Hello, Status and requests for headers, dialled by either side.

use std::time::Duration;

use chain::ChainSpec;
use chain::spec::{ChainFamily, RuleTable};
use e2e::address::free_port;
use e2e::clients::javascript;
use network::testing::{
    ConnectionError, Entropy, HeadersRequest, HeadersStart, PeerConnection, PeerMessage, PeerStatus,
    RlpxSettings, WireProtocol, dial, fork_filter,
};
use network::{NodeContact, RlpxDisconnect, WireFamily};
use primitives::{B256, Header, U256, b256, hex};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::support::key;

/// Block 0 of Ethereum's main network, whose forks the package knows.
const GENESIS: B256 = b256!("d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3");
const NETWORK: u64 = 1;
/// The package's listener is dialled so often until it is there.
const DIALS: usize = 600;
const DIAL_PAUSE: Duration = Duration::from_millis(100);

fn settings(protocol: WireProtocol, version: u64) -> RlpxSettings {
    RlpxSettings {
        version,
        client: "vnode-test/1".to_owned(),
        capabilities: vec![protocol.offer()],
        port: 0,
        message_bytes_max: protocol.family().message_bytes_max(),
    }
}

fn header(number: u64) -> Header {
    Header {
        number,
        difficulty: U256::from(131_072),
        ..Header::default()
    }
}

fn status(protocol: WireProtocol) -> PeerMessage {
    // The package stands at block 0, so the next fork is all that it checks.
    let spec = ChainSpec {
        family: ChainFamily::Ethereum,
        rules: RuleTable::default().with_fork("Homestead", 1_150_000),
        ..ChainSpec::dev()
    };
    let filter = fork_filter(&spec, GENESIS, 0).expect("Ethereum's family");
    PeerMessage::Status(PeerStatus {
        version: protocol.version(),
        network_id: NETWORK,
        total_difficulty: U256::from(131_072),
        head: GENESIS,
        genesis: GENESIS,
        fork_id: protocol.has_fork_id().then(|| filter.current()),
    })
}

fn send(peer: &mut PeerConnection<TcpStream>, protocol: WireProtocol, message: &PeerMessage) {
    let (code, payload) = message.encode(protocol);
    peer.send(0, code, &payload).expect("there is room");
}

/// Exchanges Status, answers one request for headers and makes one.
async fn talk(mut peer: PeerConnection<TcpStream>, protocol: WireProtocol) -> Result<(), ConnectionError> {
    assert!(
        peer.peer().hello.client.contains("ethereumjs"),
        "{:?}",
        peer.peer().hello
    );
    send(&mut peer, protocol, &status(protocol));
    let id = if protocol.has_request_ids() { 99 } else { 0 };
    let request = HeadersRequest {
        start: HeadersStart::Hash(GENESIS),
        amount: 1,
        skip: 7,
        reverse: true,
    };
    let (mut has_status, mut has_headers, mut has_answered) = (false, false, false);
    while !(has_status && has_headers && has_answered) {
        let message = peer.next().await?;
        match PeerMessage::decode(protocol, message.code, &message.payload).expect("a good message") {
            PeerMessage::Status(got) => {
                assert_eq!((got.network_id, got.genesis), (NETWORK, GENESIS));
                assert_eq!(got.total_difficulty, U256::from(17));
                if let Some(fork_id) = got.fork_id {
                    assert_eq!(
                        (fork_id.hash.0, fork_id.next),
                        ([0xfc, 0x64, 0xec, 0x04], 1_150_000)
                    );
                }
                has_status = true;
                send(&mut peer, protocol, &PeerMessage::GetBlockHeaders(id, request));
            }
            PeerMessage::GetBlockHeaders(asked, request) => {
                assert_eq!(request.start, HeadersStart::Number(1));
                assert_eq!((request.amount, request.skip, request.reverse), (3, 0, false));
                let headers = (1..4).map(header).collect();
                send(&mut peer, protocol, &PeerMessage::BlockHeaders(asked, headers));
                has_answered = true;
            }
            PeerMessage::BlockHeaders(got, headers) => {
                assert_eq!((got, headers), (id, vec![header(77)]));
                has_headers = true;
            }
            other => panic!("{protocol}: {other:?}"),
        }
    }
    // The disconnection also writes the queued messages.
    peer.disconnect(RlpxDisconnect::Quitting).await;
    Ok(())
}

fn argument(mode: &str, protocol: WireProtocol, port: u16) -> Value {
    json!({
        "mode": mode,
        "key": format!("0x{}", hex::encode(key(8).to_bytes())),
        "node": format!("0x{}", hex::encode(key(7).public_key())),
        "capability": {"name": protocol.family().name(), "version": protocol.version()},
        "port": port,
        "genesis": GENESIS.to_string(),
        "header": format!("0x{}", hex::encode(header(77).encode())),
    })
}

fn check_result(result: &Value, protocol: WireProtocol) {
    assert_eq!(result["client"], "vnode-test/1", "{result}");
    assert_eq!(result["version"], protocol.version());
    assert_eq!(result["status"], json!({"td": 131_072, "network": NETWORK}));
    let headers: Vec<_> = (1..4)
        .map(|number| format!("0x{}", hex::encode(header(number).encode())))
        .collect();
    assert_eq!(result["headers"], json!(headers));
    assert_eq!(result["errors"], json!([]));
}

fn protocols() -> Vec<WireProtocol> {
    let eth = [63, 64, 65, 66, 67, 68].map(|version| WireFamily::Eth.protocol(version));
    let mc = [WireFamily::Mc.protocol(63)];
    eth.into_iter().chain(mc).flatten().collect()
}

#[test]
fn the_package_dials_us() {
    let Some(clients) = javascript() else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for protocol in protocols() {
        // Version 4 of the Hello means no compression.
        for version in if protocol.version() == 63 {
            vec![4, 5]
        } else {
            vec![5]
        } {
            let result = runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                let port = listener.local_addr().expect("an address").port();
                let argument = argument("dial", protocol, port);
                let script = tokio::task::spawn_blocking(move || clients.run("devp2p.mjs", &argument));
                let (stream, _) = listener.accept().await.expect("the package dials");
                let settings = settings(protocol, version);
                let peer =
                    PeerConnection::accept(stream, key(7), settings, Entropy::from_seed([7; 32])).await;
                let peer = peer.expect("a good handshake");
                assert_eq!(peer.peer().id, key(8).public_key());
                assert_eq!(peer.peer().is_compressed, version == 5);
                talk(peer, protocol).await.expect("a good conversation");
                script.await.expect("the script ends")
            });
            check_result(&result, protocol);
        }
    }
}

#[test]
fn we_dial_the_package() {
    let Some(clients) = javascript() else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for protocol in protocols() {
        let port = free_port();
        let argument = argument("listen", protocol, port);
        let result = runtime.block_on(async {
            let script = tokio::task::spawn_blocking(move || clients.run("devp2p.mjs", &argument));
            let contact = NodeContact {
                id: key(8).public_key(),
                ip: [127, 0, 0, 1].into(),
                udp: port,
                tcp: port,
            };
            let mut dials = 0;
            let peer = loop {
                let entropy = Entropy::from_seed([dials as u8; 32]);
                match dial(&contact, key(7), settings(protocol, 5), entropy).await {
                    Ok(peer) => break peer,
                    Err(error) => assert!(dials < DIALS, "the package does not listen: {error}"),
                }
                dials += 1;
                tokio::time::sleep(DIAL_PAUSE).await;
            };
            talk(peer, protocol).await.expect("a good conversation");
            script.await.expect("the script ends")
        });
        check_result(&result, protocol);
    }
}
