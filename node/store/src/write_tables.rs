//! The tables of an open write transaction: rows are read, written and removed here.
//!
//! The meaning of rows is in the modules that add methods to [`Tables`]: blocks, state, notices,
//! logs and the log index. Knows redb; knows nothing of when the transaction is committed.

use std::cell::{Cell, OnceCell, RefCell};

use redb::{ReadableTableMetadata, Table, WriteTransaction};

use crate::blocks_file::{AncientBatch, AncientFile};
use crate::log_key::LogKey;
use crate::monitor::CallMonitor;
use crate::source::{RowVisitor, Source, rows};
use crate::tables::{ByteSlice, TABLE_COUNT};
use crate::waiting_rows::WaitingRows;
use crate::wal::RowChanges;
use crate::{StoreError, TableId};

/// A table of an open transaction.
type OpenTable<'txn> = Table<'txn, ByteSlice, ByteSlice>;

/// The tables of an open [`WriteBatch`](crate::WriteBatch). Reads see the batch's own writes.
pub struct Tables<'txn> {
    /// In the order of [`TableId::ALL`]. Opened when they are used: redb looks up each opened table
    /// again in a commit, and a small batch uses a few of them.
    tables: [OnceCell<OpenTable<'txn>>; TABLE_COUNT],
    transaction: &'txn WriteTransaction,
    /// Entries of the log index that are not in its table yet.
    pub(crate) log_entries: Vec<(LogKey, u64)>,
    /// The rows that wait in memory; `None` outside
    /// [`WriteBatch::write_in_order`](crate::WriteBatch::write_in_order).
    waiting: Option<WaitingRows>,
    /// The written and removed rows, for the record in the write-ahead log.
    changes: &'txn RefCell<RowChanges>,
    /// The changes of the batch in the file of old blocks.
    ancient: &'txn AncientBatch,
    monitor: &'txn CallMonitor,
    /// Set when a read or a write fails: the batch is then never committed.
    failed: &'txn Cell<bool>,
}

impl std::fmt::Debug for Tables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

impl<'txn> Tables<'txn> {
    /// The tables of `transaction`. What is written and removed is added to `changes`. `failed`
    /// becomes true when a read or a write fails.
    pub(crate) fn new(
        transaction: &'txn WriteTransaction,
        changes: &'txn RefCell<RowChanges>,
        ancient: &'txn AncientBatch,
        monitor: &'txn CallMonitor,
        failed: &'txn Cell<bool>,
    ) -> Self {
        Self {
            tables: Default::default(),
            transaction,
            log_entries: Vec::new(),
            waiting: None,
            changes,
            ancient,
            monitor,
            failed,
        }
    }

    /// Makes every table that the file does not have.
    ///
    /// # Errors
    /// [`StoreError`] when a table cannot be made.
    pub(crate) fn make_all(&self) -> Result<(), StoreError> {
        TableId::ALL
            .into_iter()
            .try_for_each(|table| self.table(table).map(drop))
    }

