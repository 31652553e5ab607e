//! Changing the canonical chain: taking blocks back, and applying those of a heavier branch.
//!
//! A short reorganization is one transaction. A long one is done in parts: each transaction takes
//! back or applies at most [`REORG_PART_BLOCKS`](super::limits::REORG_PART_BLOCKS) blocks, or
//! [`REORG_PART_BYTES`](super::limits::REORG_PART_BYTES) bytes of rows, so that memory stays
//! bounded.
//!
//! After each part the store has a whole chain, shorter than the old one or lighter than the new
//! one, and a row that says where the head is going. If the process ends then, the next import, or
//! the next start of a node, goes on ([`Importer::finish_open_reorganization`]). Until the last
//! part is committed, readers of a running node see the chain with the old head ([`ReaderHold`]),
//! unless the store fails.
//!
//! A block of the branch may turn out invalid. Then the block and what builds on it are removed,
//! and the head becomes the heavier one of two: the old head, or the last valid block of the
//! branch.

use std::sync::Arc;

use parking_lot::RwLock;
use primitives::{B256, Header, U256};
use store::{
    BlockReads, HeaderReads, HorizonReads, OpenReorganization, Snapshot, Store, StoreError, TableId, Tables,
};

use super::block::{CheckedBlock, CurrentHead, read_body, read_header, required_row};
use super::header_chain::best_header_follows;
use super::limits::REORG_DEPTH_WARNED;
use super::open_state::{CachedHeadState, OpenState};
use super::{BlockId, ImportError, Imported, Importer};
use crate::state::{StateNotKept, revert_block};

/// The snapshot that readers use while a reorganization is done in parts. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReaderHold(Arc<RwLock<Option<Arc<Snapshot>>>>);

impl ReaderHold {
    /// The snapshot for readers: the one that is kept, or the last commit of `store`.
    pub(crate) fn snapshot(&self, store: &Store) -> Result<Arc<Snapshot>, StoreError> {
        // Locked until the snapshot is there. Otherwise the first part could be committed between.
        match &*self.0.read() {
            Some(kept) => Ok(kept.clone()),
            None => store.snapshot(),
        }
    }

    /// Keeps readers at `snapshot`, unless they are kept already.
    fn hold(&self, snapshot: Arc<Snapshot>) {
        self.0.write().get_or_insert(snapshot);
    }
}

/// Lets readers go on to the last commit when it is dropped, also by a panic.
struct HoldEnd<'a>(&'a ReaderHold);

impl Drop for HoldEnd<'_> {
    fn drop(&mut self) {
        self.0.0.write().take();
    }
}

/// A way from the head to another block: first down, then up.
struct Reorganization {
    old_head: BlockId,
    /// The block that is to become the head.
    target: BlockId,
    /// Number of the last common block.
    ancestor: u64,
    /// Stored blocks that are to be applied, highest first.
    left: Vec<BlockId>,
    /// The block that is applied last, if it is being imported. It is stored as a side block if
    /// there is more than one part.
    imported: Option<CheckedBlock>,
    /// Blocks that are no longer canonical, highest first.
    reverted: Vec<BlockId>,
    /// Blocks that became canonical, lowest first.
    applied: Vec<BlockId>,
    /// The state after the head, for the next block.
    state: Option<CachedHeadState>,
}

impl Reorganization {
    /// The way to the block `tip`, which is stored. Without another block, `tip` is the target.
    fn to(source: &impl HeaderReads, old_head: BlockId, tip: BlockId) -> Result<Self, StoreError> {
        let (mut left, mut at) = (Vec::new(), tip);
        // The walk ends: each header is compared with its hash, so the numbers fall.
        while source.canonical_hash(at.number)? != Some(at.hash) {
            left.push(at);
            let header = read_header(source, at.number, &at.hash)?.header;
            let number = header.number.checked_sub(1);
            at = BlockId {
                number: required_row(number, TableId::NumberToHash, &[0; 8])?,
                hash: header.parent_hash,
            };
        }
        Ok(Self {
            old_head,
            target: tip,
            ancestor: at.number,
            left,
            imported: None,
            reverted: Vec::new(),
            applied: Vec::new(),
            state: None,
        })
    }
}

