//! Compares whole blocks with a program `evm`, such as geth's: `t8n` with its traces, then `b11r`.
//!
//! The first block of a case is given to both programs as accounts, block and signed
//! transactions. Compared are the members of the result, the accounts afterwards, the list of
//! transactions, the lines of each trace, and the block that is built of them. Not compared are the
//! reasons for which transactions are refused, whose texts differ, and what geth 1.10.26 does in
//! its own way: the function `comparable` lists it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use primitives::{SecretKey, TxForm, hex};
use serde_json::{Value, json};

use crate::case::{Case, CaseBlock, CaseTransaction, SENDERS, SignatureKind, sender_key};
use crate::error::DifferentialError;
use crate::evm_form::{DIFFICULTY, EvmPrograms, access_list, environment, first_difference, read_lines};
use crate::ours::{pre_state, sign};

/// The reward for the block, in wei.
const REWARD: &str = "2000000000000000000";
/// The chain id of both programs.
const CHAIN_ID: u64 = 1;

/// The outcome for one block.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransitionReport {
    /// The lines of traces that were compared.
    pub(crate) lines: usize,
    /// The first difference.
    pub(crate) difference: Option<String>,
}

/// Runs the first block of `case` with both programs, in `directory`, which is removed if they
/// agree.
///
/// # Errors
/// If a file cannot be written or read, or a program fails.
pub(crate) fn compare(
    case: &Case,
    programs: EvmPrograms<'_>,
    directory: &Path,
) -> Result<TransitionReport, DifferentialError> {
    let Some(block) = case.blocks.first() else {
        return Ok(TransitionReport::default());
    };
    for (name, value) in [
        ("alloc.json", pre_state(case)),
        ("env.json", environment_with_uncle(case, block)),
        ("txs.json", transactions(case, block)),
    ] {
        write(&directory.join(name), &value.to_string())?;
    }
    let ours = run_t8n(programs.vnode, &["testvec", "t8n"], case, directory, "ours")?;
    let theirs = run_t8n(programs.evm, &["t8n"], case, directory, "theirs")?;
    let mut found = ours.difference(&theirs);
    if found.difference.is_none() {
        write(
            &directory.join("header.json"),
            &header(case, block, &ours.result).to_string(),
        )?;
        let ours = run_b11r(programs.vnode, &["testvec", "b11r"], directory, "ours")?;
        let theirs = run_b11r(programs.evm, &["b11r"], directory, "theirs")?;
        found.difference = (ours != theirs).then(|| both("the block", &ours, &theirs));
    }
    match &mut found.difference {
        Some(text) => *text = format!("{}: {text}", directory.display()),
        None => std::fs::remove_dir_all(directory).map_err(DifferentialError::of_path(directory))?,
    }
    Ok(found)
}

/// Both sides of a value.
fn both(what: &str, ours: &Value, theirs: &Value) -> String {
    format!("{what}: ours {ours:.1000}, theirs {theirs:.1000}")
}

/// The block, with the hash of its parent and its uncle as `t8n` takes them.
fn environment_with_uncle(case: &Case, block: &CaseBlock) -> Value {
    let mut env = environment(case, block);
    env["blockHashes"] = json!({ "0": hex::encode_prefixed([3; 32]) });
    if let Some(uncle) = block.uncle {
        env["ommers"] = json!([{ "delta": 1, "address": hex::encode_prefixed(uncle) }]);
    }
    env
}

/// The signed transactions, without those of a signature that geth takes for a broken file. Each
/// sender's nonces go on as if none were refused.
fn transactions(case: &Case, block: &CaseBlock) -> Value {
    let keys: Vec<SecretKey> = (0..SENDERS).map(sender_key).collect();
    let mut nonces: Vec<u64> = keys
        .iter()
        .map(|key| {
            let address = key.address();
            let account = case.accounts.iter().find(|account| account.address == address);
            account.map_or(0, |account| account.nonce)
        })
        .collect();
    let is_read = |planned: &&CaseTransaction| {
        !matches!(planned.signature, SignatureKind::Broken | SignatureKind::HighS)
    };
    let signed = block.transactions.iter().filter(is_read).map(|planned| {
        let nonce = &mut nonces[planned.sender];
        let signed = sign(planned, *nonce, CHAIN_ID, TxForm::Ethereum);
        *nonce += u64::from(planned.nonce_offset == 0);
        let mut members = json!({
            "type": if planned.access_list.is_some() { "0x1" } else { "0x0" },
            "chainId": format!("{CHAIN_ID:#x}"),
            "nonce": format!("{:#x}", signed.tx_nonce),
            "gasPrice": format!("{:#x}", signed.gas_price),
            "gas": format!("{:#x}", signed.gas),
            "to": signed.to.map(hex::encode_prefixed),
            "value": format!("{:#x}", signed.value),
            "input": hex::encode_prefixed(&signed.input),
            "v": format!("{:#x}", signed.v),
            "r": format!("{:#x}", signed.r),
            "s": format!("{:#x}", signed.s),
        });
        if let Some(list) = &planned.access_list {
            members["accessList"] = access_list(list);
        }
        members
    });
    signed.collect()
}

