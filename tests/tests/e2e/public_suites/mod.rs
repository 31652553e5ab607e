//! Public test suites, through the library calls behind `vnode testvec`.
//!
//! `PUBLIC_TESTS` names folders (separated like a search path) with checkouts of `ethereum/tests`
//! and `ethereum/legacytests`. All tests for supported forks run on all processors. Without the
//! variable the test prints this and passes. `PUBLIC_ONLY` selects the files whose path contains
//! its text.

mod report;
mod suites;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use self::report::Report;

/// Adds the JSON files below `folder` to `out`, sorted.
fn find_files(folder: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            // `src` has the sources that the suites are generated from.
            if path
                .file_name()
                .is_none_or(|name| name != ".git" && name != "src")
            {
                find_files(&path, out);
            }
        } else if path.extension().is_some_and(|extension| extension == "json") {
            out.push(path);
        }
    }
}

#[test]
fn public_suites() {
    let Some(folders) = std::env::var_os("PUBLIC_TESTS") else {
        println!(
            "skipped: PUBLIC_TESTS is not set; it names checkouts of ethereum/tests and ethereum/legacytests"
        );
        return;
    };
    let only = std::env::var("PUBLIC_ONLY").unwrap_or_default();
    let mut all = Vec::new();
    for folder in std::env::split_paths(&folders) {
        let before = all.len();
        find_files(&folder, &mut all);
        assert!(all.len() > before, "{} has no JSON files", folder.display());
    }
    all.retain(|path| path.to_string_lossy().contains(&only));
    let next = AtomicUsize::new(0);
    let report = Mutex::new(Report::default());
    let caches = ethash::LightCaches::new();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(path) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut own = Report::default();
                    suites::run_file(path, &caches, &mut own);
                    report.lock().expect("no thread panics with it").merge(own);
                }
            });
        }
    });
    let report = report.into_inner().expect("no thread panics with it");
    println!("{}", report.summary());
    assert_eq!(report.failures(), 0, "failures are listed above");
}
