//! Subscriptions over WebSockets, on a real chain.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use rpc::{FilterLimits, Limits};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::mc::events::{Logger, word};
use crate::mc::filters::large_filter;
use crate::mc::harness::{Net, account};

const PATIENCE: Duration = Duration::from_secs(20);

/// A WebSocket client that keeps answers and notifications apart.
pub(crate) struct Client<'n> {
    net: &'n Net,
    socket: WebSocketStream<TcpStream>,
    /// Notifications that came before an awaited answer.
    notifications: VecDeque<Value>,
}

impl<'n> Client<'n> {
    pub(crate) fn connect(net: &'n Net) -> Self {
        let socket = net.runtime.block_on(async {
            let address: SocketAddr = net.ws_address();
            let stream = TcpStream::connect(address).await.expect("the server listens");
            tokio_tungstenite::client_async(format!("ws://{address}/"), stream).await
        });
        Self {
            net,
            socket: socket.expect("a WebSocket").0,
            notifications: VecDeque::new(),
        }
    }

    async fn next(socket: &mut WebSocketStream<TcpStream>) -> Value {
        loop {
            let message = timeout(PATIENCE, socket.next()).await.expect("a message in time");
            if let Message::Text(text) = message.expect("no end").expect("a frame") {
                return serde_json::from_str(text.as_str()).expect("JSON");
            }
        }
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.net.runtime.block_on(async {
            let message = Message::text(request.to_string());
            self.socket.send(message).await.expect("the server reads");
            loop {
                let message = Self::next(&mut self.socket).await;
                if message.get("id").is_some() {
                    return message;
                }
                self.notifications.push_back(message);
            }
        })
    }

    #[track_caller]
    pub(crate) fn subscribe(&mut self, params: Value) -> Value {
        let answer = self.call("mc_subscribe", params);
        assert!(answer["result"].is_string(), "{answer}");
        answer["result"].clone()
    }

    /// The next notification.
    fn notification(&mut self) -> Value {
        if let Some(notification) = self.notifications.pop_front() {
            return notification;
        }
        self.net.runtime.block_on(Self::next(&mut self.socket))
    }

    /// The result of the next notification, which must belong to subscription `id`.
    #[track_caller]
    fn result_of(&mut self, id: &Value) -> Value {
        let mut notification = self.notification();
        assert_eq!(notification["method"], "mc_subscription", "{notification}");
        assert_eq!(notification["params"]["subscription"], *id, "{notification}");
        assert!(notification.get("id").is_none(), "{notification}");
        notification["params"]["result"].take()
    }

    fn is_silent(&mut self) -> bool {
        let socket = &mut self.socket;
        let silence = async { timeout(Duration::from_millis(300), socket.next()).await.is_err() };
        self.notifications.is_empty() && self.net.runtime.block_on(silence)
    }
}

#[test]
fn new_heads() {
    let net = Net::start();
    let mut client = Client::connect(&net);
    let id = client.subscribe(json!(["newHeads"]));
    let block = net.mine();
    let head = client.result_of(&id);
    let shown = net.ok("mc_getBlockByNumber", json!(["latest", false]));
    assert_eq!(head["hash"], json!(block.hash().to_string()));
    let fields = head.as_object().expect("an object");
    assert_eq!(fields.len(), 16, "{head}");
    for (name, value) in fields {
        assert_eq!(*value, shown[name], "{name}");
    }
    for _ in 0..20 {
        net.mine();
    }
    for number in 2..=21 {
        assert_eq!(client.result_of(&id)["number"], json!(format!("{number:#x}")));
    }
    assert_eq!(client.call("mc_unsubscribe", json!([id]))["result"], json!(true));
    net.mine();
    assert!(client.is_silent(), "{:?}", client.notifications);
    // An id that has ended, and ids that are too long for one.
    let long = [64, 65, 1000].map(|len| json!(format!("0x{}", "f".repeat(len))));
    for id in long.iter().chain([&id]) {
        let answer = client.call("mc_unsubscribe", json!([id]));
        assert_eq!(
            answer["error"],
            json!({ "code": -32000, "message": "subscription not found" })
        );
    }
}

