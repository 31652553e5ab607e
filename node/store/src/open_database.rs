//! The open database and its write-ahead log: how a batch becomes durable and visible.
//!
//! Most batches are appended to the log, then committed by redb in memory. A checkpoint is a
//! durable commit of redb, after which the log begins anew. A batch is committed as a checkpoint
//!
//! - if there is no space for the log to grow;
//! - if the log has no room for it. This holds for most batches of an import of many blocks, whose
//!   rows then are not written twice;
//! - if redb has written many changed pages to the file, because they no longer fit into its cache.
//!   After a crash the same pages must fit again.
//!
//! The close of the store is a checkpoint, too. A checkpoint also writes which pages are free
//! (redb's quick repair), so that an opening after a crash takes no time.
//!
//! Every batch writes a row with its sequence ([`LOG_POSITION`]). So whatever redb makes durable,
//! the database tells which records of the log it has. An opening applies the others in one
//! transaction, which redb commits in memory.
//!
//! Knows redb and the log; knows nothing of permits and of opening again after a failure.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{Database, Durability, ReadTransaction, ReadableDatabase, WriteTransaction};

use crate::StoreError;
use crate::ancient::indexed_end;
use crate::blocks_file::{AncientBatch, AncientFile, RECORDS_START};
use crate::monitor::CallMonitor;
use crate::open::{DatabaseLocation, StoreOptions};
use crate::snapshot::{Snapshot, existing};
use crate::source::rows;
use crate::tables::{LOG_POSITION, SCHEMA_VERSION, TableId, meta_key};
use crate::wal::{LogPosition, NewRecord, RowChanges, WriteAheadLog, row_changes};
use crate::write_tables::Tables;

/// Memory for pages if the records of the log must be applied while there is no space: redb may
/// keep half of it as changed pages. It takes this memory only if it needs it.
const CACHE_BYTES_WITHOUT_SPACE: usize = 1 << 30;

/// An open database with its log.
pub(crate) struct OpenDatabase {
    /// The snapshot of the last commit, which readers share. `None` before the first read after a
    /// commit. Declared before the database, because it must be dropped first.
    pub(crate) latest: Mutex<Option<Arc<Snapshot>>>,
    /// `None` in memory, and while a new database is made.
    log: Option<Mutex<WriteAheadLog>>,
    /// Bytes of records that the log may have.
    log_bytes: usize,
    /// Bytes of pages that redb has written to the file since it was opened.
    written: Arc<AtomicU64>,
    /// `written` at the last checkpoint.
    written_at_checkpoint: AtomicU64,
    /// A checkpoint is due when redb has written more than this since the last one.
    written_max: u64,
    /// The file with the old blocks.
    ancient: Arc<AncientFile>,
    is_in_memory: bool,
    database: Database,
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        self.ancient.close();
    }
}

impl OpenDatabase {
    /// A database without a log: every commit is a durable one of redb. Its old blocks are in
    /// memory, so nothing may be moved unless the database is in memory, too.
    pub(crate) fn without_log(database: Database, location: &DatabaseLocation) -> Self {
        Self {
            is_in_memory: matches!(location, DatabaseLocation::Memory),
            latest: Mutex::new(None),
            log: None,
            log_bytes: 0,
            written: Arc::default(),
            written_at_checkpoint: AtomicU64::new(0),
            written_max: 0,
            ancient: Arc::new(AncientFile::in_memory()),
            database,
        }
    }

    /// Opens an existing database and its log, and applies the records that the database lacks.
    ///
    /// # Errors
    /// [`StoreError`] when one of the two cannot be opened, or when they do not fit to each other
    /// or to this program.
    pub(crate) fn open(
        location: &DatabaseLocation,
        options: &StoreOptions,
        monitor: &CallMonitor,
    ) -> Result<Self, StoreError> {
        match Self::try_open(location, options, monitor) {
            // Without space, the pages that the records change must stay in memory.
            Err(error) if error.wants_space() => {
                let cache_bytes = options.cache_bytes.max(CACHE_BYTES_WITHOUT_SPACE);
                let roomy = StoreOptions {
                    cache_bytes,
                    ..options.clone()
                };
                Self::try_open(location, &roomy, monitor)
            }
            opened => opened,
        }
    }

    fn try_open(
        location: &DatabaseLocation,
        options: &StoreOptions,
        monitor: &CallMonitor,
    ) -> Result<Self, StoreError> {
        let (database, written) = location.open(options)?;
        check_schema(&database, options, monitor)?;
        let position = read_position(&database, monitor)?;
        let Some((log, records)) = location.open_log(position)? else {
            let mut open = Self::without_log(database, location);
            open.ancient = Arc::new(AncientFile::in_memory().beside(&options.archive));
            return Ok(open);
        };
        let mut open = Self::without_log(database, location);
        open.log = Some(Mutex::new(log));
        open.log_bytes = options.log_bytes;
        open.written = written;
        // Half of the cache is what redb uses for changed pages.
        open.written_max = options.cache_bytes as u64 / 2;
        if !records.is_empty() {
            open.replay(monitor, &records)
                .map_err(StoreError::while_opening)?;
        }
        let end = open.ancient_end(monitor).map_err(StoreError::while_opening)?;
        let ancient = location.open_ancient(position.database, end)?;
        open.ancient = Arc::new(ancient.beside(&options.archive));
        Ok(open)
    }

