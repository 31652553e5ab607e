//! Compares the deposits that DappBase credited with those of the chain base, and leaves a block
//! that credited one which the base chain has taken back (docs/microchain-design.md, 2 and 6).
//!
//! Which deposits were credited is read from the votes in the blocks, because DappBase answers
//! only with all deposits that it ever had. It is asked only where the votes leave a doubt.

use std::collections::{BTreeMap, VecDeque};

use chain::View;
use chain::application::BlockExtra;
use chain::import::BlockId;
use primitives::{Address, B256, ReceiptOutcome, Transaction, U256};

use super::depths::{DepositMarks, end_of};
use super::proposal::ProposalFault;
use super::{EngineError, MemberEngine, or_log};
use crate::contract::{ContractState, DepositList};
use crate::dapp_base::{CreditVote, DappBaseCalls};
use crate::pool::{POOL_BYTES_MAX, POOL_TRANSACTIONS_MAX};

/// The most blocks that are remembered because they credit what the base chain does not have.
const REFUSED_MAX: usize = 64;
/// The most blocks behind those that are remembered.
const FOLLOWERS_MAX: usize = 4096;
/// A block that names a base block further ahead than this does not put off the judgement of its
/// deposits: a producer can name what it likes.
const BASE_AHEAD_MAX: u64 = 64;

/// Deposits that a block of the chain has credited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChainCredit {
    block: BlockId,
    /// The base block that the producer went by.
    base: u64,
    /// The position of the first one.
    from: u64,
    /// The position behind the last one.
    to: u64,
    /// Users and tokens. Fewer than positions if the votes in the block do not explain it.
    entries: Vec<(Address, U256)>,
}

/// The facts about deposits that an engine keeps in memory.
#[derive(Debug, Default)]
pub(super) struct DepositWatch {
    pub(super) marks: DepositMarks,
    /// The credits of the canonical blocks after the last flush, oldest first.
    credits: Vec<ChainCredit>,
    /// The flush for which `credits` was read.
    read_for: Option<B256>,
    /// Blocks that were left, or not taken, because of what they credit.
    refused: VecDeque<ChainCredit>,
    /// Blocks that follow them. Nobody is asked for what is between them and this chain.
    followers: VecDeque<B256>,
}

/// The relation of credited deposits to those of the chain base.
enum CreditTruth {
    True,
    /// The last reading does not reach so far.
    Unread(ProposalFault),
    /// The base chain has another deposit there.
    False(ProposalFault),
}

impl MemberEngine {
    /// Takes the deposits of a new reading; `before` is the reading before it. A reading without
    /// deposits cannot tell what has changed meanwhile, so all that come later count as new.
    pub(super) fn mark_deposits(&mut self, before: Option<&DepositList>) {
        let Some(contract) = &self.contract else { return };
        let Some(deposits) = &contract.deposits else {
            self.watch.marks = DepositMarks::default();
            return;
        };
        let changed = self.watch.marks.take(contract.base_block, before, deposits);
        if let Some(position) = changed {
            tracing::warn!(
                chain = %self.setup.address, position, base = contract.base_block,
                "the base chain has other deposits than before from this position on"
            );
        }
    }

    /// Goes by a new reading: leaves blocks whose deposits the base chain has taken back, and
    /// admits those that it has again.
    pub(super) fn follow_deposits(&mut self) -> Result<(), EngineError> {
        if !self.knows_deposits() {
            self.watch.read_for = None;
            return Ok(());
        }
        let flush = self.flush.as_ref().map_or(B256::ZERO, |flush| flush.hash);
        if self.watch.read_for != Some(flush) {
            self.watch.credits = self.credits_after_flush()?;
            self.watch.read_for = Some(flush);
        }
        if let Some(contract) = &self.contract {
            let is_false = |one: &ChainCredit| !matches!(truth(contract, one), CreditTruth::True);
            let before = self.watch.refused.len();
            self.watch.refused.retain(is_false);
            if self.watch.refused.len() != before {
                self.watch.followers.clear();
            }
        }
        self.leave_false_credits(true)
    }

    /// Whether the last reading has deposits. Without them it cannot be told in each case what a
    /// block credits, so that all blocks are looked at when they are there.
    fn knows_deposits(&self) -> bool {
        let contract = self.contract.as_ref();
        contract.is_some_and(|contract| contract.deposits.is_some())
    }

    /// Takes what the applied blocks credit, and forgets what the reverted ones did.
    pub(super) fn note_credits(
        &mut self,
        view: &View,
        reverted: &[BlockId],
        applied: &[BlockId],
    ) -> Result<(), EngineError> {
        self.watch.credits.retain(|one| !reverted.contains(&one.block));
        if !self.knows_deposits() {
            self.watch.read_for = None;
            return Ok(());
        }
        let mut numbers: Vec<u64> = applied.iter().map(|id| id.number).collect();
        numbers.sort_unstable();
        for number in numbers {
            let credits = self.credits_of(view, number)?;
            self.watch.credits.extend(credits);
        }
        Ok(())
    }

