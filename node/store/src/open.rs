//! Opening and making the database file: what is at its path, whether it is whole, whose it is.
//!
//! A database is made under another name and then gets its own, so that a crash at any instant
//! leaves none or a whole one. Where one was and is no more, none is made in its place. Knows
//! the file and what lies beside it; knows no rows.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::StoreError;
use crate::guard::guarded;
use crate::medium::{FileMedium, Medium, sync_name};
use crate::pages::{NotPages, Pages};
use crate::store::StoreOptions;

/// Name of the database file inside a data directory.
pub const FILE_NAME: &str = "chain.redb";

/// What the file beside the database says once there is one.
const MADE: &[u8] = b"a database was made here\n";

/// Where a database lies.
#[derive(Debug)]
pub(crate) enum Place {
    /// In a file.
    File(PathBuf),
    /// On something that its owner gave.
    Given(Arc<dyn Medium>),
    /// In memory, and nowhere else.
    Memory,
}

impl Place {
    /// The path for messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Given(_) => Path::new("(medium)"),
            Self::Memory => Path::new("(memory)"),
        }
    }

    /// Opens the database here; it must be there.
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
        let pages = Pages::open(medium).map_err(|error| not_pages(path, error))?;
        start(pages, options, path)
    }

    /// Begins a database on a medium that is empty.
    pub(crate) fn create(
        medium: Arc<dyn Medium>,
        options: &StoreOptions,
        path: &Path,
    ) -> Result<redb::Database, StoreError> {
        let pages = Pages::create(medium).map_err(|source| StoreError::medium(path, source))?;
        start(pages, options, path)
    }
}

/// Gives a backend to redb, which looks into it and may find that it cannot go on.
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
        Err(fall) => Err(StoreError::fallen(path, fall)),
    }
}

fn open_file(path: &Path) -> Result<FileMedium, StoreError> {
    let other = |found: &str| StoreError::Other {
        path: path.to_owned(),
        found: found.to_owned(),
    };
    let metadata = std::fs::metadata(path).map_err(|source| StoreError::medium(path, source))?;
    if metadata.is_dir() {
        return Err(other("a directory"));
    }
    if !metadata.is_file() {
        return Err(other("no ordinary file"));
    }
    let file = FileMedium::open(path).map_err(|source| StoreError::medium(path, source))?;
    file.ok_or_else(|| StoreError::InUse {
        path: path.to_owned(),
    })
}

fn not_pages(path: &Path, error: NotPages) -> StoreError {
    let path = path.to_owned();
    match error {
        NotPages::Other(found) => StoreError::Other { path, found },
        NotPages::Plain => StoreError::Schema {
            path,
            got: 1,
            expected: crate::SCHEMA_VERSION,
        },
        NotPages::Cut { got, expected } => StoreError::Cut { path, got, expected },
        NotPages::Io(source) => StoreError::medium(&path, source),
    }
}

/// Makes the database of `directory` where there is none. `lay_out` makes its tables; it is
/// called once, on a database that has another name yet.
pub(crate) fn make_once(
    directory: &Path,
    options: &StoreOptions,
    lay_out: impl FnOnce(PathBuf, redb::Database) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let path = directory.join(FILE_NAME);
    let fresh = directory.join(format!("{FILE_NAME}.new"));
    let beside = directory.join(format!("{FILE_NAME}.lock"));
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| StoreError::medium(&path, source)
    };
    if !there(&path) {
        // Held until the name is given: of two processes that start at once, one makes the file.
        let guard = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&beside)
            .map_err(failed(&beside))?;
        match guard.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse { path }),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(failed(&beside)(error)),
        }
        if !there(&path) {
            if says_made(&guard).map_err(failed(&beside))? {
                return Err(StoreError::Gone { path, beside });
            }
            // A process that died here may have left a part.
            let medium = FileMedium::create(&fresh).map_err(failed(&fresh))?;
            let medium = medium.ok_or_else(|| StoreError::InUse { path: fresh.clone() })?;
            let database = Place::create(Arc::new(medium), options, &fresh)?;
            lay_out(fresh.clone(), database)?;
            std::fs::rename(&fresh, &path).map_err(failed(&path))?;
            // The name must be on the disk before the first block is.
            sync_name(&path).map_err(failed(directory))?;
        }
    }
    // A process that died right after the naming did not come to say so. Where it cannot be said
    // now, on a full disk, it is said at another opening; the database is as good without.
    let _ = say_made(&beside);
    Ok(())
}

/// Whether something has this name, a file or not.
fn there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn says_made(mut beside: &File) -> io::Result<bool> {
    let mut text = Vec::new();
    beside.read_to_end(&mut text)?;
    Ok(!text.is_empty())
}

fn say_made(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|beside| beside.len() > 0) {
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

    /// What is at the path is refused with all of `words`, and left as it is.
    fn check_refused(directory: &Path, words: &[&str]) {
        let path = directory.join(FILE_NAME);
        let before = std::fs::read(&path).ok();
        let error = open(directory).unwrap_err().to_string();
        for word in words.iter().chain([&FILE_NAME]) {
            assert!(error.contains(word), "{word} in {error}");
        }
        assert!(!error.contains('\n'), "{error}");
        assert!(std::fs::read(&path).ok() == before, "it was changed");
    }

    #[test]
    fn a_second_opening_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let first = open(directory.path()).unwrap();
        let error = open(directory.path()).unwrap_err();
        assert!(matches!(error, StoreError::InUse { .. }), "{error}");
        assert!(error.to_string().contains(FILE_NAME));
        // An old view keeps nobody away.
        let view = first.snapshot().unwrap();
        drop(first);
        open(directory.path()).unwrap();
        drop(view);
    }

    #[test]
    fn what_a_dead_process_left_half_made_is_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let fresh = directory.path().join(format!("{FILE_NAME}.new"));
        std::fs::write(&fresh, vec![0; 10_000]).unwrap();
        // It had come to hold the file beside the database, which was empty yet.
        std::fs::write(directory.path().join(format!("{FILE_NAME}.lock")), b"").unwrap();
        let store = open(directory.path()).unwrap();
        assert!(!fresh.exists());
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
    fn what_is_no_database_is_told_and_left_alone() {
        let check = |bytes: &[u8], words: &[&str]| {
            let directory = tempfile::tempdir().unwrap();
            std::fs::write(directory.path().join(FILE_NAME), bytes).unwrap();
            check_refused(directory.path(), words);
        };
        check(b"", &["the file is empty", "import"]);
        check(&[0x5a; 100_000], &["begins with 5a5a5a5a", "import"]);
        check(b"redb\x1a\x0a and so on", &["schema version 1"]);
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(FILE_NAME)).unwrap();
        check_refused(directory.path(), &["a directory"]);
    }

    #[test]
    fn a_cut_file_is_told_at_every_length() {
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
    fn where_a_database_was_no_other_is_made() {
        let directory = tempfile::tempdir().unwrap();
        drop(open(directory.path()).unwrap());
        std::fs::remove_file(directory.path().join(FILE_NAME)).unwrap();
        check_refused(directory.path(), &["is gone", "chain.redb.lock"]);
        assert!(!directory.path().join(FILE_NAME).exists());
        // As the message says.
        std::fs::remove_file(directory.path().join(format!("{FILE_NAME}.lock"))).unwrap();
        open(directory.path()).unwrap();
    }
}
