//! The program `differential`: compares the executor of the node with others. See CONTRIBUTING.md.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use chain::ChainSpec;
use clap::Parser;
use differential::campaign::{SeedRange, compare_seeds, write_cases};
use differential::client::IndependentExecutor;
use differential::error::DifferentialError;
use differential::evm::compare_steps;
use differential::evm_form::EvmPrograms;
use differential::generate;
use differential::headers::compare_headers;
use differential::named_node::{NodeOptions, compare_with_node};
use differential::ours::tx_form;
use differential::rules::{ForkRules, RULES};
use primitives::{SecretKey, TxForm, U256};

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
    /// Compares with the specification of Ethereum in Python instead of `@ethereumjs/vm`.
    #[arg(long, conflicts_with = "node")]
    specification: bool,
    /// Compares headers and uncles with the specification in Python, not programs.
    #[arg(long, conflicts_with = "node")]
    headers: bool,
    /// Compares `vnode testvec` with this program, geth's `evm`: steps, transitions and blocks.
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["node", "specification", "headers"])]
    evm: Option<PathBuf>,
    /// Keeps each difference, shrunk, as a file in this folder.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Prints the programs of the seeds and runs nothing.
    #[arg(long)]
    print: bool,
    /// Writes a request of `vnode testvec block` for each seed into this folder and compares
    /// nothing.
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// Compares with the node at this URL, which must mine: http://host:port.
    #[arg(long, value_name = "URL")]
    node: Option<String>,
    #[command(flatten)]
    named: NamedNodeOptions,
}

