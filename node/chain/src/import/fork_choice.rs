//! Head or side block: where a checked block goes.
//!
//! The chain with the most total difficulty is the canonical one. At equal total difficulty the
//! block that was seen first stays the head.
//!
//! A side block is executed too, so that its state, roots and receipts are checked by the same
//! code as those of head blocks. This happens in a write transaction that is thrown away. Only
//! deep forks are an exception: see [`SIDE_EXECUTION_DEPTH`].

use primitives::{B256, Receipt};
use store::{BlockReads, HorizonReads, StoreError, TableId, Tables};

use super::apply::write_executed_block;
use super::block::{CheckedBlock, CurrentHead, read_header, required_row};
use super::state_session::{CachedHeadState, StateSession};
use super::{BlockId, ImportError, Imported, Importer};
use crate::state::StateNotKept;

/// The deepest fork, in blocks since the fork, on which a side block is executed at once.
///
/// If the canonical chain or the branch below the block has more blocks than this since the fork,
/// the block is executed when its branch becomes the heavier one. Otherwise each new block of an
/// old branch would cost the execution of the whole branch.
pub const SIDE_EXECUTION_DEPTH: u64 = 32;

/// The way from the canonical chain to a block. It has no blocks of its own if the block is
/// canonical.
pub(super) struct BranchFromChain {
    /// Number of the canonical block that the branch builds on.
    pub(super) ancestor: u64,
    /// Blocks of the branch, highest first. Empty if the branch is a canonical block itself.
    pub(super) blocks: Vec<BlockId>,
}

/// Where a write transaction has put a block.
enum Placement {
    /// The block is the head of the transaction, which is to be committed.
    NewHead {
        reverted: Vec<BlockId>,
        applied: Vec<BlockId>,
        /// The state after the block, for the cache.
        state: Option<CachedHeadState>,
    },
    /// The block is stored as a side block that was not executed. The transaction is to be
    /// committed.
    DeferredSide,
    /// The block is valid, but its chain is not the heavier one. The transaction has the block as
    /// its head and must be thrown away; the block is to be written as a side block with these
    /// receipts.
    ExecutedSide { receipts: Vec<Receipt> },
}

impl Importer {
    /// Writes a checked block, as the new head if its chain is the heaviest, as a side block
    /// otherwise, and commits it.
    pub(super) fn write_and_commit(&self, mut block: CheckedBlock) -> Result<Imported, ImportError> {
        let hash = block.hash;
        let is_committed = |view: &store::Snapshot| Ok(view.block_number(&hash)?.is_some());
        let batch = self.store.batch()?;
        let placement = batch.write(|tables| self.execute_in_place(tables, &mut block));
        match placement.inspect_err(|error| self.remember_failed_execution(&hash, error))? {
            Placement::NewHead {
                reverted,
                applied,
                state,
            } => {
                self.commit(batch, is_committed)?;
                self.head_state.put(state);
                Ok(Imported::Head { reverted, applied })
            }
            Placement::DeferredSide => {
                self.commit(batch, is_committed)?;
                Ok(Imported::Side)
            }
            Placement::ExecutedSide { receipts } => {
                batch.abort()?;
                let batch = self.store.batch()?;
                batch.write(|tables| write_executed_block(tables, &block, &receipts))?;
                self.commit(batch, is_committed)?;
                Ok(Imported::Side)
            }
        }
    }

    /// Finds out where the block belongs and executes it there, unless its fork is too deep. For a
    /// side block, its parent is made the head of the transaction, too, but only to execute it.
    fn execute_in_place(
        &self,
        tables: &mut Tables<'_>,
        block: &mut CheckedBlock,
    ) -> Result<Placement, ImportError> {
        let head = CurrentHead::read(tables)?;
        let head_number = head.record.header.number;
        let parent_hash = block.record.header.parent_hash;
        let is_heavier = block.record.total_difficulty > head.record.total_difficulty;
        let depth_max = if is_heavier {
            u64::MAX
        } else {
            SIDE_EXECUTION_DEPTH
        };
        let is_near = |branch: &BranchFromChain| head_number.saturating_sub(branch.ancestor) <= depth_max;
        let branch = find_branch(tables, &parent_hash, depth_max)?;
        let Some(branch) = branch.filter(is_near) else {
            tables.put_block(&block.hash, &block.record, &block.body)?;
            return Ok(Placement::DeferredSide);
        };
        self.refuse_invalid_branch(&branch)?;
        let horizon = tables.state_horizon()?.block;
        if branch.ancestor < horizon {
            if is_heavier {
                return Err(ImportError::StateNotKept(StateNotKept {
                    got: branch.ancestor,
                    expected: horizon,
                }));
            }
            tables.put_block(&block.hash, &block.record, &block.body)?;
            return Ok(Placement::DeferredSide);
        }
        // The cached state is the head's. It stays in the cache unless this block replaces the head
        // as its child.
        let is_child_of_head = parent_hash == head.hash;
        let cached = (is_heavier && is_child_of_head)
            .then(|| self.head_state.take())
            .flatten();
        let mut session = StateSession::saving_each_block(cached);
        let reorg = self.make_parent_head(tables, &mut session, head.record.header, &branch)?;
        let applied_block = self.apply_block(tables, &mut session, &reorg.head, block)?;
        if !is_heavier {
            let receipts = applied_block.receipts;
            return Ok(Placement::ExecutedSide { receipts });
        }
        if reorg.reverted.is_empty() {
            // After a reorganization the readers of the blocks that were taken back come first.
            self.upkeep(tables, 1)?;
        }
        let mut applied = reorg.applied;
        applied.push(block.id());
        Ok(Placement::NewHead {
            reverted: reorg.reverted,
            applied,
            state: session.into_cached(),
        })
    }

    /// Refuses a block whose branch has a block that is known to be invalid.
    fn refuse_invalid_branch(&self, branch: &BranchFromChain) -> Result<(), ImportError> {
        for id in &branch.blocks {
            self.refuse_known_invalid(&id.hash)
                .map_err(|error| error.in_branch(id))?;
        }
        Ok(())
    }
}

/// Finds the branch that ends in the block `tip`. Returns `None` if it has more than `depth_max`
/// blocks.
fn find_branch(
    tables: &Tables<'_>,
    tip: &B256,
    depth_max: u64,
) -> Result<Option<BranchFromChain>, StoreError> {
    let mut blocks = Vec::new();
    let mut hash = *tip;
    loop {
        let row = tables.block_number(&hash)?;
        let number = required_row(row, TableId::HashToNumber, hash.as_slice())?;
        if tables.canonical_hash(number)? == Some(hash) {
            return Ok(Some(BranchFromChain {
                ancestor: number,
                blocks,
            }));
        }
        if blocks.len() as u64 == depth_max {
            return Ok(None);
        }
        // The walk ends: each header is compared with its hash, so the numbers fall.
        blocks.push(BlockId { number, hash });
        hash = read_header(tables, number, &hash)?.header.parent_hash;
    }
}
