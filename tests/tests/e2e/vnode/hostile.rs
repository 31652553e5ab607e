//! Careless and hostile clients: the memory of the node stays bounded, and other clients are
//! served.
//!
//! With `HOSTILE_LOAD=full` the test uses the load that the project promises to handle. Without it
//! the load is smaller. The test prints its figures in both cases.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use e2e::http::TestHttpClient;
use e2e::wait::SOCKET_PATIENCE;
use e2e::ws::WsClient;
use e2e::{Caller, Vnode, note};
use serde_json::{Value, json};

/// Most memory that the whole test may add to that of a node with a few calls, in bytes. Long
/// requests and responses are not included, because they have a limit of their own.
const GROWTH_MAX: usize = 256 << 20;

/// `full` if `HOSTILE_LOAD=full` is set, otherwise `reduced`.
pub(crate) fn scaled(full: usize, reduced: usize) -> usize {
    if std::env::var("HOSTILE_LOAD").is_ok_and(|load| load == "full") {
        full
    } else {
        reduced
    }
}

/// A node and its memory use, in bytes.
struct WatchedNode {
    node: Vnode,
    first: usize,
    most: usize,
}

impl WatchedNode {
    /// Checks that good clients are served now, on an existing and on a new connection, and that
    /// the memory is bounded. `after` names what happened before.
    #[track_caller]
    fn check(&mut self, after: &str) {
        let started = Instant::now();
        self.node.rpc("mc_blockNumber", json!([]));
        let fresh = Caller::new(self.node.addresses()[0]);
        assert_eq!(fresh.rpc("net_version", json!([])), json!("100"), "after {after}");
        let took = started.elapsed();
        let now = self.node.memory();
        self.most = self.most.max(now);
        let (now, first) = (now >> 10, self.first >> 10);
        note(&format!(
            "{after}: {now} KiB resident, {first} at first; two good calls in {took:?}"
        ));
        let grown = self.most.saturating_sub(self.first);
        assert!(
            grown < GROWTH_MAX,
            "after {after}: got {grown} bytes more than at first, expected less than {GROWTH_MAX}"
        );
    }
}

/// Pseudo-random bytes.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(byte).take(len).collect()
}

/// A connection that does not wait for ever.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the node listens");
    stream.set_read_timeout(Some(SOCKET_PATIENCE)).expect("a timeout");
    stream
        .set_write_timeout(Some(SOCKET_PATIENCE))
        .expect("a timeout");
    stream
}

/// Sends `bytes` as far as the node reads them. Returns everything that the node answers.
fn send_and_read(stream: &mut (impl Read + Write), bytes: &[u8]) -> Vec<u8> {
    // The node may close the connection before the end. Its answer can still be read then.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn hostile_clients_do_not_harm_the_node() {
    let node = Vnode::dev([
        "--mine",
        "--minerthreads",
        "1",
        "--ws",
        "--wsport",
        "0",
        "--rpc.headertimeout",
        "5",
    ]);
    node.wait_for_head(1);
    let (http, ws) = (node.addresses()[0], node.ws_address());
    let first = node.memory();
    let mut watched = WatchedNode {
        node,
        first,
        most: first,
    };
    watched.check("the start");

    create_filters(&watched.node, scaled(10_000, 10_000));
    watched.check("idle filters");

    let subscribers = subscribe(ws, scaled(1000, 200));
    let head = watched.node.head();
    watched.node.wait_for_head(head + 3);
    watched.check("subscriptions that nobody reads");
    drop(subscribers);

    let slow: Vec<_> = (0..scaled(1000, 200))
        .map(|_| {
            let mut stream = connect(http);
            stream
                .write_all(b"POST / HTTP/1.1\r\nHo")
                .expect("the node reads");
            stream
        })
        .collect();
    watched.check("connections that send no whole header");
    drop(slow);

    let slow: Vec<_> = (0..scaled(300, 50))
        .map(|_| {
            let mut stream = connect(http);
            let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5000000";
            write!(stream, "{head}\r\n\r\n[").expect("the node reads");
            stream
        })
        .collect();
    watched.check("connections that send no whole body");
    drop(slow);

    for seed in 0..scaled(500, 100) as u64 {
        let bytes = noise(2000, seed);
        send_and_read(&mut connect(http), &bytes);
        send_and_read(&mut connect(ws), &bytes);
        let mut socket = UnixStream::connect(watched.node.socket()).expect("the node listens");
        socket.set_read_timeout(Some(SOCKET_PATIENCE)).expect("a timeout");
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let _ = socket.read_to_end(&mut Vec::new());
    }
    watched.check("garbage");

    let not_reading = call_without_reading(&watched.node.socket(), scaled(60, 30));
    watched.check("connections that ask and do not read");
    drop(not_reading);

    send_long_bodies(http);
    watched.check("bodies of 100 MB");

    send_endless_header(http);
    watched.check("an endless header");

    send_tiny_members(http, ws);
    watched.check("batches of a million members");
    note(&format!(
        "at most {} KiB resident, {} at first",
        watched.most >> 10,
        watched.first >> 10
    ));
}

