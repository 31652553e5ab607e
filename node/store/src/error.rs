//! Why the store refuses or fails.
//!
//! Errors of the medium (full disk, lost file) and of the content (bytes that no code of
//! ours wrote) are told apart, because only the second asks for a repair.

use std::path::PathBuf;

/// Why a read or write of the store failed.
#[derive(Debug, thiserror::Error)]
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
    /// The file cannot be opened or made.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The database file.
        path: PathBuf,
        /// What redb or the system said.
        source: Box<redb::Error>,
    },
    /// The database failed while open: a full disk, an I/O error, a damaged page.
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
}

/// Every error of redb after opening becomes [`StoreError::Database`].
macro_rules! from_redb {
    ($($kind:ty),*) => {
        $(impl From<$kind> for StoreError {
            fn from(error: $kind) -> Self {
                Self::Database(Box::new(error.into()))
            }
        })*
    };
}

from_redb!(
    redb::Error,
    redb::StorageError,
    redb::TableError,
    redb::TransactionError,
    redb::CommitError,
    redb::SetDurabilityError
);
