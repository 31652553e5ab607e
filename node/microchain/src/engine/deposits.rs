//! Compares the deposits that DappBase credited with those of the chain base
//! (docs/microchain-design.md, 4).
//!
//! Which deposits were credited is read from the votes in the blocks, because DappBase answers
//! only with all deposits that it ever had. It is asked only where the votes leave a doubt.

use std::collections::BTreeMap;

use chain::View;
use primitives::{Address, ReceiptOutcome, U256};

use super::proposal::ProposalFault;
use super::{EngineError, MemberEngine};
use crate::contract::{ContractState, Deposit};
use crate::dapp_base::{CreditVote, DappBaseCalls};

impl MemberEngine {
    /// Compares the deposits that were credited in the blocks `start` to `end`, the first ones
    /// after the last flush, with those of the chain base. Returns the first difference.
    pub(super) fn wrong_deposit(
        &self,
        view: &View,
        contract: &ContractState,
        (start, end): (u64, u64),
    ) -> Result<Option<ProposalFault>, EngineError> {
        let calls = DappBaseCalls::new(view, self.ledger.dapp_base());
        let from = self.deposits_from();
        let to = calls.enter_position(end)?;
        if to == from {
            return Ok(None);
        }
        let Some(bought) = deposits_between(contract, from, to) else {
            let max = contract.deposits.from + contract.deposits.entries.len() as u64;
            return Ok(Some(ProposalFault::UnreadDeposits { from, to, max }));
        };
        let mut position = from;
        for number in start..=end {
            let votes = self.credit_votes(view, number, position)?;
            if votes.is_empty() {
                continue;
            }
            let after = calls.enter_position(number)?;
            if after == position {
                continue;
            }
            let range = position.checked_sub(from).zip(after.checked_sub(from));
            let expected = range.and_then(|(first, last)| bought.get(first as usize..last as usize));
            let Some(expected) = expected else {
                return Ok(Some(ProposalFault::DepositsBeyond {
                    from: position,
                    to: after,
                    number,
                    max: to,
                }));
            };
            if !are_all(&votes, expected)
                && let Some(fault) = wrong_record(&calls, expected, number)?
            {
                return Ok(Some(fault));
            }
            position = after;
        }
        Ok((position != to).then_some(ProposalFault::DepositsWithoutVotes {
            got: to,
            end,
            expected: position,
        }))
    }

    /// The votes of a block for deposits from `position` on that did not fail.
    fn credit_votes(&self, view: &View, number: u64, position: u64) -> Result<Vec<CreditVote>, EngineError> {
        let Some(stored) = view.block(number)? else {
            return Ok(Vec::new());
        };
        let dapp_base = self.ledger.dapp_base();
        let votes = stored.body.transactions.iter().enumerate();
        let votes = votes.filter_map(|(index, one)| Some((index, CreditVote::of(one, &dapp_base)?)));
        let votes: Vec<_> = votes.filter(|(_, vote)| vote.position == position).collect();
        if votes.is_empty() {
            return Ok(Vec::new());
        }
        let id = chain::import::BlockId {
            number,
            hash: stored.hash,
        };
        let receipts = view.receipts(&id)?.unwrap_or_default();
        let succeeded = |index: usize| {
            receipts
                .get(index)
                .is_some_and(|one| one.outcome == ReceiptOutcome::Status(true))
        };
        let votes = votes.into_iter().filter(|(index, _)| succeeded(*index));
        Ok(votes.map(|(_, vote)| vote).collect())
    }
}

/// The deposits of the chain base with these positions, if all of them were read.
fn deposits_between(contract: &ContractState, from: u64, to: u64) -> Option<&[Deposit]> {
    let first = from.checked_sub(contract.deposits.from)?;
    let last = to.checked_sub(contract.deposits.from)?;
    contract.deposits.entries.get(first as usize..last as usize)
}

/// Whether all votes are for these deposits.
fn are_all(votes: &[CreditVote], expected: &[Deposit]) -> bool {
    let wanted = || expected.iter().map(|one| (one.user, one.tokens));
    votes.iter().all(|vote| vote.entries.iter().copied().eq(wanted()))
}

/// Compares the records of DappBase that block `number` has added with these deposits, user by
/// user.
fn wrong_record(
    calls: &DappBaseCalls<'_>,
    expected: &[Deposit],
    number: u64,
) -> Result<Option<ProposalFault>, EngineError> {
    let mut by_user: BTreeMap<Address, Vec<U256>> = BTreeMap::new();
    for deposit in expected {
        by_user.entry(deposit.user).or_default().push(deposit.tokens);
    }
    for (user, expected) in by_user {
        let before = calls.credited(&user, number.saturating_sub(1))?.len();
        let credited = calls.credited(&user, number)?;
        let got = credited.get(before..).unwrap_or_default();
        if !got.iter().map(|one| one.tokens).eq(expected.iter().copied()) {
            return Ok(Some(ProposalFault::Deposits {
                user,
                number,
                got: got.to_vec(),
                expected,
            }));
        }
    }
    Ok(None)
}
