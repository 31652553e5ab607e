//! Says of a solution whether it is valid, and if not, why: for whoever has one that somebody
//! refused.

use ethash::{B256, Epoch, GotExpected, LightCache, PowHash, SealError, U256, meets_boundary};
use serde_json::{Value, json};

/// A solution to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The header's hash.
    pub header_hash: B256,
    /// The nonce.
    pub pow_nonce: u64,
    /// The mix claimed; `None` where only the nonce is known.
    pub mix_hash: Option<B256>,
    /// What the final hash must not be above.
    pub boundary: B256,
    /// The epoch.
    pub epoch: Epoch,
}

/// The judgement, with what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What was asked.
    pub question: Question,
    /// What nonce and header really give.
    pub hash: PowHash,
    /// Why the solution is not valid; `None` when it is.
    pub fault: Option<SealError>,
}

/// Judges `question` with the light cache of its epoch.
///
/// # Errors
/// When the epoch has no light cache.
pub fn verify(question: &Question) -> Result<Verdict, ethash::CacheError> {
    let cache = LightCache::build(question.epoch)?;
    Ok(judge(&cache, question))
}

fn judge(cache: &LightCache, question: &Question) -> Verdict {
    let hash = cache.hash(&question.header_hash, question.pow_nonce);
    let wrong_mix = question.mix_hash.filter(|mix| *mix != hash.mix_hash);
    let fault = match wrong_mix {
        // The first fault to name: without the right mix the final hash is another one.
        Some(got) => Some(SealError::MixHash(GotExpected {
            got,
            expected: hash.mix_hash,
        })),
        None if meets_boundary(&hash.final_hash, &question.boundary) => None,
        None => Some(SealError::AboveBoundary {
            got: hash.final_hash,
            boundary: question.boundary,
        }),
    };
    Verdict {
        question: *question,
        hash,
        fault,
    }
}

impl Verdict {
    /// Whether the solution is valid.
    pub fn is_valid(&self) -> bool {
        self.fault.is_none()
    }

    /// The difficulty that the final hash would just meet.
    pub fn difficulty(&self) -> U256 {
        U256::from_be_bytes(ethash::boundary(&U256::from_be_bytes(self.hash.final_hash.0)).0)
    }

    /// The verdict for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "valid": self.is_valid(),
            "reason": self.fault.map(|fault| fault.to_string()),
            "epoch": self.question.epoch.index,
            "nonce": format!("{:#018x}", self.question.pow_nonce),
            "mix_hash": self.hash.mix_hash.to_string(),
            "final_hash": self.hash.final_hash.to_string(),
            "boundary": self.question.boundary.to_string(),
            "difficulty": self.difficulty().to_string(),
        })
    }
}

impl core::fmt::Display for Verdict {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.fault {
            None => writeln!(f, "valid")?,
            Some(fault) => writeln!(f, "invalid: {fault}")?,
        }
        writeln!(f, "  epoch       {}", self.question.epoch.index)?;
        writeln!(f, "  nonce       {:#018x}", self.question.pow_nonce)?;
        writeln!(f, "  mix hash    {}", self.hash.mix_hash)?;
        writeln!(f, "  final hash  {}", self.hash.final_hash)?;
        writeln!(f, "  boundary    {}", self.question.boundary)?;
        write!(f, "  difficulty  {} is met", self.difficulty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_reason() {
        let epoch = Epoch::ethash(0);
        let cache = LightCache::with_sizes(epoch.seed_hash(), 1024, 32_768).expect("the test sizes");
        let header_hash = B256::repeat_byte(5);
        let hash = cache.hash(&header_hash, 77);
        let good = Question {
            header_hash,
            pow_nonce: 77,
            mix_hash: Some(hash.mix_hash),
            boundary: hash.final_hash,
            epoch,
        };
        let check = |question: Question, reason: Option<&str>| {
            let verdict = judge(&cache, &question);
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
            Question {
                mix_hash: None,
                ..good
            },
            None,
        );
        check(
            Question {
                mix_hash: Some(B256::ZERO),
                ..good
            },
            Some("mix hash mismatch"),
        );
        check(
            Question {
                boundary: B256::ZERO,
                ..good
            },
            Some("above the boundary"),
        );
        check(
            Question {
                pow_nonce: 78,
                ..good
            },
            Some("mix hash mismatch"),
        );
        check(
            Question {
                pow_nonce: 78,
                mix_hash: None,
                boundary: B256::ZERO,
                ..good
            },
            Some("above"),
        );
        assert!(
            verify(&Question {
                epoch: Epoch::ethash(u32::MAX),
                ..good
            })
            .is_err()
        );
    }
}
