//! Judges shares: a share is refused, accepted, or becomes a block.
//!
//! Checks that need no hash of Ethash come first. The rest of judging runs on
//! threads for blocking work: a hash with the light cache takes about a millisecond, an import
//! takes longer.

use chain::chain::WriteError;
use chain::import::Imported;
use ethash::{B256, Solution, final_hash, meets_boundary};
use stratum::server::RejectReason;

use crate::conduct::ShareQuality;
use crate::event_log::LoggedEvent;
use crate::jobs::{JobAge, NonceStatus, StratumJob};
use crate::state::StratumState;

/// A share that a miner submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareToJudge {
    pub(crate) pow_nonce: u64,
    /// The mix hash that the miner claims, if its dialect has one.
    pub(crate) mix_hash: Option<B256>,
    /// Highest final hash that the share may have.
    pub(crate) boundary: B256,
}

/// The verdict on a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShareVerdict {
    Accepted,
    /// The share sealed a block.
    Block,
    /// The share sealed a block, but there was already work on another head.
    StaleBlock,
    Refused(RejectReason),
}

/// The quality that a refused share shows of the miner; `None` if the server is the reason.
pub(crate) const fn quality_of_refused(refusal: RejectReason) -> Option<ShareQuality> {
    match refusal {
        // Only shares whose hash is right are refused as stale.
        RejectReason::Stale => Some(ShareQuality::Work),
        RejectReason::UnknownJob
        | RejectReason::Duplicate
        | RejectReason::LowDifficulty
        | RejectReason::BadNonce
        | RejectReason::Malformed
        | RejectReason::Unauthorized => Some(ShareQuality::Bad),
        RejectReason::BadLogin
        | RejectReason::UnknownMethod
        | RejectReason::TooMany
        | RejectReason::NoWork
        | RejectReason::Internal => None,
    }
}

/// The reason to refuse a share, if it is known without a hash of Ethash: the job had
/// the nonce before, or the claimed mix hash gives a final hash above the boundary. The final hash
/// costs two permutations.
pub(crate) fn refusal_without_hash(job: &StratumJob, share: &ShareToJudge) -> Option<RejectReason> {
    if job.has_nonce(share.pow_nonce) {
        return Some(RejectReason::Duplicate);
    }
    let claimed = final_hash(&job.package.header_hash, share.pow_nonce, &share.mix_hash?);
    (!meets_boundary(&claimed, &share.boundary)).then_some(RejectReason::LowDifficulty)
}

impl StratumState {
    /// Judges a share of `job`, which had this `age` when the share arrived. Submits the block of
    /// the share if it seals one. [`refusal_without_hash`] comes before this.
    pub(crate) fn judge_share(&self, job: &StratumJob, age: JobAge, share: &ShareToJudge) -> ShareVerdict {
        let solution = match self.check_share(job, share) {
            Ok(solution) => solution,
            Err(refusal) => return ShareVerdict::Refused(refusal),
        };
        match job.record_nonce(share.pow_nonce) {
            NonceStatus::New => {}
            NonceStatus::Duplicate => return ShareVerdict::Refused(RejectReason::Duplicate),
            // The chain itself recognizes a block that it has.
            NonceStatus::Unknown if solution.is_some() => {}
            NonceStatus::Unknown => return ShareVerdict::Refused(RejectReason::TooMany),
        }
        let Some(solution) = solution else {
            return verdict_without_block(age);
        };
        verdict_of_chain(self.chain.submit_solution(&solution), age)
    }

    /// Hashes a share. Returns the solution if the share also meets the block difficulty.
    fn check_share(&self, job: &StratumJob, share: &ShareToJudge) -> Result<Option<Solution>, RejectReason> {
        let package = &job.package;
        let header_hash = &package.header_hash;
        let cache = self.caches.get(package.epoch).map_err(|error| {
            if self.log.allows(LoggedEvent::CannotJudge) {
                tracing::error!(%error, "cannot judge shares");
            }
            RejectReason::Internal
        })?;
        let hash = cache.hash(header_hash, share.pow_nonce);
        if share.mix_hash.is_some_and(|claimed| claimed != hash.mix_hash) {
            return Err(RejectReason::BadNonce);
        }
        if !meets_boundary(&hash.final_hash, &share.boundary) {
            return Err(RejectReason::LowDifficulty);
        }
        let seals = meets_boundary(&hash.final_hash, &package.boundary);
        Ok(seals.then_some(Solution {
            header_hash: *header_hash,
            pow_nonce: share.pow_nonce,
            mix_hash: hash.mix_hash,
        }))
    }
}