    /// Whether this SCS does not take a block because of what it, or one before it, credits. A
    /// flush decides for the blocks below it.
    pub(super) fn refuses_credits_of(&mut self, id: &BlockId, parent: &B256) -> bool {
        if self.flush.as_ref().is_some_and(|flush| id.number <= flush.end) {
            return false;
        }
        let watch = &mut self.watch;
        if watch.refused.iter().any(|one| one.block.hash == id.hash) {
            return true;
        }
        let is_follower =
            watch.refused.iter().any(|one| one.block.hash == *parent) || watch.followers.contains(parent);
        if is_follower && !watch.followers.contains(&id.hash) {
            watch.followers.push_back(id.hash);
            if watch.followers.len() > FOLLOWERS_MAX {
                watch.followers.pop_front();
            }
        }
        is_follower
    }

    /// Whether a transaction is a member's vote for deposits that the chain base does not have.
    pub(super) fn is_false_vote(&self, transaction: &Transaction, sender: &Address) -> bool {
        let contract = self.contract.as_ref();
        let Some(contract) = contract.filter(|contract| contract.members.contains(sender)) else {
            return false;
        };
        let Some(vote) = CreditVote::of(transaction, &self.ledger.dapp_base()) else {
            return false;
        };
        // Without deposits no vote can be judged. Others have it until they are read.
        let Some(deposits) = &contract.deposits else {
            return true;
        };
        // Nobody votes for a deposit before it is deep, so one that was not read is not there.
        let known = known_from(contract, vote.position);
        let known = known.map(|one| (one.user, one.tokens));
        vote.position >= deposits.from && !known.take(vote.entries.len()).eq(vote.entries)
    }

    /// Goes back to the block before the first one whose deposits the base chain has taken back.
    /// Its transactions and those after it wait for a block again, but not votes for such
    /// deposits. `is_fresh`: the reading is a new one.
    pub(super) fn leave_false_credits(&mut self, is_fresh: bool) -> Result<(), EngineError> {
        let Some(contract) = &self.contract else {
            return Ok(());
        };
        let flushed = self.flush.as_ref().map_or(0, |flush| flush.end);
        let wrong = self
            .watch
            .credits
            .iter()
            .filter(|one| one.block.number > flushed)
            .find_map(|one| match truth(contract, one) {
                CreditTruth::False(fault) => Some((one, fault)),
                CreditTruth::Unread(fault) if can_tell(contract, one, is_fresh) => Some((one, fault)),
                _ => None,
            });
        let Some((wrong, fault)) = wrong.map(|(one, fault)| (one.clone(), fault)) else {
            return Ok(());
        };
        let view = self.ledger.view()?;
        let head = view.head_number();
        self.name_losses(&view, contract, &wrong)?;
        let (mut transactions, mut bytes) = (Vec::new(), 0);
        for number in wrong.block.number..=head {
            let block = view.block(number)?.map(|one| one.body.transactions);
            let block = block.unwrap_or_default();
            bytes += block.iter().map(|one| one.input.len()).sum::<usize>();
            // The pool has no room for more.
            if bytes > POOL_BYTES_MAX || transactions.len() > POOL_TRANSACTIONS_MAX {
                break;
            }
            transactions.extend(block);
        }
        drop(view);
        let chain = self.setup.address;
        let (number, hash) = (wrong.block.number, wrong.block.hash);
        let back = or_log(self.ledger.go_back(number.saturating_sub(1)), |refusal| {
            tracing::error!(%chain, number, %hash, %refusal, "a block with a false credit cannot be left");
        })?;
        if back.is_none() {
            return Ok(());
        }
        tracing::warn!(
            %chain, number, %hash, %fault, blocks = head + 1 - number,
            "a block credits what the base chain does not have; the chain goes on before it"
        );
        self.watch.credits.retain(|one| one.block.number < number);
        self.watch.refused.push_back(wrong);
        if self.watch.refused.len() > REFUSED_MAX {
            self.watch.refused.pop_front();
        }
        self.own_proposal = None;
        self.drop_false_votes();
        self.refresh_pool(None)?;
        for transaction in transactions {
            // Transactions may have been possible only with the deposits that are gone.
            let _ = self.add_transaction(transaction)?;
        }
        self.sync_again()
    }

