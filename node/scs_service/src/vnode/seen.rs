//! Remembers hashes: the last so many, first in, first out.

use std::collections::{HashSet, VecDeque};

use parking_lot::Mutex;
use primitives::B256;

/// The last hashes, up to a number.
#[derive(Debug)]
pub(super) struct SeenHashes {
    count_max: usize,
    state: Mutex<SeenState>,
}

#[derive(Debug, Default)]
struct SeenState {
    known: HashSet<B256>,
    order: VecDeque<B256>,
}

impl SeenHashes {
    pub(super) fn new(count_max: usize) -> Self {
        Self {
            count_max,
            state: Mutex::default(),
        }
    }

    pub(super) fn contains(&self, hash: &B256) -> bool {
        self.state.lock().known.contains(hash)
    }

    /// Forgets a hash.
    pub(super) fn remove(&self, hash: &B256) {
        let state = &mut *self.state.lock();
        if state.known.remove(hash) {
            state.order.retain(|known| known != hash);
        }
    }

    /// Remembers a hash. Returns whether it was new.
    pub(super) fn insert(&self, hash: B256) -> bool {
        let state = &mut *self.state.lock();
        if !state.known.insert(hash) {
            return false;
        }
        state.order.push_back(hash);
        if state.order.len() > self.count_max
            && let Some(oldest) = state.order.pop_front()
        {
            state.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_hash_is_forgotten() {
        let seen = SeenHashes::new(2);
        let [one, two, three] = [1, 2, 3].map(B256::repeat_byte);
        assert!(seen.insert(one) && seen.insert(two));
        assert!(!seen.insert(one), "it is known and keeps its age");
        assert!(seen.insert(three));
        assert!(!seen.contains(&one) && seen.contains(&two) && seen.contains(&three));
        seen.remove(&two);
        seen.remove(&one);
        assert!(
            !seen.contains(&two) && seen.insert(one) && seen.contains(&three),
            "two places again"
        );
    }
}
