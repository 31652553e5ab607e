//! The store: opens the database file, hands out snapshots and write batches.
//!
//! Knows the schema version; knows nothing of what rows mean. How the file is opened and made is
//! in [`crate::open`], how it is opened again after a failure in [`crate::database`], reading in
//! [`crate::snapshot`], writing in [`crate::batch`].

use std::path::Path;
use std::sync::Arc;

use redb::Database;

use crate::StoreError;
use crate::batch::WriteBatch;
use crate::database::SharedDatabase;
use crate::medium::StoreMedia;
use crate::open::{CACHE_BYTES_DEFAULT, DatabaseLocation, FILE_NAME, StoreOptions, make_once};
use crate::snapshot::Snapshot;
use crate::tables::{SCHEMA_VERSION, TableId, meta_key};
use crate::wal::LogPosition;

/// The open database file. Clones share it.
///
/// After a failed read or write of the file, redb refuses everything until the file is closed and
/// opened again. After a commit that failed for another reason, it refuses every later write. In
/// both cases the next snapshot or batch opens the file again. So reads go on, and a write can be
/// tried again.
#[derive(Clone)]
pub struct Store {
    pub(crate) shared: Arc<SharedDatabase>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("location", &self.shared.location)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in `directory`. Makes the directory and the file if they do not exist.
    ///
    /// # Errors
    /// - [`StoreError::InUse`] when another process has the file open;
    /// - [`StoreError::Schema`] when the file has another schema version;
    /// - [`StoreError::NotADatabase`], [`StoreError::Truncated`] or [`StoreError::Missing`] when
    ///   the file is something else, is incomplete, or existed and is gone;
    /// - other errors when the operating system refuses something.
    ///
    /// Existing files are left unchanged in all these cases.
    pub fn open(directory: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        std::fs::create_dir_all(directory).map_err(|source| StoreError::medium(directory, source))?;
        make_once(directory, options, |path, database| {
            Self::without_log(DatabaseLocation::File(path), database, options).make_tables()
        })?;
        Self::open_at(DatabaseLocation::File(directory.join(FILE_NAME)), options)
    }

    /// Opens the store whose files are on `media`. Makes a new one if the medium of the database is
    /// empty.
    ///
    /// # Errors
    /// As for [`Store::open`].
    pub fn on_media(media: &StoreMedia, options: &StoreOptions) -> Result<Self, StoreError> {
        let location = || DatabaseLocation::Given(media.clone());
        let failed = |source| StoreError::medium(location().path(), source);
        if media.database.is_empty().map_err(failed)? {
            let made = DatabaseLocation::create(media.database.clone(), options, location().path())?;
            Self::without_log(location(), made, options).make_tables()?;
        }
        Self::open_at(location(), options)
    }

    /// A new store in memory, for tests and for executing test vectors.
    ///
    /// # Errors
    /// Only what redb itself refuses.
    pub fn in_memory() -> Result<Self, StoreError> {
        let options = StoreOptions {
            cache_bytes: CACHE_BYTES_DEFAULT / 8,
            ..StoreOptions::default()
        };
        let (database, _) = DatabaseLocation::Memory.open(&options)?;
        let store = Self::without_log(DatabaseLocation::Memory, database, &options);
        store.make_tables()?;
        Ok(store)
    }

    pub(crate) fn open_at(location: DatabaseLocation, options: &StoreOptions) -> Result<Self, StoreError> {
        Ok(Self {
            shared: Arc::new(SharedDatabase::open(location, options)?),
        })
    }

    pub(crate) fn without_log(
        location: DatabaseLocation,
        database: Database,
        options: &StoreOptions,
    ) -> Self {
        Self {
            shared: Arc::new(SharedDatabase::without_log(location, database, options)),
        }
    }

