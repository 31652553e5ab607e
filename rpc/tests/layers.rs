//! The top-level modules of `rpc/src` import each other without a cycle.
//!
//! The test reads the source files. An import is a path that begins with `crate::`, or with
//! `super::` in a file that belongs directly to the crate's root. Comments and strings do not
//! count. `lib.rs` does not count either: it only declares the modules and re-exports from them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// For each module, the modules it imports, each with a file that does so.
type Imports = BTreeMap<String, BTreeMap<String, PathBuf>>;

#[test]
fn top_level_modules_form_no_cycle() {
    let imports = read_imports(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(imports.len() > 20, "only {} modules found", imports.len());
    if let Some(cycle) = find_cycle(&imports) {
        let steps: Vec<_> = cycle
            .windows(2)
            .map(|pair| {
                let file = &imports[&pair[0]][&pair[1]];
                format!("{} imports {} in {}", pair[0], pair[1], file.display())
            })
            .collect();
        panic!("modules import each other in a cycle:\n{}", steps.join("\n"));
    }
}

#[test]
fn feeds_do_not_know_who_follows_them() {
    let imports = read_imports(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    for follower in ["filters", "subscriptions"] {
        assert!(
            !imports["feeds"].contains_key(follower),
            "feeds imports {follower}"
        );
    }
}

/// Reads what each module under `source` imports.
fn read_imports(source: &Path) -> Imports {
    let mut files = Vec::new();
    collect_files(source, &mut files);
    let files: Vec<_> = files
        .into_iter()
        .map(|file| file.strip_prefix(source).expect("below the folder").to_owned())
        .filter(|file| file != Path::new("lib.rs"))
        .collect();
    let modules: BTreeSet<_> = files.iter().map(|file| module_of(file)).collect();
    let mut imports: Imports = modules
        .iter()
        .map(|module| (module.clone(), BTreeMap::new()))
        .collect();
    for file in &files {
        let own = module_of(file);
        let text = fs::read_to_string(source.join(file)).expect("a source file");
        let code = without_comments_and_strings(&text);
        let roots: &[&str] = if is_directly_below_root(file) {
            &["crate::", "super::"]
        } else {
            &["crate::"]
        };
        for (root, name) in roots
            .iter()
            .flat_map(|root| paths(&code, root).into_iter().map(move |name| (root, name)))
        {
            if modules.contains(&name) {
                if name != own {
                    let known = imports.get_mut(&own).expect("every module");
                    known.entry(name).or_insert_with(|| file.clone());
                }
            } else {
                assert!(
                    *root != "crate::",
                    "{}: `crate::{name}` hides which module it is from: import it from its module",
                    file.display()
                );
            }
        }
    }
    imports
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The top-level module of a file: its first folder, or its name where it has no folder.
fn module_of(file: &Path) -> String {
    let first = file.components().next().expect("a name").as_os_str();
    first.to_string_lossy().trim_end_matches(".rs").to_owned()
}

/// Whether `super` in this file is the crate's root: `name.rs` and `name/mod.rs`.
fn is_directly_below_root(file: &Path) -> bool {
    match file.components().count() {
        1 => true,
        2 => file.ends_with("mod.rs"),
        _ => false,
    }
}

/// The first name after each `root` in `code`; several names where braces follow.
fn paths(code: &str, root: &str) -> Vec<String> {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let first_name = |text: &str| {
        text.trim_start()
            .split(|letter| !is_name(letter))
            .next()
            .map(str::to_owned)
    };
    let mut found = Vec::new();
    for (position, _) in code.match_indices(root) {
        if code[..position].ends_with(|letter: char| is_name(letter) || letter == ':') {
            continue;
        }
        let rest = &code[position + root.len()..];
        match rest.strip_prefix('{') {
            None => found.extend(first_name(rest)),
            Some(group) => found.extend(members(group).into_iter().filter_map(first_name)),
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

/// The members of a group of imports, whose opening brace is not part of `group`.
fn members(group: &str) -> Vec<&str> {
    let (mut depth, mut start) = (0, 0);
    let mut members = Vec::new();
    for (position, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => {
                members.push(&group[start..position]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&group[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    members
}

/// The same code with a space in place of each comment and each string.
fn without_comments_and_strings(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let skipped = comment_len(rest).or_else(|| {
            let follows_name = code.ends_with(|last: char| last.is_alphanumeric() || last == '_');
            literal_len(rest, follows_name)
        });
        match skipped {
            Some(len) => {
                code.push(' ');
                rest = &rest[len..];
            }
            None => {
                code.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    code
}

/// The length of the comment that `text` begins with.
fn comment_len(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let mut depth = 0;
    let mut position = 0;
    while position < text.len() {
        let rest = &text.as_bytes()[position..];
        if rest.starts_with(b"/*") {
            (depth, position) = (depth + 1, position + 2);
        } else if rest.starts_with(b"*/") {
            (depth, position) = (depth - 1, position + 2);
            if depth == 0 {
                return Some(position);
            }
        } else {
            position += 1;
        }
    }
    Some(text.len())
}

/// The length of the string or the character that `text` begins with.
fn literal_len(text: &str, follows_name: bool) -> Option<usize> {
    if let Some(raw) = text.strip_prefix('r').filter(|_| !follows_name) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = 1 + hashes + 1;
            let len = text[body..].find(&end).expect("a raw string ends");
            return Some(body + len + end.len());
        }
    }
    let quote = text.chars().next().filter(|first| ['"', '\''].contains(first))?;
    if quote == '\'' {
        // A lifetime has no second quote after one character.
        let mut letters = text[1..].chars();
        let first = letters.next()?;
        if first != '\\' && letters.next() != Some('\'') {
            return None;
        }
    }
    let mut letters = text[1..].char_indices();
    while let Some((position, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == quote {
            return Some(1 + position + 1);
        }
    }
    None
}

/// A path from a module back to itself.
fn find_cycle(imports: &Imports) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    imports
        .keys()
        .find_map(|module| walk(imports, module, &mut Vec::new(), &mut done))
}

fn walk(
    imports: &Imports,
    module: &str,
    path: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(start) = path.iter().position(|earlier| earlier == module) {
        let mut cycle = path[start..].to_vec();
        cycle.push(module.to_owned());
        return Some(cycle);
    }
    if !done.insert(module.to_owned()) {
        return None;
    }
    path.push(module.to_owned());
    let cycle = imports[module]
        .keys()
        .find_map(|next| walk(imports, next, path, done));
    path.pop();
    cycle
}

#[test]
fn paths_are_found() {
    let code = without_comments_and_strings(
        r##"use crate::a::{B, C}; // crate::comment
        /* crate::one /* crate::two */ */ let _ = "crate::string \" crate::x"; let c = '"';
        fn f<'a>(x: &'a crate::b::X, y: char) { r#"crate::raw "#; '\''; crate::c::g(); }
        use crate::{d, e::{f, g}};"##,
    );
    assert_eq!(paths(&code, "crate::"), ["a", "b", "c", "d", "e"]);
}

#[test]
fn cycles_are_found() {
    let imports = |edges: &[(&str, &str)]| {
        let mut imports = Imports::new();
        for (from, to) in edges {
            imports.entry((*to).to_owned()).or_default();
            let known = imports.entry((*from).to_owned()).or_default();
            known.insert((*to).to_owned(), PathBuf::new());
        }
        imports
    };
    assert_eq!(find_cycle(&imports(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let cycle = find_cycle(&imports(&[("a", "b"), ("b", "c"), ("c", "b")]));
    assert_eq!(cycle.expect("a cycle"), ["b", "c", "b"]);
}
