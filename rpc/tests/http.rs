//! The HTTP server over real sockets, in raw bytes.

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rpc::server::http::{self, HttpOptions};
use rpc::{Limits, Modules};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use common::{PATIENCE, dispatcher, exchange, post, read_to_end, serve, split};

const VERSION_CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"net_version","params":[]}"#;
const VERSION_ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":"100"}"#;

/// Posts each body and compares status and answer.
async fn check(cases: &[(&str, u16, &str)]) {
    let server = serve(Limits::default(), "").await;
    for (body, status, answer) in cases {
        let response = exchange(server.addresses()[0], &post(body)).await;
        assert_eq!(split(&response), (*status, *answer), "{body}");
    }
    server.stop().await;
}

#[tokio::test]
async fn methods_and_aliases() {
    check(&[
        (VERSION_CALL, 200, VERSION_ANSWER),
        (
            r#"{"jsonrpc":"2.0","id":"a","method":"chain3_clientVersion"}"#,
            200,
            r#"{"jsonrpc":"2.0","id":"a","result":"Test/v1.2.3/linux-x86_64/rustc1.95"}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":64,"method":"web3_sha3","params":["0x68656c6c6f20776f726c64"]}"#,
            200,
            r#"{"jsonrpc":"2.0","id":64,"result":"0x47173285a8d7341e5e972fc677286384f802f8ef42a5ec5f03bbfa254cb01fad"}"#,
        ),
        (r#"{"jsonrpc":"2.0","id":2,"method":"net_peerCount"}"#, 200, r#"{"jsonrpc":"2.0","id":2,"result":"0x1a"}"#),
        (r#"{"jsonrpc":"2.0","id":3,"method":"net_listening"}"#, 200, r#"{"jsonrpc":"2.0","id":3,"result":true}"#),
        (
            r#"{"jsonrpc":"2.0","id":4,"method":"rpc_modules"}"#,
            200,
            r#"{"jsonrpc":"2.0","id":4,"result":{"chain3":"1.0","mc":"1.0","net":"1.0","rpc":"1.0"}}"#,
        ),
        (r#"{"jsonrpc":"2.0","id":5,"method":"eth_slow"}"#, 200, r#"{"jsonrpc":"2.0","id":5,"result":"slow"}"#),
    ])
    .await;
}

#[tokio::test]
async fn nothing_to_answer_is_204() {
    let notification = r#"{"jsonrpc":"2.0","method":"net_version"}"#;
    check(&[
        (notification, 204, ""),
        (&format!("[{notification}]"), 204, ""),
        (
            "",
            200,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error: empty body"}}"#,
        ),
        (
            "{\"a\":",
            200,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error: EOF while parsing a value at line 1 column 5"}}"#,
        ),
    ])
    .await;
}

/// Sends raw bytes and compares the status.
async fn check_raw(address: SocketAddr, request: &str, status: u16) -> String {
    let response = exchange(address, request.as_bytes()).await;
    assert_eq!(split(&response).0, status, "{request}\n{response}");
    response
}

#[tokio::test]
async fn http_itself_refuses() {
    let server = serve(Limits::default(), "").await;
    let to = server.addresses()[0];
    let close = "Host: localhost\r\nConnection: close";
    let get = check_raw(to, &format!("GET / HTTP/1.1\r\n{close}\r\n\r\n"), 200).await;
    assert!(get.contains("JSON-RPC"), "{get}");
    check_raw(to, &format!("GET /x HTTP/1.1\r\n{close}\r\n\r\n"), 404).await;
    for (path, allowed) in [("/", "GET, HEAD, OPTIONS, POST"), ("/health", "GET, HEAD")] {
        for method in ["PUT", "DELETE", "PATCH", "TRACE", "X"] {
            let request = format!("{method} {path} HTTP/1.1\r\n{close}\r\nContent-Length: 0\r\n\r\n");
            let refused = check_raw(to, &request, 405).await;
            assert!(
                refused.contains(&format!("\r\nallow: {allowed}\r\n")),
                "{refused}"
            );
        }
        let head = check_raw(to, &format!("HEAD {path} HTTP/1.1\r\n{close}\r\n\r\n"), 200).await;
        assert_eq!(split(&head).1, "", "no body");
        let got = check_raw(to, &format!("GET {path} HTTP/1.1\r\n{close}\r\n\r\n"), 200).await;
        let length = format!("content-length: {}\r\n", split(&got).1.len());
        assert!(head.contains(&length) && got.contains(&length), "{head}");
    }
    let posted = check_raw(
        to,
        &format!("POST /health HTTP/1.1\r\n{close}\r\nContent-Length: 0\r\n\r\n"),
        405,
    )
    .await;
    assert!(posted.contains("\r\nallow: GET, HEAD\r\n"), "{posted}");
    check_raw(
        to,
        &format!("POST / HTTP/1.1\r\n{close}\r\nContent-Length: 2\r\n\r\n{{}}"),
        415,
    )
    .await;
    for (content_type, status) in [
        ("application/x-www-form-urlencoded", 415),
        ("text/plain", 415),
        ("application/jsonx", 415),
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
    ] {
        let head = format!("POST / HTTP/1.1\r\n{close}\r\nContent-Type: {content_type}");
        check_raw(to, &format!("{head}\r\nContent-Length: 2\r\n\r\n{{}}"), status).await;
    }
    check_raw(to, "NONSENSE\r\n\r\n", 400).await;
    server.stop().await;
}

#[tokio::test]
async fn bodies_are_bounded() {
    let server = serve(
        Limits {
            body_len_max: 1000,
            ..Limits::default()
        },
        "",
    )
    .await;
    let to = server.addresses()[0];
    let head =
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let chunked = |body: &str| {
        let chunks: String = body
            .as_bytes()
            .chunks(300)
            .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)))
            .collect();
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
    };
    let sized = |body: &str| format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let padded = |len: usize| format!("{VERSION_CALL}{}", " ".repeat(len - VERSION_CALL.len()));
    for (len, status) in [(1000, 200), (1001, 413), (3900, 413), (100_000, 413)] {
        let body = padded(len);
        let response = check_raw(to, &sized(&body), status).await;
        assert_eq!(response.ends_with(VERSION_ANSWER), status == 200, "{response}");
        let response = check_raw(to, &chunked(&body), status).await;
        assert_eq!(response.ends_with(VERSION_ANSWER), status == 200, "{response}");
    }
    // The length alone is enough, before a byte of the body.
    check_raw(to, &format!("{head}Content-Length: 1000000000000\r\n\r\n"), 413).await;
    server.stop().await;
}

