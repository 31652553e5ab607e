//! Our executor and our rules of headers against the specification of Ethereum in Python.
//!
//! `SPECIFICATION_SEED`, `SPECIFICATION_COUNT` and `SPECIFICATION_SECONDS` choose longer runs.

use std::time::Duration;

use differential::campaign::{SeedRange, compare_seeds};
use differential::client::IndependentExecutor;
use differential::compare::first_difference;
use differential::generate;
use differential::ours::{self, ExecutedCase};
use differential::random::SeededRandom;
use differential::rules::{ForkRules, RULES};
use primitives::{Header, U256, uncles_hash};

use crate::independent::number;

/// The most seeds of an ordinary run, for each fork, and its time.
const SEEDS: u64 = 40;
const TIME: Duration = Duration::from_secs(12);

fn specified() -> Vec<&'static ForkRules> {
    RULES.iter().filter(|rules| rules.is_specified()).collect()
}

#[test]
fn the_specification_agrees() {
    let Some(mut client) = IndependentExecutor::specification() else {
        return;
    };
    let seeds = SeedRange {
        first: number("SPECIFICATION_SEED").unwrap_or(1),
        count: number("SPECIFICATION_COUNT").unwrap_or(SEEDS),
        time: Some(number("SPECIFICATION_SECONDS").map_or(TIME, Duration::from_secs)),
    };
    let report = compare_seeds(seeds, &specified(), &mut client, |difference| {
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
fn the_specification_finds_another_fork() {
    let Some(mut client) = IndependentExecutor::specification() else {
        return;
    };
    for pair in specified().windows(2).take(7) {
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

/// A header that may be wrong, with uncles that may be.
fn variant(random: &SeededRandom, own: &ExecutedCase) -> (Header, Vec<Header>) {
    let blocks: Vec<&Header> = std::iter::once(&own.genesis)
        .chain(own.blocks.iter().map(|plan| &plan.block.header))
        .collect();
    let uncles: Vec<Header> = (0..random.below(4))
        .map(|_| {
            let brother = blocks[random.below(blocks.len() as u64) as usize].clone();
            let mut uncle = Header {
                extra_data: vec![random.below(3) as u8; random.below(3) as usize].into(),
                ..brother
            };
            if random.below(4) == 0 {
                spoil(random, &mut uncle);
            }
            uncle
        })
        .collect();
    let mut header = own.next_header(1 + random.below(40), &uncles);
    if random.below(2) == 0 {
        spoil(random, &mut header);
    }
    (header, uncles)
}

/// Changes a field, mostly to something near a limit.
fn spoil(random: &SeededRandom, header: &mut Header) {
    let step = random.below(3);
    let bound = header.gas_limit / 1024;
    match random.below(11) {
        0 => header.number += 1 + step,
        1 => header.number = header.number.saturating_sub(1 + step),
        2 => header.timestamp = header.timestamp.saturating_sub(random.below(60)),
        3 => header.timestamp += random.below(2000),
        4 => header.difficulty += U256::from(step),
        5 => header.difficulty = header.difficulty.saturating_sub(U256::from(1 + step)),
        6 => header.gas_limit += bound + step - 1,
        7 => header.gas_limit = (header.gas_limit - bound + 1).saturating_sub(step),
        8 => header.gas_used = header.gas_limit + step,
        9 => header.extra_data = vec![0; 31 + step as usize].into(),
        _ => header.uncles_hash = uncles_hash(std::slice::from_ref(&header.clone())),
    }
}

#[test]
fn headers_and_uncles_are_judged_alike() {
    let Some(mut client) = IndependentExecutor::specification() else {
        return;
    };
    let (mut valid, mut invalid) = (0, 0);
    for rules in specified()
        .into_iter()
        .filter(|rules| !rules.name.starts_with("ETC"))
    {
        for seed in 1..=8 {
            let case = generate::case(seed, rules);
            let spec = ours::spec_of(rules).expect("the fork is known");
            let own = ours::execute(&case, spec).expect("the case is executed");
            let random = SeededRandom::new(seed, "headers");
            let variants: Vec<_> = (0..40).map(|_| variant(&random, &own)).collect();
            let theirs = client
                .judge(&case, &own, &variants)
                .expect("the other side answers");
            for ((header, uncles), theirs) in variants.iter().zip(theirs) {
                let ours = own.judge(header, uncles).expect("the importer answers");
                assert_eq!(
                    ours.is_some(),
                    theirs.is_some(),
                    "seed {seed} of {}: ours {ours:?}, theirs {theirs:?}: {header:?} with {uncles:?}",
                    rules.name
                );
                *if ours.is_some() { &mut invalid } else { &mut valid } += 1;
            }
        }
    }
    e2e::note(&format!("{valid} valid headers, {invalid} invalid ones"));
    assert!(valid > 200 && invalid > 200, "{valid} valid, {invalid} invalid");
}
