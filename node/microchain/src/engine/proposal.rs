//! Proposals for a flush: making one, uploading its redemptions, and checking one of another member
//! (docs/microchain-design.md, 4).

use std::fmt;

use chain::View;
use chain::application::PlainAction;
use chain::import::BlockId;
use primitives::{Address, B256, EMPTY_ROOT, U256};
use store::{BlockReads, StoreError};

use super::commitment::{commitment, is_commitment, with_anchor};
use super::flush::named_members;
use super::{EngineError, MemberEngine};
use crate::codes;
use crate::contract::{BaseCall, CALL_BLOCKS, ContractState, Proposal, RETRY_BLOCKS};
use crate::dapp_base::DappBaseCalls;
use crate::memory::CastVote;
use crate::records::ExchangeRecord;

/// The most blocks of one flush.
pub(super) const FLUSH_BLOCKS_MAX: u64 = 10_000;
/// The highest gas price that the chain base takes, in sha.
const GAS_PRICE_MAX: u64 = 20_000_000_000;
/// Gas of a payout to a user who had none before.
const PAYOUT_GAS: u64 = 135_000;
/// Gas of the rest of a payout.
const PAYOUT_BASE_GAS: u64 = 200_000;
/// Gas of an uploaded redemption.
const UPLOAD_GAS: u64 = 54_000;
/// Gas of the calls of a flush without its payouts, about.
const FLUSH_GAS: u64 = 3_000_000;

/// The proposal of this SCS.
#[derive(Debug)]
pub(super) struct OwnProposal {
    starting_block: u64,
    hash: B256,
    call: BaseCall,
}

/// The reason why a member does not vote for a proposal.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProposalFault {
    /// A field is not what the own chain or the contract calls for.
    #[error("{what}: got {got}, expected {expected}")]
    Field {
        what: &'static str,
        got: String,
        expected: String,
    },
    /// The withdrawals are those of a contract that is not known.
    #[error(
        "withdrawals of DappBase {address}: got code with hash {got}, expected a known DappBase, created as it is published; if you trust it: --join.code {got}"
    )]
    UnknownDappBase { address: Address, got: B256 },
    /// Deposits were credited that this member has not read from the chain base.
    #[error("credited deposits: got positions {from} to {to}, expected at most {max} of the chain base")]
    UnreadDeposits { from: u64, to: u64, max: u64 },
    /// Deposits were credited without votes.
    #[error("credited deposits: got position {got} after block {end}, expected {expected} by its votes")]
    DepositsWithoutVotes { got: u64, end: u64, expected: u64 },
    /// Another deposit was credited than that of the chain base: user and tokens.
    #[error("credited deposit {position} in block {number}: got {got:?}, expected {expected:?}")]
    Deposit {
        position: u64,
        number: u64,
        got: (Address, U256),
        expected: (Address, U256),
    },
}

/// The content of a proposal that a member would make, or that it expects.
struct FlushContent {
    start: u64,
    end: u64,
    block: B256,
    distribution: Vec<U256>,
}

