//! Transactions for MicroChains that no connected SCS could get yet: they are kept for a while, and
//! pushed when an SCS has connected. It does not know who connects.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::host::DirectCall;

/// The time for which such a transaction is kept: an SCS that restarts is back by then.
pub(super) const HELD_AGE_MAX: Duration = Duration::from_secs(600);
/// The most transactions that are kept, and the most bytes of all of them.
const HELD_MAX: usize = 1024;
const HELD_BYTES_MAX: usize = 4 << 20;

/// The kept transactions, the oldest first.
#[derive(Debug, Default)]
pub(super) struct HeldCalls {
    calls: VecDeque<HeldCall>,
    bytes: usize,
}

/// A transaction, and until when it is kept.
#[derive(Debug)]
pub(super) struct HeldCall {
    pub(super) call: DirectCall,
    pub(super) until: Instant,
}

impl HeldCalls {
    /// Keeps a transaction. Returns those that have to go: the ones whose time is over, and the
    /// oldest ones if there is no room for all.
    pub(super) fn hold(&mut self, held: HeldCall, now: Instant) -> Vec<DirectCall> {
        self.bytes += held.call.rlp.0.len();
        self.calls.push_back(held);
        let mut dropped = self.take_old(now);
        while self.calls.len() > HELD_MAX || self.bytes > HELD_BYTES_MAX {
            let Some(oldest) = self.pop() else { break };
            dropped.push(oldest.call);
        }
        dropped
    }

    /// Takes out those whose time is over.
    pub(super) fn take_old(&mut self, now: Instant) -> Vec<DirectCall> {
        let mut old = Vec::new();
        while self.calls.front().is_some_and(|held| held.until <= now) {
            old.extend(self.pop().map(|held| held.call));
        }
        old
    }

    /// Takes out the oldest one.
    pub(super) fn pop(&mut self) -> Option<HeldCall> {
        let oldest = self.calls.pop_front()?;
        self.bytes -= oldest.call.rlp.0.len();
        Some(oldest)
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }
}

#[cfg(test)]
mod tests {
    use primitives::{Address, B256};

    use super::*;

    fn held(number: u64, len: usize, until: Instant) -> HeldCall {
        let call = DirectCall {
            hash: B256::left_padding_from(&number.to_be_bytes()),
            sender: Address::ZERO,
            chain: Address::ZERO,
            rlp: vec![0; len].into(),
        };
        HeldCall { call, until }
    }

    fn numbers(dropped: &[DirectCall]) -> Vec<u8> {
        dropped.iter().map(|call| call.hash[31]).collect()
    }

    #[test]
    fn the_oldest_make_room() {
        let now = Instant::now();
        let later = now + HELD_AGE_MAX;
        let mut calls = HeldCalls::default();
        for number in 0..HELD_MAX as u64 {
            assert_eq!(numbers(&calls.hold(held(number, 1, later), now)), [0_u8; 0]);
        }
        assert_eq!(numbers(&calls.hold(held(7, 1, later), now)), [0]);
        assert_eq!(calls.len(), HELD_MAX);
        let dropped = calls.hold(held(9, HELD_BYTES_MAX, later), now);
        assert_eq!(dropped.len(), HELD_MAX, "one long one displaces all others");
        assert_eq!((calls.len(), calls.bytes), (1, HELD_BYTES_MAX));
    }

    #[test]
    fn they_are_not_kept_for_ever() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut calls = HeldCalls::default();
        calls.hold(held(1, 5, now + second), now);
        calls.hold(held(2, 5, now + 3 * second), now);
        assert_eq!(numbers(&calls.take_old(now)), [0_u8; 0]);
        assert_eq!(numbers(&calls.take_old(now + second)), [1]);
        assert_eq!(
            numbers(&calls.hold(held(3, 5, now + 9 * second), now + 3 * second)),
            [2]
        );
        assert_eq!(calls.pop().map(|held| held.call.hash[31]), Some(3));
        assert_eq!((calls.len(), calls.bytes), (0, 0));
    }
}
