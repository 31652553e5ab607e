//! Opening the file, snapshots for reading, batches for writing.
//!
//! Knows redb and the schema version; knows nothing of what rows mean.

use crate::StoreError;
use crate::later::Later;
use crate::source::{Source, rows};
use crate::tables::{SCHEMA_VERSION, TABLE_COUNT, TableId, meta_key};
use redb::{ReadOnlyTable, ReadableDatabase, ReadableTableMetadata, Table, WriteTransaction};
use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Bytes = &'static [u8];

/// Name of the database file inside a data directory.
pub const FILE_NAME: &str = "chain.redb";

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
#[derive(Clone)]
pub struct Store {
    database: Arc<redb::Database>,
    path: PathBuf,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in `directory`, making directory and file where they lack.
    ///
    /// # Errors
    /// [`StoreError::InUse`] when another process has it, [`StoreError::Schema`] when other
    /// code made it, [`StoreError::Open`] for everything the system or redb refuses.
    pub fn open(directory: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        let path = directory.join(FILE_NAME);
        let failed = |error: redb::Error| match error {
            redb::Error::DatabaseAlreadyOpen => StoreError::InUse { path: path.clone() },
            source => StoreError::Open {
                path: path.clone(),
                source: Box::new(source),
            },
        };
        std::fs::create_dir_all(directory).map_err(|error| failed(redb::Error::Io(error)))?;
        if !path.exists() {
            create_whole(directory, &path)?;
        }
        let database = redb::Builder::new()
            .set_cache_size(options.cache_bytes)
            .open(&path)
            .map_err(|error| failed(error.into()))?;
        let store = Self {
            database: Arc::new(database),
            path: path.clone(),
        };
        store.check_schema()?;
        Ok(store)
    }

    /// A store in memory, for tests and for executing other people's vectors.
    ///
    /// # Errors
    /// Only what redb itself refuses.
    pub fn in_memory() -> Result<Self, StoreError> {
        let path = PathBuf::from("(memory)");
        let database = redb::Builder::new()
            .set_cache_size(CACHE_BYTES_DEFAULT / 8)
            .create_with_backend(redb::backends::InMemoryBackend::new())
            .map_err(|error| StoreError::Open {
                path: path.clone(),
                source: Box::new(error.into()),
            })?;
        let store = Self {
            database: Arc::new(database),
            path,
        };
        store.lay_out()?;
        Ok(store)
    }

    /// Compares the file's schema version with this program's.
    fn check_schema(&self) -> Result<(), StoreError> {
        let stored = match self.database.begin_read()?.open_table(TableId::Meta.definition()) {
            Ok(table) => rows::with(&table, meta_key::SCHEMA, <[u8]>::to_vec)?,
            Err(redb::TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let got = stored
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u32::from_be_bytes);
        if got == SCHEMA_VERSION {
            Ok(())
        } else {
            Err(StoreError::Schema {
                path: self.path.clone(),
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
        &self.path
    }

    /// A view of the last committed state, unmoved by later writes.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the medium fails.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Ok(Snapshot {
            transaction: self.database.begin_read()?,
            tables: Default::default(),
        })
    }

    /// Starts a write transaction; waits while another is open.
    ///
    /// A commit is on the disk when it returns, and a crash needs no walk over the file.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the medium fails.
    pub fn batch(&self) -> Result<Batch, StoreError> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_quick_repair(true);
        Ok(Batch { transaction })
    }
}

/// Makes a database with its tables under another name and then gives it its own, so that a
/// crash at any instant leaves either none or a whole one.
fn create_whole(directory: &Path, path: &Path) -> Result<(), StoreError> {
    let fresh = directory.join(format!("{FILE_NAME}.new"));
    let failed = |error: redb::Error| StoreError::Open {
        path: fresh.clone(),
        source: Box::new(error),
    };
    let io = |error| failed(redb::Error::Io(error));
    // Held until the name is given: of two processes that start at once, one makes the file.
    let guard = std::fs::File::create(directory.join(format!("{FILE_NAME}.lock"))).map_err(io)?;
    match guard.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            return Err(StoreError::InUse {
                path: path.to_owned(),
            });
        }
        Err(std::fs::TryLockError::Error(error)) => return Err(io(error)),
    }
    if path.exists() {
        return Ok(());
    }
    // A process that died here may have left a part.
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&fresh)
        .map_err(io)?;
    let database = redb::Builder::new()
        .create_file(file)
        .map_err(|error| failed(error.into()))?;
    let store = Store {
        database: Arc::new(database),
        path: fresh.clone(),
    };
    store.lay_out()?;
    drop(store);
    std::fs::rename(&fresh, path).map_err(io)?;
    // The name must be on the disk before the first block is.
    std::fs::File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(io)
}

/// A consistent view of one moment. Cheap to make; tables open at first use.
pub struct Snapshot {
    transaction: redb::ReadTransaction,
    tables: [OnceCell<ReadOnlyTable<Bytes, Bytes>>; TABLE_COUNT],
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
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
}

impl Snapshot {
    fn table(&self, table: TableId) -> Result<&ReadOnlyTable<Bytes, Bytes>, StoreError> {
        let cell = &self.tables[table as usize];
        if let Some(open) = cell.get() {
            return Ok(open);
        }
        let open = self.transaction.open_table(table.definition())?;
        Ok(cell.get_or_init(|| open))
    }

