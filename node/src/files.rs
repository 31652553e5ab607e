//! Small files of the data directory, written whole or not at all, readable for the owner alone.
//!
//! A file that has its name is there, also where the system fails to bring the name to the disk:
//! that is told in the log and is no failure.

use std::io::{ErrorKind, Result, Write};
use std::path::Path;

/// Replaces the file at `path`, or makes it. After an error the old one is whole.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    replace_then(path, bytes, store::sync_name)
}

fn replace_then(path: &Path, bytes: &[u8], sync: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    beside(path, bytes)?.persist(path)?;
    note_synced(path, sync(path));
    Ok(())
}

/// Makes the file at `path`; `false` where there is one already, which stays.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> Result<bool> {
    create_then(path, bytes, store::sync_name)
}

fn create_then(path: &Path, bytes: &[u8], sync: impl FnOnce(&Path) -> Result<()>) -> Result<bool> {
    match beside(path, bytes)?.persist_noclobber(path) {
        Ok(_) => {
            note_synced(path, sync(path));
            Ok(true)
        }
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A file in the same folder, on the disk, without its name. Its mode is 0600.
fn beside(path: &Path, bytes: &[u8]) -> Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Tells of a name that could not be brought to the disk.
pub(crate) fn note_synced(path: &Path, synced: Result<()>) {
    if let Err(error) = synced {
        let path = path.display();
        tracing::warn!(%path, %error, "the file is written, but may be lost with the power");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_its_place_is_written_where_its_name_cannot_be_synced() {
        let fails = |_: &Path| Err(std::io::Error::other("as asked"));
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("file");
        assert!(create_then(&path, b"one", fails).expect("made"));
        assert!(!create_then(&path, b"two", fails).expect("there is one"));
        assert_eq!(std::fs::read(&path).expect("readable"), b"one");
        replace_then(&path, b"three", fails).expect("replaced");
        assert_eq!(std::fs::read(&path).expect("readable"), b"three");
        assert!(replace_then(&home.path().join("no").join("file"), b"", fails).is_err());
    }
}
