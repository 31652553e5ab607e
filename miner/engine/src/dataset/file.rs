//! System calls for dataset files: locks, and what the system keeps of a file. Knows nothing about
//! their content.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use super::error::DatasetError;

/// Returns the error for an unfinished file at `path` that could not be locked.
pub(super) fn no_lock(error: TryLockError, path: &Path) -> DatasetError {
    match error {
        TryLockError::WouldBlock => DatasetError::Busy {
            path: path.to_owned(),
        },
        TryLockError::Error(source) => DatasetError::io("lock", path)(source),
    }
}

/// Removes the system's copy of a file from memory, after the file was read or written. The copy
/// would take as much memory as the dataset itself.
pub(super) fn forget(file: &File) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is open, and the call does not touch the memory of this process. A
        // failure has no effect.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

/// Whether `path` is the path of the open `file`.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let inode = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let (of_file, at_path) = (file.metadata().map(inode), fs::metadata(path).map(inode));
        matches!((of_file, at_path), (Ok(of_file), Ok(at_path)) if of_file == at_path)
    }
    // Other systems do not tell in the standard library. There, readers may find a file that is
    // being written again. Its length or its items are wrong then, and they do not use it.
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_renamed_file_is_no_longer_at_its_old_path() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("full");
        File::create(&path).expect("a file");
        let unfinished = folder.path().join("unfinished");
        let file = File::create(&unfinished).expect("a file");
        assert!(is_at(&file, &unfinished));
        assert!(!is_at(&file, &path), "another file");
        fs::rename(&unfinished, &path).expect("renamed");
        assert!(is_at(&file, &path));
        assert!(!is_at(&file, &unfinished), "there is no file");
        File::create(&unfinished).expect("a new one");
        assert!(!is_at(&file, &unfinished), "another file of the same name");
    }

    #[test]
    fn a_lock_that_fails_is_not_a_busy_file() {
        let path = Path::new("full");
        let error = no_lock(TryLockError::WouldBlock, path);
        assert!(matches!(error, DatasetError::Busy { .. }), "{error}");
        let failure = io::Error::from(io::ErrorKind::Unsupported);
        let error = no_lock(TryLockError::Error(failure), path);
        assert!(
            matches!(&error, DatasetError::Io { what: "lock", source, .. } if source.kind() == io::ErrorKind::Unsupported),
            "{error}"
        );
    }
}
