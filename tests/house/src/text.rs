//! All files have the same form: the width of comments, the order of imports, and the names of the
//! files of modules with children.

use crate::sources::{SourceFile, expect_none, files};

/// Widest comment line in columns, indent included.
const COMMENT_WIDTH_MAX: usize = 100;

/// The group that an import belongs to: std first, then other packages, then this package.
fn import_group(line: &str, child_modules: &[&str]) -> u8 {
    let path = line.trim_start_matches("use ").trim_start_matches("::");
    let root = path.split([':', ';', ' ']).next().unwrap_or(path);
    match root {
        "std" | "core" | "alloc" => 0,
        "crate" | "super" | "self" => 2,
        root if child_modules.contains(&root) => 2,
        _ => 1,
    }
}

/// Faults of the imports at the top of a file.
fn import_faults(file: &SourceFile) -> Vec<String> {
    let child_modules: Vec<_> = file
        .text
        .lines()
        .filter_map(|line| {
            line.trim_start_matches("pub ")
                .trim_start_matches("pub(crate) ")
                .strip_prefix("mod ")
        })
        .map(|rest| rest.trim_end_matches([';', '{', ' ']))
        .collect();
    let mut faults = Vec::new();
    let mut last = None;
    for (index, line) in file.text.lines().enumerate() {
        if !line.starts_with("use ") {
            if !line.is_empty() && !line.starts_with([' ', '}', '#', '/']) {
                last = None;
            }
            continue;
        }
        let group = import_group(line, &child_modules);
        if last.is_some_and(|last| group < last) {
            faults.push(format!("{}:{}: {line}", file.path, index + 1));
        }
        last = Some(group);
    }
    faults
}

#[test]
fn comments_are_not_too_wide() {
    let mut faults = Vec::new();
    for file in files("", &[".rs", ".wgsl"]) {
        for (index, line) in file.text.lines().enumerate() {
            let comment = line.trim_start().starts_with("//");
            let cannot_break = line.contains("http") || line.contains("//! |");
            let width = line.chars().count();
            if comment && !cannot_break && width > COMMENT_WIDTH_MAX {
                faults.push(format!("{}:{}: {width} columns", file.path, index + 1));
            }
        }
    }
    expect_none(&faults, "comments are at most 100 columns wide");
}

#[test]
fn imports_have_one_order() {
    let faults: Vec<_> = files("", &[".rs"]).iter().flat_map(import_faults).collect();
    expect_none(
        &faults,
        "imports: std, then other packages, then crate, super and child modules",
    );
}

#[test]
fn a_folder_has_its_own_file_inside() {
    let mut faults = Vec::new();
    for file in files("", &[".rs"]) {
        let folder = crate::sources::root().join(file.path.trim_end_matches(".rs"));
        if folder.is_dir() {
            faults.push(format!(
                "{} stands beside a folder of its name: move it to mod.rs inside",
                file.path
            ));
        }
    }
    expect_none(&faults, "a module with children is a folder with a mod.rs");
}
