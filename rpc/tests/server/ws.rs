//! The WebSocket server: handshake, frames, close codes, limits, stopping.

use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use rpc::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};

use crate::server::clients::WsClient;
use crate::server::harness::{
    ANSWER, CALL, PATIENCE, bare, check_status, exchange, long_call, post, read_to_end, serve_both, serve_ws,
    slow_answer, slow_call, split,
};

#[tokio::test]
async fn messages_in_every_form() {
    let server = serve_ws(Limits::default(), "").await;
    let mut client = WsClient::connect(server.addresses()[0]).await;
    assert_eq!(client.ask(CALL).await, ANSWER);
    assert_eq!(
        client.ask(&format!("[{CALL},{CALL}]")).await,
        format!("[{ANSWER},{ANSWER}]")
    );
    client.send_message(Message::binary(CALL)).await;
    assert_eq!(client.text().await, ANSWER, "in a binary frame");
    for (frame, last) in [
        (Data::Text, false),
        (Data::Continue, false),
        (Data::Continue, true),
    ] {
        let part = match (frame, last) {
            (Data::Text, _) => &CALL[..10],
            (_, false) => &CALL[10..20],
            (_, true) => &CALL[20..],
        };
        let frame = Frame::message(part.to_owned(), OpCode::Data(frame), last);
        client.send_message(Message::Frame(frame)).await;
    }
    assert_eq!(client.text().await, ANSWER, "in three pieces");
    client.send_message(Message::Ping("x".into())).await;
    assert_eq!(client.next().await, Some(Message::Pong("x".into())));
    client.0.close(None).await.expect("the server reads");
    assert!(
        matches!(client.next().await, Some(Message::Close(_)) | None),
        "the close frame is answered"
    );
    server.stop().await;
}

#[tokio::test]
async fn the_handshake_is_http() {
    let server = serve_ws(Limits::default(), "https://a.example").await;
    let to = server.addresses()[0];
    let upgrade = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13";
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    // The client closes its sending direction, so that an opened WebSocket ends at once.
    let open =
        |origin: &str| format!("GET / HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n{key}\r\n{origin}\r\n");
    let opened = |request: String| async move {
        let mut stream = TcpStream::connect(to).await.expect("the server listens");
        stream
            .write_all(request.as_bytes())
            .await
            .expect("the server reads");
        stream.shutdown().await.expect("the connection is open");
        read_to_end(&mut stream).await
    };
    let response = opened(open("")).await;
    assert_eq!(split(&response).0, 101, "{response}");
    assert!(
        response.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        "{response}"
    );
    let response = opened(open("Origin: https://a.example\r\n")).await;
    assert_eq!(split(&response).0, 101, "{response}");
    for origin in ["https://b.example", "null", "https://a.example.b"] {
        let response = opened(open(&format!("Origin: {origin}\r\n"))).await;
        assert_eq!(split(&response), (403, "origin not allowed\n"), "{origin}");
    }
    let foreign = open("").replace("localhost", "rebound.example");
    assert_eq!(split(&opened(foreign).await), (403, "host not allowed\n"));
    let plain = check_status(to, &bare("GET", "/"), 426).await;
    assert!(
        plain.contains("upgrade: websocket") && plain.contains("WebSockets"),
        "{plain}"
    );
    check_status(to, &bare("GET", "/x"), 404).await;
    check_status(to, &bare("POST", "/"), 426).await;
    let old = upgrade.replace("13", "8");
    check_status(
        to,
        &format!("GET / HTTP/1.1\r\nHost: localhost\r\n{old}\r\n{key}\r\n\r\n"),
        426,
    )
    .await;
    check_status(
        to,
        &format!("GET / HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n\r\n"),
        400,
    )
    .await;
    check_status(to, "NONSENSE\r\n\r\n", 400).await;
    server.stop().await;
}

