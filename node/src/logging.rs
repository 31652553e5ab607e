//! The log: written to standard error, as text or as JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::options::VnodeOptions;

/// Starts the log at `--verbosity`. Crates outside this workspace log one level less.
pub(crate) fn start(options: &VnodeOptions) {
    start_at(options.verbosity, options.log_json);
}

/// Starts the log at this verbosity, 0 to 5.
pub(crate) fn start_at(verbosity: u8, json: bool) {
    store::quiet_contained_panics();
    let (own, others) = match verbosity {
        0 => ("off", "off"),
        1 => ("error", "error"),
        2 => ("warn", "warn"),
        3 => ("info", "warn"),
        4 => ("debug", "info"),
        _ => ("trace", "debug"),
    };
    let own_crates = [
        "vnode",
        "scs",
        "node",
        "chain",
        "microchain",
        "network",
        "miner",
        "rpc",
        "scs_node",
        "scs_service",
        "store",
        "stratum",
        "ethash",
        "keystore",
    ];
    let directives = own_crates
        .iter()
        .fold(others.to_owned(), |all, name| format!("{all},{name}={own}"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(directives))
        .with_writer(std::io::stderr)
        .with_target(false);
    // In tests a second start in the same process fails; the first log stays.
    let _ = if json {
        builder.json().flatten_event(true).try_init()
    } else {
        let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        builder.with_ansi(colours).try_init()
    };
}