/// Files of one program's `t8n`.
#[derive(Clone, Debug)]
struct TransitionFiles {
    result: Value,
    accounts: Value,
    /// The list of transactions in RLP. Null if some were refused.
    body: Value,
    /// The lines of each trace by the name of its file.
    traces: BTreeMap<String, Vec<Value>>,
}

impl TransitionFiles {
    fn difference(&self, other: &Self) -> TransitionReport {
        let mut found = TransitionReport::default();
        let names: Vec<&String> = self.traces.keys().collect();
        if !names.iter().eq(&other.traces.keys().collect::<Vec<_>>()) {
            let theirs = other.traces.keys().cloned().collect();
            found.difference = Some(both("traces", &json!(names), &theirs));
        }
        for (name, lines) in &self.traces {
            found.lines += lines.len();
            let theirs = other.traces.get(name).map(Vec::as_slice).unwrap_or_default();
            if found.difference.is_none() {
                found.difference = first_difference(lines, theirs).map(|text| format!("{name}: {text}"));
            }
        }
        let wholes = [
            ("result", &self.result, &other.result),
            ("accounts", &self.accounts, &other.accounts),
            ("body", &self.body, &other.body),
        ];
        for (what, ours, theirs) in wholes {
            if found.difference.is_none() && ours != theirs {
                found.difference = Some(member_difference(what, ours, theirs));
            }
        }
        found
    }
}

/// The first place at which two values differ, by the names and indices that lead to it.
fn member_difference(place: &str, ours: &Value, theirs: &Value) -> String {
    let inner = match (ours, theirs) {
        (Value::Object(our), Value::Object(their)) => our
            .keys()
            .chain(their.keys())
            .find(|name| our.get(*name) != their.get(*name))
            .map(|name| (name.clone(), &ours[name], &theirs[name])),
        (Value::Array(our), Value::Array(their)) if our.len() == their.len() => (0..our.len())
            .find(|at| our[*at] != their[*at])
            .map(|at| (at.to_string(), &our[at], &their[at])),
        _ => None,
    };
    match inner {
        Some((name, ours, theirs)) => member_difference(&format!("{place}, {name}"), ours, theirs),
        None => both(place, ours, theirs),
    }
}

fn run_t8n(
    program: &Path,
    command: &[&str],
    case: &Case,
    directory: &Path,
    side: &str,
) -> Result<TransitionFiles, DifferentialError> {
    let output = directory.join(side);
    std::fs::create_dir_all(&output).map_err(DifferentialError::of_path(&output))?;
    let input = |name: &str| directory.join(name).display().to_string();
    let options = [
        ("--input.alloc", input("alloc.json")),
        ("--input.env", input("env.json")),
        ("--input.txs", input("txs.json")),
        ("--output.basedir", output.display().to_string()),
        ("--output.alloc", "alloc.json".to_owned()),
        ("--output.result", "result.json".to_owned()),
        ("--output.body", "txs.rlp".to_owned()),
        ("--state.fork", case.rules.name.to_owned()),
        ("--state.chainid", CHAIN_ID.to_string()),
        ("--state.reward", REWARD.to_owned()),
    ];
    let mut arguments: Vec<String> = command.iter().map(ToString::to_string).collect();
    arguments.push("--trace".to_owned());
    arguments.extend(options.map(|(name, value)| format!("{name}={value}")));
    run(program, &arguments)?;
    let mut traces = BTreeMap::new();
    for entry in std::fs::read_dir(&output).map_err(DifferentialError::of_path(&output))? {
        let path = entry.map_err(DifferentialError::of_path(&output))?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with("trace-") {
            let text = std::fs::read_to_string(&path).map_err(DifferentialError::of_path(&path))?;
            let lines = read_lines(&text);
            // geth leaves an empty file for a refused transaction.
            if !lines.is_empty() {
                traces.insert(name, lines);
            }
        }
    }
    let result = comparable(read(&output.join("result.json"))?, case.rules.name);
    let body = match result["rejected"] {
        Value::Null => read(&output.join("txs.rlp"))?,
        _ => Value::Null,
    };
    Ok(TransitionFiles {
        result,
        accounts: read(&output.join("alloc.json"))?,
        body,
        traces,
    })
}

