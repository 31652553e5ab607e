//! Copies a snapshot into a new data directory, while the store goes on to be written.
//!
//! The rows of the snapshot are read in order and written in batches into a new database, and the
//! records of old blocks are copied as they are. So the copy is of one commit, has no free pages,
//! and every page and record that it has was read with its checksum. Until it is complete its
//! folder has another name.
//!
//! Knows tables and files; knows nothing of what rows mean.

use std::ffi::OsString;
use std::fs::{DirEntry, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::medium::sync_name;
use crate::open::{BLOCKS_FILE_NAME, FILE_NAME, LOG_FILE_NAME, StoreOptions};
use crate::row_copy::{COPY_CACHE_BYTES, CopyError, CopyObserver, CopyProgress, RowCopy};
use crate::{Snapshot, Store};

/// The reason why there is no backup. Nothing is left of it, unless the file system refuses to
/// remove it.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// Reading or writing failed, or the observer ended the backup.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The folder has something in it.
    #[error("{}: got a folder that is not empty, expected an empty one or none", .0.display())]
    NotEmpty(PathBuf),
    /// Another backup of this name is being made.
    #[error("{} is being written by another backup: wait for its end, or choose another folder", .0.display())]
    InUse(PathBuf),
    /// The folder of an unfinished backup has something else in it.
    #[error("{} is in the way: got {found}, expected nothing, or the files of a backup that was cut off: remove it, or choose another folder", path.display())]
    InTheWay {
        /// The folder of unfinished backups.
        path: PathBuf,
        /// The thing that is there, in words.
        found: String,
    },
    /// A folder cannot be made or renamed.
    #[error("cannot write {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Copies what `view` shows into `folder`, which becomes a data directory of its own: its chain
/// only, no keys. `observe` is called now and then; if it breaks, the backup ends.
///
/// # Errors
/// [`BackupError`]; `folder` is as before then.
pub fn back_up(
    view: &Snapshot,
    folder: &Path,
    observe: &mut CopyObserver<'_>,
) -> Result<CopyProgress, BackupError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| BackupError::Folder { path, source }
    };
    let name = folder
        .file_name()
        .ok_or_else(|| BackupError::NotEmpty(folder.to_owned()))?;
    let mut partial = name.to_owned();
    partial.push(".part");
    let partial = folder.with_file_name(partial);
    match std::fs::read_dir(folder).map(Iterator::count) {
        Ok(0) => {}
        Ok(_) => return Err(BackupError::NotEmpty(folder.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(folder)(error)),
    }
    if let Some(parent) = folder.parent() {
        std::fs::create_dir_all(parent).map_err(failed(parent))?;
    }
    // Locked until the end, so that nobody takes it for one that was cut off.
    let _lock = begin_partial(&partial)?;
    let rename = || {
        let _ = std::fs::remove_dir(folder);
        std::fs::rename(&partial, folder).and_then(|()| sync_name(folder))
    };
    let copied = copy(view, &partial, observe);
    let done = copied
        .map_err(BackupError::from)
        .and_then(|done| rename().map(|()| done).map_err(failed(folder)));
    if done.is_err() {
        let _ = std::fs::remove_dir_all(&partial);
    }
    done
}

/// Makes the folder of an unfinished backup, and locks it. If a backup that was cut off left one,
/// its files go.
fn begin_partial(partial: &Path) -> Result<File, BackupError> {
    let failed = |source| BackupError::Folder {
        path: partial.to_owned(),
        source,
    };
    let in_the_way = |found: String| BackupError::InTheWay {
        path: partial.to_owned(),
        found,
    };
    match std::fs::create_dir(partial) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    if !partial.is_dir() {
        return Err(in_the_way("a file".to_owned()));
    }
    let lock = File::open(partial).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(BackupError::InUse(partial.to_owned())),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let entries = std::fs::read_dir(partial).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let names: Vec<_> = entries.map_err(failed)?.iter().map(DirEntry::file_name).collect();
    let is_ours = |name: &OsString| {
        let names = [FILE_NAME, LOG_FILE_NAME, BLOCKS_FILE_NAME];
        let name = name.to_string_lossy();
        let name = name.strip_suffix(".new").unwrap_or(&name);
        names.contains(&name) || name.strip_suffix(".lock") == Some(FILE_NAME)
    };
    if let Some(name) = names.iter().find(|name| !is_ours(name)) {
        return Err(in_the_way(format!("{} in it", name.to_string_lossy())));
    }
    for name in names {
        std::fs::remove_file(partial.join(name)).map_err(failed)?;
    }
    Ok(lock)
}

