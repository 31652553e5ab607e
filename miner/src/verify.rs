//! Checks a solution and says why it is not valid. For people whose solution was rejected.

use ethash::{B256, Epoch, GotExpected, LightCache, PowHash, SealError, U256, meets_boundary};
use serde_json::{Value, json};

/// A solution to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SolutionClaim {
    /// The header hash.
    pub header_hash: B256,
    /// The nonce.
    pub pow_nonce: u64,
    /// The claimed mix hash; `None` if only the nonce is known.
    pub mix_hash: Option<B256>,
    /// The highest valid final hash.
    pub boundary: B256,
    /// The epoch.
    pub epoch: Epoch,
}

/// The result of a check, with the values that decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SolutionVerdict {
    /// The checked solution.
    pub claim: SolutionClaim,
    /// The hashes that follow from header hash and nonce.
    pub hash: PowHash,
    /// The reasons why the solution is not valid; `None` if it is valid.
    pub fault: Option<SealError>,
}

/// Checks a solution with the light cache of its epoch.
///
/// # Errors
/// [`CacheError`](ethash::CacheError) if the light cache cannot be built.
pub fn verify(claim: &SolutionClaim) -> Result<SolutionVerdict, ethash::CacheError> {
    let cache = LightCache::build(claim.epoch)?;
    Ok(verify_with(&cache, claim))
}

fn verify_with(cache: &LightCache, claim: &SolutionClaim) -> SolutionVerdict {
    let hash = cache.hash(&claim.header_hash, claim.pow_nonce);
    let wrong_mix = claim.mix_hash.filter(|mix| *mix != hash.mix_hash);
    let fault = match wrong_mix {
        // A wrong mix hash comes first, because the final hash depends on the mix hash. In
        // `ethash::verify_seal` the boundary comes first, because it costs less to compare.
        Some(got) => Some(SealError::MixHash(GotExpected {
            got,
            expected: hash.mix_hash,
        })),
        None if meets_boundary(&hash.final_hash, &claim.boundary) => None,
        None => Some(SealError::AboveBoundary {
            got: hash.final_hash,
            boundary: claim.boundary,
        }),
    };
    SolutionVerdict {
        claim: *claim,
        hash,
        fault,
    }
}

impl SolutionVerdict {
    /// Whether the solution is valid.
    pub const fn is_valid(&self) -> bool {
        self.fault.is_none()
    }

    /// The highest difficulty that the final hash meets.
    pub fn difficulty(&self) -> U256 {
        U256::from_be_bytes(ethash::boundary(&U256::from_be_bytes(self.hash.final_hash.0)).0)
    }

    /// The verdict as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "valid": self.is_valid(),
            "reason": self.fault.map(|fault| fault.to_string()),
            "epoch": self.claim.epoch.index,
            "nonce": format!("{:#018x}", self.claim.pow_nonce),
            "mix_hash": self.hash.mix_hash.to_string(),
            "final_hash": self.hash.final_hash.to_string(),
            "boundary": self.claim.boundary.to_string(),
            "difficulty": self.difficulty().to_string(),
        })
    }
}

impl core::fmt::Display for SolutionVerdict {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.fault {
            None => writeln!(f, "valid")?,
            Some(fault) => writeln!(f, "invalid: {fault}")?,
        }
        writeln!(f, "  epoch       {}", self.claim.epoch.index)?;
        writeln!(f, "  nonce       {:#018x}", self.claim.pow_nonce)?;
        writeln!(f, "  mix hash    {}", self.hash.mix_hash)?;
        writeln!(f, "  final hash  {}", self.hash.final_hash)?;
        writeln!(f, "  boundary    {}", self.claim.boundary)?;
        write!(f, "  difficulty  {} is met", self.difficulty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_reason() {
        let epoch = Epoch::ethash(0);
        let cache =
            LightCache::with_sizes(epoch.seed_hash(), 1024, 32_768).expect("sizes of the test dataset");
        let header_hash = B256::repeat_byte(5);
        let hash = cache.hash(&header_hash, 77);
        let good = SolutionClaim {
            header_hash,
            pow_nonce: 77,
            mix_hash: Some(hash.mix_hash),
            boundary: hash.final_hash,
            epoch,
        };
        let check = |claim: SolutionClaim, reason: Option<&str>| {
            let verdict = verify_with(&cache, &claim);
            let got = verdict.fault.map(|fault| fault.to_string());
            assert_eq!(verdict.is_valid(), reason.is_none(), "{verdict}");
            if let Some(reason) = reason {
                assert!(
                    got.as_ref().is_some_and(|got| got.contains(reason)),
                    "{got:?}, expected {reason}"
                );
                assert_eq!(verdict.to_json()["reason"].as_str(), got.as_deref());
            }
        };
        check(good, None);
        check(
            SolutionClaim {
                mix_hash: None,
                ..good
            },
            None,
        );
        check(
            SolutionClaim {
                mix_hash: Some(B256::ZERO),
                ..good
            },
            Some("mix hash: got"),
        );
        check(
            SolutionClaim {
                boundary: B256::ZERO,
                ..good
            },
            Some("above the boundary"),
        );
        check(
            SolutionClaim {
                pow_nonce: 78,
                ..good
            },
            Some("mix hash: got"),
        );
        check(
            SolutionClaim {
                pow_nonce: 78,
                mix_hash: None,
                boundary: B256::ZERO,
                ..good
            },
            Some("above"),
        );
        assert!(
            verify(&SolutionClaim {
                epoch: Epoch::ethash(u32::MAX),
                ..good
            })
            .is_err()
        );
    }
}
