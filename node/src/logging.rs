//! The log: written to standard error and, if asked for, to a file, as text or as JSON.

use std::path::PathBuf;
use std::sync::Mutex;

use daemon::Screen;
use tracing_subscriber::fmt::{Layer, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::log_file::LogFile;
use crate::options::LogOptions;
use crate::span_export::{self, SpanExportError};

/// An error while the log starts.
#[derive(Debug, thiserror::Error)]
pub enum LogStartError {
    /// The log file cannot be opened.
    #[error("--log.file {}: {source}", .path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Spans cannot be sent.
    #[error(transparent)]
    Spans(#[from] SpanExportError),
}

/// The crates of this workspace.
const OWN_CRATES: [&str; 19] = [
    "vnode",
    "scs",
    "vnode_tools",
    "tools",
    "node",
    "daemon",
    "chain",
    "microchain",
    "network",
    "engine",
    "rpc",
    "scs_node",
    "scs_service",
    "store",
    "stratum",
    "stratum_server",
    "ethash",
    "keystore",
    "etl",
];

/// Starts the log at this verbosity, 0 to 5. Crates outside this workspace log one level less.
/// Returns the screen that has the log; it may show rows below the log, unless the log is JSON or
/// off.
///
/// # Errors
/// [`LogStartError`] if the log file cannot be opened.
pub fn start(verbosity: u8, options: &LogOptions) -> Result<Screen, LogStartError> {
    let screen = Screen::choose(options.json || verbosity == 0);
    store::quiet_contained_panics();
    let (own, others) = match verbosity {
        0 => ("off", "off"),
        1 => ("error", "error"),
        2 => ("warn", "warn"),
        3 => ("info", "warn"),
        4 => ("debug", "info"),
        _ => ("trace", "debug"),
    };
    let directives = OWN_CRATES
        .iter()
        .fold(others.to_owned(), |all, name| format!("{all},{name}={own}"));
    let filter = || EnvFilter::new(&directives);
    let file = options.file.as_deref().map(|path| {
        let opened = LogFile::open(path, options.max_size << 20, options.max_backups);
        opened.map_err(|source| LogStartError::File {
            path: path.to_owned(),
            source,
        })
    });
    let file = file.transpose()?;
    let file = file.map(|file| layer(options.json, false, Mutex::new(file)).with_filter(filter()));
    let spans = options.otlp.as_deref();
    let spans = spans.map(|endpoint| span_export::layer(endpoint, &OWN_CRATES));
    let spans = spans.transpose()?;
    // In tests a second start in the same process fails; the first log stays.
    let _ = tracing_subscriber::registry()
        .with(layer(options.json, screen.colours(), screen.clone()).with_filter(filter()))
        .with(file)
        .with(spans)
        .try_init();
    Ok(screen)
}

/// The part of the log that writes to one place.
fn layer<S>(
    json: bool,
    colours: bool,
    writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> Box<dyn tracing_subscriber::Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    let layer = Layer::default()
        .with_target(false)
        .with_ansi(colours)
        .with_writer(writer);
    match json {
        true => layer.json().flatten_event(true).boxed(),
        false => layer.boxed(),
    }
}
