//! The options of the log, for all programs of this package.

use std::path::PathBuf;

/// Size of a log file, in MiB.
const FILE_MIB: u64 = 100;
/// The number of older log files that are kept.
const BACKUPS: u32 = 10;

/// The files and the form of the log.
///
/// The options have ids of their own: a global option takes the value of any argument of a
/// subcommand with the same id, such as `file`.
#[derive(Clone, Debug, clap::Args)]
pub struct LogOptions {
    /// Log as JSON, one line for each event
    #[arg(id = "log_json", long = "log.json", global = true)]
    pub json: bool,
    /// Write the log into this file as well as to standard error
    #[arg(id = "log_file", long = "log.file", value_name = "FILE", global = true)]
    pub file: Option<PathBuf>,
    /// Size of the log file, in MiB; when it is full it becomes FILE.1, and a new one begins
    #[arg(id = "log_max_size", long = "log.maxsize", value_name = "MIB", global = true, default_value_t = FILE_MIB, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub max_size: u64,
    /// Number of older log files that are kept: FILE.1, FILE.2 and so on
    #[arg(id = "log_max_backups", long = "log.maxbackups", value_name = "N", global = true, default_value_t = BACKUPS, value_parser = clap::value_parser!(u32).range(..=1000))]
    pub max_backups: u32,
    /// Send spans of requests and blocks to the OpenTelemetry collector at this address (OTLP over
    /// gRPC), such as <http://127.0.0.1:4317>
    #[arg(id = "log_otlp", long = "otlp", value_name = "URL", global = true)]
    pub otlp: Option<String>,
}
