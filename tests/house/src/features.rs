//! Programs and tests have the same features of their dependencies, so nothing is compiled twice.
//! Compared are `cargo run`, `cargo test --workspace`, the `cargo build` that tests start, and
//! `cargo test` of each package.

use std::collections::BTreeSet;
use std::process::Command;

use crate::sources::{expect_none, packages};

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
    let mut faults = Vec::new();
    let mut compare = |selection: &[&str], edges: &str| {
        let others = built(&[selection, &["--edges", edges]].concat());
        let different = others.difference(&tests);
        faults.extend(different.map(|line| format!("{}: {line}", selection.join(" "))));
    };
    compare(&["--package", "node"], "normal,build");
    compare(&["--workspace"], "normal,build");
    for folder in packages() {
        let manifest = format!("{folder}/Cargo.toml");
        compare(&["--manifest-path", &manifest], "normal,build,dev");
    }
    expect_none(
        &faults,
        "let [workspace.dependencies] or the manifest of `features` turn on what the tests of all turn on",
    );
}
