//! Figures of this process and of the files from the system: memory and sizes.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;

use bench::Failure;
use store::{BLOCKS_FILE_NAME, FILE_NAME, LOG_FILE_NAME, Store};

/// The three files of a store.
pub(crate) const FILES: [&str; 3] = [FILE_NAME, LOG_FILE_NAME, BLOCKS_FILE_NAME];

/// The most memory that this process has had since [`reset_peak`], in bytes.
pub(crate) fn peak_memory() -> Result<u64, Failure> {
    let text = fs::read_to_string("/proc/self/status")?;
    Ok(field(&text, "VmHWM:")? << 10)
}

pub(crate) fn reset_peak() -> Result<(), Failure> {
    Ok(fs::write("/proc/self/clear_refs", "5")?)
}

fn field(text: &str, name: &str) -> Result<u64, Failure> {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let value = value.ok_or_else(|| format!("the system's file has no {name}"))?;
    let digits = value.trim().trim_end_matches(" kB");
    Ok(digits.parse()?)
}

/// Bytes of the three files of the store in a folder.
pub(crate) fn file_bytes(folder: &Path) -> Result<[u64; 3], Failure> {
    let mut sizes = [0; 3];
    for (size, name) in sizes.iter_mut().zip(FILES) {
        *size = fs::metadata(folder.join(name))?.len();
    }
    Ok(sizes)
}

/// Copies a closed store.
pub(crate) fn copy_files(from: &Path, to: &Path) -> Result<(), Failure> {
    for name in FILES {
        fs::copy(from.join(name), to.join(name))?;
        fs::File::open(to.join(name))?.sync_all()?;
    }
    Ok(())
}

/// Lets the system forget what it has of these files, so that reads come from the disk.
pub(crate) fn forget_files(folder: &Path) -> Result<(), Failure> {
    for name in FILES {
        let file = fs::File::open(folder.join(name))?;
        // SAFETY: the descriptor is open, and the call changes no memory of this process.
        let code = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        if code != 0 {
            return Err(format!("posix_fadvise: got {code}, expected 0").into());
        }
    }
    Ok(())
}

/// Rows and bytes of keys and values of each table.
pub(crate) fn tables(store: &Store) -> Result<Vec<(&'static str, u64, u64)>, Failure> {
    let stats = store.snapshot()?.stats()?;
    let rows = stats.iter();
    Ok(rows
        .map(|table| (table.name, table.rows, table.stored_bytes))
        .collect())
}
