//! The program `differential`: compares the executor of the node with others. See CONTRIBUTING.md.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use differential::campaign::{SeedRange, compare_seeds, write_cases};
use differential::client::IndependentExecutor;
use differential::generate;
use differential::rules::{ForkRules, RULES};

/// Compares the executor of the node with another one, by random programs.
#[derive(Debug, Parser)]
struct DifferentialOptions {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The most seeds.
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// The longest time, in seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// A fork, as `vnode testvec` calls it. May be repeated. The default is every fork.
    #[arg(long = "fork")]
    forks: Vec<String>,
    /// Prints the programs of the seeds and runs nothing.
    #[arg(long)]
    print: bool,
    /// Writes a request of `vnode testvec block` for each seed into this folder and compares
    /// nothing.
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&DifferentialOptions::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the program. Returns whether both sides agree.
fn run(options: &DifferentialOptions) -> Result<bool, String> {
    let seeds = SeedRange {
        first: options.seed,
        count: options.count,
        time: options.seconds.map(Duration::from_secs),
    };
    let rules = chosen_rules(&options.forks)?;
    if options.print {
        for seed in seeds.seeds() {
            for rules in &rules {
                print!("{}", generate::case(seed, rules).listing());
            }
        }
        return Ok(true);
    }
    if let Some(directory) = &options.write {
        let files = write_cases(seeds, &rules, directory)?;
        println!("{files} files in {}", directory.display());
        return Ok(true);
    }
    compare_with_client(seeds, rules)
}

fn compare_with_client(seeds: SeedRange, mut rules: Vec<&'static ForkRules>) -> Result<bool, String> {
    rules.retain(|rules| rules.client.is_some());
    if rules.is_empty() {
        return Err("the independent executor has none of these forks".to_owned());
    }
    let mut client = IndependentExecutor::start().ok_or("Node.js or its libraries are missing")??;
    let report = compare_seeds(seeds, &rules, &mut client, |difference| {
        println!("{difference}\n")
    });
    println!(
        "{} cases with {} transactions executed and {} refused: {} differences",
        report.cases,
        report.executed,
        report.refused,
        report.differences.len()
    );
    Ok(report.differences.is_empty())
}

/// The rules with these names; all of them if there are no names.
fn chosen_rules(names: &[String]) -> Result<Vec<&'static ForkRules>, String> {
    if names.is_empty() {
        return Ok(RULES.iter().collect());
    }
    let known = |name: &String| {
        let all: Vec<&str> = RULES.iter().map(|rules| rules.name).collect();
        ForkRules::named(name).ok_or_else(|| format!("fork: got {name}, expected one of {}", all.join(", ")))
    };
    names.iter().map(known).collect()
}
