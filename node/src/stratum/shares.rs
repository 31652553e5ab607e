//! Judges shares: a share is refused, accepted, or becomes a block.
//!
//! Judging runs on threads for blocking work: a hash with the light cache takes about a
//! millisecond, an import takes longer.

use chain::chain::WriteError;
use ethash::{B256, LightCaches, Solution, final_hash, meets_boundary};
use stratum::server::RejectReason;

use super::jobs::{JobAge, NonceStatus, StratumJob};
use super::state::StratumState;

/// A share that a miner submitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareToJudge {
    pub(super) pow_nonce: u64,
    /// The mix hash that the miner claims, if its dialect has one.
    pub(super) mix_hash: Option<B256>,
    /// Highest final hash that the share may have.
    pub(super) boundary: B256,
}

/// What became of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShareVerdict {
    Accepted,
    /// The share sealed a block.
    Block,
    /// The share sealed a block, but there was already work on another head.
    StaleBlock,
    Refused(RejectReason),
}

impl StratumState {
    /// Judges a share of `job`, and submits its block if it seals one.
    pub(super) fn judge_share(&self, job: &StratumJob, share: &ShareToJudge) -> ShareVerdict {
        let age = self.jobs.age(job);
        let solution = match check_share(&self.caches, job, share) {
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
        match self.chain.submit_solution(&solution) {
            Ok(_) => match age {
                JobAge::Current => ShareVerdict::Block,
                // The miner has not received work on the new head yet, so the share counts.
                JobAge::HeadChanged => ShareVerdict::Accepted,
                JobAge::Stale => ShareVerdict::StaleBlock,
            },
            Err(WriteError::Stopping) => ShareVerdict::Refused(RejectReason::Internal),
            Err(error) => {
                // Another miner was faster, or the chain refused the block and logged the reason.
                // The miner has done the work in both cases.
                tracing::debug!(%error, "a share meets the block difficulty but gives no block");
                verdict_without_block(age)
            }
        }
    }
}

/// The verdict on a valid share that gives no block.
fn verdict_without_block(age: JobAge) -> ShareVerdict {
    match age {
        JobAge::Current | JobAge::HeadChanged => ShareVerdict::Accepted,
        JobAge::Stale => ShareVerdict::Refused(RejectReason::Stale),
    }
}

/// Checks a share. Returns the solution if the share also meets the block difficulty.
fn check_share(
    caches: &LightCaches,
    job: &StratumJob,
    share: &ShareToJudge,
) -> Result<Option<Solution>, RejectReason> {
    let package = &job.package;
    let header_hash = &package.header_hash;
    if let Some(mix_hash) = &share.mix_hash {
        // The final hash of the claimed mix costs two permutations and finds most wrong shares.
        let claimed = final_hash(header_hash, share.pow_nonce, mix_hash);
        if !meets_boundary(&claimed, &share.boundary) {
            return Err(RejectReason::LowDifficulty);
        }
    }
    let cache = caches.get(package.epoch).map_err(|error| {
        tracing::error!(%error, "cannot judge shares");
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
