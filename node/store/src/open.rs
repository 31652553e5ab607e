//! Opening and making the files of a store.
//!
//! A new database is made under the name `chain.redb.new` and renamed when it is complete. So a
//! crash at any moment leaves no database or a complete one. The same holds for its write-ahead log
//! `chain.redb.wal`. The lock file `chain.redb.lock` says whether a database and a log were ever
//! made in this directory. If one of them is gone then, no new one is made in its place. Knows
//! these files; knows no rows.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::StoreError;
use crate::archive::ArchiveSlot;
use crate::blocks_file::{AncientFile, RECORDS_START};
use crate::guard::guarded;
use crate::medium::{FileMedium, Medium, StoreMedia, sync_name};
use crate::pages::{ChecksummedPages, PageFileError};
use crate::wal::{LogPosition, NewRecord, WriteAheadLog};

/// Memory for cached pages unless the options say otherwise: 256 MiB.
pub const CACHE_BYTES_DEFAULT: usize = 256 << 20;

/// The settings of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Memory for cached pages, in bytes.
    pub cache_bytes: usize,
    /// Bytes that the write-ahead log may have before a checkpoint is made: the longer, the fewer
    /// bytes a commit writes, and the longer an opening after a crash takes.
    pub log_bytes: usize,
    /// Opens also a file whose rows were rewritten and whose tries are to be built:
    /// [`Store::upgrade`](crate::Store::upgrade).
    pub without_tries: bool,
    /// The place of an archive that keeps old blocks in place of the store.
    pub archive: ArchiveSlot,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            cache_bytes: CACHE_BYTES_DEFAULT,
            log_bytes: LOG_BYTES_DEFAULT,
            without_tries: false,
            archive: ArchiveSlot::default(),
        }
    }
}

/// Bytes of the write-ahead log unless the options say otherwise: 16 MiB.
pub const LOG_BYTES_DEFAULT: usize = 16 << 20;

/// Name of the database file inside a data directory.
pub const FILE_NAME: &str = "chain.redb";

/// Name of the write-ahead log inside a data directory. It belongs to the database file: a copy of
/// a data directory needs both.
pub const LOG_FILE_NAME: &str = "chain.redb.wal";

/// Name of the file with old blocks inside a data directory. It belongs to the database file: a
/// copy of a data directory needs both.
pub const BLOCKS_FILE_NAME: &str = "chain.blocks";

/// Line of the lock file once a database was made.
const DATABASE_MADE: &str = "a database was made here\n";
/// Line of the lock file once a write-ahead log was made.
const LOG_MADE: &str = "a write-ahead log was made here\n";
/// Line of the lock file once a file for old blocks was made.
const BLOCKS_MADE: &str = "a blocks file was made here\n";

/// The medium of a database.
#[derive(Debug)]
pub(crate) enum DatabaseLocation {
    /// In a file.
    File(PathBuf),
    /// On media of the caller's.
    Given(StoreMedia),
    /// In memory only.
    Memory,
}

