//! Deals out nonces so that no two searchers try the same one.
//!
//! Each searcher has a range of its own within the nonces of a task. Knows no device and hashes
//! nothing.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The nonces that a task may use: all nonces with a given prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonceSpace {
    prefix: u64,
    bits: u32,
}

impl NonceSpace {
    /// The largest number of bits in a prefix. The remaining bits must last for some time of
    /// searching.
    pub(crate) const BITS_MAX: u32 = 48;

    /// Returns all nonces whose highest `bits` bits equal those of `prefix`. At most 48 bits count.
    pub fn new(prefix: u64, bits: u32) -> Self {
        let bits = bits.min(Self::BITS_MAX);
        let mask = u64::MAX.checked_shr(bits).unwrap_or(0);
        Self {
            prefix: prefix & !mask,
            bits,
        }
    }

    /// Whether `nonce` may be used.
    pub const fn contains(self, nonce: u64) -> bool {
        nonce & !(u64::MAX >> self.bits) == self.prefix
    }
}

/// Consecutive nonces. The nonce after the highest number is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NonceRange {
    pub(crate) first: u64,
    /// At least one.
    pub(crate) len: u64,
}

impl NonceRange {
    /// Returns the distance of `nonce` from the first nonce, or `None` if it is outside the range.
    pub(crate) fn offset(&self, nonce: u64) -> Option<u64> {
        Some(nonce.wrapping_sub(self.first)).filter(|offset| *offset < self.len)
    }

    /// Returns part number `index` of `count` equal parts.
    fn part(&self, index: u64, count: u64) -> Self {
        let len = (self.len / count).max(1);
        Self {
            first: self.first.wrapping_add(len.wrapping_mul(index)),
            len,
        }
    }
}

/// The position of one searcher within its range of nonces.
///
/// The position moves forward only, from one task to the next as well. So no nonce is tried twice,
/// unless the range of a small space was used up.
#[derive(Clone, Debug)]
pub(crate) struct NonceCursor {
    /// The number of this searcher, below `searchers`.
    searcher: u64,
    searchers: u64,
    /// The number of this thread of the searcher, below `threads`.
    thread: u64,
    threads: u64,
    /// Offset of the next nonce within the range.
    position: u64,
    /// Number of nonces used for the current job.
    used: u64,
}

impl NonceCursor {
    /// Returns the cursor of searcher number `searcher` of `searchers`, at a random position of its
    /// range.
    pub(crate) fn new(searcher: usize, searchers: usize) -> Self {
        // The keys of a new hasher come from the random numbers of the system.
        Self::starting_at(searcher, searchers, RandomState::new().build_hasher().finish())
    }

    /// Returns the cursor of a searcher at a given position of its range.
    pub(crate) fn starting_at(searcher: usize, searchers: usize, position: u64) -> Self {
        let searchers = (searchers as u64).max(1);
        Self {
            searcher: searcher as u64 % searchers,
            searchers,
            thread: 0,
            threads: 1,
            position,
            used: 0,
        }
    }

    /// Narrows the nonces to those of thread number `thread` of the searcher's `threads`.
    pub(crate) fn of_thread(mut self, thread: usize, threads: usize) -> Self {
        self.threads = (threads as u64).max(1);
        self.thread = thread as u64 % self.threads;
        self
    }

    /// Returns the nonces of `space` that belong to this searcher.
    pub(crate) fn range(&self, space: NonceSpace) -> NonceRange {
        // 2^64 does not fit in 64 bits, so the last nonce of the whole space is never tried.
        let all = NonceRange {
            first: space.prefix,
            len: u64::MAX >> space.bits,
        };
        all.part(self.searcher, self.searchers)
            .part(self.thread, self.threads)
    }

    /// Begins a new job. It may use every nonce of the range again.
    pub(crate) const fn begin_job(&mut self) {
        self.used = 0;
    }

    /// Whether all nonces of the range were used for the current job.
    pub(crate) fn is_exhausted(&self, space: NonceSpace) -> bool {
        self.used >= self.range(space).len
    }

