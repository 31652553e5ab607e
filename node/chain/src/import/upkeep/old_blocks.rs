//! Moves old canonical blocks from rows into the blocks file, some with each commit.

use store::{AncientReads, BlockReads, StoreError, Tables};

use super::super::Importer;

/// The rule by which bodies and receipts of canonical blocks move into the blocks file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldBlocks {
    /// The number of the newest blocks that stay rows.
    pub depth: u64,
    /// The number of blocks that move at once.
    pub step: u64,
}

impl Default for OldBlocks {
    /// A reorganization of 256 blocks moves nothing back. A move of 64 blocks syncs the file once.
    fn default() -> Self {
        Self { depth: 256, step: 64 }
    }
}

impl Importer {
    /// The same importer, which moves old blocks in another way.
    #[must_use]
    pub const fn moving(mut self, old_blocks: OldBlocks) -> Self {
        self.old_blocks = old_blocks;
        self
    }

    /// Moves blocks that have become old. `imported` is how many blocks the transaction has made
    /// canonical; the number of moved blocks is in proportion, so that a commit does not take long
    /// after a deep reorganization.
    pub(in crate::import) fn move_old_blocks(
        &self,
        tables: &mut Tables<'_>,
        imported: u64,
    ) -> Result<(), StoreError> {
        let OldBlocks { depth, step } = self.old_blocks;
        // The file has all blocks from block 0 on. Where some are missing, all stay rows.
        if tables.first_block()? > 0 {
            return Ok(());
        }
        let step = step.max(1);
        let Some((head, _)) = tables.head()? else {
            return Ok(());
        };
        let mut first = tables.ancient_count()?;
        let old = (head + 1).saturating_sub(depth.saturating_add(first));
        let end = first + (old / step).min(1 + imported / step) * step;
        // Long blocks end a move earlier.
        while first < end {
            tables.move_to_file(end - 1)?;
            let moved = tables.ancient_count()?;
            if let Some(last) = moved.checked_sub(1) {
                tables.note_dead_tries(first, last)?;
            }
            if moved == first {
                break;
            }
            first = moved;
        }
        Ok(())
    }
}
