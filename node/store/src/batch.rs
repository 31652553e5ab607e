//! Write transactions: all of one is seen and kept, or nothing.
//!
//! Knows redb; knows nothing of what rows mean, nor how the file is opened.

use crate::guard::guarded;
use crate::log_index::LogKey;
use crate::source::{Source, rows};
use crate::store::{Turn, Watch};
use crate::{StoreError, TableId};
use redb::{Table, WriteTransaction};
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

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
            batch,
        })
    }

    /// Writes a row, over an older one where there is one.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let table = &mut self.tables[table as usize];
        let put = || table.insert(key, value).map(drop);
        spoiling(self.batch, self.batch.watch().run(put))
    }

    /// Removes a row; no error where there is none.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn delete(&mut self, table: TableId, key: &[u8]) -> Result<(), StoreError> {
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
        let (table, watch) = (&self.tables[table as usize], self.batch.watch());
        spoiling(self.batch, rows::with_last(watch, table, low, high, read))
    }

    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let (table, watch) = (&self.tables[table as usize], self.batch.watch());
        spoiling(self.batch, rows::scan(watch, table, low, visit))
    }
}