/// Writes the rows and the old blocks into a new store in `folder`.
fn copy(view: &Snapshot, folder: &Path, observe: &mut CopyObserver<'_>) -> Result<CopyProgress, CopyError> {
    let options = StoreOptions {
        cache_bytes: COPY_CACHE_BYTES,
        ..StoreOptions::default()
    };
    let store = Store::open(folder, &options)?;
    let mut copy = RowCopy::new(view, observe)?;
    copy.write(&store, true)?;
    Ok(copy.done)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::ancient::tests::{assert_has_old_blocks, store_old_blocks};
    use crate::{Source, TableId};

    fn rows(view: &Snapshot) -> Vec<(TableId, Vec<u8>, Vec<u8>)> {
        let mut all = Vec::new();
        for table in TableId::ALL {
            view.scan(table, &[], |key, value| {
                all.push((table, key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
            .unwrap();
        }
        all
    }

    #[test]
    fn a_backup_is_of_one_commit_and_has_the_old_blocks() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(&home.path().join("node"), &StoreOptions::default()).unwrap();
        store_old_blocks(&store, 40);
        let view = store.snapshot().unwrap();
        let folder = home.path().join("backups").join("monday");
        // Later commits are not part of the backup, even those between its batches.
        let mut is_first = true;
        let done = back_up(&view, &folder, &mut |_| {
            if std::mem::take(&mut is_first) {
                let batch = store.batch().unwrap();
                batch
                    .write(|tables| tables.put(TableId::HashToCode, b"later", b"row"))
                    .unwrap();
                batch.commit().unwrap();
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        assert!(!is_first);
        assert_eq!(done.rows, done.rows_total);
        for _ in 0..2 {
            let restored = Store::open(&folder, &StoreOptions::default()).unwrap();
            let restored = restored.snapshot().unwrap();
            assert_eq!(rows(&restored), rows(&view));
            assert_has_old_blocks(&restored, 40);
        }
    }

    #[test]
    fn nothing_is_left_of_a_backup_that_fails() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(&home.path().join("node"), &StoreOptions::default()).unwrap();
        store_old_blocks(&store, 40);
        let view = store.snapshot().unwrap();
        let folder = home.path().join("backup");
        let error = back_up(&view, &folder, &mut |_| ControlFlow::Break(())).unwrap_err();
        assert!(matches!(error, BackupError::Copy(CopyError::Stopped)), "{error}");
        let names = std::fs::read_dir(home.path()).unwrap().count();
        assert_eq!(names, 1, "only the node's folder");
        let go_on = &mut |_| ControlFlow::Continue(());
        let error = back_up(&view, &home.path().join("node"), go_on).unwrap_err();
        assert!(matches!(error, BackupError::NotEmpty(_)), "{error}");
        std::fs::create_dir(&folder).unwrap();
        back_up(&view, &folder, go_on).unwrap();
    }

    #[test]
    fn what_a_cut_off_backup_left_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(&home.path().join("node"), &StoreOptions::default()).unwrap();
        store_old_blocks(&store, 40);
        let view = store.snapshot().unwrap();
        let (folder, partial) = (home.path().join("backup"), home.path().join("backup.part"));
        let go_on = &mut |_| ControlFlow::Continue(());
        let mut second = None;
        let first = back_up(&view, &folder, &mut |_| {
            second = Some(back_up(&view, &folder, &mut |_| ControlFlow::Break(())).unwrap_err());
            ControlFlow::Continue(())
        });
        first.unwrap();
        let error = second.unwrap();
        assert!(matches!(error, BackupError::InUse(_)), "{error}");
        // A process that is killed leaves some of these files, whole or not.
        std::fs::rename(&folder, &partial).unwrap();
        std::fs::write(partial.join("chain.redb.new"), b"half").unwrap();
        std::fs::write(partial.join("letter.txt"), b"of somebody").unwrap();
        let error = back_up(&view, &folder, go_on).unwrap_err();
        assert!(error.to_string().contains("got letter.txt in it"), "{error}");
        assert!(partial.join("chain.redb.new").exists());
        std::fs::remove_file(partial.join("letter.txt")).unwrap();
        back_up(&view, &folder, go_on).unwrap();
        assert!(!partial.exists());
        let restored = Store::open(&folder, &StoreOptions::default()).unwrap();
        assert_eq!(rows(&restored.snapshot().unwrap()), rows(&view));
    }
}
