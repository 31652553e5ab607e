//! The state that the blocks of a write transaction are executed on, from one block to the next,
//! and the cache that keeps it from one transaction to the next.

use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use primitives::{B256, Header};
use store::{AncientFile, Snapshot, Source, StoreError, TableId, Tables};

use super::BlockId;
use crate::state::{HeadState, StateUpdate};
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
/// It is a cache of committed rows. If the state is taken out and not put back, later reads are
/// slower, and nothing else changes. A state is used only for children of its block, so an
/// outdated state does no harm.
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
/// | made by | state is read from | trie nodes are written |
/// |---|---|---|
/// | [`Self::saving_each_block`] | the open tables | with each block |
/// | [`Self::saving_at_the_end`] | a snapshot of the last commit | once, by [`Self::save`] |
///
/// With the second policy, rows that wait to be written and pages that change are not searched:
/// whatever is newer than the snapshot is in the session's memory.
///
/// # Protocol
/// Each block is executed between [`Self::begin_block`] and [`Self::end_block`]. The first one
/// takes the state out of the session and leaves the session *poisoned*; the second one puts the
/// new state in. If the block fails in between, the session stays poisoned: the changes of the
/// block cannot be told from those of the blocks before it. Then
///
/// * no other block may begin,
/// * the transaction must be thrown away, and
/// * the blocks before the failed one must be imported again, in another transaction.
pub(super) struct StateSession<'s> {
    /// The snapshot that state is read from; `None` for the open tables.
    committed: Option<&'s Snapshot>,
    memory: SessionMemory,
}

/// What a session has in memory.
enum SessionMemory {
    /// Nothing: the first block reads what it needs.
    Empty,
    /// The state after a block.
    AfterBlock(CachedHeadState),
    /// A block has begun and has not ended.
    Poisoned,
}

impl<'s> StateSession<'s> {
    /// A session for transactions of one block, or of few. `cached` may be the state after the
    /// first block's parent.
    pub(super) fn saving_each_block(cached: Option<CachedHeadState>) -> Self {
        Self::new(None, cached)
    }

    /// A session for transactions of many blocks. `committed` is a snapshot of what was committed
    /// before the transaction.
    pub(super) fn saving_at_the_end(committed: &'s Snapshot, cached: Option<CachedHeadState>) -> Self {
        Self::new(Some(committed), cached)
    }

    fn new(committed: Option<&'s Snapshot>, cached: Option<CachedHeadState>) -> Self {
        let memory = cached.map_or(SessionMemory::Empty, SessionMemory::AfterBlock);
        Self { committed, memory }
    }

    /// Where a block that is executed now reads what is not in memory.
    pub(super) const fn source<'a, 't>(&self, tables: &'a Tables<'t>) -> SessionSource<'a, 't>
    where
        's: 'a,
    {
        SessionSource {
            tables,
            committed: self.committed,
        }
    }

    /// Takes the state after the block `parent` out, so that a child of it can be executed. The
    /// session is poisoned until [`Self::end_block`].
    pub(super) fn begin_block(&mut self, parent: &Header, parent_hash: &B256) -> HeadState {
        debug_assert!(!self.is_poisoned(), "no block may begin after one that failed");
        match std::mem::replace(&mut self.memory, SessionMemory::Poisoned) {
            SessionMemory::AfterBlock(cached) if cached.block_hash == *parent_hash => *cached.state,
            _ => HeadState::new(parent.state_root),
        }
    }

    /// Writes the changes of the block `id`, and keeps the state after it for its child.
    pub(super) fn end_block(
        &mut self,
        tables: &mut Tables<'_>,
        id: BlockId,
        update: StateUpdate,
    ) -> Result<(), StoreError> {
        let mut state = update.write_without_trie(tables, id.number)?;
        if self.committed.is_none() {
            state.save(tables)?;
        }
        self.memory = SessionMemory::AfterBlock(CachedHeadState {
            block_hash: id.hash,
            state: Box::new(state),
        });
        Ok(())
    }

    /// Writes the trie nodes of all blocks since the session began. Returns what the tries did.
    pub(super) fn save(&mut self, tables: &mut Tables<'_>) -> Result<TrieStats, StoreError> {
        match &mut self.memory {
            SessionMemory::AfterBlock(cached) => cached.state.save(tables),
            SessionMemory::Empty | SessionMemory::Poisoned => Ok(TrieStats::default()),
        }
    }

    /// The snapshot that state is read from; `None` for the open tables.
    pub(super) const fn committed(&self) -> Option<&'s Snapshot> {
        self.committed
    }

    /// Memory that the state between two blocks takes, in bytes, roughly.
    pub(super) fn memory_bytes(&self) -> usize {
        match &self.memory {
            SessionMemory::AfterBlock(cached) => cached.state.memory_bytes(),
            SessionMemory::Empty | SessionMemory::Poisoned => 0,
        }
    }

    /// Whether a block has failed while it was executed or written.
    pub(super) const fn is_poisoned(&self) -> bool {
        matches!(self.memory, SessionMemory::Poisoned)
    }

    /// The state after the last block, for the cache.
    pub(super) fn into_cached(self) -> Option<CachedHeadState> {
        match self.memory {
            SessionMemory::AfterBlock(cached) => Some(cached),
            SessionMemory::Empty | SessionMemory::Poisoned => None,
        }
    }
}

/// Where the blocks of a session read what is not in memory: blocks from the open tables, state
/// from the snapshot if there is one.
pub(super) struct SessionSource<'a, 't> {
    tables: &'a Tables<'t>,
    committed: Option<&'a Snapshot>,
}

impl SessionSource<'_, '_> {
    /// The snapshot, if rows of `table` are to be read from it.
    fn snapshot_for(&self, table: TableId) -> Option<&Snapshot> {
        self.committed.filter(|_| table.is_state())
    }
}

impl Source for SessionSource<'_, '_> {
    fn with<R>(
        &self,
        table: TableId,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        match self.snapshot_for(table) {
            Some(snapshot) => snapshot.with(table, key, read),
            None => self.tables.with(table, key, read),
        }
    }

    fn with_last<R>(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        match self.snapshot_for(table) {
            Some(snapshot) => snapshot.with_last(table, low, high, read),
            None => self.tables.with_last(table, low, high, read),
        }
    }

    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        match self.snapshot_for(table) {
            Some(snapshot) => snapshot.scan(table, low, visit),
            None => self.tables.scan(table, low, visit),
        }
    }

    fn ancient_file(&self) -> &AncientFile {
        self.tables.ancient_file()
    }
}