impl MemberEngine {
    /// Proposes a flush in this member's turn.
    pub(super) fn propose(
        &mut self,
        view: &View,
        contract: &ContractState,
        place: u64,
    ) -> Result<(), EngineError> {
        let turn = contract.turn_at(place, contract.base_block.saturating_add(1));
        let Some(turn) = turn.filter(|_| contract.members.len() >= 2) else {
            return Ok(());
        };
        if let Some(own) = self
            .own_proposal
            .as_ref()
            .filter(|own| own.starting_block == turn)
        {
            if contract.current.hash != own.hash {
                let call = own.call.clone();
                self.call(call);
            }
            return Ok(());
        }
        // After a restart: what was proposed in this turn may still come.
        if self.memory.vote_of(turn).is_some() {
            return Ok(());
        }
        if !self.hears_most() {
            self.tell_no_proposal(turn, "more than half of the members were not heard lately");
            return Ok(());
        }
        // A VNODE of this project tells the block before the turn as soon as the turn has begun.
        let anchor = contract
            .branch
            .as_ref()
            .map(|branch| branch.hash_at(turn.saturating_sub(1)));
        if anchor == Some(None) {
            self.tell_no_proposal(turn, "the VNODE has not told the base block before the turn");
            return Ok(());
        }
        let Some(content) = self.content_of(view, contract, turn)? else {
            self.tell_no_proposal(turn, "there is no block for it");
            return Ok(());
        };
        let mut redemptions = self.redemptions(view, contract, content.end)?;
        let left = turn
            .saturating_add(contract.turn_blocks())
            .saturating_sub(contract.base_block);
        // The action makes backups members at once, and the calls after it need the votes of more
        // than half of all members then.
        let has_votes = self.hears_most_of(contract.members.len() + contract.ready.len());
        let blocks = |redemptions: usize| self.confirmations + proposal_blocks(contract, redemptions as u64);
        let price = contract.gas_price.min(U256::from(GAS_PRICE_MAX));
        let rewards = content
            .distribution
            .iter()
            .fold(U256::ZERO, |sum, one| sum.saturating_add(*one));
        let money = |redemptions: usize| {
            let gas = FLUSH_GAS + (UPLOAD_GAS + PAYOUT_GAS) * redemptions as u64;
            let gas = U256::from(gas).saturating_mul(price);
            let needed = [contract.rewards.via, contract.booked_gas, rewards, gas];
            needed.into_iter().fold(U256::ZERO, U256::saturating_add)
        };
        let (got, least) = (contract.total_operation, money(0));
        if got < least || contract.need_fund >= got {
            tracing::warn!(
                chain = %self.setup.address, %got, expected = %least, "the money for a flush is missing"
            );
            return Ok(());
        }
        // The other redemptions come with the next flush.
        let most = if has_votes { redemptions.len() } else { 0 };
        let fits = |count: &usize| blocks(*count) <= left && money(*count) <= got;
        let Some(fitting) = (0..=most).rev().find(fits) else {
            self.tell_no_proposal(turn, "the rest of the turn is too short");
            return Ok(());
        };
        if fitting < most && money(fitting + 1) > got {
            tracing::warn!(
                chain = %self.setup.address, %got, expected = %money(most), fitting, most,
                "the money for some withdrawals is missing"
            );
        }
        redemptions.truncate(fitting);
        let proposal = Proposal {
            last_approved: contract.approved.hash,
            start: content.start,
            end: content.end,
            starting_block: turn,
            users: redemptions.iter().map(|one| one.user).collect(),
            tokens: redemptions.iter().map(|one| one.tokens).collect(),
            bad_actors: self.bad_actors(contract),
            distribution: content.distribution,
            members: contract.members.clone(),
            via: contract.via,
            ..Default::default()
        };
        let bound = commitment(&self.setup.address, &proposal, &content.block);
        let hash = anchor
            .flatten()
            .map_or(bound, |anchor| with_anchor(bound, &anchor));
        let vote = CastVote {
            starting_block: turn,
            hash,
            end: content.end,
            block: content.block,
        };
        self.remember(|memory| memory.add_vote(vote))?;
        let call = BaseCall::CreateProposal {
            place,
            last_approved: proposal.last_approved,
            hash,
            block: content.block,
            start: proposal.start,
            end: proposal.end,
            distribution: proposal.distribution,
            bad_actors: proposal.bad_actors,
            via: proposal.via,
            redemptions: redemptions.len() as u64,
        };
        self.call(call.clone());
        self.own_proposal = Some(OwnProposal {
            starting_block: turn,
            hash,
            call,
        });
        Ok(())
    }

    /// Says why this member does not propose although it has the turn.
    fn tell_no_proposal(&self, turn: u64, reason: &str) {
        tracing::debug!(chain = %self.setup.address, turn, reason, "no proposal");
    }

