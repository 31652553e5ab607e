//! What an engine is given and what it gives: work with the nonces it may use, and solutions with the device
//! that found them.
//!
//! Nonces are dealt out here, so that no two searchers ever try the same: each has a range of its own within
//! the space of the task. Knows no device and hashes nothing.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The nonces that work may use: all that begin with a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonceSpace {
    prefix: u64,
    bits: u32,
}

impl NonceSpace {
    /// Most bits that a prefix may have: what is left must last for a while.
    pub const BITS_MAX: u32 = 48;

    /// The nonces whose highest `bits` bits, 48 at most, are those of `prefix`.
    pub fn new(prefix: u64, bits: u32) -> Self {
        let bits = bits.min(Self::BITS_MAX);
        let mask = u64::MAX.checked_shr(bits).unwrap_or(0);
        Self {
            prefix: prefix & !mask,
            bits,
        }
    }

    /// Whether `nonce` may be used.
    pub fn contains(self, nonce: u64) -> bool {
        nonce & !(u64::MAX >> self.bits) == self.prefix
    }
}

/// Nonces in a row; after the last number comes 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NonceRange {
    pub(crate) first: u64,
    /// At least one.
    pub(crate) len: u64,
}

impl NonceRange {
    /// How far `nonce` is from the range's first; `None` outside.
    pub(crate) fn offset(&self, nonce: u64) -> Option<u64> {
        Some(nonce.wrapping_sub(self.first)).filter(|offset| *offset < self.len)
    }
}

/// One searcher's place among all nonces. It only goes forward, from task to task too, so that nothing is
/// tried twice unless a small space has been gone through.
#[derive(Clone, Debug)]
pub(crate) struct NonceCursor {
    place: u64,
    searchers: u64,
    at: u64,
    /// Nonces used for the present job.
    used: u64,
}

impl NonceCursor {
    /// The cursor of searcher `place` of `searchers`, at a random place of its range.
    pub(crate) fn new(place: usize, searchers: usize) -> Self {
        // The keys of a new hasher come from the system's randomness.
        Self::starting_at(place, searchers, RandomState::new().build_hasher().finish())
    }

    /// The same, `at` nonces into its range.
    pub(crate) fn starting_at(place: usize, searchers: usize, at: u64) -> Self {
        let searchers = (searchers as u64).max(1);
        Self {
            place: place as u64 % searchers,
            searchers,
            at,
            used: 0,
        }
    }

    /// The searcher's part of `space`.
    pub(crate) fn range(&self, space: NonceSpace) -> NonceRange {
        // The number of all nonces does not fit, so the last one of them stays untried.
        let len = ((u64::MAX >> space.bits) / self.searchers).max(1);
        NonceRange {
            first: space.prefix.wrapping_add(len.wrapping_mul(self.place)),
            len,
        }
    }

    /// A new job begins.
    pub(crate) fn begin_job(&mut self) {
        self.used = 0;
    }

    /// Whether the whole range was used for the present job.
    pub(crate) fn is_exhausted(&self, space: NonceSpace) -> bool {
        self.used >= self.range(space).len
    }

    /// How many nonces in a row, from [`peek`](Self::peek) on, are this searcher's and not yet used for the
    /// present job.
    pub(crate) fn contiguous(&self, space: NonceSpace) -> u64 {
        let len = self.range(space).len;
        (len - self.at % len).min(len.saturating_sub(self.used))
    }

    /// The next `N` nonces of `space`, and how many of them, from the first on, were not yet used for the
    /// present job: the rest are there because hashes go side by side, and count for nothing.
    pub(crate) fn next<const N: usize>(&mut self, space: NonceSpace) -> ([u64; N], usize) {
        let NonceRange { first, len } = self.range(space);
        let offset = self.at % len;
        let new = len.saturating_sub(self.used).min(N as u64) as usize;
        self.used = self.used.saturating_add(N as u64);
        if len - offset > N as u64 {
            self.at = offset + N as u64;
            return (
                core::array::from_fn(|i| first.wrapping_add(offset + i as u64)),
                new,
            );
        }
        // Over the end of the range, and on from its beginning.
        let around = |i: usize| ((u128::from(offset) + i as u128) % u128::from(len)) as u64;
        self.at = around(N);
        (core::array::from_fn(|i| first.wrapping_add(around(i))), new)
    }

    /// The next nonce of `space`, without going on.
    pub(crate) fn peek(&self, space: NonceSpace) -> u64 {
        let NonceRange { first, len } = self.range(space);
        first.wrapping_add(self.at % len)
    }

