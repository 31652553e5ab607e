//! The state that the blocks of a write transaction are executed on, from one block to the next,
//! and the cache that keeps it from one transaction to the next.
//!
//! In a run of blocks, state roots are computed beside the execution of the next blocks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use primitives::{B256, Header};
use store::{AncientFile, RowVisitor, Snapshot, Source, StoreError, TableId, Tables};

use super::BlockId;
use super::root_worker::{BLOCKS_WITHOUT_ROOT_MAX, ComputedRoot, RootWorker};
use crate::state::{HeadState, StateUpdate, UpdateWithoutRoot};
use crate::trie::TrieStats;

/// The state after a block, as far as it is in memory.
#[derive(Debug)]
pub(super) struct CachedHeadState {
    /// Hash of the block.
    block_hash: B256,
    state: Box<HeadState>,
}

/// The state after the head that the importer made last. Clones share it.
///
/// The state is a cache of committed rows. If it is taken out and not put back, later reads are
/// slower, and nothing else changes. A state is used only for children of its block, so an outdated
/// state does no harm.
#[derive(Clone, Debug, Default)]
pub(super) struct HeadStateCache(Arc<Mutex<Option<CachedHeadState>>>);

impl HeadStateCache {
    pub(super) fn take(&self) -> Option<CachedHeadState> {
        self.0.lock().take()
    }

    pub(super) fn put(&self, state: Option<CachedHeadState>) {
        *self.0.lock() = state;
    }
}

/// The state that the blocks of one write transaction are executed on.
///
/// There are two policies:
///
/// | made by | state is read from | state roots | trie nodes are written |
/// |---|---|---|---|
/// | [`Self::saving_each_block`] | the open tables | with each block | with each block |
/// | [`Self::saving_at_the_end`] | the last commit | beside later blocks | by [`Self::save`] |
///
/// With the second policy, rows that wait to be written and pages that change are not searched:
/// whatever is newer than the snapshot is in its memory.
///
/// # Protocol
/// Each block is executed between [`Self::begin_block`] and [`Self::end_block`]. The first one
/// takes the state out of the open state and leaves the open state *poisoned*; the second one puts
/// the new state in. If the block fails in between, the open state stays poisoned: the changes of
/// the block cannot be told from those of the blocks before it. It also becomes poisoned when the
/// root of an earlier block turns out wrong. Then
///
/// * no other block may begin,
/// * the transaction must be thrown away, and
/// * the blocks before the failed one must be imported again, in another transaction. After a wrong
///   root these are fewer than those that ended: see [`Self::blocks_before_wrong_root`].
pub(super) struct OpenState<'s> {
    /// The snapshot that state is read from; `None` for the open tables.
    committed: Option<&'s Arc<Snapshot>>,
    memory: OpenStateMemory,
    /// The thread that computes roots. It has the tries.
    worker: Option<RootWorker>,
    /// The blocks that the thread has, oldest first, with the roots of their headers.
    without_root: VecDeque<(BlockId, B256)>,
    /// The number of blocks that ended with the root of their header.
    right_roots: u64,
    /// Memory of the thread's tries, in bytes, roughly.
    lent_bytes: usize,
    times: RootTimes,
}

/// The time that state roots took beside the execution of blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RootTimes {
    /// Time in which the thread computed roots.
    pub(super) computed: Duration,
    /// Time in which the importing thread waited for roots.
    pub(super) waited: Duration,
}

/// The part of the state that an open state has in memory.
enum OpenStateMemory {
    /// Nothing: the first block reads what it needs.
    Empty,
    /// The state after a block.
    AfterBlock(CachedHeadState),
    /// A block has begun and has not ended.
    Poisoned,
    /// The root of an earlier block was wrong. The open state is poisoned, too.
    WrongRoot,
}

/// The changes of a block that ends.
#[derive(Debug)]
pub(super) enum BlockUpdate {
    /// The changes have the root of the block's header.
    WithRoot(Box<StateUpdate>),
    /// Their root is computed and compared later.
    WithoutRoot(Box<UpdateWithoutRoot>),
}

impl<'s> OpenState<'s> {
    /// An open state for transactions of one block, or of few. `cached` may be the state after the
    /// first block's parent.
    pub(super) fn saving_each_block(cached: Option<CachedHeadState>) -> Self {
        Self::new(None, cached)
    }

