//! What dataset files need of the system: locks, and how a big file is best read and written. Knows nothing of
//! what is in them.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use memmap2::Mmap;

use super::error::DatasetError;

/// Why the unfinished file at `path` was not locked.
pub(super) fn no_lock(error: TryLockError, path: &Path) -> DatasetError {
    match error {
        TryLockError::WouldBlock => DatasetError::Busy {
            path: path.to_owned(),
        },
        TryLockError::Error(source) => DatasetError::io("lock", path)(source),
    }
}

/// Reads a mapped file in, in huge pages where the system has them for files.
///
/// Where the system does not know how, pages come one by one as they are first read, at random places. The error
/// is that of a page that cannot be read: to touch it would end the process.
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

/// Has the system drop its copy of a file just written. PagedBuffer of a file that is written are small, those of one
/// that is read can be huge: whoever maps the file next has a faster search for one more reading of the disk.
pub(super) fn forget(file: &File) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is open, and the advice touches no memory of this process. A refusal is of no
        // consequence.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

/// Whether the open `file` is what `path` names.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let (here, there) = (file.metadata().map(place), fs::metadata(path).map(place));
        matches!((here, there), (Ok(here), Ok(there)) if here == there)
    }
    // Elsewhere the system refuses to shorten a mapped file, so nothing is lost by not looking.
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
    fn a_file_that_got_its_name_is_no_longer_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("full");
        File::create(&path).expect("a file");
        let unfinished = folder.path().join("unfinished");
        let file = File::create(&unfinished).expect("a file");
        assert!(is_at(&file, &unfinished));
        assert!(!is_at(&file, &path), "another file");
        fs::rename(&unfinished, &path).expect("renamed");
        assert!(is_at(&file, &path));
        assert!(!is_at(&file, &unfinished), "no file at all");
        File::create(&unfinished).expect("a new one");
        assert!(!is_at(&file, &unfinished), "another of the same name");
    }

    #[test]
    fn a_lock_that_fails_is_not_one_that_is_held() {
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
        // SAFETY: nothing is read through it.
        let map = unsafe { Mmap::map(&file) }.expect("a map");
        match map.advise(memmap2::Advice::PopulateRead) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                eprintln!("skipped: this system does not read mapped files in");
                return;
            }
            result => result.expect("a good file"),
        }
        assert!(fetch(&map).is_ok());
        // As with a bad sector, touching the pages would raise a signal now.
        file.set_len(0).expect("shortened");
        let error = fetch(&map).expect_err("there is nothing behind the map");
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT), "{error}");
    }
}
