//! Random headers and uncles, right ones and wrong ones, judged here and by the specification.
//!
//! Children of a short chain are judged by the importer. Children of a parent of any number and
//! difficulty are judged by the rules of headers alone.

use std::collections::BTreeMap;
use std::fmt::Write;

use chain::ChainSpec;
use chain::rules::check_header;
use chain::rules::difficulty::next_difficulty;
use primitives::{Address, B256, Block, EMPTY_ROOT, EMPTY_UNCLES_HASH, Header, U256, uncles_hash};

use crate::campaign::SeedRange;
use crate::case::{Case, CaseBlock};
use crate::client::{HeaderVariant, IndependentExecutor};
use crate::error::DifferentialError;
use crate::ours::{self, ExecutedCase};
use crate::random::SeededRandom;
use crate::rules::ForkRules;

/// Variants of one seed that follow its chain, and those that follow a parent of their own.
const OF_CHAIN: u64 = 40;
const OF_PARENT: u64 = 40;
/// Generations back from which uncles are taken. A block may have uncles of six.
const UNCLE_AGE_MAX: u64 = 8;
/// The kinds of wrong headers.
const SPOILS: u64 = 11;
/// The highest parent. Bombs from 25.8 million on are larger than a difficulty can be.
const NUMBER_MAX: u64 = 20_000_000;

/// The figures and the differences of a run.
#[derive(Clone, Debug, Default)]
pub struct HeaderReport {
    /// Headers that both sides accept.
    pub valid: usize,
    /// Headers that both sides refuse.
    pub invalid: usize,
    /// The number of refusals by each of our reasons, as the errors begin.
    pub reasons: BTreeMap<String, usize>,
    /// A text for each header that one side accepts.
    pub differences: Vec<String>,
}

/// Compares the headers of `seeds`, for each of `rules`, with the specification. Every difference
/// is made smaller and given to `report` at once.
///
/// # Errors
/// If one of the sides fails.
pub fn compare_headers(
    seeds: SeedRange,
    rules: &[&'static ForkRules],
    client: &mut IndependentExecutor,
    mut report: impl FnMut(&str),
) -> Result<HeaderReport, DifferentialError> {
    let mut all = HeaderReport::default();
    for seed in seeds.seeds() {
        for rules in rules {
            let random = SeededRandom::new(seed, &format!("headers of {}", rules.name));
            let own = ours::execute(&chain_plan(&random, seed, rules), ours::spec_of(rules)?)?;
            let chain = own.chain();
            let of_chain = (0..OF_CHAIN).map(|_| after_chain(&random, own.spec(), &chain));
            let mut variants: Vec<HeaderVariant> = of_chain.collect();
            variants.extend((0..OF_PARENT).map(|_| after_parent(&random, own.spec())));
            let verdicts = client.judge(rules, &chain, &variants)?;
            for (variant, theirs) in variants.into_iter().zip(verdicts) {
                match (judge(&own, &variant)?, theirs) {
                    (None, None) => all.valid += 1,
                    (Some(reason), Some(_)) => {
                        all.invalid += 1;
                        *all.reasons.entry(reason.name).or_default() += 1;
                    }
                    _ => {
                        let text = difference(seed, rules, client, &own, variant)?;
                        report(&text);
                        all.differences.push(text);
                    }
                }
            }
        }
    }
    Ok(all)
}

/// The reason against a header.
struct Reason {
    /// The first words of the error's text.
    name: String,
    text: String,
}

/// The verdict of our side.
fn judge(own: &ExecutedCase, variant: &HeaderVariant) -> Result<Option<Reason>, DifferentialError> {
    let text = match &variant.parent {
        None => own.judge(&variant.header, &variant.uncles)?,
        Some(parent) => check_header(own.spec(), &variant.header, parent, None)
            .err()
            .map(|error| error.to_string()),
    };
    Ok(text.map(|text| {
        let words = text.split(": got").next().unwrap_or_default();
        let is_hash = |word: &&str| !word.starts_with("0x");
        let name = words.split(' ').filter(is_hash).collect::<Vec<_>>().join(" ");
        Reason { name, text }
    }))
}

/// The text of a difference, without the uncles that it does not need.
fn difference(
    seed: u64,
    rules: &ForkRules,
    client: &mut IndependentExecutor,
    own: &ExecutedCase,
    mut variant: HeaderVariant,
) -> Result<String, DifferentialError> {
    let chain = own.chain();
    let mut verdicts = |variant: &HeaderVariant| -> Result<_, DifferentialError> {
        let ours = judge(own, variant)?.map(|reason| reason.text);
        let theirs = client.judge(rules, &chain, std::slice::from_ref(variant))?;
        Ok((ours, theirs.into_iter().next().flatten()))
    };
    for index in (0..variant.uncles.len()).rev() {
        let mut smaller = variant.clone();
        smaller.uncles.remove(index);
        smaller.header.uncles_hash = uncles_hash(&smaller.uncles);
        let (ours, theirs) = verdicts(&smaller)?;
        if ours.is_some() != theirs.is_some() {
            variant = smaller;
        }
    }
    let (ours, theirs) = verdicts(&variant)?;
    let told = |verdict: Option<String>| match verdict {
        None => "valid".to_owned(),
        Some(reason) => format!("invalid ({reason})"),
    };
    let last = &chain[chain.len() - 1].header;
    let mut text = format!(
        "seed {seed} of {}: ours {}, theirs {}\n",
        rules.name,
        told(ours),
        told(theirs)
    );
    text += &listing("parent", variant.parent.as_ref().unwrap_or(last));
    text += &listing("header", &variant.header);
    for uncle in &variant.uncles {
        text += &listing("uncle", uncle);
    }
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "Repeat it: cargo run --release -p differential -- --headers --seed {seed} --count 1 --fork {}",
        rules.name
    );
    Ok(text)
}

