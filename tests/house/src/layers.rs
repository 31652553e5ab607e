//! The top-level modules of a package do not depend on each other in a cycle.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{code_only, expect_none, leading_identifier, packages, rust_files};

/// Packages that may have cycles. In `primitives` the readers of RLP return the error that wraps
/// RLP's own.
const EXEMPT: [&str; 1] = ["node/primitives"];

type Graph = BTreeMap<String, BTreeSet<String>>;

/// For each top-level module below `folder`, the modules that it names.
fn graph(folder: &str) -> Graph {
    let files = rust_files(folder);
    let module = |path: &str| {
        let inside = &path[folder.len() + 1..];
        let first = inside.split('/').next().unwrap_or(inside);
        first.trim_end_matches(".rs").to_owned()
    };
    let modules: BTreeSet<_> = files.iter().map(|file| module(&file.path)).collect();
    let mut graph = Graph::new();
    for file in &files {
        let from = module(&file.path);
        let is_test = file.path.ends_with("/tests.rs") || file.path.ends_with("/fixture.rs");
        if is_test || ["lib", "main", "bin"].contains(&from.as_str()) {
            continue;
        }
        let code = code_only(&file.text);
        let named = graph.entry(from.clone()).or_default();
        for (at, _) in code.match_indices("crate::") {
            let to = leading_identifier(&code[at + "crate::".len()..]);
            if to != from && modules.contains(to) {
                named.insert(to.to_owned());
            }
        }
    }
    graph
}

/// A cycle of `graph` as `a → b → a`, if there is one.
fn cycle(graph: &Graph) -> Option<String> {
    fn visit(
        graph: &Graph,
        module: &str,
        path: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<String> {
        if let Some(start) = path.iter().position(|passed| passed == module) {
            let mut cycle = path[start..].to_vec();
            cycle.push(module.to_owned());
            return Some(cycle.join(" → "));
        }
        if !done.insert(module.to_owned()) {
            return None;
        }
        path.push(module.to_owned());
        let found = graph
            .get(module)
            .into_iter()
            .flatten()
            .find_map(|next| visit(graph, next, path, done));
        path.pop();
        found
    }
    let mut done = BTreeSet::new();
    graph
        .keys()
        .find_map(|module| visit(graph, module, &mut Vec::new(), &mut done))
}

#[test]
fn modules_form_no_cycle() {
    let faults: Vec<_> = packages()
        .iter()
        .filter(|package| !EXEMPT.contains(&package.as_str()))
        .filter_map(|package| {
            let found = cycle(&graph(&format!("{package}/src")));
            found.map(|cycle| format!("{package}: {cycle}"))
        })
        .collect();
    expect_none(&faults, "what two modules need lies below both of them");
}

#[test]
fn a_cycle_is_found() {
    let graph = |arrows: &[(&str, &str)]| {
        let mut graph = Graph::new();
        for (from, to) in arrows {
            graph
                .entry((*from).to_owned())
                .or_default()
                .insert((*to).to_owned());
        }
        graph
    };
    assert_eq!(cycle(&graph(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let found = cycle(&graph(&[("a", "b"), ("b", "c"), ("c", "b")]));
    assert_eq!(found.as_deref(), Some("b → c → b"));
}
