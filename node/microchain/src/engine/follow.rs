//! Taking blocks of others, and choosing between chains (docs/microchain-design.md, 2).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use chain::View;
use chain::application::BlockExtra;
use chain::import::{BlockId, ImportError, Imported};
use chain::view::StoredBlock;
use primitives::{Address, B256, Block, Header};
use store::StoreError;

use super::{EngineError, MemberEngine, or_log};
use crate::block::header_signer;
use crate::ledger::BlockRefusal;
use crate::message::PeerContent;

/// The most blocks that wait for their parent, their time or a read of the chain base.
const WAITING_BLOCKS_MAX: usize = 64;
/// The most bytes of such blocks.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// A block further ahead of the clock than so many slots is dropped.
const EARLY_SLOTS_MAX: u64 = 8;
/// Headers of so many past slots are kept, to notice two blocks of one slot.
const SLOTS_KEPT: u64 = 1024;
/// The base block of a list of members may be so much higher here than for its producer.
const LIST_BASE_SLACK: u64 = 8;

/// Blocks that cannot be judged yet.
#[derive(Debug, Default)]
pub(super) struct WaitingBlocks {
    blocks: Vec<HeldBlock>,
    bytes: usize,
}

#[derive(Debug)]
struct HeldBlock {
    block: Block,
    hash: B256,
    from: Option<Address>,
    bytes: usize,
    /// The time at which it may be taken, in unix milliseconds; 0 if it does not wait for the
    /// clock.
    time_ms: u64,
}

impl WaitingBlocks {
    fn add(&mut self, block: Block, from: Option<Address>, time_ms: u64) {
        let (hash, bytes) = (block.hash(), block.size());
        if bytes > WAITING_BYTES_MAX || self.blocks.iter().any(|one| one.hash == hash) {
            return;
        }
        self.bytes += bytes;
        self.blocks.push(HeldBlock {
            block,
            hash,
            from,
            bytes,
            time_ms,
        });
        while self.blocks.len() > WAITING_BLOCKS_MAX || self.bytes > WAITING_BYTES_MAX {
            let gone = self.blocks.remove(0);
            self.bytes -= gone.bytes;
        }
    }

    fn take_all(&mut self) -> Vec<HeldBlock> {
        self.bytes = 0;
        std::mem::take(&mut self.blocks)
    }

    /// The time at which the first block that is ahead of the clock is due.
    pub(super) fn next_time_ms(&self) -> Option<u64> {
        let times = self.blocks.iter().map(|one| one.time_ms);
        times.filter(|time| *time > 0).min()
    }
}

/// The headers of recent slots.
#[derive(Debug, Default)]
pub(super) struct SlotHeaders(BTreeMap<u64, Vec<Header>>);

/// The relation of a header to its slot.
enum SlotEntry {
    First,
    /// The member has signed another one.
    Second(Box<Header>),
    /// The member has signed more than two.
    More,
}

impl SlotHeaders {
    fn note(&mut self, slot: u64, header: &Header) -> SlotEntry {
        let known = self.0.entry(slot).or_default();
        if known.contains(header) {
            return SlotEntry::First;
        }
        let mut others = known.iter().filter(|one| one.beneficiary == header.beneficiary);
        let entry = match (others.next(), others.next()) {
            (None, _) => SlotEntry::First,
            (Some(other), None) => SlotEntry::Second(Box::new(other.clone())),
            (Some(_), Some(_)) => return SlotEntry::More,
        };
        known.push(header.clone());
        entry
    }

    pub(super) fn forget_before(&mut self, slot: u64) {
        self.0 = self.0.split_off(&slot.saturating_sub(SLOTS_KEPT));
    }
}

/// The rank of a chain; the greater one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChainRank {
    has_flush: bool,
    has_vote: bool,
    number: u64,
    time: Reverse<u64>,
    hash: Reverse<B256>,
}

impl MemberEngine {
    /// Takes a block of another member, or keeps it until it can be judged.
    pub(super) fn take_block(&mut self, block: Block, from: Option<Address>) -> Result<(), EngineError> {
        if self.snapshot.is_open() {
            self.waiting.add(block, from, 0);
            return Ok(());
        }
        if self.judge_block(block, from)? {
            self.retry_waiting()?;
        }
        Ok(())
    }