    /// An open state for transactions of many blocks. `committed` is a snapshot of what was
    /// committed before the transaction.
    pub(super) fn saving_at_the_end(committed: &'s Arc<Snapshot>, cached: Option<CachedHeadState>) -> Self {
        Self::new(Some(committed), cached)
    }

    fn new(committed: Option<&'s Arc<Snapshot>>, cached: Option<CachedHeadState>) -> Self {
        let memory = cached.map_or(OpenStateMemory::Empty, OpenStateMemory::AfterBlock);
        Self {
            committed,
            memory,
            worker: None,
            without_root: VecDeque::new(),
            right_roots: 0,
            lent_bytes: 0,
            times: RootTimes::default(),
        }
    }

    /// The source of the values that are not in memory, for a block that is executed now.
    pub(super) fn source<'a, 't>(&self, tables: &'a Tables<'t>) -> OpenStateSource<'a, 't>
    where
        's: 'a,
    {
        OpenStateSource {
            tables,
            committed: self.committed(),
        }
    }

    /// Takes the state after the block `parent` out, so that a child of it can be executed. The
    /// open state is poisoned until [`Self::end_block`].
    ///
    /// `asks_for_roots` says that the block needs state roots before its end. Once a block did not,
    /// no later one does.
    pub(super) fn begin_block(
        &mut self,
        parent: &Header,
        parent_hash: &B256,
        asks_for_roots: bool,
    ) -> HeadState {
        debug_assert!(!self.is_poisoned(), "no block may begin after one that failed");
        let mut state = match std::mem::replace(&mut self.memory, OpenStateMemory::Poisoned) {
            OpenStateMemory::AfterBlock(cached) if cached.block_hash == *parent_hash => *cached.state,
            _ => HeadState::new(parent.state_root),
        };
        if let Some(committed) = self.committed
            && !asks_for_roots
            && let Some(trie) = state.lend_trie()
        {
            match RootWorker::start(committed.clone(), trie) {
                Ok(worker) => self.worker = Some(worker),
                Err(trie) => state.return_trie(*trie),
            }
        }
        state
    }

    /// Writes the changes of the block `id`, and keeps the state after it for its child. `root` is
    /// the state root of its header. If the root of a block without one turns out wrong, the
    /// open state is poisoned.
    pub(super) fn end_block(
        &mut self,
        tables: &mut Tables<'_>,
        id: BlockId,
        root: B256,
        update: BlockUpdate,
    ) -> Result<(), StoreError> {
        let state = match update {
            BlockUpdate::WithRoot(update) => {
                let mut state = update.write_without_trie(tables, id.number)?;
                if self.committed.is_none() {
                    state.save(tables)?;
                }
                self.right_roots += 1;
                state
            }
            BlockUpdate::WithoutRoot(update) => {
                let (state, changes) = update.write_code(tables)?;
                if let Some(worker) = &self.worker {
                    worker.send(changes);
                }
                self.without_root.push_back((id, root));
                state
            }
        };
        self.memory = OpenStateMemory::AfterBlock(CachedHeadState {
            block_hash: id.hash,
            state: Box::new(state),
        });
        self.compare_roots(tables, BLOCKS_WITHOUT_ROOT_MAX)
    }

    /// Compares the roots that were computed with those of the headers and writes the accounts and
    /// slots of the blocks. Waits until `left` blocks at most have no root.
    fn compare_roots(&mut self, tables: &mut Tables<'_>, left: usize) -> Result<(), StoreError> {
        let Some(worker) = &mut self.worker else {
            return Ok(());
        };
        while let Some(&(id, expected)) = self.without_root.front()
            && let OpenStateMemory::AfterBlock(cached) = &mut self.memory
        {
            let computed = if self.without_root.len() > left {
                let started = Instant::now();
                let computed = worker.wait();
                self.times.waited += started.elapsed();
                computed
            } else {
                worker.poll()
            };
            let Some(ComputedRoot {
                root,
                changes,
                took,
                trie_bytes,
            }) = computed
            else {
                if self.without_root.len() > left {
                    // The thread has ended without an answer.
                    self.memory = OpenStateMemory::WrongRoot;
                }
                break;
            };
            self.times.computed += took;
            self.lent_bytes = trie_bytes;
            if root? != expected {
                self.memory = OpenStateMemory::WrongRoot;
                break;
            }
            tables.put_state(id.number, &changes)?;
            cached.state.take_storage_roots(&changes);
            self.without_root.pop_front();
            self.right_roots += 1;
        }
        Ok(())
    }

