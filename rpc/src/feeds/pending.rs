//! Hashes of transactions that have become pending, in order, for readers with cursors.
//!
//! A ring of the last ones; a reader that stays away too long goes on at the oldest kept. The pool
//! is compared with what it was when somebody looks, which happens often while anybody follows.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use chain::pool::TxPool;
use parking_lot::Mutex;
use primitives::B256;
use tokio::sync::watch;

/// Most hashes kept.
const HASHES_MAX: usize = 65_536;

/// The hashes kept.
#[derive(Debug)]
pub(super) struct PendingFeed {
    inner: Mutex<Inner>,
    /// The number of the next hash.
    signal: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    hashes: VecDeque<B256>,
    /// The number of the oldest hash kept.
    first: u64,
    /// The pool's content when it was last looked at, and its generation.
    pending: HashSet<B256>,
    generation: Option<u64>,
}

impl PendingFeed {
    pub(super) fn new() -> Self {
        Self {
            inner: Mutex::default(),
            signal: watch::Sender::new(0),
        }
    }

    /// Tells of every hash after now.
    pub(super) fn signal(&self) -> watch::Receiver<u64> {
        self.signal.subscribe()
    }

    /// Compares the pool with what it was.
    pub(super) fn look(&self, pool: &TxPool) {
        let mut inner = self.inner.lock();
        let generation = pool.generation();
        if inner.generation == Some(generation) {
            return;
        }
        inner.generation = Some(generation);
        let now = pool.pending_hashes();
        let fresh = now.iter().filter(|hash| !inner.pending.contains(*hash));
        let fresh: Vec<_> = fresh.copied().collect();
        inner.hashes.extend(&fresh);
        inner.pending = now.into_iter().collect();
        let excess = inner.hashes.len().saturating_sub(HASHES_MAX);
        inner.hashes.drain(..excess);
        inner.first += excess as u64;
        let next = inner.first + inner.hashes.len() as u64;
        drop(inner);
        if !fresh.is_empty() {
            self.signal.send_replace(next);
        }
    }

    /// Forgets what the pool was, unless somebody follows. Who begins to is counted before the first
    /// look, and looks take the same lock as this.
    pub(super) fn rest(&self, followers: &AtomicUsize) {
        let mut inner = self.inner.lock();
        if followers.load(SeqCst) == 0 && inner.generation.take().is_some() {
            inner.first += inner.hashes.len() as u64;
            inner.hashes = VecDeque::new();
            inner.pending = HashSet::new();
        }
    }

    /// The number of the next hash.
    pub(super) fn next(&self) -> u64 {
        let inner = self.inner.lock();
        inner.first + inner.hashes.len() as u64
    }

    /// At most `max` hashes from number `cursor` on, and the number of the one after them.
    pub(super) fn since(&self, cursor: u64, max: usize) -> (Vec<B256>, u64) {
        let inner = self.inner.lock();
        let from = cursor.saturating_sub(inner.first);
        let from = usize::try_from(from)
            .unwrap_or(usize::MAX)
            .min(inner.hashes.len());
        let hashes: Vec<_> = inner.hashes.iter().skip(from).take(max).copied().collect();
        let next = inner.first + (from + hashes.len()) as u64;
        (hashes, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(hashes: impl IntoIterator<Item = u8>) -> PendingFeed {
        let feed = PendingFeed::new();
        feed.inner.lock().hashes = hashes.into_iter().map(B256::repeat_byte).collect();
        feed
    }

    #[test]
    fn readers_have_cursors() {
        let feed = feed(1..=5);
        let read = |cursor, max| {
            let (hashes, next) = feed.since(cursor, max);
            (hashes.iter().map(|hash| hash[0]).collect::<Vec<_>>(), next)
        };
        assert_eq!(feed.next(), 5);
        assert_eq!(read(0, 2), (vec![1, 2], 2));
        assert_eq!(read(2, 9), (vec![3, 4, 5], 5));
        assert_eq!(read(5, 9), (vec![], 5));
        assert_eq!(read(u64::MAX, 9), (vec![], 5));
        feed.inner.lock().hashes.drain(..3);
        feed.inner.lock().first = 3;
        assert_eq!(
            read(1, 9),
            (vec![4, 5], 5),
            "who stayed away goes on at the oldest kept"
        );
    }

    #[test]
    fn nothing_is_kept_for_nobody() {
        let feed = feed(1..=5);
        feed.inner.lock().generation = Some(1);
        feed.rest(&AtomicUsize::new(1));
        assert_eq!(feed.since(0, 9).0.len(), 5);
        feed.rest(&AtomicUsize::new(0));
        assert_eq!(feed.since(0, 9), (Vec::new(), 5));
        assert_eq!(feed.next(), 5);
    }
}
