//! The version that the node reports to clients, miners and users.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::options::NodeIdentity;

/// Name, version, platform and toolchain, separated by slashes.
pub fn client_version() -> String {
    version_of("vnode")
}

/// The same with the operator's own name for the node after the first part, as geth does.
pub(crate) fn client_version_of(identity: Option<&NodeIdentity>) -> String {
    match identity {
        Some(identity) => version_of(&format!("vnode/{identity}")),
        None => client_version(),
    }
}

/// The same for the program `name`.
pub fn version_of(name: &str) -> String {
    let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    format!(
        "{name}/v{}/{platform}/rust{}",
        env!("CARGO_PKG_VERSION"),
        env!("CARGO_PKG_RUST_VERSION")
    )
}

/// The same as an object, for scripts.
fn version_json() -> Value {
    json!({
        "name": "vnode",
        "version": env!("CARGO_PKG_VERSION"),
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
        "rust": env!("CARGO_PKG_RUST_VERSION"),
        "clientVersion": client_version(),
        // Given to the build of a release.
        "commit": option_env!("BUILD_COMMIT"),
    })
}

/// Prints the version, as one line or as JSON.
///
/// # Errors
/// An error of the standard output.
pub fn print_version(json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match json {
        true => writeln!(out, "{:#}", version_json()),
        false => writeln!(out, "{}", client_version()),
    }
}
