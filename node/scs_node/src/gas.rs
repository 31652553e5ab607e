//! The gas limit of each call of the engine.

use microchain::BaseCall;
use microchain::branch::BASE_GAS_LIMIT_ASSUMED;

/// The facts about a MicroChain that the gas of its calls depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GasFacts {
    pub members: u64,
    /// The gas limit of a base block.
    pub block: u64,
    /// The most redemptions of one payout.
    pub payout_max: u64,
}

impl Default for GasFacts {
    fn default() -> Self {
        Self {
            members: 0,
            block: BASE_GAS_LIMIT_ASSUMED,
            payout_max: 0,
        }
    }
}

/// The gas limit for a call of the engine.
pub(crate) fn gas_of(call: &BaseCall, facts: &GasFacts) -> u64 {
    /// A payment to an account that did not exist, with its bookkeeping.
    const PAYOUT: u64 = 135_000;
    /// The gas of a flush for each member.
    const MEMBER: u64 = 110_000;
    /// The limit of the next blocks may be lower by this part.
    const DRIFT_PART: u64 = 64;
    let members = facts.members;
    let gas = match call {
        BaseCall::CreateProposal { .. } => 1_200_000 + 60_000 * members,
        BaseCall::UploadRedemptions { users, .. } => 300_000 + 56_000 * users.len() as u64,
        BaseCall::Vote { .. } => 500_000,
        BaseCall::Act { .. } => 1_200_000 + MEMBER * members,
        BaseCall::Redeem { left, .. } => {
            let paid = (*left).min(facts.payout_max).min(facts.block / PAYOUT);
            1_200_000 + MEMBER * members + PAYOUT * paid
        }
        BaseCall::BackupUpToDate { .. } => 200_000,
    };
    gas.min(facts.block - facts.block / DRIFT_PART)
}

#[cfg(test)]
mod tests {
    use primitives::B256;

    use super::*;

    #[test]
    fn no_call_needs_more_gas_than_a_block_has() {
        let gas = |left, block, payout_max| {
            let hash = B256::ZERO;
            let facts = GasFacts {
                members: 3,
                block,
                payout_max,
            };
            gas_of(&BaseCall::Redeem { hash, left }, &facts)
        };
        assert_eq!(gas(u64::MAX, 9_000_000, u64::MAX), 9_000_000 - 9_000_000 / 64);
        assert_eq!(gas(500, 30_000_000, 130), 1_530_000 + 130 * 135_000);
        assert_eq!(gas(2, 30_000_000, 130), 1_530_000 + 2 * 135_000);
        assert_eq!(gas(1, 0, 0), 0);
    }
}