#[tokio::test]
async fn slow_clients_are_cut_off() {
    let limits = Limits {
        header_timeout: Duration::from_millis(300),
        body_timeout: Duration::from_millis(300),
        idle_timeout: Duration::from_millis(1500),
        ..Limits::default()
    };
    let server = serve(limits, "").await;
    let to = server.addresses()[0];

    // A header that never ends, a byte at a time: no answer.
    let mut stream = TcpStream::connect(to).await.unwrap();
    let begun = Instant::now();
    let mut sent = 0;
    while begun.elapsed() < PATIENCE && stream.write_all(b"P").await.is_ok() {
        sent += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(
        sent >= 3 && begun.elapsed() < Duration::from_secs(5),
        "cut off after {:?}",
        begun.elapsed()
    );

    // Nothing at all.
    let begun = Instant::now();
    assert_eq!(exchange(to, b"").await, "");
    assert!(
        begun.elapsed() >= Duration::from_millis(300),
        "{:?}",
        begun.elapsed()
    );

    // Half a body: 408.
    let request = post(VERSION_CALL);
    let response = exchange(to, &request[..request.len() - 5]).await;
    assert_eq!(split(&response).0, 408);

    // An idle connection outlives the header time-out, then ends; in between it still serves.
    let mut stream = TcpStream::connect(to).await.unwrap();
    let request = String::from_utf8(request)
        .unwrap()
        .replace("Connection: close\r\n", "");
    for _ in 0..2 {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = vec![0; 1000];
        let len = stream.read(&mut answer).await.unwrap();
        assert!(String::from_utf8_lossy(&answer[..len]).ends_with(VERSION_ANSWER));
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    assert_eq!(read_to_end(&mut stream).await, "");
    server.stop().await;
}

#[tokio::test]
async fn connections_are_bounded() {
    let server = serve(
        Limits {
            connections_max: 2,
            ..Limits::default()
        },
        "",
    )
    .await;
    let to = server.addresses()[0];
    let first = TcpStream::connect(to).await.unwrap();
    let _second = TcpStream::connect(to).await.unwrap();
    let response = exchange(to, &post(VERSION_CALL)).await;
    assert_eq!(split(&response), (503, "too many connections\n"));
    drop(first);
    let begun = Instant::now();
    loop {
        let response = exchange(to, &post(VERSION_CALL)).await;
        match split(&response) {
            (200, body) => break assert_eq!(body, VERSION_ANSWER),
            other => assert!(
                begun.elapsed() < PATIENCE,
                "the place is not given back: {other:?}"
            ),
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn requests_follow_each_other_on_one_connection() {
    let server = serve(Limits::default(), "").await;
    let request = String::from_utf8(post(VERSION_CALL)).unwrap();
    let kept = request.replace("Connection: close\r\n", "");
    let response = exchange(server.addresses()[0], format!("{kept}{kept}{request}").as_bytes()).await;
    assert_eq!(response.matches(VERSION_ANSWER).count(), 3);

    // A client that closes its side after sending still reads its answer.
    let mut stream = TcpStream::connect(server.addresses()[0]).await.unwrap();
    let slow = post(r#"{"jsonrpc":"2.0","id":1,"method":"mc_slow"}"#);
    stream.write_all(&slow).await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(read_to_end(&mut stream).await.ends_with(r#""result":"slow"}"#));
    server.stop().await;
}

#[tokio::test]
async fn browsers() {
    let preflight = |origin: &str| {
        format!(
            "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nOrigin: {origin}\r\n\
             Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n\r\n"
        )
    };
    let post = |origin: &str| {
        let request = String::from_utf8(post(VERSION_CALL)).unwrap();
        request.replacen(
            "Host: localhost",
            &format!("Host: localhost\r\nOrigin: {origin}"),
            1,
        )
    };
    let allow = |origin: &str| format!("access-control-allow-origin: {origin}\r\n");

    let server = serve(Limits::default(), "http://a.example:80, https://b.example").await;
    let to = server.addresses()[0];
    let asked = check_raw(to, &preflight("https://b.example"), 204).await;
    assert!(asked.contains(&allow("https://b.example")), "{asked}");
    assert!(
        asked.contains("access-control-allow-headers: content-type"),
        "{asked}"
    );
    assert!(asked.contains("access-control-max-age: 600"), "{asked}");
    assert!(
        check_raw(to, &post("https://b.example"), 200)
            .await
            .contains(&allow("https://b.example"))
    );
    assert!(
        !check_raw(to, &preflight("https://c.example"), 403)
            .await
            .contains("allow-origin")
    );
    assert!(
        !check_raw(to, &post("https://c.example"), 403)
            .await
            .contains("allow-origin")
    );
    server.stop().await;

    let server = serve(Limits::default(), "*").await;
    assert!(
        check_raw(server.addresses()[0], &post("null"), 200)
            .await
            .contains(&allow("*"))
    );
    server.stop().await;

    let server = serve(Limits::default(), "").await;
    assert!(
        !check_raw(server.addresses()[0], &preflight("https://b.example"), 403)
            .await
            .contains("allow-origin")
    );
    assert!(
        !check_raw(server.addresses()[0], &post("https://b.example"), 200)
            .await
            .contains("allow-origin")
    );
    server.stop().await;
}

#[tokio::test]
async fn stopping_lets_requests_finish() {
    let server = serve(Limits::default(), "").await;
    let to = server.addresses()[0];
    let idle = TcpStream::connect(to).await.unwrap();
    let slow = post(r#"{"jsonrpc":"2.0","id":1,"method":"mc_slow"}"#);
    let under_way = tokio::spawn(async move { exchange(to, &slow).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    server.stop().await;
    assert!(
        begun.elapsed() < Duration::from_millis(1500),
        "stopped in {:?}",
        begun.elapsed()
    );
    assert!(under_way.await.unwrap().ends_with(r#""result":"slow"}"#));
    drop(idle);
    assert!(TcpStream::connect(to).await.is_err(), "the port is free");
    TcpListener::bind(to)
        .await
        .expect("the port can be taken at once");
}

#[tokio::test]
async fn stopping_does_not_wait_for_ever() {
    let limits = Limits {
        stop_grace: Duration::from_millis(50),
        ..Limits::default()
    };
    let server = serve(limits, "").await;
    let to = server.addresses()[0];
    let slow = post(r#"{"jsonrpc":"2.0","id":1,"method":"mc_slow"}"#);
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(&slow).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let begun = Instant::now();
    server.stop().await;
    assert!(
        begun.elapsed() < Duration::from_millis(200),
        "stopped in {:?}",
        begun.elapsed()
    );
    assert_eq!(read_to_end(&mut stream).await, "");
}

#[tokio::test]
async fn addresses() {
    let local = HttpOptions {
        port: 0,
        ..HttpOptions::default()
    };
    let server = http::start(dispatcher(Limits::default(), &Modules::all()), &local)
        .await
        .unwrap();
    let first = server.addresses()[0];
    assert_eq!(first.ip().to_string(), "127.0.0.1");
    assert_ne!(first.port(), 0);
    for address in server.addresses() {
        assert_eq!(address.port(), first.port());
        assert_eq!(
            split(&exchange(*address, &post(VERSION_CALL)).await),
            (200, VERSION_ANSWER)
        );
    }

    let taken = HttpOptions {
        port: first.port(),
        ..HttpOptions::default()
    };
    let refused = http::start(dispatcher(Limits::default(), &Modules::all()), &taken).await;
    let message = refused.err().expect("the port is taken").to_string();
    let expected = format!("cannot listen on 127.0.0.1:{}: ", first.port());
    assert!(message.starts_with(&expected), "{message}");

    let nowhere = HttpOptions {
        host: "203.0.113.1".to_owned(),
        ..taken
    };
    let refused = http::start(dispatcher(Limits::default(), &Modules::all()), &nowhere).await;
    assert!(
        refused
            .err()
            .expect("not our address")
            .to_string()
            .contains("203.0.113.1")
    );
    server.stop().await;
}

#[tokio::test]
async fn only_known_names_are_spoken_to() {
    let server = serve(Limits::default(), "").await;
    let to = server.addresses()[0];
    let request = |host: &str| {
        let request = String::from_utf8(post(VERSION_CALL)).unwrap();
        request.replacen("Host: localhost", &format!("Host: {host}"), 1)
    };
    for host in [
        "localhost",
        "localhost:8545",
        "127.0.0.1",
        "192.0.2.7:8545",
        "[::1]:1",
    ] {
        check_raw(to, &request(host), 200).await;
    }
    for host in [
        "evil.example",
        "evil.example:8545",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
    ] {
        let refused = check_raw(to, &request(host), 403).await;
        assert!(refused.ends_with("host not allowed\n"), "{refused}");
        for path in ["/", "/health"] {
            let get = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            check_raw(to, &get, 403).await;
        }
    }
    // HTTP/1.0 knows no names.
    let old = request("x")
        .replacen("Host: x\r\n", "", 1)
        .replacen("HTTP/1.1", "HTTP/1.0", 1);
    check_raw(to, &old, 200).await;
    server.stop().await;

    let options = HttpOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        hosts: "node.example".parse().unwrap(),
        ..HttpOptions::default()
    };
    let server = http::start(dispatcher(Limits::default(), &Modules::default()), &options)
        .await
        .unwrap();
    check_raw(server.addresses()[0], &request("node.example:80"), 200).await;
    check_raw(server.addresses()[0], &request("localhost"), 403).await;
    server.stop().await;
}

#[tokio::test]
async fn health_is_told() {
    let server = serve(Limits::default(), "").await;
    let to = server.addresses()[0];
    let close = "Host: localhost\r\nConnection: close";
    let health = check_raw(to, &format!("GET /health HTTP/1.1\r\n{close}\r\n\r\n"), 200).await;
    assert!(health.contains("content-type: application/json"), "{health}");
    assert_eq!(
        split(&health).1,
        r#"{"head":17,"age":3,"peers":26,"syncing":false}"#
    );
    check_raw(to, &format!("GET /health/x HTTP/1.1\r\n{close}\r\n\r\n"), 404).await;
    server.stop().await;
}

/// Sends a request and gives the head and the bytes of the body.
async fn fetch(to: SocketAddr, request: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    (
        String::from_utf8(answer[..end].to_vec()).unwrap(),
        answer[end + 4..].to_vec(),
    )
}

#[tokio::test]
async fn long_answers_are_compressed_for_those_who_take_it() {
    let server = serve(Limits::default(), "").await;
    let to = server.addresses()[0];
    let request = |len: usize, encodings: &str| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"mc_long","params":[{len}]}}"#);
        let request = String::from_utf8(post(&body)).unwrap();
        request.replacen("Host:", &format!("Accept-Encoding: {encodings}\r\nHost:"), 1)
    };
    let answer = |len| format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "x".repeat(len));
    for len in [2000, 300_000] {
        let (head, body) = fetch(to, &request(len, "deflate, gzip")).await;
        assert!(
            head.contains("content-encoding: gzip") && head.contains("vary: accept-encoding"),
            "{head}"
        );
        assert!(body.len() < len / 10, "{} bytes", body.len());
        let mut plain = String::new();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(body.as_slice()), &mut plain)
            .unwrap();
        assert_eq!(plain, answer(len));
    }
    for (len, encodings) in [(100, "gzip"), (2000, "identity"), (2000, "gzip;q=0, br")] {
        let (head, body) = fetch(to, &request(len, encodings)).await;
        assert!(!head.contains("content-encoding"), "{head}");
        assert_eq!(body, answer(len).as_bytes());
    }
    server.stop().await;
}

#[tokio::test]
async fn answers_need_room_before_they_are_compressed() {
    let limits = Limits {
        traffic_len_max: 100 * 1024,
        ..Limits::default()
    };
    let server = serve(limits, "").await;
    let to = server.addresses()[0];
    let request = |len: usize| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"mc_long","params":[{len}]}}"#);
        let request = String::from_utf8(post(&body)).unwrap();
        request.replacen("Host:", "Accept-Encoding: gzip\r\nHost:", 1)
    };
    // Some hundred bytes in the end, but all of it lies in memory first.
    let (head, body) = fetch(to, &request(200_000)).await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert_eq!(body, b"too many long responses at the same time\n");
    let (head, _) = fetch(to, &request(90_000)).await;
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("content-encoding: gzip"),
        "{head}"
    );
    server.stop().await;
}

#[tokio::test]
async fn subscriptions_need_another_transport() {
    check(&[(
        r#"{"jsonrpc":"2.0","id":1,"method":"mc_session"}"#,
        200,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"notifications not supported"}}"#,
    )])
    .await;
}

#[tokio::test]
async fn memory_for_long_messages_is_shared() {
    let limits = Limits {
        traffic_len_max: 1 << 20,
        ..Limits::default()
    };
    let server = serve(limits, "").await;
    let to = server.addresses()[0];
    let begun = Instant::now();
    let head =
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2000000";
    let beginning = format!("{head}\r\n\r\n{}", " ".repeat(1 << 20));
    let long = format!("{VERSION_CALL}{}", " ".repeat(512 << 10));
    let greedy = loop {
        // Nearly all of a long request, and no end.
        let mut greedy = TcpStream::connect(to).await.unwrap();
        greedy.write_all(beginning.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let response = exchange(to, &post(&long)).await;
        match split(&response) {
            (503, body) => {
                assert_eq!(body, "too many long requests at the same time\n");
                break greedy;
            }
            // The first was not read in time, and may have been refused instead.
            other => assert!(begun.elapsed() < PATIENCE, "{other:?}"),
        }
    };
    let response = exchange(to, &post(VERSION_CALL)).await;
    assert_eq!(
        split(&response),
        (200, VERSION_ANSWER),
        "short ones need none of it"
    );
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"mc_long","params":[800000]}"#;
    let response = exchange(to, &post(call)).await;
    assert_eq!(
        split(&response),
        (503, "too many long responses at the same time\n")
    );
    drop(greedy);
    loop {
        let response = exchange(to, &post(&long)).await;
        match split(&response).0 {
            200 => break,
            status => assert!(
                status == 503 && begun.elapsed() < PATIENCE,
                "the room is not given back"
            ),
        }
    }
    server.stop().await;
}
