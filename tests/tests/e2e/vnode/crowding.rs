//! Clients that take what others need: memory, time of the threads, connections. Others are still
//! served, and the memory of the node stays within its bound.
//!
//! As in `hostile.rs`, the numbers are larger with `HOSTILE_LOAD=full`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use e2e::http::{TestHttpClient, get};
use e2e::wait::{wait_for, wait_within};
use e2e::{Caller, Vnode, ipc, note};
use serde_json::{Value, json};

use crate::vnode::hostile::{connect, scaled};

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(120);

fn call(id: usize, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn batch(count: usize, method: &str, params: &Value) -> String {
    let calls: Vec<_> = (0..count).map(|id| call(id, method, params)).collect();
    format!("[{}]", calls.join(","))
}

fn post(stream: &mut TcpStream, body: &str) {
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    // The node may refuse the request and close before its end.
    let _ = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
}

/// An execution that ends with a megabyte of data, so the error has two megabytes of digits.
fn long_revert() -> Value {
    json!([{ "data": "0x620fffff6000fd" }])
}

/// An execution of several hundred milliseconds: it hashes 32 KiB again and again.
fn long_execution() -> Value {
    json!([{ "data": "0x5b61800060002050600056", "gas": "0x1000000" }])
}

#[test]
fn answers_that_nobody_reads_stay_within_their_memory() {
    /// The room for messages is 64 MiB. The rest is for everything else, and for what an allocator
    /// keeps.
    const GROWTH_MAX: usize = (64 + 128) << 20;
    let node = Vnode::dev(["--rpc.maxtraffic", "64"]);
    let address = node.addresses()[0];
    node.rpc("rpc.discover", json!([]));
    let first = node.memory();
    let bodies = [
        batch(1000, "rpc.discover", &json!([])),
        batch(30, "mc_estimateGas", &long_revert()),
    ];
    let readers: Vec<_> = (0..scaled(100, 40))
        .map(|index| {
            let mut stream = connect(address);
            post(&mut stream, &bodies[index % bodies.len()]);
            stream
        })
        .collect();
    let (begun, mut most) = (Instant::now(), first);
    while begun.elapsed() < Duration::from_secs(8) {
        most = most.max(node.memory());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(ipc::rpc(&node.socket(), "net_version", json!([])), json!("100"));
    drop(readers);
    let grown = most - first;
    note(&format!(
        "answers that nobody reads: {} MiB more than {} MiB at first",
        grown >> 20,
        first >> 20
    ));
    assert!(
        grown < GROWTH_MAX,
        "got {grown} bytes more than at first, expected less than {GROWTH_MAX}"
    );
}

/// Reads what is left for a client. Returns whether it is less than the whole answer.
fn is_cut_off(mut stream: TcpStream) -> bool {
    let mut answer = Vec::new();
    // A connection that was closed with something unread is reset, which is an end, too.
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let Some(end) = end else { return true };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let len = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    answer.len() - end - 4 < len.unwrap_or(0)
}

#[test]
fn slow_readers_lose_their_answers() {
    /// Two answers of so many calls fill the memory of a client, and one does not.
    const CALLS: usize = 30;
    let node = Vnode::dev(["--rpc.maxtraffic", "256", "--rpc.writetimeout", "1"]);
    let address = node.addresses()[0];
    let body = batch(CALLS, "mc_estimateGas", &long_revert());
    let has_memory = || {
        let answer = TestHttpClient::new(address).post(&body).expect("an answer");
        answer.body.matches("execution reverted").count() == CALLS
    };
    assert!(has_memory());
    let readers: Vec<_> = (0..9)
        .map(|_| {
            let mut stream = connect(address);
            post(&mut stream, &body);
            stream
        })
        .collect();
    // While they hold the memory of their address, the local socket has its own.
    std::thread::sleep(Duration::from_millis(500));
    let error = ipc::try_rpc(&node.socket(), "mc_estimateGas", long_revert());
    let error = error.expect_err("the call reverts").to_string();
    assert!(error.contains("execution reverted"), "{error}");
    wait_within(PATIENCE, "the memory of the slow readers", || {
        has_memory().then_some(())
    });
    let cut_off = readers
        .into_iter()
        .map(is_cut_off)
        .filter(|is_cut_off| *is_cut_off);
    let cut_off = cut_off.count();
    note(&format!("slow readers: {cut_off} of 9 were cut off"));
    assert!(
        cut_off > 0,
        "their answers were longer than what the system keeps for them"
    );
}

#[test]
fn a_flood_of_calls_leaves_other_calls_their_turn() {
    let node = Vnode::with_blocks::<&str>([]);
    node.wait_for_head(6);
    let address = node.addresses()[0];
    let clients = scaled(120, 40);
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut client = TestHttpClient::new(address);
                let body = call(1, "mc_estimateGas", &long_execution());
                while !stop.load(SeqCst) {
                    client.post(&body).expect("an answer");
                    answered.fetch_add(1, SeqCst);
                }
            });
        }
        wait_for("the flood", || (answered.load(SeqCst) > 4).then_some(()));
        let others = Caller::new(address);
        let before = answered.load(SeqCst);
        let begun = Instant::now();
        others.rpc("mc_getLogs", json!([{ "fromBlock": "0x0", "toBlock": "latest" }]));
        let (overtaken, took) = (answered.load(SeqCst) - before, begun.elapsed());
        stop.store(true, SeqCst);
        note(&format!(
            "mc_getLogs took {took:?} among {clients} busy clients and was overtaken by {overtaken} calls"
        ));
        // Calls that run already, and one round.
        assert!(
            overtaken <= 12,
            "{overtaken} calls of {clients} clients came first"
        );
    });
}

#[test]
fn idle_connections_leave_others_their_place() {
    let node = Vnode::dev(["--rpc.maxconnections", "64"]);
    let address = node.addresses()[0];
    let mut idle = Vec::new();
    for _ in 0..scaled(1024, 200) {
        let mut stream = connect(address);
        post(&mut stream, &call(1, "net_version", &json!([])));
        let mut answer = [0; 1024];
        let len = stream.read(&mut answer).expect("an answer");
        assert!(
            answer[..len].starts_with(b"HTTP/1.1 200 "),
            "every client finds a place"
        );
        idle.push(stream);
    }
    assert_eq!(Caller::new(address).rpc("net_version", json!([])), json!("100"));
    assert_eq!(get(address, "/health").expect("an answer").status, 200);
    note(&format!(
        "{} idle connections left others their place",
        idle.len()
    ));
}
