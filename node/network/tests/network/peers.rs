//! Two connections of ours over loopback TCP: both forms of the handshake, with compression and
//! without, both families.

use std::sync::Arc;

use chain::ChainSpec;
use chain::spec::DEV_ACCOUNTS;
use network::testing::{
    ConnectionError, Entropy, HandshakeForm, HeadersRequest, HeadersStart, LoopbackNode, PeerConnection,
    PeerMessage, RlpxError, chain_config, contact_of, dial,
};
use network::{RlpxDisconnect, WireFamily};
use primitives::{Address, Header, SecretKey, TxForm, U256, UnsignedTransaction, keccak256};
use store::Store;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::service_node::PATIENCE;
use crate::support::{entropy, exchange, key, listen, protocol, settings, status};

/// Answers a request for headers with `count` headers.
async fn serve_headers(mut peer: PeerConnection<TcpStream>, family: WireFamily, count: u64) {
    let protocol = protocol(&peer, family);
    let (code, payload) = status(protocol).encode(protocol);
    peer.send(0, code, &payload).expect("there is room");
    while let Ok(message) = peer.next().await {
        let message = PeerMessage::decode(protocol, message.code, &message.payload).expect("a good message");
        if let PeerMessage::GetBlockHeaders(id, request) = message {
            assert_eq!(request.amount, count);
            let header = |number| Header {
                number,
                ..Header::default()
            };
            let answer = PeerMessage::BlockHeaders(id, (0..count).map(header).collect());
            let (code, payload) = answer.encode(protocol);
            peer.send(0, code, &payload).expect("there is room");
        }
    }
}

#[tokio::test]
async fn status_and_headers_in_all_combinations() {
    for family in [WireFamily::Eth, WireFamily::Mc] {
        for form in [HandshakeForm::Eip8, HandshakeForm::Plain] {
            for (own, other) in [(5, 5), (4, 5), (5, 4)] {
                let (_listener, mut peers, contact) = listen(2, settings(family, other)).await;
                let serve = tokio::spawn(async move {
                    let (peer, _) = peers.recv().await.expect("a peer");
                    assert_eq!(peer.peer().id, key(1).public_key());
                    serve_headers(peer, family, 1000).await;
                });
                let stream = TcpStream::connect(contact.tcp_address())
                    .await
                    .expect("it listens");
                let mut connection = PeerConnection::dial(
                    stream,
                    key(1),
                    contact.id,
                    form,
                    settings(family, own),
                    entropy(1),
                )
                .await
                .expect("a good handshake");
                assert_eq!(connection.peer().id, contact.id);
                assert_eq!(connection.peer().is_compressed, own.min(other) == 5);
                let protocol = protocol(&connection, family);
                assert_eq!(
                    protocol.version(),
                    if family == WireFamily::Eth { 68 } else { 63 }
                );
                let own_status = status(protocol);
                assert_eq!(exchange(&mut connection, protocol, &own_status).await, own_status);
                let request = HeadersRequest {
                    start: HeadersStart::Number(0),
                    amount: 1000,
                    skip: 0,
                    reverse: false,
                };
                let id = if protocol.has_request_ids() { 77 } else { 0 };
                let request = PeerMessage::GetBlockHeaders(id, request);
                let answer = exchange(&mut connection, protocol, &request).await;
                let PeerMessage::BlockHeaders(got, headers) = answer else {
                    panic!("headers")
                };
                assert_eq!((got, headers.len()), (id, 1000));
                connection.disconnect(RlpxDisconnect::Quitting).await;
                serve.await.expect("it served");
            }
        }
    }
}

#[tokio::test]
async fn the_reason_for_the_end_arrives() {
    let (_listener, mut peers, contact) = listen(2, settings(WireFamily::Eth, 5)).await;
    let dialled = dial(&contact, key(1), settings(WireFamily::Eth, 5), entropy(1)).await;
    let mut connection = dialled.expect("a good handshake");
    let (peer, _) = peers.recv().await.expect("a peer");
    peer.disconnect(RlpxDisconnect::TooManyPeers).await;
    let error = connection.next().await.expect_err("it ended");
    let reason = RlpxDisconnect::TooManyPeers;
    assert!(
        matches!(error, ConnectionError::Rlpx(RlpxError::Disconnected(got)) if got == reason),
        "{error}"
    );
}