#[test]
fn logs_and_what_a_reorganization_takes_back() {
    let net = Net::start();
    let logger = Logger::create(&net);
    let mut client = Client::connect(&net);
    let all = client.subscribe(json!(["logs"]));
    let parent = net.view().head_hash();
    logger.log(&net, 1, 2, 3);
    let old = net.build(&parent, b"old", &[]);
    let first = net.build(&parent, b"new", &[]);
    net.chain.import(old.clone()).expect("a good block");
    let log = client.result_of(&all);
    assert_eq!((&log["removed"], &log["data"]), (&json!(false), &json!(word(3))));
    net.chain.import(first.clone()).expect("a good block");
    net.chain
        .import(net.build(&first.hash(), b"new", &[]))
        .expect("a good block");
    let log = client.result_of(&all);
    assert_eq!(
        (&log["removed"], &log["blockHash"]),
        (&json!(true), &json!(old.hash().to_string()))
    );
    let log = client.result_of(&all);
    assert_eq!(
        (&log["removed"], &log["blockHash"]),
        (&json!(false), &json!(first.hash().to_string()))
    );

    // Criteria select one of two logs.
    assert_eq!(client.call("mc_unsubscribe", json!([all]))["result"], json!(true));
    let some = client.subscribe(json!(["logs", { "address": logger.address, "topics": [null, word(9)] }]));
    logger.log(&net, 1, 8, 4);
    logger.log(&net, 1, 9, 5);
    net.mine();
    assert_eq!(client.result_of(&some)["data"], json!(word(5)));
    assert!(client.is_silent(), "{:?}", client.notifications);
}

#[test]
fn pending_transactions() {
    let net = Net::start();
    let mut client = Client::connect(&net);
    let id = client.subscribe(json!(["newPendingTransactions"]));
    let hash = net.send(json!({ "to": account(1), "value": "0x1" }));
    assert_eq!(client.result_of(&id), json!(hash));
    assert_eq!(client.call("mc_unsubscribe", json!([id]))["result"], json!(true));
    let id = client.subscribe(json!(["newPendingTransactions", true]));
    let hash = net.send(json!({ "to": account(1), "value": "0x2" }));
    let pending = client.result_of(&id);
    assert_eq!(
        (&pending["hash"], &pending["blockHash"]),
        (&json!(hash), &Value::Null)
    );
    assert_eq!(pending, net.ok("mc_getTransactionByHash", json!([hash])));
}

#[test]
fn syncing_is_silent_without_peers() {
    let net = Net::start();
    let mut client = Client::connect(&net);
    client.subscribe(json!(["syncing"]));
    net.mine();
    assert!(client.is_silent(), "{:?}", client.notifications);
}

#[test]
fn several_at_once_and_under_both_names() {
    let net = Net::start();
    let logger = Logger::create(&net);
    let mut client = Client::connect(&net);
    let heads = client.call("eth_subscribe", json!(["newHeads"]))["result"].clone();
    let logs = client.subscribe(json!(["logs"]));
    assert_ne!(heads, logs);
    logger.log(&net, 1, 2, 3);
    net.mine();
    let notifications = [client.notification(), client.notification()];
    let of = |id: &Value| {
        notifications
            .iter()
            .find(|notification| notification["params"]["subscription"] == *id)
            .expect("both")
    };
    assert_eq!(of(&heads)["method"], "eth_subscription");
    assert_eq!(of(&logs)["method"], "mc_subscription");
    // Other connections get no notification.
    let mut other = Client::connect(&net);
    net.mine();
    assert_eq!(other.call("net_version", json!([]))["result"], "100");
    assert!(other.is_silent());
    // A subscription in a batch: its notifications come after the answer to the batch.
    let batch = json!([{ "jsonrpc": "2.0", "id": 1, "method": "mc_subscribe", "params": ["newHeads"] }]);
    net.runtime
        .block_on(other.socket.send(Message::text(batch.to_string())))
        .expect("the server reads");
    let answer = other.notification();
    assert!(answer[0]["result"].is_string(), "{answer}");
    net.mine();
    assert_eq!(
        other.notification()["params"]["subscription"],
        answer[0]["result"]
    );
}

