//! The storage of the bytes of one of a store's files: a file, memory, or a substitute that a test
//! provides.
//!
//! Knows offsets and bytes; what they mean is in [`crate::pages`], [`crate::wal`] and
//! [`crate::ancient`].

use std::fmt::Debug;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Storage for bytes, like a file.
pub trait Medium: Debug + Send + Sync + 'static {
    /// Number of bytes.
    ///
    /// # Errors
    /// The errors of the operating system.
    fn len(&self) -> io::Result<u64>;

    /// Whether the length is 0.
    ///
    /// # Errors
    /// The errors of the operating system.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the medium ends before `out` is full, and those of the
    /// operating system.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// The errors of the operating system. Then any part of `data` may have been written.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Shortens or lengthens the medium to `len` bytes. New bytes are zero.
    ///
    /// # Errors
    /// The errors of the operating system.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Returns when all writes so far would survive a power failure.
    ///
    /// # Errors
    /// The errors of the operating system.
    fn sync(&self) -> io::Result<()>;

    /// Ends the use: releases the lock that keeps other processes away.
    fn close(&self) {}
}

/// The media of a store's files.
#[derive(Clone, Debug)]
pub struct StoreMedia {
    /// The database.
    pub database: Arc<dyn Medium>,
    /// The write-ahead log.
    pub log: Arc<dyn Medium>,
    /// The file with old blocks.
    pub blocks: Arc<dyn Medium>,
}

/// A medium in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryMedium(pub(crate) Mutex<Vec<u8>>);

impl MemoryMedium {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.lock().clone()
    }

    /// Offset and end of `len` bytes.
    fn range(offset: u64, len: usize) -> io::Result<Range<usize>> {
        let begin = usize::try_from(offset).map_err(io::Error::other)?;
        let end = begin.checked_add(len);
        Ok(begin..end.ok_or(io::ErrorKind::OutOfMemory)?)
    }
}

impl Medium for MemoryMedium {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let range = Self::range(offset, out.len())?;
        let bytes = self.lock();
        out.copy_from_slice(bytes.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let range = Self::range(offset, data.len())?;
        let mut bytes = self.lock();
        let len = bytes.len().max(range.end);
        bytes.resize(len, 0);
        bytes[range].copy_from_slice(data);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.lock().resize(len, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes the name of the file at `path` survive a power failure, by syncing its folder.
///
/// Does nothing where the system cannot sync folders.
///
/// # Errors
/// The errors of the operating system. The file has its name nevertheless, but may lose it in a
/// power failure.
pub fn sync_name(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let opened = File::open(folder.unwrap_or_else(|| Path::new(".")));
    match opened.and_then(|folder| folder.sync_all()) {
        Err(error) if cannot_sync(&error) => Ok(()),
        synced => synced,
    }
}

/// Whether this error means that the system cannot sync folders.
fn cannot_sync(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
}

/// Bytes that the file system of `path` has free for this process.
///
/// # Errors
/// The errors of the operating system.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Whether `file` is still the one that has the name `path`.
fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (opened, named) = (file.metadata()?, std::fs::metadata(path)?);
        Ok((opened.dev(), opened.ino()) == (named.dev(), named.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        Ok(true)
    }
}

/// A file, which an advisory lock may keep other processes from writing.
#[derive(Debug)]
pub(crate) struct FileMedium {
    file: File,
}

impl FileMedium {
    /// Opens the file at `path`. Returns `None` if the file is locked, by another process or by
    /// this one.
    ///
    /// # Errors
    /// The errors of the operating system.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        let opened = Self::locked(OpenOptions::new().read(true).write(true).open(path)?)?;
        // A holder of the lock before may have put another file in its place meanwhile.
        match opened {
            Some(medium) if has_name(&medium.file, path)? => Ok(Some(medium)),
            _ => Ok(None),
        }
    }

    /// Makes an empty file at `path`. Replaces the content of an existing file. Returns `None` if
    /// the file is locked.
    ///
    /// # Errors
    /// The errors of the operating system.
    pub(crate) fn create(path: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        Self::locked(options.open(path)?)
    }

    /// Opens the file at `path` without locking it.
    ///
    /// # Errors
    /// The errors of the operating system.
    pub(crate) fn open_unlocked(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self { file })
    }

    /// Makes an empty file at `path` without locking it. Replaces the content of an existing file.
    ///
    /// # Errors
    /// The errors of the operating system.
    pub(crate) fn create_unlocked(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        Ok(Self {
            file: options.open(path)?,
        })
    }

    fn locked(file: File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            // The file system has no locks. The store works without one.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Ok(Some(Self { file }))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Medium for FileMedium {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    #[cfg(unix)]
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, out, offset)
    }

    #[cfg(unix)]
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.file, data, offset)
    }

    #[cfg(windows)]
    fn read(&self, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        use std::os::windows::fs::FileExt;
        while !out.is_empty() {
            match self.file.seek_read(out, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => {
                    out = &mut out[read..];
                    offset += read as u64;
                }
            }
        }
        Ok(())
    }

    #[cfg(windows)]
    fn write(&self, mut offset: u64, mut data: &[u8]) -> io::Result<()> {
        use std::os::windows::fs::FileExt;
        while !data.is_empty() {
            match self.file.seek_write(data, offset)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => {
                    data = &data[written..];
                    offset += written as u64;
                }
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn close(&self) {
        // Old snapshots may keep the file open for a while. Unlocking lets others open it at once.
        // If that fails, the lock ends when the file is closed.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_bytes_and_locks_others_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        assert!(FileMedium::open(&path).is_err());
        let file = FileMedium::create(&path).unwrap().unwrap();
        assert!(file.is_empty().unwrap());
        assert!(
            FileMedium::open(&path).unwrap().is_none(),
            "the first handle holds the lock"
        );
        file.set_len(10).unwrap();
        file.write(8, b"abcd").unwrap();
        file.sync().unwrap();
        assert_eq!(file.len().unwrap(), 12);
        let mut read = [0; 6];
        file.read(6, &mut read).unwrap();
        assert_eq!(&read, b"\0\0abcd");
        let short = file.read(7, &mut read).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
        file.close();
        let again = FileMedium::open(&path).unwrap().expect("the lock was released");
        assert_eq!(again.len().unwrap(), 12);
    }
}
