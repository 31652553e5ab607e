//! Blocks that were executed and found bad, so that none is executed again for each new block
//! of its branch. The newest are remembered, for as long as the program runs.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use primitives::B256;

/// Most bad blocks remembered.
const BAD_BLOCKS_MAX: usize = 1024;

/// Hashes of bad blocks, with what is wrong. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct BadBlocks {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    reasons: HashMap<B256, Arc<str>>,
    /// Oldest first.
    order: VecDeque<B256>,
}

impl BadBlocks {
    /// Remembers a block. What it is refused for follows from its hash alone: the hash answers
    /// for the body, and body and parent for what executing gives.
    pub(crate) fn insert(&self, hash: B256, reason: &str) {
        let mut inner = self.inner.lock();
        if inner.reasons.insert(hash, reason.into()).is_some() {
            return;
        }
        inner.order.push_back(hash);
        if inner.order.len() > BAD_BLOCKS_MAX
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.reasons.remove(&oldest);
        }
    }

    /// Why a block is bad, where it is known to be.
    pub(crate) fn reason(&self, hash: &B256) -> Option<Arc<str>> {
        self.inner.lock().reasons.get(hash).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered() {
        let bad = BadBlocks::default();
        let hash = |index: usize| B256::from(primitives::U256::from(index));
        for index in 0..=BAD_BLOCKS_MAX {
            bad.insert(hash(index), "wrong");
            bad.insert(hash(index), "wrong still");
        }
        assert_eq!(bad.reason(&hash(0)), None);
        assert_eq!(bad.reason(&hash(1)).as_deref(), Some("wrong still"));
        assert!(bad.clone().reason(&hash(BAD_BLOCKS_MAX)).is_some());
    }
}
