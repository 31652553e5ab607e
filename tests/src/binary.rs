//! Builds the binaries `vnode` and `miner` once per test process and says where they lie.
//!
//! Profile and target directory are those of the running test, read off its own path, so
//! nothing is built twice. `VNODE_BIN` and `MINER_BIN` name ready binaries instead.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The workspace's root.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package lies in the workspace")
}

/// Folder of the profile that the running test, or benchmark, was built in: `<target>/release`.
pub fn profile_directory() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let folder = test.parent().expect("a program lies in a folder");
    if !folder.ends_with("deps") {
        // No test, but a program of its own: it lies where the node will.
        return folder.to_owned();
    }
    let profile = folder.parent();
    profile.expect("`deps` lies in a profile's folder").to_owned()
}

/// The target directory of the running test.
pub fn target_directory() -> PathBuf {
    profile_directory()
        .parent()
        .expect("a profile's folder lies in the target folder")
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
    command
}

/// The path of the `vnode` binary; the first call in a process builds it.
pub fn vnode_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("node", "vnode", "VNODE_BIN"))
}

/// The path of the `miner` binary; the first call in a process builds it.
pub fn miner_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("miner", "miner", "MINER_BIN"))
}

fn built(package: &str, name: &str, ready: &str) -> PathBuf {
    if let Some(ready) = std::env::var_os(ready) {
        return ready.into();
    }
    let output = cargo("build").args(["-p", package, "--bin", name]).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run cargo: {error}"));
    assert!(
        output.status.success(),
        "{name} does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let path = profile_directory().join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.is_file(), "cargo built no {}", path.display());
    path
}
