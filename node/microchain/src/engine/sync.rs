//! Catching up: states of members, requests for blocks, answers (docs/microchain-design.md, 7).

use std::collections::HashMap;

use chain::application::SIGNATURE_BYTES;
use primitives::{Address, B256, Block};
use store::BlockReads;

use super::{EngineError, MemberEngine};
use crate::block::owner_of_slot;
use crate::contract::{BaseCall, ContractRole};
use crate::message::{
    ANSWER_BLOCKS_MAX, ANSWER_BYTES_FILL, MemberState, PeerContent, REQUEST_HASHES_MAX, signed_state,
    state_signer,
};

/// The longest time before a request goes to another member, in milliseconds.
const ANSWER_MS_MAX: u64 = 4000;
/// The shortest time between two answers to the same SCS, in milliseconds.
pub(super) const ANSWER_PAUSE_MS: u64 = 50;
/// The most answers in a second.
const ANSWERS_PER_SECOND: u32 = 32;
/// The most receivers of answers that are remembered.
const RECEIVERS_MAX: usize = 256;
/// A backup reports that it is up to date after so many slots near the head.
const NEAR_SLOTS: u64 = 3;

/// The states of the other members, and the request that is open.
#[derive(Debug, Default)]
pub(super) struct CatchUpState {
    heard: HashMap<Address, MemberState>,
    /// The peer that the open request went to, and its time.
    request: Option<(Address, u64)>,
    /// The last block of the answer before, if it is not canonical.
    tip: Option<B256>,
    /// The time at which each SCS got its last answer.
    answered: HashMap<Address, u64>,
    /// A second, and the answers in it.
    answers: (u64, u32),
    /// The first slot in which this SCS could have made a block.
    joined_slot: Option<u64>,
    caught_up: bool,
    sent_first_state: bool,
}

impl MemberEngine {
    /// Sends the state in this SCS's own slots, and once after the start.
    pub(super) fn send_state_in(&mut self, slot: u64) -> Result<(), EngineError> {
        let Some(contract) = self.started() else {
            return Ok(());
        };
        let is_member = contract.members.contains(&self.id);
        let is_own = owner_of_slot(&contract.members, slot) == Some(self.id);
        let near = contract.role == ContractRole::Backup;
        if is_member && (is_own || !self.sync.sent_first_state) {
            self.sync.sent_first_state = true;
            self.send_state()?;
        }
        if near && !self.snapshot.is_open() {
            self.report_backup()?;
        }
        Ok(())
    }

    fn send_state(&mut self) -> Result<(), EngineError> {
        let head = self.head()?;
        let state = MemberState {
            period_secs: self.setup.period_secs,
            number: head.number,
            head: head.hash,
            flush: self.flush.as_ref().map_or(B256::ZERO, |flush| flush.hash),
            slot: self.slot(),
        };
        let content = signed_state(state, &self.setup.address, &self.key);
        self.send(&content, None);
        Ok(())
    }

    /// The connection is there again: others may lack the last blocks.
    pub(super) fn connected(&mut self) -> Result<(), EngineError> {
        self.sync.request = None;
        let Some(contract) = self.started() else {
            return Ok(());
        };
        if !contract.members.contains(&self.id) {
            return Ok(());
        }
        let members = contract.members.len() as u64;
        let view = self.ledger.view()?;
        let head = view.head_number();
        for number in (head.saturating_sub(members) + 1).max(1)..=head {
            let block = view
                .block(number)?
                .map(|stored| whole(stored.record.header, stored.body));
            if let Some(block) = block.filter(|block| block.header.beneficiary == self.id) {
                self.send(&PeerContent::Block(Box::new(block)), None);
            }
        }
        self.send_state()
    }

    /// Takes the state of another member.
    pub(super) fn take_state(
        &mut self,
        state: &MemberState,
        signature: &[u8; SIGNATURE_BYTES],
    ) -> Result<(), EngineError> {
        let Some(contract) = self.contract.as_ref() else {
            return Ok(());
        };
        let members = contract.members.len() as u64;
        if state.slot.abs_diff(self.slot()) > 2 * members.max(1) {
            return Ok(());
        }
        let Ok(member) = state_signer(state, signature, &self.setup.address) else {
            return Ok(());
        };
        if member == self.id || !contract.members.contains(&member) {
            return Ok(());
        }
        if state.period_secs != self.setup.period_secs {
            tracing::warn!(
                chain = %self.setup.address, %member, got = state.period_secs,
                expected = self.setup.period_secs, "a member has slots of another length"
            );
            return Ok(());
        }
        if self
            .sync
            .heard
            .get(&member)
            .is_some_and(|known| known.slot > state.slot)
        {
            return Ok(());
        }
        self.sync.heard.insert(member, state.clone());
        if state.number > self.head()?.number {
            self.want_sync(member)?;
        }
        Ok(())
    }

