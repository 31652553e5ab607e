//! Peers that lie, flood, or do nothing. The node goes on, within its bounds.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use e2e::vnode::Vnode;
use e2e::wait::{FairClock, PATIENCE, wait_for};
use network::NodeContact;
use network::testing::{AnnouncedBlock, Entropy, HeadersRequest, HeadersStart, PackedBlock, PeerMessage};
use primitives::{Address, B256, Block, Transaction, TxForm, U256, UnsignedTransaction};
use serde_json::json;
use tokio::time::timeout;

use crate::peers::support::{
    PlayedPeer, assert_end, assert_memory, connect, enode, genesis, genesis_difficulty, key, peer_count,
    runtime, start_idle,
};

/// Connections that say nothing.
const HALF_OPEN: usize = 200;
/// More than a message may have, and as much as a frame may have.
const LARGE_BYTES: usize = 13 << 20;
/// Peers that send such a message, one after the other.
const LARGE_MESSAGES: u8 = 8;
/// Handshakes of nodes that leave.
const HANDSHAKES: u8 = 100;
/// Memory that such peers may leave behind: a few buffers.
const LEFT_BEHIND: usize = 96 << 20;
/// Transactions of accounts without money.
const UNPAID: u64 = 500;
/// Transactions of one message of a flood, messages of one peer, and peers, one after the other.
const FLOOD_PACK: u64 = 16_000;
const FLOOD_PACKS: u64 = 40;
const FLOOD_PEERS: u8 = 2;
/// The time after which such a peer goes on.
const FLOOD_ROUND: Duration = Duration::from_secs(6);
/// All signatures of such a flood together would take some minutes.
const FLOOD_PROCESSOR: Duration = Duration::from_secs(30);

fn is_alive(node: &Vnode) {
    assert_eq!(node.head(), 0);
    let other = start_idle();
    connect(&other, node);
}

#[test]
fn peers_of_other_chains_are_told_why_and_remembered() {
    let node = start_idle();
    runtime().block_on(async {
        for (byte, is_network) in [(1, true), (2, false)] {
            let mut peer = PlayedPeer::dial(&node, byte).await.expect("a handshake");
            peer.greet(|status| {
                if is_network {
                    status.network_id += 1;
                } else {
                    status.genesis = B256::repeat_byte(7);
                }
            })
            .await;
            assert!(peer.wait_for_end().await.contains("subprotocol"), "reason 16");
            let mut again = PlayedPeer::dial(&node, byte).await.expect("a handshake");
            assert!(again.wait_for_end().await.contains("too many peers"));
        }
    });
    is_alive(&node);
}

#[test]
fn a_block_with_a_wrong_seal_costs_the_place() {
    let node = start_idle();
    runtime().block_on(async {
        let mut peer = PlayedPeer::join(&node, 3).await;
        let mut header = peer.header(0).await;
        header.parent_hash = genesis(&node);
        header.number = 1;
        header.timestamp += 100;
        header.mix_hash = B256::repeat_byte(9);
        let block = Block {
            header,
            ..Block::default()
        };
        peer.send(&PeerMessage::NewBlock(
            Arc::new(PackedBlock::pack(&block)),
            genesis_difficulty() * U256::from(2),
        ));
        assert!(peer.wait_for_end().await.contains("subprotocol"));
    });
    is_alive(&node);
}

#[test]
fn announced_blocks_that_never_come_cost_the_place() {
    let node = start_idle();
    runtime().block_on(async {
        let mut peer = PlayedPeer::join(&node, 4).await;
        let block = |mark: u64| AnnouncedBlock {
            hash: B256::left_padding_from(&mark.to_be_bytes()),
            number: mark % 30,
        };
        for part in 0..10 {
            let blocks = (part * 1000..part * 1000 + 1000).map(block).collect();
            peer.send(&PeerMessage::NewBlockHashes(blocks));
        }
        let mut asked = 0;
        let end = loop {
            match peer.next().await {
                // Every request is answered with nothing.
                Ok(PeerMessage::GetBlockHeaders(id, _)) => {
                    asked += 1;
                    peer.send(&PeerMessage::BlockHeaders(id, Vec::new()));
                }
                Ok(_) => {}
                Err(error) => break error.to_string(),
            }
        };
        assert!((1..=256).contains(&asked), "{asked}");
        assert_end(&end, "subprotocol");
    });
    is_alive(&node);
}