    /// Names each deposit that is gone, and what its user has spent of it.
    fn name_losses(
        &self,
        view: &View,
        contract: &ContractState,
        wrong: &ChainCredit,
    ) -> Result<(), EngineError> {
        let mut known = known_from(contract, wrong.from).map(|one| (one.user, one.tokens));
        for (position, (user, tokens)) in (wrong.from..).zip(&wrong.entries) {
            if known.next() == Some((*user, *tokens)) {
                continue;
            }
            let account = view.account(user, view.head_number())?;
            let left = account.map_or(U256::ZERO, |account| account.balance);
            let spent = tokens.saturating_sub(left);
            tracing::warn!(
                chain = %self.setup.address, %user, %tokens, position, %spent,
                "the base chain has taken back a deposit that was credited"
            );
        }
        Ok(())
    }

    /// Drops the votes for deposits that the chain base does not have from the pool.
    fn drop_false_votes(&self) {
        let members: &[Address] = self.contract.as_ref().map_or(&[], |contract| &contract.members);
        let content = self.pool.lock().content();
        for member in members {
            let waiting = [&content.pending, &content.queued].map(|part| part.get(member));
            for (nonce, transaction) in waiting.into_iter().flatten().flatten() {
                if self.is_false_vote(transaction, member) {
                    self.pool.lock().drop_transaction(member, *nonce);
                }
            }
        }
    }

    /// Compares the deposits that were credited after the last flush up to block `end` with those
    /// of the chain base. Returns the first difference.
    pub(super) fn wrong_deposit(
        &self,
        view: &View,
        contract: &ContractState,
        end: u64,
    ) -> Result<Option<ProposalFault>, EngineError> {
        let mut position = self.deposits_from().unwrap_or_default();
        for credit in self.watch.credits.iter().filter(|one| one.block.number <= end) {
            match truth(contract, credit) {
                CreditTruth::True if credit.from == position => position = credit.to,
                CreditTruth::True => break,
                CreditTruth::False(fault) | CreditTruth::Unread(fault) => return Ok(Some(fault)),
            }
        }
        let to = DappBaseCalls::new(view, self.ledger.dapp_base()).enter_position(end)?;
        Ok((position != to).then_some(ProposalFault::DepositsWithoutVotes {
            got: to,
            end,
            expected: position,
        }))
    }

    /// The first block that credits a deposit which the chain base did not have before the base
    /// block `turn`, as far as this SCS has read it then. If it had read none, all deposits since
    /// the last flush count as newer. A flush that names its branch of the base chain by the block
    /// before `turn` vouches for older ones only.
    pub(super) fn first_newer_credit(&self, turn: u64) -> Option<u64> {
        let end = self.watch.marks.end_at(turn.saturating_sub(1));
        let end = end.or_else(|| self.deposits_from()).unwrap_or_default();
        let newer = self.watch.credits.iter().find(|one| one.to > end)?;
        Some(newer.block.number)
    }

    /// The credits of the canonical blocks after the last flush.
    fn credits_after_flush(&self) -> Result<Vec<ChainCredit>, EngineError> {
        let view = self.ledger.view()?;
        let head = view.head_number();
        let first = self.flush.as_ref().map_or(0, |flush| flush.end) + 1;
        let calls = DappBaseCalls::new(&view, self.ledger.dapp_base());
        if first > head || calls.enter_position(first - 1)? == calls.enter_position(head)? {
            return Ok(Vec::new());
        }
        let mut credits = Vec::new();
        for number in first..=head {
            credits.extend(self.credits_of(&view, number)?);
        }
        Ok(credits)
    }

    /// The deposits that a canonical block credits.
    fn credits_of(&self, view: &View, number: u64) -> Result<Option<ChainCredit>, EngineError> {
        let Some(stored) = view.block(number)? else {
            return Ok(None);
        };
        let dapp_base = self.ledger.dapp_base();
        let votes = stored.body.transactions.iter().enumerate();
        let votes = votes.filter_map(|(index, one)| Some((index, CreditVote::of(one, &dapp_base)?)));
        let mut votes: Vec<_> = votes.collect();
        if votes.is_empty() {
            return Ok(None);
        }
        let calls = DappBaseCalls::new(view, dapp_base);
        let from = calls.enter_position(number.saturating_sub(1))?;
        let to = calls.enter_position(number)?;
        if from == to {
            return Ok(None);
        }
        let receipts = view.receipts(&stored.id())?.unwrap_or_default();
        votes.retain(|(index, _)| {
            receipts
                .get(*index)
                .is_some_and(|one| one.outcome == ReceiptOutcome::Status(true))
        });
        let votes: Vec<CreditVote> = votes.into_iter().map(|(_, vote)| vote).collect();
        let extra = BlockExtra::decode(&stored.record.header.extra_data).unwrap_or_default();
        Ok(Some(ChainCredit {
            block: stored.id(),
            base: extra.base,
            from,
            to,
            entries: self.carried_out(&calls, &votes, (from, to), number)?,
        }))
    }