    /// The states of present members that came in the last 2·n slots.
    fn heard_lately(&self) -> impl Iterator<Item = (&Address, &MemberState)> {
        let members: &[Address] = self.contract.as_ref().map_or(&[], |contract| &contract.members);
        let oldest = self.slot().saturating_sub(2 * members.len() as u64);
        self.sync
            .heard
            .iter()
            .filter(move |(member, state)| state.slot >= oldest && members.contains(member))
    }

    /// Whether more than half of the members, this one among them, were heard lately.
    pub(super) fn hears_most(&self) -> bool {
        let members = self
            .contract
            .as_ref()
            .map_or(0, |contract| contract.members.len());
        self.hears_most_of(members)
    }

    /// Whether the members that were heard lately, this one among them, are more than half of so
    /// many.
    pub(super) fn hears_most_of(&self, members: usize) -> bool {
        2 * (self.heard_lately().count() + 1) > members
    }

    /// Whether this SCS may make blocks on its head: it has heard that it is not behind, or has
    /// waited long enough for that.
    pub(super) fn is_caught_up(&mut self, slot: u64, head: u64) -> bool {
        if self.sync.caught_up {
            return true;
        }
        let members = self
            .contract
            .as_ref()
            .map_or(1, |contract| contract.members.len()) as u64;
        let waited = slot - *self.sync.joined_slot.get_or_insert(slot);
        let none_ahead = self.heard_lately().all(|(_, state)| state.number <= head);
        // A member that lies about its head must not stop this one for ever.
        self.sync.caught_up =
            (none_ahead && (self.hears_most() || waited >= 2 * members)) || waited >= 8 * members;
        self.sync.caught_up
    }

    /// Asks `peer` for blocks, unless a request is open.
    pub(super) fn want_sync(&mut self, peer: Address) -> Result<(), EngineError> {
        let wait = (2000 * self.setup.period_secs).min(ANSWER_MS_MAX);
        let open = |(_, at): (Address, u64)| self.now_ms.saturating_sub(at) < wait;
        if peer == self.id || self.sync.request.is_some_and(open) || self.awaits_snapshot()? {
            return Ok(());
        }
        self.sync.request = Some((peer, self.now_ms));
        let view = self.ledger.view()?;
        let head = view.head_number();
        let mut known: Vec<B256> = self.sync.tip.into_iter().collect();
        let (mut back, mut step) = (0, 1);
        while known.len() < REQUEST_HASHES_MAX - 1 && back < head {
            known.extend(view.canonical_hash(head - back)?);
            back += step;
            step *= 2;
        }
        known.extend(view.canonical_hash(0)?);
        drop(view);
        let count = ANSWER_BLOCKS_MAX as u64;
        self.send(&PeerContent::SyncRequest { known, count }, Some(peer));
        Ok(())
    }

    /// In each slot: asks again if this SCS is behind.
    pub(super) fn sync_again(&mut self) -> Result<(), EngineError> {
        let head = self.head()?.number;
        let lacks_flush = self.flush.as_ref().filter(|flush| flush.block.is_none());
        let lacked = lacks_flush.map(|flush| flush.hash);
        let mut ahead: Vec<Address> = self
            .heard_lately()
            .filter(|(_, state)| state.number > head || lacked == Some(state.flush))
            .map(|(member, _)| *member)
            .collect();
        ahead.sort_unstable();
        let turn = (self.slot() as usize).checked_rem(ahead.len());
        match turn {
            Some(turn) => self.want_sync(ahead[turn]),
            None => Ok(()),
        }
    }