    /// Opens a table, or makes it if an older file does not have it.
    fn open(&self, table: TableId) -> Result<OpenTable<'txn>, StoreError> {
        let open = || self.transaction.open_table(table.definition());
        self.note_failure(self.monitor.run(open))
    }

    fn table(&self, table: TableId) -> Result<&OpenTable<'txn>, StoreError> {
        let cell = &self.tables[table as usize];
        if let Some(opened) = cell.get() {
            return Ok(opened);
        }
        let opened = self.open(table)?;
        Ok(cell.get_or_init(|| opened))
    }

    fn change(
        &mut self,
        table: TableId,
        change: impl FnOnce(&mut OpenTable<'txn>) -> Result<(), redb::StorageError>,
    ) -> Result<(), StoreError> {
        let mut rows = match self.tables[table as usize].take() {
            Some(opened) => opened,
            None => self.open(table)?,
        };
        let changed = self.monitor.run(|| change(&mut rows));
        self.tables[table as usize] = OnceCell::from(rows);
        self.note_failure(changed)
    }

    /// From now on rows of the tables that allow it wait in memory.
    pub(crate) fn keep_waiting(&mut self) {
        self.waiting = Some(WaitingRows::default());
    }

    /// The changes of the batch in the file of old blocks.
    pub(crate) const fn ancient(&self) -> &'txn AncientBatch {
        self.ancient
    }

    /// Marks the batch as failed if `result` is an error.
    pub(crate) fn note_failure<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        note_failure(self.failed, result)
    }

    /// Memory taken by the rows and the entries of the log index that wait, in bytes, roughly.
    pub fn waiting_bytes(&self) -> usize {
        let entries = self.log_entries.len() * size_of::<(LogKey, u64)>();
        self.waiting.as_ref().map_or(0, WaitingRows::bytes) + entries
    }

    /// Writes the rows that wait. From then on rows go to their tables at once.
    pub(crate) fn write_waiting(&mut self) -> Result<(), StoreError> {
        let Some(waiting) = self.waiting.take() else {
            return Ok(());
        };
        for (table, rows) in waiting.into_rows() {
            for (key, value) in rows {
                self.put(table, &key, &value)?;
            }
        }
        Ok(())
    }

    /// The waiting rows of `table`; `None` if its rows do not wait.
    fn waiting(&self, table: TableId) -> Option<&WaitingRows> {
        self.waiting.as_ref().filter(|_| table.info().may_wait)
    }

    /// Bytes of all keys and values that the batch has written, and of all keys that it has
    /// removed.
    pub fn written_bytes(&self) -> usize {
        self.changes.borrow().written()
    }

    /// The number of rows of `table`. Rows that wait in memory do not count.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    pub fn rows(&self, table: TableId) -> Result<u64, StoreError> {
        let opened = self.table(table)?;
        let counted = self.monitor.run(|| opened.len());
        self.note_failure(counted)
    }

    /// Writes a row. Replaces the row with the same key, if there is one.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if let Some(waiting) = self.waiting.as_mut().filter(|_| table.info().may_wait) {
            waiting.put(table, key, value);
            return Ok(());
        }
        self.change(table, |rows| rows.insert(key, value).map(drop))?;
        self.changes.borrow_mut().put(table, key, value);
        Ok(())
    }

    /// Removes a row. Does nothing if there is no such row.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn delete(&mut self, table: TableId, key: &[u8]) -> Result<(), StoreError> {
        if let Some(waiting) = &mut self.waiting {
            waiting.delete(table, key);
        }
        self.change(table, |rows| rows.remove(key).map(drop))?;
        self.changes.borrow_mut().delete(table, key);
        Ok(())
    }
}

/// Marks the batch as failed if `result` is an error.
fn note_failure<T>(failed: &Cell<bool>, result: Result<T, StoreError>) -> Result<T, StoreError> {
    if result.is_err() {
        failed.set(true);
    }
    result
}

impl Source for Tables<'_> {
    fn visit(&self, table: TableId, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        if let Some(waiting) = self.waiting(table).and_then(|waiting| waiting.get(table, key)) {
            read(waiting);
            return Ok(());
        }
        let stored = self.table(table)?;
        self.note_failure(rows::visit(self.monitor, stored, key, read))
    }

    fn visit_last(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        let (stored, monitor) = (self.table(table)?, self.monitor);
        let waiting = self
            .waiting(table)
            .and_then(|waiting| waiting.last(table, low, high));
        let Some((waiting_key, waiting_value)) = waiting else {
            return self.note_failure(rows::visit_last(monitor, stored, low, high, read));
        };
        // A stored row is the last one only if its key is above that of the waiting row.
        let mut is_above = false;
        let above = rows::visit_last(monitor, stored, waiting_key, high, &mut |key, value| {
            is_above = key > waiting_key;
            if is_above {
                read(key, value);
            }
        });
        self.note_failure(above)?;
        if !is_above {
            read(waiting_key, waiting_value);
        }
        Ok(())
    }

    fn visit_from(&self, table: TableId, low: &[u8], visit: &mut RowVisitor<'_>) -> Result<(), StoreError> {
        let (stored, monitor) = (self.table(table)?, self.monitor);
        let visited = match self.waiting(table) {
            Some(waiting) => waiting.merge(
                table,
                low,
                |visit| rows::visit_from(monitor, stored, low, visit),
                visit,
            ),
            None => rows::visit_from(monitor, stored, low, visit),
        };
        self.note_failure(visited)
    }

    fn ancient_file(&self) -> &AncientFile {
        self.ancient.file()
    }
}