/// The fields of a header that rules judge, as text.
fn listing(name: &str, header: &Header) -> String {
    format!(
        "{name} {}: hash {}, parent {}, uncles {}, difficulty {}, gas {} of {}, timestamp {}, extra data {}\n",
        header.number,
        header.hash(),
        header.parent_hash,
        header.uncles_hash,
        header.difficulty,
        header.gas_used,
        header.gas_limit,
        header.timestamp,
        header.extra_data
    )
}

/// A chain of blocks without transactions, some with an uncle.
fn chain_plan(random: &SeededRandom, seed: u64, rules: &'static ForkRules) -> Case {
    let blocks = (0..random.between(1, UNCLE_AGE_MAX + 2)).map(|index| CaseBlock {
        beneficiary: Address::repeat_byte(index as u8 + 1),
        seconds: seconds(random),
        extra: Vec::new(),
        uncle: (index > 0 && random.percent(40)).then(|| Address::repeat_byte(0xee)),
        transactions: Vec::new(),
    });
    Case {
        seed,
        rules,
        gas_limit: random.pick(&[5000, 5001, 8_000_000, 30_000_000]),
        base_fee: 0,
        accounts: Vec::new(),
        blocks: blocks.collect(),
    }
}

/// Seconds between two blocks, mostly near a step of a formula.
fn seconds(random: &SeededRandom) -> u64 {
    match random.weighted(&[60, 30, 10]) {
        0 => random.between(1, 30),
        1 => random.pick(&[8, 9, 10, 12, 13, 14, 17, 18, 19, 20]),
        _ => random.pick(&[890, 899, 900, 990, 1000, 1009, 1010, 2000, 100_000]),
    }
}

/// A right child of `parent`.
fn child(random: &SeededRandom, spec: &ChainSpec, parent: &Header, uncles: &[Header]) -> Header {
    let timestamp = parent.timestamp + seconds(random);
    Header {
        parent_hash: parent.hash(),
        uncles_hash: uncles_hash(uncles),
        difficulty: next_difficulty(spec, parent, timestamp),
        number: parent.number + 1,
        gas_limit: parent.gas_limit,
        transactions_root: EMPTY_ROOT,
        receipts_root: EMPTY_ROOT,
        timestamp,
        ..Default::default()
    }
}