    /// Answers with the blocks that follow the newest known one.
    pub(super) fn answer_sync(
        &mut self,
        peer: Address,
        known: &[B256],
        count: u64,
    ) -> Result<(), EngineError> {
        if !self.may_answer(peer) {
            return Ok(());
        }
        let view = self.ledger.view()?;
        let mut common = None;
        for hash in known {
            let Some(record) = view.header_by_hash(hash)? else {
                continue;
            };
            if self.is_canonical(&view, record.header.number, hash) {
                common = Some(record.header.number);
                break;
            }
        }
        // A few blocks below the first one are kept, and no others.
        let first = view.snapshot().first_block()?;
        let Some(common) = common.filter(|common| common + 1 >= first) else {
            return Ok(());
        };
        let (mut blocks, mut bytes) = (Vec::new(), 0);
        let most = count.min(ANSWER_BLOCKS_MAX as u64) as usize;
        while blocks.len() < most && bytes <= ANSWER_BYTES_FILL {
            let number = common + 1 + blocks.len() as u64;
            let Some(stored) = view.block(number)? else { break };
            let block = whole(stored.record.header, stored.body);
            bytes += block.size();
            blocks.push(block);
        }
        drop(view);
        if blocks.is_empty() {
            return Ok(());
        }
        self.note_answer(peer);
        self.send(&PeerContent::SyncAnswer(blocks), Some(peer));
        Ok(())
    }

    /// Whether an SCS may get an answer now.
    pub(super) fn may_answer(&mut self, peer: Address) -> bool {
        let last = self.sync.answered.get(&peer).copied().unwrap_or_default();
        let second = self.now_ms / 1000;
        if self.sync.answers.0 != second {
            self.sync.answers = (second, 0);
        }
        let is_soon = last > 0 && self.now_ms.saturating_sub(last) < ANSWER_PAUSE_MS;
        peer != self.id && !is_soon && self.sync.answers.1 < ANSWERS_PER_SECOND
    }

    /// Notes that an SCS gets an answer now.
    pub(super) fn note_answer(&mut self, peer: Address) {
        self.sync.answers.1 += 1;
        if self.sync.answered.len() >= RECEIVERS_MAX {
            self.sync.answered.clear();
        }
        self.sync.answered.insert(peer, self.now_ms);
    }

    /// Takes the blocks that this SCS has asked for.
    pub(super) fn take_answer(&mut self, peer: Address, blocks: Vec<Block>) -> Result<(), EngineError> {
        if self.sync.request.is_none_or(|(asked, _)| asked != peer) {
            return Ok(());
        }
        self.sync.request = None;
        let Some(last) = blocks.last().map(Block::hash) else {
            return Ok(());
        };
        let before = (self.head()?, self.sync.tip);
        for block in blocks {
            self.take_block(block, Some(peer))?;
        }
        let view = self.ledger.view()?;
        let number = view.header_by_hash(&last)?.map(|record| record.header.number);
        let canonical = number.is_some_and(|number| self.is_canonical(&view, number, &last));
        let head = view.head_id();
        drop(view);
        self.sync.tip = number.filter(|_| !canonical).map(|_| last);
        let is_ahead = self
            .sync
            .heard
            .get(&peer)
            .is_some_and(|state| state.number > head.number);
        let lacks_flush = self.flush.as_ref().is_some_and(|flush| flush.block.is_none());
        // A member that answers with what is known must not keep the others from being asked.
        let has_new = before != (head, self.sync.tip);
        if has_new && number.is_some() && (is_ahead || lacks_flush || self.sync.tip.is_some()) {
            self.want_sync(peer)?;
        }
        Ok(())
    }

    /// A backup tells the chain base that it is up to date.
    fn report_backup(&mut self) -> Result<(), EngineError> {
        let head = self.head()?.number;
        let Some(contract) = self.contract.as_ref() else {
            return Ok(());
        };
        let members = contract.members.len();
        // The number that more than half of the members have reached. One of them may claim any.
        let mut claims: Vec<u64> = self.heard_lately().map(|(_, state)| state.number).collect();
        claims.sort_unstable_by(|one, other| other.cmp(one));
        let reached = claims.get(members / 2).copied();
        let place = contract.joining.iter().position(|one| *one == self.id);
        self.near_slots = match reached {
            Some(reached) if head + members as u64 >= reached => self.near_slots + 1,
            _ => 0,
        };
        let is_told = contract.ready.contains(&self.id);
        if let Some(place) = place.filter(|_| !is_told && self.near_slots >= NEAR_SLOTS) {
            self.call(BaseCall::BackupUpToDate { place: place as u64 });
        }
        Ok(())
    }
}

/// A block from its stored parts.
pub(super) fn whole(header: primitives::Header, body: store::BlockBody) -> Block {
    Block {
        header,
        transactions: body.transactions,
        uncles: body.uncles,
    }
}
