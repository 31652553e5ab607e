//! Why the store refuses or fails.
//!
//! Errors of the medium (full disk, lost file) and of the content (bytes that no code of
//! ours wrote) are told apart, because they ask for other measures; each says for which.

use std::io;
use std::path::{Path, PathBuf};

use crate::guard::Fall;

/// What helps where the content of a database is lost.
const RESTORE: &str =
    "put a copy of the data directory back, or move this one away and import the chain again";

/// Why a read or write of the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process, or another part of this one, has the file open.
    #[error("{} is in use by another process: a data directory serves one node at a time; stop the other one or choose another --datadir", path.display())]
    InUse {
        /// The database file.
        path: PathBuf,
    },
    /// The file was written by code with another table layout.
    #[error("{} has schema version {got}, this program reads version {expected}: use the program that made it, or make a new --datadir", path.display())]
    Schema {
        /// The database file.
        path: PathBuf,
        /// The version in the file.
        got: u32,
        /// The version of this program.
        expected: u32,
    },
    /// At the path of the database is something else.
    #[error("{} is no database of this program: {found}; it was left as it is: {RESTORE}", path.display())]
    Other {
        /// The database file.
        path: PathBuf,
        /// What is there.
        found: String,
    },
    /// The file ends too early.
    #[error("{} is cut off: got {got} bytes, want {expected}; it was left as it is: {RESTORE}", path.display())]
    Cut {
        /// The database file.
        path: PathBuf,
        /// Its bytes.
        got: u64,
        /// The bytes its content needs.
        expected: u64,
    },
    /// There was a database, and there is none.
    #[error("{} is gone, and was there before: put it back, or remove {} too and import the chain again", path.display(), beside.display())]
    Gone {
        /// The database file.
        path: PathBuf,
        /// The file beside it that says that it was there.
        beside: PathBuf,
    },
    /// The file cannot be opened or made.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The database file.
        path: PathBuf,
        /// What redb or the system said.
        source: Box<redb::Error>,
    },
    /// There is no space left to write to.
    #[error("cannot write {}: {source}; nothing that was committed is lost: free space on its file system, and what failed can be done again", path.display())]
    Full {
        /// The database file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// The file cannot be read or written.
    #[error("cannot use {}: {source}; what was committed is kept as far as the disk keeps it: look at the disk and the system's log, then start again", path.display())]
    Medium {
        /// The database file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// Bytes of the file are not those that were written.
    #[error("{} is damaged: {what}; `vnode db check` says what that touches: {RESTORE}", path.display())]
    Damaged {
        /// The database file.
        path: PathBuf,
        /// Where.
        what: String,
    },
    /// The database was opened again after a failure while this was being read.
    #[error("{} is opened again after a failure: ask again", path.display())]
    Reopened {
        /// The database file.
        path: PathBuf,
    },
    /// Something in a batch failed, so the batch is not committed.
    #[error("a write to {} failed, so nothing of its batch was committed", path.display())]
    Spoilt {
        /// The database file.
        path: PathBuf,
    },
    /// The database refuses for a reason of its own.
    #[error("database failure: {0}")]
    Database(Box<redb::Error>),
    /// A stored value cannot be what this program wrote.
    #[error("corrupt {table} row {key}: {reason}; the data directory needs `db check` or a new import")]
    Corrupt {
        /// Which table.
        table: &'static str,
        /// The row's key, in hex.
        key: String,
        /// What is wrong with the value.
        reason: String,
    },
}

impl StoreError {
    /// A value of `table` under `key` that cannot be decoded.
    pub fn corrupt(table: crate::TableId, key: &[u8], reason: impl ToString) -> Self {
        let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::Corrupt {
            table: table.name(),
            key,
            reason: reason.to_string(),
        }
    }

    /// Whether it is over once there is space: the same can be done again then.
    pub fn wants_space(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// Whether no write can be trusted any more before the program starts anew.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Medium { .. }
                | Self::Other { .. }
                | Self::Cut { .. }
                | Self::Gone { .. }
                | Self::Open { .. }
        )
    }

    /// Whether what was to be read is lost: asked again, the answer would be the same.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Corrupt { .. })
    }

    /// What the system says of the file at `path`.
    pub(crate) fn medium(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full { path, source }
            }
            _ => Self::Medium { path, source },
        }
    }

    /// What redb says of the open database at `path`.
    pub(crate) fn database(path: &Path, error: redb::Error) -> Self {
        match error {
            redb::Error::Io(source) => Self::medium(path, source),
            redb::Error::Corrupted(what) => Self::Damaged {
                path: path.to_owned(),
                what,
            },
            redb::Error::PreviousIo | redb::Error::DatabaseClosed | redb::Error::LockPoisoned(_) => {
                Self::Reopened {
                    path: path.to_owned(),
                }
            }
            other => Self::Database(Box::new(other)),
        }
    }

    /// What redb says while it opens the database at `path`.
    pub(crate) fn opening(path: &Path, error: redb::Error) -> Self {
        match error {
            redb::Error::DatabaseAlreadyOpen => Self::InUse {
                path: path.to_owned(),
            },
            redb::Error::Io(_) | redb::Error::Corrupted(_) => Self::database(path, error),
            source => Self::Open {
                path: path.to_owned(),
                source: Box::new(source),
            },
        }
    }

    /// A call into the database at `path` that came to nothing.
    pub(crate) fn fallen(path: &Path, fall: Fall) -> Self {
        let what = match fall {
            Fall::Damaged { page } => format!("the bytes of page {page} do not fit their checksum"),
            Fall::Panicked(words) => format!("the database gives up: {words}"),
        };
        Self::Damaged {
            path: path.to_owned(),
            what,
        }
    }
}
