//! A chain base in memory, with the rules of docs/microchain-contracts.md, 4, for tests.

use std::collections::HashSet;

use primitives::{Address, B256, U256, keccak256};

use super::super::commitment::{commitment, is_commitment};
use crate::branch::BaseBranch;
use crate::contract::{
    BaseCall, ContractRole, ContractState, ContractStatus, Deposit, DepositList, PROPOSAL_APPROVED,
    PROPOSAL_PENDING, Proposal, Rewards,
};

const EXPIRED: u64 = 5;
/// The address of the chain base.
pub(super) const CHAIN: Address = Address::repeat_byte(0xcc);
/// Hashes of base blocks that a VNODE tells.
const HASHES_TOLD: u64 = 64;

/// The numbers of a chain base and of its base chain that flushes depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct BaseNumbers {
    /// Half of the length of a turn.
    expiration: u64,
    /// Base blocks from a flush to the first turn.
    round: u64,
    payout_max: u64,
    gas_limit: u64,
}

impl BaseNumbers {
    /// Small ones, so that tests are short.
    const SMALL: Self = Self {
        expiration: 12,
        round: 10,
        payout_max: 20,
        gas_limit: 9_000_000,
    };

    /// The small ones with turns of so many base blocks.
    pub(super) const fn with_turns_of(blocks: u64) -> Self {
        Self {
            expiration: blocks / 2,
            ..Self::SMALL
        }
    }

    /// Base blocks from a flush to the end of the first turn.
    pub(super) const fn first_turn_end(&self) -> u64 {
        self.round + 2 * self.expiration
    }

    /// The numbers of the public network, with blocks of this gas limit. A payout is as large as
    /// our contract makes it.
    pub(super) fn public(gas_limit: u64) -> Self {
        Self {
            expiration: 24,
            round: 40,
            payout_max: ((gas_limit / 4 * 3 - 200_000) / 135_000).min(130),
            gas_limit,
        }
    }
}

/// The state of the contract and of the base chain around it.
#[derive(Clone, Debug)]
pub(super) struct BaseChain {
    pub(super) block: u64,
    pub(super) numbers: BaseNumbers,
    /// The branches that the chain consists of: the first block of each, and its name.
    branches: Vec<(u64, u64)>,
    reorganizations: u64,
    /// Whether the VNODEs tell hashes and the gas limit.
    pub(super) tells_branch: bool,
    /// Whether the contract compares bound hashes with what is proposed, as ours does.
    pub(super) binds: bool,
    /// The last block of the proposal in progress, as it was proposed.
    last_block: B256,
    pub(super) members: Vec<Address>,
    pub(super) backups: Vec<Address>,
    pub(super) up_to_date: Vec<Address>,
    pub(super) performance: Vec<(Address, u64)>,
    pub(super) last_flush: u64,
    first_place: u64,
    pub(super) current: Proposal,
    pub(super) approved: Proposal,
    used: HashSet<B256>,
    pub(super) redeem_position: u64,
    pub(super) paid: Vec<(Address, U256)>,
    /// Rewards of each flush: (member, sha).
    pub(super) rewarded: Vec<(Address, U256)>,
    pub(super) deposits: Vec<Deposit>,
    /// The most deposits that VNODEs answer with.
    pub(super) answered_max: usize,
    pub(super) flushes: u64,
    /// The number of actions that have lowered the rewards.
    pub(super) deflations: u64,
    pub(super) failed_calls: Vec<&'static str>,
    pub(super) rewards: Rewards,
    pub(super) total_operation: U256,
}

impl BaseChain {
    pub(super) fn new(members: Vec<Address>) -> Self {
        Self {
            block: 100,
            numbers: BaseNumbers::SMALL,
            branches: vec![(0, 0)],
            reorganizations: 0,
            tells_branch: true,
            binds: true,
            last_block: B256::ZERO,
            performance: members.iter().map(|member| (*member, 5)).collect(),
            members,
            backups: Vec::new(),
            up_to_date: Vec::new(),
            last_flush: 100,
            first_place: 0,
            current: Proposal::default(),
            approved: Proposal::default(),
            used: HashSet::new(),
            redeem_position: 0,
            paid: Vec::new(),
            rewarded: Vec::new(),
            deposits: Vec::new(),
            answered_max: usize::MAX,
            flushes: 0,
            deflations: 0,
            failed_calls: Vec::new(),
            rewards: Rewards {
                block: U256::from(500),
                transaction: U256::from(3),
                via: U256::from(10_000),
            },
            total_operation: U256::from(10u64).pow(U256::from(20)),
        }
    }

    /// The first base block of the turn of a place.
    pub(super) fn turn(&self, place: u64) -> u64 {
        let count = self.members.len() as u64;
        let first = self.first_place % count.max(1);
        let turns = (place + count - first) % count.max(1);
        self.last_flush + self.numbers.round + turns * 2 * self.numbers.expiration
    }

    /// Takes back all since `earlier`. Blocks of another branch follow.
    pub(super) fn go_back(&mut self, earlier: &Self) {
        let name = self.reorganizations + 1;
        *self = earlier.clone();
        self.reorganizations = name;
        self.branches.push((self.block + 1, name));
        self.block += 1;
    }