    /// Makes every table, and writes the schema version and the database's id.
    fn make_tables(&self) -> Result<(), StoreError> {
        let batch = self.batch()?;
        batch.write_position(LogPosition::begin())?;
        batch.write(|tables| {
            tables.make_all()?;
            tables.put(TableId::Meta, meta_key::SCHEMA, &SCHEMA_VERSION.to_be_bytes())
        })?;
        batch.commit()
    }

    /// Path of the database file. A store without a file has a name in parentheses.
    pub fn path(&self) -> &Path {
        self.shared.location.path()
    }

    /// A read-only view of the last commit. Later writes do not change it. All callers get the
    /// same snapshot until the next commit.
    ///
    /// After a failure this call may close the file and open it again. Then snapshots that were
    /// made before give [`StoreError::Closed`] or read what they have in memory.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read or opened again.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, StoreError> {
        if self.shared.monitor.is_broken()
            && let Some(permit) = self.shared.try_permit()
        {
            self.shared.reopen_if_broken(&permit)?;
        }
        self.shared.snapshot()
    }

    /// Starts a write transaction. Waits while another one is open.
    ///
    /// Its commit is on the disk when it returns: in the database or in the write-ahead log. After
    /// a failure this call closes the files and opens them again.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be used or opened again.
    pub fn batch(&self) -> Result<WriteBatch, StoreError> {
        let permit = self.shared.wait_for_permit();
        self.shared.reopen_if_broken(&permit)?;
        let (transaction, ancient) = self.shared.begin_write(&permit)?;
        Ok(WriteBatch::new(transaction, ancient, permit))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    fn a_table_that_an_older_file_lacks_is_empty() {
        let directory = tempfile::tempdir().unwrap();
        let options = StoreOptions::default();
        drop(Store::open(directory.path(), &options).unwrap());
        let store = Store::open(directory.path(), &options).unwrap();
        let batch = store.batch().unwrap();
        batch.remove_table(TableId::DeadStorage);
        batch.commit().unwrap();
        drop(store);
        let view = Store::open(directory.path(), &options)
            .unwrap()
            .snapshot()
            .unwrap();
        assert_eq!(view.get(TableId::DeadStorage, b"key").unwrap(), None);
        let stats = view.stats().unwrap();
        assert_eq!(stats[TableId::DeadStorage as usize].rows, 0);
        let mut visited = 0;
        view.scan(TableId::DeadStorage, &[], |_, _| {
            visited += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(visited, 0);
    }

    #[test]
    fn last_row_in_a_range() {
        let store = Store::in_memory().unwrap();
        let batch = store.batch().unwrap();
        batch
            .write(|tables| {
                tables.put(TableId::Account, b"a1", b"x")?;
                tables.put(TableId::Account, b"a5", b"y")?;
                tables.put(TableId::Account, b"b1", b"z")
            })
            .unwrap();
        batch.commit().unwrap();
        let snapshot = store.snapshot().unwrap();
        let last = |low: &[u8], high: &[u8]| {
            snapshot
                .with_last(TableId::Account, low, high, |_, value| value.to_vec())
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
        // The cache is too small for the rows, so reading them goes to the file.
        let options = StoreOptions {
            cache_bytes: 64 << 10,
            ..StoreOptions::default()
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
        let (requests, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            // Asks for snapshots without a pause, so also while the database is closed and opened
            // again.
            scope.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    let _ = store.snapshot();
                    requests.fetch_add(1, Ordering::AcqRel);
                }
            });
            let good = (0..ROUNDS).filter(|_| {
                let before = requests.load(Ordering::Acquire);
                while requests.load(Ordering::Acquire) < before + 2 {
                    std::hint::spin_loop();
                }
                // Held until the end of the round, as a batch holds it.
                let permit = store.shared.wait_for_permit();
                store.shared.monitor.set_broken(true);
                store.shared.reopen_if_broken(&permit).unwrap();
                let rows = store.snapshot().and_then(|view| read_all(&view));
                rows.is_ok_and(|rows| rows == ROWS)
            });
            let good = good.count();
            stop.store(true, Ordering::Release);
            assert_eq!(good, ROUNDS);
        });
    }
}
