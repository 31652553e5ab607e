//! Blocks that were executed and found invalid. They are remembered so that such a block is not
//! executed again for each new block of its branch.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use primitives::B256;

/// The most blocks that are remembered. The oldest are forgotten first.
pub(super) const FAILED_EXECUTIONS_MAX: usize = 1024;

/// Hashes of blocks whose execution has failed, each with the reason. It lives as long as the
/// process. Clones share it.
///
/// The list of invalid blocks for users is another one: see [`crate::chain::BadBlock`].
#[derive(Clone, Debug, Default)]
pub(crate) struct FailedExecutionCache {
    entries: Arc<Mutex<FailedExecutions>>,
}

#[derive(Debug, Default)]
struct FailedExecutions {
    reasons: HashMap<B256, Arc<str>>,
    /// Oldest first.
    order: VecDeque<B256>,
}

impl FailedExecutionCache {
    /// Remembers a block.
    ///
    /// Its hash alone decides about its validity: the hash covers the body and the parent,
    /// and these decide the outcome of the execution.
    pub(crate) fn insert(&self, hash: B256, reason: &str) {
        let mut entries = self.entries.lock();
        if entries.reasons.insert(hash, reason.into()).is_some() {
            return;
        }
        entries.order.push_back(hash);
        if entries.order.len() > FAILED_EXECUTIONS_MAX
            && let Some(oldest) = entries.order.pop_front()
        {
            entries.reasons.remove(&oldest);
        }
    }

    /// The reason why a block is invalid; `None` if it is not known to be invalid.
    pub(crate) fn reason(&self, hash: &B256) -> Option<Arc<str>> {
        self.entries.lock().reasons.get(hash).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered() {
        let cache = FailedExecutionCache::default();
        let hash = |index: usize| B256::from(primitives::U256::from(index));
        for index in 0..=FAILED_EXECUTIONS_MAX {
            cache.insert(hash(index), "wrong");
            cache.insert(hash(index), "wrong still");
        }
        assert_eq!(cache.reason(&hash(0)), None);
        assert_eq!(cache.reason(&hash(1)).as_deref(), Some("wrong still"));
        assert!(cache.reason(&hash(FAILED_EXECUTIONS_MAX)).is_some());
    }
}
