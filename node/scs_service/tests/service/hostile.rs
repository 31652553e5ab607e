//! Clients that mean harm: memory stays bounded, and others go on.

use std::time::Duration;

use bytes::Bytes;
use primitives::Address;
use scs_service::ScsId;
use scs_service::proto::{DownloadBlockRequest, ScbPublicCallRequest, ScsPushMsg, UploadBlockRequest};
use scs_service::vnode::{ScsRole, ServiceLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tonic::Code;

use crate::common::{
    CHAIN, PATIENCE, QUIET, Setup, TestClient, TestStream, call, handshake, id, message, wait_until,
};

/// An SCS that takes part in [`CHAIN`], and that others must not disturb.
async fn honest(setup: &Setup) -> TestStream {
    setup.set_role(CHAIN, id(1), ScsRole::Consensus);
    setup.scs(id(1)).await
}

/// Checks that the honest SCS gets a transaction.
async fn goes_on(setup: &Setup, scs: &mut TestStream, number: usize) {
    let call = call(format!("honest {number}").as_bytes());
    setup.service().submit(call.clone()).expect("taken");
    while scs.message().await.payload != call.rlp.0 {}
}

fn many_ids(number: u32) -> ScsId {
    let mut bytes = [0x77; 20];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    ScsId(Address::from(bytes))
}

#[tokio::test]
async fn junk_ends_its_connection_only() {
    let setup = Setup::start().await;
    let mut scs = honest(&setup).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for junk in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        &[0xff; 5000],
        &[&preface[..], &[0xff; 100]].concat(),
        // A frame of settings that is cut short.
        &[&preface[..], &[0, 0, 6, 4, 0, 0, 0, 0, 0, 0]].concat(),
    ] {
        let mut stream = TcpStream::connect(setup.server.address())
            .await
            .expect("a connection");
        // The server may close before everything is written.
        let _ = stream.write_all(junk).await;
        let _ = stream.shutdown().await;
        let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await;
        assert!(end.is_ok(), "the connection ends");
    }
    goes_on(&setup, &mut scs, 1).await;
    // Bytes that are no message end their stream.
    let client = setup.connect().await;
    let status = client.call(
        "/moac.Vnode/ScsPush",
        UploadBlockRequest {
            requestid: 7,
            ..UploadBlockRequest::default()
        },
    );
    assert!(status.await.is_err());
    goes_on(&setup, &mut scs, 2).await;
}

#[tokio::test]
async fn long_messages_are_refused() {
    let setup = Setup::with(|config| config.limits.message_len_max = 100_000).await;
    let mut scs = honest(&setup).await;
    let client = setup.connect().await;
    let mut stream = client.stream().await;
    let long = ScsPushMsg {
        msghash: vec![1; 100_000].into(),
        ..message(2, 0, id(9), 1).encode()
    };
    stream.send(long).await;
    assert_eq!(stream.error().await.code(), Code::OutOfRange);
    let upload = UploadBlockRequest {
        blockdata: vec![1; 100_000].into(),
        ..UploadBlockRequest::default()
    };
    let status = client
        .call("/moac.Vnode/UploadBlock", upload)
        .await
        .expect_err("too long");
    assert_eq!(status.code(), Code::OutOfRange);
    goes_on(&setup, &mut scs, 1).await;
}

