//! Snapshots: a read-only view of one commit.
//!
//! Later writes do not change a snapshot. Knows redb and which block is the head; what rows mean
//! is elsewhere.

use std::sync::{Arc, OnceLock};

use primitives::B256;
use redb::{ReadOnlyTable, ReadableTableMetadata, TableError};

use crate::StoreError;
use crate::blocks::{BlockReads, HeaderRecord};
use crate::blocks_file::{AncientFile, AncientReaders};
use crate::monitor::CallMonitor;
use crate::source::{RowVisitor, Source, rows};
use crate::state::HorizonReads;
use crate::tables::{ByteSlice, TABLE_COUNT, TableId, meta_key};

/// A consistent, read-only view of one commit. A table is opened when it is first read.
pub struct Snapshot {
    // In the order of `TableId::ALL`. Declared before the transaction, because tables must be
    // dropped before their transaction.
    tables: [OnceLock<Option<ReadOnlyTable<ByteSlice, ByteSlice>>>; TABLE_COUNT],
    head: OnceLock<Option<HeadBlock>>,
    oldest_state: OnceLock<u64>,
    transaction: redb::ReadTransaction,
    monitor: Arc<CallMonitor>,
    ancient: Arc<AncientFile>,
    /// Keeps the old blocks that the snapshot names in the file.
    _readers: AncientReaders,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

/// The head block.
#[derive(Clone, Debug)]
pub struct HeadBlock {
    /// The block hash.
    pub hash: B256,
    /// The header and the total difficulty.
    pub record: Arc<HeaderRecord>,
}

/// Size of one table.
#[derive(Clone, Debug)]
pub struct TableStats {
    /// The table's name in the file.
    pub name: &'static str,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of all keys and values.
    pub stored_bytes: u64,
    /// Bytes of the pages that hold them.
    pub page_bytes: u64,
}

/// The result of opening a table; `None` if the file does not have it.
pub(crate) fn existing<T>(opened: Result<T, TableError>) -> Result<Option<T>, TableError> {
    match opened {
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        opened => opened.map(Some),
    }
}

impl Snapshot {
    /// `readers` were taken from `ancient` before `transaction` began.
    pub(crate) fn new(
        transaction: redb::ReadTransaction,
        monitor: Arc<CallMonitor>,
        ancient: Arc<AncientFile>,
        readers: AncientReaders,
    ) -> Self {
        Self {
            ancient,
            _readers: readers,
            tables: Default::default(),
            head: OnceLock::new(),
            oldest_state: OnceLock::new(),
            transaction,
            monitor,
        }
    }

    /// An open table; `None` if the file is older than the table and nothing was written since.
    fn table(&self, table: TableId) -> Result<Option<&ReadOnlyTable<ByteSlice, ByteSlice>>, StoreError> {
        let cell = &self.tables[table as usize];
        if let Some(open) = cell.get() {
            return Ok(open.as_ref());
        }
        let open = self
            .monitor
            .run(|| existing(self.transaction.open_table(table.definition())))?;
        Ok(cell.get_or_init(|| open).as_ref())
    }

    /// The head block; `None` in a store without blocks. Read from the tables once, then kept.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the header of the head block is missing.
    pub fn head_block(&self) -> Result<Option<HeadBlock>, StoreError> {
        if let Some(head) = self.head.get() {
            return Ok(head.clone());
        }
        let head = match self.head()? {
            None => None,
            Some((number, hash)) => {
                let record = self.header(number, &hash)?;
                let missing = || {
                    StoreError::corrupt(
                        TableId::Meta,
                        meta_key::HEAD,
                        "the header of the head block is missing",
                    )
                };
                let record = Arc::new(record.ok_or_else(missing)?);
                Some(HeadBlock { hash, record })
            }
        };
        Ok(self.head.get_or_init(|| head).clone())
    }

    /// The oldest block whose state can be read. Read from the tables once, then kept.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    pub fn oldest_state(&self) -> Result<u64, StoreError> {
        if let Some(oldest) = self.oldest_state.get() {
            return Ok(*oldest);
        }
        let oldest = self.state_horizon()?.block;
        Ok(*self.oldest_state.get_or_init(|| oldest))
    }

    /// The number of rows of a table.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    pub(crate) fn rows(&self, table: TableId) -> Result<u64, StoreError> {
        match self.table(table)? {
            Some(open) => self.monitor.run(|| open.len()),
            None => Ok(0),
        }
    }

    /// Sizes of all tables, in the order of [`TableId::ALL`].
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    pub fn stats(&self) -> Result<Vec<TableStats>, StoreError> {
        let stats = |table: TableId| {
            let mut stats = TableStats {
                name: table.name(),
                rows: 0,
                stored_bytes: 0,
                page_bytes: 0,
            };
            if let Some(open) = self.table(table)? {
                let figures = || Ok::<_, redb::Error>((open.len()?, open.stats()?));
                let (rows, tree) = self.monitor.run(figures)?;
                stats.rows = rows;
                stats.stored_bytes = tree.stored_bytes();
                stats.page_bytes = stats.stored_bytes + tree.metadata_bytes() + tree.fragmented_bytes();
            }
            Ok(stats)
        };
        TableId::ALL.into_iter().map(stats).collect()
    }
}

impl Source for Snapshot {
    fn visit(&self, table: TableId, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        match self.table(table)? {
            Some(open) => rows::visit(&self.monitor, open, key, read),
            None => Ok(()),
        }
    }

    fn visit_last(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        match self.table(table)? {
            Some(open) => rows::visit_last(&self.monitor, open, low, high, read),
            None => Ok(()),
        }
    }

    fn visit_from(&self, table: TableId, low: &[u8], visit: &mut RowVisitor<'_>) -> Result<(), StoreError> {
        match self.table(table)? {
            Some(open) => rows::visit_from(&self.monitor, open, low, visit),
            None => Ok(()),
        }
    }

    fn ancient_file(&self) -> &AncientFile {
        &self.ancient
    }
}
