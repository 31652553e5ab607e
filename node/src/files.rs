//! Small files of the data directory. A file is written completely or not at all, and only its
//! owner can read it.
//!
//! A file counts as written once it has its name. If the system then fails to sync the name to the
//! disk, this is logged and is not an error.

use std::io::{ErrorKind, Result, Write};
use std::path::Path;

/// Creates the file at `path` or replaces it. After an error the old file is unchanged.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    replace_and_sync(path, bytes, store::sync_name)
}

fn replace_and_sync(path: &Path, bytes: &[u8], sync: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    write_unnamed(path, bytes)?.persist(path)?;
    warn_if_unsynced(path, sync(path));
    Ok(())
}

/// Creates the file at `path`. Returns `false` if a file exists there, which stays unchanged.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> Result<bool> {
    create_and_sync(path, bytes, store::sync_name)
}

fn create_and_sync(path: &Path, bytes: &[u8], sync: impl FnOnce(&Path) -> Result<()>) -> Result<bool> {
    match write_unnamed(path, bytes)?.persist_noclobber(path) {
        Ok(_) => {
            warn_if_unsynced(path, sync(path));
            Ok(true)
        }
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes and syncs a file with a temporary name in the folder of `path`. Its mode is 0600.
fn write_unnamed(path: &Path, bytes: &[u8]) -> Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or_else(|| Path::new(".")))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Logs a warning if the name of a written file could not be synced to the disk.
pub(crate) fn warn_if_unsynced(path: &Path, result: Result<()>) {
    if let Err(error) = result {
        let path = path.display();
        tracing::warn!(%path, %error, "the file is written, but a power failure may lose it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_as_written_if_its_name_cannot_be_synced() {
        let fails = |_: &Path| Err(std::io::Error::other("a fault of this test"));
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("file");
        assert!(create_and_sync(&path, b"one", fails).expect("made"));
        assert!(!create_and_sync(&path, b"two", fails).expect("there is one"));
        assert_eq!(std::fs::read(&path).expect("readable"), b"one");
        replace_and_sync(&path, b"three", fails).expect("replaced");
        assert_eq!(std::fs::read(&path).expect("readable"), b"three");
        assert!(replace_and_sync(&home.path().join("no").join("file"), b"", fails).is_err());
    }
}
