//! WebSockets of a real node: options, subscriptions, public clients.

use std::net::TcpListener;

use e2e::clients::javascript;
use e2e::contract::{CHANGED, counter, creation_code, set, word};
use e2e::ws::WsClient;
use e2e::{RpcCallError, Vnode, quantity};
use serde_json::{Value, json};

fn node<const N: usize>(more: [&str; N]) -> Vnode {
    Vnode::with_blocks(["--ws", "--wsport", "0"].into_iter().chain(more))
}

#[test]
fn heads_and_logs_are_announced() {
    let node = node([]);
    let mut client = WsClient::connect(node.ws_address(), None).expect("a WebSocket");
    let heads = client.rpc("mc_subscribe", json!(["newHeads"]));
    let (first, head) = client.notification();
    assert_eq!(first, heads);
    for number in (quantity(&head["number"]) + 1..).take(2) {
        let (_, head) = client.notification();
        assert_eq!(quantity(&head["number"]), number);
    }
    assert_eq!(client.rpc("mc_unsubscribe", json!([heads])), json!(true));

    let from = &node.accounts()[0];
    let hash = node.send(json!({ "from": from, "data": creation_code(), "gas": "0x7a120" }));
    let contract = node.receipt(&hash)["contractAddress"].clone();
    let pending = client.rpc("mc_subscribe", json!(["newPendingTransactions"]));
    let logs = client.rpc(
        "mc_subscribe",
        json!(["logs", { "address": contract, "topics": [CHANGED] }]),
    );
    let hash = node.send(json!({ "from": from, "to": contract, "data": set(7), "gas": "0x186a0" }));
    let mut notifications = [client.notification(), client.notification()];
    notifications.sort_by_key(|(subscription, _)| *subscription != pending);
    assert_eq!(notifications[0], (pending, json!(hash)));
    let (subscription, log) = &notifications[1];
    assert_eq!(*subscription, logs);
    assert_eq!(
        (&log["transactionHash"], &log["data"]),
        (&json!(hash), &json!(word(7)))
    );
}

#[test]
fn a_slow_call_does_not_delay_others() {
    const SLOW: u64 = 10;
    let node = node([]);
    let mut client = WsClient::connect(node.ws_address(), None).expect("a WebSocket");
    let request = |id: u64, method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
    };
    // The code of this creation loops until it runs out of gas.
    let endless = json!([{ "data": "0x5b600056" }]);
    for id in 0..SLOW {
        client.send(&request(id, "mc_estimateGas", endless.clone()));
    }
    client.send(&request(SLOW, "net_version", json!([])));
    let mut ids: Vec<_> = (0..=SLOW)
        .map(|_| {
            let answer: Value = serde_json::from_str(&client.text()).expect("JSON");
            answer["id"].as_u64().expect("an id")
        })
        .collect();
    assert_ne!(
        ids.last(),
        Some(&SLOW),
        "the last request must not be answered last: {ids:?}"
    );
    ids.sort_unstable();
    assert_eq!(ids, (0..=SLOW).collect::<Vec<_>>(), "each request has one answer");
}

#[test]
fn modules_and_origins_are_options() {
    let node = node(["--wsapi", "net", "--wsorigins", "https://a.example"]);
    let mut client = WsClient::connect(node.ws_address(), None).expect("a WebSocket");
    assert_eq!(client.rpc("net_version", json!([])), json!("100"));
    for method in ["mc_blockNumber", "mc_subscribe"] {
        let refused = client.try_rpc(method, json!([]));
        assert!(
            matches!(refused, Err(RpcCallError::Refused { code: -32601, .. })),
            "{refused:?}"
        );
    }
    WsClient::connect(node.ws_address(), Some("https://a.example")).expect("an allowed page");
    let refused = WsClient::connect(node.ws_address(), Some("https://b.example"));
    assert!(refused.is_err_and(|error| error.contains("403")));
    // HTTP has its own modules.
    node.rpc("mc_blockNumber", json!([]));
    let message = node.refused("mc_subscribe", json!(["newHeads"]), -32000);
    assert_eq!(message, "notifications not supported");
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound");
    let launch = e2e::Launch::bare(["--dev", "--ws", "--wsport", &address.port().to_string()]);
    let ended = launch.run();
    assert!(!ended.status.success());
    assert!(ended.stderr.contains(&address.to_string()), "{}", ended.stderr);
}

#[test]
fn ethers_follows_blocks_and_events() {
    let Some(clients) = javascript() else { return };
    let node = node([]);
    let result = clients.run(
        "subscribe.mjs",
        &json!({ "url": format!("ws://{}", node.ws_address()), "counter": counter(), "value": 9 }),
    );
    let blocks = result["blocks"].as_array().expect("an array");
    assert!(blocks.len() >= 2, "{result}");
    assert_eq!(result["value"], json!("0x9"));
}
