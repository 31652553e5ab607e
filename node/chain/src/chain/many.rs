//! Blocks that are imported together: those that a synchronization has fetched.
//!
//! Children of the head that come one after the other share commits, as in `vnode import`. All
//! others are imported one by one: blocks of a branch, and a block that is not valid. The writer
//! does this, so blocks that are sealed here wait for the rest of the blocks that were given at
//! once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use primitives::{Block, catch_panic};
use store::BlockReads;

use super::follow::Doubt;
use super::writer::{WriterCommand, WriterJobs};
use super::{BlockOrigin, Chain, ChainInner, WriteError};
use crate::import::read_ahead::read_ahead;
use crate::import::{BlockId, ImportError, Imported, PreparedBlock};
use crate::measured;
use crate::parallel::for_each_in_order;

/// A run is committed after this time.
const RUN_TIME_MAX: Duration = Duration::from_secs(2);

/// The result of the import of many blocks.
#[derive(Debug)]
pub struct ImportedMany {
    /// The number of blocks that are stored, counted from the first one.
    pub stored: usize,
    /// The reason why the block after those is refused. `None` if all are stored.
    pub refused: Option<ImportError>,
}

impl Chain {
    /// Checks of blocks what needs no parent, on all processors. The headers of the blocks are
    /// known already, so their seals are not checked again.
    ///
    /// # Errors
    /// [`WriteError`] if the store fails.
    pub fn prepare(&self, blocks: Vec<Block>) -> Result<Vec<PreparedBlock>, WriteError> {
        let snapshot = self.inner.store.snapshot().map_err(ImportError::from)?;
        let importer = &self.inner.importer;
        let mut prepared = Vec::with_capacity(blocks.len());
        let prepare = |block: Block| {
            let parent = block.header.number.checked_sub(1);
            importer.prepare(&*snapshot, block, parent)
        };
        for_each_in_order(blocks, prepare, |block| {
            prepared.push(block);
            Ok::<(), WriteError>(())
        })?;
        read_ahead(&snapshot, &prepared);
        Ok(prepared)
    }

    /// Imports blocks, each the parent of the next one. It ends with the first block that is
    /// refused.
    ///
    /// A block that is ahead of the clock does not wait here. It is refused.
    ///
    /// # Errors
    /// [`WriteError`] if the chain has ended. Whether a block is refused is in the result.
    pub fn import_many(&self, blocks: Vec<Arc<PreparedBlock>>) -> Result<ImportedMany, WriteError> {
        self.command(|reply| WriterCommand::ImportMany { blocks, reply })
    }
}

impl ChainInner {
    /// Imports blocks and lets everything follow.
    pub(super) fn import_many(&self, jobs: &WriterJobs, blocks: &[Arc<PreparedBlock>]) -> ImportedMany {
        let mut stored = 0;
        while let Some(next) = blocks.get(stored) {
            let imported = match self.import_run_and_follow(jobs, &blocks[stored..]) {
                Ok(0) => self
                    .import_and_follow(jobs, &next.block, BlockOrigin::Imported)
                    .map(|_| 1),
                imported => imported,
            };
            match imported {
                Ok(count) => stored += count,
                Err(refused) => {
                    let refused = Some(refused);
                    return ImportedMany { stored, refused };
                }
            }
            if self.has_failed() {
                let reason = self.failure.lock().clone().unwrap_or_default();
                let refused = (stored < blocks.len()).then(|| ImportError::Panicked(reason.as_str().into()));
                return ImportedMany { stored, refused };
            }
        }
        ImportedMany {
            stored,
            refused: None,
        }
    }

    /// Imports as many blocks as can share a commit. Returns how many; 0 if the first is no valid
    /// child of the head.
    fn import_run_and_follow(
        &self,
        jobs: &WriterJobs,
        blocks: &[Arc<PreparedBlock>],
    ) -> Result<usize, ImportError> {
        let Some(first) = blocks.first() else { return Ok(0) };
        let head = self.store.snapshot().and_then(|snapshot| snapshot.head());
        let head =
            head.inspect_err(|error| self.handle_store_failure(format_args!("reading the head"), error));
        let head = head?.map(|(_, hash)| hash);
        if head != Some(first.block.header.parent_hash) {
            return Ok(0);
        }
        let started = Instant::now();
        let mut left = blocks.iter();
        let mut next = || {
            (started.elapsed() < RUN_TIME_MAX)
                .then(|| left.next().cloned())
                .flatten()
        };
        let now = (jobs.clock)();
        let run = catch_panic(|| jobs.importer.import_run(Some(now), &mut next));
        let done = match run {
            Ok(Ok(run)) => run.blocks,
            Ok(Err(error)) => {
                self.handle_store_failure(format_args!("storing blocks"), &error);
                self.put_in_doubt(Doubt::Block(&first.block.header));
                return Err(error.into());
            }
            Err(panic) => {
                tracing::error!(%panic, "a run of blocks is refused");
                self.put_in_doubt(Doubt::Block(&first.block.header));
                return Err(ImportError::Panicked(panic));
            }
        };
        let Some(last) = blocks[..done].last() else {
            return Ok(0);
        };
        *self.store_failed_at.lock() = None;
        let id = |prepared: &Arc<PreparedBlock>| BlockId {
            number: prepared.block.header.number,
            hash: prepared.hash,
        };
        let imported = Imported::Head {
            reverted: Vec::new(),
            applied: blocks[..done].iter().map(id).collect(),
        };
        measured::blocks_came("head", done);
        let BlockId { number, hash } = id(last);
        let took_ms = format!("{:.1}", started.elapsed().as_secs_f64() * 1000.0);
        tracing::debug!(blocks = done, number, %hash, took_ms, "imported blocks");
        let followed = catch_panic(|| (jobs.follow)(self, &last.block, &imported));
        if !self.check_followed_or_fail(format_args!("following block {number} ({hash})"), followed) {
            self.put_in_doubt(Doubt::Block(&last.block.header));
        }
        Ok(done)
    }
}
