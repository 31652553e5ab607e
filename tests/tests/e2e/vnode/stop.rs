//! Signals: the node stops quickly and with exit code 0, even if its clients do not cooperate.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use e2e::process::EndSignal;
use e2e::{Launch, Vnode, note, wait_for};
use serde_json::json;

/// Longest time until the node has stopped. The project promises this time. An idle node needs far
/// less.
const STOP_MAX: Duration = Duration::from_secs(2);

fn check(signal: EndSignal) {
    let home = tempfile::tempdir().expect("a temporary directory");
    let node = Launch::dev(["--mine"]).data(home.path()).start();
    node.wait_for_head(2);
    let address = node.addresses()[0];
    let socket = node.socket();
    // Connections that are idle, that have sent half a header or half a body, that never read an
    // answer, and one on the local socket.
    let mut open: Vec<_> = (0..4)
        .map(|_| TcpStream::connect(address).expect("the node listens"))
        .collect();
    let half_body =
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{";
    open[1].write_all(b"POST / HT").expect("a write");
    open[2].write_all(half_body.as_bytes()).expect("a write");
    let block = json!({"jsonrpc": "2.0", "id": 1, "method": "mc_getBlockByNumber", "params": ["0x1", true]});
    let batch = json!(vec![block; 900]).to_string();
    let head = half_body.replace("99", &batch.len().to_string());
    open[3]
        .write_all(&head.as_bytes()[..head.len() - 1])
        .expect("a write");
    open[3].write_all(batch.as_bytes()).expect("a write");
    let mut local = UnixStream::connect(&socket).expect("the node listens");
    local.write_all(b"{").expect("a write");

    let seen = node.head_block();
    let ended = node.end(signal);
    note(&format!(
        "{signal:?} with five open connections while mining: stopped after {:.2?}",
        ended.took
    ));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.took < STOP_MAX, "{:?}\n{}", ended.took, ended.stderr);
    assert!(!socket.exists(), "{} still exists", socket.display());
    assert!(!ended.stderr.contains("panic"), "{}", ended.stderr);
    drop((open, local));

    let node = Launch::dev(["--mine"]).data(home.path()).start();
    let again = node.rpc("mc_getBlockByNumber", json!([seen["number"], false]));
    assert_eq!(again, seen, "a block that was returned is still there");
    node.wait_for_head(e2e::quantity(&seen["number"]) + 1);
}

#[test]
fn sigint() {
    check(EndSignal::Interrupt);
}

#[test]
fn sigterm() {
    check(EndSignal::Terminate);
}

#[test]
fn a_node_stops_right_after_the_banner_and_under_load() {
    let node = Vnode::dev(["--mine"]);
    let ended = node.end(EndSignal::Interrupt);
    assert!(ended.status.success() && ended.took < STOP_MAX, "{ended:?}");

    let node = Vnode::dev(["--mine"]);
    let accounts = node.accounts();
    let address = node.addresses()[0];
    let ended = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let caller = e2e::Caller::new(address);
                let transfer = json!([{"from": accounts[1], "to": accounts[2], "value": "0x1"}]);
                while caller.try_rpc("mc_sendTransaction", transfer.clone()).is_ok() {}
            });
        }
        wait_for("a block with transactions", || {
            let block = node.head_block();
            block["transactions"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
                .then_some(())
        });
        node.end(EndSignal::Terminate)
    });
    note(&format!(
        "Terminate with three senders: stopped after {:.2?}",
        ended.took
    ));
    assert!(
        ended.status.success() && ended.took < STOP_MAX,
        "{:?} {}\n{}",
        ended.took,
        ended.status,
        ended.stderr
    );
}