/// The options that describe the node at the URL.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "With --node")]
struct NamedNodeOptions {
    /// The genesis file of the node. The default is the development network of `vnode --dev`.
    #[arg(long, value_name = "FILE")]
    genesis: Option<PathBuf>,
    /// The module of the node's methods.
    #[arg(long, default_value = "mc", value_parser = ["mc", "eth"])]
    module: String,
    /// The form of transactions: 12 fields, or Ethereum's 9. The default is that of the chain.
    #[arg(long, value_parser = ["12", "9"])]
    fields: Option<String>,
    /// The secret key of an account with a balance. Without it the node signs for its first
    /// account.
    #[arg(long, value_name = "HEX")]
    key: Option<String>,
    /// The price of gas. Without it the node is asked.
    #[arg(long)]
    gasprice: Option<u64>,
    /// The longest time for a transaction to be mined, in seconds.
    #[arg(long, default_value_t = 120)]
    patience: u64,
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
fn run(options: &DifferentialOptions) -> Result<bool, DifferentialError> {
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
    if let Some(evm) = &options.evm {
        return compare_with_evm(seeds, rules, evm, options.keep.as_deref());
    }
    match &options.node {
        Some(url) => compare_with_named(seeds, url, options),
        None => compare_with_client(seeds, rules, options),
    }
}

fn compare_with_named(
    seeds: SeedRange,
    url: &str,
    options: &DifferentialOptions,
) -> Result<bool, DifferentialError> {
    let named = &options.named;
    let spec = match &named.genesis {
        None => ChainSpec::dev(),
        Some(path) => {
            let path = path.clone();
            match std::fs::read_to_string(&path) {
                Err(error) => return Err(DifferentialError::File { path, error }),
                Ok(text) => {
                    ChainSpec::from_genesis_file("named", &text)
                        .map_err(|error| DifferentialError::GenesisFile { path, error })?
                        .spec
                }
            }
        }
    };
    let own_form = tx_form(&spec);
    let form = match (named.fields.as_deref(), own_form) {
        (Some("9"), TxForm::Native) => TxForm::Classic,
        (Some("12"), TxForm::Ethereum) => {
            return Err(DifferentialError::Fields);
        }
        _ => own_form,
    };
    let fork = options.forks.first().map_or(
        if own_form == TxForm::Native {
            "Moac"
        } else {
            "Istanbul"
        },
        String::as_str,
    );
    let key = named.key.as_deref().map(SecretKey::from_hex).transpose();
    let node = NodeOptions {
        url: url.to_owned(),
        module: named.module.clone(),
        form,
        key: key.map_err(DifferentialError::Key)?,
        gas_price: named.gasprice.map(U256::from),
        spec,
        rules: known_rules(fork)?,
        patience: Duration::from_secs(named.patience),
    };
    match compare_with_node(seeds, node) {
        Ok(report) => {
            println!(
                "{} seeds: {} blocks with {} transactions and {} values of the state are the same; {} \
                 transactions were not accepted by the node",
                report.seeds, report.blocks, report.transactions, report.values, report.not_accepted
            );
            Ok(true)
        }
        Err(difference) => {
            println!("{difference}");
            Ok(false)
        }
    }
}

fn compare_with_evm(
    seeds: SeedRange,
    mut rules: Vec<&'static ForkRules>,
    evm: &Path,
    keep: Option<&Path>,
) -> Result<bool, DifferentialError> {
    // Only Ethereum's forks have the same name there.
    rules.retain(|rules| rules.classic_reward.is_none() && !rules.native_transactions);
    if rules.is_empty() {
        return Err(DifferentialError::NoCommonFork);
    }
    let temporary = std::env::temp_dir().join(format!("differential-{}", std::process::id()));
    let directory = keep.unwrap_or(&temporary);
    std::fs::create_dir_all(directory).map_err(|error| DifferentialError::File {
        path: directory.to_owned(),
        error,
    })?;
    let vnode = e2e::vnode_path();
    let programs = EvmPrograms { vnode, evm };
    let found = compare_steps(seeds, &rules, programs, directory, |text| println!("{text}\n"))?;
    // Not removed if it has tests that differ.
    let _ = std::fs::remove_dir(directory);
    println!(
        "{} state tests, {} of them refused, and {} blocks, with {} lines: {} differences",
        found.tests,
        found.refused,
        found.blocks,
        found.lines,
        found.differences.len()
    );
    Ok(found.differences.is_empty())
}

fn compare_with_client(
    seeds: SeedRange,
    mut rules: Vec<&'static ForkRules>,
    options: &DifferentialOptions,
) -> Result<bool, DifferentialError> {
    let client = if options.specification || options.headers {
        IndependentExecutor::specification()
    } else {
        IndependentExecutor::installed()
    };
    let mut client = client.ok_or(DifferentialError::NotInstalled)?;
    rules.retain(|rules| client.has(rules) && !(options.headers && rules.base_fee));
    if rules.is_empty() {
        return Err(DifferentialError::NoCommonFork);
    }
    let report = |difference: &str| println!("{difference}\n");
    let (counts, differences) = if options.headers {
        let found = compare_headers(seeds, &rules, &mut client, report)?;
        for (reason, count) in found.reasons {
            println!("{count:8} {reason}");
        }
        let counts = format!("{} valid headers and {} invalid ones", found.valid, found.invalid);
        (counts, found.differences)
    } else {
        let found = compare_seeds(seeds, &rules, &mut client, report);
        let counts = format!(
            "{} cases with {} transactions executed and {} refused",
            found.cases, found.executed, found.refused
        );
        (counts, found.differences)
    };
    if let Some(directory) = &options.keep {
        for (number, difference) in (1..).zip(&differences) {
            let path = directory.join(format!("difference-{}-{number}.txt", options.seed));
            std::fs::create_dir_all(directory)
                .and_then(|()| std::fs::write(&path, difference))
                .map_err(|error| DifferentialError::File { path, error })?;
        }
    }
    println!("{counts}: {} differences", differences.len());
    Ok(differences.is_empty())
}

/// The rules with these names; all of them if there are no names.
fn chosen_rules(names: &[String]) -> Result<Vec<&'static ForkRules>, DifferentialError> {
    if names.is_empty() {
        return Ok(RULES.iter().collect());
    }
    names.iter().map(|name| known_rules(name)).collect()
}

fn known_rules(name: &str) -> Result<&'static ForkRules, DifferentialError> {
    ForkRules::named(name).ok_or_else(|| DifferentialError::Fork {
        got: name.to_owned(),
        expected: RULES.map(|rules| rules.name).join(", "),
    })
}