/// The criteria of a client's filters and subscriptions share one room, over all its connections.
#[test]
fn subscriptions_have_the_room_of_their_client() {
    let limits = FilterLimits {
        // One large filter or subscription for this client.
        client_share_percent: 1,
        ..FilterLimits::default()
    };
    let net = Net::start_with(Limits::default(), limits);
    let (mut first, mut second) = (Client::connect(&net), Client::connect(&net));
    let id = first.subscribe(json!(["logs", large_filter()]));
    let text = "too many filters and subscriptions: bytes of their criteria: got ";
    let check_refused = |answer: &Value| {
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(text), "{answer}");
    };
    check_refused(&second.call("mc_subscribe", json!(["logs", large_filter()])));
    let (code, message) = net.error("mc_newFilter", &json!([large_filter()]).to_string());
    assert!(code == -32000 && message.starts_with(text), "{message}");
    second.subscribe(json!(["newHeads"]));
    // A subscription that ends, and a connection that ends, give back what they have. That may
    // take a moment, because the subscription may be at work.
    let subscribe_in_time = |client: &mut Client<'_>| {
        let begun = Instant::now();
        while client
            .call("mc_subscribe", json!(["logs", large_filter()]))
            .get("error")
            .is_some()
        {
            assert!(begun.elapsed() < PATIENCE, "the room is not given back");
        }
    };
    assert_eq!(first.call("mc_unsubscribe", json!([id]))["result"], json!(true));
    subscribe_in_time(&mut second);
    check_refused(&first.call("mc_subscribe", json!(["logs", large_filter()])));
    drop(second);
    subscribe_in_time(&mut first);
}

#[test]
fn refusals() {
    let limits = Limits {
        subscriptions_max: 2,
        ..Limits::default()
    };
    let net = Net::start_with(limits, FilterLimits::default());
    let mut client = Client::connect(&net);
    for (params, code, message) in [
        (
            json!(["nonsense"]),
            -32602,
            "invalid argument 0: got \"nonsense\", expected one of newHeads, logs, newPendingTransactions, syncing, newWork",
        ),
        (json!([]), -32602, "missing value for required argument 0"),
        (
            json!(["newHeads", {}]),
            -32602,
            "invalid argument 1: got an object, expected nothing",
        ),
        (
            json!(["logs", []]),
            -32602,
            "invalid argument 1: got an array, expected an object",
        ),
        (
            json!(["logs", { "topics": ["0x1"] }]),
            -32602,
            "invalid argument 1: field topics: element 0: odd number of hex digits",
        ),
        (
            json!(["newPendingTransactions", "yes"]),
            -32602,
            "invalid argument 1: got a string, expected a Boolean",
        ),
    ] {
        let answer = client.call("mc_subscribe", params.clone());
        assert_eq!(
            answer["error"],
            json!({ "code": code, "message": message }),
            "{params}"
        );
    }
    client.subscribe(json!(["newHeads"]));
    client.subscribe(json!(["newHeads"]));
    let answer = client.call("mc_subscribe", json!(["newHeads"]));
    assert_eq!(
        answer["error"]["message"],
        "too many subscriptions: at most 2 on a connection"
    );
    // HTTP refuses subscriptions with any parameters.
    for method in ["mc_subscribe", "eth_subscribe", "mc_unsubscribe"] {
        net.check_error(method, json!(["newHeads"]), -32000, "notifications not supported");
    }
}

#[test]
fn a_slow_reader_misses_nothing() {
    let net = Net::start();
    let mut client = Client::connect(&net);
    let ids: Vec<_> = (0..200).map(|_| client.subscribe(json!(["newHeads"]))).collect();
    // Far more than the buffers of the socket hold: 60 blocks × 200 subscriptions × 1 KiB.
    for _ in 0..60 {
        net.mine();
    }
    let mut seen = std::collections::HashMap::new();
    for _ in 0..60 * ids.len() {
        let notification = client.notification();
        let number = seen
            .entry(notification["params"]["subscription"].to_string())
            .or_insert(0);
        *number += 1;
        assert_eq!(
            notification["params"]["result"]["number"],
            json!(format!("{number:#x}"))
        );
    }
    assert_eq!(seen.len(), ids.len());
    assert!(seen.values().all(|count| *count == 60));
}