#[tokio::test]
async fn broken_rules_have_close_codes() {
    let limits = Limits {
        body_len_max: 1000,
        ..Limits::default()
    };
    let server = serve_ws(limits, "").await;
    let to = server.addresses()[0];

    let mut client = WsClient::connect(to).await;
    client.send(&"x".repeat(1001)).await;
    assert_eq!(client.close_frame().await.0, CloseCode::Size);

    let mut client = WsClient::connect(to).await;
    let frame = Frame::message(vec![0xff, 0xfe], OpCode::Data(Data::Text), true);
    client.send_message(Message::Frame(frame)).await;
    assert_eq!(client.close_frame().await.0, CloseCode::Invalid);

    let mut client = WsClient::connect(to).await;
    let frame = Frame::message("x", OpCode::Data(Data::Continue), true);
    client.send_message(Message::Frame(frame)).await;
    assert_eq!(client.close_frame().await.0, CloseCode::Protocol);
    server.stop().await;
}

#[tokio::test]
async fn a_slow_reader_is_closed_with_a_code() {
    let limits = Limits {
        write_timeout: Duration::from_millis(300),
        stop_grace: PATIENCE,
        ..Limits::default()
    };
    let server = serve_ws(limits, "").await;
    let mut client = WsClient::connect(server.addresses()[0]).await;
    // Longer than all buffers between server and client.
    // Longer than all buffers between server and client.
    client.send(&long_call(50_000_000)).await;
    client.answer_begins().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (code, reason) = client.close_frame().await;
    assert_eq!(
        (code, reason.as_str()),
        (CloseCode::Policy, "the client reads too slowly")
    );
}

