//! Tests by a block's bloom whether the block can have a matching log.
//!
//! A bloom has false positives but no false negatives, so the logs of a block that passes are
//! compared themselves. The bits are computed once per query, so a test needs no hashing.

use primitives::{Bloom, keccak256};

/// The three bits of one value, each as byte index and mask.
type BloomBits = [(usize, u8); 3];

/// The bits that a query looks for in a bloom.
#[derive(Clone, Debug)]
pub struct BloomTest {
    /// For each set, the bloom must have the bits of at least one value. No set is empty.
    sets: Vec<Vec<BloomBits>>,
}

impl BloomTest {
    /// A test for one value of each set. Empty sets are ignored.
    pub(super) fn new<'a>(sets: impl Iterator<Item = Vec<&'a [u8]>>) -> Self {
        let bits = |set: Vec<&[u8]>| set.into_iter().map(bits).collect::<Vec<_>>();
        Self {
            sets: sets.map(bits).filter(|set| !set.is_empty()).collect(),
        }
    }

    /// Returns `false` if no block with this bloom has a matching log.
    pub fn may_match(&self, bloom: &Bloom) -> bool {
        let has = |bits: &BloomBits| bits.iter().all(|(byte, mask)| bloom[*byte] & mask != 0);
        // Every log has an address, so a block without bits has no log.
        !bloom.is_zero() && self.sets.iter().all(|set| set.iter().any(has))
    }
}

/// The bits of a value: each of the first three byte pairs of its hash, modulo 2048, is the index
/// of a bit, counted from the end of the bloom.
fn bits(value: &[u8]) -> BloomBits {
    let hash = keccak256(value);
    std::array::from_fn(|pair| {
        let bit = usize::from(u16::from_be_bytes([hash[2 * pair], hash[2 * pair + 1]])) % 2048;
        (255 - bit / 8, 1 << (bit % 8))
    })
}

#[cfg(test)]
mod tests {
    use primitives::BloomInput;

    use super::*;

    fn test(sets: &[&[&[u8]]]) -> BloomTest {
        BloomTest::new(sets.iter().map(|set| set.to_vec()))
    }

    #[test]
    fn bits_are_those_of_the_bloom() {
        for value in 0..=255u8 {
            let bloom = Bloom::from(BloomInput::Raw(&[value]));
            assert!(test(&[&[&[value]]]).may_match(&bloom));
            let mut others = (0..=255u8).filter(|other| test(&[&[&[*other]]]).may_match(&bloom));
            assert_eq!((others.next(), others.next()), (Some(value), None));
        }
    }

    #[test]
    fn every_set_needs_one_of_its_values() {
        let mut bloom = Bloom::from(BloomInput::Raw(b"one"));
        bloom.accrue(BloomInput::Raw(b"two"));
        let check = |sets: &[&[&[u8]]], expected| {
            assert_eq!(test(sets).may_match(&bloom), expected, "{sets:?}");
            assert!(!test(sets).may_match(&Bloom::ZERO));
        };
        check(&[], true);
        check(&[&[], &[]], true);
        check(&[&[b"one"], &[], &[b"two"]], true);
        check(&[&[b"three", b"two"]], true);
        check(&[&[b"one"], &[b"three"]], false);
        check(&[&[b"three"]], false);
    }
}
