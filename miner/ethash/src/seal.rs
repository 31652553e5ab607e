//! Checks the proof of work of a header: its mix, and its final hash against the boundary.
//!
//! Knows header hash, nonce and mix; knows neither the header around them nor the rule that set the
//! difficulty. All 256 bits are compared, and a final hash equal to the boundary is valid.

use core::fmt;

use crate::hashimoto::{finish_lanes, seed512};
use crate::keccak::lanes;
use crate::{B256, LightCache, U256};

/// A value that differs from the one expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GotExpected<T> {
    /// What was found.
    pub got: T,
    /// What should have been there.
    pub expected: T,
}

impl<T: fmt::Display> fmt::Display for GotExpected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "got {}, expected {}", self.got, self.expected)
    }
}

/// Why a seal is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The recomputed mix differs from the one claimed.
    #[error("mix hash mismatch: {0}")]
    MixHash(GotExpected<B256>),
    /// The final hash is above the boundary.
    #[error("final hash {got} is above the boundary {boundary}")]
    AboveBoundary {
        /// The final hash that follows from the claimed mix.
        got: B256,
        /// The highest one allowed.
        boundary: B256,
    },
}

/// floor(2^256 / difficulty) as a big-endian number; 2^256 - 1 for difficulties 0 and 1.
pub fn boundary(difficulty: &U256) -> B256 {
    if *difficulty <= U256::ONE {
        return B256::repeat_byte(0xff);
    }
    // 2^256 itself does not fit: floor((2^256 - 1) / d) is one short exactly where d divides 2^256.
    let (quotient, remainder) = U256::MAX.div_rem(*difficulty);
    let exact = remainder + U256::ONE == *difficulty;
    B256::from(quotient + U256::from(u8::from(exact)))
}

/// Whether `final_hash` is at or below `boundary`, both big-endian.
pub fn meets_boundary(final_hash: &B256, boundary: &B256) -> bool {
    final_hash <= boundary
}

/// The final hash that follows from a claimed mix, without reading any item.
///
/// It proves nothing by itself, but a claim whose final hash is above the boundary can be refused
/// for the price of two permutations.
pub fn final_hash(header_hash: &B256, pow_nonce: u64, mix_hash: &B256) -> B256 {
    B256::from(finish_lanes(
        &seed512(header_hash, pow_nonce),
        &lanes::<4>(&mix_hash.0),
    ))
}

/// Checks that `pow_nonce` and `mix_hash` seal `header_hash` at `boundary`, with the cache of its
/// epoch.
///
/// # Errors
/// [`SealError::AboveBoundary`] is found first, as it needs no item; then [`SealError::MixHash`].
pub fn verify_seal(
    cache: &LightCache,
    header_hash: &B256,
    pow_nonce: u64,
    mix_hash: &B256,
    boundary: &B256,
) -> Result<(), SealError> {
    let got = final_hash(header_hash, pow_nonce, mix_hash);
    if !meets_boundary(&got, boundary) {
        return Err(SealError::AboveBoundary {
            got,
            boundary: *boundary,
        });
    }
    let expected = cache.hash(header_hash, pow_nonce).mix_hash;
    if *mix_hash != expected {
        return Err(SealError::MixHash(GotExpected {
            got: *mix_hash,
            expected,
        }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_round_down() {
        let check =
            |difficulty: U256, expected: U256| assert_eq!(boundary(&difficulty), B256::from(expected));
        check(U256::ZERO, U256::MAX);
        check(U256::ONE, U256::MAX);
        check(U256::from(2), U256::ONE << 255);
        check(U256::from(3), U256::MAX / U256::from(3));
        check(U256::from(512), U256::ONE << 247);
        check(U256::from(131_072), U256::ONE << 239);
        check((U256::ONE << 255) + U256::ONE, U256::ONE);
        check(U256::MAX, U256::ONE);
    }

    #[test]
    fn seals_are_checked_in_full() {
        let cache = LightCache::with_sizes(B256::ZERO, 1024, 32_768).expect("sizes of the test dataset");
        let header_hash = B256::repeat_byte(0x11);
        let hash = cache.hash(&header_hash, 99);
        assert_eq!(final_hash(&header_hash, 99, &hash.mix_hash), hash.final_hash);

        let check =
            |nonce, mix: &B256, boundary: &B256| verify_seal(&cache, &header_hash, nonce, mix, boundary);
        assert_eq!(
            check(99, &hash.mix_hash, &hash.final_hash),
            Ok(()),
            "equality is valid"
        );
        let lower = B256::from(U256::from_be_bytes(hash.final_hash.0) - U256::ONE);
        let above = SealError::AboveBoundary {
            got: hash.final_hash,
            boundary: lower,
        };
        assert_eq!(check(99, &hash.mix_hash, &lower), Err(above));

        let mut wrong = hash.mix_hash;
        wrong.0[31] ^= 1;
        let mismatch = SealError::MixHash(GotExpected {
            got: wrong,
            expected: hash.mix_hash,
        });
        assert_eq!(check(99, &wrong, &B256::repeat_byte(0xff)), Err(mismatch));
        assert!(mismatch.to_string().contains("got 0x"), "{mismatch}");
        assert!(matches!(
            check(100, &hash.mix_hash, &B256::repeat_byte(0xff)),
            Err(SealError::MixHash(_))
        ));
    }
}
