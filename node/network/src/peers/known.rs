//! Hashes that are remembered, up to a bound.

use std::collections::{HashSet, VecDeque};

use primitives::B256;

/// A set of hashes. When it is full, the one that was added first is forgotten.
#[derive(Clone, Debug)]
pub(super) struct KnownHashes {
    hashes: HashSet<B256>,
    order: VecDeque<B256>,
    bound: usize,
}

impl KnownHashes {
    /// An empty set of at most `bound` hashes.
    pub(super) fn new(bound: usize) -> Self {
        Self {
            hashes: HashSet::new(),
            order: VecDeque::new(),
            bound,
        }
    }

    /// Adds a hash. Returns whether it was not known.
    pub(super) fn add(&mut self, hash: B256) -> bool {
        if !self.hashes.insert(hash) {
            return false;
        }
        if self.order.len() >= self.bound
            && let Some(oldest) = self.order.pop_front()
        {
            self.hashes.remove(&oldest);
        }
        self.order.push_back(hash);
        true
    }

    /// Forgets a hash.
    pub(super) fn remove(&mut self, hash: &B256) {
        if self.hashes.remove(hash) {
            self.order.retain(|other| other != hash);
        }
    }

    /// Whether the hash is remembered.
    pub(super) fn contains(&self, hash: &B256) -> bool {
        self.hashes.contains(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let hash = B256::repeat_byte;
        let mut known = KnownHashes::new(3);
        assert!((1..=3).all(|byte| known.add(hash(byte))));
        assert!(!known.add(hash(1)), "known already");
        assert!(known.add(hash(4)));
        let left: Vec<_> = (1..=4).filter(|byte| known.contains(&hash(*byte))).collect();
        assert_eq!(left, [2, 3, 4]);
        assert_eq!((known.hashes.len(), known.order.len()), (3, 3));
        known.remove(&hash(3));
        known.remove(&hash(9));
        assert!(!known.contains(&hash(3)));
        assert_eq!((known.hashes.len(), known.order.len()), (2, 2));
    }
}
