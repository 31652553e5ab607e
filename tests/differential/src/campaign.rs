//! Runs the cases of many seeds and reports what was found.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::client::IndependentExecutor;
use crate::compare::{Outcome, run_case};
use crate::error::DifferentialError;
use crate::generate;
use crate::ours;
use crate::rules::ForkRules;
use crate::shrink::shrink;

/// The seeds of a run.
#[derive(Clone, Copy, Debug)]
pub struct SeedRange {
    /// The first seed.
    pub first: u64,
    /// The most seeds.
    pub count: u64,
    /// The longest time. No seed is begun after it.
    pub time: Option<Duration>,
}

impl SeedRange {
    /// The seeds, until the time is over.
    pub fn seeds(self) -> impl Iterator<Item = u64> {
        let started = Instant::now();
        (self.first..self.first.saturating_add(self.count))
            .take_while(move |_| self.time.is_none_or(|time| started.elapsed() < time))
    }
}

/// The figures and the differences of a run.
#[derive(Clone, Debug, Default)]
pub struct CampaignReport {
    /// Cases that were compared.
    pub cases: usize,
    /// Transactions that both sides executed.
    pub executed: usize,
    /// Transactions that both sides refused.
    pub refused: usize,
    /// A text for each case that differs.
    pub differences: Vec<String>,
}

/// The command that repeats a seed.
fn repeat_command(seed: u64, rules: &ForkRules, client: &IndependentExecutor) -> String {
    format!(
        "cargo run --release -p differential -- --seed {seed} --count 1 --fork {}{}",
        rules.name,
        client.option()
    )
}

/// Compares the cases of `seeds`, for each of `rules`, with the independent executor. Every
/// difference is shrunk and given to `report` at once.
pub fn compare_seeds(
    seeds: SeedRange,
    rules: &[&'static ForkRules],
    client: &mut IndependentExecutor,
    mut report: impl FnMut(&str),
) -> CampaignReport {
    let mut all = CampaignReport::default();
    for seed in seeds.seeds() {
        for rules in rules {
            if let Err(difference) = compare_seed(seed, rules, client, &mut all) {
                let text = difference.to_string();
                report(&text);
                all.differences.push(text);
            }
        }
    }
    all
}

fn compare_seed(
    seed: u64,
    rules: &'static ForkRules,
    client: &mut IndependentExecutor,
    all: &mut CampaignReport,
) -> Result<(), DifferentialError> {
    let case = generate::case(seed, rules);
    let outcome = run_case(&case, client)
        .map_err(DifferentialError::at(|| format!("seed {seed} of {}", rules.name)))
        .map_err(|error| DifferentialError::OfSeed {
            error: Box::new(error),
            repeat: repeat_command(seed, rules, client),
        })?;
    let (executed, refused) = outcome.counts();
    all.cases += 1;
    all.executed += executed;
    all.refused += refused;
    if outcome.difference.is_none() {
        return Ok(());
    }
    let small = shrink(&case, |smaller| {
        smaller
            .accounts
            .iter()
            .all(|account| smaller.is_specified(account))
            && matches!(
                run_case(smaller, client),
                Ok(Outcome {
                    difference: Some(_),
                    ..
                })
            )
    });
    let mut text = format!("seed {seed} of {} differs.\n", rules.name);
    describe(&mut text, "as generated", &outcome, &case, client);
    match run_case(&small, client) {
        Ok(outcome) => describe(&mut text, "the smallest case", &outcome, &small, client),
        Err(error) => text += &error.to_string(),
    }
    text += &small.listing();
    // Writing to a string cannot fail.
    let _ = write!(text, "Repeat it: {}", repeat_command(seed, rules, client));
    Err(DifferentialError::Difference(text))
}

fn describe(
    text: &mut String,
    which: &str,
    outcome: &Outcome,
    case: &crate::case::Case,
    client: &mut IndependentExecutor,
) {
    if let Some(difference) = &outcome.difference {
        let parting = outcome.parting(case, client);
        let _ = writeln!(text, "{which}: {difference}\n  {parting}");
    }
}

/// Writes the request of `vnode testvec block` for each seed and each of `rules` into `directory`,
/// as FORK-SEED.json. Returns the number of files.
///
/// # Errors
/// If a file cannot be written, or the executor fails.
pub fn write_cases(
    seeds: SeedRange,
    rules: &[&'static ForkRules],
    directory: &Path,
) -> Result<usize, DifferentialError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| DifferentialError::File { path, error }
    };
    std::fs::create_dir_all(directory).map_err(failed(directory))?;
    let mut files = 0;
    for seed in seeds.seeds() {
        for rules in rules {
            let case = generate::case(seed, rules);
            let executed = ours::execute(&case, ours::spec_of(rules)?)
                .map_err(DifferentialError::at(|| format!("seed {seed} of {}", rules.name)))?;
            let path = directory.join(format!("{}-{seed}.json", rules.name));
            std::fs::write(&path, format!("{}\n", executed.testvec_request(&case))).map_err(failed(&path))?;
            files += 1;
        }
    }
    Ok(files)
}
