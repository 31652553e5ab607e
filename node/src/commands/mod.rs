//! The commands that work on a data directory while no node is running on it. `export`, `db stats`
//! and `db backup` ask the node if one runs.
//!
//! Each command opens the directory, calls one function of the packages below, and prints one line
//! about its result. Results go to standard output; progress and log go to standard error.

mod backup;
mod chain_source;
mod db;
mod dump;
mod error;
mod export;
mod export_era1;
mod import;
mod init;
mod output_file;
mod running;
mod running_traces;
mod stop_flag;

pub use chain_source::{ChainSource, RunningChain};
pub use error::CommandError;
pub use export::export_range;
pub use stop_flag::stop_flag;

use crate::logging;
use crate::options::{DbCommand, ExportFormat, VnodeCommand, VnodeOptions};
use crate::span_export;

/// Runs a command on a data directory.
///
/// # Errors
/// [`CommandError`] if the command fails or finds faults, and for a command that does not work on a
/// data directory.
pub fn run(options: &VnodeOptions, command: &VnodeCommand) -> Result<(), CommandError> {
    start(options)?;
    let result = match command {
        VnodeCommand::Init { file } => init::run(options, file),
        VnodeCommand::Import { files, batch } => import::run(options, files, *batch),
        VnodeCommand::Export {
            format: ExportFormat::Rlp,
            file,
            first,
            last,
            ..
        } => export::run(options, file, (*first, *last)),
        VnodeCommand::Export {
            format: ExportFormat::Era1,
            file,
            first,
            last,
            ..
        } => export_era1::run(options, file, (*first, *last)),
        VnodeCommand::Db(DbCommand::Check { full }) => db::check(options, *full),
        VnodeCommand::Db(DbCommand::Stats) => db::stats(options),
        VnodeCommand::Db(DbCommand::Backup { folder }) => backup::run(options, folder),
        VnodeCommand::Db(DbCommand::Prune) => db::prune(options),
        VnodeCommand::Db(DbCommand::Compact) => db::compact(options),
        VnodeCommand::Dump { block, file } => dump::run(options, *block, file),
        VnodeCommand::Export {
            format: ExportFormat::Parquet,
            ..
        }
        | VnodeCommand::Account(_)
        | VnodeCommand::Attach { .. }
        | VnodeCommand::Dumpconfig
        | VnodeCommand::Rpc { .. }
        | VnodeCommand::ScsDemo { .. }
        | VnodeCommand::Version { .. }
        | VnodeCommand::Completions { .. }
        | VnodeCommand::Manual { .. }
        | VnodeCommand::Testvec(_) => Err(CommandError::NotOnDirectory),
    };
    span_export::finish();
    result
}

/// Checks the options and starts the log.
///
/// # Errors
/// [`CommandError`] if the options contradict each other, or the log file cannot be opened.
pub fn start(options: &VnodeOptions) -> Result<(), CommandError> {
    options.check()?;
    logging::start(options.verbosity, &options.log)?;
    options.warn();
    Ok(())
}
