//! Head or side block: where a checked block goes.
//!
//! The chain with the most total difficulty is the canonical one. At equal total difficulty the
//! block that was seen first stays the head.
//!
//! A side block is stored as it came. It is executed when its branch becomes the heavier one, and
//! never if that does not happen. So a branch costs the writer no execution before it has shown
//! more work than the head. If a block of the branch turns out invalid then, the head stays.

use primitives::B256;
use store::{BlockReads, HorizonReads, StoreError, TableId, Tables};

use super::block::{CheckedBlock, CurrentHead, read_header, required_row};
use super::state_session::{CachedHeadState, StateSession};
use super::{BlockId, ImportError, Imported, Importer};
use crate::state::StateNotKept;

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
    /// The block is the head of the transaction.
    NewHead {
        reverted: Vec<BlockId>,
        applied: Vec<BlockId>,
        /// The state after the block, for the cache.
        state: Option<CachedHeadState>,
    },
    /// The block is stored as a side block and was not executed.
    Side,
}

impl Importer {
    /// Writes a checked block, as the new head if its chain is the heaviest, as a side block
    /// otherwise, and commits it.
    pub(super) fn write_and_commit(&self, mut block: CheckedBlock) -> Result<Imported, ImportError> {
        let hash = block.hash;
        let batch = self.store.batch()?;
        let placement = batch
            .write(|tables| self.place(tables, &mut block))
            .inspect_err(|error| self.remember_failed_execution(&hash, error))?;
        self.commit(batch, |view| Ok(view.block_number(&hash)?.is_some()))?;
        match placement {
            Placement::NewHead {
                reverted,
                applied,
                state,
            } => {
                self.head_state.put(state);
                Ok(Imported::Head { reverted, applied })
            }
            Placement::Side => Ok(Imported::Side),
        }
    }

    /// Writes the rows of a checked block. If its chain is the heavier one, its branch is executed
    /// and becomes the canonical chain.
    fn place(&self, tables: &mut Tables<'_>, block: &mut CheckedBlock) -> Result<Placement, ImportError> {
        let head = CurrentHead::read(tables)?;
        let parent_hash = block.record.header.parent_hash;
        if block.record.total_difficulty <= head.record.total_difficulty {
            tables.put_block(&block.hash, &block.record, &block.body)?;
            return Ok(Placement::Side);
        }
        let branch = find_branch(tables, &parent_hash)?;
        self.refuse_invalid_branch(&branch)?;
        let horizon = tables.state_horizon()?.block;
        if branch.ancestor < horizon {
            return Err(ImportError::StateNotKept(StateNotKept {
                got: branch.ancestor,
                expected: horizon,
            }));
        }
        // The cached state is the head's, so it is of use to a child of the head only.
        let cached = (parent_hash == head.hash)
            .then(|| self.head_state.take())
            .flatten();
        let mut session = StateSession::saving_each_block(cached);
        let reorg = self.make_parent_head(tables, &mut session, head.record.header, &branch)?;
        self.apply_block(tables, &mut session, &reorg.head, block)?;
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

/// Finds the branch that ends in the block `tip`.
fn find_branch(tables: &Tables<'_>, tip: &B256) -> Result<BranchFromChain, StoreError> {
    let mut blocks = Vec::new();
    let mut hash = *tip;
    loop {
        let row = tables.block_number(&hash)?;
        let number = required_row(row, TableId::HashToNumber, hash.as_slice())?;
        if tables.canonical_hash(number)? == Some(hash) {
            return Ok(BranchFromChain {
                ancestor: number,
                blocks,
            });
        }
        // The walk ends: each header is compared with its hash, so the numbers fall.
        blocks.push(BlockId { number, hash });
        hash = read_header(tables, number, &hash)?.header.parent_hash;
    }
}