/// Leaves out of a result what is not compared. geth 1.10.26 gives logs a block hash of its own,
/// says no base fee, and lists refused transactions with the others, which later versions do not.
/// Its hash of all logs takes the transactions in the order of a map, which is another one each
/// time. Its receipts have a status before there was one in the protocol, which in Frontier is that
/// of a creation without gas for its code.
fn comparable(mut result: Value, fork: &str) -> Value {
    for refused in result["rejected"].as_array_mut().into_iter().flatten() {
        *refused = refused["index"].clone();
    }
    let mut with_logs = 0;
    for receipt in result["receipts"].as_array_mut().into_iter().flatten() {
        with_logs += u8::from(receipt["logs"].is_array());
        if fork == "Frontier" {
            receipt["status"] = Value::Null;
        }
        for log in receipt["logs"].as_array_mut().into_iter().flatten() {
            log["blockHash"] = Value::Null;
        }
    }
    if let Some(members) = result.as_object_mut() {
        members.remove("currentBaseFee");
        if with_logs > 1 {
            members.remove("logsHash");
        }
    }
    result
}

/// The header of the block with this result.
fn header(case: &Case, block: &CaseBlock, result: &Value) -> Value {
    let mut header = json!({
        "parentHash": hex::encode_prefixed([1; 32]),
        "miner": hex::encode_prefixed(block.beneficiary),
        "stateRoot": result["stateRoot"],
        "transactionsRoot": result["txRoot"],
        "receiptsRoot": result["receiptsRoot"],
        "logsBloom": result["logsBloom"],
        "difficulty": DIFFICULTY,
        "number": "0x1",
        "gasLimit": format!("{:#x}", case.gas_limit),
        "gasUsed": result["gasUsed"],
        "timestamp": format!("{:#x}", block.seconds),
        "extraData": hex::encode_prefixed(&block.extra),
        "mixHash": hex::encode_prefixed([2; 32]),
        "nonce": "0x0102030405060708",
    });
    if case.rules.base_fee {
        header["baseFeePerGas"] = format!("{:#x}", case.base_fee).into();
    }
    header
}

fn run_b11r(
    program: &Path,
    command: &[&str],
    directory: &Path,
    side: &str,
) -> Result<Value, DifferentialError> {
    let output = directory.join(side);
    let mut arguments: Vec<String> = command.iter().map(ToString::to_string).collect();
    arguments.extend([
        format!("--input.header={}", directory.join("header.json").display()),
        format!("--input.txs={}", directory.join("ours/txs.rlp").display()),
        format!("--output.basedir={}", output.display()),
        "--output.block=block.json".to_owned(),
    ]);
    run(program, &arguments)?;
    read(&output.join("block.json"))
}

fn run(program: &Path, arguments: &[String]) -> Result<(), DifferentialError> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(DifferentialError::of_path(program))?;
    if output.status.success() {
        return Ok(());
    }
    Err(DifferentialError::Program {
        program: program.to_owned(),
        arguments: arguments.join(" "),
        status: output.status.to_string(),
        got: String::from_utf8_lossy(&output.stderr)
            .chars()
            .take(500)
            .collect(),
    })
}

fn write(path: &Path, text: &str) -> Result<(), DifferentialError> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(DifferentialError::of_path(folder))?;
    std::fs::write(path, text).map_err(DifferentialError::of_path(path))
}

fn read(path: &Path) -> Result<Value, DifferentialError> {
    let text = std::fs::read_to_string(path).map_err(DifferentialError::of_path(path))?;
    serde_json::from_str(&text).map_err(|error| DifferentialError::of_path(path)(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_of_outcomes_is_found() {
        let outcome = TransitionFiles {
            result: json!({ "stateRoot": "0x1" }),
            accounts: json!({ "0xaa": { "balance": "0x1" } }),
            body: "0xc0".into(),
            traces: BTreeMap::from([("trace-0".to_owned(), vec![json!({ "pc": 1, "depth": 1 })])]),
        };
        let same = outcome.difference(&outcome);
        assert_eq!((same.lines, same.difference), (1, None));
        type Change = fn(&mut TransitionFiles);
        let changes: [(Change, &str); 5] = [
            (
                |other| other.result["gasUsed"] = "0x2".into(),
                "result, gasUsed: ours null",
            ),
            (
                |other| other.accounts["0xaa"] = json!({}),
                "accounts, 0xaa, balance: ours \"0x1\", theirs null",
            ),
            (|other| other.body = "0xc1".into(), "body: ours \"0xc0\""),
            (|other| other.traces.clear(), "traces: ours [\"trace-0\"]"),
            (
                |other| {
                    other
                        .traces
                        .values_mut()
                        .for_each(|lines| lines[0]["pc"] = 2.into())
                },
                "trace-0: line 1, pc: ours",
            ),
        ];
        for (change, expected) in changes {
            let mut other = outcome.clone();
            change(&mut other);
            let text = outcome.difference(&other).difference.expect("a difference");
            assert!(text.starts_with(expected), "{text}");
        }
    }
}
