//! The open database, over a file that may fail and be opened again.
//!
//! Knows redb and the schema version; knows nothing of what rows mean. How the file is opened
//! and made is in [`crate::open`], what reads in [`crate::snapshot`], what writes in
//! [`crate::batch`].

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use redb::{Database, ReadableDatabase};

use crate::StoreError;
use crate::batch::Batch;
use crate::guard::guarded;
use crate::medium::Medium;
use crate::open::{FILE_NAME, Place, make_once};
use crate::snapshot::Snapshot;
use crate::source::rows;
use crate::tables::{SCHEMA_VERSION, TableId, meta_key};

/// Memory for cached pages unless told otherwise: 256 MiB.
pub const CACHE_BYTES_DEFAULT: usize = 256 << 20;

/// How to open a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Memory for cached pages, in bytes.
    pub cache_bytes: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            cache_bytes: CACHE_BYTES_DEFAULT,
        }
    }
}

/// The open database file. Clones share it.
///
/// After a failure of the medium redb refuses everything until it is closed and opened again;
/// the next snapshot or batch does that, so that reads go on and writes can be tried again.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("place", &self.shared.place)
            .finish_non_exhaustive()
    }
}

/// Looks at every call into the database; snapshots have it too, and keep no file open by it.
pub(crate) struct Watch {
    pub(crate) path: PathBuf,
    /// The database refuses everything until it is opened again.
    broken: AtomicBool,
}

impl Watch {
    /// Calls into the database: its panics, damaged pages and errors become ours.
    pub(crate) fn run<T, E: Into<redb::Error>>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, StoreError> {
        match guarded(work) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.failed(error.into())),
            Err(fall) => Err(StoreError::fallen(&self.path, fall)),
        }
    }

    #[cold]
    fn failed(&self, error: redb::Error) -> StoreError {
        use redb::Error::{Io, LockPoisoned, PreviousIo};
        if matches!(error, Io(_) | PreviousIo | LockPoisoned(_)) {
            self.broken.store(true, Ordering::Release);
        }
        StoreError::database(&self.path, error)
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }
}

/// What the clones of a store share.
struct Shared {
    watch: Arc<Watch>,
    place: Place,
    options: StoreOptions,
    /// `None` only after it could not be opened again.
    open: RwLock<Option<Open>>,
    /// There is a batch, or the database is being opened again.
    taken: Mutex<bool>,
    free: Condvar,
}

/// The open database with what is of it alone, so that they go together.
struct Open {
    /// The snapshot of the last commit, while nobody writes another: readers share it. It goes
    /// before the database.
    latest: Mutex<Option<Arc<Snapshot>>>,
    database: Database,
}

impl Open {
    fn new(database: Database) -> Self {
        Self {
            latest: Mutex::new(None),
            database,
        }
    }

    fn latest(&self) -> MutexGuard<'_, Option<Arc<Snapshot>>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to write, and to open the database again. One at a time.
pub(crate) struct Turn(Arc<Shared>);

impl Turn {
    /// What looks at the calls of whoever has the turn.
    pub(crate) fn watch(&self) -> &Watch {
        &self.0.watch
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Whoever had the turn may have committed; a snapshot kept longer would hold pages back.
        self.0.forget_latest();
        *self.0.taken() = false;
        self.0.free.notify_one();
    }
}

impl Shared {
    fn forget_latest(&self) {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let latest = open.as_ref().and_then(|open| open.latest().take());
        drop(open);
        // Ending it takes locks of the database's, and may be its last user's business.
        let _ = guarded(|| drop(latest));
    }

    fn taken(&self) -> MutexGuard<'_, bool> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn.
    fn turn(self: &Arc<Self>) -> Turn {
        let mut taken = self.taken();
        while *taken {
            taken = self.free.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken = true;
        Turn(self.clone())
    }

    /// The turn, where it is free.
    fn free_turn(self: &Arc<Self>) -> Option<Turn> {
        let mut taken = self.taken();
        (!std::mem::replace(&mut *taken, true)).then(|| Turn(self.clone()))
    }

    /// Opens the database again where that is called for. Whoever holds the turn has no batch.
    fn heal(&self, _turn: &Turn) -> Result<(), StoreError> {
        if !self.watch.is_broken() || matches!(self.place, Place::Memory) {
            return Ok(());
        }
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = open.take() {
            // What it cannot write any more is not committed, and asked for by nobody.
            let _ = guarded(|| drop(old));
        }
        *open = Some(Open::new(self.place.open(&self.options)?));
        self.watch.broken.store(false, Ordering::Release);
        Ok(())
    }

    /// Does something with the database as it is open now; it stays open meanwhile.
    fn with_open<T>(&self, work: impl FnOnce(&Open) -> Result<T, StoreError>) -> Result<T, StoreError> {
        match &*self.open.read().unwrap_or_else(PoisonError::into_inner) {
            Some(open) => work(open),
            None => Err(StoreError::Reopened {
                path: self.watch.path.clone(),
            }),
        }
    }

    /// Begins a transaction on the database as it is open now.
    fn begin<T, E: Into<redb::Error>>(
        &self,
        begin: impl FnOnce(&Database) -> Result<T, E>,
    ) -> Result<T, StoreError> {
        self.with_open(|open| self.watch.run(|| begin(&open.database)))
    }
}

impl Store {
    /// Opens the store in `directory`, making directory and file where they lack.
    ///
    /// # Errors
    /// [`StoreError::InUse`] when another process has it, [`StoreError::Schema`] when other
    /// code made it, others for what is no database, or not all of one, and for everything the
    /// system refuses. Nothing that is there is changed then.
    pub fn open(directory: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        std::fs::create_dir_all(directory).map_err(|source| StoreError::medium(directory, source))?;
        make_once(directory, options, |path, database| {
            Self::over(Place::File(path), database, options).lay_out()
        })?;
        Self::open_place(Place::File(directory.join(FILE_NAME)), options)
    }

