//! Joining by a snapshot: the state after the last block of the last flush, from members, in place
//! of all blocks (docs/microchain-design.md, 7.1).
//!
//! Two members must sign the same blocks, and the last of them must be the one that the flush
//! commits to. Then the pages come from one of them, and the root of all of them is compared with
//! the header. Whoever gives something false is not asked again. If no two members agree, or none
//! goes on, all blocks are taken. Every page is on the disk with the place of the next one.

use chain::application::BlockExtra;
use chain::fetched_state::FetchedState;
use chain::import::{BlockId, StateRetention};
use primitives::rlp::{RlpReader, encode_fields_to_vec};
use primitives::{Address, B256, Block, DecodeError};
use store::StoreError;

use super::commitment::covers;
use super::sync::ANSWER_PAUSE_MS;
use super::{EngineError, MemberEngine, or_log};
use crate::block::{header_signer, owner_of_slot};
use crate::message::PeerContent;
use crate::snapshot::{
    PAGE_BYTES_FILL, SNAPSHOT_BLOCK_BYTES_MAX, SNAPSHOT_BLOCKS_MAX, SnapshotAnswer, SnapshotContent,
    SnapshotPage, SnapshotPlace, SnapshotRequest, read_blocks,
};

/// A chain whose flushes cover fewer blocks has one answer with all of them.
pub(super) const SNAPSHOT_FROM_BLOCKS: u64 = crate::message::ANSWER_BLOCKS_MAX as u64;
/// The time for an answer, in milliseconds.
const ANSWER_MS: u64 = 4000;
/// Rounds of questions to two members each until all blocks are taken instead.
const ROUNDS_MAX: u32 = 12;
/// Pages that do not come in a row, until other members are asked which blocks go with the state.
const LOST_PAGES_MAX: u32 = 6;
/// The time in which all blocks are asked for, until members are asked for a snapshot again, in
/// milliseconds: maybe nobody has all blocks.
const ALL_BLOCKS_MS: u64 = 300_000;
/// The most bytes of a state that is taken.
const STATE_BYTES_MAX: u64 = 64 << 30;

/// The snapshot that this SCS takes, as far as it is.
#[derive(Debug)]
pub(super) struct SnapshotSync {
    /// Whether the store has a part of a state, and no whole one.
    is_open: bool,
    /// Whether it was decided that no snapshot is needed, or that all blocks are taken.
    is_over: bool,
    /// The blocks that members have signed, and who.
    signed: Vec<(Address, Vec<Block>)>,
    /// Members that gave something false.
    refused: Vec<Address>,
    rounds: u32,
    /// The time of the next question, in unix milliseconds.
    due_ms: u64,
    /// The time until which all blocks are asked for in place of a snapshot.
    all_blocks_until_ms: u64,
    fetch: Option<SnapshotFetch>,
    /// Bytes of a page that this SCS gives.
    pub(super) page_bytes: usize,
}

/// A state whose pages come.
#[derive(Debug)]
struct SnapshotFetch {
    /// The blocks that go with it.
    blocks: Vec<Block>,
    block: B256,
    /// The members that have signed them; the first one is asked.
    members: Vec<Address>,
    state: FetchedState,
    at: SnapshotPlace,
    bytes: u64,
    /// The member whose page is awaited.
    asked: Option<Address>,
    lost: u32,
    /// Members that gave pages.
    givers: Vec<Address>,
}

impl SnapshotFetch {
    /// The bytes that are stored with the rows of a state, to go on with it after a restart.
    fn progress(&self) -> Vec<u8> {
        encode_fields_to_vec(&[&self.blocks, &self.members, &&self.at.to_bytes()[..]])
    }

    /// Reads it; `None` if there is nothing to go on with.
    fn read(state: FetchedState, progress: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut fields = RlpReader::open(progress, "snapshot")?;
        let blocks = read_blocks(fields.list("snapshot.blocks")?)?;
        let mut list = fields.list("snapshot.members")?;
        let mut members = Vec::new();
        while !list.is_empty() {
            members.push(list.address("snapshot.members")?);
        }
        let at = SnapshotPlace::from_bytes(fields.slice("snapshot.place")?);
        let block = blocks.last().map(Block::hash);
        let (Some(at), Some(block), false) = (at, block, members.is_empty()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            blocks,
            block,
            members,
            state,
            at,
            bytes: 0,
            asked: None,
            lost: 0,
            givers: Vec::new(),
        }))
    }
}

