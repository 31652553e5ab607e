//! `docs/evidence.md` claims nothing that nobody can repeat: each command names a package and tests
//! that exist, each attack has its test, each dated result its commit, and each fuzz target a row.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{expect_none, files, packages, root, rust_files};

const PAGE: &str = "docs/evidence.md";

fn page() -> String {
    std::fs::read_to_string(root().join(PAGE)).expect("the page is there")
}

/// The pieces of code in a line.
fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The text of all Rust files of each package, by its name.
fn sources() -> BTreeMap<String, String> {
    let source = |folder: String| {
        let manifest = std::fs::read_to_string(root().join(&folder).join("Cargo.toml")).expect("a manifest");
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = \""));
        let name = name
            .expect("a package has a name")
            .trim_end_matches('"')
            .to_owned();
        let text = rust_files(&folder).into_iter().map(|file| file.text);
        (name, text.collect())
    };
    packages().into_iter().map(source).collect()
}

/// The fault of a command `cargo test -p PACKAGE … FILTER` or `cargo run -p PACKAGE …`.
fn command_fault(command: &str, sources: &BTreeMap<String, String>) -> Option<String> {
    let words: Vec<_> = command.split(' ').collect();
    let package = words.iter().skip_while(|word| **word != "-p").nth(1)?;
    let Some(source) = sources.get(*package) else {
        return Some(format!("no package {package}"));
    };
    // The words after those of `--test`, `-p` and other options are the parts of names of tests.
    let mut filters = Vec::new();
    let mut rest = words
        .iter()
        .skip_while(|word| !["test", "run"].contains(*word))
        .skip(1);
    while let Some(word) = rest.next() {
        match *word {
            "-p" | "--test" => drop(rest.next()),
            "--" if command.contains(" run ") => break,
            option if option.starts_with('-') => {}
            filter => filters.extend(filter.split("::").filter(|name| !name.is_empty())),
        }
    }
    let is_known = |name: &&str| {
        ["fn", "mod"]
            .iter()
            .any(|kind| source.contains(&format!("{kind} {name}")))
    };
    let unknown = filters.into_iter().find(|name| !is_known(name))?;
    Some(format!("no test or module {unknown} in {package}"))
}

#[test]
fn commands_are_judged() {
    let text = "mod page;\nfn the_page_is_true() {}".to_owned();
    let sources = BTreeMap::from([("one".to_owned(), text)]);
    let fault = |command: &str| command_fault(command, &sources);
    assert_eq!(
        fault("cargo test --release -p one --test one page::the_page"),
        None
    );
    assert_eq!(fault("cargo run --release -p one -- --seed 1"), None);
    assert!(fault("cargo test -p two the_page").is_some());
    assert!(fault("cargo test -p one page::a_page").is_some());
}

#[test]
fn each_command_of_the_page_can_be_run() {
    let (page, sources) = (page(), sources());
    let mut commands = 0;
    let mut faults = Vec::new();
    for line in page.lines() {
        for command in code(line).filter_map(|code| Some(&code[code.find("cargo ")?..])) {
            commands += 1;
            faults.extend(command_fault(command, &sources).map(|fault| format!("{command}: {fault}")));
        }
    }
    assert!(commands > 8, "only {commands} commands were read");
    expect_none(&faults, "a command of docs/evidence.md runs tests that exist");
}

#[test]
fn each_attack_of_the_page_has_a_test() {
    let tests: String = rust_files("node/network")
        .into_iter()
        .map(|file| file.text)
        .collect();
    let page = page();
    let names: BTreeSet<_> = page.split("CVE-").skip(1).map(|rest| &rest[..10]).collect();
    assert!(names.len() >= 6, "{names:?}");
    let is_missing = |name: &&&str| !tests.contains(&format!("fn cve_{}_", name.replace('-', "_")));
    let faults: Vec<_> = names
        .iter()
        .filter(is_missing)
        .map(|name| format!("CVE-{name}"))
        .collect();
    expect_none(&faults, "an attack of docs/evidence.md has a test of its name");
}

#[test]
fn each_dated_result_names_its_commit() {
    let is_commit = |word: &str| word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let names_commit = |line: &str| {
        line.split(|mark: char| !mark.is_ascii_alphanumeric())
            .any(is_commit)
    };
    let page = page();
    let faults: Vec<_> = page
        .lines()
        .filter(|line| line.contains("2026-1") && !names_commit(line))
        .map(str::to_owned)
        .collect();
    expect_none(&faults, "a dated result of docs/evidence.md names its commit");
}

#[test]
fn each_fuzz_target_has_a_row() {
    let target = |path: &str| {
        Some(
            path.strip_prefix("fuzz/fuzz_targets/")?
                .trim_end_matches(".rs")
                .to_owned(),
        )
    };
    let paths = files("fuzz", &[".rs"]).into_iter();
    let targets: BTreeSet<_> = paths.filter_map(|file| target(&file.path)).collect();
    let page = page();
    let table = page.split("## Fuzzing").nth(1).expect("a heading");
    let table = table.split("\n## ").next().unwrap_or_default();
    let row = |line: &str| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned());
    let rows: BTreeSet<_> = table.lines().filter_map(row).collect();
    assert_eq!(rows, targets);
}