    /// The hash of a block.
    fn hash(&self, number: u64) -> B256 {
        let of = self.branches.iter().rev().find(|(first, _)| *first <= number);
        let name = of.map_or(0, |(_, name)| *name);
        keccak256([number.to_be_bytes(), name.to_be_bytes()].concat())
    }

    /// The blocks below the head, as a VNODE tells them.
    fn branch(&self) -> BaseBranch {
        let number = self.block - 1;
        BaseBranch {
            gas_limit: self.numbers.gas_limit,
            number,
            hashes: (0..HASHES_TOLD.min(number))
                .map(|back| self.hash(number - back))
                .collect(),
        }
    }

    /// Whether the contract takes a proposal, or an upload that completes one.
    fn is_bound_right(&self, proposal: &Proposal) -> bool {
        !self.binds
            || !(proposal.hash.starts_with(b"mcflush2") || proposal.hash.starts_with(b"mcf3"))
            || (proposal.users.len() as u64) < proposal.redemptions_left
            || is_commitment(&proposal.hash, &commitment(&CHAIN, proposal, &self.last_block))
    }

    /// The deposits that a VNODE answers with; `None` if they are too many.
    fn deposits_after(&self, from: u64) -> Option<DepositList> {
        let entries = self.deposits.get(from as usize..).unwrap_or_default().to_vec();
        (entries.len() <= self.answered_max).then_some(DepositList {
            from,
            entries,
            batch_max: 250,
            cycle: 6,
        })
    }

    /// The state that an SCS reads; `None` if its VNODE cannot answer.
    pub(super) fn state_for(&self, id: &Address, deposits_from: Option<u64>) -> Option<ContractState> {
        let deposits = match deposits_from {
            Some(from) => Some(self.deposits_after(from)?),
            None => None,
        };
        let role = if self.members.contains(id) {
            ContractRole::Member
        } else if self.backups.contains(id) {
            ContractRole::Backup
        } else {
            ContractRole::None
        };
        Some(ContractState {
            base_block: self.block,
            base_gas_limit: self.numbers.gas_limit,
            branch: self.tells_branch.then(|| self.branch()),
            gas_price: U256::from(1_000_000_000u64),
            role,
            status: ContractStatus::Open,
            members_min: 1,
            members: self.members.clone(),
            joining: self.backups.clone(),
            ready: self.up_to_date.clone(),
            registration: 2,
            last_flush: Some(self.last_flush),
            releasing: 0,
            rewards: self.rewards,
            proposal_expiration: self.numbers.expiration,
            turns: (0..self.members.len() as u64)
                .map(|place| self.turn(place))
                .collect(),
            redeem_position: self.redeem_position,
            upload_max: 160,
            payout_max: self.numbers.payout_max,
            redemptions_max: 500,
            current: self.current.clone(),
            approved: self.approved.clone(),
            total_operation: self.total_operation,
            need_fund: U256::ZERO,
            booked_gas: U256::ZERO,
            deposits,
            via: Address::repeat_byte(0x77),
            busy: Vec::new(),
        })
    }

    fn is_late(&self) -> bool {
        self.block > self.current.starting_block + 2 * self.numbers.expiration
    }

    fn is_reliable(&self, id: &Address) -> bool {
        self.performance.iter().any(|(one, left)| one == id && *left > 0)
    }

    /// Carries out a call of `id` in the present block.
    pub(super) fn carry_out(&mut self, id: Address, call: &BaseCall) {
        if let Err(reason) = self.try_call(id, call) {
            self.failed_calls.push(reason);
        }
    }

