//! Hashes that are remembered, up to a bound.

use std::collections::{HashSet, VecDeque};

use primitives::B256;

/// A set of hashes. When it is full, the one that was added first is forgotten.
///
/// Of each hash 8 bytes are kept, so a full set of 32,768 takes less than 1 MiB. Whoever wants two
/// transactions or messages with the same 8 bytes has to compute 2^64 hashes.
#[derive(Clone, Debug)]
pub(super) struct KnownHashes {
    marks: HashSet<u64>,
    order: VecDeque<u64>,
    bound: usize,
}

/// The bytes of a hash that are kept.
fn mark(hash: &B256) -> u64 {
    let (_, last) = hash.0.split_last_chunk::<8>().unwrap_or((&[], &[0; 8]));
    u64::from_be_bytes(*last)
}

impl KnownHashes {
    /// An empty set of at most `bound` hashes.
    pub(super) fn new(bound: usize) -> Self {
        Self {
            marks: HashSet::new(),
            order: VecDeque::new(),
            bound,
        }
    }

    /// Adds a hash. Returns whether it was not known.
    pub(super) fn add(&mut self, hash: B256) -> bool {
        let mark = mark(&hash);
        if !self.marks.insert(mark) {
            return false;
        }
        if self.order.len() >= self.bound
            && let Some(oldest) = self.order.pop_front()
        {
            self.marks.remove(&oldest);
        }
        self.order.push_back(mark);
        true
    }

    pub(super) fn remove(&mut self, hash: &B256) {
        let mark = mark(hash);
        if self.marks.remove(&mark) {
            self.order.retain(|other| *other != mark);
        }
    }

    pub(super) fn contains(&self, hash: &B256) -> bool {
        self.marks.contains(&mark(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_set_takes_less_than_a_mebibyte() {
        let mut known = KnownHashes::new(32_768);
        for number in 0..100_000_u64 {
            known.add(primitives::keccak256(number.to_be_bytes()));
        }
        // A hash set keeps a byte beside each entry, and has room for one part in seven more.
        let set = known.marks.capacity() * 8 / 7 * (size_of::<u64>() + 1);
        let all = set + known.order.capacity() * size_of::<u64>();
        assert!(all < 1 << 20, "{all}");
    }

    #[test]
    fn the_oldest_is_forgotten() {
        let hash = B256::repeat_byte;
        let mut known = KnownHashes::new(3);
        assert!((1..=3).all(|byte| known.add(hash(byte))));
        assert!(!known.add(hash(1)), "known already");
        assert!(known.add(hash(4)));
        let left: Vec<_> = (1..=4).filter(|byte| known.contains(&hash(*byte))).collect();
        assert_eq!(left, [2, 3, 4]);
        assert_eq!((known.marks.len(), known.order.len()), (3, 3));
        known.remove(&hash(3));
        known.remove(&hash(9));
        assert!(!known.contains(&hash(3)));
        assert_eq!((known.marks.len(), known.order.len()), (2, 2));
    }
}