impl Default for SnapshotSync {
    fn default() -> Self {
        Self {
            is_open: false,
            is_over: false,
            signed: Vec::new(),
            refused: Vec::new(),
            rounds: 0,
            due_ms: 0,
            all_blocks_until_ms: 0,
            fetch: None,
            page_bytes: PAGE_BYTES_FILL,
        }
    }
}

impl SnapshotSync {
    /// The facts after a start.
    pub(super) fn of(is_open: bool) -> Self {
        Self {
            is_open,
            ..Self::default()
        }
    }

    /// Whether no state can be read, because only a part of one is here.
    pub(super) const fn is_open(&self) -> bool {
        self.is_open
    }

    /// The time of the next question, if a snapshot is being taken.
    pub(super) fn next_time_ms(&self) -> Option<u64> {
        (!self.is_over && self.due_ms > 0).then_some(self.due_ms)
    }
}

/// The reason why blocks of a snapshot are refused.
#[derive(Debug, thiserror::Error)]
enum SnapshotFault {
    #[error("blocks of a snapshot: got {got}, expected 1 to {SNAPSHOT_BLOCKS_MAX}, ascending")]
    Blocks { got: usize },
    #[error("last block of a snapshot: got {got} ({hash}), expected the one that the last flush covers")]
    NotFlushed { got: u64, hash: B256 },
    #[error("block {number} of a snapshot: got another signer or slot, expected a member of {members:?}")]
    Producer { number: u64, members: Vec<Address> },
}

impl MemberEngine {
    /// Whether a snapshot is taken, or may be, so that no blocks are asked for.
    pub(super) fn awaits_snapshot(&self) -> Result<bool, StoreError> {
        if self.snapshot.is_open {
            return Ok(true);
        }
        let is_other = self.snapshot.is_over || self.now_ms < self.snapshot.all_blocks_until_ms;
        if is_other || self.states == StateRetention::Archive || self.head()?.number > 0 {
            return Ok(false);
        }
        let Some(contract) = &self.contract else {
            // The next reading says whether there is a flush.
            return Ok(true);
        };
        let others = contract.members.iter().filter(|member| **member != self.id);
        let is_far = self
            .flush
            .as_ref()
            .is_some_and(|flush| flush.end >= SNAPSHOT_FROM_BLOCKS);
        Ok(is_far && others.count() >= 2)
    }

    /// Asks for what is missing of the snapshot, if one is taken.
    pub(super) fn work_on_snapshot(&mut self) -> Result<(), EngineError> {
        if self.snapshot.is_over && !self.snapshot.is_open {
            return Ok(());
        }
        if self.head()?.number > 0 {
            self.snapshot.is_over = true;
            return Ok(());
        }
        let Some(contract) = self.contract.as_ref() else {
            return Ok(());
        };
        // A flush that the base chain takes back would leave this SCS without a way on.
        let is_deep = contract
            .last_flush
            .is_some_and(|at| contract.base_block >= at.saturating_add(self.confirmations));
        if !self.awaits_snapshot()? || self.now_ms < self.snapshot.due_ms {
            return Ok(());
        }
        if self.snapshot.is_open && self.snapshot.rounds == 0 && self.snapshot.fetch.is_none() {
            self.snapshot.rounds = 1;
            self.resume()?;
        }
        if self.snapshot.fetch.is_some() {
            return self.ask_for_page();
        }
        if is_deep {
            return self.ask_for_blocks();
        }
        Ok(())
    }

    /// Asks two members which blocks go with the state of the last flush.
    fn ask_for_blocks(&mut self) -> Result<(), EngineError> {
        let (Some(contract), Some(flush)) = (&self.contract, &self.flush) else {
            return Ok(());
        };
        let end = flush.end;
        let is_asked = |member: &&Address| **member != self.id && !self.snapshot.refused.contains(member);
        let members: Vec<Address> = contract.members.iter().filter(is_asked).copied().collect();
        if self.snapshot.rounds >= ROUNDS_MAX || members.len() < 2 {
            return self.take_all_blocks();
        }
        let first = 2 * self.snapshot.rounds as usize;
        self.snapshot.rounds += 1;
        self.snapshot.due_ms = self.now_ms + ANSWER_MS;
        for place in first..first + 2 {
            let request = PeerContent::SnapshotRequest(SnapshotRequest::Blocks { end });
            self.send(&request, Some(members[place % members.len()]));
        }
        Ok(())
    }