    fn try_call(&mut self, id: Address, call: &BaseCall) -> Result<(), &'static str> {
        let ensure = |condition: bool, reason| if condition { Ok(()) } else { Err(reason) };
        let at = |place: u64| self.members.get(place as usize).copied();
        match call {
            BaseCall::CreateProposal {
                place,
                last_approved,
                hash,
                block,
                start,
                end,
                distribution,
                bad_actors,
                via,
                redemptions,
            } => {
                let count = self.members.len();
                ensure(at(*place) == Some(id), "proposal: not the member")?;
                let turn = self.turn(*place);
                let in_turn = (turn..turn + 2 * self.numbers.expiration).contains(&self.block);
                ensure(in_turn, "proposal: not the turn")?;
                ensure(distribution.len() == count, "proposal: distribution")?;
                ensure(bad_actors.len() < count / 2, "proposal: bad actors")?;
                if self.current.flag == PROPOSAL_PENDING {
                    self.expire();
                }
                ensure(*last_approved == self.approved.hash, "proposal: last flush")?;
                ensure(self.is_reliable(&id), "proposal: performance")?;
                ensure(self.used.insert(*hash), "proposal: used hash")?;
                self.last_block = *block;
                let proposal = Proposal {
                    proposed_by: id,
                    last_approved: *last_approved,
                    hash: *hash,
                    start: *start,
                    end: *end,
                    distribution: distribution.clone(),
                    flag: PROPOSAL_PENDING,
                    starting_block: turn,
                    voters: vec![*place],
                    bad_actors: bad_actors.clone(),
                    via: *via,
                    redemptions_left: *redemptions,
                    members: self.members.clone(),
                    agree: vec![id],
                    ..Default::default()
                };
                ensure(self.is_bound_right(&proposal), "proposal: not what the hash says")?;
                let is_anchored = self.binds && hash.starts_with(b"mcf3");
                let is_here = hash[4..8] == self.hash(turn - 1)[..4];
                ensure(!is_anchored || is_here, "proposal: another branch")?;
                self.current = proposal;
            }
            BaseCall::UploadRedemptions { users, tokens } => {
                ensure(self.current.proposed_by == id, "upload: not the proposer")?;
                let uploaded = (self.current.users.len() + users.len()) as u64;
                ensure(uploaded <= self.current.redemptions_left, "upload: too many")?;
                let mut proposal = self.current.clone();
                proposal.users.extend(users);
                proposal.tokens.extend(tokens);
                ensure(self.is_bound_right(&proposal), "upload: not what the hash says")?;
                self.current = proposal;
            }
            BaseCall::Vote { place, hash, redeem } => {
                ensure(at(*place) == Some(id), "vote: not the member")?;
                let counts = self.current.hash == *hash
                    && self.current.flag == PROPOSAL_PENDING
                    && !self.is_late()
                    && self.is_reliable(&id)
                    && !self.current.voters.contains(place);
                ensure(counts, "vote: does not count")?;
                self.current.voters.push(*place);
                if *redeem {
                    self.current.agree.push(id);
                }
            }
            BaseCall::Act { place, hash } => {
                ensure(at(*place) == Some(id), "action: not the member")?;
                // The published contract does not ask whether it was done before.
                let done = if self.binds {
                    0
                } else {
                    self.current.distribute_flag
                };
                self.ensure_approved(hash, done)?;
                let is_whole = !self.binds || self.current.is_uploaded();
                if !is_whole {
                    return Err("action: not all is uploaded");
                }
                self.judge_members();
                self.deflations += 1;
                self.current.distribute_flag = 1;
                if self.current.users.is_empty() {
                    self.finish();
                }
            }
            BaseCall::Redeem { hash, .. } => {
                self.ensure_approved(hash, 1)?;
                if self.current.redemptions_left == 0 {
                    self.finish();
                    return Ok(());
                }
                let first = self.current.users.len() as u64 - self.current.redemptions_left;
                for at in first..first + self.current.redemptions_left.min(self.numbers.payout_max) {
                    let at = at as usize;
                    self.paid.push((self.current.users[at], self.current.tokens[at]));
                    self.current.redemptions_left -= 1;
                    self.redeem_position += 1;
                }
            }
            BaseCall::BackupUpToDate { place } => {
                let backup = self.backups.get(*place as usize).copied();
                ensure(backup == Some(id), "backup: not the place")?;
                if !self.up_to_date.contains(&id) {
                    self.up_to_date.push(id);
                }
            }
        }
        Ok(())
    }

    fn ensure_approved(&mut self, hash: &B256, distribute_flag: u64) -> Result<(), &'static str> {
        let is_it = self.current.hash == *hash
            && self.current.flag == PROPOSAL_PENDING
            && self.current.distribute_flag == distribute_flag;
        if !is_it {
            return Err("action: not the proposal");
        }
        if self.is_late() {
            self.expire();
            return Err("action: late");
        }
        if 2 * self.current.voters.len() <= self.current.members.len() {
            return Err("action: votes");
        }
        Ok(())
    }

    fn expire(&mut self) {
        self.current.flag = EXPIRED;
        let proposer = self.current.proposed_by;
        if let Some((_, left)) = self.performance.iter_mut().find(|(id, _)| *id == proposer) {
            *left = left.saturating_sub(1);
        }
    }

    fn judge_members(&mut self) {
        let bad: Vec<Address> = self
            .current
            .bad_actors
            .iter()
            .map(|place| self.members[*place as usize])
            .collect();
        for (id, left) in &mut self.performance {
            if bad.contains(id) {
                *left = 0;
            }
        }
        while let Some(place) = self.members.iter().position(|id| !self.is_reliable(id)) {
            self.members.swap_remove(place);
        }
        for place in self.current.voters.clone() {
            let id = self.current.members[place as usize];
            if let Some((_, left)) = self.performance.iter_mut().find(|(one, _)| *one == id)
                && *left > 0
            {
                *left = (*left + 1).min(5);
            }
        }
        while let Some(joined) = self.up_to_date.pop() {
            self.backups.retain(|id| *id != joined);
            self.members.push(joined);
            self.performance.push((joined, 5));
        }
    }

    fn finish(&mut self) {
        let members = self.current.members.iter().copied();
        self.rewarded
            .extend(members.zip(self.current.distribution.iter().copied()));
        self.current.flag = PROPOSAL_APPROVED;
        self.first_place = self.current.voters[0] + 1;
        self.approved = std::mem::take(&mut self.current);
        self.last_flush = self.block;
        self.flushes += 1;
    }
}
