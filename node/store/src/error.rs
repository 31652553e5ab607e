//! Errors of the store.
//!
//! Errors of the disk (full, file lost) and errors of the content (bytes that this program did not
//! write) are separate variants, because the operator must do different things about them. Each
//! message says what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::guard::CallFailure;

/// The advice when the content of a database is lost.
const RESTORE: &str =
    "put a copy of the data directory back, or move this one away and import the chain again";

/// The reason why the store refuses to open, or a read or write failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file is already open, in another process or in this one.
    #[error("{} is in use by another process: a data directory serves one node at a time; stop the other one or choose another --datadir", path.display())]
    InUse {
        /// The database file.
        path: PathBuf,
    },
    /// The file has another schema version.
    #[error("{}: schema version: got {got}, expected {expected}: {}", path.display(), crate::upgrade::advice(*got))]
    Schema {
        /// The database file.
        path: PathBuf,
        /// The version in the file.
        got: u32,
        /// The version that this program reads and writes.
        expected: u32,
    },
    /// The rows of the file were rewritten for this program, but its tries are not built yet.
    #[error("{} is being rewritten for this version, and is not ready: start `vnode` or `scs` on it, which goes on", path.display())]
    WithoutTries {
        /// The database file.
        path: PathBuf,
    },
    /// The file system has too little space for rewriting the file for this program.
    #[error("{} is of an earlier version, and rewriting it needs {needed} bytes of free space: got {got}; the file was not changed: free space on its file system, then start again", path.display())]
    NoSpaceToUpgrade {
        /// The database file.
        path: PathBuf,
        /// Free bytes of the file system.
        got: u64,
        /// Free bytes that the rewrite needs.
        needed: u64,
    },
    /// A file with sorted rows of a rewrite contains other bytes than were written.
    #[error("{} is damaged: {what}; the rows are still in the database: remove {} and start again", path.display(), folder.display())]
    DamagedRun {
        /// The file.
        path: PathBuf,
        /// The folder of all sorted rows.
        folder: PathBuf,
        /// The damaged part.
        what: String,
    },
    /// There is something else at the path of the database.
    #[error("{} is not a database of this program: {found}; it was not changed: {RESTORE}", path.display())]
    NotADatabase {
        /// The database file.
        path: PathBuf,
        /// The thing that is there instead, in words.
        found: String,
    },
    /// The file ends too early.
    #[error("{} is cut off: got {got} bytes, expected {expected}; it was not changed: {RESTORE}", path.display())]
    Truncated {
        /// The database file.
        path: PathBuf,
        /// The length of the file, in bytes.
        got: u64,
        /// The length that its content needs, in bytes.
        expected: u64,
    },
    /// There was a database before, and now there is none.
    #[error("{} is gone, but there was a database before: put it back, or remove {}, {} and {} too and import the chain again", path.display(), beside[0].display(), beside[1].display(), beside[2].display())]
    Missing {
        /// The database file.
        path: PathBuf,
        /// The lock file, which says that there was a database, its write-ahead log, and its file
        /// with old blocks.
        beside: Box<[PathBuf; 3]>,
    },
    /// There was a write-ahead log before, and now there is none.
    #[error("{} is gone, and the last blocks may be in it: put it back, or remove {} to go on with the blocks of the database", path.display(), lock_file.display())]
    MissingLog {
        /// The write-ahead log.
        path: PathBuf,
        /// The lock file, which says that there was a log.
        lock_file: PathBuf,
    },
    /// There was a file with old blocks before, and now there is none.
    #[error("{} is gone, and old blocks are in it: put it back: {RESTORE}", path.display())]
    MissingBlocks {
        /// The blocks file.
        path: PathBuf,
    },
    /// The file cannot be opened or created.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The database file.
        path: PathBuf,
        /// The error of redb or the operating system.
        source: Box<redb::Error>,
    },
    /// The file system has no space left.
    #[error("cannot write {}: {source}; committed data is not lost: free space on its file system, then try again", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file cannot be read or written, for another reason than missing space.
    #[error("cannot use {}: {source}; committed data is safe if the disk is: look at the disk and the system's log, then start again", path.display())]
    Medium {
        /// The database file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file contains other bytes than were written.
    #[error("{} is damaged: {what}; `vnode db check` lists what is affected: {RESTORE}", path.display())]
    Damaged {
        /// The database file.
        path: PathBuf,
        /// The damaged part.
        what: String,
    },
    /// An old block is in an archive that cannot be read, or that nobody has given.
    #[error("block {number} is in the archive of old blocks, which cannot be read: {reason}")]
    Archive {
        /// The block's number.
        number: u64,
        /// The fault.
        reason: String,
    },
    /// The file is damaged and cannot be opened.
    #[error("{} is damaged and cannot be opened: {what}: {RESTORE}", path.display())]
    DamagedAtOpening {
        /// The database file.
        path: PathBuf,
        /// The damaged part.
        what: String,
    },
    /// The database was closed after a failure. The next snapshot or batch opens it again.
    #[error("{} was closed after a failure: repeat the request", path.display())]
    Closed {
        /// The database file.
        path: PathBuf,
    },
    /// A read or write of the batch failed before, so the batch cannot be committed.
    #[error("a read or write of {} failed, so nothing of its batch was committed", path.display())]
    BatchFailed {
        /// The database file.
        path: PathBuf,
    },
    /// Another error of redb.
    #[error("database error: {0}")]
    Database(Box<redb::Error>),
    /// A stored row cannot be one that this program wrote.
    #[error("corrupt {table} row {key}: {reason}; run `vnode db check`, or import the chain again")]
    Corrupt {
        /// The table's name in the file.
        table: &'static str,
        /// The row's key, in hex without prefix.
        key: String,
        /// The fault of the row.
        reason: String,
    },
}