/// A child of the last block of a chain.
fn after_chain(random: &SeededRandom, spec: &ChainSpec, chain: &[Block]) -> HeaderVariant {
    let mut uncles: Vec<Header> = Vec::new();
    for _ in 0..random.weighted(&[20, 40, 32, 8]) {
        let next = uncle(random, spec, chain, &uncles);
        uncles.push(next);
    }
    let mut header = child(random, spec, &chain[chain.len() - 1].header, &uncles);
    if random.percent(35) {
        spoil(random, &mut header, SPOILS);
    }
    HeaderVariant {
        parent: None,
        header,
        uncles,
    }
}

/// An uncle: mostly a new child of an ancestor, else one that may not be an uncle, or not again.
fn uncle(random: &SeededRandom, spec: &ChainSpec, chain: &[Block], others: &[Header]) -> Header {
    let last = chain.len() as u64 - 1;
    let block = &chain[(last - random.below(UNCLE_AGE_MAX.min(last) + 1)) as usize];
    let mut uncle = match random.weighted(&[80, 5, 7, 4, 4]) {
        0 => child(random, spec, &block.header, &[]),
        1 => block.header.clone(),
        2 => block.uncles.first().unwrap_or(&block.header).clone(),
        3 => child(random, spec, block.uncles.first().unwrap_or(&block.header), &[]),
        _ => others.first().unwrap_or(&block.header).clone(),
    };
    if random.percent(15) {
        spoil(random, &mut uncle, SPOILS);
    }
    uncle
}

/// A child of a parent of any number, difficulty and gas limit.
fn after_parent(random: &SeededRandom, spec: &ChainSpec) -> HeaderVariant {
    let number = match random.weighted(&[40, 40, 20]) {
        0 => random.below(NUMBER_MAX),
        // Around the steps of a bomb.
        1 => 100_000 * random.below(NUMBER_MAX / 100_000) + random.below(3) + 99_998,
        _ => random.pick(&[0, 1, 1_149_999, 1_920_000, 3_000_000, 4_369_999, 9_000_000]) + random.below(2),
    };
    // Never so small that the least difficulty counts together with a bomb: there the specification
    // differs from the clients of its time, as it says itself.
    let bits = random.between(if number < 100_000 { 0 } else { 20 }, 70);
    let parent = Header {
        parent_hash: B256::from(random.word()),
        uncles_hash: if random.percent(50) {
            EMPTY_UNCLES_HASH
        } else {
            B256::repeat_byte(1)
        },
        difficulty: U256::from(131_072) + (random.word() >> (256 - bits) as usize),
        number,
        gas_limit: match random.below(3) {
            0 => random.between(5000, 7000),
            1 => random.between(5000, 1 << 24),
            _ => random.next() >> 3,
        },
        timestamp: random.below(1 << 40),
        ..Default::default()
    };
    let mut header = child(random, spec, &parent, &[]);
    // The bounds themselves, which are right.
    let bound = parent.gas_limit / 1024;
    match random.below(4) {
        0 => header.gas_limit += bound.saturating_sub(1),
        1 => header.gas_limit = (header.gas_limit + 1 - bound.max(1)).max(5000),
        _ => {}
    }
    if random.percent(40) {
        // The last one concerns the body, which is not judged here.
        spoil(random, &mut header, SPOILS - 1);
    }
    HeaderVariant {
        parent: Some(parent),
        header,
        uncles: Vec::new(),
    }
}

/// Makes one of the first `kinds` changes of a field, mostly to something near a limit.
fn spoil(random: &SeededRandom, header: &mut Header, kinds: u64) {
    let step = random.below(3);
    let bound = header.gas_limit / 1024;
    match random.below(kinds) {
        0 => header.number += 1 + step,
        1 => header.number = header.number.saturating_sub(1 + step),
        2 => header.timestamp = header.timestamp.saturating_sub(random.below(60)),
        3 => header.timestamp += random.below(2000),
        4 => header.difficulty += U256::from(step),
        5 => header.difficulty = header.difficulty.saturating_sub(U256::from(1 + step)),
        6 => header.gas_limit = (header.gas_limit + bound + step).saturating_sub(1),
        7 => header.gas_limit = (header.gas_limit - bound + 1).saturating_sub(step),
        8 => header.gas_used = header.gas_limit + step,
        9 => header.extra_data = vec![0; 31 + step as usize].into(),
        _ => header.uncles_hash = uncles_hash(std::slice::from_ref(&header.clone())),
    }
}