impl DatabaseLocation {
    /// The path for error messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Given(_) => Path::new("(medium)"),
            Self::Memory => Path::new("(memory)"),
        }
    }

    /// Opens the existing database. In memory: makes a new one. Returns it with the counter of the
    /// bytes of pages that it writes.
    pub(crate) fn open(
        &self,
        options: &StoreOptions,
    ) -> Result<(redb::Database, Arc<AtomicU64>), StoreError> {
        let path = self.path();
        let medium: Arc<dyn Medium> = match self {
            Self::File(path) => {
                let file = open_file(path)?;
                check_log_is_there(path)?;
                // Nobody else is making a file: the database is locked.
                let _ = std::fs::remove_file(new_file_of(path));
                Arc::new(file)
            }
            Self::Given(media) => media.database.clone(),
            Self::Memory => {
                let backend = redb::backends::InMemoryBackend::new();
                return Ok((start(backend, options, path)?, Arc::default()));
            }
        };
        Self::open_medium(medium, options, path)
    }

    /// Opens the existing database on a medium, which `path` names in errors. As [`Self::open`].
    pub(crate) fn open_medium(
        medium: Arc<dyn Medium>,
        options: &StoreOptions,
        path: &Path,
    ) -> Result<(redb::Database, Arc<AtomicU64>), StoreError> {
        let pages = ChecksummedPages::open(medium).map_err(|error| page_file_error(path, error))?;
        let written = pages.written_bytes();
        Ok((start(pages, options, path)?, written))
    }

    /// Opens the write-ahead log of the database that is at `position`, and makes one if there
    /// never was any. Returns it with the records that the database lacks. There must be a database
    /// that is locked: the log has no lock of its own. `None` in memory.
    ///
    /// # Errors
    /// The errors of [`WriteAheadLog::open`] and [`WriteAheadLog::create`].
    pub(crate) fn open_log(
        &self,
        position: LogPosition,
    ) -> Result<Option<(WriteAheadLog, Vec<NewRecord>)>, StoreError> {
        let opened = match self {
            Self::File(path) => {
                let log = path.with_file_name(LOG_FILE_NAME);
                open_log_file(log, &lock_file_of(path), position)?
            }
            Self::Given(StoreMedia { log, .. }) => {
                let path = PathBuf::from("(medium) of the write-ahead log");
                let failed = |source| StoreError::medium(&path, source);
                if log.is_empty().map_err(failed)? {
                    (WriteAheadLog::create(log.clone(), path, position)?, Vec::new())
                } else {
                    WriteAheadLog::open(log.clone(), path, position)?
                }
            }
            Self::Memory => return Ok(None),
        };
        Ok(Some(opened))
    }

    /// Opens the file with the old blocks of the database with the id `database`, and makes one if
    /// there never was any. `end` is where its records end by the index.
    ///
    /// # Errors
    /// [`StoreError::MissingBlocks`] if there was a file before, and those of
    /// [`AncientFile::open`].
    pub(crate) fn open_ancient(&self, database: u64, end: u64) -> Result<AncientFile, StoreError> {
        match self {
            Self::File(path) => open_blocks_file(path, database, end),
            Self::Given(media) => {
                let path = PathBuf::from("(medium) of old blocks");
                AncientFile::open(media.blocks.clone(), path, database, end)
            }
            Self::Memory => Ok(AncientFile::in_memory()),
        }
    }

    /// Makes a new database on an empty medium.
    pub(crate) fn create(
        medium: Arc<dyn Medium>,
        options: &StoreOptions,
        path: &Path,
    ) -> Result<redb::Database, StoreError> {
        let pages = ChecksummedPages::create(medium).map_err(|source| StoreError::medium(path, source))?;
        start(pages, options, path)
    }
}

/// Starts redb on `backend`. redb reads the backend and may find it damaged.
fn start(
    backend: impl redb::StorageBackend,
    options: &StoreOptions,
    path: &Path,
) -> Result<redb::Database, StoreError> {
    let open = || {
        redb::Builder::new()
            .set_cache_size(options.cache_bytes)
            .create_with_backend(backend)
    };
    match guarded(open) {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(error)) => Err(StoreError::opening(path, error.into())),
        Err(failure) => Err(StoreError::opening_failed(path, failure)),
    }
}

fn open_file(path: &Path) -> Result<FileMedium, StoreError> {
    let other = |found: &str| StoreError::NotADatabase {
        path: path.to_owned(),
        found: found.to_owned(),
    };
    let metadata = std::fs::metadata(path).map_err(|source| StoreError::medium(path, source))?;
    if metadata.is_dir() {
        return Err(other("a directory"));
    }
    if !metadata.is_file() {
        return Err(other("not a regular file"));
    }
    let file = FileMedium::open(path).map_err(|source| StoreError::medium(path, source))?;
    file.ok_or_else(|| StoreError::InUse {
        path: path.to_owned(),
    })
}

