//! Compares single steps with a program `evm`, such as geth's, by state tests.
//!
//! Each transaction of the first block of a case becomes a state test: one file, which
//! `evm --json statetest` and `vnode testvec --json statetest` run. The whole block is a transition:
//! [`transition`](crate::transition).

use std::path::Path;
use std::process::{Command, Stdio};

use primitives::{AccessListEntry, B256, hex};
use serde_json::{Value, json};

use crate::campaign::SeedRange;
use crate::case::{Case, CaseBlock, CaseTransaction, sender_key};
use crate::error::DifferentialError;
use crate::generate;
use crate::ours::pre_state;
use crate::rules::ForkRules;
use crate::transition;

/// The members of a line that must be equal. `error` is there on both sides or on none: its texts
/// differ. `gasCost` and `refund` of a step that fails are not compared: geth tells the whole price
/// with what belongs to it, and this node the gas that was left.
const MEMBERS: [&str; 12] = [
    "error",
    "pc",
    "op",
    "gas",
    "gasCost",
    "memSize",
    "stack",
    "depth",
    "refund",
    "output",
    "gasUsed",
    "stateRoot",
];
/// The difficulty of the blocks.
pub(crate) const DIFFICULTY: &str = "0x20000";

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

/// The programs that run state tests.
#[derive(Clone, Copy, Debug)]
pub struct EvmPrograms<'a> {
    /// This node's `vnode`.
    pub vnode: &'a Path,
    /// The other program.
    pub evm: &'a Path,
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
                let failed = |error| DifferentialError::File {
                    path: path.clone(),
                    error,
                };
                std::fs::write(&path, test.to_string()).map_err(failed)?;
                let ours = lines(programs.vnode, &["testvec", "--json", "statetest"], &path)?;
                let theirs = lines(programs.evm, &["--json", "statetest"], &path)?;
                all.tests += 1;
                all.lines += ours.len();
                // The only line is the state root.
                all.refused += usize::from(ours.len() == 1);
                match first_difference(&ours, &theirs) {
                    None => std::fs::remove_file(&path).map_err(failed)?,
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

/// The block as programs are told of it.
pub(crate) fn environment(case: &Case, block: &CaseBlock) -> Value {
    json!({
        "currentBaseFee": format!("{:#x}", case.base_fee),
        "currentCoinbase": hex::encode_prefixed(block.beneficiary),
        "currentDifficulty": DIFFICULTY,
        "currentGasLimit": format!("{:#x}", case.gas_limit),
        "currentNumber": "0x1",
        "currentTimestamp": format!("{:#x}", block.seconds),
    })
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

/// An access list as JSON.
pub(crate) fn access_list(list: &[AccessListEntry]) -> Value {
    let entries = list.iter().map(|entry| {
        let slots: Vec<String> = entry.slots.iter().map(hex::encode_prefixed).collect();
        json!({ "address": hex::encode_prefixed(entry.address), "storageKeys": slots })
    });
    entries.collect()
}

/// The lines of JSON that a program writes for a test.
fn lines(program: &Path, arguments: &[&str], test: &Path) -> Result<Vec<Value>, DifferentialError> {
    let output = Command::new(program)
        .args(arguments)
        .arg(test)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| DifferentialError::File {
            path: program.to_owned(),
            error,
        })?;
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

pub(crate) fn read_lines(text: &str) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for line in text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
    {
        // geth writes a step that fails twice if it fails late: without its error, and with it.
        let is_again = |last: &Value| {
            let same = ["pc", "depth", "gas"].iter().all(|name| last[name] == line[name]);
            line["pc"].is_u64() && line["error"].is_string() && same
        };
        match merged.last_mut().filter(|last| is_again(last)) {
            // Code of no bytes has a STOP here and none in geth, so no STOP counts.
            _ if line["op"] == 0 => {}
            // REVERT itself succeeds.
            Some(_) if line["error"] == "execution reverted" => {}
            Some(last) => last["error"] = line["error"].clone(),
            // geth does not begin a creation at an address that is taken, so nothing ends.
            None if line["pc"].is_null() && line["error"] == "contract address collision" => {}
            None => merged.push(line),
        }
    }
    merged
}

/// The first difference of the lines; `None` if they say the same.
pub(crate) fn first_difference(ours: &[Value], theirs: &[Value]) -> Option<String> {
    let nothing = Value::Null;
    (0..ours.len().max(theirs.len())).find_map(|at| {
        let (our, their) = (
            ours.get(at).unwrap_or(&nothing),
            theirs.get(at).unwrap_or(&nothing),
        );
        // Frontier leaves an account without code if there is no gas for its code.
        // This is a success here, and in geth an error with the code.
        let is_deposit = their["error"] == "contract creation code storage out of gas";
        let member = MEMBERS
            .iter()
            .filter(|name| !is_deposit || !["error", "output"].contains(*name))
            .find(|name| said(our, name) != said(their, name))?;
        Some(format!(
            "line {}, {member}: ours {our:.1000}, theirs {their:.1000}",
            at + 1
        ))
    })
}

/// The value that a line gives a member.
fn said(line: &Value, name: &str) -> Value {
    let value = &line[name];
    match (name, value.as_str()) {
        ("gasCost" | "refund", _) if line["error"].is_string() => Value::Null,
        ("error", _) => value.is_string().into(),
        ("stateRoot", Some(root)) => root.trim_start_matches("0x").into(),
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_found() {
        let step = json!({
            "pc": 1, "op": 2, "gas": "0x9", "gasCost": "0x3", "memSize": 0, "stack": ["0x1"], "depth": 1,
            "refund": 0, "time": 5,
        });
        let same = |other: &Value| first_difference(std::slice::from_ref(&step), std::slice::from_ref(other));
        assert_eq!(same(&step), None);
        for name in MEMBERS {
            let mut other = step.clone();
            other[name] = "0x7".into();
            let text = same(&other).expect("a difference");
            assert!(text.contains(&format!("line 1, {name}: ours")), "{text}");
        }
        let mut other = step.clone();
        other["time"] = 6.into();
        assert_eq!(same(&other), None);
        assert!(first_difference(&[step.clone(), step.clone()], &[step]).is_some());
        let failed = r#"{"pc":1,"depth":1,"gas":"0x9","gasCost":"0x3","error":"bad"}"#;
        let twice = read_lines(&format!(
            "{}\nno JSON\n{failed}",
            failed.replace(",\"error\":\"bad\"", "")
        ));
        assert_eq!(
            first_difference(&twice, &read_lines(&failed.replace("0x3", "0x9"))),
            None
        );
        let roots = [json!({ "stateRoot": "0x12" }), json!({ "stateRoot": "12" })];
        assert_eq!(first_difference(&roots[..1], &roots[1..]), None);
    }
}