    /// Takes all blocks in place of a snapshot.
    fn take_all_blocks(&mut self) -> Result<(), EngineError> {
        tracing::warn!(
            chain = %self.setup.address,
            "no two members have given the same snapshot; all blocks are taken"
        );
        if self.snapshot.is_open {
            let fetch = self.snapshot.fetch.take();
            let state = match fetch {
                Some(fetch) => Some(fetch.state),
                None => FetchedState::open(self.ledger.store())?.map(|(state, _)| state),
            };
            if let Some(state) = state {
                state.give_up(self.ledger.spec())?;
            }
        }
        self.snapshot = SnapshotSync {
            all_blocks_until_ms: self.now_ms + ALL_BLOCKS_MS,
            page_bytes: self.snapshot.page_bytes,
            ..SnapshotSync::default()
        };
        self.sync_again()
    }

    /// Answers what another SCS asks about a snapshot.
    pub(super) fn answer_snapshot(
        &mut self,
        peer: Address,
        request: &SnapshotRequest,
    ) -> Result<(), EngineError> {
        if self.snapshot.is_open || !self.may_answer(peer) {
            return Ok(());
        }
        // A question without an answer is work, too.
        self.note_answer(peer);
        let content = match request {
            SnapshotRequest::Blocks { end } => self.snapshot_blocks(*end)?.map(SnapshotContent::Blocks),
            SnapshotRequest::Page { block, from } => {
                self.snapshot_page(block, *from)?.map(SnapshotContent::Page)
            }
        };
        if let Some(content) = content {
            let answer = SnapshotAnswer::new(content, &self.setup.address, &self.key);
            self.send(&PeerContent::SnapshotAnswer(Box::new(answer)), Some(peer));
        }
        Ok(())
    }

    /// The blocks that go with the state after block `end`, if that is the last one of the last
    /// flush: the one with the members in force, the one with the creation of DappBase, itself.
    fn snapshot_blocks(&self, end: u64) -> Result<Option<Vec<Block>>, EngineError> {
        let view = self.ledger.view()?;
        let flushed = self.flush.as_ref().filter(|flush| flush.end == end);
        let Some(hash) = flushed.and_then(|flush| flush.block) else {
            return Ok(None);
        };
        let Some(parent) = self.ledger.parent(&view, &hash)? else {
            return Ok(None);
        };
        if !self.is_canonical(&view, end, &hash) || view.require_state(end).is_err() {
            return Ok(None);
        }
        let mut numbers = vec![parent.extra.since, end];
        numbers.extend(self.first_transaction(&view, end)?.map(|block| block.number));
        numbers.sort_unstable();
        numbers.dedup();
        let mut blocks = Vec::new();
        for number in numbers {
            let Some(stored) = view.block(number)? else {
                return Ok(None);
            };
            blocks.push(super::sync::whole(stored.record.header, stored.body));
        }
        let bytes: usize = blocks.iter().map(Block::size).sum();
        Ok((bytes <= SNAPSHOT_BLOCK_BYTES_MAX).then_some(blocks))
    }

    /// A page of the state after a canonical block; `None` if that is not kept.
    fn snapshot_page(&self, hash: &B256, from: SnapshotPlace) -> Result<Option<SnapshotPage>, EngineError> {
        let view = self.ledger.view()?;
        let Some(number) = view.header_by_hash(hash)?.map(|record| record.header.number) else {
            return Ok(None);
        };
        if !self.is_canonical(&view, number, hash) || view.require_state(number).is_err() {
            return Ok(None);
        }
        let block = BlockId { number, hash: *hash };
        let page = SnapshotPage::read(&view, &block, from, self.snapshot.page_bytes)?;
        Ok(Some(page))
    }

    /// Takes an answer about a snapshot.
    pub(super) fn take_snapshot_answer(&mut self, answer: SnapshotAnswer) -> Result<(), EngineError> {
        if !self.awaits_snapshot()? {
            return Ok(());
        }
        let Ok(member) = answer.signer(&self.setup.address) else {
            return Ok(());
        };
        if !self.is_member(&member) || self.snapshot.refused.contains(&member) {
            return Ok(());
        }
        match answer.content {
            SnapshotContent::Blocks(blocks) => self.take_snapshot_blocks(member, blocks),
            SnapshotContent::Page(page) => self.take_page(member, &page),
        }
    }

