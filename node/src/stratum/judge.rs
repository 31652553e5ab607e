//! What a share is worth: nothing, a share, or a block.
//!
//! Runs on threads for blocking work: a light hash takes a millisecond or so, an import some more.

use chain::chain::WriteError;
use ethash::{B256, LightCaches, Solution, final_hash, meets_boundary};
use stratum::server::RejectReason;

use super::Shared;
use super::board::{Job, Novelty};

/// A share as it is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) pow_nonce: u64,
    /// The mix that the miner claims, where it does.
    pub(super) mix_hash: Option<B256>,
    /// What it must not be above.
    pub(super) boundary: B256,
}

/// What a share is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Share,
    /// It sealed a block.
    Block,
    /// It sealed a block, though another had won already.
    LateBlock,
    Refused(RejectReason),
}

impl Shared {
    /// Judges a share of `job`.
    pub(super) fn judge(&self, job: &Job, share: &Share) -> Verdict {
        let (stale, late) = (self.board.is_stale(job), self.board.is_late(job));
        let solution = match check(&self.caches, job, share) {
            Ok(solution) => solution,
            Err(refusal) => return Verdict::Refused(refusal),
        };
        match job.note(share.pow_nonce) {
            Novelty::New => {}
            Novelty::Known => return Verdict::Refused(RejectReason::Duplicate),
            // What seals is looked at by the chain, which knows a block again.
            Novelty::TooMany if solution.is_some() => {}
            Novelty::TooMany => return Verdict::Refused(RejectReason::TooMany),
        }
        let Some(solution) = solution else {
            return if stale {
                Verdict::Refused(RejectReason::Stale)
            } else {
                Verdict::Share
            };
        };
        match self.chain.submit_solution(&solution) {
            Ok(_) if stale => Verdict::LateBlock,
            // The head has changed, and the miner was not told of other work yet.
            Ok(_) if late => Verdict::Share,
            Ok(_) => Verdict::Block,
            Err(WriteError::Stopping) => Verdict::Refused(RejectReason::Internal),
            Err(error) => {
                // Somebody was faster, or the block was refused, which the chain's log explains. The work was
                // done all the same.
                tracing::debug!(%error, "a share that seals gives no block");
                if stale {
                    Verdict::Refused(RejectReason::Stale)
                } else {
                    Verdict::Share
                }
            }
        }
    }
}

/// Checks a share; the solution, if it seals the work too.
fn check(caches: &LightCaches, job: &Job, share: &Share) -> Result<Option<Solution>, RejectReason> {
    let package = &job.package;
    let header_hash = &package.header_hash;
    if let Some(mix_hash) = &share.mix_hash {
        // Two permutations show most of what is not even claimed right.
        let claimed = final_hash(header_hash, share.pow_nonce, mix_hash);
        if !meets_boundary(&claimed, &share.boundary) {
            return Err(RejectReason::LowDifficulty);
        }
    }
    let cache = caches.get(package.epoch).map_err(|error| {
        tracing::error!(%error, "shares cannot be judged");
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