#[test]
fn transactions_that_never_pay_stay_outside() {
    let node = start_idle();
    runtime().block_on(async {
        let mut peer = PlayedPeer::join(&node, 5).await;
        let transaction = |tx_nonce| {
            let unsigned = UnsignedTransaction {
                tx_nonce,
                gas_price: U256::from(1_000_000_000u64),
                gas: 21_000,
                to: Some(Address::repeat_byte(7)),
                value: U256::from(1),
                ..UnsignedTransaction::default()
            };
            unsigned.sign(&key(99), 100, TxForm::Native)
        };
        let all: Vec<_> = (0..UNPAID).map(transaction).collect();
        for part in all.chunks(50) {
            peer.send(&PeerMessage::Transactions(part.to_vec()));
        }
        // The peer is still served.
        peer.send(&PeerMessage::GetBlockBodies(2, vec![genesis(&node)]));
        peer.wait_for(|message| matches!(message, PeerMessage::BlockBodies(..)).then_some(()))
            .await;
    });
    let status = node.rpc("txpool_status", json!([]));
    assert_eq!(
        (&status["pending"], &status["queued"]),
        (&json!("0x0"), &json!("0x0"))
    );
    is_alive(&node);
}

#[test]
fn a_flood_of_transactions_takes_little_memory_and_ends_with_a_ban() {
    let (node, good) = (start_idle(), start_idle());
    connect(&good, &node);
    let before = (node.memory(), node.cpu_time());
    // Each is decoded to some hundred times the memory that it takes on the wire, and has a
    // signature of somebody without money.
    let transaction = |tx_nonce| Transaction {
        form: TxForm::Native,
        syscnt: 0,
        gas: 21_000,
        gas_price: U256::from(1_000_000_000u64),
        to: Some(Address::repeat_byte(7)),
        value: U256::from(1),
        v: U256::from(235),
        // The x of a point, so that the signature has to be checked.
        r: U256::from(1),
        s: U256::from(1),
        input: primitives::Bytes::new(),
        ..Transaction::system(tx_nonce)
    };
    let flood = PeerMessage::Transactions((0..FLOOD_PACK).map(transaction).collect());
    runtime().block_on(async {
        for byte in 0..FLOOD_PEERS {
            let mut peer = PlayedPeer::join(&node, 40 + byte).await;
            peer.flush().await;
            let (code, pack) = flood.encode(peer.protocol);
            // The flood is judged again if it goes on after the pause.
            let end = loop {
                for _ in 0..FLOOD_PACKS {
                    peer.connection.send(0, code, &pack).expect("there is room");
                }
                if let Ok(end) = timeout(FLOOD_ROUND, peer.wait_for_end()).await {
                    break end;
                }
            };
            assert_end(&end, "subprotocol");
        }
    });
    let (after, took) = (node.memory(), node.cpu_time().saturating_sub(before.1));
    assert_memory(before.0, after, LEFT_BEHIND);
    assert!(took < FLOOD_PROCESSOR, "{took:?} of processor");
    assert_eq!(peer_count(&node), 1, "the good peer goes on");
    is_alive(&node);
}

#[test]
fn answers_have_bounds() {
    let node = start_idle();
    node.rpc("miner_start", json!([1]));
    node.wait_for_head(3);
    node.rpc("miner_stop", json!([]));
    let head = node.head() as usize;
    runtime().block_on(async {
        let mut peer = PlayedPeer::join(&node, 6).await;
        for (start, skip, reverse, expected) in [
            (0, 0, false, head + 1),
            (0, u64::MAX, false, 1),
            (1, u64::MAX - 1, true, 1),
            (1, 0, true, 2),
            (1, 1, false, head.div_ceil(2)),
            (10_000, 0, false, 0),
        ] {
            let request = HeadersRequest {
                start: HeadersStart::Number(start),
                amount: u64::MAX,
                skip,
                reverse,
            };
            peer.send(&PeerMessage::GetBlockHeaders(7, request));
            let count = peer
                .wait_for(|message| match message {
                    PeerMessage::BlockHeaders(_, headers) => Some(headers.len()),
                    _ => None,
                })
                .await;
            assert_eq!(count, expected, "{request:?}");
        }
        // Unknown hashes are left out, and the list is not read to its end.
        let unknown = vec![B256::repeat_byte(7); 16_000];
        peer.send(&PeerMessage::GetBlockBodies(8, unknown));
        let bodies = peer
            .wait_for(|message| match message {
                PeerMessage::BlockBodies(_, bodies) => Some(bodies.len()),
                _ => None,
            })
            .await;
        assert_eq!(bodies, 0);
    });
}

