//! The blocks that were refused lately because they are invalid, for users who look for the maker
//! of such blocks.
//!
//! The importer has a cache of its own in [`crate::import::failed_executions`]. That one remembers
//! more blocks, but only hashes and reasons, and only of blocks whose execution has failed.

use std::collections::VecDeque;

use parking_lot::Mutex;
use primitives::{B256, Block};

use super::Chain;
use crate::import::ImportError;

/// The most bad blocks that are remembered. The oldest are forgotten first.
const BAD_BLOCKS_MAX: usize = 10;

/// A block that was refused because it is invalid.
#[derive(Clone, Debug)]
pub struct BadBlock {
    /// The block.
    pub block: Block,
    /// Its hash.
    pub hash: B256,
    /// The reason why it was refused.
    pub reason: String,
}

/// The last bad blocks, oldest first.
#[derive(Debug, Default)]
pub(super) struct BadBlockList(Mutex<VecDeque<BadBlock>>);

impl BadBlockList {
    /// Remembers a block. A block that is in the list already moves to the end and keeps its first
    /// reason.
    pub(super) fn remember(&self, block: &Block, hash: B256, error: &ImportError) {
        let mut list = self.0.lock();
        let index = list.iter().position(|bad| bad.hash == hash);
        let known = index.and_then(|index| list.remove(index));
        if list.len() >= BAD_BLOCKS_MAX {
            list.pop_front();
        }
        list.push_back(known.unwrap_or_else(|| BadBlock {
            block: block.clone(),
            hash,
            reason: error.to_string(),
        }));
    }
}

impl Chain {
    /// The blocks that were refused lately because they are invalid, oldest first.
    pub fn bad_blocks(&self) -> Vec<BadBlock> {
        self.inner.bad_blocks.0.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first_and_none_is_there_twice() {
        let list = BadBlockList::default();
        let error = ImportError::UnknownParent(B256::ZERO);
        let hash = |mark: usize| B256::repeat_byte(mark as u8);
        for mark in 0..=BAD_BLOCKS_MAX {
            list.remember(&Block::default(), hash(mark), &error);
        }
        let again = ImportError::KnownInvalid {
            reason: "of the test".into(),
        };
        list.remember(&Block::default(), hash(1), &again);
        let hashes: Vec<_> = list.0.lock().iter().map(|bad| bad.hash).collect();
        let expected: Vec<_> = (2..=BAD_BLOCKS_MAX).chain([1]).map(hash).collect();
        assert_eq!(hashes, expected);
        let last = list.0.lock().pop_back().map(|bad| bad.reason);
        assert_eq!(last, Some(error.to_string()));
    }
}