#[tokio::test]
async fn an_scs_that_reads_nothing_costs_a_bounded_amount() {
    let setup = Setup::with(|config| {
        config.limits = ServiceLimits {
            queue_bytes_max: 1 << 20,
            queued_bytes_max: 8 << 20,
            broadcasts_per_second: 1_000_000,
            ..ServiceLimits::default()
        };
    })
    .await;
    let mut scs = honest(&setup).await;
    setup.set_role(CHAIN, id(2), ScsRole::Consensus);
    let mut silent = setup.scs(id(2)).await;
    // Broadcasts are dropped when its queue is full, transactions end its stream.
    for number in 0..200 {
        let mut long = message(2, 0, id(9), number);
        long.payload = Bytes::from(vec![1; 50_000]);
        setup
            .service()
            .push_from_peer(&long.encode())
            .await
            .expect("well formed");
        assert_eq!(scs.message().await.payload.len(), 50_000);
    }
    assert!(setup.service().counters().dropped > 100);
    assert_eq!(setup.service().counters().connected, 2, "it is still connected");
    for number in 0..100 {
        let long = [format!("{number}").as_bytes(), &[1; 50_000]].concat();
        setup.service().submit(call(&long)).expect("taken");
        assert!(scs.message().await.payload.len() > 50_000);
    }
    assert_eq!(silent.error().await.code(), Code::ResourceExhausted);
    wait_until("it to be gone", || setup.service().counters().connected == 1).await;
    goes_on(&setup, &mut scs, 1).await;
}

#[tokio::test]
async fn thousands_of_ids_find_no_place() {
    let setup = Setup::with(|config| {
        config.limits.ids_max = 100;
        config.limits.address_ids_max = 50;
    })
    .await;
    let mut scs = honest(&setup).await;
    let mut streams = Vec::new();
    for connection in 0..10 {
        let client = setup.connect().await;
        for stream in 0..20 {
            let stream_id = many_ids(connection * 20 + stream);
            let stream = client.stream().await;
            stream.send(handshake(stream_id)).await;
            streams.push(stream);
        }
    }
    let mut taken = 0;
    for stream in &mut streams {
        match stream.next().await {
            Ok(Some(_)) => taken += 1,
            Ok(None) => panic!("the stream ended"),
            Err(status) => assert_eq!(status.code(), Code::ResourceExhausted),
        }
    }
    assert_eq!(taken, 49);
    goes_on(&setup, &mut scs, 1).await;
    // A thousand ids on one stream are one SCS: the last.
    drop(streams);
    wait_until("them to be gone", || setup.service().counters().connected == 1).await;
    let mut stream = setup.connect().await.stream().await;
    for number in 0..1000 {
        assert_eq!(stream.shake_hands(many_ids(number)).await, "shakereply");
    }
    assert_eq!(setup.service().counters().connected, 2);
    goes_on(&setup, &mut scs, 2).await;
}

#[tokio::test]
async fn streams_and_connections_are_bounded() {
    let setup = Setup::with(|config| {
        config.limits.streams_max = 4;
        config.limits.address_connections_max = 8;
    })
    .await;
    let mut scs = honest(&setup).await;
    let client = setup.connect().await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(client.stream().await);
    }
    let fifth = tokio::time::timeout(Duration::from_millis(300), client.stream()).await;
    assert!(fifth.is_err(), "it waits until another stream has ended");
    drop(streams);
    // Idle connections make room for new ones; that of the honest SCS does not.
    let mut idle = Vec::new();
    for _ in 0..50 {
        idle.push(
            TcpStream::connect(setup.server.address())
                .await
                .expect("a connection"),
        );
    }
    assert_eq!(
        setup
            .scs(id(3))
            .await
            .next()
            .await
            .map(|ping| ping.is_some())
            .ok(),
        Some(true)
    );
    goes_on(&setup, &mut scs, 1).await;
    assert_eq!(idle.len(), 50);
}

#[tokio::test]
async fn messages_that_never_end_hold_a_bounded_amount() {
    let setup = Setup::with(|config| {
        // Of 1 MiB one address may have less than half.
        config.limits.received_len_max = 1 << 20;
    })
    .await;
    let mut scs = honest(&setup).await;
    let client = setup.connect().await;
    let mut refused = 0;
    for number in 0..8 {
        let long = UploadBlockRequest {
            sender: Bytes::from(format!("{number}")),
            blockdata: vec![1; 700_000].into(),
            ..UploadBlockRequest::default()
        };
        if let Err(status) = client.call("/moac.Vnode/UploadBlock", long).await {
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            refused += 1;
        }
    }
    assert_eq!(refused, 8);
    let short = UploadBlockRequest {
        blockdata: vec![1; 100_000].into(),
        ..UploadBlockRequest::default()
    };
    client
        .call("/moac.Vnode/UploadBlock", short)
        .await
        .expect("it was given back");
    goes_on(&setup, &mut scs, 1).await;
}

