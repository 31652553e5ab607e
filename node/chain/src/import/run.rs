//! Many blocks with one commit.
//!
//! Blocks of a run build on each other and on the head, so the state that one leaves in memory
//! is the next one's, trie nodes are written once for all of them, and rows go to their tables
//! in the order of keys. What is no such block is left to [`Importer::import`].

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{Snapshot, Source, StoreError, TableId, Tables};

use super::{Importer, Prepared};
use crate::trie::TrieStats;

/// A run of blocks is committed when so much memory is taken by rows that wait for it.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// What a run of blocks cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunCost {
    /// Executing transactions.
    pub execute: Duration,
    /// State roots: tries changed and hashed.
    pub roots: Duration,
    /// Everything else before the commit: rules, receipts roots, rows.
    pub rows: Duration,
    /// Trie nodes and waiting rows written, and the commit.
    pub commit: Duration,
    /// What the tries did.
    pub trie: TrieStats,
}

impl Importer {
    /// Takes a run of blocks in with one write transaction: those that `next` gives, as long as
    /// each is good and builds on the head. Returns how many were taken, and what they cost; they
    /// are committed. Why the next one was not, if it was not, only [`Importer::import`] can say.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails; then none was taken.
    pub fn import_run(
        &self,
        now: Option<u64>,
        next: &mut dyn FnMut() -> Option<Arc<Prepared>>,
    ) -> Result<(usize, RunCost), StoreError> {
        let mut cost = RunCost::default();
        let mut taken = Vec::new();
        let batch = self.store.batch()?;
        let mut held = self.head.lock().take();
        // What the run changes lies in memory; all else is as the last commit left it.
        let committed = self.store.snapshot()?;
        let ended = batch.write_in_order(|tables| {
            while tables.waiting_bytes() < WAITING_BYTES_MAX
                && let Some(prepared) = next()
            {
                let started = Instant::now();
                if !self.extend((tables, &committed), &mut held, &prepared, now, &mut cost)? {
                    break;
                }
                cost.rows += started.elapsed();
                taken.push(prepared);
            }
            let ended = Instant::now();
            if let Some((_, state)) = &mut held {
                cost.trie = state.save(tables)?;
            }
            Ok::<_, StoreError>(ended)
        })?;
        drop(committed);
        if held.is_none() && !taken.is_empty() {
            // The block that was refused has left its changes among theirs: once more without it.
            batch.abort()?;
            let mut good = taken.into_iter();
            return self.import_run(now, &mut || good.next());
        }
        if taken.is_empty() {
            batch.abort()?;
        } else {
            batch.commit()?;
        }
        *self.head.lock() = held;
        cost.rows = cost.rows.saturating_sub(cost.execute + cost.roots);
        cost.commit = ended.elapsed();
        Ok((taken.len(), cost))
    }
}

/// Where the blocks of a run read what is not in memory.
///
/// State comes from the last commit, past all the rows that wait and the pages that change; a
/// [`HeadState`](crate::state::HeadState) has what is newer. Blocks come from the open tables.
pub(super) struct RunSource<'a, 't> {
    pub(super) committed: &'a Snapshot,
    pub(super) tables: &'a Tables<'t>,
}

impl RunSource<'_, '_> {
    fn is_state(table: TableId) -> bool {
        table.is_state()
    }
}

impl Source for RunSource<'_, '_> {
    fn with<R>(
        &self,
        table: TableId,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        if Self::is_state(table) {
            self.committed.with(table, key, read)
        } else {
            self.tables.with(table, key, read)
        }
    }

    fn with_last<R>(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        if Self::is_state(table) {
            self.committed.with_last(table, low, high, read)
        } else {
            self.tables.with_last(table, low, high, read)
        }
    }

    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        if Self::is_state(table) {
            self.committed.scan(table, low, visit)
        } else {
            self.tables.scan(table, low, visit)
        }
    }
}
