//! Whether a block can hold a wanted log, as far as its bloom tells.
//!
//! A bloom never denies what is there; what it affirms has to be looked at. Bits are worked
//! out once for a query, so that a test of a header costs no hash.

use primitives::{Bloom, keccak256};

/// The bits of one value: byte and mask, three of them.
type Bits = [(usize, u8); 3];

/// The bits that a query asks for.
#[derive(Clone, Debug)]
pub struct BloomTest {
    /// Of each set one value's bits must be there. No set is empty.
    sets: Vec<Vec<Bits>>,
}

impl BloomTest {
    /// A test for one value of each set, empty sets left out.
    pub(super) fn new<'a>(sets: impl Iterator<Item = Vec<&'a [u8]>>) -> Self {
        let bits = |set: Vec<&[u8]>| set.into_iter().map(bits).collect::<Vec<_>>();
        Self {
            sets: sets.map(bits).filter(|set| !set.is_empty()).collect(),
        }
    }

    /// `false`: no block with this bloom has a wanted log.
    pub fn may_match(&self, bloom: &Bloom) -> bool {
        let has = |bits: &Bits| bits.iter().all(|(byte, mask)| bloom[*byte] & mask != 0);
        // Every log has an address, so a block without bits has no log.
        !bloom.is_zero() && self.sets.iter().all(|set| set.iter().any(has))
    }
}

/// Each of the first three pairs of bytes of the hash, modulo 2048, names a bit from the end.
fn bits(value: &[u8]) -> Bits {
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
    fn sets_hold_at_once_and_their_values_in_turn() {
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