#[tokio::test]
async fn other_families_and_keys_are_refused() {
    let (_listener, _peers, contact) = listen(2, settings(WireFamily::Eth, 5)).await;
    let dialled = dial(&contact, key(1), settings(WireFamily::Mc, 5), entropy(1)).await;
    let error = dialled.err().expect("no shared capability").to_string();
    let text = "no shared capability: got eth/63 eth/64 eth/65 eth/66 eth/67 eth/68, expected mc/62 mc/63";
    // The other side may say so first.
    assert!(
        error == text || error == "the peer disconnects: no shared capability",
        "{error}"
    );
    let wrong = network::NodeContact {
        id: key(3).public_key(),
        ..contact
    };
    assert!(
        dial(&wrong, key(1), settings(WireFamily::Eth, 5), entropy(1))
            .await
            .is_err()
    );
    let own = dial(&contact, key(2), settings(WireFamily::Eth, 5), entropy(1)).await;
    assert!(matches!(
        own.err(),
        Some(ConnectionError::Rlpx(RlpxError::SelfConnection))
    ));
}

#[tokio::test]
async fn both_sides_send_much_at_once() {
    // Each side queues more than the sockets hold before it reads. Neither blocks the other.
    let (one, two) = tokio::io::duplex(4096);
    let accept = PeerConnection::accept(two, key(2), settings(WireFamily::Mc, 4), entropy(2));
    let dial = PeerConnection::dial(
        one,
        key(1),
        key(2).public_key(),
        HandshakeForm::Eip8,
        settings(WireFamily::Mc, 4),
        Entropy::from_seed([9; 32]),
    );
    let (one, two) = tokio::join!(dial, accept);
    let (mut one, mut two) = (one.expect("good"), two.expect("good"));
    let payload = vec![7; 1 << 20];
    for connection in [&mut one, &mut two] {
        for _ in 0..8 {
            connection.send(0, 0x21, &payload).expect("there is room");
        }
    }
    let mut received = [0, 0];
    while received.iter().any(|count| *count < 8) {
        tokio::select! {
            message = one.next() => {
                assert_eq!(message.expect("good").payload, payload);
                received[0] += 1;
            }
            message = two.next() => {
                assert_eq!(message.expect("good").payload, payload);
                received[1] += 1;
            }
        }
    }
}

/// Each answer is so long that no other request is answered before it is written. The peer says
/// nothing meanwhile.
#[tokio::test]
async fn all_questions_that_came_at_once_are_answered() {
    const QUESTIONS: u64 = 3;
    let config = chain_config(Arc::new(ChainSpec::dev()));
    let store = Store::in_memory().expect("memory");
    let node = LoopbackNode::start(key(2), store, config, |_| ()).await;
    // Bytes that do not get shorter on the wire.
    let input: Vec<u8> = (0_u16..1000)
        .flat_map(|number| keccak256(number.to_be_bytes()).0)
        .collect();
    let unsigned = UnsignedTransaction {
        gas_price: U256::from(20_000_000_000_u64),
        gas: 3_000_000,
        to: Some(Address::repeat_byte(7)),
        input: input.into(),
        ..Default::default()
    };
    let sender = SecretKey::from_hex(DEV_ACCOUNTS[0].1).expect("a key");
    let signed = unsigned.sign(&sender, 100, TxForm::Native);
    node.chain.submit_transaction(signed).expect("a good transaction");
    let hash = node.mine().hash();

    let family = WireFamily::Mc;
    let contact = contact_of(node.network());
    let dialled = dial(&contact, key(1), settings(family, 5), entropy(1)).await;
    let mut peer = dialled.expect("a good handshake");
    let protocol = protocol(&peer, family);
    let theirs = peer.next().await.expect("a Status");
    peer.send(0, theirs.code, &theirs.payload).expect("there is room");
    for id in 0..QUESTIONS {
        let (code, rlp) = PeerMessage::GetBlockBodies(id, vec![hash; 17]).encode(protocol);
        peer.send(0, code, &rlp).expect("there is room");
    }
    let answer = PeerMessage::BlockBodies(0, Vec::new()).encode(protocol).0;
    let mut answers = 0;
    while answers < QUESTIONS {
        let message = timeout(PATIENCE, peer.next()).await.expect("an answer");
        let message = message.expect("a connection");
        if message.code == answer {
            assert!(message.payload.len() > 512 << 10, "{}", message.payload.len());
            answers += 1;
        }
    }
    node.stop().await;
}
