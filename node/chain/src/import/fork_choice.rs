//! Head or side block: where a checked block goes, and which side blocks are kept.
//!
//! The chain with the most total difficulty is the canonical one. At equal total difficulty the
//! block that was seen first stays the head. On an application chain other rules hold, and the
//! caller applies them ([`Importer::with_chosen_head`]). An operator may ask for more work of a
//! branch that leaves the chain long ago ([`super::mess`]).
//!
//! A side block is stored as it came. It is executed when its branch becomes the heavier one, and
//! never if that does not happen. So a branch costs the writer no execution before it has shown
//! more work than the head. How the branch becomes canonical is in [`super::reorg`].
//!
//! Side blocks are bounded in number, bytes and age ([`ForkLimits`](super::ForkLimits)). Ends of
//! branches with the least total difficulty go first; the headers that build on a side block count
//! for it. So a branch of little work, wherever it leaves the chain, pushes out nothing that is
//! near to being the heaviest. The blocks of the best header chain have shown more work than the
//! head. They do not count and are not removed, so that a branch of any length can be fetched.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use primitives::{B256, U256};
use store::{BlockReads, HeaderReads, StoreError, TableId, Tables};

use super::block::{CheckedBlock, CurrentHead};
use super::fork_tree::{ForkNode, ForkTree};
use super::header_chain::{best_header_follows, best_header_id};
use super::limits::{OLD_BRANCHES_INTERVAL, OLD_BRANCHES_PART};
use super::{BlockId, ImportError, Imported, Importer};

/// The bytes of side blocks, without those of the best header chain: a number that they do not
/// exceed. To know them exactly, all their rows must be looked at. That is done only when this
/// number is too high. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct SideBytes(Arc<AtomicU64>);

