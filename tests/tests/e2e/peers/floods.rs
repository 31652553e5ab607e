//! Peers that flood a node with blocks which nobody has worked for. Honest blocks go on.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chain::rules::body::transactions_root;
use e2e::vnode::Vnode;
use network::testing::{MESSAGE_TRANSACTIONS_MAX, PackedBlock, PeerMessage};
use primitives::{B256, Block, Header, Transaction, U256, uncles_hash};
use serde_json::json;

use crate::peers::support::{
    PlayedPeer, assert_end, assert_memory, connect, genesis, genesis_difficulty, runtime, start_idle,
};

/// Peers that flood, one after the other.
const FLOODERS: u8 = 6;
/// Blocks that each of them sends. Decoded, those of one have some 400 MiB.
const BLOCKS: u64 = 16;
/// Memory that the flood may cost.
const LEFT_BEHIND: usize = 160 << 20;
/// Blocks that are mined meanwhile.
const MINED: u128 = 3;

/// A block on block 0 with as many empty transactions as a message may have. Only its seal is
/// missing.
fn junk(node: &Vnode, parent: &Header) -> Block {
    let transactions = vec![Transaction::system(0); MESSAGE_TRANSACTIONS_MAX];
    let header = Header {
        parent_hash: genesis(node),
        number: 1,
        uncles_hash: uncles_hash(&[]),
        transactions_root: transactions_root(&transactions),
        mix_hash: B256::repeat_byte(9),
        ..parent.clone()
    };
    Block {
        header,
        transactions,
        uncles: Vec::new(),
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_secs()
}

#[test]
fn blocks_without_a_seal_hold_up_no_honest_block() {
    let (node, miner) = (start_idle(), start_idle());
    connect(&miner, &node);
    let runtime = runtime();
    let parent = runtime.block_on(async { PlayedPeer::join(&node, 30).await.header(0).await });
    let mut block = junk(&node, &parent);
    let before = node.memory();
    let mut largest = before;
    // In time, within what blocks may wait, and far ahead of the clock.
    for (at, ahead) in (0..FLOODERS).zip([0, 10, 1000].into_iter().cycle()) {
        block.header.timestamp = now() + ahead;
        let packed: Vec<_> = (0..BLOCKS)
            .map(|mark| {
                block.header.pow_nonce = mark;
                Arc::new(PackedBlock::pack(&block))
            })
            .collect();
        runtime.block_on(async {
            let mut peer = PlayedPeer::join(&node, 40 + at).await;
            let total_difficulty = genesis_difficulty() * U256::from(2);
            for block in packed {
                peer.send(&PeerMessage::NewBlock(block, total_difficulty));
            }
            let end = peer.wait_for_end().await;
            assert_end(&end, "subprotocol");
        });
        largest = largest.max(node.memory());
        if at == FLOODERS / 2 {
            miner.rpc("miner_start", json!([1]));
        }
    }
    miner.wait_for_head(MINED);
    node.wait_for_head(MINED);
    std::thread::sleep(Duration::from_millis(100));
    largest = largest.max(node.memory());
    println!("{before} bytes before, {largest} at most");
    assert_memory(before, largest, LEFT_BEHIND);
}