#[tokio::test]
async fn a_flood_of_broadcasts_waits_and_others_go_on() {
    let setup = Setup::with(|config| config.limits.broadcasts_per_second = 50).await;
    let mut scs = honest(&setup).await;
    let flood = setup.connect().await.stream().await;
    let flooding = tokio::spawn(async move {
        for number in 0..100_000 {
            let outgoing = flood.outgoing.as_ref().expect("not ended");
            if outgoing
                .send(message(2, 0, id(9), number).encode())
                .await
                .is_err()
            {
                return number;
            }
        }
        100_000
    });
    for number in 0..50 {
        goes_on(&setup, &mut scs, number).await;
    }
    // 100 may come at once. HTTP/2 keeps some of the others, and the rest waits at the client.
    assert!(!flooding.is_finished(), "the client is slowed down");
    flooding.abort();
}

/// A call with an answer of 5 MiB.
fn long_call() -> ScbPublicCallRequest {
    ScbPublicCallRequest {
        contractaddr: CHAIN.to_vec().into(),
        data: Bytes::from_static(b"long"),
        ..ScbPublicCallRequest::default()
    }
}

/// One answer of 5 MiB has room, and not two.
const fn room_for_one_answer(limits: &mut ServiceLimits) {
    limits.message_len_max = 8 << 20;
    limits.received_len_max = 16 << 20;
}

/// HTTP/2 takes a whole answer as soon as its client lets one byte through.
#[tokio::test]
async fn answers_that_are_not_read_hold_a_bounded_amount_for_a_while() {
    tokio::join!(leave_answers(0), leave_answers(1), leave_answers(1000));
}

/// A client with so small a window reads no answer of a service of its own.
async fn leave_answers(window: u32) {
    let setup = Setup::with(|config| {
        room_for_one_answer(&mut config.limits);
        config.limits.answer_timeout = Duration::from_secs(4);
    })
    .await;
    let mut scs = honest(&setup).await;
    let client = TestClient::connect_with_window(&setup.address(), window)
        .await
        .expect("a connection");
    let mut unread = Vec::new();
    for call in 0..8 {
        match client.call_unread("/moac.Vnode/ScbPublicCall", long_call()).await {
            Ok(answer) => unread.push(answer),
            Err(status) => {
                let code = status.code();
                assert_eq!(code, Code::ResourceExhausted, "window {window}, call {call}");
            }
        }
    }
    assert_eq!(unread.len(), 1, "window {window}: the others find no room");
    client.ended().await;
    drop(unread);
    let answer = setup
        .connect()
        .await
        .call("/moac.Vnode/ScbPublicCall", long_call())
        .await;
    assert_eq!(answer.expect("the room is given back").replybody.len(), 5 << 20);
    goes_on(&setup, &mut scs, 0).await;
}

