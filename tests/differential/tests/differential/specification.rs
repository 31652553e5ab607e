//! Our executor and our rules of headers against the specification of Ethereum in Python.
//!
//! `SPECIFICATION_SEED`, `SPECIFICATION_COUNT` and `SPECIFICATION_SECONDS` choose longer runs.

use std::time::Duration;

use differential::campaign::{SeedRange, compare_seeds};
use differential::client::IndependentExecutor;
use differential::compare::first_difference;
use differential::headers::compare_headers;
use differential::rules::{ForkRules, RULES};
use differential::{generate, ours};

use crate::independent::number;

/// Seeds of an ordinary run, for each fork. They have some 3,700 transactions and 4,500 headers.
const SEEDS: u64 = 36;
const HEADER_SEEDS: u64 = 4;
/// Reasons that wrong headers and uncles must meet, as the errors begin.
const HEADER_REASONS: [&str; 14] = [
    "block number",
    "difficulty",
    "extra data",
    "gas limit",
    "gas used",
    "number of uncles",
    "timestamp",
    "uncle block number",
    "uncle difficulty",
    "uncle gas limit",
    "uncle is already included",
    "uncle is an ancestor",
    "uncle its parent is not",
    "uncles hash",
];

fn specified() -> Vec<&'static ForkRules> {
    RULES
        .iter()
        .filter(|rules| rules.specification.is_some())
        .collect()
}

/// Compares the fork at `half` and each second one after it. Each half has a process of Python.
fn agrees(half: usize) {
    let Some(mut client) = IndependentExecutor::specification() else {
        return;
    };
    let seeds = SeedRange {
        first: number("SPECIFICATION_SEED").unwrap_or(1),
        count: number("SPECIFICATION_COUNT").unwrap_or(SEEDS),
        time: number("SPECIFICATION_SECONDS").map(Duration::from_secs),
    };
    let rules: Vec<_> = specified().into_iter().skip(half).step_by(2).collect();
    let report = compare_seeds(seeds, &rules, &mut client, |difference| {
        println!("{difference}\n")
    });
    e2e::note(&format!(
        "{} cases, {} transactions executed, {} refused",
        report.cases, report.executed, report.refused
    ));
    assert_eq!(report.differences.len(), 0, "differences are listed above");
    assert!(report.executed > report.cases && report.refused > 0, "{report:?}");
}

#[test]
fn the_specification_agrees() {
    agrees(0);
}

#[test]
fn the_specification_agrees_on_the_other_forks() {
    agrees(1);
}

#[test]
fn the_specification_finds_another_fork() {
    let Some(mut client) = IndependentExecutor::specification() else {
        return;
    };
    for pair in specified().windows(2) {
        let found = (1..=20).any(|seed| {
            let case = generate::case(seed, pair[1]);
            let spec = ours::spec_of(pair[0]).expect("the fork is known");
            let own = ours::execute(&case, spec).expect("the case is executed");
            let answer = client.execute(&case, &own, None).expect("the other side answers");
            first_difference(&own, &answer).is_some()
        });
        assert!(found, "{} is not told from {}", pair[1].name, pair[0].name);
    }
}

#[test]
fn headers_and_uncles_are_judged_alike() {
    let Some(mut client) = IndependentExecutor::specification() else {
        return;
    };
    let rules: Vec<_> = specified().into_iter().filter(|rules| !rules.base_fee).collect();
    let seeds = SeedRange {
        first: number("SPECIFICATION_SEED").unwrap_or(1),
        count: number("SPECIFICATION_COUNT").unwrap_or(HEADER_SEEDS),
        time: number("SPECIFICATION_SECONDS").map(Duration::from_secs),
    };
    let report = compare_headers(seeds, &rules, &mut client, |difference| {
        println!("{difference}\n")
    })
    .unwrap_or_else(|error| panic!("{error}"));
    e2e::note(&format!(
        "{} valid headers, {} invalid ones",
        report.valid, report.invalid
    ));
    assert_eq!(report.differences.len(), 0, "differences are listed above");
    assert!(report.valid > 200 && report.invalid > 200, "{report:?}");
    for reason in HEADER_REASONS {
        let is_met = report.reasons.keys().any(|met| met.starts_with(reason));
        assert!(is_met, "{reason}: {:?}", report.reasons);
    }
}
