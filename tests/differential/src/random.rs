//! A small generator of random numbers. The same seed gives the same numbers in every version.
//!
//! The algorithm is `SplitMix64` (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
//! Generators).

use std::cell::Cell;

use primitives::U256;

/// Random numbers from a seed.
#[derive(Clone, Debug)]
pub struct SeededRandom(Cell<u64>);

impl SeededRandom {
    /// Starts from a seed and a name, so that different uses of a seed get different numbers.
    pub fn new(seed: u64, name: &str) -> Self {
        let random = Self(Cell::new(seed));
        for byte in name.bytes() {
            random.0.set(random.next() ^ u64::from(byte));
        }
        random
    }

    /// Returns 64 random bits.
    pub fn next(&self) -> u64 {
        let mut mixed = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(mixed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`; 0 if `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        // The tiny bias of the remainder does not matter here.
        self.next() % if bound == 0 { 1 } else { bound }
    }

    /// Returns a number from `first` to `last`.
    pub fn between(&self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// Returns `true` in `percent` of 100 cases.
    pub fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns an element.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Returns the index of a weight, each as often as its weight says.
    pub fn weighted(&self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        let reached = weights.iter().position(|weight| {
            let found = left < *weight;
            left = left.saturating_sub(*weight);
            found
        });
        reached.unwrap_or(0)
    }

    /// Returns random bytes.
    pub fn bytes(&self, length: u64) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    /// Returns a random word.
    pub fn word(&self) -> U256 {
        U256::from_limbs([self.next(), self.next(), self.next(), self.next()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        // The first numbers of `SplitMix64` with seed 0.
        let random = SeededRandom::new(0, "");
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(SeededRandom::new(7, "a").next(), SeededRandom::new(7, "a").next());
        assert_ne!(SeededRandom::new(7, "a").next(), SeededRandom::new(7, "b").next());
        assert_ne!(SeededRandom::new(7, "a").next(), SeededRandom::new(8, "a").next());
    }

    #[test]
    fn bounds_hold() {
        let random = SeededRandom::new(1, "bounds");
        for _ in 0..1000 {
            assert!(random.below(7) < 7);
            assert!((3..=5).contains(&random.between(3, 5)));
            assert_eq!(random.weighted(&[0, 5, 0]), 1);
        }
        assert_eq!(random.below(0), 0);
        assert!(!random.percent(0) && random.percent(100));
        assert_eq!(random.bytes(5).len(), 5);
    }
}