/// The verdict on a share that meets the block difficulty, after the answer of the chain.
fn verdict_of_chain(answer: Result<Imported, WriteError>, age: JobAge) -> ShareVerdict {
    match answer {
        Ok(_) => match age {
            JobAge::Current => ShareVerdict::Block,
            // The miner has not received work on the new head yet, so the share counts.
            JobAge::HeadChanged => ShareVerdict::Accepted,
            JobAge::Stale => ShareVerdict::StaleBlock,
        },
        // The chain has ended. The miner hears that the server is the reason.
        Err(WriteError::Stopping | WriteError::Failed(_)) => ShareVerdict::Refused(RejectReason::Internal),
        Err(error) => {
            // Another miner was faster, or the chain refused the block and logged the reason. The
            // miner has done the work in both cases.
            tracing::debug!(%error, "a share meets the block difficulty but gives no block");
            verdict_without_block(age)
        }
    }
}

/// The verdict on a valid share that gives no block.
const fn verdict_without_block(age: JobAge) -> ShareVerdict {
    match age {
        JobAge::Current | JobAge::HeadChanged => ShareVerdict::Accepted,
        JobAge::Stale => ShareVerdict::Refused(RejectReason::Stale),
    }
}

#[cfg(test)]
mod tests {
    use chain::mining::work::SolutionError;
    use ethash::{Epoch, WorkPackage};

    use super::*;
    use crate::jobs::JobHistory;

    #[test]
    fn shares_are_refused_without_a_hash_where_that_is_possible() {
        let epoch = Epoch::ethash(0);
        let history = JobHistory::default();
        history.update(Some(WorkPackage {
            header_hash: B256::repeat_byte(1),
            seed_hash: epoch.seed_hash(),
            boundary: B256::ZERO,
            number: Some(1),
            epoch,
        }));
        let job = history.newest().expect("there is work");
        let refusal = |mix_hash, boundary| {
            let share = ShareToJudge {
                pow_nonce: 5,
                mix_hash,
                boundary,
            };
            refusal_without_hash(&job, &share)
        };
        let (mix_hash, easiest) = (Some(B256::repeat_byte(7)), B256::repeat_byte(0xff));
        assert_eq!(refusal(mix_hash, B256::ZERO), Some(RejectReason::LowDifficulty));
        assert_eq!(
            refusal(mix_hash, easiest),
            None,
            "the mix hash is not checked yet"
        );
        assert_eq!(refusal(None, B256::ZERO), None, "there is no mix hash");
        job.record_nonce(5);
        assert_eq!(refusal(mix_hash, easiest), Some(RejectReason::Duplicate));
        assert_eq!(refusal(None, easiest), Some(RejectReason::Duplicate));
    }

    #[test]
    fn no_miner_is_blamed_for_a_chain_that_has_ended() {
        for age in [JobAge::Current, JobAge::HeadChanged, JobAge::Stale] {
            for error in [WriteError::Stopping, WriteError::Failed("of the test".into())] {
                let text = error.to_string();
                let verdict = verdict_of_chain(Err(error), age);
                let refused = ShareVerdict::Refused(RejectReason::Internal);
                assert_eq!(verdict, refused, "{text}, {age:?}");
            }
            let verdict = verdict_of_chain(Err(SolutionError::Solved(B256::ZERO).into()), age);
            assert_eq!(
                verdict,
                verdict_without_block(age),
                "another miner was faster, {age:?}"
            );
        }
        assert_eq!(quality_of_refused(RejectReason::Internal), None);
    }

    #[test]
    fn stale_shares_are_not_bad() {
        assert_eq!(quality_of_refused(RejectReason::Stale), Some(ShareQuality::Work));
        assert_eq!(
            quality_of_refused(RejectReason::LowDifficulty),
            Some(ShareQuality::Bad)
        );
    }
}
