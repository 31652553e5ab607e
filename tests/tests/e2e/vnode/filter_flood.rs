//! A client that takes all the room for filters that it can get, and never polls: others are
//! served meanwhile, and the room is free again once the filters are idle.

use std::time::{Duration, Instant};

use e2e::http::TestHttpClient;
use e2e::wait::wait_within;
use e2e::ws::WsClient;
use e2e::{Caller, Vnode, ipc, note};
use serde_json::{Value, json};

/// After this many seconds without a poll a filter is idle.
const IDLE_SECONDS: u64 = 10;
/// More large filters than there is room for, even for all clients together.
const LARGE_MAX: usize = 200;
/// More batches of small filters than fit where no further large one fits.
const BATCHES_MAX: usize = 5;
/// Small filters of a batch.
const BATCH: usize = 1000;
/// Longest time until idle filters are gone, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The largest criteria: 1024 addresses, and 1024 alternatives for each of four topics.
fn large_filter() -> Value {
    let addresses: Vec<_> = (0..1024).map(|number| format!("0x{number:040x}")).collect();
    let topics: Vec<_> = (0..1024).map(|number| format!("0x{number:064x}")).collect();
    json!({ "address": addresses, "topics": [topics, topics, topics, topics] })
}

/// Creates block filters until the node refuses one. Returns how many it took.
fn fill_with_small(http: &mut TestHttpClient) -> usize {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"mc_newBlockFilter","params":[]}"#;
    let batch = format!("[{}]", vec![call; BATCH].join(","));
    let mut taken = 0;
    for _ in 0..BATCHES_MAX {
        let answer = http.post(&batch).expect("an answer").body;
        let accepted = answer.matches("\"result\":\"0x").count();
        taken += accepted;
        if accepted < BATCH {
            return taken;
        }
    }
    panic!("the node took {taken} small filters, expected a refusal");
}

#[test]
fn filters_that_nobody_polls_deny_nobody_else() {
    let idle = IDLE_SECONDS.to_string();
    let node = Vnode::dev(["--ws", "--wsport", "0", "--rpc.filtertimeout", &idle]);
    let flooder = Caller::new(node.addresses()[0]);
    let (large, first) = (json!([large_filter()]), node.memory());

    let started = Instant::now();
    let mut http = TestHttpClient::new(node.addresses()[0]);
    // The text is made once: on a busy machine the first filters would be idle before the last.
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "mc_newFilter", "params": large}).to_string();
    let taken = (0..LARGE_MAX).take_while(|_| {
        let answer = http.post(&call).expect("an answer").body;
        answer.contains("\"result\"")
    });
    let taken = taken.count();
    assert!(taken < LARGE_MAX, "the node took {taken} large filters");
    let small = fill_with_small(&mut http);
    note(&format!(
        "{taken} large and {small} small filters in {:?}; {} KiB more memory",
        started.elapsed(),
        node.memory().saturating_sub(first) >> 10
    ));

    // Another client is served. Here it is one on the local socket.
    for (method, params) in [
        ("mc_newFilter", large.clone()),
        ("mc_newFilter", json!([{}])),
        ("mc_newBlockFilter", json!([])),
        ("mc_newPendingTransactionFilter", json!([])),
        ("mc_subscribe", json!(["newHeads"])),
        ("mc_subscribe", json!(["logs", {}])),
    ] {
        ipc::rpc(&node.socket(), method, params);
    }

    // The flooder gets no more, and says which bound it met.
    let refusal = flooder.refused("mc_newFilter", large.clone(), -32000);
    assert!(
        refusal.starts_with("too many filters and subscriptions: bytes of their criteria: got "),
        "{refusal}"
    );

    // The idle filters leave, although nothing asks for their room meanwhile.
    let started = Instant::now();
    std::thread::sleep(Duration::from_secs(IDLE_SECONDS));
    let mut ws = WsClient::connect(node.ws_address(), None).expect("a WebSocket");
    wait_within(PATIENCE, "room for a subscription", || {
        ws.try_rpc("mc_subscribe", json!(["logs", large_filter()])).ok()
    });
    for params in [large, json!([{}])] {
        flooder.rpc("mc_newFilter", params);
    }
    flooder.rpc("mc_newBlockFilter", json!([]));
    note(&format!("room again {:?} after the flood", started.elapsed()));
}
