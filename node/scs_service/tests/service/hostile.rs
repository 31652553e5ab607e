//! Clients that mean harm: memory stays bounded, and others go on.

use std::time::Duration;

use bytes::Bytes;
use primitives::Address;
use scs_service::ScsId;
use scs_service::proto::{ScsPushMsg, UploadBlockRequest};
use scs_service::vnode::{ScsRole, ServiceLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use crate::common::{CHAIN, PATIENCE, Setup, TestStream, call, handshake, id, message, wait_until};

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