    /// A store on a medium of the caller's, made where the medium is empty.
    ///
    /// # Errors
    /// As for [`Store::open`].
    pub fn on_medium(medium: Arc<dyn Medium>, options: &StoreOptions) -> Result<Self, StoreError> {
        let place = Place::Given(medium.clone());
        let failed = |source| StoreError::medium(place.path(), source);
        if medium.is_empty().map_err(failed)? {
            let database = Place::create(medium, options, place.path())?;
            let store = Self::over(place, database, options);
            store.lay_out()?;
            return Ok(store);
        }
        Self::open_place(place, options)
    }

    /// A store in memory, for tests and for executing other people's vectors.
    ///
    /// # Errors
    /// Only what redb itself refuses.
    pub fn in_memory() -> Result<Self, StoreError> {
        let options = StoreOptions {
            cache_bytes: CACHE_BYTES_DEFAULT / 8,
        };
        let database = Place::Memory.open(&options)?;
        let store = Self::over(Place::Memory, database, &options);
        store.lay_out()?;
        Ok(store)
    }

    fn open_place(place: Place, options: &StoreOptions) -> Result<Self, StoreError> {
        let database = place.open(options)?;
        let store = Self::over(place, database, options);
        store.check_schema()?;
        Ok(store)
    }

    fn over(place: Place, database: Database, options: &StoreOptions) -> Self {
        Self {
            shared: Arc::new(Shared {
                watch: Arc::new(Watch {
                    path: place.path().to_owned(),
                    broken: AtomicBool::new(false),
                }),
                place,
                options: options.clone(),
                open: RwLock::new(Some(Open::new(database))),
                taken: Mutex::new(false),
                free: Condvar::new(),
            }),
        }
    }

    /// Compares the file's schema version with this program's.
    fn check_schema(&self) -> Result<(), StoreError> {
        let watch = &*self.shared.watch;
        let transaction = self.shared.begin(Database::begin_read)?;
        let open = || match transaction.open_table(TableId::Meta.definition()) {
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            other => other.map(Some),
        };
        let stored = match watch.run(open)? {
            Some(table) => rows::with(watch, &table, meta_key::SCHEMA, <[u8]>::to_vec)?,
            None => None,
        };
        let got = stored
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u32::from_be_bytes);
        if got == SCHEMA_VERSION {
            Ok(())
        } else {
            Err(StoreError::Schema {
                path: self.path().to_owned(),
                got,
                expected: SCHEMA_VERSION,
            })
        }
    }

    /// Makes every table and notes the schema version.
    fn lay_out(&self) -> Result<(), StoreError> {
        let batch = self.batch()?;
        batch.write(|tables| tables.put(TableId::Meta, meta_key::SCHEMA, &SCHEMA_VERSION.to_be_bytes()))?;
        batch.commit()
    }

    /// Where the file lies.
    pub fn path(&self) -> &Path {
        self.shared.place.path()
    }

    /// A view of the last committed state, unmoved by later writes. Until the next commit all
    /// who ask get the same one.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, StoreError> {
        if self.shared.watch.is_broken()
            && let Some(turn) = self.shared.free_turn()
        {
            self.shared.heal(&turn)?;
        }
        self.shared.with_open(|open| {
            // Held while a new one begins, so that none from before a commit is kept after it.
            let mut latest = open.latest();
            if let Some(latest) = &*latest {
                return Ok(Arc::clone(latest));
            }
            let transaction = self.shared.watch.run(|| open.database.begin_read())?;
            let snapshot = Arc::new(Snapshot::new(transaction, self.shared.watch.clone()));
            *latest = Some(Arc::clone(&snapshot));
            Ok(snapshot)
        })
    }

