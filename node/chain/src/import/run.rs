//! Importing many blocks with one commit.
//!
//! Each block of a run is a child of the one before, the first a child of the head. So the state
//! that one block leaves in memory is the next block's, trie nodes are written once for all
//! blocks, rows go to their tables in the order of their keys, and state roots are computed while
//! the next blocks are executed. A block that is not a valid
//! child of the head ends the run; [`Importer::import`] imports it or says what is wrong with it.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{BlockReads, StoreError, TableId, Tables};

use super::block::{CandidateBlock, CheckedBlock, CurrentHead, required_row};
use super::open_state::{OpenState, RootTimes};
use super::reorg::refuse_below_horizon;
use super::root_worker::BLOCKS_WITHOUT_ROOT_MAX;
use super::upkeep::PAST_NODES_A_COMMIT;
use super::{BlockId, ImportError, Importer, PreparedBlock};
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
    /// Memory of the state and of the rows that waited, in bytes, at the end of the run.
    pub memory_bytes: usize,
}

/// The blocks that a run takes, in order.
type NextPrepared<'a> = dyn FnMut() -> Option<Arc<PreparedBlock>> + 'a;

/// A run of blocks that is over.
#[derive(Debug)]
pub struct ImportedRun {
    /// The number of blocks that are committed.
    pub blocks: usize,
    /// The number of their transactions.
    pub transactions: u64,
    /// The gas that they used.
    pub gas: u64,
    /// Their cost.
    pub cost: RunCost,
    /// The blocks that the run has taken after those, in order: the one that ended it, and perhaps
    /// some more.
    pub rest: Vec<Arc<PreparedBlock>>,
}

/// The end of one attempt at a run.
enum RunAttempt {
    /// The run is over.
    Committed(ImportedRun),
    /// A block failed after its execution had begun, so nothing was committed. The run must be
    /// done again with the blocks `valid`, which are those before it. `rest` are the blocks from
    /// it on.
    Poisoned {
        valid: Vec<Arc<PreparedBlock>>,
        rest: Vec<Arc<PreparedBlock>>,
    },
}