#[tokio::test]
async fn a_reader_that_never_reads_is_cut_off() {
    let limits = Limits {
        write_timeout: Duration::from_millis(100),
        stop_grace: Duration::from_millis(100),
        connections_max: 1,
        ..Limits::default()
    };
    let server = serve_ws(limits, "").await;
    let to = server.addresses()[0];
    let mut client = WsClient::connect(to).await;
    client.send(&long_call(50_000_000)).await;
    // Another client can connect while this one still holds its side open.
    let begun = Instant::now();
    loop {
        let response = exchange(to, bare("GET", "/").as_bytes()).await;
        match split(&response).0 {
            426 => break,
            status => assert!(status == 503 && begun.elapsed() < PATIENCE, "{response}"),
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn silent_clients_are_pinged_and_then_closed() {
    let limits = Limits {
        idle_timeout: Duration::from_millis(600),
        ..Limits::default()
    };
    let server = serve_ws(limits, "").await;
    let to = server.addresses()[0];
    // This client answers pings while it waits.
    let mut alive = WsClient::connect(to).await;
    assert!(matches!(alive.next().await, Some(Message::Ping(_))));
    // This client does not read, so it answers no ping.
    let mut dead = WsClient::connect(to).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1500) {
        let _ = tokio::time::timeout(Duration::from_millis(50), alive.next()).await;
    }
    assert_eq!(
        alive.ask(CALL).await,
        ANSWER,
        "a client that answers pings stays connected"
    );
    // The connection may be closed before its late answer to a ping. Then the error is the end.
    let end = async {
        while let Some(Ok(message)) = dead.0.next().await {
            assert!(matches!(message, Message::Ping(_)), "{message:?}");
        }
    };
    tokio::time::timeout(PATIENCE, end).await.expect("in time");
}

#[tokio::test]
async fn memory_for_long_messages_is_shared() {
    let limits = Limits {
        traffic_len_max: 1 << 20,
        client_share_percent: 100,
        ..Limits::default()
    };
    let server = serve_ws(limits, "").await;
    let to = server.addresses()[0];
    // A long message whose end never comes.
    let mut greedy = WsClient::connect(to).await;
    let part = Frame::message("x".repeat(800 << 10), OpCode::Data(Data::Text), false);
    greedy.send_message(Message::Frame(part)).await;
    assert_eq!(
        WsClient::connect(to).await.ask(CALL).await,
        ANSWER,
        "short messages need no reserved memory"
    );
    let begun = Instant::now();
    loop {
        let mut second = WsClient::connect(to).await;
        second.send(&format!("{CALL}{}", " ".repeat(512 << 10))).await;
        match second.next().await {
            Some(Message::Close(Some(frame))) => break assert_eq!(frame.code, CloseCode::Again),
            // The server may not have read the first message yet.
            other => assert!(begun.elapsed() < PATIENCE, "{other:?}"),
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn pings_release_no_memory_of_an_unfinished_message() {
    let limits = Limits {
        traffic_len_max: 1 << 20,
        client_share_percent: 100,
        ..Limits::default()
    };
    let server = serve_ws(limits, "").await;
    let mut greedy = WsClient::connect(server.addresses()[0]).await;
    // Each part fits the free piece of a message, and all together do not fit the memory.
    let mut opcode = Data::Text;
    for _ in 0..40 {
        let part = Frame::message(" ".repeat(60 << 10), OpCode::Data(opcode), false);
        opcode = Data::Continue;
        // The server may have closed the connection already.
        let _ = greedy.0.send(Message::Frame(part)).await;
        let _ = greedy.0.send(Message::Ping("x".into())).await;
    }
    assert_eq!(greedy.close_frame().await.0, CloseCode::Again);
}

#[tokio::test]
async fn pings_alone_need_no_memory() {
    let limits = Limits {
        traffic_len_max: 0,
        ..Limits::default()
    };
    let server = serve_ws(limits, "").await;
    let mut client = WsClient::connect(server.addresses()[0]).await;
    // More than the free piece of a message.
    for _ in 0..1000 {
        client.send_message(Message::Ping("x".repeat(100).into())).await;
        assert!(matches!(client.next().await, Some(Message::Pong(_))));
    }
    assert_eq!(client.ask(CALL).await, ANSWER);
}

#[tokio::test]
async fn a_slow_call_delays_no_other() {
    let server = serve_ws(Limits::default(), "").await;
    let mut client = WsClient::connect(server.addresses()[0]).await;
    client.send(&slow_call(2)).await;
    assert_eq!(client.ask(CALL).await, ANSWER, "the fast one first");
    // The server answers pings meanwhile.
    client.send_message(Message::Ping("x".into())).await;
    assert_eq!(client.next().await, Some(Message::Pong("x".into())));
    assert_eq!(client.text().await, slow_answer(2));
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn a_hundred_calls_at_once_are_all_answered() {
    let limits = Limits {
        connection_calls_max: 50,
        blocking_calls_max: 50,
        ..Limits::default()
    };
    let server = serve_ws(limits, "").await;
    let mut client = WsClient::connect(server.addresses()[0]).await;
    let begun = Instant::now();
    for id in 0..100 {
        client.send(&slow_call(id)).await;
    }
    let mut answers = Vec::new();
    for _ in 0..100 {
        answers.push(client.text().await);
    }
    let elapsed = begun.elapsed();
    assert!(
        elapsed >= Duration::from_secs(2),
        "fifty at a time need two seconds: {elapsed:?}"
    );
    let mut expected: Vec<_> = (0..100).map(slow_answer).collect();
    answers.sort();
    expected.sort();
    assert_eq!(answers, expected);
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn long_answers_come_in_parts() {
    let server = serve_ws(Limits::default(), "").await;
    let mut client = WsClient::connect(server.addresses()[0]).await;
    for len in [0, 65_000, 66_000, 5_000_000] {
        let expected = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "x".repeat(len));
        assert!(client.ask(&long_call(len)).await == expected, "{len} bytes");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_idle_client_makes_room() {
    let limits = Limits {
        connections_max: 1,
        ..Limits::default()
    };
    let server = serve_ws(limits, "").await;
    let to = server.addresses()[0];
    let mut first = WsClient::connect(to).await;
    assert_eq!(first.ask(CALL).await, ANSWER);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut second = WsClient::connect(to).await;
    let (code, reason) = first.close_frame().await;
    assert_eq!(
        (code, reason.as_str()),
        (CloseCode::Again, "the idle connection makes room for another")
    );
    second.send(&slow_call(1)).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let refused = exchange(to, bare("GET", "/").as_bytes()).await;
    assert_eq!(split(&refused), (503, "too many connections\n"));
    assert_eq!(second.text().await, slow_answer(1), "a client that waits stays");
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_made_room_does_not_stay() {
    let limits = Limits {
        connections_max: 1,
        stop_grace: Duration::from_secs(3600),
        ..Limits::default()
    };
    let server = serve_ws(limits, "").await;
    let to = server.addresses()[0];
    // This client answers no close frame.
    let mut silent = TcpStream::connect(to).await.expect("the server listens");
    let handshake = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    silent
        .write_all(handshake.as_bytes())
        .await
        .expect("the server reads");
    let mut head = [0; 12];
    silent.read_exact(&mut head).await.expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 101");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut second = WsClient::connect(to).await;
    assert_eq!(second.ask(CALL).await, ANSWER);
    let mut rest = Vec::new();
    let end = tokio::time::timeout(PATIENCE, silent.read_to_end(&mut rest)).await;
    end.expect("the server closes in time").expect("no reset");
}

#[tokio::test]
async fn a_client_that_hangs_up_frees_its_connection() {
    let limits = Limits {
        connections_max: 1,
        blocking_calls_max: 1,
        connection_calls_max: 100,
        ..Limits::default()
    };
    let server = serve_ws(limits, "").await;
    let to = server.addresses()[0];
    for polite in [true, false] {
        let mut client = WsClient::connect(to).await;
        // More than a minute of work, one call at a time.
        for id in 0..100 {
            client.send(&slow_call(id)).await;
        }
        assert!(client.text().await.contains("slow"));
        if polite {
            client.0.close(None).await.expect("the server reads");
        }
        drop(client);
        let begun = Instant::now();
        while split(&exchange(to, bare("GET", "/").as_bytes()).await).0 == 503 {
            assert!(begun.elapsed() < PATIENCE, "polite: {polite}");
        }
        // Calls that had not begun are dropped, so the only thread is free again.
        let mut next = WsClient::connect(to).await;
        next.send(&slow_call(1)).await;
        assert!(next.text().await.contains("slow"));
        next.0.close(None).await.expect("the server reads");
        while next.next().await.is_some() {}
    }
    server.stop().await;
}

#[tokio::test]
async fn stopping_closes_with_a_code() {
    let server = serve_ws(Limits::default(), "").await;
    let to = server.addresses()[0];
    let mut idle = WsClient::connect(to).await;
    assert_eq!(idle.ask(CALL).await, ANSWER);
    let mut busy = WsClient::connect(to).await;
    busy.send(&slow_call(1)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let stopping = tokio::spawn(server.stop());
    assert_eq!(idle.close_frame().await.0, CloseCode::Away);
    assert_eq!(
        busy.text().await,
        slow_answer(1),
        "a running call is answered first"
    );
    assert_eq!(busy.close_frame().await.0, CloseCode::Away);
    drop((idle, busy));
    tokio::time::timeout(PATIENCE, stopping)
        .await
        .expect("in time")
        .expect("no panic");
    TcpListener::bind(to)
        .await
        .expect("the port can be taken at once");
}

#[tokio::test]
async fn both_on_one_port() {
    let server = serve_both("https://a.example", &"net,admin".parse().expect("modules")).await;
    let to = server.addresses()[0];
    let mut client = WsClient::connect(to).await;
    assert_eq!(client.ask(CALL).await, ANSWER);
    // Each has its own modules.
    let secret = r#"{"jsonrpc":"2.0","id":1,"method":"admin_secret"}"#;
    assert!(client.ask(secret).await.contains("secret"));
    let answer = exchange(to, &post(secret)).await;
    assert!(split(&answer).1.contains("-32601"), "{answer}");
    let answer = exchange(to, &post(CALL)).await;
    assert_eq!(split(&answer), (200, ANSWER));
    check_status(to, &bare("GET", "/"), 200).await;
    check_status(to, &bare("GET", "/health"), 200).await;
    let handshake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    for (host, origin) in [
        ("localhost", "Origin: https://b.example\r\n"),
        ("rebound.example", ""),
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n{handshake}\r\n{origin}\r\n");
        check_status(to, &request, 403).await;
    }
    assert_eq!(client.ask(CALL).await, ANSWER);
    server.stop().await;
}