    /// `count` nonces from `nonce` on were tried. True where they reach the end of the range, after which the
    /// search goes on at its beginning.
    pub(crate) fn advance(&mut self, space: NonceSpace, nonce: u64, count: u64) -> bool {
        let range = self.range(space);
        let Some(offset) = range.offset(nonce) else {
            return false;
        };
        self.used = self.used.saturating_add(count);
        let at = offset.saturating_add(count);
        let over = at >= range.len;
        self.at = if over { 0 } else { at };
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_touch_whatever_the_space() {
        for bits in [0, 4, 16, 24, 48] {
            for searchers in [1_usize, 2, 3, 17] {
                let space = NonceSpace::new(0xaf4c_89ab_cdef_0123, bits);
                let mut ranges: Vec<_> = (0..searchers)
                    .map(|place| NonceCursor::new(place, searchers).range(space))
                    .collect();
                ranges.sort_by_key(|range| range.first);
                for range in &ranges {
                    let last = range.first + (range.len - 1);
                    assert!(
                        space.contains(range.first) && space.contains(last),
                        "{bits} {searchers} {range:?}"
                    );
                }
                for pair in ranges.windows(2) {
                    assert!(
                        pair[0].first + (pair[0].len - 1) < pair[1].first,
                        "{bits} {searchers} {pair:?}"
                    );
                }
                let covered: u128 = ranges.iter().map(|range| u128::from(range.len)).sum();
                let all = 1_u128 << (64 - bits);
                assert!(
                    all - covered <= searchers as u128,
                    "{bits} {searchers}: {covered} of {all}"
                );
            }
        }
    }

    #[test]
    fn a_small_space_is_gone_through_once() {
        let space = NonceSpace::new(0xffff_ffff_ffff_0000, 48);
        let mut cursor = NonceCursor::starting_at(1, 2, u64::MAX - 3);
        let range = cursor.range(space);
        cursor.begin_job();
        let mut seen = std::collections::HashSet::new();
        while !cursor.is_exhausted(space) {
            let (nonces, new) = cursor.next::<7>(space);
            assert!(nonces.iter().all(|nonce| range.offset(*nonce).is_some()));
            for nonce in &nonces[..new] {
                assert!(seen.insert(*nonce), "{nonce:x} is tried twice");
            }
        }
        assert_eq!(seen.len() as u64, range.len);
        assert_eq!(cursor.next::<7>(space).1, 0, "none is left");
        cursor.begin_job();
        assert!(!cursor.is_exhausted(space), "the next job may use them again");
    }

    #[test]
    fn batches_of_several_devices_meet_nowhere() {
        let space = NonceSpace::new(0xabcd_ef01_2345_0000, 48);
        let mut tried = std::collections::HashSet::new();
        let mut all = 0;
        for place in 0..3 {
            let mut cursor = NonceCursor::starting_at(place, 3, 0x9e37_79b9);
            let range = cursor.range(space);
            cursor.begin_job();
            while !cursor.is_exhausted(space) {
                let (first, count) = (cursor.peek(space), cursor.contiguous(space).min(1000));
                for nonce in (0..count).map(|offset| first.wrapping_add(offset)) {
                    assert!(
                        space.contains(nonce) && range.offset(nonce).is_some(),
                        "{nonce:x}"
                    );
                    assert!(tried.insert(nonce), "{nonce:x} is tried twice");
                }
                cursor.advance(space, first, count);
            }
            all += range.len;
        }
        assert_eq!(tried.len() as u64, all);
    }

    #[test]
    fn nonces_go_on_from_where_they_were() {
        let whole = NonceSpace::default();
        let mut cursor = NonceCursor::starting_at(0, 1, u64::from(u32::MAX));
        assert_eq!(cursor.next::<2>(whole), ([0xffff_ffff, 0x1_0000_0000], 2));
        assert_eq!(cursor.peek(whole), 0x1_0000_0001);
        let mut cursor = NonceCursor::starting_at(0, 1, u64::MAX - 3);
        assert_eq!(
            cursor.next::<4>(whole),
            ([u64::MAX - 3, u64::MAX - 2, u64::MAX - 1, 0], 4)
        );
        assert_eq!(cursor.next::<2>(whole), ([1, 2], 2));
    }

    #[test]
    fn batches_beyond_the_range_begin_anew() {
        let space = NonceSpace::new(0, 48);
        let mut cursor = NonceCursor::starting_at(0, 1, 0);
        assert!(!cursor.advance(space, 0, 1000));
        assert_eq!(cursor.peek(space), 1000);
        assert_eq!(cursor.contiguous(space), 0xffff - 1000);
        assert!(cursor.advance(space, 1000, 1 << 20), "over the end");
        assert_eq!(cursor.contiguous(space), 0);
        assert_eq!(cursor.peek(space), 0);
        assert!(
            !cursor.advance(space, 1 << 30, 5),
            "what lies outside moves nothing"
        );
        assert!(cursor.is_exhausted(space));
    }
}
