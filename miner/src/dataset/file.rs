//! System calls for dataset files: locks, and fast ways to read and write large files. Knows
//! nothing about their content.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use memmap2::Mmap;

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

/// Reads a mapped file into memory, in huge pages if the file system supports them.
///
/// On systems without such a call, each page is read when the search first touches it.
///
/// # Errors
/// When a page cannot be read. Without this call, the first access to that page would end the
/// process.
pub(super) fn fetch(map: &Mmap) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let _ = map.advise(memmap2::Advice::HugePage);
        match map.advise(memmap2::Advice::PopulateRead) {
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => return Err(error),
            _ => {}
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = map;
    Ok(())
}

/// Removes the system's copy of a file that was just written from memory.
///
/// The system keeps a written file in small memory pages, but it can read a file into huge pages.
/// After this call, the next process that maps the file reads it from the disk again, and its
/// search is faster.
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
    // Other systems refuse to shorten a mapped file, so this check is not necessary there.
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        true
    }
}

#[cfg(test)]
mod tests {
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

    #[cfg(target_os = "linux")]
    #[test]
    fn pages_that_cannot_be_read_are_an_error() {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(1 << 16).expect("lengthened");
        // SAFETY: nothing is read through this map.
        let map = unsafe { Mmap::map(&file) }.expect("a map");
        match map.advise(memmap2::Advice::PopulateRead) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                eprintln!("skipped: this system cannot read mapped files in advance");
                return;
            }
            result => result.expect("a good file"),
        }
        assert!(fetch(&map).is_ok());
        // Touching the pages would raise a signal now, as with a bad sector.
        file.set_len(0).expect("shortened");
        let error = fetch(&map).expect_err("the map has no file content behind it");
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT), "{error}");
    }
}
