//! Flushes: which block the last one covers, and voting and acting for the open one
//! (docs/microchain-design.md, 4).

use chain::View;
use primitives::{Address, B256};
use store::StoreError;

use super::commitment::covers;
use super::{EngineError, MemberEngine};
use crate::contract::{BaseCall, ContractState, PROPOSAL_APPROVED, Proposal, RETRY_BLOCKS};
use crate::dapp_base::DappBaseCalls;
use crate::memory::CastVote;

/// The last flush of the chain base.
#[derive(Clone, Debug)]
pub(super) struct KnownFlush {
    /// The hash of the proposal.
    pub(super) hash: B256,
    /// The last block.
    pub(super) end: u64,
    /// The hash of the last block; `None` if this SCS does not have the block.
    pub(super) block: Option<B256>,
    /// The number of deposits that are credited after that block; `None` if the chain does not have
    /// the block.
    pub(super) enter_position: Option<u64>,
}

impl MemberEngine {
    /// Looks which block the last flush of the chain base covers, and goes to its chain.
    pub(super) fn find_flush(&mut self) -> Result<(), EngineError> {
        let Some(contract) = &self.contract else {
            return Ok(());
        };
        let approved = &contract.approved;
        if !approved.exists() || approved.flag != PROPOSAL_APPROVED {
            self.flush = None;
            return Ok(());
        }
        let known = self.flush.as_ref().filter(|flush| flush.hash == approved.hash);
        if known.is_some_and(|flush| flush.enter_position.is_some()) {
            return Ok(());
        }
        let is_new = known.is_none();
        let view = self.ledger.view()?;
        let hashes = self.ledger.hashes_at(&view, approved.end)?;
        let block = hashes
            .into_iter()
            .find(|hash| covers(&self.setup.address, approved, hash));
        let mut flush = KnownFlush {
            hash: approved.hash,
            end: approved.end,
            block,
            enter_position: None,
        };
        let reported: Vec<Address> = named_members(approved);
        let own_place = approved.members.contains(&self.id);
        drop(view);
        if is_new {
            let (hash, end, found) = (flush.hash, flush.end, block.is_some());
            tracing::info!(chain = %self.setup.address, %hash, end, found, own_place, "a flush was found in the base chain");
            // A member that was reported in a flush has had its punishment.
            self.remember(|memory| {
                let before = memory.accused.len();
                memory.accused.retain(|member| !reported.contains(member));
                memory.accused.len() != before
            })?;
        }
        self.flush = Some(flush.clone());
        if block.is_some() {
            self.choose_best()?;
            let view = self.ledger.view()?;
            if !self.lacks_flush(&view) {
                let calls = DappBaseCalls::new(&view, self.ledger.dapp_base());
                flush.enter_position = Some(calls.enter_position(flush.end)?);
            }
            self.flush = Some(flush);
        } else {
            self.sync_again()?;
        }
        Ok(())
    }

    /// Whether the chain base has a flush that the canonical chain does not contain.
    pub(super) fn lacks_flush(&self, view: &View) -> bool {
        self.flush.as_ref().is_some_and(|flush| {
            !flush
                .block
                .is_some_and(|block| self.is_canonical(view, flush.end, &block))
        })
    }

    /// The vote of this SCS for the open proposal, or for one that expired while it was paid.
    pub(super) fn open_vote(&self) -> Option<&CastVote> {
        let contract = self.contract.as_ref()?;
        let open = contract.open_proposal().or_else(|| contract.half_paid())?;
        let vote = self.memory.vote_of(open.starting_block)?;
        (vote.hash == open.hash).then_some(vote)
    }

    /// Proposes, uploads, votes or acts, as the chain base needs it.
    pub(super) fn work_on_flush(&mut self) -> Result<(), EngineError> {
        let Some(contract) = self.started().cloned() else {
            return Ok(());
        };
        let view = self.ledger.view()?;
        // The next reading has the deposits, without which no credit can be judged.
        if self.lacks_flush(&view) || contract.deposits.is_none() {
            return Ok(());
        }
        let Some(place) = contract.place_of(&self.id) else {
            // Members that left with this flush may still carry it out.
            return match contract.open_proposal() {
                Some(open) if open.distribute_flag == 1 => self.act(&view, &contract, open, None),
                _ => Ok(()),
            };
        };
        let Some(open) = contract.open_proposal() else {
            self.due = None;
            return self.propose(&view, &contract, place);
        };
        if open.proposed_by == self.id && (open.users.len() as u64) < open.redemptions_left {
            return self.upload(&contract, open);
        }
        let has_voted = open.voters.contains(&place);
        if !has_voted && open.distribute_flag == 0 {
            self.vote(&view, &contract, open, place)?;
        }
        drop(view);
        // The vote may have changed the head.
        let view = self.ledger.view()?;
        self.act(&view, &contract, open, Some(place))
    }

