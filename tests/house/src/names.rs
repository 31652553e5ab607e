//! Each name has one meaning: no two structs, enums, traits or aliases of the workspace have the
//! same name.

use std::collections::BTreeMap;

use crate::sources::{code_only, expect_none, leading_identifier, packages, rust_files};

/// The name of the type that a line declares. `None` if the line declares no type.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.trim_start();
    // An alias inside an impl or a trait is an associated type.
    let associated = line.starts_with(' ') && words.starts_with("type ");
    if associated {
        return None;
    }
    if let Some(rest) = words.strip_prefix("pub") {
        words = rest.trim_start();
        if words.starts_with('(') {
            words = words[words.find(')')? + 1..].trim_start();
        }
    }
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let rest = kinds.iter().find_map(|kind| words.strip_prefix(kind))?;
    let name = leading_identifier(rest);
    name.starts_with(|first: char| first.is_ascii_uppercase())
        .then_some(name)
}

#[test]
fn a_type_name_has_one_meaning() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in packages()
        .iter()
        .flat_map(|package| rust_files(&format!("{package}/src")))
    {
        // Nobody else sees the types of a program.
        if file.path.ends_with("/tests.rs") || file.path.contains("/src/bin/") {
            continue;
        }
        for (index, line) in code_only(&file.text).lines().enumerate() {
            if let Some(name) = declared(line) {
                let place = format!("{}:{}", file.path, index + 1);
                places.entry(name.to_owned()).or_default().push(place);
            }
        }
    }
    assert!(places.len() > 500, "only {} types were found", places.len());
    let faults: Vec<_> = places
        .iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    expect_none(&faults, "give each of these types a name of its own");
}
