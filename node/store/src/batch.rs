//! Write transactions: readers see all writes of a batch or none.
//!
//! Knows redb; knows nothing of what rows mean, nor how the file is opened.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use redb::{Table, WriteTransaction};

use crate::database::WritePermit;
use crate::guard::guarded;
use crate::log_index::LogKey;
use crate::monitor::CallMonitor;
use crate::pending_writes::PendingWrites;
use crate::source::{Source, rows};
use crate::tables::ByteSlice;
use crate::{StoreError, TableId};

/// An open write transaction. If it is dropped without [`WriteBatch::commit`], nothing is written.
pub struct WriteBatch {
    /// `None` after a panic has ended the transaction.
    transaction: RefCell<Option<WriteTransaction>>,
    /// Whether something failed. Then the writes may be incomplete and are never committed.
    failed: Cell<bool>,
    // Declared last: the permit is given back after the transaction has ended.
    permit: WritePermit,
}

impl std::fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBatch").finish_non_exhaustive()
    }
}

impl WriteBatch {
    pub(crate) fn new(transaction: WriteTransaction, permit: WritePermit) -> Self {
        Self {
            transaction: RefCell::new(Some(transaction)),
            failed: Cell::new(false),
            permit,
        }
    }

    /// Runs `work` on the open tables and returns its result. May be called several times before
    /// the commit.
    ///
    /// # Errors
    /// The error of `work`, and [`StoreError`] when a read or write fails or a row of the log
    /// index is corrupt. After a [`StoreError`] the batch can no longer be committed.
    pub fn write<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut Tables<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let borrowed = self.transaction.borrow();
        let transaction = borrowed.as_ref().ok_or_else(|| self.failed_error())?;
        let mut tables = Tables::open(transaction, self)?;
        match catch_unwind(AssertUnwindSafe(|| work(&mut tables))) {
            Ok(result) => {
                let value = result?;
                note_failure(self, tables.flush_log_index())?;
                Ok(value)
            }
            Err(panic) => {
                // The transaction must be ended before the panic goes on. If it were dropped while
                // the panic unwinds, redb would have to walk over the whole file at its next
                // opening.
                drop(tables);
                drop(borrowed);
                self.end();
                resume_unwind(panic)
            }
        }
    }

    /// Like [`WriteBatch::write`], for the writes of many blocks.
    ///
    /// Rows of the tables with [`TableInfo::may_wait`](crate::TableInfo::may_wait) are kept in
    /// memory. They are written, sorted by key, when `work` is done. Reads of `work` see them.
    /// [`Tables::waiting_bytes`] tells how much memory they take.
    ///
    /// # Errors
    /// As [`WriteBatch::write`].
    pub fn write_in_order<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut Tables<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.write(|tables| {
            tables.pending = Some(PendingWrites::default());
            let value = work(tables)?;
            tables.write_pending()?;
            Ok(value)
        })
    }

    fn failed_error(&self) -> StoreError {
        StoreError::BatchFailed {
            path: self.monitor().path.clone(),
        }
    }

    fn monitor(&self) -> &CallMonitor {
        self.permit.monitor()
    }

    /// Ends the transaction without a commit, whatever its state.
    fn end(&self) {
        let transaction = self.transaction.borrow_mut().take();
        // A failure here is harmless: nobody sees writes that were not committed.
        let _ = guarded(|| drop(transaction));
    }

    /// Makes all writes durable and visible at once.
    ///
    /// # Errors
    /// [`StoreError`] when the commit fails. Then either everything was written or, more often,
    /// nothing. The next snapshot shows which.
    pub fn commit(self) -> Result<(), StoreError> {
        let transaction = self.transaction.borrow_mut().take();
        match transaction {
            Some(transaction) if !self.failed.get() => self.monitor().run(|| transaction.commit()),
            unusable => {
                let _ = guarded(|| drop(unusable));
                Err(self.failed_error())
            }
        }
    }

    /// Discards all writes.
    ///
    /// # Errors
    /// [`StoreError`] when redb fails. The writes are discarded nevertheless.
    pub fn abort(self) -> Result<(), StoreError> {
        match self.transaction.borrow_mut().take() {
            Some(transaction) => self.monitor().run(|| transaction.abort()),
            None => Ok(()),
        }
    }
}

impl Drop for WriteBatch {
    fn drop(&mut self) {
        self.end();
    }
}

