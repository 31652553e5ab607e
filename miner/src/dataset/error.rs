//! Why there is no dataset, or no dataset file.

use std::io;
use std::path::{Path, PathBuf};

use super::file_format::MAGIC;

/// Why there is no dataset, or no file of it.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The system gave no memory.
    #[error("no memory for a dataset of {bytes} bytes: {source}")]
    OutOfMemory {
        /// How much was needed.
        bytes: u64,
        /// The system's words.
        source: io::Error,
    },
    /// There is memory, but other programs would have to go for it.
    #[error("a dataset of {bytes} bytes takes {needed} bytes of free memory, and there are {available}")]
    NoRoom {
        /// The dataset's own size.
        bytes: u64,
        /// That, and what is left to other programs.
        needed: u64,
        /// What could be taken.
        available: u64,
    },
    /// Whoever asked no longer wants it.
    #[error("dataset cancelled")]
    Cancelled,
    /// A file could not be read or written.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// Another process is writing the same file.
    #[error("{path} is being written by another process")]
    Busy {
        /// The unfinished file.
        path: PathBuf,
    },
    /// The file has the wrong length.
    #[error("{path} has {got} bytes, expected {expected}")]
    WrongSize {
        /// The file.
        path: PathBuf,
        /// Its length.
        got: u64,
        /// The length of this epoch's file.
        expected: u64,
    },
    /// The file does not begin as a dataset file does.
    #[error("{path} begins with {got:02x?}, expected {MAGIC:02x?}")]
    WrongMagic {
        /// The file.
        path: PathBuf,
        /// Its first bytes.
        got: [u8; 8],
    },
    /// An item differs from what the light cache gives.
    #[error("item {item} of {path} begins with {got:#010x}, expected {expected:#010x}")]
    WrongItem {
        /// The file.
        path: PathBuf,
        /// The item's index.
        item: u32,
        /// Its first differing word.
        got: u32,
        /// What that word should be.
        expected: u32,
    },
}

impl DatasetError {
    /// Whether there simply is no file.
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
