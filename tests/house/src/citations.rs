//! Every source that a comment cites can be opened: `docs/FILE.md, 4.4` names a file and a heading
//! of this repository.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{SourceFile, expect_none, files};

/// Forms of citations that a reader could not follow.
const UNCLEAR: [&str; 5] = [
    "interface 2.",
    "interface 3.",
    "interface 4.",
    "facts, section",
    "its facts",
];

/// Numbers of the headings of each file in `docs/`, such as `4.4`.
fn headings() -> BTreeMap<String, BTreeSet<String>> {
    let numbers = |file: &SourceFile| {
        let headings = file.text.lines().filter(|line| line.starts_with('#'));
        headings
            .filter_map(|line| line.trim_start_matches('#').split_whitespace().next())
            .map(|number| number.trim_end_matches('.').to_owned())
            .filter(|number| number.starts_with(|first: char| first.is_ascii_digit()))
            .collect()
    };
    files("docs", &[".md"])
        .iter()
        .map(|file| (file.path.clone(), numbers(file)))
        .collect()
}

/// The text of comments and documents without the line breaks inside a comment, so that a citation
/// may continue on the next line.
fn flowing(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.trim_start();
        line.trim_start_matches(['/', '!', '#']).trim()
    });
    lines.collect::<Vec<_>>().join(" ")
}

#[test]
fn every_cited_heading_exists() {
    let headings = headings();
    let mut faults = Vec::new();
    let mut cited = 0;
    for file in files("", &[".rs", ".wgsl", ".md", ".toml"]) {
        let text = flowing(&file.text);
        for (at, _) in text.match_indices("docs/") {
            let rest = &text[at..];
            let Some(end) = rest.find(".md") else { continue };
            let name = &rest[..end + 3];
            if name.contains(|character: char| character.is_whitespace() || "*<FN{".contains(character)) {
                continue;
            }
            // Other projects have a folder of this name, too. Ours has one folder inside.
            let inside = &name["docs/".len()..];
            if inside.strip_prefix("guides/").unwrap_or(inside).contains('/') {
                continue;
            }
            if text[..at].ends_with(|before: char| before.is_alphanumeric() || "/:".contains(before)) {
                continue;
            }
            let Some(known) = headings.get(name) else {
                faults.push(format!("{}: {name} does not exist", file.path));
                continue;
            };
            let after = rest[end + 3..].trim_start_matches('`');
            let Some(number) = after.strip_prefix(", ") else {
                continue;
            };
            let number = number
                .split(|character: char| !character.is_ascii_digit() && character != '.')
                .next()
                .unwrap_or_default()
                .trim_end_matches('.');
            if number.is_empty() {
                continue;
            }
            cited += 1;
            if !known.contains(number) {
                faults.push(format!("{}: {name} has no heading {number}", file.path));
            }
        }
    }
    expect_none(&faults, "cite files and headings of docs/ that exist");
    assert!(
        cited > 20,
        "only {cited} citations were found: is their form still the one that this test reads?"
    );
}

#[test]
fn no_citation_is_unclear() {
    let mut faults = Vec::new();
    for file in files("", &[".rs", ".wgsl"]) {
        if file.path.starts_with("tests/house") {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            if line.contains("//") && UNCLEAR.iter().any(|unclear| line.contains(unclear)) {
                faults.push(format!("{}:{}: {}", file.path, index + 1, line.trim()));
            }
        }
    }
    expect_none(
        &faults,
        "write `docs/FILE.md, N`, so that the source can be opened",
    );
}

/// The identifier that a piece of code in a document names: the last part of its path, without the
/// parenthesis and the text after it. `None` if the code names no identifier.
fn named_item(code: &str) -> Option<&str> {
    let path = code.split(['(', '<', ' ']).next()?;
    let item = path.rsplit("::").next()?;
    let is_name = |item: &str| {
        item.len() > 3
            && item
                .chars()
                .all(|character| character.is_alphanumeric() || character == '_')
            && (item.contains('_') || item.contains(|character: char| character.is_ascii_uppercase()))
    };
    is_name(item).then_some(item)
}

#[test]
fn names_in_the_map_exist() {
    let sources = files("", &[".rs", ".toml", ".wgsl", ".json"]);
    let mut faults = Vec::new();
    let mut checked = 0;
    for file in files("", &["ARCHITECTURE.md", "CONTRIBUTING.md"]) {
        for code in file.text.split('`').skip(1).step_by(2) {
            let Some(item) = named_item(code) else { continue };
            // Placeholders, such as PACKAGE or UPDATE_EXAMPLES=1, are not names in the code.
            if code.contains('=') || code.contains('…') || code.contains('-') {
                continue;
            }
            checked += 1;
            if !sources.iter().any(|source| source.text.contains(item)) {
                faults.push(format!("{}: `{code}`", file.path));
            }
        }
    }
    expect_none(&faults, "the documents name what the source has");
    assert!(checked > 40, "only {checked} names were found");
}

/// The path of a source file that a piece of code in a comment or document names.
fn named_file(code: &str) -> Option<&str> {
    let path = code.split([':', ' ']).next()?;
    let is_path = |path: &str| {
        path.chars()
            .all(|character| character.is_alphanumeric() || "_./".contains(character))
    };
    let is_source = path.ends_with(".rs") || path.ends_with(".wgsl");
    (is_source && is_path(path) && path.len() > ".wgsl".len()).then_some(path)
}

#[test]
fn every_named_file_exists() {
    let sources = files("", &[".rs", ".wgsl"]);
    // The page on libraries names their files.
    let mut documents = files("", &[".md"]);
    documents.retain(|file| file.path != "docs/libraries.md");
    let exists = |path: &str| {
        sources.iter().any(|source| {
            let before = source.path.strip_suffix(path);
            before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
        })
    };
    let mut faults = Vec::new();
    let mut checked = 0;
    // Pieces of code in comments stand on one line.
    for file in sources.iter().chain(&documents) {
        let is_source = file.path.ends_with(".rs") || file.path.ends_with(".wgsl");
        for (index, line) in file.text.lines().enumerate() {
            if is_source && !line.trim_start().starts_with("//") {
                continue;
            }
            for path in line.split('`').skip(1).step_by(2).filter_map(named_file) {
                checked += 1;
                if !exists(path) {
                    faults.push(format!("{}:{}: {path}", file.path, index + 1));
                }
            }
        }
    }
    expect_none(&faults, "comments and documents name files that exist");
    assert!(checked > 40, "only {checked} names of files were found");
}
