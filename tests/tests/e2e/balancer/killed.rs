//! One of three nodes is killed under load: what was accepted is not lost, and clients of the other
//! nodes notice nothing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use chain::spec::DEV_ACCOUNTS;
use e2e::balancer::Balancer;
use e2e::process::EndSignal;
use e2e::wait::{note, wait_for};
use e2e::work::search_within;
use e2e::ws::WsClient;
use e2e::{Caller, RpcCallError};
use primitives::{SecretKey, TxForm, U256, UnsignedTransaction, hex};
use serde_json::{Value, json};

use crate::balancer::nodes::{clients_of, connect, id_of, node_id, three};

/// Transactions that are accepted before the kill, and again as many after it.
const ACCEPTED: usize = 150;
/// Pause of a client between two requests.
const REQUEST_PAUSE: Duration = Duration::from_millis(10);
/// The client that mines.
const MINER: u8 = 200;
/// The id of the development network's chain.
const CHAIN_ID: u64 = 100;

/// The successes and failures of the clients.
#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    /// Hashes that were returned.
    accepted: Mutex<Vec<String>>,
    /// Transactions that had to be sent again, and why.
    sent_again: Mutex<Vec<String>>,
    reads: AtomicU64,
    failed_reads: Mutex<Vec<String>>,
    solutions: AtomicU64,
    refused_solutions: AtomicU64,
}

impl Load {
    /// Waits until so many transactions were accepted.
    fn wait_for_accepted(&self, count: usize) {
        wait_for("accepted transactions", || {
            (self.accepted.lock().expect("no panic").len() >= count).then_some(())
        });
    }
}

/// Ends the load, also when the test fails: the clients' threads are waited for.
struct EndOfLoad<'a>(&'a Load);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

fn is_on(load: &Load) -> bool {
    !load.is_over.load(Ordering::Relaxed)
}

/// Sends transactions of a development account. A transaction without a hash is sent again, as
/// wallets do.
fn send(client: &Caller, account: usize, load: &Load) {
    let key: [u8; 32] = hex::decode(DEV_ACCOUNTS[account].1)
        .expect("hex")
        .try_into()
        .expect("32 bytes");
    let key = SecretKey::from_bytes(&key).expect("a key");
    let mut tx_nonce = 0;
    while is_on(load) {
        let unsigned = UnsignedTransaction {
            tx_nonce,
            gas_price: U256::from(20_000_000_000_u64),
            gas: 21_000,
            to: Some(DEV_ACCOUNTS[9].0),
            value: U256::from(1),
            ..Default::default()
        };
        let signed = unsigned.sign(&key, CHAIN_ID, TxForm::Native);
        let raw = format!("0x{}", hex::encode(signed.encode_raw()));
        match client.try_rpc("mc_sendRawTransaction", json!([raw])) {
            Ok(hash) => {
                let hash = hash.as_str().expect("a hash").to_owned();
                load.accepted.lock().expect("no panic").push(hash);
                tx_nonce += 1;
            }
            // The node that was killed has passed it on before it could answer.
            Err(RpcCallError::Refused { message, .. })
                if message.contains("known transaction") || message.contains("nonce too low") =>
            {
                load.sent_again.lock().expect("no panic").push(message);
                tx_nonce += 1;
            }
            Err(error) => load.sent_again.lock().expect("no panic").push(error.to_string()),
        }
        std::thread::sleep(REQUEST_PAUSE);
    }
}

/// Reads, and counts what is not answered.
fn read(client: &Caller, load: &Load) {
    while is_on(load) {
        let balance = client.try_rpc("mc_getBalance", json!([DEV_ACCOUNTS[9].0, "latest"]));
        load.reads.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = balance {
            load.failed_reads
                .lock()
                .expect("no panic")
                .push(error.to_string());
        }
        std::thread::sleep(REQUEST_PAUSE);
    }
}

