//! The hashes of transactions as they became pending, for filters and subscriptions.
//!
//! A reader keeps a cursor and has no queue of its own, so readers cost no memory here. Only the
//! last [`PENDING_FEED_MAX`] hashes are kept. A reader learns how many older hashes it has missed.

use std::collections::VecDeque;

use primitives::B256;

/// The most hashes that are kept.
pub const PENDING_FEED_MAX: usize = 1 << 16;

/// The transactions that became pending since a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingHashes {
    /// Their hashes, oldest first.
    pub hashes: Vec<B256>,
    /// The cursor for the next read.
    pub cursor: u64,
    /// The number of hashes between the old cursor and the first hash that are not kept any more.
    pub missed: u64,
}

/// The last hashes. The cursor of a hash is the number of hashes that came before it.
#[derive(Debug, Default)]
pub struct PendingFeed {
    hashes: VecDeque<B256>,
    cursor: u64,
}

impl PendingFeed {
    /// Adds the hash of a transaction that has become pending. The oldest hash goes if there are
    /// too many.
    pub fn push(&mut self, hash: B256) {
        if self.hashes.len() == PENDING_FEED_MAX {
            self.hashes.pop_front();
        }
        self.hashes.push_back(hash);
        self.cursor += 1;
    }

    /// The cursor of the next hash.
    pub const fn cursor(&self) -> u64 {
        self.cursor
    }

    /// At most `max` hashes that came since `cursor`.
    pub fn since(&self, cursor: u64, max: usize) -> PendingHashes {
        let kept = self.hashes.len() as u64;
        let wanted = self.cursor.saturating_sub(cursor);
        let available = wanted.min(kept);
        // At most the length of a queue, so the number fits into usize.
        let from = (kept - available) as usize;
        let hashes: Vec<_> = self.hashes.range(from..).take(max).copied().collect();
        PendingHashes {
            cursor: self.cursor - available + hashes.len() as u64,
            hashes,
            missed: wanted - available,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(index: u64) -> B256 {
        B256::left_padding_from(&index.to_be_bytes())
    }

    #[test]
    fn a_cursor_gets_each_hash_once_and_learns_what_it_missed() {
        let mut feed = PendingFeed::default();
        assert_eq!(feed.since(0, usize::MAX), PendingHashes::default());
        (0..3).for_each(|index| feed.push(hash(index)));
        let all = feed.since(0, usize::MAX);
        assert_eq!(
            (all.hashes, all.cursor, all.missed),
            ((0..3).map(hash).collect(), 3, 0)
        );
        assert_eq!(feed.since(2, usize::MAX).hashes, [hash(2)]);
        assert!(feed.since(3, usize::MAX).hashes.is_empty());
        let part = feed.since(0, 2);
        assert_eq!((part.hashes, part.cursor), (vec![hash(0), hash(1)], 2));
        // A cursor from before a restart.
        assert_eq!(
            (feed.since(9, usize::MAX).hashes, feed.since(9, usize::MAX).cursor),
            (vec![], 3)
        );
        let most = PENDING_FEED_MAX as u64;
        (3..most + 5).for_each(|index| feed.push(hash(index)));
        let late = feed.since(2, usize::MAX);
        assert_eq!((late.missed, late.hashes.len() as u64), (3, most));
        assert_eq!((late.hashes[0], late.cursor), (hash(5), most + 5));
    }
}