fn page_file_error(path: &Path, error: PageFileError) -> StoreError {
    let path = path.to_owned();
    match error {
        PageFileError::NotADatabase(found) => StoreError::NotADatabase { path, found },
        PageFileError::WithoutChecksums => StoreError::Schema {
            path,
            got: 1,
            expected: crate::SCHEMA_VERSION,
        },
        PageFileError::Truncated { got, expected } => StoreError::Truncated { path, got, expected },
        PageFileError::Io(source) => StoreError::medium(&path, source),
    }
}

/// Refuses a database whose log is gone although there was one.
fn check_log_is_there(database: &Path) -> Result<(), StoreError> {
    let (path, lock_file) = (database.with_file_name(LOG_FILE_NAME), lock_file_of(database));
    if was_made(&lock_file, LOG_MADE)? && !exists(&path) {
        return Err(StoreError::MissingLog { path, lock_file });
    }
    Ok(())
}

/// Opens the log at `path`, or makes it.
fn open_log_file(
    path: PathBuf,
    lock_file: &Path,
    position: LogPosition,
) -> Result<(WriteAheadLog, Vec<NewRecord>), StoreError> {
    let failed = |source| StoreError::medium(&path, source);
    let opened = if exists(&path) {
        let medium = FileMedium::open_unlocked(&path).map_err(failed)?;
        WriteAheadLog::open(Arc::new(medium), path.clone(), position)?
    } else {
        let temporary = path.with_extension("wal.new");
        let medium = FileMedium::create_unlocked(&temporary)
            .map_err(|source| StoreError::medium(&temporary, source))?;
        let log = WriteAheadLog::create(Arc::new(medium), path.clone(), position)?;
        std::fs::rename(&temporary, &path)
            .and_then(|()| sync_name(&path))
            .map_err(failed)?;
        (log, Vec::new())
    };
    // As for the database: if writing fails, the next opening does it.
    let _ = note(lock_file, LOG_MADE);
    Ok(opened)
}

/// Opens the blocks file of the database at `path`, or makes it.
fn open_blocks_file(database_path: &Path, database: u64, end: u64) -> Result<AncientFile, StoreError> {
    let path = database_path.with_file_name(BLOCKS_FILE_NAME);
    let lock_file = lock_file_of(database_path);
    let failed = |source| StoreError::medium(&path, source);
    let opened = if exists(&path) {
        let medium = FileMedium::open_unlocked(&path).map_err(failed)?;
        AncientFile::open(Arc::new(medium), path.clone(), database, end)?
    } else {
        if end > RECORDS_START || was_made(&lock_file, BLOCKS_MADE)? {
            return Err(StoreError::MissingBlocks { path });
        }
        let temporary = path.with_extension("blocks.new");
        let medium = FileMedium::create_unlocked(&temporary)
            .map_err(|source| StoreError::medium(&temporary, source))?;
        let file = AncientFile::open(Arc::new(medium), path.clone(), database, end)?;
        std::fs::rename(&temporary, &path)
            .and_then(|()| sync_name(&path))
            .map_err(failed)?;
        file
    };
    // As for the database: if writing fails, the next opening does it.
    let _ = note(&lock_file, BLOCKS_MADE);
    Ok(opened)
}

/// Whether the lock file has this line. There may be no lock file.
fn was_made(lock_file: &Path, line: &str) -> Result<bool, StoreError> {
    let found = match File::open(lock_file) {
        Ok(file) => has_line(&file, line),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    };
    found.map_err(|source| StoreError::medium(lock_file, source))
}

/// The lock file of the database at `path`.
fn lock_file_of(path: &Path) -> PathBuf {
    path.with_file_name(format!("{FILE_NAME}.lock"))
}

