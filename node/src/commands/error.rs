//! The errors of commands on a data directory.

use std::path::PathBuf;

use chain::check::CheckError;
use chain::import::stream_import::StreamImportError;
use chain::state::StateNotKept;
use history::{BuildError, IndexFileError};
use store::{BackupError, CompactionError, StoreError};

use crate::console::NodeCallError;
use crate::data_directory::DataDirectoryError;
use crate::logging::LogStartError;
use crate::options::OptionsError;
use crate::seals::SealDeviceError;

/// An error of a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The options contradict each other.
    #[error("{0}")]
    Options(#[from] OptionsError),
    /// The log cannot be started.
    #[error(transparent)]
    Log(#[from] LogStartError),
    /// The data directory cannot be used.
    #[error("{0}")]
    Directory(#[from] DataDirectoryError),
    /// The card for seals cannot be used.
    #[error(transparent)]
    Seals(#[from] SealDeviceError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The index by address cannot be used.
    #[error(transparent)]
    Index(#[from] IndexFileError),
    /// The index by address cannot be checked.
    #[error(transparent)]
    IndexCheck(#[from] BuildError),
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// An import ended before the end of its stream.
    #[error("{}: {error}", path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: Box<StreamImportError>,
    },
    /// A folder that is imported has no file.
    #[error("{}: got no file with a name that ends in .era1, expected at least one", path.display())]
    NoFiles {
        /// The folder.
        path: PathBuf,
    },
    /// The first block of an export is above the last.
    #[error("first block: got {first}, expected at most the last block {last}")]
    Range {
        /// First block.
        first: u64,
        /// Last block.
        last: u64,
    },
    /// A block above the head.
    #[error("block: got {got}, expected at most the head {head}")]
    AboveHead {
        /// Number of the block.
        got: u64,
        /// Number of the head.
        head: u64,
    },
    /// The state of a block is not kept.
    #[error(transparent)]
    NotKept(#[from] StateNotKept),
    /// A command was stopped by a signal, and can be continued.
    #[error("interrupted; to continue, give the same command again")]
    Unfinished,
    /// A check could not be completed.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A check found this many faults.
    #[error("{0} faults")]
    Faults(u64),
    /// The command does not work on a data directory.
    #[error("this command does not work on a data directory")]
    NotOnDirectory,
    /// A signal ended the command.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// The node that runs on the data directory cannot be asked.
    #[error("{0}")]
    Call(#[from] NodeCallError),
    /// The running node answers something else than this program expects.
    #[error("{method}: the running node is of another version: {reason}")]
    Answer {
        /// The method.
        method: String,
        /// The fault.
        reason: String,
    },
    /// The chain of the running node changed while it was read.
    #[error(
        "block {0}: the chain of the running node was reorganized meanwhile; give the same command again"
    )]
    Reorganized(u64),
    /// A block of the running node cannot be read.
    #[error("block {number}: {reason}")]
    Block {
        /// Its number.
        number: u64,
        /// The fault.
        reason: String,
    },
    /// A backup failed here.
    #[error("backup: {0}")]
    BackUp(#[from] BackupError),
    /// The database did not get shorter.
    #[error(transparent)]
    Compact(#[from] CompactionError),
    /// The running node could not make the backup.
    #[error("backup of the running node into {}: {reason}", folder.display())]
    Backup {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A path is no text, so no node can be told of it.
    #[error("{}: got a path that is not valid Unicode, expected one that is", .0.display())]
    NotText(PathBuf),
    /// The system failed to provide a thread or signals.
    #[error("{what}: {source}")]
    System {
        /// The attempt.
        what: &'static str,
        /// The error of the system.
        source: std::io::Error,
    },
}
