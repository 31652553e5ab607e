//! Changing the canonical chain: taking blocks back, and applying those of a side branch.

use primitives::Header;
use store::{BlockReads, HorizonReads, Tables};

use super::block::{CheckedBlock, CurrentHead, read_body, read_header};
use super::fork_choice::BranchFromChain;
use super::state_session::StateSession;
use super::{BlockId, ImportError, Importer};
use crate::state::{StateNotKept, revert_block};

/// How the canonical chain of a write transaction was changed.
pub(super) struct Reorganization {
    /// Blocks that are no longer canonical, highest first.
    pub(super) reverted: Vec<BlockId>,
    /// Blocks that became canonical, lowest first.
    pub(super) applied: Vec<BlockId>,
    /// Header of the head afterwards.
    pub(super) head: Header,
}

impl Importer {
    /// Makes the last block of `branch` the head of `tables`, so that a child of it can be
    /// executed: takes canonical blocks back and applies the blocks of the branch. Does nothing if
    /// the head is that block already. `head` is the header of the head before.
    pub(super) fn make_parent_head(
        &self,
        tables: &mut Tables<'_>,
        session: &mut StateSession<'_>,
        head: Header,
        branch: &BranchFromChain,
    ) -> Result<Reorganization, ImportError> {
        let mut reorg = self.revert_to(tables, head, branch.ancestor)?;
        for id in branch.blocks.iter().rev() {
            let mut block = CheckedBlock::read(tables, &self.spec, id)?;
            self.apply_block(tables, session, &reorg.head, &mut block)
                .map_err(|error| error.in_branch(id))?;
            reorg.applied.push(*id);
            reorg.head = block.record.header;
        }
        Ok(reorg)
    }

    /// Takes canonical blocks back until block `ancestor` is the head of `tables`. They stay in
    /// the store as side blocks. `head` is the header of the head before.
    fn revert_to(
        &self,
        tables: &mut Tables<'_>,
        mut head: Header,
        ancestor: u64,
    ) -> Result<Reorganization, ImportError> {
        let mut reverted = Vec::new();
        while head.number > ancestor {
            let id = BlockId {
                number: head.number,
                hash: head.hash(),
            };
            let body = read_body(tables, &self.spec, &id)?;
            let parent = read_header(tables, head.number - 1, &head.parent_hash)?.header;
            revert_block(tables, head.number, head.state_root, parent.state_root)?;
            tables.delete_canonical(&head, &body.transactions)?;
            tables.delete_notices(id.number, &id.hash)?;
            reverted.push(id);
            head = parent;
        }
        Ok(Reorganization {
            reverted,
            applied: Vec::new(),
            head,
        })
    }

    /// Makes the canonical block `number` the head and deletes every block above it. Returns the
    /// blocks that are no longer canonical, highest first.
    ///
    /// # Errors
    /// [`ImportError`] if the store fails. The head may be set back all the same; the next snapshot
    /// shows it.
    pub fn set_head(&self, number: u64) -> Result<Vec<BlockId>, ImportError> {
        // The cached state is that of a head which goes away.
        self.head_state.take();
        let batch = self.store.batch()?;
        let reverted = batch.write(|tables| {
            let head = CurrentHead::read(tables)?.record.header;
            let horizon = tables.state_horizon()?.block;
            if number < horizon {
                return Err(ImportError::StateNotKept(StateNotKept {
                    got: number,
                    expected: horizon,
                }));
            }
            let reorg = self.revert_to(tables, head, number)?;
            tables.delete_blocks_above(number)?;
            Ok::<_, ImportError>(reorg.reverted)
        })?;
        self.commit(batch, |view| {
            Ok(view.head()?.is_some_and(|(head, _)| head == number))
        })?;
        Ok(reverted)
    }
}