/// Creates filters in batches.
fn create_filters(node: &Vnode, count: usize) {
    const BATCH: usize = 1000;
    let address = node.addresses()[0];
    let mut http = TestHttpClient::new(address);
    let filter = json!({ "address": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8", "topics": [null, []] });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "mc_newFilter", "params": [filter] }).to_string();
    for _ in 0..count / BATCH {
        let answer = http
            .post(&format!("[{}]", vec![call.as_str(); BATCH].join(",")))
            .expect("an answer");
        assert_eq!(answer.body.matches("\"result\":\"0x").count(), BATCH);
    }
}

/// Subscribes to heads many times. Nobody reads the connections afterwards.
fn subscribe(ws: SocketAddr, count: usize) -> Vec<WsClient> {
    const EACH: usize = 100;
    let subscribed = (0..count / EACH).map(|_| {
        let mut client = WsClient::connect(ws, None).expect("a WebSocket");
        for _ in 0..EACH {
            client.rpc("mc_subscribe", json!(["newHeads"]));
        }
        client
    });
    subscribed.collect()
}

/// Opens connections that call methods with long, short and slow answers, as long as the node
/// reads, and that read no answer.
fn call_without_reading(socket: &Path, count: usize) -> Vec<UnixStream> {
    const REQUESTS_MAX: usize = 10_000;
    let calls = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "mc_estimateGas", "params": [{ "data": "0x5b600056" }] }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "rpc.discover" }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "debug_dumpBlock", "params": ["latest"] }),
        json!({ "jsonrpc": "2.0", "id": 4, "method": "mc_subscribe", "params": ["newHeads"] }),
    ];
    let calls: String = calls.iter().map(Value::to_string).collect();
    let connections = (0..count).map(|_| {
        let mut stream = UnixStream::connect(socket).expect("the node listens");
        stream
            .set_write_timeout(Some(Duration::from_millis(200)))
            .expect("a timeout");
        let sent = (0..REQUESTS_MAX)
            .take_while(|_| stream.write_all(calls.as_bytes()).is_ok())
            .count();
        assert!(sent < REQUESTS_MAX, "the node read everything");
        stream
    });
    connections.collect()
}

/// Sends bodies that are far too long, with and without a length in the header.
fn send_long_bodies(http: SocketAddr) {
    const LEN: usize = 100_000_000;
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let mut stream = connect(http);
    let answer = send_and_read(
        &mut stream,
        format!("{head}Content-Length: {LEN}\r\n\r\n").as_bytes(),
    );
    assert!(
        answer.starts_with(b"HTTP/1.1 413 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );

    let mut stream = connect(http);
    stream
        .write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes())
        .expect("the node reads");
    let piece = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
    let mut sent = 0;
    while sent < LEN && stream.write_all(piece.as_bytes()).is_ok() {
        sent += 1 << 20;
    }
    assert!(sent < LEN, "the node read everything");
}

/// Sends header lines without end.
fn send_endless_header(http: SocketAddr) {
    const LEN_MAX: usize = 100_000_000;
    let mut stream = connect(http);
    stream.write_all(b"POST / HTTP/1.1\r\n").expect("the node reads");
    let line = format!("X-Nothing: {}\r\n", "x".repeat(1000));
    let mut sent = 0;
    while sent < LEN_MAX && stream.write_all(line.as_bytes()).is_ok() {
        sent += line.len();
    }
    assert!(sent < LEN_MAX, "the node read everything");
}

/// Sends batches with the smallest possible members.
fn send_tiny_members(http: SocketAddr, ws: SocketAddr) {
    let members = "1,".repeat(1_000_000);
    let batch = format!("[{}]", members.trim_end_matches(','));
    let refusal = "batch: got 1000000 requests, expected at most 1000";
    for _ in 0..3 {
        let answer = TestHttpClient::new(http).post(&batch).expect("an answer");
        assert!(answer.body.contains(refusal), "{}", answer.body);
        let mut client = WsClient::connect(ws, None).expect("a WebSocket");
        client.send(&batch);
        assert!(client.text().contains(refusal));
    }
}
