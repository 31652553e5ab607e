//! The types that pass between a maker of blocks and a searcher of nonces: work and its solution.

use crate::{B256, Epoch};

/// Work for a searcher: find a nonce whose final hash is less than or equal to `boundary`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkPackage {
    /// Hash of the header without its seal; never the block hash.
    pub header_hash: B256,
    /// The seed hash of the epoch, which names the epoch in getWork and Stratum.
    pub seed_hash: B256,
    /// 2^256 / difficulty, as a big-endian number.
    pub boundary: B256,
    /// The number of the block; `None` if the source of the work did not say it.
    pub number: Option<u64>,
    /// The epoch of `seed_hash` in the chain's schedule.
    pub epoch: Epoch,
}

/// A nonce that solves a work package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Solution {
    /// The header hash of the solved work.
    pub header_hash: B256,
    /// The nonce; its big-endian bytes are the seal.
    pub pow_nonce: u64,
    /// The mix hash, which proves that the dataset was read.
    pub mix_hash: B256,
}
