//! Remembers which calls of contracts were too long for the thread of a connection, so that the
//! next ones begin at once where they end.
//!
//! A call is known by its contract and by the first four bytes of its input, which name the
//! function. After [`SKIPS`] calls one is tried on the connection's thread again: its input or the
//! contract's state may have changed. The places are few and fixed; a later call takes the place of
//! an earlier one. Where a call runs changes no answer.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use chain::call::CallRequest;

/// The number of places: 32 KiB.
const PLACES: usize = 4096;
/// The calls that are not tried on the connection's thread after one was too long there.
const SKIPS: u64 = 32;
/// The bits of a place that count. The others are those of the hash.
const COUNT_MASK: u64 = 0xff;

/// The calls that were too long.
#[derive(Debug)]
pub(crate) struct LongCalls {
    /// So that nobody can choose which calls share a place.
    hasher: RandomState,
    places: Box<[AtomicU64]>,
}

impl Default for LongCalls {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl LongCalls {
    /// Whether such a call was too long, and is not to be tried again now.
    pub(crate) fn skips(&self, call: &CallRequest) -> bool {
        let (place, tag) = self.place(call);
        let known = place.load(Relaxed);
        let left = known & COUNT_MASK;
        if known & !COUNT_MASK != tag || left == 0 {
            return false;
        }
        // Two threads at once may count once: then one more is skipped.
        place.store(tag | (left - 1), Relaxed);
        true
    }

    /// Notes that such a call was too long.
    pub(crate) fn note(&self, call: &CallRequest) {
        let (place, tag) = self.place(call);
        place.store(tag | SKIPS, Relaxed);
    }

    fn place(&self, call: &CallRequest) -> (&AtomicU64, u64) {
        let selector = &call.input[..call.input.len().min(4)];
        let hash = self.hasher.hash_one((call.to, selector));
        (&self.places[hash as usize % PLACES], hash & !COUNT_MASK)
    }
}

#[cfg(test)]
mod tests {
    use primitives::{Address, Bytes};

    use super::*;

    fn call(to: u8, input: &[u8]) -> CallRequest {
        CallRequest {
            to: Some(Address::repeat_byte(to)),
            input: Bytes::copy_from_slice(input),
            ..CallRequest::default()
        }
    }

    #[test]
    fn one_of_many_long_calls_is_tried() {
        let calls = LongCalls::default();
        let long = call(1, &[1, 2, 3, 4, 5]);
        let tried = (0..330).filter(|_| {
            let is_tried = !calls.skips(&long);
            if is_tried {
                calls.note(&long);
            }
            is_tried
        });
        assert_eq!(tried.count(), 10);
        // Other values of the same function count as the same; other functions do not.
        calls.note(&long);
        assert!(calls.skips(&call(1, &[1, 2, 3, 4, 9, 9])));
        assert!(!calls.skips(&call(1, &[1, 2, 3, 5, 5])));
        assert!(!calls.skips(&call(2, &[1, 2, 3, 4, 5])));
        assert!(!calls.skips(&call(1, &[])));
    }

    #[test]
    fn a_call_that_has_become_short_is_not_skipped_for_long() {
        let calls = LongCalls::default();
        let long = call(1, &[]);
        calls.note(&long);
        let skipped = (0..100).take_while(|_| calls.skips(&long)).count();
        assert_eq!(skipped as u64, SKIPS);
        // The call was short now, so nobody notes it.
        assert!(!calls.skips(&long));
    }
}
