//! The open database and its snapshots, over a file that may fail and be opened again.
//!
//! Knows redb and the schema version; knows nothing of what rows mean. How the file is opened
//! and made is in [`crate::open`], what writes in [`crate::batch`].

use crate::StoreError;
use crate::batch::Batch;
use crate::blocks::{BlockReads, HeaderRecord};
use crate::guard::guarded;
use crate::medium::Medium;
use crate::open::{FILE_NAME, Place, make_once};
use crate::source::{Source, rows};
use crate::tables::{SCHEMA_VERSION, TABLE_COUNT, TableId, meta_key};
use primitives::B256;
use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTableMetadata};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

type Bytes = &'static [u8];

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
    /// The snapshot of the last commit, while nobody writes another: readers share it. It goes
    /// before the database it is of.
    latest: Mutex<Option<Arc<Snapshot>>>,
    /// `None` only after it could not be opened again.
    database: RwLock<Option<Database>>,
    /// There is a batch, or the database is being opened again.
    taken: Mutex<bool>,
    free: Condvar,
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
    fn latest(&self) -> MutexGuard<'_, Option<Arc<Snapshot>>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_latest(&self) {
        let latest = self.latest().take();
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
        self.forget_latest();
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = database.take() {
            // What it cannot write any more is not committed, and asked for by nobody.
            let _ = guarded(|| drop(old));
        }
        *database = Some(self.place.open(&self.options)?);
        self.watch.broken.store(false, Ordering::Release);
        Ok(())
    }

    /// Begins a transaction on the database as it is open now.
    fn begin<T, E: Into<redb::Error>>(
        &self,
        begin: impl FnOnce(&Database) -> Result<T, E>,
    ) -> Result<T, StoreError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        match &*database {
            Some(database) => self.watch.run(|| begin(database)),
            None => Err(StoreError::Reopened {
                path: self.watch.path.clone(),
            }),
        }
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
                database: RwLock::new(Some(database)),
                latest: Mutex::new(None),
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
        // Held while a new one begins, so that none from before a commit is kept after it.
        let mut latest = self.shared.latest();
        if let Some(latest) = &*latest {
            return Ok(Arc::clone(latest));
        }
        let snapshot = Arc::new(Snapshot {
            transaction: self.shared.begin(Database::begin_read)?,
            tables: Default::default(),
            head: OnceLock::new(),
            watch: self.shared.watch.clone(),
        });
        *latest = Some(Arc::clone(&snapshot));
        Ok(snapshot)
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

/// A consistent view of one moment. Tables open at first use.
pub struct Snapshot {
    // Tables go before the transaction they are of.
    tables: [OnceLock<ReadOnlyTable<Bytes, Bytes>>; TABLE_COUNT],
    head: OnceLock<Option<Head>>,
    transaction: redb::ReadTransaction,
    watch: Arc<Watch>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

/// The head block.
#[derive(Clone, Debug)]
pub struct Head {
    /// Its hash.
    pub hash: B256,
    /// Header and total difficulty.
    pub record: Arc<HeaderRecord>,
}

/// Size of one table.
#[derive(Clone, Debug)]
pub struct TableStats {
    /// The table's name.
    pub name: &'static str,
    /// How many rows it has.
    pub rows: u64,
    /// Bytes of keys and values.
    pub stored_bytes: u64,
    /// Bytes of the pages that they lie on.
    pub page_bytes: u64,
}

impl Snapshot {
    fn table(&self, table: TableId) -> Result<&ReadOnlyTable<Bytes, Bytes>, StoreError> {
        let cell = &self.tables[table as usize];
        if let Some(open) = cell.get() {
            return Ok(open);
        }
        let open = self
            .watch
            .run(|| self.transaction.open_table(table.definition()))?;
        Ok(cell.get_or_init(|| open))
    }

    /// The head block; `None` in a store without blocks. Read once.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails or the head's header is missing.
    pub fn head_block(&self) -> Result<Option<Head>, StoreError> {
        if let Some(head) = self.head.get() {
            return Ok(head.clone());
        }
        let head = match self.head()? {
            None => None,
            Some((number, hash)) => {
                let record = self.header(number, &hash)?;
                let missing =
                    || StoreError::corrupt(TableId::Meta, meta_key::HEAD, "no header of the head block");
                let record = Arc::new(record.ok_or_else(missing)?);
                Some(Head { hash, record })
            }
        };
        Ok(self.head.get_or_init(|| head).clone())
    }

    /// Rows and bytes of every table.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn stats(&self) -> Result<Vec<TableStats>, StoreError> {
        let one = |table: TableId| {
            let open = self.table(table)?;
            let figures = || Ok::<_, redb::Error>((open.len()?, open.stats()?));
            let (rows, stats) = self.watch.run(figures)?;
            let stored_bytes = stats.stored_bytes();
            Ok(TableStats {
                name: table.name(),
                rows,
                stored_bytes,
                page_bytes: stored_bytes + stats.metadata_bytes() + stats.fragmented_bytes(),
            })
        };
        TableId::ALL.into_iter().map(one).collect()
    }
}

impl Source for Snapshot {
    fn with<R>(
        &self,
        table: TableId,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        rows::with(&self.watch, self.table(table)?, key, read)
    }

    fn with_last<R>(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        rows::with_last(&self.watch, self.table(table)?, low, high, read)
    }

    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        rows::scan(&self.watch, self.table(table)?, low, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