    /// Uploads the next redemptions of the own proposal.
    pub(super) fn upload(&mut self, contract: &ContractState, open: &Proposal) -> Result<(), EngineError> {
        let view = self.ledger.view()?;
        // The chain may have left the block that the proposal ends with.
        let holds = |vote: &CastVote| self.is_canonical(&view, vote.end, &vote.block);
        if !self.open_vote().is_some_and(holds) {
            return Ok(());
        }
        let all = self.redemptions(&view, contract, open.end)?;
        let most = upload_batch(contract) as usize;
        let announced = all.get(..open.redemptions_left as usize).unwrap_or(&all);
        let batch = announced.get(open.users.len()..).unwrap_or_default();
        let batch = &batch[..batch.len().min(most)];
        if !batch.is_empty() {
            self.call(BaseCall::UploadRedemptions {
                users: batch.iter().map(|one| one.user).collect(),
                tokens: batch.iter().map(|one| one.tokens).collect(),
            });
        }
        Ok(())
    }

    /// The withdrawals that a flush up to block `end` pays out.
    fn redemptions(
        &self,
        view: &View,
        contract: &ContractState,
        end: u64,
    ) -> Result<Vec<ExchangeRecord>, EngineError> {
        if let Err(fault) = self.check_dapp_base(view, end)? {
            tracing::warn!(chain = %self.setup.address, %fault, "a flush without withdrawals");
            return Ok(Vec::new());
        }
        let calls = DappBaseCalls::new(view, self.ledger.dapp_base());
        let max = redemptions_max(contract) as usize;
        Ok(calls.withdrawal_page(contract.redeem_position, max, end)?)
    }

    /// Whether withdrawals are those of a contract that this member allows. Another one could list
    /// withdrawals that nobody has paid for.
    fn check_dapp_base(&self, view: &View, end: u64) -> Result<Result<(), ProposalFault>, EngineError> {
        let address = self.ledger.dapp_base();
        let code = view.code(&address, end)?;
        if code.is_empty() || self.dapp_bases.any {
            return Ok(Ok(()));
        }
        let got = codes::code_hash(&code);
        if self.dapp_bases.codes.contains(&got) {
            return Ok(Ok(()));
        }
        Ok(if self.is_created_by_known_code(view, end)? {
            Ok(())
        } else {
            Err(ProposalFault::UnknownDappBase { address, got })
        })
    }

    /// Whether the code that created DappBase is known. Before DappBase no other transaction is
    /// valid, so the creation is the first one of the chain. It is looked for once, in the blocks
    /// up to `end`, because a past state may not be kept.
    fn is_created_by_known_code(&self, view: &View, end: u64) -> Result<bool, EngineError> {
        let mut found = self.dapp_base_creation.lock();
        if let Some((block, is_known)) = *found
            && view.canonical_hash(block.number)? == Some(block.hash)
        {
            return Ok(is_known);
        }
        let Some(block) = self.first_transaction(view, end)? else {
            return Ok(false);
        };
        let transactions = view.block(block.number)?.map(|block| block.body.transactions);
        let first = transactions.unwrap_or_default().into_iter().next();
        let action = first.and_then(|creation| PlainAction::of(&creation));
        let is_known = action.is_some_and(|action| codes::creates_dapp_base(&action.data));
        *found = Some((block, is_known));
        Ok(is_known)
    }

    /// The first block with transactions, up to block `end`. A chain that begins with a snapshot
    /// has this block, and not all before it.
    pub(super) fn first_transaction(&self, view: &View, end: u64) -> Result<Option<BlockId>, StoreError> {
        let mut next = view.snapshot().next_block(1)?;
        while let Some(number) = next.filter(|number| *number <= end) {
            if let Some((hash, record)) = view.header(number)?
                && record.header.transactions_root != EMPTY_ROOT
            {
                return Ok(Some(BlockId { number, hash }));
            }
            next = view.snapshot().next_block(number + 1)?;
        }
        Ok(None)
    }

    /// The content of a flush now, in the turn that begins at the base block `turn`; `None` if
    /// there is no block for it.
    fn content_of(
        &self,
        view: &View,
        contract: &ContractState,
        turn: u64,
    ) -> Result<Option<FlushContent>, EngineError> {
        let members = contract.members.len() as u64;
        let start = first_block(contract);
        let most = self
            .first_newer_credit(turn)
            .map_or(u64::MAX, |number| number.saturating_sub(1));
        let mut end = view.head_number().min(start.saturating_add(FLUSH_BLOCKS_MAX - 1));
        end = end.min(most);
        while end >= start {
            let Some((_, record)) = view.header(end)? else {
                break;
            };
            if self.ledger.slot_of(&record.header) + members <= self.slot() {
                break;
            }
            end -= 1;
        }
        if end < start {
            return Ok(None);
        }
        self.content(view, contract, start, end)
    }