    fn take_snapshot_blocks(&mut self, member: Address, blocks: Vec<Block>) -> Result<(), EngineError> {
        if self.snapshot.fetch.is_some() {
            return Ok(());
        }
        match self.check_snapshot(&blocks) {
            Ok(()) => {}
            // The next flush came meanwhile, here or there.
            Err(SnapshotFault::NotFlushed { .. }) => return Ok(()),
            Err(fault) => {
                self.refuse_member(member, &fault);
                return Ok(());
            }
        }
        self.snapshot.signed.retain(|(one, _)| *one != member);
        self.snapshot.signed.push((member, blocks.clone()));
        let agreed = self
            .snapshot
            .signed
            .iter()
            .filter(|(_, signed)| *signed == blocks);
        let members: Vec<Address> = agreed.map(|(one, _)| *one).collect();
        let Some(block) = blocks.last().map(Block::hash).filter(|_| members.len() >= 2) else {
            return Ok(());
        };
        let (state, _) = FetchedState::begin(self.ledger.store())?;
        self.snapshot.is_open = true;
        tracing::info!(chain = %self.setup.address, %block, ?members, "a snapshot is taken");
        self.snapshot.fetch = Some(SnapshotFetch {
            blocks,
            block,
            members,
            state,
            at: SnapshotPlace::default(),
            bytes: 0,
            asked: None,
            lost: 0,
            givers: Vec::new(),
        });
        self.snapshot.due_ms = self.now_ms + ANSWER_PAUSE_MS + 10;
        Ok(())
    }

    /// Goes on with the state that was being taken when this SCS ended.
    fn resume(&mut self) -> Result<(), EngineError> {
        let Some((state, progress)) = FetchedState::open(self.ledger.store())? else {
            return Ok(());
        };
        // Without a page yet, or with a row of another form, it begins again.
        self.snapshot.fetch = SnapshotFetch::read(state, &progress).ok().flatten();
        if let Some(SnapshotFetch { block, at, .. }) = &self.snapshot.fetch {
            tracing::info!(chain = %self.setup.address, %block, account = %at.account, "a snapshot is taken further");
        }
        Ok(())
    }

    /// Checks the blocks that go with a state.
    fn check_snapshot(&self, blocks: &[Block]) -> Result<(), SnapshotFault> {
        let got = blocks.len();
        let ascend = blocks
            .windows(2)
            .all(|two| two[0].header.number < two[1].header.number);
        let Some(last) = blocks
            .last()
            .filter(|_| ascend && got <= SNAPSHOT_BLOCKS_MAX && blocks[0].header.number > 0)
        else {
            return Err(SnapshotFault::Blocks { got });
        };
        let (number, hash) = (last.header.number, last.hash());
        let approved = self.contract.as_ref().map(|contract| &contract.approved);
        if !approved
            .is_some_and(|approved| approved.end == number && covers(&self.setup.address, approved, &hash))
        {
            return Err(SnapshotFault::NotFlushed { got: number, hash });
        }
        // The flush vouches for the last block. The list of members is named by another one.
        let extra = |block: &Block| BlockExtra::decode(&block.header.extra_data).unwrap_or_default();
        let since = extra(last).since;
        let named = blocks.iter().find(|block| block.header.number == since);
        let members = named.map(|block| extra(block).list).unwrap_or_default();
        for block in named.into_iter().chain([last]) {
            let owner = owner_of_slot(&members, self.ledger.slot_of(&block.header));
            let signer = header_signer(&block.header, &self.setup.address).ok();
            if owner.is_none() || owner != signer || signer != Some(block.header.beneficiary) {
                let number = block.header.number;
                return Err(SnapshotFault::Producer { number, members });
            }
        }
        Ok(())
    }

    fn refuse_member(&mut self, member: Address, fault: &dyn std::fmt::Display) {
        tracing::warn!(chain = %self.setup.address, %member, %fault, "a snapshot is refused");
        self.snapshot.refused.push(member);
        self.snapshot.signed.retain(|(one, _)| *one != member);
        self.snapshot.fetch = None;
        self.snapshot.due_ms = self.now_ms;
    }