/// The most blocks that a run has taken after those that are committed: those whose roots were not
/// compared, the one with the wrong root, and the one that ended the run.
const REST_BLOCKS_MAX: usize = BLOCKS_WITHOUT_ROOT_MAX + 2;

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
    /// The imported blocks are committed. [`Importer::import`] takes those of
    /// [`ImportedRun::rest`], or says what is wrong with them. `now` is the clock in unix seconds;
    /// with `None` the clock is not checked.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails. The blocks may be stored all the same; the next snapshot
    /// shows it.
    pub fn import_run(
        &self,
        now: Option<u64>,
        next: &mut dyn FnMut() -> Option<Arc<PreparedBlock>>,
    ) -> Result<ImportedRun, StoreError> {
        self.finish_open_reorganization()
            .or_else(|error| error.into_store_error().map_or(Ok(false), Err))?;
        let mut attempt = self.attempt_run(now, next)?;
        let mut later = Vec::new();
        // Each attempt has at least one block less than the one before, so this ends.
        loop {
            match attempt {
                RunAttempt::Committed(mut run) => {
                    run.rest.append(&mut later);
                    return Ok(run);
                }
                RunAttempt::Poisoned { valid, rest } => {
                    let mut valid = valid.into_iter();
                    attempt = self.attempt_run(now, &mut || valid.next())?;
                    later = valid.chain(rest).chain(later).collect();
                }
            }
        }
    }

    fn attempt_run(&self, now: Option<u64>, next: &mut NextPrepared<'_>) -> Result<RunAttempt, StoreError> {
        let span = tracing::debug_span!("blocks", count = tracing::field::Empty);
        let _entered = span.enter();
        let mut cost = RunCost::default();
        let (mut blocks, mut taken, mut is_full) = (0u64, 0, false);
        // All blocks of a run are read again if a later one is invalid, so they have a bound, too.
        let (mut transactions, mut gas, mut block_bytes) = (0, 0u64, 0);
        let mut newest = VecDeque::with_capacity(REST_BLOCKS_MAX + 1);
        let batch = self.store.batch()?;
        let last_commit = self.store.snapshot()?;
        let mut open_state = OpenState::saving_at_the_end(&last_commit, self.head_state.take());
        let (from, blocks_done) = batch.write_in_order(|tables| {
            let from = tables.head()?.map_or(0, |(number, _)| number);
            while !open_state.is_poisoned()
                && !is_full
                && let Some(prepared) = next()
            {
                let started = Instant::now();
                taken += 1;
                newest.push_back(prepared.clone());
                if newest.len() > REST_BLOCKS_MAX {
                    newest.pop_front();
                }
                let candidate = CandidateBlock::from(&*prepared);
                match self.extend_head(tables, &mut open_state, &candidate, now, &mut cost)? {
                    RunStep::Extended => {}
                    RunStep::Ended => break,
                }
                cost.rows += started.elapsed();
                blocks += 1;
                transactions += prepared.block.transactions.len() as u64;
                gas = gas.saturating_add(prepared.block.header.gas_used);
                // Otherwise the rows of a long run would be written, only to be removed at its end.
                if blocks.is_multiple_of(MOVE_INTERVAL) {
                    self.move_old_blocks(tables, MOVE_INTERVAL)?;
                }
                block_bytes += prepared.memory_bytes();
                let waiting = tables.waiting_bytes() + open_state.memory_bytes();
                is_full = waiting.max(block_bytes) >= self.batch_bytes;
            }
            open_state.compare_all_roots(tables)?;
            let blocks_done = Instant::now();
            cost.memory_bytes = tables.waiting_bytes() + open_state.memory_bytes();
            cost.trie = open_state.save(tables)?;
            if !open_state.is_poisoned() {
                self.head_moved(tables, from)?;
                // After the trie nodes, of which it may remove some.
                self.upkeep(tables, blocks)?;
                // A full batch is followed by another, but a single block may be the newest.
                let is_long = blocks > PAST_NODES_A_COMMIT as u64 || (is_full && blocks > 1);
                self.keep_past_nodes(tables, is_long)?;
            }
            Ok::<_, StoreError>((from, blocks_done))
        })?;
        span.record("count", blocks);
        let RootTimes { computed, waited } = open_state.root_times();
        cost.roots_beside = computed;
        cost.roots += waited;
        let blocks = open_state.blocks_before_wrong_root().unwrap_or(blocks);
        let is_poisoned = open_state.is_poisoned() && blocks > 0;
        let rest = newest.split_off(newest.len().saturating_sub((taken - blocks) as usize));
        let rest = Vec::from(rest);
        let cached = open_state.into_cached();
        drop(last_commit);
        if is_poisoned {
            let valid = batch.write(|tables| self.read_valid(tables, from + 1..=from + blocks))?;
            batch.abort()?;
            return Ok(RunAttempt::Poisoned { valid, rest });
        }
        if blocks == 0 {
            (transactions, gas) = (0, 0);
            batch.abort()?;
        } else {
            ImportStage::Commit.time(|| batch.commit())?;
        }
        self.head_state.put(cached);
        cost.rows = cost.rows.saturating_sub(cost.execute + cost.roots);
        cost.commit = blocks_done.elapsed();
        Ok(RunAttempt::Committed(ImportedRun {
            blocks: blocks as usize,
            transactions,
            gas,
            cost,
            rest,
        }))
    }

    /// Reads blocks that the transaction made canonical, so that they can be imported again. While
    /// a run goes well, none of its blocks stays in memory.
    fn read_valid(
        &self,
        tables: &Tables<'_>,
        numbers: RangeInclusive<u64>,
    ) -> Result<Vec<Arc<PreparedBlock>>, StoreError> {
        let read = |number: u64| {
            let hash = tables.canonical_hash(number)?;
            let hash = required_row(hash, TableId::NumberToHash, &number.to_be_bytes())?;
            let block = CheckedBlock::read(tables, &self.spec, &BlockId { number, hash })?;
            Ok(Arc::new(PreparedBlock::from(block)))
        };
        numbers.map(read).collect()
    }

    /// Makes a block the head if it is a valid child of the head.
    fn extend_head(
        &self,
        tables: &mut Tables<'_>,
        open_state: &mut OpenState<'_>,
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
            self.apply_block(tables, open_state, &head.record.header, &mut block)
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
