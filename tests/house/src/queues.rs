//! Channels have a bound. A queue without one holds as much as its sender likes.

use crate::sources::{code_only, expect_none, packages, rust_files};

/// Files that make a channel without a bound, and the bound that it has all the same.
const ALLOWED: [(&str, &str); 4] = [
    ("miner/src/rig/mod.rs", "the engine takes each task at once"),
    (
        "node/chain/src/chain/subscribers.rs",
        "HEAD_EVENTS_MAX ends a subscriber",
    ),
    (
        "node/network/src/sync/state_fetch/mod.rs",
        "the answers to open requests, and the peers",
    ),
    ("rpc/src/dispatch/run.rs", "the requests of a batch"),
];

/// Calls that make a channel without a bound.
const CALLS: [&str; 3] = ["= unbounded(", "channel::unbounded(", "unbounded_channel("];

#[test]
fn channels_of_the_product_have_a_bound() {
    let mut faults = Vec::new();
    let mut seen = Vec::new();
    let is_product = |package: &&String| !["tests", "bench"].iter().any(|root| package.starts_with(root));
    for package in packages().iter().filter(is_product) {
        for file in rust_files(&format!("{package}/src")) {
            let code = code_only(&file.text);
            let is_test = ["/tests.rs", "/tests/", "/fixture.rs"]
                .iter()
                .any(|part| file.path.contains(part));
            let lines = code.lines().enumerate();
            for (index, line) in lines.filter(|(_, line)| CALLS.iter().any(|call| line.contains(call))) {
                if ALLOWED.iter().any(|(path, _)| *path == file.path) {
                    seen.push(file.path.clone());
                } else if !is_test {
                    faults.push(format!("{}:{}: {}", file.path, index + 1, line.trim()));
                }
            }
        }
    }
    expect_none(
        &faults,
        "make the channel with a named bound, or name its other bound in `ALLOWED`",
    );
    for (path, _) in ALLOWED {
        assert!(
            seen.iter().any(|file| file == path),
            "{path} makes no such channel any more"
        );
    }
}