/// Mines a block with `count` logs of `len` bytes each.
fn mine_logs(net: &Net, count: u16, len: u32) {
    // A loop in a constructor: LOG0, and the counter goes down to 0.
    let code = format!("0x61{count:04x}5b62{len:06x}6000a06001900380600357 00").replace(' ', "");
    net.send(json!({ "data": code, "gas": "0x3d0900" }));
    net.mine();
    let view = net.view();
    let receipts = view.receipts(&view.head_id()).expect("a read").expect("receipts");
    let logs: usize = receipts.iter().map(|receipt| receipt.logs.len()).sum();
    assert_eq!(logs, usize::from(count), "{receipts:?}");
}

/// A block whose notifications are longer than all the memory for messages reaches every
/// subscriber, in its order.
#[test]
fn little_memory_is_enough_for_many_notifications() {
    let limits = Limits {
        traffic_len_max: 1 << 20,
        ..Limits::default()
    };
    let net = Net::start_with(limits, FilterLimits::default());
    let mut clients: Vec<_> = (0..8).map(|_| Client::connect(&net)).collect();
    let ids: Vec<_> = clients
        .iter_mut()
        .map(|client| client.subscribe(json!(["logs"])))
        .collect();
    mine_logs(&net, 800, 512);
    for (client, id) in clients.iter_mut().zip(&ids) {
        for index in 0..800 {
            let log = client.result_of(id);
            assert_eq!(log["logIndex"], json!(format!("{index:#x}")));
        }
    }
    mine_logs(&net, 1, 1);
    for (client, id) in clients.iter_mut().zip(&ids) {
        assert_eq!(client.result_of(id)["logIndex"], json!("0x0"), "the next block");
    }
}

/// Notifications that are not long come even if their client's memory is used up.
#[test]
fn short_notifications_need_no_memory() {
    let limits = Limits {
        traffic_len_max: 2 << 10,
        write_timeout: Duration::from_millis(100),
        ..Limits::default()
    };
    let net = Net::start_with(limits, FilterLimits::default());
    let mut client = Client::connect(&net);
    let heads = client.subscribe(json!(["newHeads"]));
    for number in 1..4 {
        net.mine();
        let head = client.result_of(&heads);
        assert_eq!(head["number"], json!(format!("{number:#x}")));
        assert!(head.to_string().len() > 1024, "it is no short text: {head}");
    }
    let mut logs = Client::connect(&net);
    let id = logs.subscribe(json!(["logs"]));
    mine_logs(&net, 2, 7000);
    for index in 0..2 {
        assert_eq!(logs.result_of(&id)["logIndex"], json!(format!("{index:#x}")));
    }
}

/// A notification for which there is no memory waits for a while. Then the connection ends with a
/// reason. Others go on.
#[test]
fn a_notification_that_finds_no_memory_ends_its_connection() {
    let limits = Limits {
        traffic_len_max: 128 << 10,
        write_timeout: Duration::from_millis(500),
        ..Limits::default()
    };
    let net = Net::start_with(limits, FilterLimits::default());
    let (mut logs, mut heads) = (Client::connect(&net), Client::connect(&net));
    logs.subscribe(json!(["logs"]));
    let id = heads.subscribe(json!(["newHeads"]));
    mine_logs(&net, 1, 100_000);
    let end = async { timeout(PATIENCE, logs.socket.next()).await };
    let end = net.runtime.block_on(end);
    let Ok(Some(Ok(Message::Close(Some(frame))))) = end else {
        panic!("got {end:?}, expected a close frame");
    };
    assert_eq!(
        (u16::from(frame.code), frame.reason.as_str()),
        (1013, "too little memory is left for a notification")
    );
    assert_eq!(heads.result_of(&id)["number"], json!("0x1"));
}

#[test]
fn work_is_pushed() {
    let net = Net::start();
    let mut client = Client::connect(&net);
    let id = client.subscribe(json!(["newWork"]));
    let first = client.notification();
    assert_eq!(first["params"]["subscription"], id);
    let result = &first["params"]["result"];
    let work = net.ok("mc_getWork", json!([]));
    assert_eq!(
        result.as_array().expect("an array")[..3],
        work.as_array().expect("an array")[..]
    );
    assert_eq!(result[3], "0x1");
    net.mine();
    assert_eq!(client.notification()["params"]["result"][3], "0x2");
}
