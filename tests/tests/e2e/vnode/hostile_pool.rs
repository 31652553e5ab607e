//! Strangers who fill the transaction pool for nothing: the pool stays bounded, honest senders are
//! served, and nothing of it outlives a restart.
//!
//! With `HOSTILE_LOAD=full` as many transactions are sent as would fill the pool; without it fewer.
//! The tests print their figures in both cases.

use std::time::Instant;

use e2e::http::TestHttpClient;
use e2e::ipc;
use e2e::ledger::{COIN, STRANGER};
use e2e::process::EndSignal;
use e2e::ws::WsClient;
use e2e::{Launch, Vnode, note, quantity, to_quantity};
use primitives::{Address, SecretKey, TxForm, U256, UnsignedTransaction, hex};
use serde_json::{Value, json};

use crate::vnode::hostile::scaled;

/// The price floor of the nodes that have one, in sha.
const FLOOR: u64 = 1_000_000_000;
/// Most transactions with missing nonces that the pool keeps: of one account, of all.
const ACCOUNT_QUEUE: u128 = 64;
const GLOBAL_QUEUE: u128 = 1024;
/// Requests in a batch.
const BATCH: usize = 500;

/// Someone with a key that the node does not have.
struct Stranger(SecretKey);

impl Stranger {
    fn new(number: u16) -> Self {
        let mut bytes = [7; 32];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        Self(SecretKey::from_bytes(&bytes).expect("a key"))
    }

    fn address(&self) -> String {
        format!("{:#x}", self.0.address())
    }

    /// A signed transaction, as DATA.
    fn sign(&self, tx_nonce: u64, gas_price: u64) -> String {
        let unsigned = UnsignedTransaction {
            tx_nonce,
            gas_price: U256::from(gas_price),
            gas: 21_000,
            to: Some(Address::repeat_byte(1)),
            ..Default::default()
        };
        let signed = unsigned.sign(&self.0, 100, TxForm::Native);
        format!("0x{}", hex::encode(signed.encode()))
    }
}

/// Sends transactions in batches. Returns how many the node accepted.
fn send_all(node: &Vnode, transactions: impl Iterator<Item = String>) -> usize {
    let mut http = TestHttpClient::new(node.addresses()[0]);
    let calls: Vec<String> = transactions
        .map(|raw| {
            json!({"jsonrpc": "2.0", "id": 1, "method": "mc_sendRawTransaction", "params": [raw]}).to_string()
        })
        .collect();
    let started = Instant::now();
    let accepted: usize = calls
        .chunks(BATCH)
        .map(|batch| {
            let answer = http.post(&format!("[{}]", batch.join(","))).expect("an answer");
            assert_eq!(answer.status, 200);
            answer.body.matches("\"result\":\"0x").count()
        })
        .sum();
    note(&format!(
        "{} transactions sent in {:?}, {accepted} accepted",
        calls.len(),
        started.elapsed()
    ));
    accepted
}

/// The numbers of pending and of queued transactions.
fn counts(node: &Vnode) -> (u128, u128) {
    let status = ipc::rpc(&node.socket(), "txpool_status", json!([]));
    let (pending, queued) = (quantity(&status["pending"]), quantity(&status["queued"]));
    note(&format!("{pending} pending, {queued} queued"));
    (pending, queued)
}

fn send_raw(node: &Vnode, raw: &str) -> String {
    let hash = node.rpc("mc_sendRawTransaction", json!([raw]));
    hash.as_str().expect("a hash").to_owned()
}

#[test]
fn a_key_without_balance_does_not_fill_the_pool() {
    let home = tempfile::tempdir().expect("a temporary directory");
    // Without a price floor, transactions cost their sender nothing.
    let start = || {
        Launch::dev(["--mine", "--minerthreads", "1"])
            .data(home.path())
            .start()
    };
    let node = start();
    let accounts = node.accounts();
    let honest = Stranger::new(1000);
    let funds = json!({"from": accounts[0], "to": honest.address(), "value": to_quantity(COIN)});
    node.receipt(&node.send(funds));

    // The nonce 0 is missing, so no block takes the transactions out of the pool.
    let count = scaled(42_000, 3000) as u64;
    let attacker = Stranger::new(0);
    send_all(&node, (1..=count).map(|tx_nonce| attacker.sign(tx_nonce, 0)));
    assert_eq!(counts(&node), (0, ACCOUNT_QUEUE));
    let attackers = (1..=scaled(600, 30) as u16).map(Stranger::new);
    let more = attackers.flat_map(|one| (1..=70).map(|tx_nonce| one.sign(tx_nonce, 0)).collect::<Vec<_>>());
    send_all(&node, more);
    assert_eq!(counts(&node), (0, GLOBAL_QUEUE));

    // Honest senders are served: the node's own accounts and others.
    let own = json!({"from": accounts[1], "to": STRANGER, "gasPrice": "0x0"});
    let own = node.send(own);
    let first = send_raw(&node, &honest.sign(0, FLOOR));
    send_raw(&node, &honest.sign(2, FLOOR));
    let waiting = json!({"from": accounts[2], "to": STRANGER, "nonce": "0x1"});
    let waiting = node.send(waiting);
    for hash in [&own, &first] {
        assert_eq!(node.receipt(hash)["status"], "0x1");
    }
    assert_eq!(
        counts(&node),
        (0, GLOBAL_QUEUE),
        "honest ones took the place of others"
    );
    node.end(EndSignal::Kill);

    // After a restart only the own account's transaction is there.
    let node = start();
    assert_eq!(counts(&node), (0, 1));
    assert!(node.rpc("mc_getTransactionByHash", json!([waiting])).is_object());
    let next = send_raw(&node, &honest.sign(1, FLOOR));
    assert_eq!(node.receipt(&next)["status"], "0x1");
}

#[test]
fn free_transactions_of_strangers_are_not_mined_above_a_price_floor() {
    let floor = FLOOR.to_string();
    let node = Vnode::dev([
        "--mine",
        "--minerthreads",
        "1",
        "--gasprice",
        &floor,
        "--ws",
        "--wsport",
        "0",
    ]);
    node.wait_for_head(1);
    let attacker = Stranger::new(0);
    let accepted = send_all(&node, (0..=1000).map(|tx_nonce| attacker.sign(tx_nonce, 0)));
    // The node's own accounts pay what they like.
    let own = node.send(json!({"from": node.accounts()[1], "to": STRANGER, "gasPrice": "0x0"}));
    assert_eq!(node.receipt(&own)["status"], "0x1");
    node.wait_for_head(node.head() + 1);
    let mined = quantity(&node.rpc("mc_getTransactionCount", json!([attacker.address(), "latest"])));
    note(&format!("{accepted} free transactions accepted, {mined} mined"));
    assert_eq!((accepted, mined), (0, 0));

    // The same holds over WebSockets and the local socket.
    let raw = attacker.sign(0, FLOOR - 1);
    let refused = ipc::try_rpc(&node.socket(), "mc_sendRawTransaction", json!([raw])).unwrap_err();
    assert!(
        refused.to_string().starts_with("transaction underpriced"),
        "{refused}"
    );
    let mut ws = WsClient::connect(node.ws_address(), None).expect("a WebSocket");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "mc_sendRawTransaction", "params": [raw]});
    ws.send(&call.to_string());
    let refused: Value = serde_json::from_str(&ws.text()).expect("JSON");
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("transaction underpriced"), "{refused}");
}
