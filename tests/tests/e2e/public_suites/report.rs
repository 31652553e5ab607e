//! Counts results by suite and fork, and prints each failure at once.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    passed: usize,
    failed: usize,
}

/// Results of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    counts: BTreeMap<(String, String), Count>,
    /// Number of tests of unsupported forks, by fork.
    other_forks: BTreeMap<String, usize>,
    unreadable: usize,
    /// Number of files of suites that do not run, by suite.
    other_files: BTreeMap<String, usize>,
}

impl Report {
    /// Counts a result, and prints it if it is a failure.
    pub(crate) fn count(&mut self, suite: &str, fork: &str, name: &dyn Display, result: Result<(), String>) {
        let count = self
            .counts
            .entry((suite.to_owned(), fork.to_owned()))
            .or_default();
        match result {
            Ok(()) => count.passed += 1,
            Err(reason) => {
                count.failed += 1;
                println!("FAIL {suite} {fork} {name}: {reason}");
            }
        }
    }

    pub(crate) fn unreadable(&mut self, name: &dyn Display, reason: &dyn Display) {
        self.unreadable += 1;
        println!("FAIL unreadable {name}: {reason}");
    }

    pub(crate) fn other_fork(&mut self, fork: &str) {
        *self.other_forks.entry(fork.to_owned()).or_default() += 1;
    }

    pub(crate) fn other_file(&mut self, suite: &str) {
        *self.other_files.entry(suite.to_owned()).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (key, count) in other.counts {
            let own = self.counts.entry(key).or_default();
            own.passed += count.passed;
            own.failed += count.failed;
        }
        for (fork, count) in other.other_forks {
            *self.other_forks.entry(fork).or_default() += count;
        }
        for (suite, count) in other.other_files {
            *self.other_files.entry(suite).or_default() += count;
        }
        self.unreadable += other.unreadable;
    }

    pub(crate) fn failures(&self) -> usize {
        self.unreadable + self.counts.values().map(|count| count.failed).sum::<usize>()
    }

    pub(crate) fn summary(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        for ((suite, fork), count) in &self.counts {
            let _ = writeln!(
                out,
                "{suite:<20} {fork:<32} {:>7} passed {:>5} failed",
                count.passed, count.failed
            );
        }
        for (fork, count) in &self.other_forks {
            let _ = writeln!(out, "unsupported fork     {fork:<32} {count:>7} tests");
        }
        for (suite, count) in &self.other_files {
            let _ = writeln!(out, "unsupported suite    {suite:<32} {count:>7} files");
        }
        let passed: usize = self.counts.values().map(|count| count.passed).sum();
        let _ = writeln!(out, "{} unreadable files", self.unreadable);
        let _ = write!(out, "{passed} passed, {} failed", self.failures());
        out
    }
}
