//! The commands that work on a data directory while no node is running on it.
//!
//! Each command opens the directory, calls one function of the packages below, and prints one line
//! about its result. Results go to standard output; progress and log go to standard error.

mod db;
mod dump;
mod error;
mod export;
mod export_tables;
mod import;
mod init;
mod output_file;
mod progress;
mod stop;

pub use error::CommandError;

use crate::logging;
use crate::options::{DbCommand, ExportFormat, VnodeCommand, VnodeOptions};
use crate::span_export;

/// Runs a command on a data directory.
///
/// # Errors
/// [`CommandError`] if the command fails or finds faults, and for a command that does not work on a
/// data directory.
pub fn run(options: &VnodeOptions, command: &VnodeCommand) -> Result<(), CommandError> {
    options.check()?;
    logging::start(options.verbosity, &options.log)?;
    let result = match command {
        VnodeCommand::Init { file } => init::run(options, file),
        VnodeCommand::Import { file } => import::run(options, file),
        VnodeCommand::Export {
            format: ExportFormat::Rlp,
            file,
            first,
            last,
            ..
        } => export::run(options, file, (*first, *last)),
        VnodeCommand::Export {
            format: ExportFormat::Parquet,
            tables,
            partition,
            file,
            first,
            last,
        } => export_tables::run(options, file, (*first, *last), (tables, *partition)),
        VnodeCommand::Db(DbCommand::Check { full }) => db::check(options, *full),
        VnodeCommand::Db(DbCommand::Stats) => db::stats(options),
        VnodeCommand::Db(DbCommand::Prune) => db::prune(options),
        VnodeCommand::Db(DbCommand::Compact) => db::compact(options),
        VnodeCommand::Dump { block, file } => dump::run(options, *block, file),
        VnodeCommand::Account(_)
        | VnodeCommand::Attach { .. }
        | VnodeCommand::Dumpconfig
        | VnodeCommand::Rpc { .. }
        | VnodeCommand::ScsDemo { .. }
        | VnodeCommand::Version { .. }
        | VnodeCommand::Completions { .. }
        | VnodeCommand::Manual { .. }
        | VnodeCommand::Testvec { .. } => Err(CommandError::NotOnDirectory),
    };
    span_export::finish();
    result
}
