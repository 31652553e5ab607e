//! Builds the binaries `vnode`, `scs` and `miner` once per test process and returns their paths.
//!
//! Profile and target directory are those of the running test, which its own path shows, so nothing
//! is built twice. The environment variables `VNODE_BIN`, `SCS_BIN` and `MINER_BIN` name existing
//! binaries instead.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// How the names of the variables begin that `cargo` sets for a test.
const OWN_VARIABLES: [&str; 5] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_BIN_",
    "CARGO_CRATE_",
    "CARGO_PRIMARY_",
];

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
    // What `cargo` tells this test of its own package. Some build scripts of dependencies look at
    // such variables, and everything that depends on them would be built again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if OWN_VARIABLES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Path of the binary `vnode`. The first call in a process builds it.
pub fn vnode_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("node", "vnode", "VNODE_BIN"))
}

/// Path of the binary `scs`. The first call in a process builds it.
pub fn scs_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("node", "scs", "SCS_BIN"))
}

/// Path of the binary `miner`. The first call in a process builds it.
pub fn miner_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("miner", "miner", "MINER_BIN"))
}

/// Builds the binary `name`, unless the environment variable `variable` names an existing one.
fn build(package: &str, name: &str, variable: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let output = cargo("build").args(["-p", package, "--bin", name]).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run cargo: {error}"));
    assert!(
        output.status.success(),
        "{name} does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let path = profile_directory().join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.is_file(), "cargo did not build {}", path.display());
    path
}