#[tokio::test]
async fn pushed_messages_that_are_not_read_count_until_they_are_sent() {
    for window in [1, 1000] {
        // Two broadcasts of 300 kB have room, and not three.
        let setup = Setup::with(|config| config.limits.queue_bytes_max = 1 << 20).await;
        setup.set_role(CHAIN, id(2), ScsRole::Consensus);
        let client = TestClient::connect_with_window(&setup.address(), window)
            .await
            .expect("a connection");
        let mut silent = client.stream().await;
        assert_eq!(silent.shake_hands(id(2)).await, "shakereply");
        let push = async |number| {
            let mut long = message(2, 0, id(9), number);
            long.payload = Bytes::from(vec![1; 300_000]);
            let pushed = setup.service().push_from_peer(&long.encode()).await;
            pushed.expect("well formed");
            setup.service().counters().dropped
        };
        for number in 0..2 {
            assert_eq!(push(number).await, 0, "window {window}");
            // HTTP/2 takes what it can.
            tokio::time::sleep(QUIET).await;
        }
        assert_eq!(push(2).await, 1, "window {window}");
        if window > 1 {
            for _ in 0..2 {
                assert_eq!(silent.message().await.payload.len(), 300_000);
            }
            assert_eq!(push(3).await, 1, "the room is given back");
        }
    }
}

#[tokio::test]
async fn a_block_whose_answer_finds_no_room_is_not_lost() {
    let setup = Setup::with(|config| room_for_one_answer(&mut config.limits)).await;
    let client = setup.connect().await;
    let upload = UploadBlockRequest {
        blockdata: vec![1; 3 << 20].into(),
        ..UploadBlockRequest::default()
    };
    client
        .call("/moac.Vnode/UploadBlock", upload)
        .await
        .expect("kept");
    let closed = TestClient::connect_with_window(&setup.address(), 0)
        .await
        .expect("a connection");
    let unread = closed.call_unread("/moac.Vnode/ScbPublicCall", long_call()).await;
    let download = || client.call("/moac.Vnode/DownloadBlock", DownloadBlockRequest::default());
    let refused = download().await.expect_err("no room");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    drop((unread.expect("an answer"), closed));
    let again = async {
        loop {
            match download().await {
                Ok(answer) => break answer.replybody,
                // The room of the unread answer is not given back yet.
                Err(status) => assert_eq!(status.code(), Code::ResourceExhausted),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let block = tokio::time::timeout(PATIENCE, again).await.expect("room");
    assert_eq!(block.len(), 3 << 20);
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    let head = [len[1], len[2], len[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// A client asks without end for answers that HTTP/2 gives by itself, or for paths that do not
/// exist, and reads nothing. It is not read any more, or cut off.
#[tokio::test(flavor = "multi_thread")]
async fn floods_of_frames_without_a_reader_do_not_pile_up() {
    /// More than all buffers of the system between a client and the service hold.
    const FLOOD_LEN: usize = 32 << 20;
    /// `POST` of `/` over `http`, as HTTP/2 packs it.
    const HEADERS: [u8; 3] = [0x83, 0x86, 0x84];
    let setup = Setup::start().await;
    let mut scs = honest(&setup).await;
    let request = |stream| frame(1, 5, stream, &HEADERS);
    let next = |name, stream| match name {
        "pings" => frame(6, 0, 0, &[7; 8]),
        "settings" => frame(4, 0, 0, &[]),
        "requests" => request(stream),
        _ => [request(stream), frame(3, 0, stream, &[0, 0, 0, 8])].concat(),
    };
    for (number, name) in ["pings", "settings", "requests", "resets"]
        .into_iter()
        .enumerate()
    {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        let mut stream = socket
            .connect(setup.server.address())
            .await
            .expect("a connection");
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await
            .expect("sent");
        stream.write_all(&frame(4, 0, 0, &[])).await.expect("sent");
        let (mut sent, mut id) = (0, 1);
        loop {
            let chunk: Vec<u8> = (0..4000)
                .flat_map(|_| {
                    id += 2;
                    next(name, id)
                })
                .collect();
            // A write that takes this long waits for the service to read.
            let written = tokio::time::timeout(Duration::from_secs(2), stream.write_all(&chunk)).await;
            if !matches!(written, Ok(Ok(()))) {
                break;
            }
            sent += chunk.len();
            assert!(sent < FLOOD_LEN, "{name}: the service has read {sent} bytes");
        }
        goes_on(&setup, &mut scs, number).await;
    }
}
