//! The upkeep that each commit does beside its blocks: it moves old blocks, and removes rows that
//! are no longer needed, at a bounded rate.
//!
//! Nothing here decides about blocks. If a part is left out, a later commit does it.

mod old_blocks;
mod past_nodes;
mod states;

pub use old_blocks::OldBlocks;
pub use past_nodes::KEPT_TRIES;
pub(super) use past_nodes::PAST_NODES_A_COMMIT;
pub use states::{PruneProgress, RECENT_STATES_DEFAULT, StateRetention};

use store::{StoreError, Tables};

use super::Importer;

/// Rows of dead storages that are removed for each imported block, at most.
const DEAD_ROWS_PER_BLOCK: usize = 1024;
/// A commit of many blocks does the upkeep of at most this many.
const BLOCKS_PER_COMMIT_MAX: u64 = 1024;

impl Importer {
    /// Does the upkeep of a transaction that has made `imported` blocks canonical.
    pub(super) fn upkeep(&self, tables: &mut Tables<'_>, imported: u64) -> Result<(), StoreError> {
        self.move_old_blocks(tables, imported)?;
        let blocks = imported.min(BLOCKS_PER_COMMIT_MAX) as usize;
        self.prune_states(tables, blocks)?;
        tables.sweep_dead_storages(DEAD_ROWS_PER_BLOCK * blocks)?;
        Ok(())
    }
}