/// Mines by `mc_getWork` and `mc_submitWork`: the only miner of this chain.
fn mine(client: &Caller, load: &Load) {
    let mut nonce = 1;
    while is_on(load) {
        let Ok(work) = client.try_work() else {
            std::thread::sleep(REQUEST_PAUSE);
            continue;
        };
        let head = client.head();
        // A further attempt at the same work looks at other nonces.
        nonce += 1 << 32;
        let Some(solution) = search_within(&work, nonce, Duration::from_secs(5)) else {
            continue;
        };
        if client.submit(&solution) {
            load.solutions.fetch_add(1, Ordering::Relaxed);
            client.wait_for_head(head + 1);
        } else {
            load.refused_solutions.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn subscribe(balancer: &Balancer, client: u8, id: &str) -> WsClient {
    let mut socket = WsClient::connect_from(Some(Balancer::source(client)), balancer.address(), None)
        .expect("a WebSocket through the balancer");
    assert_eq!(id_of(&socket.rpc("admin_nodeInfo", json!([]))), id, "its node");
    socket.rpc("mc_subscribe", json!(["newHeads"]));
    socket
}

/// Waits for a block that the filter has not told of yet.
fn new_block(client: &Caller, filter: &Value) {
    wait_for("a block of the filter", || {
        let changes = client.rpc("mc_getFilterChanges", json!([filter]));
        (!changes.as_array().expect("a list").is_empty()).then_some(())
    });
}

#[test]
fn nothing_accepted_is_lost_when_a_node_is_killed() {
    let (nodes, addresses) = three();
    let Some(balancer) = Balancer::start(addresses) else {
        return;
    };
    let ids = [0, 1, 2].map(|node| node_id(&nodes[node]));
    for (from, to) in [(1, 0), (2, 0), (2, 1)] {
        connect(&nodes[from], &nodes[to]);
    }
    let mut nodes = nodes.map(Some);
    let load = Load::default();
    std::thread::scope(|scope| {
        let load = &load;
        let _end = EndOfLoad(load);
        // The balancer has no node for a miner until one has a young head.
        let first = Load::default();
        std::thread::scope(|scope| {
            let _end = EndOfLoad(&first);
            let direct = Caller::new(addresses[0]);
            let first = &first;
            scope.spawn(move || mine(&direct, first));
            wait_for("three nodes that are ready", || {
                (balancer.servers_in("ready") == [true; 3]).then_some(())
            });
        });
        let miner = balancer.client(MINER);
        scope.spawn(move || mine(&miner, load));
        // Clients that came while no head was new may be on any node, so the others come only now.
        let clients = clients_of(&balancer, &ids);
        assert!(clients.iter().all(|clients| clients.len() >= 5), "{clients:?}");
        let client = |node: usize, index: usize| balancer.client(clients[node][index]);
        // The miner's node is neither the one that is killed nor the one with the filter.
        let home = node_id(&balancer.client(MINER));
        let others: Vec<_> = (0..3).filter(|node| ids[*node] != home).collect();
        let [safe, doomed] = others[..] else {
            panic!("the miner is on {home}, which is none of {ids:?}");
        };
        let senders = [(doomed, 0), (doomed, 1), (safe, 0), (safe, 1)];
        for (account, (node, index)) in senders.into_iter().enumerate() {
            let client = client(node, index);
            scope.spawn(move || send(&client, account, load));
        }
        for (node, index) in [(safe, 2), (doomed, 2), (doomed, 3)] {
            let client = client(node, index);
            scope.spawn(move || read(&client, load));
        }
        // Filters and WebSockets stay on their nodes.
        let (filter_client, lost_client) = (client(safe, 3), client(doomed, 4));
        let filter = filter_client.rpc("mc_newBlockFilter", json!([]));
        let lost_filter = lost_client.rpc("mc_newBlockFilter", json!([]));
        let mut socket = subscribe(&balancer, clients[safe][4], &ids[safe]);
        let lost_socket = subscribe(&balancer, clients[doomed][3], &ids[doomed]);
        new_block(&filter_client, &filter);
        new_block(&lost_client, &lost_filter);
        socket.notification();
        load.wait_for_accepted(ACCEPTED);

        let before = load.solutions.load(Ordering::Relaxed);
        nodes[doomed].take().expect("it runs").end(EndSignal::Kill);
        // Sockets and filters of the other nodes go on.
        for _ in 0..3 {
            new_block(&filter_client, &filter);
            socket.notification();
        }
        assert_eq!(node_id(&filter_client), ids[safe], "its client has not moved");
        wait_for("accepted solutions after the kill", || {
            (load.solutions.load(Ordering::Relaxed) > before + 1).then_some(())
        });
        // Sockets and filters of the killed node begin anew, on another node.
        lost_socket.wait_for_end();
        let moved = node_id(&lost_client);
        assert!(ids.contains(&moved) && moved != ids[doomed], "{moved}");
        lost_client.refused("mc_getFilterChanges", json!([lost_filter]), -32000);
        let new_filter = lost_client.rpc("mc_newBlockFilter", json!([]));
        new_block(&lost_client, &new_filter);
        let id = node_id(&client(doomed, 3));
        subscribe(&balancer, clients[doomed][3], &id).notification();
        let expected = [0, 1, 2].map(|node| node != doomed);
        wait_for("the killed node to be out", || {
            (balancer.servers_in("ready") == expected).then_some(())
        });
        let accepted = load.accepted.lock().expect("no panic").len();
        load.wait_for_accepted(accepted + ACCEPTED);
        // The miner goes on until the transactions that were accepted so far are mined.
        let sent = load.accepted.lock().expect("no panic").clone();
        for hash in sent {
            for node in nodes.iter().flatten() {
                assert_eq!(node.receipt(&hash)["status"], "0x1", "{hash}");
            }
        }
    });
    let failed = load.failed_reads.into_inner().expect("no panic");
    assert_eq!(
        failed, [""; 0],
        "each read is answered, by another node if need be"
    );
    assert_eq!(
        load.refused_solutions.into_inner(),
        0,
        "each solution reaches the node that gave the work out"
    );
    let again = load.sent_again.into_inner().expect("no panic");
    note(&format!(
        "a node was killed under load: {} transactions accepted and mined, {} sent again, {} reads, {} solutions",
        load.accepted.into_inner().expect("no panic").len(),
        again.len(),
        load.reads.into_inner(),
        load.solutions.into_inner(),
    ));
}