    fn content(
        &self,
        view: &View,
        contract: &ContractState,
        start: u64,
        end: u64,
    ) -> Result<Option<FlushContent>, EngineError> {
        let Some(block) = self.canonical(view, end)? else {
            return Ok(None);
        };
        let mut distribution = vec![U256::ZERO; contract.members.len()];
        for number in start..=end {
            let Some(stored) = view.block(number)? else {
                return Ok(None);
            };
            let producer = contract.place_of(&stored.record.header.beneficiary);
            let Some(place) = producer else { continue };
            let transactions = U256::from(stored.body.transactions.len());
            let reward = contract.rewards.transaction.saturating_mul(transactions);
            let sum = &mut distribution[place as usize];
            *sum = sum.saturating_add(contract.rewards.block).saturating_add(reward);
        }
        Ok(Some(FlushContent {
            start,
            end,
            block,
            distribution,
        }))
    }

    /// The places of members with evidence, as many as a proposal may report.
    fn bad_actors(&self, contract: &ContractState) -> Vec<u64> {
        let most = (contract.members.len() / 2).saturating_sub(1);
        if contract.releasing > 0 {
            return Vec::new();
        }
        let places = self.memory.accused.iter();
        let mut places: Vec<u64> = places.filter_map(|member| contract.place_of(member)).collect();
        places.sort_unstable();
        places.truncate(most);
        places
    }

    /// Compares a proposal with the own chain. Returns the hash of its last block, or the first
    /// difference.
    pub(super) fn check_proposal(
        &self,
        view: &View,
        contract: &ContractState,
        open: &Proposal,
    ) -> Result<Result<B256, ProposalFault>, EngineError> {
        let wrong = |what, got: &dyn fmt::Debug, expected: &dyn fmt::Debug| {
            Ok(Err(ProposalFault::Field {
                what,
                got: format!("{got:?}"),
                expected: format!("{expected:?}"),
            }))
        };
        if open.members != contract.members {
            return wrong("members", &open.members, &contract.members);
        }
        if open.last_approved != contract.approved.hash {
            return wrong("last flush", &open.last_approved, &contract.approved.hash);
        }
        let turn = contract.place_of(&open.proposed_by);
        let turn = turn.and_then(|place| contract.turns.get(place as usize).copied());
        if turn != Some(open.starting_block) {
            return wrong("first block of the turn", &open.starting_block, &turn);
        }
        let start = first_block(contract);
        if open.start != start || open.end < start || open.end - start >= FLUSH_BLOCKS_MAX {
            return wrong("blocks", &(open.start, open.end), &(start, "at least that"));
        }
        let Some(content) = self.content(view, contract, open.start, open.end)? else {
            return wrong("last block", &open.end, &("at most", view.head_number()));
        };
        if open.distribution != content.distribution {
            return wrong("rewards", &open.distribution, &content.distribution);
        }
        // A VNODE that does not tell the gas limit may be that of the voter only.
        let max = match contract.branch {
            Some(_) => redemptions_max(contract),
            None => contract.redemptions_max,
        };
        if open.users.len() as u64 > max {
            return wrong("redemptions", &open.users.len(), &max);
        }
        if open.users.len() as u64 != open.redemptions_left {
            return wrong("announced redemptions", &open.redemptions_left, &open.users.len());
        }
        if !open.users.is_empty()
            && let Err(fault) = self.check_dapp_base(view, open.end)?
        {
            return Ok(Err(fault));
        }
        let reported = named_members(open);
        if open.bad_actors.len() != reported.len()
            || reported
                .iter()
                .any(|member| !self.memory.accused.contains(member))
        {
            return wrong("reported members", &reported, &self.memory.accused);
        }
        if let Err(fault) = self.check_redemptions(view, contract, open)? {
            return Ok(Err(fault));
        }
        let branch = contract.branch.as_ref();
        let anchor = branch.and_then(|branch| branch.hash_at(open.starting_block.saturating_sub(1)));
        if let Some(expected) = anchor.map(|anchor| with_anchor(open.hash, &anchor))
            && expected != open.hash
        {
            return wrong("base block before the turn", &open.hash, &expected);
        }
        if let Some(newer) = self.first_newer_credit(open.starting_block)
            && newer <= open.end
        {
            return wrong("credits newer than the turn", &open.end, &("less than", newer));
        }
        if let Some(fault) = self.wrong_deposit(view, contract, open.end)? {
            return Ok(Err(fault));
        }
        Ok(Ok(content.block))
    }