/// The name of the database at `path` until it is complete.
pub(crate) fn new_file_of(path: &Path) -> PathBuf {
    path.with_file_name(format!("{FILE_NAME}.new"))
}

/// Makes the database of `directory` if there is none.
///
/// `make_tables` is called with the path and the database while the file still has its temporary
/// name.
///
/// # Errors
/// [`StoreError::Missing`] if there was a database before; [`StoreError::InUse`] if another process
/// is making one; otherwise those of the operating system.
pub(crate) fn make_once(
    directory: &Path,
    options: &StoreOptions,
    make_tables: impl FnOnce(PathBuf, redb::Database) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let path = directory.join(FILE_NAME);
    let temporary = new_file_of(&path);
    let lock_file = lock_file_of(&path);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| StoreError::medium(&path, source)
    };
    if !exists(&path) {
        // Locked until the file has its name: of two processes that start at once, one makes it.
        let lock = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_file)
            .map_err(failed(&lock_file))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse { path }),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(failed(&lock_file)(error)),
        }
        if !exists(&path) {
            if has_line(&lock, DATABASE_MADE).map_err(failed(&lock_file))? {
                let beside = [
                    lock_file,
                    directory.join(LOG_FILE_NAME),
                    directory.join(BLOCKS_FILE_NAME),
                ];
                return Err(StoreError::Missing {
                    path,
                    beside: Box::new(beside),
                });
            }
            // A process that died here may have left an incomplete file. It is overwritten.
            let medium = FileMedium::create(&temporary).map_err(failed(&temporary))?;
            let medium = medium.ok_or_else(|| StoreError::InUse {
                path: temporary.clone(),
            })?;
            let database = DatabaseLocation::create(Arc::new(medium), options, &temporary)?;
            make_tables(temporary.clone(), database)?;
            std::fs::rename(&temporary, &path).map_err(failed(&path))?;
            // The name must be on the disk before the first block is written.
            sync_name(&path).map_err(failed(directory))?;
        }
    }
    // Also done when the file exists: a process may have died between the rename and this line.
    // If writing fails, for example on a full disk, the next opening does it. The database works
    // without it.
    let _ = note(&lock_file, DATABASE_MADE);
    Ok(())
}

/// Whether there is something at `path`, a file or not.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Whether the lock file, which is read from its start, has this line.
fn has_line(mut lock_file: &File, line: &str) -> io::Result<bool> {
    let mut text = Vec::new();
    lock_file.read_to_end(&mut text)?;
    Ok(text.windows(line.len()).any(|window| window == line.as_bytes()))
}

