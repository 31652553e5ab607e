//! Finds the binaries `vnode`, `vnode-tools`, `scs` and `miner`.
//!
//! `cargo test --workspace` has built them before a test runs. `cargo` is started only if a binary
//! is missing or older than the sources, for example because a single package is tested. It then
//! builds with the features of the whole workspace, in the profile and the target directory of the
//! running test. So nothing is built twice. The environment variables `VNODE_BIN`, `SCS_BIN` and
//! `MINER_BIN` name existing binaries instead.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// Prefixes of the variables that `cargo` sets for a test.
const OWN_VARIABLES: [&str; 5] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_BIN_",
    "CARGO_CRATE_",
    "CARGO_PRIMARY_",
];

/// Files and folders that the binaries are built from.
const SOURCES: [&str; 6] = ["Cargo.toml", "Cargo.lock", "miner", "node", "rpc", "shaders"];
/// Folders beside them whose files are in no binary.
const NO_SOURCES: [&str; 3] = ["tests", "benches", "examples"];

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package is in the workspace")
}

/// Folder of the profile that the running test or benchmark was built with, such as
/// `<target>/release`.
pub fn profile_directory() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let folder = test.parent().expect("a program is in a folder");
    if !folder.ends_with("deps") {
        // Not a test but a program of its own, which is in the same folder as the binaries.
        return folder.to_owned();
    }
    let profile = folder.parent();
    profile.expect("`deps` is in the folder of a profile").to_owned()
}

/// The target directory of the running test.
pub fn target_directory() -> PathBuf {
    profile_directory()
        .parent()
        .expect("the folder of a profile is in the target folder")
        .to_owned()
}

/// A `cargo` command in the workspace with the running test's target directory and profile.
pub fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(workspace())
        .arg(subcommand)
        .arg("--target-dir")
        .arg(target_directory());
    if profile_directory().ends_with("release") {
        command.arg("--release");
    }
    // Removes what `cargo` tells this test of its own package. Some build scripts of dependencies
    // read such variables, and everything that depends on them would be built again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if OWN_VARIABLES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Path of the binary `vnode`.
pub fn vnode_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let vnode = find("vnode", "VNODE_BIN");
        if std::env::var_os("VNODE_BIN").is_none() {
            // `vnode` starts it for some commands, and expects it beside itself.
            find("vnode-tools", "VNODE_TOOLS_BIN");
        }
        vnode
    })
}

/// Path of the binary `scs`.
pub fn scs_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| find("scs", "SCS_BIN"))
}

/// Path of the binary `miner`.
pub fn miner_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| find("miner", "MINER_BIN"))
}

/// Returns the binary `name`, or the existing one that the environment variable `variable` names.
fn find(name: &str, variable: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let path = profile_directory().join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if modified(&path).is_some_and(|built| newest_source() <= built) {
        return path;
    }
    let output = cargo("build").args(["--workspace", "--bin", name]).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run cargo: {error}"));
    assert!(
        output.status.success(),
        "{name} does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(path.is_file(), "cargo did not build {}", path.display());
    path
}

/// The time at which a file was written; `None` if there is no such file.
fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// The time of the newest file that the binaries are built from.
fn newest_source() -> SystemTime {
    static NEWEST: OnceLock<SystemTime> = OnceLock::new();
    *NEWEST.get_or_init(|| {
        let sources = SOURCES.iter().map(|name| workspace().join(name));
        sources
            .map(|path| newest(&path))
            .max()
            .expect("there are sources")
    })
}

/// The time of the newest file in `path`, which is a file or a folder.
fn newest(path: &Path) -> SystemTime {
    let Ok(entries) = fs::read_dir(path) else {
        return modified(path).unwrap_or(SystemTime::UNIX_EPOCH);
    };
    let entries = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let sources = entries.filter(|entry| !NO_SOURCES.iter().any(|name| entry.ends_with(name)));
    sources
        .map(|entry| newest(&entry))
        .max()
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
