//! The blocks that were refused lately for what they are: for whoever looks for their maker.
//!
//! What the importer knows of bad blocks is elsewhere, in [`crate::import::invalid_blocks`]: more of them, and less
//! of each.

use std::collections::VecDeque;

use parking_lot::Mutex;
use primitives::{B256, Block};

use super::Chain;
use crate::import::ImportError;

/// Most refused blocks that are remembered; the oldest go first.
const BAD_BLOCKS_MAX: usize = 10;

/// A block that was refused for what it is.
#[derive(Clone, Debug)]
pub struct BadBlock {
    /// The block.
    pub block: Block,
    /// Its hash.
    pub hash: B256,
    /// Why it was refused.
    pub reason: String,
}

/// The list, oldest first.
#[derive(Debug, Default)]
pub(super) struct BadBlocks(Mutex<VecDeque<BadBlock>>);

impl BadBlocks {
    /// Notes a block; one that was refused before moves to the end, with its first reason.
    pub(super) fn remember(&self, block: &Block, hash: B256, error: &ImportError) {
        let mut bad = self.0.lock();
        let before = bad.iter().position(|other| other.hash == hash);
        let refused = before.and_then(|index| bad.remove(index));
        if bad.len() >= BAD_BLOCKS_MAX {
            bad.pop_front();
        }
        bad.push_back(refused.unwrap_or_else(|| BadBlock {
            block: block.clone(),
            hash,
            reason: error.to_string(),
        }));
    }
}

impl Chain {
    /// Blocks refused lately for what they are, oldest first.
    pub fn bad_blocks(&self) -> Vec<BadBlock> {
        self.inner.bad_blocks.0.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first_and_none_is_there_twice() {
        let bad = BadBlocks::default();
        let error = ImportError::UnknownParent(B256::ZERO);
        let hash = |mark: usize| B256::repeat_byte(mark as u8);
        for mark in 0..=BAD_BLOCKS_MAX {
            bad.remember(&Block::default(), hash(mark), &error);
        }
        let again = ImportError::KnownInvalid {
            reason: "as told".into(),
        };
        bad.remember(&Block::default(), hash(1), &again);
        let hashes: Vec<_> = bad.0.lock().iter().map(|bad| bad.hash).collect();
        let want: Vec<_> = (2..=BAD_BLOCKS_MAX).chain([1]).map(hash).collect();
        assert_eq!(hashes, want);
        let last = bad.0.lock().pop_back().map(|bad| bad.reason);
        assert_eq!(last, Some(error.to_string()));
    }
}
