//! The redb database behind a [`Store`](crate::Store): opened again after a failure, one writer
//! at a time.
//!
//! After a failed read or write of the file redb refuses everything until the database is closed
//! and opened again. After a commit that failed for any other reason, it refuses every later write.
//! [`SharedDatabase::reopen_if_broken`] closes the database and opens it again. The holder of the
//! [`WritePermit`] is the only one who may write or open the database again. Knows redb; knows no
//! tables. Where the file is and how it is opened is in [`crate::open`].

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use redb::{Database, ReadTransaction, ReadableDatabase, WriteTransaction};

use crate::StoreError;
use crate::guard::guarded;
use crate::monitor::CallMonitor;
use crate::open::{DatabaseLocation, StoreOptions};
use crate::snapshot::Snapshot;

/// What all clones of a [`Store`](crate::Store) share.
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

/// The open database and what must be dropped together with it.
struct OpenDatabase {
    /// The snapshot of the last commit, which readers share. `None` before the first read after a
    /// commit. Declared before the database, because it must be dropped first.
    latest: Mutex<Option<Arc<Snapshot>>>,
    database: Database,
}

impl OpenDatabase {
    const fn new(database: Database) -> Self {
        Self {
            latest: Mutex::new(None),
            database,
        }
    }

    fn latest(&self) -> MutexGuard<'_, Option<Arc<Snapshot>>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to write and to open the database again. There is one at a time.
pub(crate) struct WritePermit(Arc<SharedDatabase>);

impl WritePermit {
    /// The monitor for the holder's calls into redb.
    pub(crate) fn monitor(&self) -> &CallMonitor {
        &self.0.monitor
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
    pub(crate) fn new(location: DatabaseLocation, database: Database, options: &StoreOptions) -> Self {
        Self {
            monitor: Arc::new(CallMonitor::new(location.path().to_owned())),
            location,
            options: options.clone(),
            current: RwLock::new(Some(OpenDatabase::new(database))),
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
        *current = Some(OpenDatabase::new(self.location.open(&self.options)?));
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

    /// Begins a read transaction on the open database.
    pub(crate) fn begin_read(&self) -> Result<ReadTransaction, StoreError> {
        self.with_open(|open| self.monitor.run(|| open.database.begin_read()))
    }

    /// Begins a write transaction on the open database.
    pub(crate) fn begin_write(&self, _permit: &WritePermit) -> Result<WriteTransaction, StoreError> {
        self.with_open(|open| self.monitor.run_transaction(|| open.database.begin_write()))
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
            let transaction = self.monitor.run(|| open.database.begin_read())?;
            let snapshot = Arc::new(Snapshot::new(transaction, self.monitor.clone()));
            *latest = Some(Arc::clone(&snapshot));
            Ok(snapshot)
        })
    }
}