    /// The end of the records of old blocks that the database names.
    fn ancient_end(&self, monitor: &CallMonitor) -> Result<u64, StoreError> {
        // A file without the table is damaged. Its old blocks must not be taken for leftovers.
        let table = monitor.run(|| {
            let transaction = self.database.begin_read()?;
            let table = transaction.open_table(TableId::NumberToAncient.definition())?;
            Ok::<_, redb::Error>(table)
        })?;
        let mut end = Ok(RECORDS_START);
        rows::visit_last(monitor, &table, &[], &[0xff; 9], &mut |key, row| {
            end = indexed_end(key, row);
        })?;
        end
    }

    /// The file with the old blocks.
    pub(crate) const fn ancient(&self) -> &Arc<AncientFile> {
        &self.ancient
    }

    /// The shared snapshot of the last commit.
    pub(crate) fn latest(&self) -> MutexGuard<'_, Option<Arc<Snapshot>>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin_read(&self, monitor: &CallMonitor) -> Result<ReadTransaction, StoreError> {
        monitor.run(|| self.database.begin_read())
    }

    pub(crate) fn begin_write(&self, monitor: &CallMonitor) -> Result<WriteTransaction, StoreError> {
        monitor.run_transaction(|| self.database.begin_write())
    }

    /// Commits a batch: `changes` are the rows that it wrote and removed.
    ///
    /// # Errors
    /// [`StoreError`] when the commit fails. Whether the batch counts shows when the database was
    /// opened again.
    pub(crate) fn commit(
        &self,
        monitor: &CallMonitor,
        transaction: WriteTransaction,
        changes: RowChanges,
    ) -> Result<(), StoreError> {
        let Some(mut log) = self.log() else {
            // Which pages are free is written for the next opening. Memory has none.
            return if self.is_in_memory {
                monitor.run_transaction(|| transaction.commit())
            } else {
                commit_durably(monitor, transaction)
            };
        };
        if changes.is_empty() {
            return monitor.run_transaction(|| transaction.abort());
        }
        let position = log.next_position();
        let written = write_position(monitor, &transaction, position);
        let is_logged = written.and_then(|()| {
            if !log.has_room(&changes, self.log_bytes) || self.is_checkpoint_due() {
                return Ok(false);
            }
            match log.append(changes) {
                Ok(()) => Ok(true),
                // The database may have free pages. Whatever is in the log, its record is that of
                // this batch, so it does not count once the database has the batch.
                Err(error) if error.wants_space() => Ok(false),
                // The log must be opened again.
                Err(error) => {
                    monitor.set_broken(true);
                    Err(error)
                }
            }
        });
        match is_logged {
            Ok(true) => commit_in_memory(monitor, transaction),
            Ok(false) => {
                commit_durably(monitor, transaction)?;
                self.end_checkpoint(monitor, &mut log, position.sequence)
            }
            Err(error) => {
                // The error is told already. Nobody sees what was not committed.
                let _ = monitor.run_transaction(|| transaction.abort());
                Err(error)
            }
        }
    }

    /// Makes the database have everything that the log has.
    ///
    /// # Errors
    /// [`StoreError`] when the database or the log fails. Nothing is lost then.
    pub(crate) fn checkpoint(&self, monitor: &CallMonitor) -> Result<(), StoreError> {
        let Some(mut log) = self.log().filter(|log| !log.is_empty()) else {
            return Ok(());
        };
        commit_durably(monitor, self.begin_write(monitor)?)?;
        let sequence = log.sequence();
        self.end_checkpoint(monitor, &mut log, sequence)
    }

    /// The position of the database in its log.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    pub(crate) fn position(&self, monitor: &CallMonitor) -> Result<LogPosition, StoreError> {
        read_position(&self.database, monitor)
    }

    /// Moves the pages of a database without a log to the front of the file, and makes the file
    /// shorter. A power failure meanwhile can leave a file that cannot be opened: redb writes
    /// moved pages and the page that names them with one sync, and goes back to the commit before
    /// if some are missing, but [`crate::pages`] takes a page that is missing for damage.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub(crate) fn trim(mut self, monitor: &CallMonitor) -> Result<(), StoreError> {
        monitor.run_transaction(|| self.database.compact())?;
        // Writes which pages are free, so that the next opening reads no whole file.
        commit_durably(monitor, self.begin_write(monitor)?)
    }

    fn end_checkpoint(
        &self,
        monitor: &CallMonitor,
        log: &mut WriteAheadLog,
        sequence: u64,
    ) -> Result<(), StoreError> {
        let written = self.written.load(Ordering::Acquire);
        self.written_at_checkpoint.store(written, Ordering::Release);
        log.begin_anew(sequence).inspect_err(|_| monitor.set_broken(true))
    }

    fn log(&self) -> Option<MutexGuard<'_, WriteAheadLog>> {
        let log = self.log.as_ref()?;
        Some(log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_checkpoint_due(&self) -> bool {
        let written = self.written.load(Ordering::Acquire);
        written - self.written_at_checkpoint.load(Ordering::Acquire) > self.written_max
    }

    /// Applies records of the log that the database lacks.
    fn replay(&self, monitor: &CallMonitor, records: &[NewRecord]) -> Result<(), StoreError> {
        let Some(log) = self.log() else { return Ok(()) };
        let transaction = self.begin_write(monitor)?;
        let applied = apply(monitor, &transaction, &log, records).and_then(|()| {
            let position = LogPosition {
                sequence: log.sequence(),
                ..log.next_position()
            };
            write_position(monitor, &transaction, position)
        });
        match applied {
            Ok(()) => commit_in_memory(monitor, transaction),
            Err(error) => {
                let _ = monitor.run_transaction(|| transaction.abort());
                Err(error)
            }
        }
    }
}

