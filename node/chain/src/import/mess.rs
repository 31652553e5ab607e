//! MESS (ECBP-1100): a branch that leaves the canonical chain long ago needs much more work to take
//! its place.
//!
//! The curve follows the time between the last common block and the head. Within some minutes it
//! is near 1, and after seven hours it is 31: the branch must have that many times the work of the
//! blocks that it would take back. A branch with less stays beside the chain, and is judged
//! again with each block that it gets. So this is a choice between valid chains, not a rule for
//! blocks. Source: ECIP-1100.
//!
//! A node whose head is old may have been cut off from the network, or was not running. Then the
//! chain of the network is the one that seems to come late. So the curve counts while the head is
//! new only ([`ForkLimits::mess_head_age_secs_max`](super::ForkLimits)).

use primitives::{B256, U256};
use store::{HeaderReads, HeaderRecord};

use super::block::{CurrentHead, read_header};
use super::{BlockId, ImportError, Importer};
use crate::clock::unix_now;

/// The unit of the curve: this is 1.
const CURVE_UNIT: u128 = 128;
/// Seconds after which the curve does not rise any more: 8000 π.
const CURVE_SECONDS: u128 = 25_132;
/// The rise of the curve, in its unit.
const CURVE_RISE: u128 = 30 * CURVE_UNIT;

/// The work that a branch must have for each work that it takes back, in units of
/// [`CURVE_UNIT`], if the last common block is so many seconds older than the head.
fn curve(seconds: u64) -> u128 {
    let at = u128::from(seconds).min(CURVE_SECONDS);
    let rise = 3 * at.pow(2) - 2 * at.pow(3) / CURVE_SECONDS;
    CURVE_UNIT + rise * CURVE_RISE / CURVE_SECONDS.pow(2)
}

/// Whether a branch with the work `branch` may take the place of blocks with the work `replaced`.
fn is_enough(branch: U256, replaced: U256, seconds: u64) -> bool {
    // Total difficulties have far fewer than 240 bits.
    branch.saturating_mul(U256::from(CURVE_UNIT)) >= replaced.saturating_mul(U256::from(curve(seconds)))
}

impl Importer {
    /// Whether MESS lets a heavier branch become canonical. Its end has `total_difficulty`, and
    /// `known` is a block or header of the branch that is stored.
    ///
    /// # Errors
    /// [`ImportError`] if the store fails.
    pub(super) fn mess_allows(
        &self,
        source: &impl HeaderReads,
        known: &BlockId,
        total_difficulty: U256,
    ) -> Result<bool, ImportError> {
        if self.limits.mess_head_age_secs_max.is_none() {
            return Ok(true);
        }
        let head = CurrentHead::read(source)?;
        let ancestor = self.branch_start(source, known, head.record.header.number)?;
        self.mess_allows_instead_of(source, &head.record, ancestor, known, total_difficulty)
    }

    /// As [`Importer::mess_allows`], for a branch that would take the place of `head`. Their last
    /// common block has the number `ancestor`, and is canonical.
    ///
    /// # Errors
    /// [`ImportError`] if the store fails.
    pub(super) fn mess_allows_instead_of(
        &self,
        source: &impl HeaderReads,
        head: &HeaderRecord,
        ancestor: u64,
        known: &BlockId,
        total_difficulty: U256,
    ) -> Result<bool, ImportError> {
        let Some(age_max) = self.limits.mess_head_age_secs_max else {
            return Ok(true);
        };
        let now = unix_now().as_secs();
        if head.header.timestamp.saturating_add(age_max) < now {
            return Ok(true);
        }
        let hash = source.canonical_hash(ancestor)?.unwrap_or(B256::ZERO);
        let ancestor = read_header(source, ancestor, &hash)?;
        let seconds = head.header.timestamp.saturating_sub(ancestor.header.timestamp);
        let of = |end: U256| end.saturating_sub(ancestor.total_difficulty);
        let (got, replaced) = (of(total_difficulty), of(head.total_difficulty));
        if is_enough(got, replaced, seconds) {
            return Ok(true);
        }
        tracing::warn!(
            branch = %known.hash,
            ancestor = ancestor.header.number,
            work = %got,
            replaced = %replaced,
            factor = curve(seconds) as f64 / CURVE_UNIT as f64,
            "a heavier branch has too little work for its age (MESS); it stays beside the chain"
        );
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the formula of ECIP-1100, computed with whole numbers of any length.
    #[test]
    fn the_curve_is_that_of_the_proposal() {
        let expected = [
            (0, 128),
            (13, 128),
            (60, 128),
            (600, 134),
            (1800, 184),
            (3600, 341),
            (7200, 892),
            (12_566, 2048),
            (20_000, 3553),
            (25_131, 3967),
            (25_132, 3968),
            (25_133, 3968),
            (u64::MAX, 3968),
        ];
        for (seconds, numerator) in expected {
            assert_eq!(curve(seconds), numerator, "{seconds}");
        }
    }

    #[test]
    fn work_is_compared_with_the_curve() {
        let work = |blocks: u64| U256::from(blocks) << 40;
        // After the whole curve the factor is 31.
        assert!(is_enough(work(3100), work(100), 30_000));
        assert!(!is_enough(work(3100) - U256::ONE, work(100), 30_000));
        // A branch of the same age that is heavier.
        assert!(is_enough(work(2), work(1), 13));
        assert!(is_enough(U256::MAX, U256::MAX, 0));
    }
}
