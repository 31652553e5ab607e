//! Importing many blocks with one commit.
//!
//! Each block of a run is a child of the one before, the first a child of the head. So the state
//! that one block leaves in memory is the next block's, trie nodes are written once for all
//! blocks, rows go to their tables in the order of their keys, and state roots are computed while
//! the next blocks are executed. A block that is not a valid
//! child of the head ends the run; [`Importer::import`] imports it or says what is wrong with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{BlockReads, StoreError, Tables};

use super::block::{CandidateBlock, CurrentHead};
use super::reorg::refuse_below_horizon;
use super::state_session::{RootTimes, StateSession};
use super::upkeep::PAST_NODES_A_COMMIT;
use super::{ImportError, Importer, PreparedBlock};
use crate::measured::ImportStage;
use crate::trie::TrieStats;

/// Old blocks move into their file after so many blocks of a run.
const MOVE_INTERVAL: u64 = 256;

/// The cost of a run of blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunCost {
    /// Time for executing transactions.
    pub execute: Duration,
    /// Time for roots in the importing thread: receipts roots, state roots of blocks whose receipts
    /// have state roots, and waiting for state roots that are computed beside the execution.
    pub roots: Duration,
    /// Time in which another thread computed state roots beside the execution.
    pub roots_beside: Duration,
    /// Time for everything else before the commit: rules, receipts roots, rows.
    pub rows: Duration,
    /// Time for writing trie nodes and waiting rows, and for the commit.
    pub commit: Duration,
    /// The counts of the tries.
    pub trie: TrieStats,
    /// Memory of the blocks, of the state and of the rows that waited, in bytes, at the end of the
    /// run.
    pub memory_bytes: usize,
}

/// The blocks that a run takes, in order.
type NextPrepared<'a> = dyn FnMut() -> Option<Arc<PreparedBlock>> + 'a;

/// The end of one attempt at a run.
enum RunAttempt {
    /// The number of blocks that are committed, and their cost.
    Committed { blocks: usize, cost: RunCost },
    /// A block failed after its execution had begun, so nothing was committed. The run must be
    /// done again with these blocks, which are the valid ones before it.
    Poisoned { valid: Vec<Arc<PreparedBlock>> },
}

/// The result for a block that was given to a run.
enum RunStep {
    /// The block is the head of the transaction.
    Extended,
    /// The run ends before it.
    Ended,
}

impl Importer {
    /// Imports a run of blocks in one write transaction: the blocks that `next` gives, for as long
    /// as each is a valid child of the one before and the first a valid child of the head.
    ///
    /// Returns how many blocks were imported, and what they cost. They are committed. The run may
    /// have taken one more block from `next`; [`Importer::import`] imports it or says what is wrong
    /// with it. `now` is the clock in unix seconds; with `None` the clock is not checked.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails. The blocks may be stored all the same; the next snapshot
    /// shows it.
    pub fn import_run(
        &self,
        now: Option<u64>,
        next: &mut dyn FnMut() -> Option<Arc<PreparedBlock>>,
    ) -> Result<(usize, RunCost), StoreError> {
        self.finish_open_reorganization()
            .or_else(|error| error.into_store_error().map_or(Ok(false), Err))?;
        let mut attempt = self.attempt_run(now, next)?;
        // Each attempt has at least one block less than the one before, so this ends.
        loop {
            match attempt {
                RunAttempt::Committed { blocks, cost } => return Ok((blocks, cost)),
                RunAttempt::Poisoned { valid } => {
                    let mut valid = valid.into_iter();
                    attempt = self.attempt_run(now, &mut || valid.next())?;
                }
            }
        }
    }