/// Writes and removes the rows that the records name, in order.
fn apply(
    monitor: &CallMonitor,
    transaction: &WriteTransaction,
    log: &WriteAheadLog,
    records: &[NewRecord],
) -> Result<(), StoreError> {
    let (failed, unlogged) = (Cell::new(false), RefCell::new(RowChanges::none()));
    // Rows only: what the records name in the file of old blocks is there.
    let no_file = AncientBatch::new(Arc::new(AncientFile::in_memory()));
    let mut tables = Tables::new(transaction, &unlogged, &no_file, monitor, &failed);
    for record in records {
        let bytes = log.read_changes(record)?;
        for change in row_changes(&bytes) {
            let change = change.map_err(|what| log.damaged_record(record, &what))?;
            match change.value {
                Some(value) => tables.put(change.table, change.key, value)?,
                None => tables.delete(change.table, change.key)?,
            }
        }
    }
    Ok(())
}

/// Commits so that the file has everything, this transaction and all before it.
pub(crate) fn commit_durably(
    monitor: &CallMonitor,
    mut transaction: WriteTransaction,
) -> Result<(), StoreError> {
    transaction.set_quick_repair(true);
    monitor.run_transaction(|| transaction.commit())
}

/// Commits so that readers see it. The file gets it at the next checkpoint.
fn commit_in_memory(monitor: &CallMonitor, mut transaction: WriteTransaction) -> Result<(), StoreError> {
    monitor.run_transaction(|| {
        transaction.set_durability(Durability::None)?;
        transaction.commit().map_err(redb::Error::from)
    })
}

/// The database's position in its log.
pub(crate) fn read_position(database: &Database, monitor: &CallMonitor) -> Result<LogPosition, StoreError> {
    let read = || -> Result<_, redb::Error> {
        let table = database.begin_read()?.open_table(LOG_POSITION)?;
        let row = table.get(())?.map(|row| row.value());
        Ok(row.map(|(database, sequence)| LogPosition { database, sequence }))
    };
    monitor.run(read)?.ok_or_else(|| StoreError::DamagedAtOpening {
        path: monitor.path.clone(),
        what: "the row with its position in the write-ahead log is missing".to_owned(),
    })
}

/// Writes the row with the position.
pub(crate) fn write_position(
    monitor: &CallMonitor,
    transaction: &WriteTransaction,
    position: LogPosition,
) -> Result<(), StoreError> {
    let write = || -> Result<(), redb::Error> {
        let mut table = transaction.open_table(LOG_POSITION)?;
        table.insert((), (position.database, position.sequence))?;
        Ok(())
    };
    monitor.run(write)
}

/// The file's schema version, and whether its tries are to be built. A file without a version has
/// version 0.
pub(crate) fn read_schema(database: &Database, monitor: &CallMonitor) -> Result<(u32, bool), StoreError> {
    let transaction = monitor.run(|| database.begin_read())?;
    let open = || existing(transaction.open_table(TableId::Meta.definition()));
    let (mut got, mut without_tries) = (0, false);
    if let Some(table) = monitor.run(open)? {
        rows::visit(monitor, &table, meta_key::SCHEMA, &mut |row| {
            got = row.try_into().map_or(0, u32::from_be_bytes);
        })?;
        rows::visit(monitor, &table, meta_key::WITHOUT_TRIES, &mut |_| {
            without_tries = true;
        })?;
    }
    Ok((got, without_tries))
}

/// Compares the file's schema version with this program's.
fn check_schema(
    database: &Database,
    options: &StoreOptions,
    monitor: &CallMonitor,
) -> Result<(), StoreError> {
    let path = || monitor.path.clone();
    match read_schema(database, monitor)? {
        (SCHEMA_VERSION, without_tries) if !without_tries || options.without_tries => Ok(()),
        (SCHEMA_VERSION, _) => Err(StoreError::WithoutTries { path: path() }),
        (got, _) => Err(StoreError::Schema {
            path: path(),
            got,
            expected: SCHEMA_VERSION,
        }),
    }
}
