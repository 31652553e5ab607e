//! The reasons why there is no dataset, or no dataset file.

use std::io;
use std::path::{Path, PathBuf};

use super::file_format::MAGIC;

/// The reasons why there is no dataset, or no dataset file.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The system refused the memory.
    #[error("no memory for a dataset of {bytes} bytes: {source}")]
    OutOfMemory {
        /// Size of the dataset.
        bytes: u64,
        /// The message of the system.
        source: io::Error,
    },
    /// There is not enough free memory. The system might end another program to provide it.
    #[error(
        "too little free memory for a dataset of {bytes} bytes: got {available} bytes, expected {needed}"
    )]
    TooLittleMemory {
        /// Size of the dataset.
        bytes: u64,
        /// Size of the dataset and of the reserve for other programs.
        needed: u64,
        /// Memory that programs could take.
        available: u64,
    },
    /// The caller no longer needs the dataset.
    #[error("dataset cancelled")]
    Cancelled,
    /// A file could not be read or written.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The message of the system.
        source: io::Error,
    },
    /// Another process is writing the same file.
    #[error("{path} is being written by another process")]
    Busy {
        /// The unfinished file.
        path: PathBuf,
    },
    /// The file has a wrong length.
    #[error("length of {path}: got {got} bytes, expected {expected}")]
    WrongSize {
        /// The file.
        path: PathBuf,
        /// The length of the file.
        got: u64,
        /// The length of a file of this epoch.
        expected: u64,
    },
    /// The file does not begin like a dataset file.
    #[error("first bytes of {path}: got {got:02x?}, expected {MAGIC:02x?}")]
    WrongMagic {
        /// The file.
        path: PathBuf,
        /// The first bytes of the file.
        got: [u8; 8],
    },
    /// An item of the file is wrong.
    #[error("item {item} of {path}: got word {got:#010x}, expected {expected:#010x}")]
    WrongItem {
        /// The file.
        path: PathBuf,
        /// The index of the item.
        item: u32,
        /// The first wrong word of the item.
        got: u32,
        /// The right word, from the light cache.
        expected: u32,
    },
}

impl DatasetError {
    /// Whether the reason is that the file does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            what,
            path: path.to_owned(),
            source,
        }
    }
}
