//! Compares single steps with a program `evm`, such as geth's, by state tests.
//!
//! Each transaction of the first block of a case becomes a state test: one file, which
//! `evm --json statetest` and `vnode testvec --json statetest` run. The whole block is one
//! [`transition`].

use std::path::Path;
use std::process::{Command, Stdio};

use primitives::{B256, hex};
use serde_json::{Value, json};

use crate::campaign::SeedRange;
use crate::case::{Case, CaseTransaction, sender_key};
use crate::error::DifferentialError;
use crate::evm_form::{EvmPrograms, access_list, environment, first_difference, read_lines};
use crate::generate;
use crate::ours::pre_state;
use crate::rules::ForkRules;
use crate::transition;

/// The figures and the differences of a comparison.
#[derive(Clone, Debug, Default)]
pub struct EvmReport {
    /// State tests that both programs ran.
    pub tests: usize,
    /// Tests whose transaction was refused by both.
    pub refused: usize,
    /// Blocks that both programs executed with `t8n` and built with `b11r`.
    pub blocks: usize,
    /// Lines that were compared.
    pub lines: usize,
    /// A text for each test and each block that differs.
    pub differences: Vec<String>,
}

/// Compares the state tests and the transitions of `seeds`, for each of `rules`, in files of
/// `directory`. The files of what differs are kept. Each difference is given to `report` at once.
///
/// # Errors
/// If a file cannot be written, or a program does not start.
pub fn compare_steps(
    seeds: SeedRange,
    rules: &[&'static ForkRules],
    programs: EvmPrograms<'_>,
    directory: &Path,
    mut report: impl FnMut(&str),
) -> Result<EvmReport, DifferentialError> {
    let mut all = EvmReport::default();
    for seed in seeds.seeds() {
        for rules in rules {
            let case = generate::case(seed, rules);
            for (index, test) in state_tests(&case).iter().enumerate() {
                let path = directory.join(format!("{}-{seed}-{index}.json", rules.name));
                std::fs::write(&path, test.to_string()).map_err(DifferentialError::of_path(&path))?;
                let ours = lines(programs.vnode, &["testvec", "--json", "statetest"], &path)?;
                let theirs = lines(programs.evm, &["--json", "statetest"], &path)?;
                all.tests += 1;
                all.lines += ours.len();
                // The only line is the state root.
                all.refused += usize::from(ours.len() == 1);
                match first_difference(&ours, &theirs) {
                    None => std::fs::remove_file(&path).map_err(DifferentialError::of_path(&path))?,
                    Some(difference) => {
                        let text = format!("{}: {difference}", path.display());
                        report(&text);
                        all.differences.push(text);
                    }
                }
            }
            let name = format!("{}-{seed}", rules.name);
            let found = transition::compare(&case, programs, &directory.join(name))?;
            all.blocks += 1;
            all.lines += found.lines;
            if let Some(text) = found.difference {
                report(&text);
                all.differences.push(text);
            }
        }
    }
    Ok(all)
}

/// The state tests of the transactions of the first block.
fn state_tests(case: &Case) -> Vec<Value> {
    let Some(block) = case.blocks.first() else {
        return Vec::new();
    };
    let env = environment(case, block);
    let post = json!({ case.rules.name: [{
        // Not known: what is compared is the root that each program tells.
        "hash": hex::encode(B256::ZERO),
        "logs": hex::encode(B256::ZERO),
        "indexes": { "data": 0, "gas": 0, "value": 0 },
    }] });
    let test = |transaction| {
        json!({ "test": {
            "env": env,
            "pre": pre_state(case),
            "post": post,
            "transaction": members(case, transaction),
        } })
    };
    block.transactions.iter().map(test).collect()
}

/// A transaction as the member of a state test.
fn members(case: &Case, transaction: &CaseTransaction) -> Value {
    let key = sender_key(transaction.sender);
    let sender = key.address();
    let account = case.accounts.iter().find(|account| account.address == sender);
    let nonce = account.map_or(0, |account| account.nonce);
    let mut members = json!({
        "secretKey": hex::encode_prefixed(*key.to_bytes()),
        "nonce": format!("{:#x}", nonce.saturating_add_signed(transaction.nonce_offset)),
        "gasPrice": format!("{:#x}", transaction.gas_price),
        "gasLimit": [format!("{:#x}", transaction.gas)],
        "to": transaction.to.map(hex::encode_prefixed).unwrap_or_default(),
        "value": [format!("{:#x}", transaction.value)],
        "data": [hex::encode_prefixed(transaction.input.bytes())],
    });
    if let Some(list) = &transaction.access_list {
        members["accessLists"] = json!([access_list(list)]);
    }
    members
}

/// The lines of JSON that a program writes for a test.
fn lines(program: &Path, arguments: &[&str], test: &Path) -> Result<Vec<Value>, DifferentialError> {
    let output = Command::new(program)
        .args(arguments)
        .arg(test)
        .stdin(Stdio::null())
        .output()
        .map_err(DifferentialError::of_path(program))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = read_lines(&text);
    if lines.is_empty() {
        return Err(DifferentialError::NoLines {
            program: program.to_owned(),
            got: text.chars().take(500).collect(),
        });
    }
    Ok(lines)
}
