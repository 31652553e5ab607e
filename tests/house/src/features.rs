//! Programs and tests have the same features of their dependencies, so nothing is compiled twice.
//! Compared are `cargo run`, `cargo test --workspace`, the `cargo build` that tests start, and
//! `cargo test` of each package. Besides, the lock file of the fuzz targets names the dependencies
//! that the manifests name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use crate::sources::{expect_none, packages, root};

/// The packages that `cargo` would build with `options`, each with its features.
fn built(options: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(["tree", "--locked", "--prefix", "none"])
        .args(["--format", "{p} [{f}]"])
        .args(options)
        .output()
        .expect("cargo runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree {options:?}: {stderr}");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
    lines.map(|line| line.replace(" (proc-macro)", "")).collect()
}

#[test]
fn programs_and_tests_share_the_features_of_their_dependencies() {
    let tests = built(&["--workspace", "--edges", "normal,build,dev"]);
    assert!(tests.len() > 300, "only {} packages were found", tests.len());
    let different = |selection: &[&str], edges: &str| -> Vec<String> {
        let others = built(&[selection, &["--edges", edges]].concat());
        let different = others.difference(&tests);
        different
            .map(|line| format!("{}: {line}", selection.join(" ")))
            .collect()
    };
    let mut faults = different(&["--package", "node"], "normal,build");
    faults.extend(different(&["--workspace"], "normal,build"));
    // Each call of cargo reads all manifests, which takes half a second.
    let folders = packages();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let parts = folders.chunks(folders.len().div_ceil(threads)).map(|part| {
            scope.spawn(|| {
                let compare = |folder: &String| {
                    let manifest = format!("{folder}/Cargo.toml");
                    different(&["--manifest-path", &manifest], "normal,build,dev")
                };
                part.iter().flat_map(compare).collect::<Vec<_>>()
            })
        });
        for part in parts.collect::<Vec<_>>() {
            faults.extend(part.join().expect("cargo runs"));
        }
    });
    expect_none(
        &faults,
        "let [workspace.dependencies] or the manifest of `features` turn on what the tests of all turn on",
    );
}

/// The dependencies that a manifest names in its first list.
fn dependencies_of(manifest: &str) -> Vec<&str> {
    let lines = manifest
        .lines()
        .skip_while(|line| *line != "[dependencies]")
        .skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines
        .filter(|line| line.starts_with(|first: char| first.is_ascii_alphabetic()))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .collect()
}

/// The fuzz targets are a workspace of their own, which no other build compiles.
#[test]
fn the_lock_file_of_the_fuzz_targets_follows_the_manifests() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("a file of the workspace");
    let lock = read("fuzz/Cargo.lock");
    let locked: BTreeMap<&str, &str> = lock
        .split("[[package]]\nname = \"")
        .skip(1)
        .filter_map(|package| package.split_once('"'))
        .collect();
    let (mut compared, mut faults) = (0, Vec::new());
    for folder in packages() {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
        let name = name.expect("a package has a name").trim_matches('"');
        let Some(package) = locked.get(name) else { continue };
        for dependency in dependencies_of(&manifest) {
            compared += 1;
            // A version follows, if the lock file has several of them.
            let is_locked = [format!("\"{dependency}\""), format!("\"{dependency} ")];
            if !is_locked.iter().any(|text| package.contains(text)) {
                faults.push(format!("fuzz/Cargo.lock: {name} without {dependency}"));
            }
        }
    }
    assert!(compared > 100, "only {compared} dependencies were compared");
    expect_none(&faults, "`cargo metadata` in `fuzz` writes its lock file anew");
}
