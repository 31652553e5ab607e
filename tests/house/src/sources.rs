//! The files of the repository, their text, and their code without comments and strings.

use std::fs;
use std::path::{Path, PathBuf};

/// A file of the repository.
pub(crate) struct SourceFile {
    /// Path from the repository's root, with `/`.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package
        .ancestors()
        .nth(2)
        .expect("the package lies in tests/house")
        .to_owned()
}

/// All files below `folder` whose name ends in one of `endings`, in the order of their paths.
/// Build outputs, installed clients and hidden folders are left out.
pub(crate) fn files(folder: &str, endings: &[&str]) -> Vec<SourceFile> {
    let root = root();
    let mut paths = Vec::new();
    walk(&root.join(folder), &mut paths);
    paths.sort();
    paths
        .into_iter()
        .filter(|path| {
            endings
                .iter()
                .any(|ending| path.to_string_lossy().ends_with(ending))
        })
        .map(|path| SourceFile {
            path: path
                .strip_prefix(&root)
                .expect("the walk begins at the root")
                .to_string_lossy()
                .replace('\\', "/"),
            text: fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        })
        .collect()
}

/// The folders of the workspace's packages.
pub(crate) fn packages() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    let members = manifest.lines().skip_while(|line| *line != "members = [");
    let members = members.skip(1).take_while(|line| *line != "]");
    let packages: Vec<_> = members
        .map(|line| line.trim_matches([' ', ',', '"']).to_owned())
        .collect();
    assert!(packages.len() > 15, "only {packages:?} were read");
    packages
}

/// The Rust files of a package's source folder.
pub(crate) fn rust_files(folder: &str) -> Vec<SourceFile> {
    let files = files(folder, &[".rs"]);
    assert!(!files.is_empty(), "no Rust files in {folder}");
    files
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder of the checkout can be read").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "node_modules", "__pycache__"].contains(&name.as_str()) {
                walk(&path, paths);
            }
        } else {
            paths.push(path);
        }
    }
}

/// The text of a Rust file with comments, strings and the tests at its end replaced by spaces.
/// Line breaks stay, so the line numbers are those of the file.
pub(crate) fn code_only(text: &str) -> String {
    let production = text
        .find("\n#[cfg(test)]\nmod tests {")
        .map_or(text, |end| &text[..end]);
    let bytes = production.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &production[at..];
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(raw) = rest.strip_prefix("r#\"") {
            raw.find("\"#").map_or(rest.len(), |end| end + 5)
        } else if rest.starts_with('"') {
            string_len(rest)
        } else if rest.starts_with("'\"'") || rest.starts_with("b'\"'") {
            4.min(rest.len())
        } else {
            0
        };
        if skipped == 0 {
            let character = rest.chars().next().map_or(1, char::len_utf8);
            code.extend(&bytes[at..at + character]);
            at += character;
        } else {
            let blank = |byte: &u8| if *byte == b'\n' { b'\n' } else { b' ' };
            code.extend(bytes[at..at + skipped].iter().map(blank));
            at += skipped;
        }
    }
    String::from_utf8(code).expect("whole characters are blanked")
}

/// Length in bytes of the string literal that `text` begins with.
fn string_len(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// The identifier that `text` begins with. Empty if `text` begins with something else.
pub(crate) fn leading_identifier(text: &str) -> &str {
    let end = text
        .find(|character: char| !character.is_alphanumeric() && character != '_')
        .unwrap_or(text.len());
    &text[..end]
}

/// Fails with the list of `faults`, if there are any.
#[track_caller]
pub(crate) fn expect_none(faults: &[String], rule: &str) {
    assert!(
        faults.is_empty(),
        "{rule}\n{} places:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn comments_and_strings_are_blanked() {
    let code = code_only("let a = \"x // \\\" y\"; // comment\nlet b = r#\"use z\"#;\n");
    assert!(code.starts_with("let a = "));
    assert!(!code.contains("comment") && !code.contains("use z") && !code.contains('y'));
    assert_eq!(code.lines().count(), 2);
}