    /// Asks for the next page, or another member if the last question had no answer.
    fn ask_for_page(&mut self) -> Result<(), EngineError> {
        let Some(fetch) = &mut self.snapshot.fetch else {
            return Ok(());
        };
        if fetch.asked.take().is_some() {
            fetch.lost += 1;
            fetch.members.rotate_left(1);
        }
        if fetch.lost > LOST_PAGES_MAX {
            // Maybe they do not keep this state any more.
            self.snapshot.fetch = None;
            self.snapshot.signed.clear();
            self.snapshot.due_ms = self.now_ms;
            return Ok(());
        }
        let (member, block, from) = (fetch.members[0], fetch.block, fetch.at);
        fetch.asked = Some(member);
        self.snapshot.due_ms = self.now_ms + ANSWER_MS;
        let request = PeerContent::SnapshotRequest(SnapshotRequest::Page { block, from });
        self.send(&request, Some(member));
        Ok(())
    }

    fn take_page(&mut self, member: Address, page: &SnapshotPage) -> Result<(), EngineError> {
        let Some(fetch) = &mut self.snapshot.fetch else {
            return Ok(());
        };
        if fetch.asked != Some(member) || page.block != fetch.block || page.from != fetch.at {
            return Ok(());
        }
        fetch.bytes += page.bytes();
        if !page.is_in_order() || fetch.bytes > STATE_BYTES_MAX {
            self.refuse_member(member, &"a page that is not in order, or too long a state");
            return Ok(());
        }
        fetch.asked = None;
        fetch.lost = 0;
        if !fetch.givers.contains(&member) {
            fetch.givers.push(member);
        }
        write_page(&mut fetch.state, page)?;
        if let Some(next) = page.next {
            fetch.at = next;
            let progress = fetch.progress();
            fetch.state.commit(&progress)?;
            // A member answers once in this time.
            self.snapshot.due_ms = self.now_ms + ANSWER_PAUSE_MS + 10;
            return Ok(());
        }
        fetch.state.commit(&[])?;
        self.end_snapshot()
    }

    /// Begins the chain with the state that is here, if its root is that of the block.
    fn end_snapshot(&mut self) -> Result<(), EngineError> {
        let Some(mut fetch) = self.snapshot.fetch.take() else {
            return Ok(());
        };
        let got = fetch.state.build(|_| ())?;
        let expected = fetch
            .blocks
            .last()
            .map_or(B256::ZERO, |block| block.header.state_root);
        if got != expected {
            for member in fetch.givers {
                self.refuse_member(
                    member,
                    &format_args!("state root: got {got}, expected {expected}"),
                );
            }
            // The rows that are false go when the right ones come.
            return Ok(());
        }
        let chain = self.setup.address;
        let begun = or_log(self.ledger.begin_later(&fetch.blocks), |refusal| {
            tracing::warn!(%chain, %refusal, "the chain cannot begin with a snapshot");
        })?;
        if begun.is_none() {
            for member in fetch.members {
                self.refuse_member(member, &"blocks that are not whole");
            }
            return Ok(());
        }
        self.snapshot = SnapshotSync {
            is_over: true,
            page_bytes: self.snapshot.page_bytes,
            ..SnapshotSync::default()
        };
        let head = self.head()?;
        tracing::info!(
            chain = %self.setup.address, number = head.number, hash = %head.hash,
            "the chain begins with a snapshot"
        );
        self.flush = None;
        self.find_flush()?;
        self.refresh_pool(None)?;
        self.follow_deposits()?;
        self.retry_waiting()?;
        self.sync_again()
    }
}

/// Puts the entries of a page in the place of what the store has between its begin and its end.
fn write_page(state: &mut FetchedState, page: &SnapshotPage) -> Result<(), StoreError> {
    const LAST: B256 = B256::repeat_byte(0xff);
    let rows: Vec<_> = page
        .accounts
        .iter()
        .map(|entry| (entry.key, entry.account))
        .collect();
    let last = match page.next {
        None => LAST,
        Some(next) if next.slot.is_zero() => before(next.account),
        Some(next) => next.account,
    };
    state.replace_accounts(&page.from.account, &last, &rows)?;
    for entry in &page.accounts {
        let first = if entry.key == page.from.account {
            page.from.slot
        } else {
            B256::ZERO
        };
        let last = match page.next {
            Some(next) if next.account == entry.key => before(next.slot),
            _ => LAST,
        };
        state.replace_slots(&entry.key, &first, &last, &entry.slots)?;
        if !entry.code.is_empty() && !state.has_code(&entry.account.code_hash)? {
            state.put_code(&entry.account.code_hash, &entry.code);
        }
    }
    Ok(())
}

/// The hash before this one, which is not zero.
fn before(hash: B256) -> B256 {
    B256::from(primitives::U256::from_be_bytes(hash.0).saturating_sub(primitives::U256::from(1)))
}
