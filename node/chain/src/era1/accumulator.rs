//! The accumulator of an Era1 file: the SSZ root of the list of its blocks.
//!
//! Each block is a container of block hash (32 bytes) and total difficulty (uint256,
//! little-endian). The list has at most 8,192 entries. Its length is mixed into its root, so two
//! lists have the same root only if they are the same.

use primitives::{B256, U256};
use sha2::{Digest, Sha256};

/// Levels of the tree above 8,192 leaves.
const DEPTH: usize = 13;

/// The accumulator of blocks with these hashes and total difficulties, in order.
pub fn accumulator(blocks: &[(B256, U256)]) -> B256 {
    let leaf = |(hash, total_difficulty): &(B256, U256)| {
        pair(hash, &B256::from(total_difficulty.to_le_bytes::<32>()))
    };
    let mut nodes: Vec<B256> = blocks.iter().map(leaf).collect();
    // The root of the subtree without any block, at each level.
    let mut empty = B256::ZERO;
    for _ in 0..DEPTH {
        nodes = nodes
            .chunks(2)
            .map(|two| pair(&two[0], two.get(1).unwrap_or(&empty)))
            .collect();
        empty = pair(&empty, &empty);
    }
    let root = nodes.first().copied().unwrap_or(empty);
    pair(&root, &B256::from(U256::from(blocks.len()).to_le_bytes::<32>()))
}

fn pair(left: &B256, right: &B256) -> B256 {
    let mut hasher = Sha256::new();
    hasher.update(left);
    hasher.update(right);
    B256::from(<[u8; 32]>::from(hasher.finalize()))
}