    /// The entries of the votes that were carried out in block `number`. Members vote once for
    /// what is due, so in most blocks there is one possibility. Where there are more, the records
    /// of DappBase decide.
    fn carried_out(
        &self,
        calls: &DappBaseCalls<'_>,
        votes: &[CreditVote],
        (from, to): (u64, u64),
        number: u64,
    ) -> Result<Vec<(Address, U256)>, EngineError> {
        let mut ways: Vec<Vec<(Address, U256)>> = vec![Vec::new()];
        let mut whole = Vec::new();
        while let Some(way) = ways.pop() {
            let position = from + way.len() as u64;
            if position == to {
                whole.push(way);
                continue;
            }
            let mut next: Vec<&CreditVote> = votes.iter().filter(|one| one.position == position).collect();
            next.dedup();
            for vote in next.into_iter().filter(|vote| !vote.entries.is_empty()) {
                let longer = [&way[..], &vote.entries[..]].concat();
                let fits = from + longer.len() as u64 <= to;
                if fits && !ways.contains(&longer) && ways.len() + whole.len() < votes.len() {
                    ways.push(longer);
                }
            }
        }
        whole.dedup();
        if whole.len() > 1 {
            // Two orders of the same deposits leave the same records. The order of the chain base
            // counts.
            let list = self.contract.as_ref().map(|contract| known_from(contract, from));
            let known: Vec<_> = list
                .into_iter()
                .flatten()
                .map(|one| (one.user, one.tokens))
                .collect();
            whole.sort_by_key(|way| !known.starts_with(way));
            for way in &whole {
                if are_recorded(calls, way, number)? {
                    return Ok(way.clone());
                }
            }
        }
        Ok(whole.pop().unwrap_or_default())
    }
}

/// The deposits of the chain base from a position on, as far as they were read.
fn known_from(contract: &ContractState, position: u64) -> impl Iterator<Item = &crate::contract::Deposit> {
    let known = contract.deposits.as_ref().and_then(|deposits| {
        let skipped = position.checked_sub(deposits.from)?;
        deposits.entries.get(usize::try_from(skipped).ok()?..)
    });
    known.unwrap_or_default().iter()
}

/// Whether a credit that was not read is not on the base chain. Not so if the reading begins
/// behind it, as long as a flush was taken back, or if the producer went by a base block that this
/// SCS has not read yet. With a new reading only within bounds.
fn can_tell(contract: &ContractState, credit: &ChainCredit, is_fresh: bool) -> bool {
    let ahead = credit.base.saturating_sub(contract.base_block);
    let deposits = contract.deposits.as_ref();
    let is_read = deposits.is_some_and(|deposits| credit.from >= deposits.from);
    is_read && (ahead == 0 || (is_fresh && ahead > BASE_AHEAD_MAX))
}

/// Compares a credit with the deposits of the chain base.
fn truth(contract: &ContractState, credit: &ChainCredit) -> CreditTruth {
    let deposits = contract.deposits.as_ref();
    let unread = || {
        let (from, to, max) = (credit.from, credit.to, deposits.map_or(0, end_of));
        CreditTruth::Unread(ProposalFault::UnreadDeposits { from, to, max })
    };
    if deposits.is_none_or(|deposits| credit.from < deposits.from) {
        return unread();
    }
    let known = known_from(contract, credit.from);
    let (mut position, mut read) = (credit.from, 0);
    for (expected, got) in known.zip(&credit.entries) {
        if (expected.user, expected.tokens) != *got {
            return CreditTruth::False(ProposalFault::Deposit {
                position,
                number: credit.block.number,
                got: *got,
                expected: (expected.user, expected.tokens),
            });
        }
        position += 1;
        read += 1;
    }
    if read as u64 == credit.to - credit.from {
        CreditTruth::True
    } else {
        unread()
    }
}

/// Whether block `number` has added these deposits, and no others of these users, to the records
/// of DappBase.
fn are_recorded(
    calls: &DappBaseCalls<'_>,
    deposits: &[(Address, U256)],
    number: u64,
) -> Result<bool, EngineError> {
    let mut by_user: BTreeMap<Address, Vec<U256>> = BTreeMap::new();
    for (user, tokens) in deposits {
        by_user.entry(*user).or_default().push(*tokens);
    }
    for (user, expected) in by_user {
        let before = calls.credited(&user, number.saturating_sub(1))?.len();
        let credited = calls.credited(&user, number)?;
        let got = credited.get(before..).unwrap_or_default();
        if !got.iter().map(|one| one.tokens).eq(expected) {
            return Ok(false);
        }
    }
    Ok(true)
}