    /// Starts a write transaction; waits while another is open.
    ///
    /// A commit is on the disk when it returns, and a crash needs no walk over the file.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn batch(&self) -> Result<Batch, StoreError> {
        let turn = self.shared.turn();
        self.shared.heal(&turn)?;
        let mut transaction = self.shared.begin(Database::begin_write)?;
        transaction.set_quick_repair(true);
        Ok(Batch::new(transaction, turn))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::source::Source;

    #[test]
    fn a_batch_is_seen_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path(), &StoreOptions::default()).unwrap();
        let before = store.snapshot().unwrap();
        let batch = store.batch().unwrap();
        batch
            .write(|tables| tables.put(TableId::HashToCode, b"k", b"v"))
            .unwrap();
        assert_eq!(
            store.snapshot().unwrap().get(TableId::HashToCode, b"k").unwrap(),
            None
        );
        batch.commit().unwrap();
        assert_eq!(
            store
                .snapshot()
                .unwrap()
                .get(TableId::HashToCode, b"k")
                .unwrap()
                .unwrap(),
            b"v"
        );
        assert_eq!(before.get(TableId::HashToCode, b"k").unwrap(), None);
        let batch = store.batch().unwrap();
        batch
            .write(|tables| tables.delete(TableId::HashToCode, b"k"))
            .unwrap();
        drop(batch);
        assert_eq!(
            store
                .snapshot()
                .unwrap()
                .get(TableId::HashToCode, b"k")
                .unwrap()
                .unwrap(),
            b"v"
        );
    }

    #[test]
    fn another_schema_version_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path(), &StoreOptions::default()).unwrap();
        let batch = store.batch().unwrap();
        let newer = (SCHEMA_VERSION + 1).to_be_bytes();
        batch
            .write(|tables| tables.put(TableId::Meta, meta_key::SCHEMA, &newer))
            .unwrap();
        batch.commit().unwrap();
        drop(store);
        let error = Store::open(directory.path(), &StoreOptions::default()).unwrap_err();
        assert!(
            matches!(error, StoreError::Schema { got, .. } if got == SCHEMA_VERSION + 1),
            "{error}"
        );
    }

    #[test]
    fn last_row_in_a_range() {
        let store = Store::in_memory().unwrap();
        let batch = store.batch().unwrap();
        batch
            .write(|tables| {
                tables.put(TableId::AccountAtBlock, b"a1", b"x")?;
                tables.put(TableId::AccountAtBlock, b"a5", b"y")?;
                tables.put(TableId::AccountAtBlock, b"b1", b"z")
            })
            .unwrap();
        batch.commit().unwrap();
        let snapshot = store.snapshot().unwrap();
        let last = |low: &[u8], high: &[u8]| {
            snapshot
                .with_last(TableId::AccountAtBlock, low, high, |_, value| value.to_vec())
                .unwrap()
        };
        assert_eq!(last(b"a0", b"a9").unwrap(), b"y");
        assert_eq!(last(b"a0", b"a4").unwrap(), b"x");
        assert_eq!(last(b"a6", b"a9"), None);
    }

    #[test]
    fn readers_get_no_snapshot_of_a_database_that_was_closed() {
        const ROUNDS: usize = 40;
        const ROWS: u32 = 100;
        let directory = tempfile::tempdir().unwrap();
        // Of the rows hardly any stay in memory: reading them asks the file.
        let options = StoreOptions {
            cache_bytes: 64 << 10,
        };
        let store = Store::open(directory.path(), &options).unwrap();
        let batch = store.batch().unwrap();
        let fill = |tables: &mut crate::Tables<'_>| {
            (0..ROWS).try_for_each(|row| tables.put(TableId::HashToCode, &row.to_be_bytes(), &[7; 10_000]))
        };
        batch.write(fill).unwrap();
        batch.commit().unwrap();
        let read_all = |view: &Snapshot| {
            let mut rows = 0;
            view.scan(TableId::HashToCode, &[], |_, _| {
                rows += 1;
                ControlFlow::Continue(())
            })
            .map(|()| rows)
        };
        let (asked, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            // Asks all the time, so also between the steps of opening the database again.
            scope.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    let _ = store.snapshot();
                    asked.fetch_add(1, Ordering::AcqRel);
                }
            });
            let good = (0..ROUNDS).filter(|_| {
                let before = asked.load(Ordering::Acquire);
                while asked.load(Ordering::Acquire) < before + 2 {
                    std::hint::spin_loop();
                }
                // As a batch has it, which keeps it until its end.
                let turn = store.shared.turn();
                store.shared.watch.broken.store(true, Ordering::Release);
                store.shared.heal(&turn).unwrap();
                let rows = store.snapshot().and_then(|view| read_all(&view));
                rows.is_ok_and(|rows| rows == ROWS)
            });
            let good = good.count();
            stop.store(true, Ordering::Release);
            assert_eq!(good, ROUNDS);
        });
    }
}
