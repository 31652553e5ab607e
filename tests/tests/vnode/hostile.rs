//! Clients that are careless or hostile: memory stays bounded, and good ones are served all along.
//!
//! `HOSTILE_LOAD=full` takes the numbers of the promise; without it they are smaller. The figures
//! are noted either way.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use e2e::http::HttpClient;
use e2e::ws::WsClient;
use e2e::{Caller, Vnode, note};
use serde_json::{Value, json};

/// What the whole test may cost, above the memory of a node that has been called a little: room for
/// long requests and responses, which has a bound of its own, apart.
const GROWTH_MAX: usize = 256 << 20;

/// `full` where asked for, otherwise `some`.
fn scaled(full: usize, some: usize) -> usize {
    if std::env::var("HOSTILE_LOAD").is_ok_and(|load| load == "full") {
        full
    } else {
        some
    }
}

/// A node, and the most memory it had.
struct Watched {
    node: Vnode,
    first: usize,
    most: usize,
}

impl Watched {
    /// A good client is served now, on a new connection and on one that is there already.
    #[track_caller]
    fn check(&mut self, after: &str) {
        let begun = Instant::now();
        self.node.rpc("mc_blockNumber", json!([]));
        let fresh = Caller::new(self.node.addresses()[0]);
        assert_eq!(fresh.rpc("net_version", json!([])), json!("100"), "after {after}");
        let took = begun.elapsed();
        let now = self.node.memory();
        self.most = self.most.max(now);
        let (now, first) = (now >> 10, self.first >> 10);
        note(&format!(
            "{after}: {now} KiB resident, {first} at first; two good calls in {took:?}"
        ));
        let grown = self.most.saturating_sub(self.first);
        assert!(
            grown < GROWTH_MAX,
            "after {after}: {grown} bytes more than at first"
        );
    }
}

/// Numbers that look random.
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

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the node listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a time-out");
    stream
        .set_write_timeout(Some(Duration::from_secs(60)))
        .expect("a time-out");
    stream
}

/// Sends `bytes` as far as they are taken and reads what comes, to the end.
fn throw(stream: &mut (impl Read + Write), bytes: &[u8]) -> Vec<u8> {
    // The node may hang up in the middle, and may have said why before that.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn hostile_clients_are_borne() {
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
    let mut watched = Watched {
        node,
        first,
        most: first,
    };
    watched.check("the start");

    filters(&watched.node, scaled(10_000, 10_000));
    watched.check("idle filters");

    let subscribers = subscriptions(ws, scaled(1000, 200));
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
        throw(&mut connect(http), &bytes);
        throw(&mut connect(ws), &bytes);
        let mut socket = UnixStream::connect(watched.node.socket()).expect("the node listens");
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a time-out");
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let _ = socket.read_to_end(&mut Vec::new());
    }
    watched.check("garbage");

    let deaf = deaf(&watched.node.socket(), scaled(60, 30));
    watched.check("connections that ask and do not read");
    drop(deaf);

    long_bodies(http);
    watched.check("bodies of 100 MB");

    endless_header(http);
    watched.check("an endless header");

    tiny_members(http, ws);
    watched.check("batches of a million members");
    note(&format!(
        "at most {} KiB resident, {} at first",
        watched.most >> 10,
        watched.first >> 10
    ));
}

/// Makes filters, by the batch, and leaves them.
fn filters(node: &Vnode, count: usize) {
    const BATCH: usize = 1000;
    let address = node.addresses()[0];
    let mut http = HttpClient::new(address);
    let filter = json!({ "address": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8", "topics": [null, []] });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "mc_newFilter", "params": [filter] }).to_string();
    for _ in 0..count / BATCH {
        let answer = http
            .post(&format!("[{}]", vec![call.as_str(); BATCH].join(",")))
            .expect("an answer");
        assert_eq!(answer.body.matches("\"result\":\"0x").count(), BATCH);
    }
}

/// Subscribes to heads many times, on connections that are not read any more.
fn subscriptions(ws: SocketAddr, count: usize) -> Vec<WsClient> {
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

/// Connections that ask for long answers, short ones and slow ones, for as long as the node reads,
/// and read none.
fn deaf(socket: &Path, count: usize) -> Vec<UnixStream> {
    const REQUESTS_MAX: usize = 10_000;
    let calls = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "mc_estimateGas", "params": [{ "data": "0x5b600056" }] }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "rpc.discover" }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "debug_dumpBlock", "params": ["latest"] }),
        json!({ "jsonrpc": "2.0", "id": 4, "method": "mc_subscribe", "params": ["newHeads"] }),
    ];
    let calls: String = calls.iter().map(Value::to_string).collect();
    let asked = (0..count).map(|_| {
        let mut stream = UnixStream::connect(socket).expect("the node listens");
        stream
            .set_write_timeout(Some(Duration::from_millis(200)))
            .expect("a time-out");
        let sent = (0..REQUESTS_MAX)
            .take_while(|_| stream.write_all(calls.as_bytes()).is_ok())
            .count();
        assert!(sent < REQUESTS_MAX, "all of it was taken");
        stream
    });
    asked.collect()
}

/// Bodies far too long, with and without a length before them.
fn long_bodies(http: SocketAddr) {
    const LEN: usize = 100_000_000;
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let mut stream = connect(http);
    let answer = throw(
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
    assert!(sent < LEN, "all of it was taken");
}

/// Header lines without end.
fn endless_header(http: SocketAddr) {
    const LEN_MAX: usize = 100_000_000;
    let mut stream = connect(http);
    stream.write_all(b"POST / HTTP/1.1\r\n").expect("the node reads");
    let line = format!("X-Nothing: {}\r\n", "x".repeat(1000));
    let mut sent = 0;
    while sent < LEN_MAX && stream.write_all(line.as_bytes()).is_ok() {
        sent += line.len();
    }
    assert!(sent < LEN_MAX, "all of it was taken");
}

/// Batches of the smallest members there are.
fn tiny_members(http: SocketAddr, ws: SocketAddr) {
    let members = "1,".repeat(1_000_000);
    let batch = format!("[{}]", members.trim_end_matches(','));
    let refusal = "batch: got 1000000 requests, expected at most 1000";
    for _ in 0..3 {
        let answer = HttpClient::new(http).post(&batch).expect("an answer");
        assert!(answer.body.contains(refusal), "{}", answer.body);
        let mut client = WsClient::connect(ws, None).expect("a WebSocket");
        client.send(&batch);
        assert!(client.text().contains(refusal));
    }
}
