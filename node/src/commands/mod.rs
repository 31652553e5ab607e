//! The commands that work on a data directory while no node runs on it.
//!
//! Each opens the directory, does one thing with the packages below, says in a line what it
//! did, and fails with a reason. Results go to standard output, progress and log to standard error.

mod db;
pub(crate) mod directory;
mod dump;
mod export;
mod import;
mod init;
mod progress;
mod sink;
mod stop;

pub use directory::DirectoryError;

use std::io::Write;
use std::path::PathBuf;

use chain::check::CheckError;
use chain::import::bulk::BulkError;
use store::StoreError;

use crate::logging;
use crate::options::{Command, DbCommand, OptionsError, VnodeOptions};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The options contradict each other.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file to read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// A file to write.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// An import that did not come to the end of its stream.
    #[error("{}: {error}", path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// Why.
        error: Box<BulkError>,
    },
    /// An export that begins after its end.
    #[error("the first block, {first}, is above the last, {last}")]
    Range {
        /// First block.
        first: u64,
        /// Last block.
        last: u64,
    },
    /// A block that is not there yet.
    #[error("got block {got}, want at most the head, block {head}")]
    AboveHead {
        /// The number.
        got: u64,
        /// The head's number.
        head: u64,
    },
    /// A check that could not be done.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A check that found something.
    #[error("{0} faults")]
    Faults(u64),
    /// A command that works on no data directory.
    #[error("this command has a door of its own")]
    Elsewhere,
    /// Ended by a signal.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// Something of the system is missing: threads, signals.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's words.
        source: std::io::Error,
    },
}

/// Runs one of the commands on data directories. The others are run elsewhere.
///
/// # Errors
/// [`CommandError`] when it fails, or finds faults.
pub fn run(options: &VnodeOptions, command: &Command) -> Result<(), CommandError> {
    options.check()?;
    logging::start(options);
    match command {
        Command::Init { file } => init::run(options, file),
        Command::Import { file } => import::run(options, file),
        Command::Export { file, first, last } => export::run(options, file, *first, *last),
        Command::Db(DbCommand::Check { full }) => db::check(options, *full),
        Command::Db(DbCommand::Stats) => db::stats(options),
        Command::Dump { block, file } => dump::run(options, *block, file),
        Command::Account(_) | Command::Attach { .. } | Command::Rpc { .. } | Command::Testvec { .. } => {
            Err(CommandError::Elsewhere)
        }
    }
}

/// A line to standard output. That nobody reads it any more is no failure of what was done.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