/// The tables of an open [`WriteBatch`]. Reads see the batch's own writes.
pub struct Tables<'txn> {
    /// In the order of [`TableId::ALL`].
    tables: Vec<Table<'txn, ByteSlice, ByteSlice>>,
    /// Entries of the log index that are not in its table yet.
    pub(crate) log_entries: Vec<(LogKey, u64)>,
    /// The rows that wait in memory; `None` outside [`WriteBatch::write_in_order`].
    pending: Option<PendingWrites>,
    batch: &'txn WriteBatch,
}

impl std::fmt::Debug for Tables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

impl<'txn> Tables<'txn> {
    fn open(transaction: &'txn WriteTransaction, batch: &'txn WriteBatch) -> Result<Self, StoreError> {
        let open = |table: TableId| transaction.open_table(table.definition());
        let tables = || TableId::ALL.into_iter().map(open).collect::<Result<_, _>>();
        let tables = batch.monitor().run(tables);
        Ok(Self {
            tables: note_failure(batch, tables)?,
            log_entries: Vec::new(),
            pending: None,
            batch,
        })
    }

    /// Memory taken by the rows that wait, in bytes, roughly.
    pub fn waiting_bytes(&self) -> usize {
        self.pending.as_ref().map_or(0, PendingWrites::bytes)
    }

    /// Writes the rows that wait. From then on rows go to their tables at once.
    fn write_pending(&mut self) -> Result<(), StoreError> {
        let Some(pending) = self.pending.take() else {
            return Ok(());
        };
        for (table, rows) in pending.into_rows() {
            for (key, value) in rows {
                self.put(table, &key, &value)?;
            }
        }
        Ok(())
    }

    /// Where rows of `table` wait; `None` if they do not.
    fn pending(&self, table: TableId) -> Option<&PendingWrites> {
        self.pending.as_ref().filter(|_| table.info().may_wait)
    }

    /// Writes a row. Replaces the row with the same key, if there is one.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if let Some(pending) = self.pending.as_mut().filter(|_| table.info().may_wait) {
            pending.put(table, key, value);
            return Ok(());
        }
        let table = &mut self.tables[table as usize];
        let put = || table.insert(key, value).map(drop);
        note_failure(self.batch, self.batch.monitor().run(put))
    }

    /// Removes a row. Does nothing if there is no such row.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn delete(&mut self, table: TableId, key: &[u8]) -> Result<(), StoreError> {
        if let Some(pending) = &mut self.pending {
            pending.delete(table, key);
        }
        let table = &mut self.tables[table as usize];
        let delete = || table.remove(key).map(drop);
        note_failure(self.batch, self.batch.monitor().run(delete))
    }
}

/// Marks the batch as failed if `result` is an error.
fn note_failure<T>(batch: &WriteBatch, result: Result<T, StoreError>) -> Result<T, StoreError> {
    if result.is_err() {
        batch.failed.set(true);
    }
    result
}

impl Source for Tables<'_> {
    fn with<R>(
        &self,
        table: TableId,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        if let Some(waiting) = self.pending(table).and_then(|pending| pending.get(table, key)) {
            return Ok(Some(read(waiting)));
        }
        let (table, monitor) = (&self.tables[table as usize], self.batch.monitor());
        note_failure(self.batch, rows::with(monitor, table, key, read))
    }

    fn with_last<R>(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let (stored, monitor) = (&self.tables[table as usize], self.batch.monitor());
        let waiting = self
            .pending(table)
            .and_then(|pending| pending.last(table, low, high));
        let Some((waiting_key, waiting_value)) = waiting else {
            return note_failure(self.batch, rows::with_last(monitor, stored, low, high, read));
        };
        // A stored row is the last one only if its key is above that of the waiting row.
        let mut read = Some(read);
        let above = rows::with_last(monitor, stored, waiting_key, high, |key, value| {
            read.take_if(|_| key > waiting_key).map(|read| read(key, value))
        });
        let above = note_failure(self.batch, above)?;
        Ok(above
            .flatten()
            .or_else(|| read.map(|read| read(waiting_key, waiting_value))))
    }

    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let (stored, monitor) = (&self.tables[table as usize], self.batch.monitor());
        let scanned = match self.pending(table) {
            Some(pending) => {
                pending.merge(table, low, |visit| rows::scan(monitor, stored, low, visit), visit)
            }
            None => rows::scan(monitor, stored, low, visit),
        };
        note_failure(self.batch, scanned)
    }
}
