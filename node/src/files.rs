//! Small files of the data directory, written whole or not at all, readable for the owner alone.

use std::io::{ErrorKind, Result, Write};
use std::path::Path;

/// Replaces the file at `path`, or makes it.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    beside(path, bytes)?.persist(path)?;
    sync_folder(path)
}

/// Makes the file at `path`; `false` where there is one already, which stays.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> Result<bool> {
    match beside(path, bytes)?.persist_noclobber(path) {
        Ok(_) => sync_folder(path).map(|()| true),
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

/// Brings the name to the disk, where the system lets folders be opened.
fn sync_folder(path: &Path) -> Result<()> {
    match path.parent().map(std::fs::File::open) {
        Some(Ok(folder)) if cfg!(unix) => folder.sync_all(),
        _ => Ok(()),
    }
}