/// The end of a part of a reorganization.
enum PartEnd {
    /// The target is the head of the transaction.
    AtTarget,
    /// There is more to do. The head of the transaction is this block.
    At(BlockId),
}

impl Importer {
    /// Makes a checked block the head, which is heavier than `head`, together with its branch.
    pub(super) fn become_head(
        &self,
        block: CheckedBlock,
        head: CurrentHead,
    ) -> Result<Imported, ImportError> {
        let parent = BlockId {
            number: block.record.header.number.saturating_sub(1),
            hash: block.record.header.parent_hash,
        };
        let old_head = head.id();
        let view = self.store.snapshot()?;
        let mut reorg = Reorganization::to(&*view, old_head, parent)?;
        reorg.target = block.id();
        refuse_below_horizon(&*view, reorg.ancestor)?;
        drop(view);
        let depth = old_head.number.saturating_sub(reorg.ancestor);
        if let Some(max) = self.limits.reorg_depth_max.filter(|max| depth > *max) {
            let (from, to) = (old_head.hash, block.hash);
            tracing::warn!(got = depth, max, %from, %to, "a reorganization is too deep and was refused");
            return Err(ImportError::ReorgDepth { got: depth, max });
        }
        for id in &reorg.left {
            self.refuse_known_invalid(&id.hash)
                .map_err(|error| error.in_branch(id))?;
        }
        // The cached state is the head's, so it is of use to a child of the head only.
        if parent == old_head {
            reorg.state = self.head_state.take();
        }
        reorg.imported = Some(block);
        self.reorganize(reorg)
    }

    /// Makes the stored block `hash` the head, whatever its difficulty, and executes the blocks on
    /// the way. Nothing happens if it is canonical.
    ///
    /// # Errors
    /// [`ImportError`] if a block on the way is invalid, or the store fails. After an invalid block
    /// the head is the old one, or the last valid block of the branch if that has more difficulty.
    pub fn choose_head(&self, hash: &B256) -> Result<Imported, ImportError> {
        self.finish_open_reorganization()?;
        let view = self.store.snapshot()?;
        let number = view.block_number(hash)?;
        let number = number.ok_or(ImportError::UnknownParent(*hash))?;
        if view.canonical_hash(number)? == Some(*hash) {
            return Ok(Imported::Known);
        }
        let old_head = CurrentHead::read(&*view)?.id();
        let target = BlockId { number, hash: *hash };
        let mut reorg = Reorganization::to(&*view, old_head, target)?;
        refuse_below_horizon(&*view, reorg.ancestor)?;
        drop(view);
        for id in &reorg.left {
            self.refuse_known_invalid(&id.hash)
                .map_err(|error| error.in_branch(id))?;
        }
        if reorg.ancestor == old_head.number {
            reorg.state = self.head_state.take();
        }
        self.reorganize(reorg)
    }

