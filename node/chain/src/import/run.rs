//! Many blocks with one commit.
//!
//! Blocks of a run build on each other and on the head, so the state that one leaves in memory
//! is the next one's, trie nodes are written once for all of them, and rows go to their tables
//! in the order of keys. What is no such block is left to [`Importer::import`].

use super::{Importer, Prepared};
use crate::trie::TrieWork;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::StoreError;

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
    pub trie: TrieWork,
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
        let ended = batch.write_in_order(|tables| {
            while tables.waiting_bytes() < WAITING_BYTES_MAX
                && let Some(prepared) = next()
            {
                let started = Instant::now();
                if !self.extend(tables, &mut held, &prepared, now, &mut cost)? {
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