#[test]
fn half_open_connections_do_not_keep_others_out() {
    let node = start_idle();
    let address = crate::peers::support::enode(&node);
    let open = || TcpStream::connect(("127.0.0.1", address.port));
    let silent: Vec<_> = (0..HALF_OPEN).filter_map(|_| open().ok()).collect();
    assert!(!silent.is_empty());
    let runtime = runtime();
    // After five seconds their handshakes have failed.
    let mut peer = wait_for("a place for a handshake", || {
        let dialled = runtime.block_on(PlayedPeer::dial(&node, 7));
        if dialled.is_err() {
            std::thread::sleep(Duration::from_millis(200));
        }
        dialled.ok()
    });
    runtime.block_on(peer.greet(|_| {}));
    // The played peer counts only while somebody reads for it.
    let joined = async {
        peer.send(&PeerMessage::GetBlockBodies(1, vec![genesis(&node)]));
        peer.wait_for(|message| matches!(message, PeerMessage::BlockBodies(..)).then_some(()))
            .await;
    };
    runtime.block_on(joined);
    assert_eq!(peer_count(&node), 1);
}

/// Sends `bytes` one after another until the node ends the connection. Returns how long that took.
fn trickle(address: SocketAddr, bytes: impl Iterator<Item = u8>) -> Duration {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a time limit");
    let began = Instant::now();
    let mut clock = FairClock::start();
    for byte in bytes {
        if stream.write_all(&[byte]).is_err() {
            break;
        }
        match stream.read(&mut [0; 64]) {
            Ok(0) => break,
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Ok(_) | Err(_) => {}
        }
        assert!(clock.elapsed() < PATIENCE, "the connection is still open");
    }
    began.elapsed()
}

#[test]
fn bytes_that_come_one_by_one_do_not_keep_a_connection_open() {
    let node = start_idle();
    let contact = NodeContact::from_enode(&enode(&node)).expect("an address");
    let address = SocketAddr::new(contact.ip, contact.tcp);
    // The first two bytes of a handshake tell its length. Its end never comes.
    let long_handshake = [0x01, 0xff].into_iter().chain(std::iter::repeat(7));
    let tricklers: Vec<_> = (0..20)
        .map(|_| {
            let bytes = long_handshake.clone();
            std::thread::spawn(move || trickle(address, bytes))
        })
        .collect();
    // Meanwhile others become peers.
    let other = start_idle();
    connect(&other, &node);
    for one in tricklers {
        let took = one.join().expect("the connection ends");
        // The time of the handshake counts from its begin, and not from the last byte.
        assert!(took < Duration::from_secs(30), "{took:?}");
    }
    assert_eq!(peer_count(&node), 1);
    is_alive(&node);
}

#[test]
fn large_messages_and_handshakes_leave_nothing_behind() {
    let (node, good) = (start_idle(), start_idle());
    connect(&good, &node);
    let descriptors = || {
        let folder = format!("/proc/{}/fd", node.id());
        std::fs::read_dir(folder).expect("the process runs").count()
    };
    let before = (node.memory(), descriptors());
    let runtime = runtime();
    runtime.block_on(async {
        let mut entropy = Entropy::from_seed([7; 32]);
        for byte in 0..LARGE_MESSAGES {
            let dialled = PlayedPeer::dial_to_send(&node, 20 + byte, LARGE_BYTES).await;
            let mut peer = dialled.expect("a handshake");
            peer.greet(|_| {}).await;
            peer.flush().await;
            // Random bytes cannot be compressed.
            let mut bytes = vec![0; LARGE_BYTES];
            entropy.fill(&mut bytes);
            peer.connection.send(0, 2, &bytes).expect("there is room");
            let end = peer.wait_for_end().await;
            assert_end(&end, "breach");
        }
        for byte in 0..HANDSHAKES {
            let peer = PlayedPeer::dial(&node, 100 + byte).await;
            drop(peer.expect("a handshake"));
        }
    });
    wait_for("the descriptors of the peers that are gone", || {
        (descriptors() <= before.1 + 2).then_some(())
    });
    let after = node.memory();
    assert_memory(before.0, after, LEFT_BEHIND);
    assert_eq!(peer_count(&node), 1, "the good peer goes on");
    is_alive(&node);
}