    /// Goes on with a reorganization that was cut short by the end of the process or by a failure
    /// of the store. Returns whether there was one.
    ///
    /// # Errors
    /// [`ImportError`] if the store fails. If a block of the branch is invalid, the head is the old
    /// one afterwards, or the last valid block of the branch if that is heavier.
    pub fn finish_open_reorganization(&self) -> Result<bool, ImportError> {
        let view = self.store.snapshot()?;
        let Some(open) = view.open_reorganization()? else {
            return Ok(false);
        };
        let id = |(number, hash)| BlockId { number, hash };
        let (target, old_head) = (id(open.target), id(open.old_head));
        tracing::warn!(
            number = target.number, hash = %target.hash,
            "a reorganization was cut short; it goes on"
        );
        let reorg = Reorganization::to(&*view, old_head, target)?;
        drop(view);
        match self.reorganize(reorg) {
            Ok(_) => Ok(true),
            Err(error) if error.proves_invalid() => {
                tracing::warn!(%error, "the reorganization led to an invalid block");
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Goes all the way. If a block turns out invalid, goes to the heaviest valid block, and
    /// returns the error.
    fn reorganize(&self, mut reorg: Reorganization) -> Result<Imported, ImportError> {
        let _end = HoldEnd(&self.reader_hold);
        let depth = reorg.old_head.number.saturating_sub(reorg.ancestor);
        if depth >= REORG_DEPTH_WARNED {
            let (from, to) = (reorg.old_head.hash, reorg.target.hash);
            tracing::warn!(depth, %from, %to, "a deep reorganization begins");
        }
        match self.run_parts(&mut reorg) {
            Ok(()) => {
                self.head_state.put(reorg.state);
                Ok(Imported::Head {
                    reverted: reorg.reverted,
                    applied: reorg.applied,
                })
            }
            Err(error) if error.proves_invalid() => {
                self.leave_invalid_branch(&reorg, &error)?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes blocks back and applies blocks, in one transaction or more.
    fn run_parts(&self, reorg: &mut Reorganization) -> Result<(), ImportError> {
        loop {
            let batch = self.store.batch()?;
            let end = batch.write(|tables| self.run_part(tables, reorg))?;
            let (at, is_last) = match end {
                PartEnd::AtTarget => (reorg.target, true),
                PartEnd::At(id) => (id, false),
            };
            if !is_last {
                self.reader_hold.hold(self.store.snapshot()?);
            }
            let expected = Some((at.number, at.hash));
            self.commit(batch, |view| {
                let is_open = view.open_reorganization()?.is_some();
                Ok(view.head()? == expected && is_open != is_last)
            })?;
            if is_last {
                return Ok(());
            }
        }
    }

    fn run_part(&self, tables: &mut Tables<'_>, reorg: &mut Reorganization) -> Result<PartEnd, ImportError> {
        let mut head = CurrentHead::read(tables)?.record.header;
        let from = head.number;
        let mut open_state = OpenState::saving_each_block(reorg.state.take());
        let mut blocks = 0;
        let end = loop {
            let has_room = blocks < self.limits.reorg_part_blocks
                && tables.written_bytes() < self.limits.reorg_part_bytes;
            if blocks > 0 && !has_room && head.hash() != reorg.target.hash {
                break PartEnd::At(BlockId {
                    number: head.number,
                    hash: head.hash(),
                });
            }
            blocks += 1;
            if reorg.applied.is_empty() && head.number > reorg.ancestor {
                let bytes = tables.block_bytes(head.number, &head.hash())?;
                self.side_bytes.add(bytes as u64);
                head = self.revert_head(tables, head, &mut reorg.reverted)?;
            } else if let Some(id) = reorg.left.pop() {
                let mut block = CheckedBlock::read(tables, &self.spec, &id)?;
                let applied = self.apply_block(tables, &mut open_state, &head, &mut block);
                applied.map_err(|error| block.blame(&self.spec, error).in_branch(&id))?;
                reorg.applied.push(id);
                head = block.record.header;
            } else if let Some(mut block) = reorg.imported.take() {
                let applied = self.apply_block(tables, &mut open_state, &head, &mut block);
                reorg.applied.push(block.id());
                reorg.imported = Some(block);
                applied?;
                break PartEnd::AtTarget;
            } else {
                break PartEnd::AtTarget;
            }
        };
        match end {
            PartEnd::AtTarget => tables.delete_open_reorganization()?,
            PartEnd::At(_) => {
                if let Some(block) = reorg.imported.as_mut().filter(|block| !block.is_stored) {
                    tables.put_side_block(&block.hash, &block.record, &block.body)?;
                    block.is_stored = true;
                }
                let key = |id: BlockId| (id.number, id.hash);
                tables.put_open_reorganization(&OpenReorganization {
                    target: key(reorg.target),
                    old_head: key(reorg.old_head),
                })?;
            }
        }
        match end {
            PartEnd::AtTarget => {
                self.head_moved(tables, from)?;
                if reorg.reverted.is_empty() {
                    // After a reorganization the readers of the blocks that were taken back come
                    // first.
                    self.upkeep(tables, 1)?;
                }
                self.keep_past_nodes(tables, false)?;
            }
            // Nothing is removed before the end: the way back may need it.
            PartEnd::At(_) => best_header_follows(tables)?,
        }
        reorg.state = open_state.into_cached();
        Ok(end)
    }

    /// After a block of a branch has turned out invalid: removes it and what builds on it, and
    /// makes the heavier one of the old head and the last valid block the head.
    fn leave_invalid_branch(&self, reorg: &Reorganization, error: &ImportError) -> Result<(), ImportError> {
        let invalid = match error {
            ImportError::Branch { number, hash, .. } => BlockId {
                number: *number,
                hash: *hash,
            },
            _ => reorg.target,
        };
        let view = self.store.snapshot()?;
        let header = match view.header_by_hash(&invalid.hash)? {
            Some(record) => Some(record.header),
            None => reorg.imported.as_ref().map(|block| block.record.header.clone()),
        };
        let last_valid = header.and_then(|header| {
            let number = header.number.checked_sub(1)?;
            let hash = header.parent_hash;
            Some(BlockId { number, hash })
        });
        let old = read_header(&*view, reorg.old_head.number, &reorg.old_head.hash)?;
        let is_better = |id: &BlockId| -> Result<bool, ImportError> {
            let record = view.header(id.number, &id.hash)?;
            let got = record.map_or(U256::ZERO, |one| one.total_difficulty);
            let is_heavier = got > old.total_difficulty;
            Ok(is_heavier && self.mess_allows_instead_of(&*view, &old, reorg.ancestor, id, got)?)
        };
        let goal = match last_valid {
            Some(id) if is_better(&id)? => id,
            _ => reorg.old_head,
        };
        let head = CurrentHead::read(&*view)?.id();
        drop(view);
        self.discard_invalid(&invalid.hash, error, |tables| {
            if goal == head {
                return tables.delete_open_reorganization();
            }
            tables.put_open_reorganization(&OpenReorganization {
                target: (goal.number, goal.hash),
                old_head: (reorg.old_head.number, reorg.old_head.hash),
            })
        })?;
        if goal != head {
            let (number, hash) = (goal.number, goal.hash);
            tracing::warn!(number, %hash, "the branch is invalid; the head returns to this block");
            let mut back = Reorganization::to(&*self.store.snapshot()?, reorg.old_head, goal)?;
            self.run_parts(&mut back)?;
            self.head_state.put(back.state);
        }
        Ok(())
    }

    /// Takes the head block back. It stays in the store as a side block. Returns the header of its
    /// parent, which is the head then.
    fn revert_head(
        &self,
        tables: &mut Tables<'_>,
        head: Header,
        reverted: &mut Vec<BlockId>,
    ) -> Result<Header, ImportError> {
        let id = BlockId {
            number: head.number,
            hash: head.hash(),
        };
        let body = read_body(tables, &self.spec, &id)?;
        let parent = read_header(tables, head.number.saturating_sub(1), &head.parent_hash)?.header;
        revert_block(tables, head.number, head.state_root, parent.state_root)?;
        tables.delete_past_nodes(head.number, head.number)?;
        tables.delete_canonical(&head, &body.transactions)?;
        tables.delete_notices(id.number, &id.hash)?;
        reverted.push(id);
        Ok(parent)
    }

    /// Makes the canonical block `number` the head and deletes every block above it, and all
    /// headers without bodies. Returns the blocks that are no longer canonical, highest first.
    ///
    /// # Errors
    /// [`ImportError`] if the store fails. The head may be set back all the same; the next snapshot
    /// shows it.
    pub fn set_head(&self, number: u64) -> Result<Vec<BlockId>, ImportError> {
        // The cached state is that of a head which goes away.
        self.head_state.take();
        let batch = self.store.batch()?;
        let reverted = batch.write(|tables| {
            let mut head = CurrentHead::read(tables)?.record.header;
            let mut reverted = Vec::new();
            refuse_below_horizon(tables, number)?;
            while head.number > number {
                head = self.revert_head(tables, head, &mut reverted)?;
            }
            tables.delete_blocks_above(number)?;
            tables.delete_open_reorganization()?;
            Ok::<_, ImportError>(reverted)
        })?;
        self.commit(batch, |view| {
            Ok(view.head()?.is_some_and(|(head, _)| head == number))
        })?;
        Ok(reverted)
    }
}

/// Refuses to make a block the head whose state is not kept any more.
pub(super) fn refuse_below_horizon(source: &impl HorizonReads, number: u64) -> Result<(), ImportError> {
    let horizon = source.state_horizon()?.block;
    if number >= horizon {
        return Ok(());
    }
    Err(ImportError::StateNotKept(StateNotKept {
        got: number,
        expected: horizon,
    }))
}
