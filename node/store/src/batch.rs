//! Write transactions: readers see all writes of a batch or none.
//!
//! Knows redb and when a transaction ends; rows are written through
//! [`Tables`](crate::Tables). How a commit becomes durable is in [`crate::open_database`]. Knows
//! nothing of how the file is opened.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use redb::WriteTransaction;

use crate::StoreError;
use crate::blocks_file::AncientBatch;
use crate::database::WritePermit;
use crate::monitor::CallMonitor;
use crate::open_database::write_position;
use crate::wal::{LogPosition, RowChanges};
use crate::write_tables::Tables;

/// An open write transaction. If it is dropped without [`WriteBatch::commit`], nothing is written.
pub struct WriteBatch {
    /// `None` after a panic has ended the transaction.
    transaction: RefCell<Option<WriteTransaction>>,
    /// The written rows, for the write-ahead log.
    changes: RefCell<RowChanges>,
    /// The blocks that were appended to the file of old blocks.
    ancient: AncientBatch,
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
    pub(crate) fn new(transaction: WriteTransaction, ancient: AncientBatch, permit: WritePermit) -> Self {
        Self {
            ancient,
            transaction: RefCell::new(Some(transaction)),
            changes: RefCell::new(permit.no_changes()),
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
        let mut tables = Tables::new(
            transaction,
            &self.changes,
            &self.ancient,
            self.monitor(),
            &self.failed,
        );
        match catch_unwind(AssertUnwindSafe(|| work(&mut tables))) {
            Ok(result) => {
                let value = result?;
                let flushed = tables.flush_log_index();
                tables.note_failure(flushed)?;
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
            tables.keep_waiting();
            let value = work(tables)?;
            tables.write_waiting()?;
            Ok(value)
        })
    }

    /// Writes the position of a new database in its log.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub(crate) fn write_position(&self, position: LogPosition) -> Result<(), StoreError> {
        let transaction = self.transaction.borrow();
        let transaction = transaction.as_ref().ok_or_else(|| self.failed_error())?;
        write_position(self.monitor(), transaction, position)
    }

    /// Removes a table from the file, as if the file were older than the table.
    #[cfg(test)]
    pub(crate) fn remove_table(&self, table: crate::TableId) {
        let transaction = self.transaction.borrow();
        let transaction = transaction.as_ref().expect("the batch is open");
        transaction
            .delete_table(table.definition())
            .expect("redb removes a table");
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
        // Nobody sees writes that were not committed, so a failure here is no error of the caller.
        let _ = self.monitor().run_transaction(|| {
            drop(transaction);
            Ok::<_, redb::Error>(())
        });
    }

    /// Makes all writes durable and visible at once.
    ///
    /// # Errors
    /// [`StoreError`] when the commit fails. Then either everything was written or, more often,
    /// nothing. The next snapshot shows which.
    pub fn commit(self) -> Result<(), StoreError> {
        if self.failed.get() {
            self.end();
        }
        match self.transaction.borrow_mut().take() {
            Some(transaction) => {
                let changes = self.changes.replace(RowChanges::none());
                self.permit.commit(transaction, changes)?;
                self.ancient.committed();
                Ok(())
            }
            None => Err(self.failed_error()),
        }
    }

    /// Discards all writes.
    ///
    /// # Errors
    /// [`StoreError`] when redb fails. The writes are discarded nevertheless.
    pub fn abort(self) -> Result<(), StoreError> {
        match self.transaction.borrow_mut().take() {
            Some(transaction) => self.monitor().run_transaction(|| transaction.abort()),
            None => Ok(()),
        }
    }
}

impl Drop for WriteBatch {
    fn drop(&mut self) {
        self.end();
    }
}