    /// Waits for the roots of all blocks and compares them. If one is wrong, the open state is
    /// poisoned.
    pub(super) fn compare_all_roots(&mut self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        self.compare_roots(tables, 0)
    }

    /// Writes the trie nodes of all blocks since the open state was made. Returns what the tries
    /// did. The roots of all blocks must have been compared.
    pub(super) fn save(&mut self, tables: &mut Tables<'_>) -> Result<TrieStats, StoreError> {
        debug_assert!(self.without_root.is_empty() || self.is_poisoned());
        match &mut self.memory {
            OpenStateMemory::AfterBlock(cached) => {
                if let Some(trie) = self.worker.take().and_then(|mut worker| worker.end()) {
                    cached.state.return_trie(trie);
                    self.lent_bytes = 0;
                }
                cached.state.save(tables)
            }
            OpenStateMemory::Empty | OpenStateMemory::Poisoned | OpenStateMemory::WrongRoot => {
                Ok(TrieStats::default())
            }
        }
    }

    /// The snapshot that state is read from; `None` for the open tables.
    pub(super) fn committed(&self) -> Option<&'s Snapshot> {
        self.committed.map(|committed| &**committed)
    }

    /// The number of blocks of the open state before the one whose root was wrong; `None` if there
    /// is none.
    pub(super) const fn blocks_before_wrong_root(&self) -> Option<u64> {
        match self.memory {
            OpenStateMemory::WrongRoot => Some(self.right_roots),
            _ => None,
        }
    }

    /// The time that state roots took beside the execution of blocks.
    pub(super) const fn root_times(&self) -> RootTimes {
        self.times
    }

    /// Memory that the state between two blocks takes, in bytes, roughly.
    pub(super) fn memory_bytes(&self) -> usize {
        match &self.memory {
            OpenStateMemory::AfterBlock(cached) => self.lent_bytes + cached.state.memory_bytes(),
            OpenStateMemory::Empty | OpenStateMemory::Poisoned | OpenStateMemory::WrongRoot => 0,
        }
    }

    /// Whether a block has failed while it was executed or written, or a root was wrong.
    pub(super) const fn is_poisoned(&self) -> bool {
        matches!(
            self.memory,
            OpenStateMemory::Poisoned | OpenStateMemory::WrongRoot
        )
    }

    /// The state after the last block, for the cache.
    pub(super) fn into_cached(self) -> Option<CachedHeadState> {
        match self.memory {
            OpenStateMemory::AfterBlock(cached) => Some(cached),
            OpenStateMemory::Empty | OpenStateMemory::Poisoned | OpenStateMemory::WrongRoot => None,
        }
    }
}

/// The source of the values that an open state does not have in memory: blocks from the open
/// tables, state from the snapshot if there is one.
pub(super) struct OpenStateSource<'a, 't> {
    tables: &'a Tables<'t>,
    committed: Option<&'a Snapshot>,
}

impl OpenStateSource<'_, '_> {
    /// The snapshot, if rows of `table` are to be read from it.
    fn snapshot_for(&self, table: TableId) -> Option<&Snapshot> {
        self.committed.filter(|_| table.is_state())
    }
}

impl Source for OpenStateSource<'_, '_> {
    fn visit(&self, table: TableId, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        match self.snapshot_for(table) {
            Some(snapshot) => snapshot.visit(table, key, read),
            None => self.tables.visit(table, key, read),
        }
    }

    fn visit_last(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        match self.snapshot_for(table) {
            Some(snapshot) => snapshot.visit_last(table, low, high, read),
            None => self.tables.visit_last(table, low, high, read),
        }
    }

    fn visit_from(&self, table: TableId, low: &[u8], visit: &mut RowVisitor<'_>) -> Result<(), StoreError> {
        match self.snapshot_for(table) {
            Some(snapshot) => snapshot.visit_from(table, low, visit),
            None => self.tables.visit_from(table, low, visit),
        }
    }

    fn ancient_file(&self) -> &AncientFile {
        self.tables.ancient_file()
    }
}
