//! Making a checked block the head: execution, comparison with the header, the block's rows.

use std::time::{Duration, Instant};

use primitives::{B256, Bloom, Header};
use store::{Snapshot, Source, StoreError, Tables};

use super::block::CheckedBlock;
use super::open_state::{BlockUpdate, OpenState};
use super::{ImportError, Importer};
use crate::evm::execute::{Executed, Executor};
use crate::measured::ImportStage;
use crate::parallel::in_two_threads;
use crate::spec::{ChainSpec, Rule};
use crate::state::{BlockState, HeadState, StateError};
use crate::trie::ordered_root;

/// With fewer receipts a thread costs more than their root.
const RECEIPTS_FOR_A_THREAD: usize = 32;

/// The times of the execution of a block.
#[derive(Clone, Copy)]
pub(super) struct ExecutionTimes {
    /// Transactions and rewards.
    pub(super) execute: Duration,
    /// The receipts root, and the state root unless it is computed later.
    pub(super) roots: Duration,
}

/// The result of executing a block.
struct ExecutedBlock {
    outcome: Executed,
    receipts_root: B256,
    /// The block's changes of the state.
    update: BlockUpdate,
    times: ExecutionTimes,
}

impl Importer {
    /// Executes a block, compares the outcome with the block's header and makes the block the head.
    /// Returns how long the execution took. In a run of blocks the open state compares the state
    /// root later.
    ///
    /// `parent` is the block's parent and must be the head of `tables`.
    ///
    /// # Errors
    /// [`ImportError`] if the block is invalid or the store fails. Then `open_state` is poisoned.
    /// [`OpenState`] says what the caller must do then.
    pub(super) fn apply_block(
        &self,
        tables: &mut Tables<'_>,
        open_state: &mut OpenState<'_>,
        parent: &Header,
        block: &mut CheckedBlock,
    ) -> Result<ExecutionTimes, ImportError> {
        let header = &block.record.header;
        let status_receipts = self.spec.rules_at(header.number).has(Rule::Eip658);
        let state = open_state.begin_block(parent, &header.parent_hash, !status_receipts);
        let source = open_state.source(tables);
        let executed = execute_block(
            &self.spec,
            (&source, open_state.committed()),
            state,
            parent,
            block,
        )?;
        compare_with_header(&block.record.header, &executed)?;
        let ExecutedBlock {
            outcome,
            update,
            times,
            ..
        } = executed;
        block.record.executed = true;
        ImportStage::Execute.took(times.execute);
        ImportStage::Roots.took(times.roots);
        ImportStage::Rows.time(|| write_head_block(tables, open_state, block, &outcome, update))?;
        Ok(times)
    }
}

/// Executes a block on `state`, which is the state after `parent`. `source` has the state that
/// is not in memory. If that state is read from a snapshot, this is `committed`.
fn execute_block(
    spec: &ChainSpec,
    (source, committed): (&impl Source, Option<&Snapshot>),
    state: HeadState,
    parent: &Header,
    block: &CheckedBlock,
) -> Result<ExecutedBlock, ImportError> {
    let executing = ImportStage::Execute.span().entered();
    let started = Instant::now();
    let mut state = BlockState::over(source, parent.number, state);
    state.set_shared_nodes(committed);
    let mut executor = Executor::new(spec, &block.record.header, &mut state);
    executor.body(&block.body.transactions, &block.body.senders)?;
    let outcome = executor.finish(&block.body.uncles)?;
    let execute = started.elapsed();
    drop(executing);
    let _computing = ImportStage::Roots.span().entered();
    // The two roots do not depend on each other.
    let own = || {
        if state.trie_is_lent() {
            return Ok(BlockUpdate::WithoutRoot(Box::new(state.update_without_root())));
        }
        let update = state.update()?;
        Ok::<_, StateError>(BlockUpdate::WithRoot(Box::new(update)))
    };
    let (update, receipts_root) = if outcome.receipts.len() < RECEIPTS_FOR_A_THREAD {
        (own()?, receipts_root(spec, &outcome))
    } else {
        let (update, root) = in_two_threads(own, || receipts_root(spec, &outcome));
        (update?, root)
    };
    let times = ExecutionTimes {
        execute,
        roots: started.elapsed() - execute,
    };
    Ok(ExecutedBlock {
        outcome,
        receipts_root,
        update,
        times,
    })
}

/// Compares the result of the execution with everything that the header says about it, as far as it
/// is known.
fn compare_with_header(header: &Header, executed: &ExecutedBlock) -> Result<(), ImportError> {
    let ExecutedBlock {
        outcome,
        receipts_root,
        update,
        ..
    } = executed;
    if outcome.gas_used != header.gas_used {
        return Err(ImportError::GasUsed {
            got: outcome.gas_used,
            expected: header.gas_used,
        });
    }
    if *receipts_root != header.receipts_root {
        return Err(ImportError::ReceiptsRoot {
            got: *receipts_root,
            expected: header.receipts_root,
        });
    }
    if outcome.logs_bloom != header.logs_bloom {
        let bits = |bloom: &Bloom| bloom.iter().map(|byte| byte.count_ones()).sum();
        return Err(ImportError::Bloom {
            got_bits: bits(&outcome.logs_bloom),
            expected_bits: bits(&header.logs_bloom),
        });
    }
    match update {
        BlockUpdate::WithRoot(update) if update.root != header.state_root => Err(ImportError::StateRoot {
            got: update.root,
            expected: header.state_root,
        }),
        BlockUpdate::WithRoot(_) | BlockUpdate::WithoutRoot(_) => Ok(()),
    }
}

/// Writes all rows of an executed block and makes it the head of the transaction. Canonical blocks
/// that are not executed are written by [`Importer::fill`].
fn write_head_block(
    tables: &mut Tables<'_>,
    open_state: &mut OpenState<'_>,
    block: &CheckedBlock,
    outcome: &Executed,
    update: BlockUpdate,
) -> Result<(), StoreError> {
    let (number, hash) = (block.record.header.number, &block.hash);
    block.put(tables)?;
    tables.put_receipts(number, hash, &outcome.receipts)?;
    open_state.end_block(tables, block.id(), block.record.header.state_root, update)?;
    tables.put_notices(number, hash, &outcome.notices)?;
    tables.put_canonical(number, hash, &block.body.transactions, &outcome.receipts)
}

/// The receipts root of an executed block.
pub(crate) fn receipts_root(spec: &ChainSpec, executed: &Executed) -> B256 {
    ordered_root(
        executed
            .receipts
            .iter()
            .map(|receipt| receipt.encode(spec.receipt_form())),
    )
}
