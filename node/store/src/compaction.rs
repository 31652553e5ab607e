//! Makes the file of a database shorter: its rows are copied into a new file, which replaces it.
//!
//! The database must not be open. The new file is filled in the order of the keys, so its pages are
//! full and in order. It is trimmed, read again, compared and synced. Only then it is renamed to
//! the name of the old one. So a death of the process or a power failure at any moment leaves the
//! old file or the new one, and each of them has all rows and fits to the write-ahead log and the
//! file of old blocks, which stay as they are. What a dead process left of a new file goes when the
//! database is opened.
//!
//! Knows files and the position in the log; knows nothing of what rows mean.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::medium::{FileMedium, Medium, StoreMedia, free_bytes, sync_name};
use crate::monitor::CallMonitor;
use crate::open::{DatabaseLocation, FILE_NAME, StoreOptions, new_file_of};
use crate::open_database::OpenDatabase;
use crate::row_copy::{COPY_CACHE_BYTES, CopyError, CopyObserver, RowCopy};
use crate::wal::LogPosition;
use crate::{Snapshot, Store, StoreError};

/// Free space that a copy may take beside its rows, in bytes: which pages are free, and pages that
/// one batch has replaced.
const SPARE_BYTES: u64 = 16 << 20;

/// The reason why a file did not get shorter. The database is as before then, unless
/// [`Self::Rename`] says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    /// Reading or writing failed, or the observer ended it.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The file system has too little space for the new file.
    #[error("{}: a file without unused space needs {needed} bytes of free space beside the old one: got {got}; nothing was changed", path.display())]
    NoSpace {
        /// The database file.
        path: PathBuf,
        /// Free bytes of the file system.
        got: u64,
        /// Free bytes that the new file needs.
        needed: u64,
    },
    /// The new file has other rows than the old one.
    #[error("{}: got other rows than were written; the old file was not changed: look at the memory and the disk of this machine", path.display())]
    Different {
        /// The new file.
        path: PathBuf,
    },
    /// The new file could not take the place of the old one.
    #[error("cannot rename {}: {source}; {} is the old file or the new one, and each has everything", new.display(), path.display())]
    Rename {
        /// The new file.
        new: PathBuf,
        /// The database file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

impl From<StoreError> for CompactionError {
    fn from(error: StoreError) -> Self {
        Self::Copy(error.into())
    }
}

impl Store {
    /// Gives the unused space of the database in `directory` back to the file system. The database
    /// must not be open. Calls `observe` now and then; if it breaks, nothing changes.
    ///
    /// # Errors
    /// [`CompactionError`], with the errors of [`Store::open`] and [`StoreError::Medium`] if there
    /// is no database.
    pub fn compact(
        directory: &Path,
        options: &StoreOptions,
        observe: &mut CopyObserver<'_>,
    ) -> Result<(), CompactionError> {
        let path = directory.join(FILE_NAME);
        // Locked until the end.
        let old = Self::open_at(DatabaseLocation::File(path.clone()), options)?;
        let free = free_bytes(directory).map_err(|source| StoreError::medium(directory, source))?;
        check_space(&path, free, &*old.snapshot()?)?;
        let new = new_file_of(&path);
        let failed = |source| StoreError::medium(&new, source);
        let medium = FileMedium::create_unlocked(&new).map_err(failed)?;
        let copied = old.copy_to(Arc::new(medium), &new, observe);
        let renamed = copied.and_then(|()| {
            let rename = std::fs::rename(&new, &path).and_then(|()| sync_name(&path));
            rename.map_err(|source| CompactionError::Rename {
                new: new.clone(),
                path: path.clone(),
                source,
            })
        });
        if renamed.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        renamed
    }

    /// Copies the database that is on `media` to the empty medium `new`, without unused space. When
    /// this returns, `new` can take the place of the database's medium.
    ///
    /// # Errors
    /// [`CompactionError`]. Then `new` is of no use, and `media` have everything.
    pub fn compact_media(
        media: &StoreMedia,
        new: Arc<dyn Medium>,
        options: &StoreOptions,
    ) -> Result<(), CompactionError> {
        let old = Self::open_at(DatabaseLocation::Given(media.clone()), options)?;
        let go_on = &mut |_| std::ops::ControlFlow::Continue(());
        old.copy_to(new, Path::new("(medium) of the new database"), go_on)
    }

    /// Writes a copy of this database to an empty medium, which `path` names in errors.
    fn copy_to(
        &self,
        medium: Arc<dyn Medium>,
        path: &Path,
        observe: &mut CopyObserver<'_>,
    ) -> Result<(), CompactionError> {
        // Taken until the end, so that nobody commits.
        let permit = self.shared.wait_for_permit();
        let position = self.shared.checkpoint(&permit)?;
        let view = self.snapshot()?;
        let copy = NewDatabase { medium, path };
        let mut rows = RowCopy::new(&view, observe)?;
        rows.done.rows_total *= 2;
        copy.fill(&mut rows, position)?;
        let monitor = CallMonitor::new(path.to_owned());
        OpenDatabase::without_log(copy.open()?, &copy.location()).trim(&monitor)?;
        // Opened again, so that pages come from the medium.
        let written = copy.store(copy.open()?);
        if !rows.is_equal(&*written.snapshot()?)? {
            return Err(CompactionError::Different {
                path: path.to_owned(),
            });
        }
        // Closing writes, too.
        drop(written);
        let synced = copy.medium.sync();
        Ok(synced.map_err(|source| StoreError::medium(path, source))?)
    }
}

/// The copy while it is made.
struct NewDatabase<'a> {
    medium: Arc<dyn Medium>,
    path: &'a Path,
}

