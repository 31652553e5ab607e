//! The upkeep of a database: a backup, and its size.

use primitives::B256;
use store::{AncientReads, BlockReads, HorizonReads, Snapshot, StoreError, TableStats};

pub use store::{BackupError, CopyProgress, back_up};

/// The size of a database.
#[derive(Clone, Debug)]
pub struct DatabaseSize {
    /// The tables, in the order of the program.
    pub tables: Vec<TableStats>,
    /// The number of blocks in the file of old blocks.
    pub old_blocks: u64,
    /// The oldest block whose state is kept, unless all states are kept.
    pub first_state: Option<u64>,
    /// The number and the hash of the head block.
    pub head: Option<(u64, B256)>,
}

impl DatabaseSize {
    /// Measures the database that `view` is of. This reads each of its pages.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read.
    pub fn of(view: &Snapshot) -> Result<Self, StoreError> {
        let horizon = view.state_horizon()?;
        Ok(Self {
            tables: view.stats()?,
            old_blocks: view.ancient_count()?,
            first_state: (horizon.first_changes > 0).then_some(horizon.block),
            head: view.head()?,
        })
    }
}