    fn vote(
        &mut self,
        view: &View,
        contract: &ContractState,
        open: &Proposal,
        place: u64,
    ) -> Result<(), EngineError> {
        let call = BaseCall::Vote {
            place,
            hash: open.hash,
            redeem: true,
        };
        let stored = self.memory.vote_of(open.starting_block);
        if stored.is_some_and(|vote| vote.hash != open.hash) || self.has_asked(&call) {
            return Ok(());
        }
        // A stored vote may have been lost on its way, or taken back with its block. It is sent
        // again only for what is right now.
        let is_new = stored.is_none();
        let is_deep = self.is_deep(contract);
        // A fault is told at once.
        if !open.is_uploaded() || !(is_deep || self.is_first_look()) {
            return Ok(());
        }
        match self.check_proposal(view, contract, open)? {
            Ok(_) if !is_deep => Ok(()),
            Ok(block) => {
                let vote = CastVote {
                    starting_block: open.starting_block,
                    hash: open.hash,
                    end: open.end,
                    block,
                };
                self.remember(|memory| is_new && memory.add_vote(vote))?;
                self.send_vote(contract, place)?;
                self.choose_best()
            }
            Err(fault) => {
                tracing::warn!(
                    chain = %self.setup.address, hash = %open.hash, proposer = %open.proposed_by,
                    %fault, "no vote for a proposal"
                );
                Ok(())
            }
        }
    }

    /// Carries out an agreed proposal, if it is this member's turn to do so.
    fn act(
        &mut self,
        view: &View,
        contract: &ContractState,
        open: &Proposal,
        place: Option<u64>,
    ) -> Result<(), EngineError> {
        let members = contract.members.len() as u64;
        let call = match (open.distribute_flag, place) {
            (0, Some(place)) if 2 * open.voters.len() as u64 > members && self.is_in_time(contract, open) => {
                BaseCall::Act {
                    place,
                    hash: open.hash,
                }
            }
            (1, _) => BaseCall::Redeem {
                hash: open.hash,
                left: open.redemptions_left,
            },
            _ => {
                self.due = None;
                return Ok(());
            }
        };
        let base = contract.base_block;
        let since = match &self.due {
            Some((due, since)) if *due == call => *since,
            _ => base,
        };
        self.due = Some((call.clone(), since));
        // The proposer first, then the others by place.
        let place_of = |id: &Address| open.members.iter().position(|member| member == id);
        let count = open.members.len().max(1);
        let own = place_of(&self.id).unwrap_or(count);
        let first = place_of(&open.proposed_by).unwrap_or(0);
        let distance = (own + count - first) % count;
        // A transaction of a member before this one may be this very call. An action that is done
        // twice lowers the rewards twice, so the others wait for it while there is time.
        let is_before =
            |id: &Address| place_of(id).is_some_and(|place| (place + count - first) % count < distance);
        let deadline = contract.proposal_deadline().unwrap_or_default();
        let needed = contract.action_blocks(open.redemptions_left) + RETRY_BLOCKS;
        let has_time = base.saturating_add(needed) <= deadline;
        let waits = has_time && contract.busy.iter().any(is_before);
        if base < since + RETRY_BLOCKS * distance as u64 || waits || self.has_asked(&call) {
            return Ok(());
        }
        let fault = match open.distribute_flag {
            0 => self.check_proposal(view, contract, open)?.err(),
            _ => self.check_redemptions(view, contract, open)?.err(),
        };
        match fault {
            None => self.call(call),
            Some(fault) => tracing::warn!(
                chain = %self.setup.address, hash = %open.hash, proposer = %open.proposed_by,
                %fault, "a proposal is not carried out"
            ),
        }
        Ok(())
    }

    /// Whether a proposal can be finished before it expires. An action lowers the rewards at once,
    /// so one with redemptions that cannot all be paid is not begun.
    fn is_in_time(&self, contract: &ContractState, open: &Proposal) -> bool {
        let deadline = contract.proposal_deadline().unwrap_or_default();
        let needed = match open.redemptions_left {
            0 => 1,
            left => contract.action_blocks(left),
        };
        let in_time = contract.base_block.saturating_add(needed) <= deadline;
        if !in_time {
            tracing::info!(
                chain = %self.setup.address, hash = %open.hash, base = contract.base_block, deadline,
                "too late to carry out a proposal with redemptions"
            );
        }
        in_time
    }

    /// The hash of a canonical block.
    pub(super) fn canonical(&self, view: &View, number: u64) -> Result<Option<B256>, StoreError> {
        view.canonical_hash(number)
    }
}

/// The members that a proposal reports.
pub(super) fn named_members(proposal: &Proposal) -> Vec<Address> {
    let members = &proposal.members;
    let places = proposal.bad_actors.iter();
    places
        .filter_map(|place| members.get(usize::try_from(*place).ok()?).copied())
        .collect()
}