impl NewDatabase<'_> {
    fn options() -> StoreOptions {
        StoreOptions {
            cache_bytes: COPY_CACHE_BYTES,
            // Batches keep no record of what they write.
            log_bytes: 0,
            ..StoreOptions::default()
        }
    }

    fn location(&self) -> DatabaseLocation {
        DatabaseLocation::File(self.path.to_owned())
    }

    fn store(&self, database: redb::Database) -> Store {
        Store::without_log(self.location(), database, &Self::options())
    }

    fn open(&self) -> Result<redb::Database, StoreError> {
        let opened = DatabaseLocation::open_medium(self.medium.clone(), &Self::options(), self.path)?;
        Ok(opened.0)
    }

    /// Makes the database, and writes all rows.
    fn fill(&self, rows: &mut RowCopy<'_>, position: LogPosition) -> Result<(), CopyError> {
        let made = DatabaseLocation::create(self.medium.clone(), &Self::options(), self.path)?;
        let store = self.store(made);
        let batch = store.batch()?;
        batch.write_position(position)?;
        batch.write(|tables| tables.make_all())?;
        batch.commit()?;
        rows.write(&store, false)
    }
}

/// Compares the free bytes of the file system with what a copy of `view`, which is of the database
/// at `path`, needs.
fn check_space(path: &Path, free: u64, view: &Snapshot) -> Result<(), CompactionError> {
    // The tables are not measured if they cannot be too long.
    let file = std::fs::metadata(path).map_err(|source| StoreError::medium(path, source))?;
    if free >= file.len().saturating_add(SPARE_BYTES) {
        return Ok(());
    }
    let pages: u64 = view.stats()?.iter().map(|table| table.page_bytes).sum();
    let needed = pages.saturating_add(SPARE_BYTES);
    if free >= needed {
        return Ok(());
    }
    Err(CompactionError::NoSpace {
        path: path.to_owned(),
        got: free,
        needed,
    })
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::{Source, TableId};

    const ROWS: u32 = 4000;

    fn write(store: &Store, row: impl Fn(u32) -> Option<Vec<u8>>) {
        let batch = store.batch().unwrap();
        batch
            .write(|tables| {
                for number in 0..ROWS {
                    let key = number.to_be_bytes();
                    match row(number) {
                        Some(value) => tables.put(TableId::HashToCode, &key, &value)?,
                        None => tables.delete(TableId::HashToCode, &key)?,
                    }
                }
                Ok::<_, StoreError>(())
            })
            .unwrap();
        batch.commit().unwrap();
    }

    /// Makes a store of which nearly all is unused. Returns the length of its file.
    fn emptied(directory: &Path) -> u64 {
        let store = Store::open(directory, &StoreOptions::default()).unwrap();
        write(&store, |_| Some(vec![7; 2000]));
        write(&store, |number| (number % 100 == 99).then(|| vec![8; 2000]));
        drop(store);
        len(directory)
    }

    fn len(directory: &Path) -> u64 {
        std::fs::metadata(directory.join(FILE_NAME)).unwrap().len()
    }

    fn check_rows(directory: &Path) {
        let store = Store::open(directory, &StoreOptions::default()).unwrap();
        let view = store.snapshot().unwrap();
        let mut rows = 0;
        view.scan(TableId::HashToCode, &[], |key, value| {
            assert_eq!(key, (rows * 100u32 + 99).to_be_bytes());
            assert_eq!(value, [8; 2000]);
            rows += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(rows, ROWS / 100);
    }

    fn compact(directory: &Path, observe: &mut CopyObserver<'_>) -> Result<(), CompactionError> {
        Store::compact(directory, &StoreOptions::default(), observe)
    }

    #[test]
    fn a_compacted_file_has_the_same_rows_and_is_short() {
        let directory = tempfile::tempdir().unwrap();
        let before = emptied(directory.path());
        assert!(before > 8 << 20, "{before}");
        let go_on = &mut |_| ControlFlow::Continue(());
        compact(directory.path(), go_on).unwrap();
        let after = len(directory.path());
        assert!(after < 512 << 10, "{after}");
        assert!(!directory.path().join("chain.redb.new").exists());
        check_rows(directory.path());
        let store = Store::open(directory.path(), &StoreOptions::default()).unwrap();
        let error = compact(directory.path(), go_on).unwrap_err().to_string();
        assert!(error.contains("in use"), "{error}");
        drop(store);
        // With nothing left to give back.
        compact(directory.path(), go_on).unwrap();
        assert!(len(directory.path()) <= after);
        check_rows(directory.path());
    }

    #[test]
    fn a_stop_or_a_death_leaves_the_old_file() {
        let directory = tempfile::tempdir().unwrap();
        emptied(directory.path());
        let store = Store::open(directory.path(), &StoreOptions::default()).unwrap();
        // More rows than there are between two reports.
        let batch = store.batch().unwrap();
        let work = |tables: &mut crate::Tables<'_>| {
            (0..20_000u32).try_for_each(|row| tables.put(TableId::HashToNumber, &row.to_be_bytes(), &[]))
        };
        batch.write(work).unwrap();
        batch.commit().unwrap();
        drop(store);
        // Stopped while rows are written, or compared.
        for after in [1, 3] {
            let mut calls = 0;
            let error = compact(directory.path(), &mut |done| {
                calls += 1;
                assert!(done.rows <= done.rows_total);
                match calls {
                    calls if calls == after => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
            let error = error.unwrap_err();
            assert!(
                matches!(error, CompactionError::Copy(CopyError::Stopped)),
                "{error}"
            );
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 4);
        }
        let new = directory.path().join("chain.redb.new");
        std::fs::write(&new, b"half").unwrap();
        check_rows(directory.path());
        assert!(!new.exists(), "the next opening removes it");
        assert!(len(directory.path()) > 8 << 20, "it is still long");
    }

    #[test]
    fn too_little_space_is_refused_with_both_numbers() {
        let directory = tempfile::tempdir().unwrap();
        emptied(directory.path());
        let path = directory.path().join(FILE_NAME);
        let store = Store::open(directory.path(), &StoreOptions::default()).unwrap();
        let view = store.snapshot().unwrap();
        let error = check_space(&path, 1 << 20, &view).unwrap_err();
        let CompactionError::NoSpace { got, needed, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(*got, 1 << 20);
        // Of the new file, not of the old one.
        let rows = *needed - SPARE_BYTES;
        assert!(rows > 80_000 && rows < 512 << 10, "{needed}");
        check_space(&path, *needed, &view).unwrap();
        let text = error.to_string();
        assert!(text.contains(&format!("needs {needed} bytes")), "{text}");
    }
}
