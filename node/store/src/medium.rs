//! Where the bytes of a database lie: a file, or whatever a test puts in its place.
//!
//! Knows offsets and bytes; what they mean is in [`crate::pages`].

use std::fmt::Debug;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// A run of bytes that keeps what is written to it.
pub trait Medium: Debug + Send + Sync + 'static {
    /// How many bytes there are.
    ///
    /// # Errors
    /// The system's.
    fn len(&self) -> io::Result<u64>;

    /// Whether there are no bytes.
    ///
    /// # Errors
    /// The system's.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::UnexpectedEof`] where there are fewer.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// The system's; then any part of it may have been written.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Cuts or lengthens to `len` bytes; new bytes are zero.
    ///
    /// # Errors
    /// The system's.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Returns when all that was written will be there after a power failure.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;

    /// Ends the use: lets go of what keeps other processes away.
    fn close(&self) {}
}

/// Brings the name of the file at `path` to the disk, where the system can do that: not every
/// file system lets folders be opened or synced.
///
/// # Errors
/// The system's. The file has its name all the same, but may lose it when the power goes.
pub fn sync_name(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let opened = File::open(folder.unwrap_or(Path::new(".")));
    match opened.and_then(|folder| folder.sync_all()) {
        Err(error) if cannot_sync(&error) => Ok(()),
        synced => synced,
    }
}

/// Whether the system says by this that it does not sync folders.
fn cannot_sync(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
}

/// A file that this process alone has open for writing.
#[derive(Debug)]
pub(crate) struct FileMedium {
    file: File,
}

impl FileMedium {
    /// Opens the file at `path`; `None` where another process, or another part of this one, has it.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        Self::locked(OpenOptions::new().read(true).write(true).open(path)?)
    }

    /// Makes an empty file at `path`, in place of one that is there.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn create(path: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        Self::locked(options.open(path)?)
    }

    fn locked(file: File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            // A file system without locks; the work goes on as it does for most programs there.
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
        // Readers of the past may keep the file open for a while; nobody need wait for them. A
        // lock that cannot be given back goes with the file.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_bytes_and_others_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        assert!(FileMedium::open(&path).is_err());
        let file = FileMedium::create(&path).unwrap().unwrap();
        assert!(file.is_empty().unwrap());
        assert!(FileMedium::open(&path).unwrap().is_none(), "it is in use");
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
        let again = FileMedium::open(&path).unwrap().expect("it was let go");
        assert_eq!(again.len().unwrap(), 12);
    }
}
