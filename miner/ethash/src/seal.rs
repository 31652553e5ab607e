//! Checks the proof-of-work seal of a header: the final hash of the claimed mix hash against the
//! boundary, then the mix hash.
//!
//! Knows header hash, nonce and mix hash. It knows neither the rest of the header nor
//! the rule that decides the difficulty. All 256 bits are compared. A final hash equal to the
//! boundary is valid.

use core::fmt;

use crate::hashimoto::{final_hash_bytes, seed512};
use crate::keccak::lanes;
use crate::{B256, LightCache, U256};

/// A value that differs from the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GotExpected<T> {
    /// The actual value.
    pub got: T,
    /// The expected value.
    pub expected: T,
}

impl<T: fmt::Display> fmt::Display for GotExpected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "got {}, expected {}", self.got, self.expected)
    }
}

/// The reasons why a seal is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The claimed mix hash differs from the computed one. Reported only if the final hash of the
    /// claimed mix hash meets the boundary; a wrong mix hash seldom does.
    #[error("mix hash: {0}")]
    MixHash(GotExpected<B256>),
    /// The final hash of the claimed mix hash is above the boundary.
    #[error("final hash of the mix hash above the boundary: got {got}, expected at most {boundary}")]
    AboveBoundary {
        /// The final hash that follows from the claimed mix hash.
        got: B256,
        /// The highest valid final hash.
        boundary: B256,
    },
}

/// The boundary of a difficulty: floor(2^256 / difficulty) as a big-endian number.
///
/// 2^256 - 1 for the difficulties 0 and 1.
pub fn boundary(difficulty: &U256) -> B256 {
    if *difficulty <= U256::ONE {
        return B256::repeat_byte(0xff);
    }
    // 2^256 does not fit. floor((2^256 - 1) / d) is one too small exactly if d divides 2^256.
    let (quotient, remainder) = U256::MAX.div_rem(*difficulty);
    let exact = remainder + U256::ONE == *difficulty;
    B256::from(quotient + U256::from(u8::from(exact)))
}

/// Whether `final_hash` is less than or equal to `boundary`. Both are big-endian numbers.
pub fn meets_boundary(final_hash: &B256, boundary: &B256) -> bool {
    final_hash <= boundary
}

/// The final hash that follows from a claimed mix hash, without reading any dataset item.
///
/// The result does not prove that the mix hash is right. But if the final hash is above the
/// boundary, the seal can be rejected at the cost of two Keccak permutations.
pub fn final_hash(header_hash: &B256, pow_nonce: u64, mix_hash: &B256) -> B256 {
    B256::from(final_hash_bytes(
        &seed512(header_hash, pow_nonce),
        &lanes::<4>(&mix_hash.0),
    ))
}

/// Checks that `pow_nonce` and `mix_hash` seal `header_hash` at `boundary`.
///
/// `cache` is the light cache of the block's epoch.
///
/// # Errors
/// [`SealError::AboveBoundary`] or [`SealError::MixHash`]. The boundary is checked first, because
/// that check needs no dataset item.
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