    /// Compares the hash and the redemptions of a proposal with the own chain: before the action,
    /// and while they are paid. Returns the first difference.
    pub(super) fn check_redemptions(
        &self,
        view: &View,
        contract: &ContractState,
        open: &Proposal,
    ) -> Result<Result<(), ProposalFault>, EngineError> {
        let wrong =
            |what, got: String, expected: String| Ok(Err(ProposalFault::Field { what, got, expected }));
        let Some(block) = self.canonical(view, open.end)? else {
            let highest = format!("at most {}", view.head_number());
            return wrong("last block", open.end.to_string(), highest);
        };
        let hash = commitment(&self.setup.address, open, &block);
        if !is_commitment(&open.hash, &hash) {
            return wrong("hash of the proposal", open.hash.to_string(), hash.to_string());
        }
        let count = open.users.len();
        let paid = (count as u64).saturating_sub(open.redemptions_left);
        let calls = DappBaseCalls::new(view, self.ledger.dapp_base());
        let first = contract.redeem_position.saturating_sub(paid);
        let withdrawals = calls.withdrawal_page(first, count, open.end)?;
        let expected = withdrawals.iter().map(|one| (one.user, one.tokens));
        let got = open.users.iter().copied().zip(open.tokens.iter().copied());
        if count != open.tokens.len() || !got.clone().eq(expected.clone()) {
            let place = got
                .clone()
                .zip(expected.clone())
                .take_while(|(got, expected)| got == expected);
            let place = place.count();
            return wrong(
                "redemptions",
                format!("{:?} at {place} of {count}", got.clone().nth(place)),
                format!(
                    "{:?} at {place} of {}",
                    expected.clone().nth(place),
                    withdrawals.len()
                ),
            );
        }
        Ok(Ok(()))
    }
}

/// The first block of the next flush.
const fn first_block(contract: &ContractState) -> u64 {
    contract.approved.end + 1
}

/// The most redemptions of one upload.
fn upload_batch(contract: &ContractState) -> u64 {
    let by_gas = (contract.base_gas_limit / 4 * 3 / UPLOAD_GAS).max(1);
    contract.upload_max.clamp(1, by_gas)
}

/// The base blocks that a flush takes from its proposal to its end, beside those that members wait
/// for before they vote.
fn proposal_blocks(contract: &ContractState, redemptions: u64) -> u64 {
    // The proposal, its uploads, the votes.
    let calls = 2 + redemptions.div_ceil(upload_batch(contract));
    // A proposal with redemptions that is not finished was in vain, so one call may be late.
    let spare = if redemptions == 0 { 0 } else { RETRY_BLOCKS };
    CALL_BLOCKS * calls + spare + contract.action_blocks(redemptions)
}

/// The most redemptions of one flush: a payout must fit into a base block.
fn redemptions_max(contract: &ContractState) -> u64 {
    let gas = contract.base_gas_limit / 4 * 3;
    let fitting = gas.saturating_sub(PAYOUT_BASE_GAS) / PAYOUT_GAS;
    if fitting >= contract.payout_max {
        contract.redemptions_max
    } else {
        fitting.min(contract.redemptions_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payout_fits_into_a_base_block() {
        let max = |base_gas_limit, payout_max| {
            redemptions_max(&ContractState {
                base_gas_limit,
                payout_max,
                redemptions_max: 500,
                ..Default::default()
            })
        };
        assert_eq!(max(9_000_000, 130), 48);
        assert_eq!(max(9_000_000, 48), 500);
        assert_eq!(max(30_000_000, 130), 500);
        assert_eq!(max(100_000, 130), 0);
    }
}
