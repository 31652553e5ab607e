//! What passes between whoever makes blocks and whoever searches nonces for them.

use crate::{B256, Epoch};

/// Work for a searcher: find a nonce whose final hash is at or below `boundary`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkPackage {
    /// Hash of the header without its seal; never the block hash.
    pub header_hash: B256,
    /// Names the epoch on the wire.
    pub seed_hash: B256,
    /// 2^256 / difficulty, read as a big-endian number.
    pub boundary: B256,
    /// Block number, where whoever gave the work told it.
    pub number: Option<u64>,
    /// The epoch of `seed_hash` under the schedule of the chain.
    pub epoch: Epoch,
}

/// A nonce that solves a work package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Solution {
    /// The header hash of the work this solves.
    pub header_hash: B256,
    /// The nonce; its big-endian bytes are the seal.
    pub pow_nonce: u64,
    /// The mix that proves the dataset was read.
    pub mix_hash: B256,
}