    /// Returns how many consecutive nonces, from [`peek`](Self::peek) on, belong to this searcher
    /// and were not used for the current job.
    pub(crate) fn contiguous(&self, space: NonceSpace) -> u64 {
        let len = self.range(space).len;
        (len - self.position % len).min(len.saturating_sub(self.used))
    }

    /// Takes the next `N` nonces of `space`, and returns them with the number of new ones.
    ///
    /// The new nonces come first. If fewer than `N` are left for the current job, the others repeat
    /// earlier nonces, because `N` hashes are computed side by side. Their hashes do not count.
    pub(crate) fn next<const N: usize>(&mut self, space: NonceSpace) -> ([u64; N], usize) {
        let NonceRange { first, len } = self.range(space);
        let offset = self.position % len;
        let new = len.saturating_sub(self.used).min(N as u64) as usize;
        self.used = self.used.saturating_add(N as u64);
        if len - offset > N as u64 {
            self.position = offset + N as u64;
            return (
                core::array::from_fn(|i| first.wrapping_add(offset + i as u64)),
                new,
            );
        }
        // The nonces reach the end of the range and continue at its beginning.
        let wrapped = |i: usize| ((u128::from(offset) + i as u128) % u128::from(len)) as u64;
        self.position = wrapped(N);
        (core::array::from_fn(|i| first.wrapping_add(wrapped(i))), new)
    }

    /// Returns the next nonce of `space` without taking it.
    pub(crate) fn peek(&self, space: NonceSpace) -> u64 {
        let NonceRange { first, len } = self.range(space);
        first.wrapping_add(self.position % len)
    }

    /// Records that `count` nonces from `nonce` on were tried.
    ///
    /// Returns true if they reach the end of the range. Then the search continues at its beginning.
    pub(crate) fn advance(&mut self, space: NonceSpace, nonce: u64, count: u64) -> bool {
        let range = self.range(space);
        let Some(offset) = range.offset(nonce) else {
            return false;
        };
        self.used = self.used.saturating_add(count);
        let end = offset.saturating_add(count);
        let reached_end = end >= range.len;
        self.position = if reached_end { 0 } else { end };
        reached_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_searchers_do_not_overlap() {
        for bits in [0, 4, 16, 24, 48] {
            for searchers in [1_usize, 2, 3, 17] {
                let space = NonceSpace::new(0xaf4c_89ab_cdef_0123, bits);
                let mut ranges: Vec<_> = (0..searchers)
                    .map(|searcher| NonceCursor::new(searcher, searchers).range(space))
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
    fn every_nonce_of_a_small_space_is_used_once() {
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
        assert_eq!(cursor.next::<7>(space).1, 0, "no new nonce is left");
        cursor.begin_job();
        assert!(!cursor.is_exhausted(space), "the next job may use them again");
    }

    #[test]
    fn batches_of_several_searchers_do_not_overlap() {
        let space = NonceSpace::new(0xabcd_ef01_2345_0000, 48);
        let mut tried = std::collections::HashSet::new();
        let mut all = 0;
        for searcher in 0..3 {
            let mut cursor = NonceCursor::starting_at(searcher, 3, 0x9e37_79b9);
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
    fn nonces_continue_from_the_last_position() {
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
    fn a_batch_beyond_the_range_restarts_at_its_beginning() {
        let space = NonceSpace::new(0, 48);
        let mut cursor = NonceCursor::starting_at(0, 1, 0);
        assert!(!cursor.advance(space, 0, 1000));
        assert_eq!(cursor.peek(space), 1000);
        assert_eq!(cursor.contiguous(space), 0xffff - 1000);
        assert!(cursor.advance(space, 1000, 1 << 20), "beyond the end");
        assert_eq!(cursor.contiguous(space), 0);
        assert_eq!(cursor.peek(space), 0);
        assert!(
            !cursor.advance(space, 1 << 30, 5),
            "nonces outside the range change nothing"
        );
        assert!(cursor.is_exhausted(space));
    }
}