    /// Takes those waiting blocks that can be judged now.
    pub(super) fn retry_waiting(&mut self) -> Result<(), EngineError> {
        if self.snapshot.is_open() {
            return Ok(());
        }
        let mut stored = true;
        // Each round stores at least one block more.
        while stored {
            stored = false;
            for one in self.waiting.take_all() {
                if one.time_ms > self.now_ms {
                    self.waiting.add(one.block, one.from, one.time_ms);
                } else {
                    stored |= self.judge_block(one.block, one.from)?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether the block is stored now.
    fn judge_block(&mut self, block: Block, from: Option<Address>) -> Result<bool, EngineError> {
        let hash = block.hash();
        let number = block.header.number;
        if self.refuses_credits_of(&BlockId { number, hash }, &block.header.parent_hash) {
            return Ok(false);
        }
        let view = self.ledger.view()?;
        let is_settled = self.flush.as_ref().is_some_and(|flush| {
            number <= flush.end
                && flush
                    .block
                    .is_some_and(|block| self.is_canonical(&view, flush.end, &block))
        });
        if is_settled || view.header_by_hash(&hash)?.is_some() {
            return Ok(false);
        }
        let extra = match self.ledger.check(&view, &block.header) {
            Ok(extra) => extra,
            Err(BlockRefusal::Store(error)) => return Err(error.into()),
            Err(BlockRefusal::UnknownParent(_)) => {
                let peer = from.unwrap_or(block.header.beneficiary);
                self.waiting.add(block, from, 0);
                self.want_sync(peer)?;
                return Ok(false);
            }
            Err(refusal) => {
                tracing::debug!(chain = %self.setup.address, %hash, number, %refusal, "a block is refused");
                return Ok(false);
            }
        };
        let period = 1000 * self.setup.period_secs;
        let due = (1000 * block.header.timestamp).saturating_sub(1000 + period / 4);
        if due > self.now_ms {
            if due - self.now_ms <= EARLY_SLOTS_MAX * period {
                self.waiting.add(block, from, due);
            }
            return Ok(false);
        }
        if !self.accepts_list(&block.header, &extra) {
            tracing::debug!(chain = %self.setup.address, %hash, number, "a block waits for a read of its members");
            self.waiting.add(block, from, 0);
            return Ok(false);
        }
        drop(view);
        let slot = self.ledger.slot_of(&block.header);
        match self.slots.note(slot, &block.header) {
            SlotEntry::First => {}
            SlotEntry::Second(other) => {
                let headers = Box::new([*other, block.header.clone()]);
                self.accuse(block.header.beneficiary, "two blocks of one slot")?;
                self.send(&PeerContent::Evidence(headers), None);
            }
            SlotEntry::More => return Ok(false),
        }
        self.store_block(&block)
    }

    /// Executes a block whose header was checked, or keeps it as a side block. Returns whether it
    /// is stored.
    pub(super) fn store_block(&mut self, block: &Block) -> Result<bool, EngineError> {
        let mut invalid = false;
        let (chain, hash, number) = (self.setup.address, block.hash(), block.header.number);
        let imported = or_log(self.ledger.import(block), |refusal| {
            tracing::warn!(%chain, %hash, number, %refusal, "a signed block is refused");
            invalid = match &refusal {
                BlockRefusal::Import(error) => {
                    !matches!(error, ImportError::Branch { .. }) && error.proves_invalid()
                }
                _ => false,
            };
        })?;
        if invalid {
            self.accuse(block.header.beneficiary, "an invalid block")?;
        }
        match imported {
            Some(Imported::Head { reverted, applied }) => {
                self.head_moved(&reverted, &applied)?;
                Ok(true)
            }
            Some(Imported::Side) => {
                self.consider(BlockId { number, hash })?;
                Ok(true)
            }
            None | Some(Imported::Known | Imported::Later) => Ok(false),
        }
    }

    /// Whether the list of members in a block is one that the chain base had.
    fn accepts_list(&self, header: &Header, extra: &BlockExtra) -> bool {
        // Whether a block below a flush counts is decided by the flush.
        let under_flush = self
            .flush
            .as_ref()
            .is_some_and(|flush| header.number <= flush.end);
        extra.list.is_empty()
            || under_flush
            || self
                .memory
                .had_members(&extra.list, extra.base.saturating_sub(LIST_BASE_SLACK))
    }

    pub(super) fn is_canonical(&self, view: &View, number: u64, hash: &B256) -> bool {
        view.canonical_hash(number)
            .is_ok_and(|canonical| canonical.as_ref() == Some(hash))
    }

    fn rank(&self, view: &View, id: BlockId) -> Result<Option<ChainRank>, StoreError> {
        let Some(record) = view.header_by_hash(&id.hash)? else {
            return Ok(None);
        };
        let has = |number: u64, block: B256| -> Result<bool, StoreError> {
            Ok(self.ledger.ancestor(view, id, number)? == Some(block))
        };
        let flush = self
            .flush
            .as_ref()
            .and_then(|flush| Some((flush.end, flush.block?)));
        Ok(Some(ChainRank {
            has_flush: flush.map_or(Ok(true), |(end, block)| has(end, block))?,
            has_vote: self
                .open_vote()
                .map_or(Ok(true), |vote| has(vote.end, vote.block))?,
            number: id.number,
            time: Reverse(record.header.timestamp),
            hash: Reverse(id.hash),
        }))
    }

    /// Makes a side block the head if its chain is better.
    fn consider(&mut self, id: BlockId) -> Result<(), EngineError> {
        let view = self.ledger.view()?;
        let is_better = self.rank(&view, id)? > self.rank(&view, view.head_id())?;
        drop(view);
        if is_better && !self.go_to(id)? {
            self.choose_best()?;
        }
        Ok(())
    }

    /// Makes the end of the best chain the head. Needed after the flush or the vote has changed, or
    /// a branch has turned out invalid.
    pub(super) fn choose_best(&mut self) -> Result<(), EngineError> {
        // Each round removes an invalid branch or ends.
        loop {
            let view = self.ledger.view()?;
            let head = view.head_id();
            let mut best = (self.rank(&view, head)?, head);
            for side in self.ledger.side_blocks(&view)? {
                let id = BlockId {
                    number: side.number,
                    hash: side.hash,
                };
                let rank = self.rank(&view, id)?;
                if rank > best.0 {
                    best = (rank, id);
                }
            }
            drop(view);
            if best.1 == head || self.go_to(best.1)? {
                return Ok(());
            }
        }
    }

    /// Makes a side block the head. Returns false if its branch is invalid.
    fn go_to(&mut self, id: BlockId) -> Result<bool, EngineError> {
        let (chain, hash, number) = (self.setup.address, id.hash, id.number);
        let chosen = or_log(self.ledger.choose(&id.hash), |refusal| {
            tracing::warn!(%chain, %hash, number, %refusal, "a branch is refused");
        })?;
        match chosen {
            Some(Imported::Head { reverted, applied }) => {
                tracing::info!(%chain, %hash, number, reverted = reverted.len(), "another branch is better");
                self.head_moved(&reverted, &applied)?;
                Ok(true)
            }
            Some(_) => Ok(true),
            None => {
                self.refresh_pool(None)?;
                Ok(false)
            }
        }
    }

    /// Does all that must follow a change of the head.
    fn head_moved(&mut self, reverted: &[BlockId], applied: &[BlockId]) -> Result<(), EngineError> {
        let view = self.ledger.view()?;
        let mut senders = Vec::new();
        for id in applied {
            let Some(block) = view.block_by_hash(&id.hash)? else {
                continue;
            };
            self.charge_senders(&view, &block)?;
            senders.extend(block.body.senders);
        }
        senders.sort_unstable();
        senders.dedup();
        let all = reverted.is_empty().then_some(senders);
        self.refresh_pool(all)?;
        for id in reverted {
            let Some(block) = view.block_by_hash(&id.hash)? else {
                continue;
            };
            for transaction in block.body.transactions {
                // Most transactions are in the new branch, too.
                let _ = self.add_transaction(transaction)?;
            }
        }
        self.note_credits(&view, reverted, applied)?;
        drop(view);
        if self.flush.as_ref().is_some_and(|flush| flush.block.is_none()) {
            self.find_flush()?;
        }
        self.leave_false_credits(false)?;
        self.send_credits()
    }

    /// Notes the gas that the senders of a block have used.
    fn charge_senders(&self, view: &View, block: &StoredBlock) -> Result<(), EngineError> {
        let receipts = view.receipts(&block.id())?.unwrap_or_default();
        let (slot, mut before) = (self.ledger.slot_of(&block.record.header), 0);
        let mut pool = self.pool.lock();
        for (sender, receipt) in block.body.senders.iter().zip(&receipts) {
            let gas = receipt.cumulative_gas_used.saturating_sub(before);
            before = receipt.cumulative_gas_used;
            pool.charge(*sender, gas, slot);
        }
        Ok(())
    }

    /// Tells the pool the next nonces of these senders, or of all.
    pub(super) fn refresh_pool(&self, senders: Option<Vec<Address>>) -> Result<(), EngineError> {
        let view = self.ledger.view()?;
        let mut pool = self.pool.lock();
        let senders = senders.unwrap_or_else(|| pool.senders());
        for sender in senders {
            let (next, class) = self.standing(&view, &sender)?;
            pool.head_moved(&sender, next, class);
        }
        Ok(())
    }

    /// Remembers that a member broke the rules.
    fn accuse(&mut self, member: Address, what: &str) -> Result<(), EngineError> {
        if member != self.id && self.remember(|memory| memory.accuse(member))? {
            tracing::warn!(chain = %self.setup.address, %member, what, "a member broke the rules");
        }
        Ok(())
    }

    /// Takes the proof that a member signed two blocks of one slot.
    pub(super) fn take_evidence(&mut self, headers: &[Header; 2]) -> Result<(), EngineError> {
        let [one, other] = headers;
        let signers = [one, other].map(|header| header_signer(header, &self.setup.address));
        let [Ok(signer), Ok(second)] = signers else {
            return Ok(());
        };
        let is_proof = signer == second
            && signer == one.beneficiary
            && signer == other.beneficiary
            && one.hash() != other.hash()
            && one.timestamp == other.timestamp;
        let is_member = self
            .contract
            .as_ref()
            .is_some_and(|contract| contract.members.contains(&signer));
        if is_proof && is_member && !self.memory.accused.contains(&signer) {
            self.accuse(signer, "two blocks of one slot")?;
            self.send(&PeerContent::Evidence(Box::new(headers.clone())), None);
        }
        Ok(())
    }
}