impl StoreError {
    /// The error for a row of `table` that cannot be decoded, or that is missing.
    pub fn corrupt(table: crate::TableId, key: &[u8], reason: impl ToString) -> Self {
        Self::corrupt_row(table.name(), key, reason)
    }

    /// As [`Self::corrupt`], for the table with this name.
    pub(crate) fn corrupt_row(table: &'static str, key: &[u8], reason: impl ToString) -> Self {
        let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::Corrupt {
            table,
            key,
            reason: reason.to_string(),
        }
    }

    /// Whether the failed write can be repeated once there is space on the file system.
    pub const fn wants_space(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// Whether writing must stop until the program is started again: the disk fails for another
    /// reason than missing space, or the file cannot be opened.
    pub const fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Medium { .. }
                | Self::Schema { .. }
                | Self::WithoutTries { .. }
                | Self::NoSpaceToUpgrade { .. }
                | Self::DamagedRun { .. }
                | Self::NotADatabase { .. }
                | Self::Truncated { .. }
                | Self::Missing { .. }
                | Self::MissingLog { .. }
                | Self::MissingBlocks { .. }
                | Self::DamagedAtOpening { .. }
                | Self::Open { .. }
        )
    }

    /// Whether the data that was read is lost. Repeating the read gives the same error.
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Corrupt { .. })
    }

    /// From an error of the operating system about the file at `path`.
    pub(crate) fn medium(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full { path, source }
            }
            _ => Self::Medium { path, source },
        }
    }

    /// From an error of redb about the open database at `path`.
    pub(crate) fn database(path: &Path, error: redb::Error) -> Self {
        match error {
            redb::Error::Io(source) => Self::medium(path, source),
            redb::Error::Corrupted(what) => Self::Damaged {
                path: path.to_owned(),
                what,
            },
            redb::Error::PreviousIo | redb::Error::DatabaseClosed | redb::Error::LockPoisoned(_) => {
                Self::Closed {
                    path: path.to_owned(),
                }
            }
            other => Self::Database(Box::new(other)),
        }
    }

    /// From an error of redb while it opens the database at `path`.
    pub(crate) fn opening(path: &Path, error: redb::Error) -> Self {
        let path = path.to_owned();
        match error {
            redb::Error::DatabaseAlreadyOpen => Self::InUse { path },
            redb::Error::Io(source) => Self::medium(&path, source),
            redb::Error::Corrupted(what) => Self::DamagedAtOpening { path, what },
            source => Self::Open {
                path,
                source: Box::new(source),
            },
        }
    }

    /// From a call into the database at `path` that panicked or read a damaged page.
    pub(crate) fn call_failed(path: &Path, failure: CallFailure) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: failure.to_string(),
        }
    }

    /// The file at `path`, which is beside the database, is damaged or does not fit to it.
    pub(crate) fn damaged_beside(path: &Path, what: String) -> Self {
        Self::DamagedAtOpening {
            path: path.to_owned(),
            what,
        }
    }

    /// The file at `path` with sorted rows of a rewrite is damaged.
    pub(crate) fn damaged_run(path: &Path, what: String) -> Self {
        Self::DamagedRun {
            path: path.to_owned(),
            folder: path.parent().unwrap_or(path).to_owned(),
            what,
        }
    }

    /// Damage that was met while the database was opened keeps it from being opened.
    pub(crate) fn while_opening(self) -> Self {
        match self {
            Self::Damaged { path, what } => Self::DamagedAtOpening { path, what },
            other => other,
        }
    }

    /// As [`Self::call_failed`], while the database is opened.
    pub(crate) fn opening_failed(path: &Path, failure: CallFailure) -> Self {
        Self::DamagedAtOpening {
            path: path.to_owned(),
            what: failure.to_string(),
        }
    }
}
