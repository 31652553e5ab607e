//! Opening and making the database file.
//!
//! A new database is made under the name `chain.redb.new` and renamed when it is complete. So a
//! crash at any moment leaves no database or a complete one. The lock file `chain.redb.lock` says
//! whether a database was ever made in this directory. If the database is gone then, no new one is
//! made in its place. Knows these three files; knows no rows.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::StoreError;
use crate::guard::guarded;
use crate::medium::{FileMedium, Medium, sync_name};
use crate::pages::{ChecksummedPages, PageFileError};

/// Memory for cached pages unless the options say otherwise: 256 MiB.
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

/// Name of the database file inside a data directory.
pub const FILE_NAME: &str = "chain.redb";

/// Content of the lock file once a database was made.
const MADE: &[u8] = b"a database was made here\n";

/// Where a database is stored.
#[derive(Debug)]
pub(crate) enum DatabaseLocation {
    /// In a file.
    File(PathBuf),
    /// On a medium of the caller's.
    Given(Arc<dyn Medium>),
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

    /// Opens the existing database. In memory: makes a new one.
    pub(crate) fn open(&self, options: &StoreOptions) -> Result<redb::Database, StoreError> {
        let path = self.path();
        let medium: Arc<dyn Medium> = match self {
            Self::File(path) => Arc::new(open_file(path)?),
            Self::Given(medium) => medium.clone(),
            Self::Memory => {
                let backend = redb::backends::InMemoryBackend::new();
                return start(backend, options, path);
            }
        };
        let pages = ChecksummedPages::open(medium).map_err(|error| page_file_error(path, error))?;
        start(pages, options, path)
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
    let temporary = directory.join(format!("{FILE_NAME}.new"));
    let lock_file = directory.join(format!("{FILE_NAME}.lock"));
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
            if was_made(&lock).map_err(failed(&lock_file))? {
                return Err(StoreError::Missing { path, lock_file });
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
    let _ = note_made(&lock_file);
    Ok(())
}

/// Whether there is something at `path`, a file or not.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Whether the lock file says that a database was made.
fn was_made(mut lock_file: &File) -> io::Result<bool> {
    let mut text = Vec::new();
    lock_file.read_to_end(&mut text)?;
    Ok(!text.is_empty())
}

/// Writes into the lock file that a database was made.
fn note_made(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|lock_file| lock_file.len() > 0) {
        return Ok(());
    }
    let mut file = File::options().create(true).append(true).open(path)?;
    file.write_all(MADE)?;
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
        // The error message tells the operator to remove the lock file.
        std::fs::remove_file(directory.path().join(format!("{FILE_NAME}.lock"))).unwrap();
        open(directory.path()).unwrap();
    }
}