    /// Rows and bytes of every table.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the medium fails.
    pub fn stats(&self) -> Result<Vec<TableStats>, StoreError> {
        let one = |table: TableId| {
            let open = self.table(table)?;
            let stored_bytes = open.stats()?.stored_bytes();
            Ok(TableStats {
                name: table.name(),
                rows: open.len()?,
                stored_bytes,
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
        rows::with(self.table(table)?, key, read)
    }

    fn with_last<R>(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        rows::with_last(self.table(table)?, low, high, read)
    }

    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        rows::scan(self.table(table)?, low, visit)
    }
}

/// An open write transaction. Dropped without [`Batch::commit`], it leaves no trace.
pub struct Batch {
    transaction: WriteTransaction,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}

impl Batch {
    /// Runs `work` over the open tables. May be called again before the commit.
    ///
    /// # Errors
    /// Whatever `work` returns, and [`StoreError::Database`] when the medium fails.
    pub fn write<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut Tables<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut tables = Tables::open(&self.transaction)?;
        work(&mut tables)
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

    /// Makes the writes durable and visible, all at once.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the medium fails; then nothing was written.
    pub fn commit(self) -> Result<(), StoreError> {
        Ok(self.transaction.commit()?)
    }

    /// Forgets the writes.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the medium fails.
    pub fn abort(self) -> Result<(), StoreError> {
        Ok(self.transaction.abort()?)
    }
}

/// The tables of an open [`Batch`]: everything a snapshot can read, and writes.
pub struct Tables<'txn> {
    tables: Vec<Table<'txn, Bytes, Bytes>>,
    /// Rows that are written at the end, where they wait at all.
    later: Option<Later>,
}

impl std::fmt::Debug for Tables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

impl<'txn> Tables<'txn> {
    fn open(transaction: &'txn WriteTransaction) -> Result<Self, StoreError> {
        let open = |table: TableId| transaction.open_table(table.definition());
        Ok(Self {
            tables: TableId::ALL.into_iter().map(open).collect::<Result<_, _>>()?,
            later: None,
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
    /// [`StoreError::Database`] when the medium fails.
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if let Some(later) = self.later.as_mut().filter(|_| Later::holds(table)) {
            later.put(table, key, value);
            return Ok(());
        }
        self.tables[table as usize].insert(key, value)?;
        Ok(())
    }

    /// Removes a row; no error where there is none.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the medium fails.
    pub fn delete(&mut self, table: TableId, key: &[u8]) -> Result<(), StoreError> {
        if let Some(later) = &mut self.later {
            later.delete(table, key);
        }
        self.tables[table as usize].remove(key)?;
        Ok(())
    }
}

impl Source for Tables<'_> {
    fn with<R>(
        &self,
        table: TableId,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        match self.later(table).and_then(|later| later.get(table, key)) {
            Some(waiting) => Ok(Some(read(waiting))),
            None => rows::with(&self.tables[table as usize], key, read),
        }
    }

    fn with_last<R>(
        &self,
        table: TableId,
        low: &[u8],
        high: &[u8],
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let stored = &self.tables[table as usize];
        let Some((waiting, newer)) = self.later(table).and_then(|later| later.last(table, low, high)) else {
            return rows::with_last(stored, low, high, read);
        };
        // What is stored counts only where it lies behind.
        let mut read = Some(read);
        let behind = rows::with_last(stored, waiting, high, |key, value| {
            read.take_if(|_| key > waiting).map(|read| read(key, value))
        })?;
        Ok(behind.flatten().or_else(|| read.map(|read| read(waiting, newer))))
    }

    fn scan(
        &self,
        table: TableId,
        low: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let stored = &self.tables[table as usize];
        match self.later(table) {
            Some(later) => later.merge(table, low, |visit| rows::scan(stored, low, visit), visit),
            None => rows::scan(stored, low, visit),
        }
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
    fn a_second_opening_is_refused_and_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let _first = Store::open(directory.path(), &StoreOptions::default()).unwrap();
        let error = Store::open(directory.path(), &StoreOptions::default()).unwrap_err();
        assert!(matches!(error, StoreError::InUse { .. }), "{error}");
        assert!(error.to_string().contains(FILE_NAME));
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
    fn what_a_dead_process_left_half_made_is_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let fresh = directory.path().join(format!("{FILE_NAME}.new"));
        std::fs::write(&fresh, vec![0; 10_000]).unwrap();
        let store = Store::open(directory.path(), &StoreOptions::default()).unwrap();
        assert!(!fresh.exists());
        assert_eq!(store.snapshot().unwrap().stats().unwrap().len(), TABLE_COUNT);
        drop(store);
        let busy = tempfile::tempdir().unwrap();
        let other = std::fs::File::create(busy.path().join(format!("{FILE_NAME}.lock"))).unwrap();
        other.lock().unwrap();
        let error = Store::open(busy.path(), &StoreOptions::default()).unwrap_err();
        assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    }

    #[test]
    fn garbage_in_place_of_the_file_is_an_error_with_its_path() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE_NAME), vec![0x5a; 100_000]).unwrap();
        let error = Store::open(directory.path(), &StoreOptions::default()).unwrap_err();
        assert!(matches!(error, StoreError::Open { .. }), "{error}");
        assert!(error.to_string().contains(FILE_NAME));
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