    fn attempt_run(&self, now: Option<u64>, next: &mut NextPrepared<'_>) -> Result<RunAttempt, StoreError> {
        let span = tracing::debug_span!("blocks", count = tracing::field::Empty);
        let _entered = span.enter();
        let mut cost = RunCost::default();
        let (mut valid, mut block_bytes, mut is_full) = (Vec::new(), 0, false);
        let batch = self.store.batch()?;
        let last_commit = self.store.snapshot()?;
        let mut session = StateSession::saving_at_the_end(&last_commit, self.head_state.take());
        let blocks_done = batch.write_in_order(|tables| {
            let from = tables.head()?.map_or(0, |(number, _)| number);
            while !session.is_poisoned()
                && !is_full
                && let Some(prepared) = next()
            {
                let started = Instant::now();
                let candidate = CandidateBlock::from(&*prepared);
                match self.extend_head(tables, &mut session, &candidate, now, &mut cost)? {
                    RunStep::Extended => {}
                    RunStep::Ended => break,
                }
                cost.rows += started.elapsed();
                block_bytes += prepared.memory_bytes();
                valid.push(prepared);
                // Otherwise the rows of a long run would be written, only to be removed at its end.
                if (valid.len() as u64).is_multiple_of(MOVE_INTERVAL) {
                    self.move_old_blocks(tables, MOVE_INTERVAL)?;
                }
                let bytes = block_bytes + tables.waiting_bytes() + session.memory_bytes();
                is_full = bytes >= self.batch_bytes;
            }
            session.compare_all_roots(tables)?;
            let blocks_done = Instant::now();
            cost.memory_bytes = block_bytes + tables.waiting_bytes() + session.memory_bytes();
            cost.trie = session.save(tables)?;
            if !session.is_poisoned() {
                self.head_moved(tables, from)?;
                // After the trie nodes, of which it may remove some.
                self.upkeep(tables, valid.len() as u64)?;
                // A full batch is followed by another, but a single block may be the newest.
                let is_long = valid.len() > PAST_NODES_A_COMMIT || (is_full && valid.len() > 1);
                self.keep_past_nodes(tables, is_long)?;
            }
            Ok::<_, StoreError>(blocks_done)
        })?;
        span.record("count", valid.len());
        let RootTimes { computed, waited } = session.root_times();
        cost.roots_beside = computed;
        cost.roots += waited;
        if let Some(blocks) = session.blocks_before_wrong_root() {
            valid.truncate(blocks);
        }
        if session.is_poisoned() && !valid.is_empty() {
            batch.abort()?;
            return Ok(RunAttempt::Poisoned { valid });
        }
        let cached = session.into_cached();
        drop(last_commit);
        if valid.is_empty() {
            batch.abort()?;
        } else {
            ImportStage::Commit.time(|| batch.commit())?;
        }
        self.head_state.put(cached);
        cost.rows = cost.rows.saturating_sub(cost.execute + cost.roots);
        cost.commit = blocks_done.elapsed();
        Ok(RunAttempt::Committed {
            blocks: valid.len(),
            cost,
        })
    }

    /// Makes a block the head if it is a valid child of the head.
    fn extend_head(
        &self,
        tables: &mut Tables<'_>,
        session: &mut StateSession<'_>,
        candidate: &CandidateBlock<'_>,
        now: Option<u64>,
        cost: &mut RunCost,
    ) -> Result<RunStep, StoreError> {
        let head = CurrentHead::read(tables)?;
        let header = &candidate.block.header;
        // A block without difficulty would make no heavier chain.
        if header.parent_hash != head.hash || header.difficulty.is_zero() {
            return Ok(RunStep::Ended);
        }
        let applied = self.refuse_known_invalid(&candidate.hash).and_then(|()| {
            refuse_below_horizon(tables, head.record.header.number)?;
            self.check_header_rules(header, &head.record.header, now)?;
            let mut block = self.check_seal_and_body(&*tables, &head.record, candidate)?;
            self.apply_block(tables, session, &head.record.header, &mut block)
        });
        match applied.map_err(ImportError::into_store_error) {
            Ok(times) => {
                cost.execute += times.execute;
                cost.roots += times.roots;
                Ok(RunStep::Extended)
            }
            Err(Some(error)) => Err(error),
            Err(None) => Ok(RunStep::Ended),
        }
    }
}
