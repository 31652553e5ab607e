//! Which past states are kept.

use std::sync::atomic::{AtomicBool, Ordering};

use store::{BlockReads, HorizonReads, StoreError, Tables};

use super::super::Importer;

/// The number of recent states that are kept unless the options say otherwise.
pub const RECENT_STATES_DEFAULT: u64 = 100_000;

/// Accounts and slots that are looked at for each imported block, at most. More than a block
/// changes, so that a store that kept all states gets rid of them.
const KEYS_PER_BLOCK: usize = 4096;
/// Accounts and slots that one commit of [`Importer::prune`] looks at.
const KEYS_PER_COMMIT: usize = 200_000;

/// Which states are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateRetention {
    /// The state after every block, from the horizon of the store on.
    #[default]
    Archive,
    /// The states after the head block and after so many blocks below it.
    Recent {
        /// The number of blocks.
        blocks: u64,
    },
    /// As [`Self::Recent`], and the states after a block and after all above it.
    RecentAndFrom {
        /// The number of blocks.
        blocks: u64,
        /// The block.
        from: u64,
    },
}

impl StateRetention {
    /// The oldest block whose state is kept, if the head has this number; `None` for all.
    const fn oldest(self, head: u64) -> Option<u64> {
        match self {
            Self::Archive => None,
            Self::Recent { blocks } => head.checked_sub(blocks),
            Self::RecentAndFrom { blocks, from } => match head.checked_sub(blocks) {
                Some(oldest) if oldest > from => Some(from),
                oldest => oldest,
            },
        }
    }
}

/// The progress of [`Importer::prune`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneProgress {
    /// Blocks whose lists of changes are removed: those below this number.
    pub done: u64,
    /// The same at the end.
    pub total: u64,
}

impl Importer {
    /// The same importer, which keeps these states.
    #[must_use]
    pub const fn keeping(mut self, states: StateRetention) -> Self {
        self.states = states;
        self
    }

    /// Removes states that are no longer kept, as much as belongs to `blocks` imported blocks.
    pub(super) fn prune_states(&self, tables: &mut Tables<'_>, blocks: usize) -> Result<(), StoreError> {
        if self.states == StateRetention::Archive {
            return Ok(());
        }
        if let Some((head, _)) = tables.head()?
            && let Some(oldest) = self.states.oldest(head)
        {
            tables.prune_states(oldest, KEYS_PER_BLOCK * blocks)?;
        }
        Ok(())
    }

    /// Removes all states that are no longer kept, and the storages that are only in them. Calls
    /// `report` after each commit. Setting `stop` ends it between two commits; the next upkeep goes
    /// on with it. Returns `false` then.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails. What was committed before stays removed.
    pub fn prune(
        &self,
        stop: &AtomicBool,
        mut report: impl FnMut(PruneProgress),
    ) -> Result<bool, StoreError> {
        let head = self.store.snapshot()?.head()?.map_or(0, |(number, _)| number);
        let oldest = self.states.oldest(head);
        loop {
            let batch = self.store.batch()?;
            let is_done = batch.write(|tables| {
                let pruned =
                    oldest.map_or(Ok(true), |oldest| tables.prune_states(oldest, KEYS_PER_COMMIT))?;
                let swept = tables.sweep_dead_storages(KEYS_PER_COMMIT)?;
                Ok::<_, StoreError>(pruned && swept)
            })?;
            batch.commit()?;
            let horizon = self.store.snapshot()?.state_horizon()?;
            report(PruneProgress {
                done: horizon.first_changes,
                total: oldest.map_or(horizon.first_changes, |oldest| oldest + 1),
            });
            if is_done {
                return Ok(true);
            }
            if stop.load(Ordering::Acquire) {
                return Ok(false);
            }
        }
    }
}
