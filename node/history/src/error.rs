//! Errors of the index's file.

use std::path::PathBuf;

use primitives::PanicMessage;

/// The reason why the index cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum IndexFileError {
    /// The database failed.
    #[error("index by address {}: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// The error of redb.
        source: Box<redb::Error>,
    },
    /// The file has bytes that this program did not write.
    #[error("index by address {}: {what}: delete the file, and it is made again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        what: String,
    },
    /// redb met bytes that it cannot use.
    #[error("index by address {}: {panic}: delete the file, and it is made again", path.display())]
    Panicked {
        /// The file.
        path: PathBuf,
        /// The message of the panic.
        panic: PanicMessage,
    },
    /// The index is that of another chain.
    #[error("index by address {}: block 0: got {got}, expected {expected}: it is of another chain; delete the file, and it is made again", path.display())]
    OtherChain {
        /// The file.
        path: PathBuf,
        /// The hash of block 0 in the file.
        got: String,
        /// The hash of the chain's block 0.
        expected: String,
    },
    /// The file was made by another version.
    #[error("index by address {}: version: got {got}, expected {expected}: delete the file, and it is made again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        got: u64,
        /// The version that this program reads and writes.
        expected: u64,
    },
}
