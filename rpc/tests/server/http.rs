//! The HTTP server: status codes, limits, browsers, stopping. Requests are written in raw bytes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rpc::server::http::{self, HttpOptions};
use rpc::{Limits, Modules};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::server::harness::{
    ANSWER, CALL, PATIENCE, bare, check_status, dispatcher, exchange, long_call, post, read_to_end,
    serve_http, slow_answer, slow_call, split,
};

/// A POST of [`CALL`] in text form, for tests that change its header.
fn post_call() -> String {
    String::from_utf8(post(CALL)).expect("the request is text")
}

/// [`post_call`] without the header that asks the server to close the connection.
fn post_call_and_stay() -> String {
    post_call().replace("Connection: close\r\n", "")
}

/// The error of a call whose answer does not fit into the memory for messages.
const NO_MEMORY: &str = "too many long responses at the same time: ask for less at once, or try again later";

/// Posts each body and compares status and answer.
async fn check(cases: &[(&str, u16, &str)]) {
    let server = serve_http(Limits::default(), "").await;
    for (body, status, answer) in cases {
        let response = exchange(server.addresses()[0], &post(body)).await;
        assert_eq!(split(&response), (*status, *answer), "{body}");
    }
    server.stop().await;
}

#[tokio::test]
async fn methods_and_aliases() {
    check(&[
        (CALL, 200, ANSWER),
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
async fn a_message_without_an_answer_gets_204() {
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

#[tokio::test]
async fn paths_methods_and_content_types() {
    let server = serve_http(Limits::default(), "").await;
    let to = server.addresses()[0];
    let get = check_status(to, &bare("GET", "/"), 200).await;
    assert!(get.contains("JSON-RPC"), "{get}");
    check_status(to, &bare("GET", "/x"), 404).await;
    for (path, allowed) in [
        ("/", "GET, HEAD, OPTIONS, POST"),
        ("/health", "GET, HEAD"),
        ("/ready", "GET, HEAD"),
    ] {
        for method in ["PUT", "DELETE", "PATCH", "TRACE", "X"] {
            let refused = check_status(to, &bare(method, path), 405).await;
            assert!(
                refused.contains(&format!("\r\nallow: {allowed}\r\n")),
                "{refused}"
            );
        }
        let head = check_status(to, &bare("HEAD", path), 200).await;
        assert_eq!(split(&head).1, "", "HEAD has no body");
        let got = check_status(to, &bare("GET", path), 200).await;
        let length = format!("content-length: {}\r\n", split(&got).1.len());
        assert!(head.contains(&length) && got.contains(&length), "{head}");
    }
    let posted = check_status(to, &bare("POST", "/health"), 405).await;
    assert!(posted.contains("\r\nallow: GET, HEAD\r\n"), "{posted}");
    let close = "Host: localhost\r\nConnection: close";
    check_status(
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
        check_status(to, &format!("{head}\r\nContent-Length: 2\r\n\r\n{{}}"), status).await;
    }
    check_status(to, "NONSENSE\r\n\r\n", 400).await;
    server.stop().await;
}

#[tokio::test]
async fn bodies_are_bounded() {
    let limits = Limits {
        body_len_max: 1000,
        ..Limits::default()
    };
    let server = serve_http(limits, "").await;
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
    let padded = |len: usize| format!("{CALL}{}", " ".repeat(len - CALL.len()));
    for (len, status) in [(1000, 200), (1001, 413), (3900, 413), (100_000, 413)] {
        let body = padded(len);
        let response = check_status(to, &sized(&body), status).await;
        assert_eq!(response.ends_with(ANSWER), status == 200, "{response}");
        let response = check_status(to, &chunked(&body), status).await;
        assert_eq!(response.ends_with(ANSWER), status == 200, "{response}");
    }
    // The header alone is enough: no byte of the body is sent.
    check_status(to, &format!("{head}Content-Length: 1000000000000\r\n\r\n"), 413).await;
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
    let server = serve_http(limits, "").await;
    let to = server.addresses()[0];

    // A client that sends a header without end, byte by byte, gets no answer.
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

    // A client that sends nothing gets no answer.
    let begun = Instant::now();
    assert_eq!(exchange(to, b"").await, "");
    assert!(
        begun.elapsed() >= Duration::from_millis(300),
        "{:?}",
        begun.elapsed()
    );

    // A client that sends half a body gets 408.
    let request = post(CALL);
    let response = exchange(to, &request[..request.len() - 5]).await;
    assert_eq!(split(&response).0, 408);

    // An idle connection may stay longer than the header timeout and still be used. The idle
    // timeout ends it.
    let mut stream = TcpStream::connect(to).await.unwrap();
    for _ in 0..2 {
        stream.write_all(post_call_and_stay().as_bytes()).await.unwrap();
        let mut answer = vec![0; 1000];
        let len = stream.read(&mut answer).await.unwrap();
        assert!(String::from_utf8_lossy(&answer[..len]).ends_with(ANSWER));
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    assert_eq!(read_to_end(&mut stream).await, "");
    server.stop().await;
}

#[tokio::test]
async fn connections_are_bounded() {
    let limits = Limits {
        connections_max: 2,
        client_share_percent: 100,
        ..Limits::default()
    };
    let server = serve_http(limits, "").await;
    let to = server.addresses()[0];
    let busy: Vec<_> = (0..2)
        .map(|id| tokio::spawn(async move { exchange(to, &post(&slow_call(id))).await }))
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    loop {
        let response = exchange(to, &post(CALL)).await;
        match split(&response).0 {
            503 => break assert_eq!(split(&response).1, "too many connections\n"),
            _ => assert!(begun.elapsed() < PATIENCE, "the calls do not run: {response}"),
        }
    }
    let health = check_status(to, &bare("GET", "/health"), 200).await;
    assert!(health.contains(r#""head":17"#), "{health}");
    for (id, call) in busy.into_iter().enumerate() {
        assert!(call.await.unwrap().ends_with(&slow_answer(id)));
    }
    let response = exchange(to, &post(CALL)).await;
    assert_eq!(split(&response), (200, ANSWER), "the places are free again");
    server.stop().await;
}

#[tokio::test]
async fn idle_connections_make_room() {
    let limits = Limits {
        connections_max: 8,
        ..Limits::default()
    };
    let server = serve_http(limits, "").await;
    let to = server.addresses()[0];
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(post_call_and_stay().as_bytes()).await.unwrap();
        let mut answer = vec![0; 1000];
        let len = stream.read(&mut answer).await.unwrap();
        assert!(String::from_utf8_lossy(&answer[..len]).ends_with(ANSWER));
        idle.push(stream);
    }
    // A client address has half of the places.
    let last = idle.split_off(16);
    for mut gone in idle {
        assert_eq!(read_to_end(&mut gone).await, "", "the oldest made room");
    }
    for mut stream in last {
        stream.write_all(&post(CALL)).await.unwrap();
        assert!(
            read_to_end(&mut stream).await.ends_with(ANSWER),
            "the last ones stay"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn clients_that_stop_within_a_request_make_room() {
    let limits = Limits {
        connections_max: 2,
        client_share_percent: 100,
        ..Limits::default()
    };
    let server = serve_http(limits, "").await;
    let to = server.addresses()[0];
    let request = post(CALL);
    let mut stopped = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(&request[..request.len() - 5]).await.unwrap();
        stopped.push(stream);
    }
    let begun = Instant::now();
    loop {
        let response = exchange(to, &request).await;
        match split(&response) {
            (200, body) => break assert_eq!(body, ANSWER),
            other => assert!(begun.elapsed() < PATIENCE, "{other:?}"),
        }
    }
    server.stop().await;
    drop(stopped);
}

#[tokio::test]
async fn places_for_health_are_not_held_by_others() {
    let limits = Limits {
        connections_max: 2,
        client_share_percent: 100,
        ..Limits::default()
    };
    let server = serve_http(limits, "").await;
    let to = server.addresses()[0];
    let busy: Vec<_> = (0..2)
        .map(|id| tokio::spawn(async move { exchange(to, &post(&slow_call(id))).await }))
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Far more than there are reserved places, and none of them sends anything.
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(to).await.unwrap());
    }
    let health = check_status(to, &bare("GET", "/health"), 200).await;
    assert!(health.contains(r#""head":17"#), "{health}");
    for call in busy {
        assert_eq!(split(&call.await.unwrap()).0, 200);
    }
    server.stop().await;
    drop(silent);
}

#[tokio::test]
async fn a_slow_reader_is_cut_off_and_its_memory_released() {
    let limits = Limits {
        traffic_len_max: 64 << 20,
        write_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = serve_http(limits, "").await;
    let to = server.addresses()[0];
    // Longer than all buffers between server and client. It fills most of the client's share.
    let mut reader = TcpStream::connect(to).await.unwrap();
    reader.write_all(&post(&long_call(24_000_000))).await.unwrap();
    let long = || async move { exchange(to, &post(&long_call(14_000_000))).await };
    let begun = Instant::now();
    while !long().await.contains("too many long responses at the same time") {
        assert!(begun.elapsed() < PATIENCE, "the first answer is not made");
    }
    let begun = Instant::now();
    while long().await.len() < 14_000_000 {
        assert!(begun.elapsed() < PATIENCE, "the memory is not released");
    }
    let mut read = vec![0; 1 << 20];
    let mut len = 0;
    while let Ok(more @ 1..) = reader.read(&mut read).await {
        len += more;
    }
    assert!(len < 24_000_000, "the reader got all of {len} bytes");
    server.stop().await;
}

#[tokio::test]
async fn requests_follow_each_other_on_one_connection() {
    let server = serve_http(Limits::default(), "").await;
    let (stay, close) = (post_call_and_stay(), post_call());
    let response = exchange(server.addresses()[0], format!("{stay}{stay}{close}").as_bytes()).await;
    assert_eq!(response.matches(ANSWER).count(), 3);

    // A client that closes its sending direction still gets its answer.
    let mut stream = TcpStream::connect(server.addresses()[0]).await.unwrap();
    let slow = post(&slow_call(1));
    stream.write_all(&slow).await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(read_to_end(&mut stream).await.ends_with(&slow_answer(1)));
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
        post_call().replacen(
            "Host: localhost",
            &format!("Host: localhost\r\nOrigin: {origin}"),
            1,
        )
    };
    let allow = |origin: &str| format!("access-control-allow-origin: {origin}\r\n");

    let server = serve_http(Limits::default(), "http://a.example:80, https://b.example").await;
    let to = server.addresses()[0];
    let allowed = check_status(to, &preflight("https://b.example"), 204).await;
    assert!(allowed.contains(&allow("https://b.example")), "{allowed}");
    assert!(
        allowed.contains("access-control-allow-headers: content-type"),
        "{allowed}"
    );
    assert!(allowed.contains("access-control-max-age: 600"), "{allowed}");
    assert!(
        check_status(to, &post("https://b.example"), 200)
            .await
            .contains(&allow("https://b.example"))
    );
    assert!(
        !check_status(to, &preflight("https://c.example"), 403)
            .await
            .contains("allow-origin")
    );
    assert!(
        !check_status(to, &post("https://c.example"), 403)
            .await
            .contains("allow-origin")
    );
    server.stop().await;

    let server = serve_http(Limits::default(), "*").await;
    assert!(
        check_status(server.addresses()[0], &post("null"), 200)
            .await
            .contains(&allow("*"))
    );
    server.stop().await;

    let server = serve_http(Limits::default(), "").await;
    assert!(
        !check_status(server.addresses()[0], &preflight("https://b.example"), 403)
            .await
            .contains("allow-origin")
    );
    assert!(
        !check_status(server.addresses()[0], &post("https://b.example"), 200)
            .await
            .contains("allow-origin")
    );
    server.stop().await;
}

#[tokio::test]
async fn stopping_lets_requests_finish() {
    let server = serve_http(Limits::default(), "").await;
    let to = server.addresses()[0];
    let idle = TcpStream::connect(to).await.unwrap();
    let slow = post(&slow_call(1));
    let under_way = tokio::spawn(async move { exchange(to, &slow).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    server.stop().await;
    assert!(
        begun.elapsed() < Duration::from_millis(1500),
        "stopped in {:?}",
        begun.elapsed()
    );
    assert!(under_way.await.unwrap().ends_with(&slow_answer(1)));
    drop(idle);
    assert!(TcpStream::connect(to).await.is_err(), "nobody listens any more");
    TcpListener::bind(to)
        .await
        .expect("the port can be taken at once");
}

#[tokio::test]
async fn stopping_waits_no_longer_than_the_grace() {
    let limits = Limits {
        stop_grace: Duration::from_millis(50),
        ..Limits::default()
    };
    let server = serve_http(limits, "").await;
    let to = server.addresses()[0];
    let slow = post(&slow_call(1));
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
        assert_eq!(split(&exchange(*address, &post(CALL)).await), (200, ANSWER));
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
async fn only_allowed_host_names_are_served() {
    let server = serve_http(Limits::default(), "").await;
    let to = server.addresses()[0];
    let request = |host: &str| post_call().replacen("Host: localhost", &format!("Host: {host}"), 1);
    for host in [
        "localhost",
        "localhost:8545",
        "127.0.0.1",
        "192.0.2.7:8545",
        "[::1]:1",
    ] {
        check_status(to, &request(host), 200).await;
    }
    for host in [
        "evil.example",
        "evil.example:8545",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
    ] {
        let refused = check_status(to, &request(host), 403).await;
        assert!(refused.ends_with("host not allowed\n"), "{refused}");
        for path in ["/", "/health", "/ready"] {
            let get = bare("GET", path).replacen("localhost", host, 1);
            check_status(to, &get, 403).await;
        }
    }
    // HTTP/1.0 has no Host header.
    let old = request("x")
        .replacen("Host: x\r\n", "", 1)
        .replacen("HTTP/1.1", "HTTP/1.0", 1);
    check_status(to, &old, 200).await;
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
    check_status(server.addresses()[0], &request("node.example:80"), 200).await;
    check_status(server.addresses()[0], &request("localhost"), 403).await;
    server.stop().await;
}

#[tokio::test]
async fn health() {
    let server = serve_http(Limits::default(), "").await;
    let to = server.addresses()[0];
    let health = check_status(to, &bare("GET", "/health"), 200).await;
    assert!(health.contains("content-type: application/json"), "{health}");
    assert_eq!(
        split(&health).1,
        r#"{"head":17,"age":3,"peers":26,"syncing":false}"#
    );
    check_status(to, &bare("GET", "/health/x"), 404).await;
    let ready = check_status(to, &bare("GET", "/ready"), 200).await;
    assert_eq!(
        split(&ready).1,
        r#"{"ready":true,"head":17,"age":3,"peers":26,"syncing":false}"#
    );
    server.stop().await;
    let limits = Limits {
        ready_age_max: Duration::from_secs(2),
        ..Limits::default()
    };
    let server = serve_http(limits, "").await;
    let to = server.addresses()[0];
    let late = check_status(to, &bare("GET", "/ready"), 503).await;
    let reason = "the head is old: got 3 seconds, expected at most 2";
    assert!(
        late.contains(&format!(r#"{{"ready":false,"reason":"{reason}","head":17"#)),
        "{late}"
    );
    check_status(to, &bare("HEAD", "/ready"), 503).await;
    check_status(to, &bare("GET", "/health"), 200).await;
    server.stop().await;
}

/// Sends a request. Returns the head and the bytes of the body.
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
async fn long_answers_are_compressed_for_clients_that_accept_it() {
    let server = serve_http(Limits::default(), "").await;
    let to = server.addresses()[0];
    let request = |len: usize, encodings: &str| {
        let request = String::from_utf8(post(&long_call(len))).unwrap();
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
async fn an_answer_counts_with_its_full_length_until_it_is_compressed() {
    let limits = Limits {
        traffic_len_max: 1 << 20,
        ..Limits::default()
    };
    let server = serve_http(limits, "").await;
    let to = server.addresses()[0];
    let request = |len: usize| {
        let request = String::from_utf8(post(&long_call(len))).unwrap();
        request.replacen("Host:", "Accept-Encoding: gzip\r\nHost:", 1)
    };
    // Compressed it has some hundred bytes, but the full text is in memory first.
    let (head, body) = fetch(to, &request(1_200_000)).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let body = String::from_utf8_lossy(&body).into_owned();
    assert!(body.contains(NO_MEMORY), "{body}");
    let (head, _) = fetch(to, &request(300_000)).await;
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("content-encoding: gzip"),
        "{head}"
    );
    server.stop().await;
}

#[tokio::test]
async fn sessions_need_another_transport() {
    check(&[(
        r#"{"jsonrpc":"2.0","id":1,"method":"mc_subscriptions"}"#,
        200,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"notifications not supported"}}"#,
    )])
    .await;
}

#[tokio::test]
async fn memory_for_long_messages_is_shared() {
    let limits = Limits {
        traffic_len_max: 1 << 20,
        client_share_percent: 100,
        ..Limits::default()
    };
    let server = serve_http(limits, "").await;
    let to = server.addresses()[0];
    let begun = Instant::now();
    let head =
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2000000";
    let unfinished = format!("{head}\r\n\r\n{}", " ".repeat(800 << 10));
    let long = format!("{CALL}{}", " ".repeat(512 << 10));
    let greedy = loop {
        // More than half of a long request. The rest is never sent.
        let mut greedy = TcpStream::connect(to).await.unwrap();
        greedy.write_all(unfinished.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let response = exchange(to, &post(&long)).await;
        match split(&response) {
            (503, body) => {
                assert_eq!(body, "too many long requests at the same time\n");
                break greedy;
            }
            // If the server had not read the first request yet, it may refuse the first one
            // instead.
            other => assert!(begun.elapsed() < PATIENCE, "{other:?}"),
        }
    };
    let response = exchange(to, &post(CALL)).await;
    assert_eq!(
        split(&response),
        (200, ANSWER),
        "short requests need no reserved memory"
    );
    let response = exchange(to, &post(&long_call(800_000))).await;
    let (status, body) = split(&response);
    assert!(status == 200 && body.contains(NO_MEMORY), "{response}");
    drop(greedy);
    loop {
        let response = exchange(to, &post(&long)).await;
        match split(&response).0 {
            200 => break,
            status => assert!(
                status == 503 && begun.elapsed() < PATIENCE,
                "the memory is not released"
            ),
        }
    }
    server.stop().await;
}