/// Adds this line to the lock file if it is not there.
fn note(lock_file: &Path, line: &str) -> io::Result<()> {
    let mut options = File::options();
    let mut file = options.read(true).append(true).create(true).open(lock_file)?;
    if has_line(&file, line)? {
        return Ok(());
    }
    file.write_all(line.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Store, TableId};

    fn open(directory: &Path) -> Result<Store, StoreError> {
        Store::open(directory, &StoreOptions::default())
    }

    /// Opening fails with an error that contains all of `words`, and the file is not changed.
    fn check_refused(directory: &Path, words: &[&str]) {
        let path = directory.join(FILE_NAME);
        let before = std::fs::read(&path).ok();
        let error = open(directory).unwrap_err().to_string();
        for word in words.iter().chain([&FILE_NAME]) {
            assert!(error.contains(word), "{word} in {error}");
        }
        assert!(!error.contains('\n'), "{error}");
        assert!(std::fs::read(&path).ok() == before, "the file was changed");
    }

    #[test]
    fn a_second_opening_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let first = open(directory.path()).unwrap();
        let error = open(directory.path()).unwrap_err();
        assert!(matches!(error, StoreError::InUse { .. }), "{error}");
        assert!(error.to_string().contains(FILE_NAME));
        // A snapshot that is still alive does not keep the file locked.
        let snapshot = first.snapshot().unwrap();
        drop(first);
        open(directory.path()).unwrap();
        drop(snapshot);
    }

    #[test]
    fn an_incomplete_file_of_a_dead_process_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let temporary = directory.path().join(format!("{FILE_NAME}.new"));
        std::fs::write(&temporary, vec![0; 10_000]).unwrap();
        // The dead process had created the lock file, which was still empty.
        std::fs::write(directory.path().join(format!("{FILE_NAME}.lock")), b"").unwrap();
        let store = open(directory.path()).unwrap();
        assert!(!temporary.exists());
        assert_eq!(
            store.snapshot().unwrap().stats().unwrap().len(),
            TableId::ALL.len()
        );
        let busy = tempfile::tempdir().unwrap();
        let other = File::create(busy.path().join(format!("{FILE_NAME}.lock"))).unwrap();
        other.lock().unwrap();
        let error = open(busy.path()).unwrap_err();
        assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    }

    #[test]
    fn other_files_are_refused_and_not_changed() {
        let check = |bytes: &[u8], words: &[&str]| {
            let directory = tempfile::tempdir().unwrap();
            std::fs::write(directory.path().join(FILE_NAME), bytes).unwrap();
            check_refused(directory.path(), words);
        };
        check(b"", &["the file is empty", "import"]);
        check(&[0x5a; 100_000], &["begins with 5a5a5a5a", "import"]);
        check(b"redb\x1a\x0a and so on", &["schema version: got 1"]);
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(FILE_NAME)).unwrap();
        check_refused(directory.path(), &["a directory"]);
    }

    #[test]
    fn a_truncated_file_is_refused_at_every_length() {
        let directory = tempfile::tempdir().unwrap();
        drop(open(directory.path()).unwrap());
        let path = directory.path().join(FILE_NAME);
        let whole = std::fs::read(&path).unwrap();
        let length = whole.len();
        let lengths = [
            1,
            15,
            16,
            4095,
            4096,
            12_288,
            16_384,
            20_000,
            length / 2,
            length - 4096,
            length - 1,
        ];
        for cut in lengths {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let words = if cut < 16 { "begins with" } else { "bytes" };
            check_refused(directory.path(), &[words, "import"]);
        }
        std::fs::write(&path, &whole).unwrap();
        open(directory.path()).unwrap();
    }

    #[test]
    fn a_lost_database_is_not_replaced_by_a_new_one() {
        let directory = tempfile::tempdir().unwrap();
        drop(open(directory.path()).unwrap());
        std::fs::remove_file(directory.path().join(FILE_NAME)).unwrap();
        check_refused(directory.path(), &["is gone", "chain.redb.lock"]);
        assert!(!directory.path().join(FILE_NAME).exists());
        // The error message tells the operator to remove the lock file and the files beside.
        std::fs::remove_file(directory.path().join(format!("{FILE_NAME}.lock"))).unwrap();
        let error = open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("log of another database"), "{error}");
        std::fs::remove_file(directory.path().join(LOG_FILE_NAME)).unwrap();
        let error = open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("belongs to another database"), "{error}");
        std::fs::remove_file(directory.path().join(BLOCKS_FILE_NAME)).unwrap();
        open(directory.path()).unwrap();
    }

    #[test]
    fn a_lost_log_is_not_replaced_by_a_new_one() {
        let directory = tempfile::tempdir().unwrap();
        drop(open(directory.path()).unwrap());
        let log = directory.path().join(LOG_FILE_NAME);
        std::fs::remove_file(&log).unwrap();
        check_refused(directory.path(), &["is gone", LOG_FILE_NAME, "chain.redb.lock"]);
        assert!(!log.exists());
        // The error message tells the operator to remove the lock file.
        std::fs::remove_file(directory.path().join(format!("{FILE_NAME}.lock"))).unwrap();
        open(directory.path()).unwrap();
        assert!(log.exists());
    }
}
