//! Bounds that all connections share: of bytes that wait, and of threads that check transactions
//! and answer requests. The networks of application chains share them with the chain's network.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::peers::{HeldShares, ShareHolder, TRANSACTION_SHARE};

/// Bytes of memory of all transactions and messages of peers that wait, beside the little that each
/// peer may have in any case.
pub(crate) const OFFERED_BYTES_ALL_MAX: usize = 64 << 20;
/// Bytes of all messages to peers that wait in outboxes. A message to many peers counts once. While
/// there are more, a peer gets a message only if nothing waits for it.
pub(crate) const OUTBOX_BYTES_ALL_MAX: usize = 64 << 20;
/// One of this many processors may check transactions of peers, and at least one.
const PROCESSORS_FOR_ONE_CHECK: usize = 4;
/// One of this many processors may answer requests of peers, and at least [`ANSWERS_MIN`].
const PROCESSORS_FOR_ONE_ANSWER: usize = 2;
/// The least number of requests that are answered at once: each may wait for the disk.
const ANSWERS_MIN: usize = 2;
/// Connections that have ended and whose last transactions are still taken.
const LAST_OFFERS_MAX: usize = 16;

/// Bytes that were taken out of a bounded sum.
#[derive(Debug)]
pub(super) struct ByteBudget {
    used: AtomicUsize,
    most: usize,
}

impl ByteBudget {
    pub(super) fn new(most: usize) -> Arc<Self> {
        let used = AtomicUsize::new(0);
        Arc::new(Self { used, most })
    }

    /// Reserves `bytes`, however many are reserved already.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> ReservedBytes {
        self.used.fetch_add(bytes, Ordering::AcqRel);
        ReservedBytes {
            budget: Arc::clone(self),
            bytes,
        }
    }

    /// Reserves `bytes`. `None` if the sum would exceed the bound.
    pub(super) fn try_take(self: &Arc<Self>, bytes: usize) -> Option<ReservedBytes> {
        let reserved = self.take(bytes);
        (self.used() <= self.most).then_some(reserved)
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.used() > self.most
    }
}

/// Bytes of a [`ByteBudget`], until this is dropped.
#[derive(Debug)]
pub(super) struct ReservedBytes {
    budget: Arc<ByteBudget>,
    bytes: usize,
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

pub(super) struct SharedBounds {
    /// [`OFFERED_BYTES_ALL_MAX`].
    pub(super) offered: Arc<ByteBudget>,
    /// [`OUTBOX_BYTES_ALL_MAX`].
    pub(super) outboxes: Arc<ByteBudget>,
    /// Threads that check transactions. Whoever waits gets one in turn.
    pub(super) checks: Arc<Semaphore>,
    /// Threads that answer requests. Whoever waits gets one in turn.
    pub(super) answers: Arc<Semaphore>,
    /// [`LAST_OFFERS_MAX`].
    pub(super) last_offers: Arc<Semaphore>,
    shares: Mutex<HeldShares>,
}

impl Default for SharedBounds {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            offered: ByteBudget::new(OFFERED_BYTES_ALL_MAX),
            outboxes: ByteBudget::new(OUTBOX_BYTES_ALL_MAX),
            checks: Arc::new(Semaphore::new((processors / PROCESSORS_FOR_ONE_CHECK).max(1))),
            answers: Arc::new(Semaphore::new(
                (processors / PROCESSORS_FOR_ONE_ANSWER).max(ANSWERS_MIN),
            )),
            last_offers: Arc::new(Semaphore::new(LAST_OFFERS_MAX)),
            shares: Mutex::new(HeldShares::new(TRANSACTION_SHARE)),
        }
    }
}

impl SharedBounds {
    /// Uses up a part of a holder's [`TRANSACTION_SHARE`].
    pub(super) fn use_up(&self, holder: ShareHolder, cost: u64, now: Duration) {
        self.shares.lock().use_up(holder, cost, now);
    }

    /// The time until something of it is left.
    pub(super) fn wait(&self, holder: ShareHolder, now: Duration) -> Duration {
        self.shares.lock().wait(holder, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_when_they_are_dropped() {
        let budget = ByteBudget::new(100);
        let first = budget.try_take(60).expect("room");
        assert!(budget.try_take(41).is_none());
        assert_eq!(budget.used(), 60, "a failed attempt leaves nothing behind");
        let second = budget.try_take(40).expect("room");
        let third = budget.take(1);
        assert!(budget.is_exceeded());
        drop((first, third));
        assert!(!budget.is_exceeded());
        drop(second);
        assert_eq!(budget.used(), 0);
    }
}
