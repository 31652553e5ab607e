//! Write transactions: all of one is seen and kept, or nothing.
//!
//! Knows redb; knows nothing of what rows mean, nor how the file is opened.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use redb::{Table, WriteTransaction};

use crate::guard::guarded;
use crate::later::Later;
use crate::log_index::LogKey;
use crate::source::{Source, rows};
use crate::store::{Turn, Watch};
use crate::{StoreError, TableId};

type Bytes = &'static [u8];

/// An open write transaction. Dropped without [`Batch::commit`], it leaves no trace.
pub struct Batch {
    /// `None` once a panic has ended it.
    transaction: RefCell<Option<WriteTransaction>>,
    /// Something failed: what was written may be a part.
    spoilt: Cell<bool>,
    // Given back after the transaction has ended.
    turn: Turn,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}

impl Batch {
    pub(crate) fn new(transaction: WriteTransaction, turn: Turn) -> Self {
        Self {
            transaction: RefCell::new(Some(transaction)),
            spoilt: Cell::new(false),
            turn,
        }
    }

    /// Runs `work` over the open tables. May be called again before the commit.
    ///
    /// # Errors
    /// Whatever `work` returns, and [`StoreError`] when the medium fails or a row of the log index is corrupt. After an error of the
    /// store's the batch cannot be committed.
    pub fn write<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut Tables<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let held = self.transaction.borrow();
        let transaction = held.as_ref().ok_or_else(|| self.spoilt_error())?;
        let mut tables = Tables::open(transaction, self)?;
        match catch_unwind(AssertUnwindSafe(|| work(&mut tables))) {
            Ok(result) => {
                let done = result?;
                spoiling(self, tables.flush_log_index())?;
                Ok(done)
            }
            Err(panic) => {
                // A transaction that is dropped while a panic unwinds costs redb a walk over the
                // whole file at its next opening; ended here it does not.
                drop(tables);
                drop(held);
                self.end();
                resume_unwind(panic)
            }
        }
    }

    /// Like [`Batch::write`], for much work: rows whose keys come without order wait in memory
    /// and are written in the order of keys when `work` is done. [`Tables::waiting_bytes`] says
    /// how much waits.
    ///
    /// # Errors
    /// As [`Batch::write`].
    pub fn write_in_order<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut Tables<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.write(|tables| {
            tables.later = Some(Later::default());
            let done = work(tables)?;
            tables.write_waiting()?;
            Ok(done)
        })
    }

    fn spoilt_error(&self) -> StoreError {
        StoreError::Spoilt {
            path: self.watch().path.clone(),
        }
    }

    fn watch(&self) -> &Watch {
        self.turn.watch()
    }

    /// Forgets the writes, whatever state they are in.
    fn end(&self) {
        let transaction = self.transaction.borrow_mut().take();
        // What is not committed is seen by nobody, also where taking it back fails.
        let _ = guarded(|| drop(transaction));
    }

    /// Makes the writes durable and visible, all at once.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails. Then all of it was written or, mostly, nothing;
    /// which, the next snapshot shows.
    pub fn commit(self) -> Result<(), StoreError> {
        let transaction = self.transaction.borrow_mut().take();
        match transaction {
            Some(transaction) if !self.spoilt.get() => self.watch().run(|| transaction.commit()),
            rest => {
                let _ = guarded(|| drop(rest));
                Err(self.spoilt_error())
            }
        }
    }

    /// Forgets the writes.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn abort(self) -> Result<(), StoreError> {
        match self.transaction.borrow_mut().take() {
            Some(transaction) => self.watch().run(|| transaction.abort()),
            None => Ok(()),
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.end();
    }
}

/// The tables of an open [`Batch`]: everything a snapshot can read, and writes.
pub struct Tables<'txn> {
    tables: Vec<Table<'txn, Bytes, Bytes>>,
    /// Entries of the log index that are not in its table yet.
    pub(crate) log_entries: Vec<(LogKey, u64)>,
    /// Rows that are written at the end, where they wait at all.
    later: Option<Later>,
    batch: &'txn Batch,
}

impl std::fmt::Debug for Tables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

impl<'txn> Tables<'txn> {
    fn open(transaction: &'txn WriteTransaction, batch: &'txn Batch) -> Result<Self, StoreError> {
        let open = |table: TableId| transaction.open_table(table.definition());
        let tables = || TableId::ALL.into_iter().map(open).collect::<Result<_, _>>();
        let tables = batch.watch().run(tables);
        Ok(Self {
            tables: spoiling(batch, tables)?,
            log_entries: Vec::new(),
            later: None,
            batch,
        })
    }

    /// Memory taken by rows that wait to be written.
    pub fn waiting_bytes(&self) -> usize {
        self.later.as_ref().map_or(0, Later::bytes)
    }

    /// Writes what waits; from here on rows go to their tables at once.
    fn write_waiting(&mut self) -> Result<(), StoreError> {
        let Some(later) = self.later.take() else {
            return Ok(());
        };
        for (table, rows) in later.into_rows() {
            for (key, value) in rows {
                self.put(table, &key, &value)?;
            }
        }
        Ok(())
    }

    /// Where the rows of `table` wait, if they do.
    fn later(&self, table: TableId) -> Option<&Later> {
        self.later.as_ref().filter(|_| Later::holds(table))
    }

    /// Writes a row, over an older one where there is one.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if let Some(later) = self.later.as_mut().filter(|_| Later::holds(table)) {
            later.put(table, key, value);
            return Ok(());
        }
        let table = &mut self.tables[table as usize];
        let put = || table.insert(key, value).map(drop);
        spoiling(self.batch, self.batch.watch().run(put))
    }

    /// Removes a row; no error where there is none.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn delete(&mut self, table: TableId, key: &[u8]) -> Result<(), StoreError> {
        if let Some(later) = &mut self.later {
            later.delete(table, key);
        }
        let table = &mut self.tables[table as usize];
        let delete = || table.remove(key).map(drop);
        spoiling(self.batch, self.batch.watch().run(delete))
    }
}

/// Notes that a batch has met with a failure.
fn spoiling<T>(batch: &Batch, result: Result<T, StoreError>) -> Result<T, StoreError> {
    if result.is_err() {
        batch.spoilt.set(true);
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
        if let Some(waiting) = self.later(table).and_then(|later| later.get(table, key)) {
            return Ok(Some(read(waiting)));
        }
        let (table, watch) = (&self.tables[table as usize], self.batch.watch());
        spoiling(self.batch, rows::with(watch, table, key, read))
    }

    fn with_last<R>(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let (stored, watch) = (&self.tables[table as usize], self.batch.watch());
        let Some((waiting, newer)) = self.later(table).and_then(|later| later.last(table, low, high)) else {
            return spoiling(self.batch, rows::with_last(watch, stored, low, high, read));
        };
        // What is stored counts only where it lies behind.
        let mut read = Some(read);
        let behind = rows::with_last(watch, stored, waiting, high, |key, value| {
            read.take_if(|_| key > waiting).map(|read| read(key, value))
        });
        let behind = spoiling(self.batch, behind)?;
        Ok(behind.flatten().or_else(|| read.map(|read| read(waiting, newer))))
    }

    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let (stored, watch) = (&self.tables[table as usize], self.batch.watch());
        let scanned = match self.later(table) {
            Some(later) => later.merge(table, low, |visit| rows::scan(watch, stored, low, visit), visit),
            None => rows::scan(watch, stored, low, visit),
        };
        spoiling(self.batch, scanned)
    }
}
