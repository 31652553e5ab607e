//! Waiting until new transactions of the pool have left for a peer.
//!
//! The thread that tells peers of the pool puts a mark behind its messages. The task of each
//! connection passes a mark when all before it is handed to the system, which sends it even if this
//! process ends. Knows positions of the pool's feed only, neither transactions nor sockets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Condvar, Mutex};

/// The position in the pool that peers have been told of.
pub(super) struct ToldTransactions {
    /// Up to this position of the pool's feed, one peer at least was sent what it did not know.
    position: Mutex<u64>,
    moved: Condvar,
    waiting: AtomicUsize,
    wake: Sender<()>,
    wakes: Receiver<()>,
}

impl Default for ToldTransactions {
    fn default() -> Self {
        let (wake, wakes) = bounded(1);
        Self {
            position: Mutex::default(),
            moved: Condvar::new(),
            waiting: AtomicUsize::new(0),
            wake,
            wakes,
        }
    }
}

impl ToldTransactions {
    /// Wakes the thread that tells peers.
    pub(super) const fn wakes(&self) -> &Receiver<()> {
        &self.wakes
    }

    /// Whether somebody waits, so that marks are needed.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// All before `position` has left for a peer.
    pub(super) fn reached(&self, position: u64) {
        let mut reached = self.position.lock();
        if position > *reached {
            *reached = position;
            drop(reached);
            self.moved.notify_all();
        }
    }

    /// Waits until all before `position` has left for a peer, for at most `limit`. Returns whether
    /// it has.
    pub(super) fn wait(&self, position: u64, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        self.waiting.fetch_add(1, Ordering::AcqRel);
        // If it is full, the thread is about to look anyway.
        let _ = self.wake.try_send(());
        let mut reached = self.position.lock();
        while *reached < position {
            if self.moved.wait_until(&mut reached, end).timed_out() {
                break;
            }
        }
        let is_told = *reached >= position;
        drop(reached);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        is_told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_sees_the_position_that_it_waits_for() {
        let told = ToldTransactions::default();
        assert!(
            told.wait(0, Duration::ZERO),
            "nothing is before the first position"
        );
        assert!(!told.wait(3, Duration::from_millis(1)));
        assert!(told.wakes().try_recv().is_ok(), "the thread is woken");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| told.wait(3, Duration::from_secs(60)));
            while !told.is_awaited() {
                std::thread::yield_now();
            }
            told.reached(2);
            assert!(!waiter.is_finished(), "position 3 was not reached");
            told.reached(3);
            assert!(waiter.join().expect("no panic"));
        });
        assert!(!told.is_awaited());
        told.reached(1);
        assert!(told.wait(3, Duration::ZERO), "positions never go back");
    }
}