impl Default for SideBytes {
    /// Nothing is known yet.
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl SideBytes {
    fn at_most(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Only the writer does this.
    pub(super) fn add(&self, bytes: u64) {
        self.set(self.at_most().saturating_add(bytes));
    }

    fn forget(&self) {
        self.set(u64::MAX);
    }
}

impl Importer {
    /// Writes a checked block, as the new head if its chain is the heaviest, as a side block
    /// otherwise, and commits it.
    pub(super) fn write_and_commit(&self, block: CheckedBlock) -> Result<Imported, ImportError> {
        let view = self.store.snapshot()?;
        let head = CurrentHead::read(&*view)?;
        let is_heavier = block.record.total_difficulty > head.record.total_difficulty;
        let is_child = block.record.header.parent_hash == head.hash;
        if is_heavier && (is_child || (!self.head_is_chosen && self.may_replace(&*view, &block)?)) {
            drop(view);
            return self.become_head(block, head);
        }
        drop(view);
        let hash = block.hash;
        let batch = self.store.batch()?;
        let write = || match batch.write(|tables| self.write_side_block(tables, &block))? {
            None => {
                self.commit(batch, |view| Ok(view.block_number(&hash)?.is_some()))?;
                Ok(Imported::Side)
            }
            // The rows that were removed beside the block stay removed.
            Some(refused) => {
                batch.commit()?;
                tracing::debug!(%hash, error = %refused, "a side block is not kept");
                Err(refused)
            }
        };
        write().inspect_err(|refused: &ImportError| {
            if refused.store_error().is_some() {
                // The removed rows may still be there.
                self.side_bytes.forget();
            }
        })
    }

    /// Whether MESS lets the branch of a block, which is heavier than the head, become canonical.
    /// That was decided for blocks of the best header chain when it became the best.
    fn may_replace(&self, source: &impl HeaderReads, block: &CheckedBlock) -> Result<bool, ImportError> {
        let BlockId { number, hash } = block.id();
        if source.best_hash_beside_chain(number)? == Some(hash) {
            return Ok(true);
        }
        let parent = BlockId {
            number: number.saturating_sub(1),
            hash: block.record.header.parent_hash,
        };
        self.mess_allows(source, &parent, block.record.total_difficulty)
    }

    /// Refuses a block that would be a side block too far below the head.
    pub(super) fn check_age(
        &self,
        source: &impl HeaderReads,
        id: &BlockId,
        total_difficulty: U256,
    ) -> Result<(), ImportError> {
        let head = CurrentHead::read(source)?.record;
        let lowest = head.header.number.saturating_sub(self.limits.side_block_age_max);
        if id.number >= lowest
            || total_difficulty > head.total_difficulty
            || source.best_hash_beside_chain(id.number)? == Some(id.hash)
        {
            return Ok(());
        }
        Err(ImportError::SideBlockAge {
            got: id.number,
            lowest,
        })
    }

    /// Writes a side block. If there are too many, or they have too many bytes, removes the
    /// weakest. Returns an error if the block is among them.
    fn write_side_block(
        &self,
        tables: &mut Tables<'_>,
        block: &CheckedBlock,
    ) -> Result<Option<ImportError>, StoreError> {
        tables.put_side_block(&block.hash, &block.record, &block.body)?;
        let number = block.record.header.number;
        if tables.best_hash_beside_chain(number)? != Some(block.hash) {
            self.side_bytes
                .add(tables.block_bytes(number, &block.hash)? as u64);
        }
        let (max, bytes_max) = (self.limits.side_blocks_max, self.limits.side_bytes_max);
        let has_many_bytes = self.side_bytes.at_most() > bytes_max;
        if tables.rows(TableId::SideBlockList)? <= max as u64 && !has_many_bytes {
            return Ok(None);
        }
        let mut tree = ForkTree::read(tables)?;
        let keep = tree.path(&best_header_id(tables)?.hash);
        let kept = keep.iter().filter_map(|hash| tree.get(hash));
        let kept = kept.filter(|node| node.has_body).count();
        let counted = tree.count(true) - kept;
        let weights = tree.weights_with_headers();
        let weight = |hash: &B256, _: &_| weights[hash];
        let got = block.record.total_difficulty;
        let mut removed = Vec::new();
        if counted > max {
            let excess = (counted - (max - max / 8)) as u64;
            removed = tree.weakest(true, excess, &keep, weight, |_| true, |_| 1);
            tree.remove(tables, &removed)?;
        }
        let mut refused = removed
            .contains(&block.hash)
            .then_some(ImportError::TooManySideBlocks { got, max });
        if has_many_bytes {
            let sizes = tree.side_sizes(tables)?;
            let size = |hash: &B256| sizes.get(hash).copied().unwrap_or(0);
            let of_others = sizes.iter().filter(|(hash, _)| !keep.contains(*hash));
            let bytes: u64 = of_others.map(|(_, bytes)| *bytes).sum();
            // Also if there are just as many as allowed: otherwise all would be read again soon.
            let excess = bytes.saturating_sub(bytes_max - bytes_max / 8);
            let weakest = tree.weakest(true, excess, &keep, weight, |_| true, size);
            tree.remove(tables, &weakest)?;
            let gone: u64 = weakest.iter().map(size).sum();
            self.side_bytes.set(bytes.saturating_sub(gone));
            if weakest.contains(&block.hash) {
                let max = bytes_max;
                refused = Some(ImportError::TooManySideBytes { got, max });
            }
            removed.extend(weakest);
        }
        if !removed.is_empty() {
            tracing::warn!(
                removed = removed.len(),
                max,
                bytes_max,
                "side blocks were removed"
            );
        }
        Ok(refused)
    }

    /// Ends every transaction that has moved the head, from block `from`: the best header chain
    /// follows, and now and then old branches are removed.
    pub(super) fn head_moved(&self, tables: &mut Tables<'_>, from: u64) -> Result<(), StoreError> {
        best_header_follows(tables)?;
        let to = tables.head()?.map_or(0, |(number, _)| number);
        if to / OLD_BRANCHES_INTERVAL > from / OLD_BRANCHES_INTERVAL {
            self.remove_old_branches(tables, to)?;
        }
        Ok(())
    }

    /// Removes branches that end too far below the head: side blocks and bare headers.
    fn remove_old_branches(&self, tables: &mut Tables<'_>, head: u64) -> Result<(), StoreError> {
        let lowest = head.saturating_sub(self.limits.side_block_age_max);
        if lowest == 0 || tables.rows(TableId::SideBlockList)? + tables.rows(TableId::HashToBareHeader)? == 0
        {
            return Ok(());
        }
        let mut tree = ForkTree::read(tables)?;
        let keep: HashSet<B256> = tree.path(&best_header_id(tables)?.hash);
        let mut removed = 0;
        // Headers first, so that side blocks without them are the ends of their branches.
        for has_body in [false, true] {
            let most = OLD_BRANCHES_PART - removed;
            let weight = |_: &B256, _: &_| U256::ZERO;
            let is_old = |node: &ForkNode| node.number < lowest;
            let old = tree.weakest(has_body, most as u64, &keep, weight, is_old, |_| 1);
            removed = (removed + old.len()).min(OLD_BRANCHES_PART);
            tree.remove(tables, &old)?;
        }
        if removed > 0 {
            tracing::debug!(removed, lowest, "old side blocks and headers were removed");
        }
        Ok(())
    }
}
