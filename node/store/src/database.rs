//! The redb database behind a [`Store`](crate::Store): opened again after a failure, one writer
//! at a time.
//!
//! After a failed read or write of the file redb refuses everything until the database is closed
//! and opened again. After a commit that failed for any other reason, it refuses every later write.
//! [`SharedDatabase::reopen_if_broken`] closes the database and opens it again. The holder of the
//! [`WritePermit`] is the only one who may write or open the database again. Knows redb; knows no
//! tables. Where the file is and how it is opened is in [`crate::open`].

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use redb::{Database, WriteTransaction};

use crate::StoreError;
use crate::blocks_file::AncientBatch;
use crate::guard::guarded;
use crate::monitor::CallMonitor;
use crate::open::{DatabaseLocation, StoreOptions};
use crate::open_database::OpenDatabase;
use crate::snapshot::Snapshot;
use crate::wal::{LogPosition, RowChanges};

/// The part that all clones of a [`Store`](crate::Store) share.
pub(crate) struct SharedDatabase {
    pub(crate) monitor: Arc<CallMonitor>,
    pub(crate) location: DatabaseLocation,
    options: StoreOptions,
    /// `None` only after the database could not be opened again.
    current: RwLock<Option<OpenDatabase>>,
    /// Whether somebody holds the write permit.
    permit_taken: Mutex<bool>,
    permit_free: Condvar,
}

/// The right to write and to open the database again. There is one at a time.
pub(crate) struct WritePermit(Arc<SharedDatabase>);

impl WritePermit {
    /// The monitor for the holder's calls into redb.
    pub(crate) fn monitor(&self) -> &CallMonitor {
        &self.0.monitor
    }

    /// An empty collection for the changes of a batch, which go into the write-ahead log.
    pub(crate) fn no_changes(&self) -> RowChanges {
        match self.0.location {
            DatabaseLocation::Memory => RowChanges::none(),
            _ => RowChanges::new(self.0.options.log_bytes),
        }
    }

    /// Commits the holder's batch.
    ///
    /// # Errors
    /// As [`OpenDatabase::commit`].
    pub(crate) fn commit(
        &self,
        transaction: WriteTransaction,
        changes: RowChanges,
    ) -> Result<(), StoreError> {
        self.0
            .with_open(|open| open.commit(self.monitor(), transaction, changes))
    }
}

impl Drop for WritePermit {
    fn drop(&mut self) {
        // The holder may have committed. The shared snapshot is then out of date, and keeping it
        // would keep redb from reusing pages.
        self.0.forget_latest();
        *self.0.permit_taken() = false;
        self.0.permit_free.notify_one();
    }
}

impl SharedDatabase {
    /// A new database, whose commits need no log.
    pub(crate) fn without_log(
        location: DatabaseLocation,
        database: Database,
        options: &StoreOptions,
    ) -> Self {
        let monitor = CallMonitor::new(location.path().to_owned());
        let database = OpenDatabase::without_log(database, &location);
        Self::with(location, monitor, database, options)
    }

    /// Opens an existing database.
    ///
    /// # Errors
    /// As [`OpenDatabase::open`].
    pub(crate) fn open(location: DatabaseLocation, options: &StoreOptions) -> Result<Self, StoreError> {
        let monitor = CallMonitor::new(location.path().to_owned());
        let database = OpenDatabase::open(&location, options, &monitor)?;
        Ok(Self::with(location, monitor, database, options))
    }

    fn with(
        location: DatabaseLocation,
        monitor: CallMonitor,
        database: OpenDatabase,
        options: &StoreOptions,
    ) -> Self {
        Self {
            monitor: Arc::new(monitor),
            location,
            options: options.clone(),
            current: RwLock::new(Some(database)),
            permit_taken: Mutex::new(false),
            permit_free: Condvar::new(),
        }
    }

    fn forget_latest(&self) {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let latest = current.as_ref().and_then(|open| open.latest().take());
        drop(current);
        // Dropped without our lock: ending a snapshot takes locks inside redb, and may even close
        // the database.
        let _ = guarded(|| drop(latest));
    }

    fn permit_taken(&self) -> MutexGuard<'_, bool> {
        self.permit_taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the write permit.
    pub(crate) fn wait_for_permit(self: &Arc<Self>) -> WritePermit {
        let mut taken = self.permit_taken();
        while *taken {
            taken = self
                .permit_free
                .wait(taken)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *taken = true;
        WritePermit(self.clone())
    }

    /// The write permit; `None` if somebody else holds it.
    pub(crate) fn try_permit(self: &Arc<Self>) -> Option<WritePermit> {
        let mut taken = self.permit_taken();
        (!std::mem::replace(&mut *taken, true)).then(|| WritePermit(self.clone()))
    }

    /// Closes the database and opens it again if it is broken. The holder of the permit must not
    /// have an open write transaction.
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be opened. Then it stays closed, and the next call
    /// tries again.
    pub(crate) fn reopen_if_broken(&self, _permit: &WritePermit) -> Result<(), StoreError> {
        if !self.monitor.is_broken() || matches!(self.location, DatabaseLocation::Memory) {
            return Ok(());
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = current.take() {
            // Closing may fail too. No committed data depends on what it would still write.
            let _ = guarded(|| drop(old));
        }
        *current = Some(OpenDatabase::open(&self.location, &self.options, &self.monitor)?);
        self.monitor.set_broken(false);
        Ok(())
    }

    /// Runs `work` on the open database, which stays open meanwhile.
    fn with_open<T>(
        &self,
        work: impl FnOnce(&OpenDatabase) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &*self.current.read().unwrap_or_else(PoisonError::into_inner) {
            Some(open) => work(open),
            None => Err(StoreError::Closed {
                path: self.monitor.path.clone(),
            }),
        }
    }

    /// Makes the database have everything that the log has. Returns its position in the log.
    ///
    /// # Errors
    /// As [`OpenDatabase::checkpoint`].
    pub(crate) fn checkpoint(&self, _permit: &WritePermit) -> Result<LogPosition, StoreError> {
        self.with_open(|open| {
            open.checkpoint(&self.monitor)?;
            open.position(&self.monitor)
        })
    }

    /// Begins a write transaction on the open database.
    pub(crate) fn begin_write(
        &self,
        _permit: &WritePermit,
    ) -> Result<(WriteTransaction, AncientBatch), StoreError> {
        self.with_open(|open| {
            let transaction = open.begin_write(&self.monitor)?;
            Ok((transaction, AncientBatch::new(open.ancient().clone())))
        })
    }

    /// The snapshot of the last commit, made by the first who asks after that commit.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>, StoreError> {
        self.with_open(|open| {
            // Locked until the new snapshot is in place. Otherwise a commit could come between,
            // and an outdated snapshot would be kept after it.
            let mut latest = open.latest();
            if let Some(latest) = &*latest {
                return Ok(Arc::clone(latest));
            }
            let ancient = open.ancient().clone();
            let readers = ancient.readers();
            let transaction = open.begin_read(&self.monitor)?;
            let snapshot = Snapshot::new(transaction, self.monitor.clone(), ancient, readers);
            let snapshot = Arc::new(snapshot);
            *latest = Some(Arc::clone(&snapshot));
            Ok(snapshot)
        })
    }
}

impl Drop for SharedDatabase {
    fn drop(&mut self) {
        let current = self.current.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = current.take() else { return };
        if !self.monitor.is_broken() && !std::thread::panicking() {
            // If this fails, the next opening reads the log.
            let _ = open.checkpoint(&self.monitor);
        }
        // redb may write when it is closed, and may panic at damaged pages.
        let _ = guarded(|| drop(open));
    }
}
