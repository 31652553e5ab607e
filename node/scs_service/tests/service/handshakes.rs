//! Handshakes, pings, and which stream an id has.

use std::net::IpAddr;

use bytes::Bytes;
use primitives::{B256, SecretKey};
use prost::Message;
use scs_service::message::payload::{Handshake, decode_head, decode_text};
use scs_service::proto::ScsPushMsg;
use scs_service::vnode::{AllowEntry, AllowList, ScsRole};
use scs_service::{MessageKind, ScsId, ScsMessage};
use tonic::Code;

use crate::common::{CHAIN, CHAIN_ID, PROXY, Setup, handshake, id, message, node_id, wait_until};

#[tokio::test]
async fn a_handshake_is_answered_as_published() {
    let setup = Setup::start().await;
    let mut stream = setup.connect().await.stream().await;
    let hello = handshake(id(1));
    stream.send(hello.clone()).await;
    let answer = stream.next().await.expect("no error").expect("an answer");
    assert_eq!(answer.requestid, hello.requestid);
    assert_eq!((&answer.r#type, &answer.status), (&hello.r#type, &hello.status));
    assert_eq!(answer.scsid, hello.scsid);
    assert!(!answer.requestflag);
    assert_eq!(answer.sender, PROXY.as_slice());
    assert_eq!((answer.subchainid.len(), answer.receiver.len()), (0, 0));
    assert_eq!(answer.msghash[..], b"\x8ashakereply"[..]);
    assert_eq!(answer.timestamp.len(), 8);
    assert_eq!(setup.service().counters().connected, 1);
}

#[tokio::test]
async fn bad_handshakes_have_their_texts() {
    let setup = Setup::start().await;
    let client = setup.connect().await;
    let answer = async |hello: ScsPushMsg| {
        let mut stream = client.stream().await;
        stream.send(hello).await;
        decode_text(&stream.message().await.payload).expect("a text")
    };
    let other_chain = Handshake {
        chain_id: 99,
        ..Handshake::default()
    };
    let hello = ScsPushMsg {
        msghash: other_chain.encode(),
        ..handshake(id(1))
    };
    assert_eq!(answer(hello).await, "chainiderror");
    let zero = format!("0x{}", "0".repeat(40));
    for bad in ["", "0x1", &zero, "0x12345678901234567890"] {
        let hello = ScsPushMsg {
            scsid: Bytes::copy_from_slice(bad.as_bytes()),
            ..handshake(id(1))
        };
        assert_eq!(
            answer(hello).await,
            format!("shakereply: error: invalid scsId {bad}")
        );
    }
    setup.host.0.lock().is_not_ready = true;
    assert_eq!(answer(handshake(id(1))).await, "Not initialize");
    assert_eq!(setup.service().counters().connected, 0);
}

#[tokio::test]
async fn malformed_messages_end_the_stream_with_a_reason() {
    let setup = Setup::start().await;
    let client = setup.connect().await;
    let good = message(2, 0, id(1), 1).encode();
    // The published VNODE ends at most of these.
    for (bad, expected) in [
        (
            ScsPushMsg {
                // The list lacks the chain id.
                msghash: Bytes::from_static(&[0xc3, 0x80, 0x80, 0x01]),
                ..handshake(id(1))
            },
            "msghash: handshake: got 3 fields, expected 4",
        ),
        (
            ScsPushMsg {
                subchainid: Bytes::from_static(b"short"),
                ..good.clone()
            },
            "subchainid: got 5 bytes, expected 0, 20 or 21",
        ),
        (
            ScsPushMsg {
                subchainid: Bytes::new(),
                ..good.clone()
            },
            "subchainid: got 0 bytes, expected 20 or 21",
        ),
        (
            ScsPushMsg {
                requestid: Bytes::from_static(b"short"),
                ..good.clone()
            },
            "requestid: got 5 bytes, expected 16 to 1024",
        ),
        (
            ScsPushMsg {
                timestamp: Bytes::from_static(b"12"),
                ..good.clone()
            },
            "timestamp: got 2 bytes, expected 0 or 8",
        ),
    ] {
        let mut stream = client.stream().await;
        stream.send(bad).await;
        let status = stream.error().await;
        assert_eq!(
            (status.code(), status.message()),
            (Code::InvalidArgument, expected)
        );
    }
    assert_eq!(
        client.stream().await.shake_hands(id(1)).await,
        "shakereply",
        "the connection goes on"
    );
}

#[tokio::test]
async fn an_scs_is_pinged_when_the_head_has_risen() {
    let setup = Setup::start().await;
    let mut stream = setup.scs(id(1)).await;
    let mut ping = async |expected: u64| {
        let wire = stream.next().await.expect("no error").expect("a ping");
        let ping = ScsMessage::decode(&wire).expect("well formed");
        assert_eq!(ping.kind, MessageKind::Ping { status: 0 });
        assert_eq!(decode_head(&ping.payload), Ok(expected));
        assert!(ping.is_request && wire.status.is_empty() && wire.timestamp.is_empty());
        assert_eq!(ping.scs_id, id(1).to_wire());
        let request_id = String::from_utf8(ping.request_id.to_vec()).expect("text");
        assert!(request_id.starts_with(&format!("{}-", node_id())), "{request_id}");
    };
    ping(0).await;
    setup.heads.send_replace(5);
    ping(5).await;
    // A lower head is not told.
    setup.heads.send_replace(4);
    setup.heads.send_replace(6);
    ping(6).await;
}

#[tokio::test]
async fn a_ping_of_an_scs_is_answered() {
    let setup = Setup::start().await;
    let mut stream = setup.connect().await.stream().await;
    let ping = ScsPushMsg {
        r#type: Bytes::from_static(&[0, 0, 0, 5]),
        requestid: Bytes::from_static(b"my ping"),
        ..ScsPushMsg::default()
    };
    stream.send(ping.clone()).await;
    let answer = stream.next().await.expect("no error").expect("an answer");
    assert_eq!(answer.msghash[..], b"\x89pingreply"[..]);
    assert_eq!(
        (&answer.requestid, &answer.r#type),
        (&ping.requestid, &ping.r#type)
    );
    assert!(answer.encoded_len() > 0 && !answer.requestflag);
}

#[tokio::test]
async fn the_newest_stream_of_a_connection_gets_the_pushes_and_all_are_read() {
    let setup = Setup::start().await;
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    let connection = setup.connect().await;
    let (mut first, mut second) = (connection.stream().await, connection.stream().await);
    for stream in [&mut first, &mut second] {
        assert_eq!(stream.shake_hands(id(1)).await, "shakereply");
    }
    assert_eq!(setup.service().counters().connected, 1);
    let bystander = setup.connect().await.stream().await;
    bystander.send(message(2, 0, id(9), 1).encode()).await;
    assert_eq!(second.message().await.payload, Bytes::from_static(b"content 1"));
    assert!(first.is_quiet().await);
    // The older stream is read all the same, after its handshake, too.
    first.send(message(2, 0, id(9), 2).encode()).await;
    assert_eq!(second.message().await.payload, Bytes::from_static(b"content 2"));
    // The end of the older stream does not take the id from the newer one.
    drop(first);
    bystander.send(message(2, 0, id(9), 3).encode()).await;
    assert_eq!(second.message().await.payload, Bytes::from_static(b"content 3"));
    drop(second);
    wait_until("the SCS to be gone", || setup.service().counters().connected == 0).await;
}

#[tokio::test]
async fn a_stranger_does_not_take_the_place_of_an_scs() {
    let setup = Setup::start().await;
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    let mut member = setup.scs(id(1)).await;
    let mut stranger = setup.connect().await.stream().await;
    stranger.send(handshake(id(1))).await;
    assert_eq!(stranger.error().await.code(), Code::AlreadyExists);
    let other = setup.connect().await.stream().await;
    other.send(message(2, 0, id(9), 1).encode()).await;
    assert_eq!(member.message().await.payload, Bytes::from_static(b"content 1"));
    // The place is free when its connection has ended.
    drop(member);
    wait_until("the SCS to be gone", || setup.service().counters().connected == 0).await;
    setup.scs(id(1)).await;
}

#[tokio::test]
async fn a_signature_over_the_challenge_is_the_proof() {
    let setup = Setup::start().await;
    let key = SecretKey::from_bytes(&[7; 32]).expect("a key");
    let own = ScsId(key.address());
    let client = setup.connect().await;
    let announced = Handshake {
        chain_id: CHAIN_ID,
        ..Handshake::default()
    };
    let mut squatter = setup.scs(own).await;
    let (mut stream, old) = client.proving_stream().await;
    // Without proof nothing happens, nor with one of another number, or of another key.
    stream.send(handshake(own)).await;
    assert!(stream.is_quiet().await);
    let prove = |key: &SecretKey, challenge| ScsPushMsg {
        msghash: announced.with_proof(key, &challenge).encode(),
        ..handshake(own)
    };
    let other_key = SecretKey::from_bytes(&[8; 32]).expect("a key");
    for wrong in [prove(&other_key, old), prove(&key, B256::ZERO)] {
        let (mut stream, _) = client.proving_stream().await;
        stream.send(wrong).await;
        assert_eq!(stream.error().await.code(), Code::Unauthenticated);
    }
    let (mut replay, _) = client.proving_stream().await;
    replay.send(prove(&key, old)).await;
    assert_eq!(
        replay.error().await.code(),
        Code::Unauthenticated,
        "an old challenge"
    );
    // The proof takes the place, and its name alone does not take it back.
    stream.send(prove(&key, old)).await;
    let answer = decode_text(&stream.message().await.payload).expect("a text");
    assert_eq!(answer, "shakereply");
    assert_eq!(squatter.error().await.code(), Code::Aborted);
    let mut again = setup.connect().await.stream().await;
    again.send(handshake(own)).await;
    assert_eq!(again.error().await.code(), Code::AlreadyExists);
    assert_eq!(setup.service().counters().connected, 1);
}

#[tokio::test]
async fn pushes_go_on_after_the_client_has_ended_its_half() {
    let setup = Setup::start().await;
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    let mut scs = setup.scs(id(1)).await;
    scs.outgoing = None;
    let other = setup.connect().await.stream().await;
    other.send(message(2, 0, id(9), 1).encode()).await;
    assert_eq!(scs.message().await.payload, Bytes::from_static(b"content 1"));
    // A stream without an SCS ends with its client's half.
    let mut plain = setup.connect().await.stream().await;
    plain.outgoing = None;
    assert_eq!(plain.next().await.expect("no error"), None);
}

#[tokio::test]
async fn before_nuwa_everything_is_refused() {
    let setup = Setup::start().await;
    setup.host.0.lock().has_no_micro_chains = true;
    let client = setup.connect().await;
    let status = client.try_stream().await.err().expect("refused");
    assert_eq!(status.code(), Code::FailedPrecondition);
    let request = scs_service::proto::AccountInfoRequest {
        requestid: 1,
        addr: Bytes::copy_from_slice(CHAIN.as_slice()),
    };
    let status = client
        .call("/moac.Vnode/AccountInfo", request)
        .await
        .expect_err("refused");
    assert_eq!(status.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_list_says_who_may_connect() {
    let setup = Setup::with(|config| config.allow = AllowList::new(vec![AllowEntry::Id(id(1))])).await;
    let client = setup.connect().await;
    let mut stranger = client.stream().await;
    stranger.send(handshake(id(2))).await;
    assert_eq!(stranger.error().await.code(), Code::PermissionDenied);
    let mut early = client.stream().await;
    early.send(message(2, 0, id(2), 1).encode()).await;
    assert_eq!(early.error().await.code(), Code::PermissionDenied);
    // Other streams may send, too, from an address at which an allowed SCS is connected.
    let mut allowed = client.stream().await;
    assert_eq!(allowed.shake_hands(id(1)).await, "shakereply");
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    let second = client.stream().await;
    second.send(message(2, 0, id(9), 2).encode()).await;
    assert_eq!(allowed.message().await.payload, Bytes::from_static(b"content 2"));

    let elsewhere: IpAddr = "192.0.2.1".parse().expect("an address");
    for entry in [AllowEntry::Address(elsewhere), AllowEntry::IdAt(id(1), elsewhere)] {
        let setup = Setup::with(|config| config.allow = AllowList::new(vec![entry])).await;
        let refused = match crate::common::TestClient::connect(&setup.address()).await {
            Ok(client) => client.try_stream().await.is_err(),
            Err(_) => true,
        };
        assert!(refused, "{entry}");
    }
}
