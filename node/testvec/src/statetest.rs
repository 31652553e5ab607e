//! `vnode testvec statetest`: runs the state tests of a file, as geth's `evm statetest`.
//!
//! A test has a transaction with lists of data, gas limits and values, and for each fork the
//! expected results of some of their combinations.

use std::io::{BufRead, BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::error::{TestVectorError, ToolError};
use super::fields::{array, hash_text, member, uint64, wrong};
use super::places::file_error;
use super::state::{StateOutcome, run_state_with};
use super::steps::{StepLines, parts};
use crate::options::StepLineOptions;

/// The base fee of a block whose test names none, as in geth.
const BASE_FEE: &str = "0x0a";

/// Runs the tests of `file`, or of the files that standard input names. With `lines` the steps and
/// the state roots go to standard error.
pub(super) fn run(file: Option<&Path>, lines: Option<StepLineOptions>) -> Result<(), ToolError> {
    if let Some(file) = file {
        return run_file(file, lines);
    }
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if !line.trim().is_empty() {
            run_file(Path::new(line.trim()), lines)?;
        }
    }
    Ok(())
}

fn run_file(file: &Path, lines: Option<StepLineOptions>) -> Result<(), ToolError> {
    let text = std::fs::read(file).map_err(|error| file_error(file, error))?;
    let of_json = |error: TestVectorError| ToolError::Json {
        place: file.display().to_string(),
        error,
    };
    let tests: Map<String, Value> = serde_json::from_slice(&text).map_err(|error| of_json(error.into()))?;
    let mut results = Vec::new();
    for (name, test) in &tests {
        let forks = member(test, "post").map_err(of_json)?;
        let forks = forks
            .as_object()
            .ok_or_else(|| of_json(wrong("post", forks, "an object")))?;
        for (fork, cases) in forks {
            let cases = cases
                .as_array()
                .ok_or_else(|| of_json(wrong(fork, cases, "an array")))?;
            for expected in cases {
                results.push(run_case(name, test, (fork, expected), lines)?);
            }
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:#}", Value::Array(results))?;
    Ok(out.flush()?)
}

/// Runs one combination. Returns its result, with the reason if it is not the expected one.
fn run_case(
    name: &str,
    test: &Value,
    (fork, expected): (&str, &Value),
    lines: Option<StepLineOptions>,
) -> Result<Value, ToolError> {
    let mut result = json!({ "name": name, "fork": fork, "pass": true });
    let outcome = match lines {
        None => request(test, fork, expected).and_then(|request| run_state_with(&request, None)),
        Some(options) => {
            let mut sink = StepLines::new(BufWriter::new(std::io::stderr().lock()));
            let outcome = request(test, fork, expected)
                .and_then(|request| run_state_with(&request, Some((parts(options), &mut sink))));
            sink.finish()?;
            if let Ok(outcome) = &outcome {
                eprintln!("{{\"stateRoot\": \"{}\"}}", hash_text(outcome.state_root));
            }
            outcome
        }
    };
    if let Ok(outcome) = &outcome {
        result["stateRoot"] = hash_text(outcome.state_root).into();
    }
    if let Some(error) = outcome.map_or_else(
        |error| Some(error.to_string()),
        |outcome| difference(&outcome, expected),
    ) {
        result["pass"] = false.into();
        result["error"] = error.into();
    }
    Ok(result)
}

/// The difference between a result and the expected one.
fn difference(outcome: &StateOutcome, expected: &Value) -> Option<String> {
    let exception = expected["expectException"].as_str().unwrap_or_default();
    match (&outcome.refused, exception) {
        (Some(reason), "") => return Some(format!("unexpected error: {reason}")),
        (None, exception) if !exception.is_empty() => {
            return Some(format!("expected error {exception}, got no error"));
        }
        _ => {}
    }
    let checks = [
        ("post state root mismatch", "hash", outcome.state_root),
        ("post state logs hash mismatch", "logs", outcome.logs_hash),
    ];
    checks.iter().find_map(|(text, member, got)| {
        let (got, want) = (hash_text(*got), expected[*member].as_str()?);
        let bare = |hash: &str| hash.trim_start_matches("0x").to_lowercase();
        (bare(&got) != bare(want)).then(|| format!("{text}: got {}, want {}", bare(&got), bare(want)))
    })
}

/// The request of `vnode testvec state` for one combination.
fn request(test: &Value, fork: &str, expected: &Value) -> Result<Value, TestVectorError> {
    let indexes = member(expected, "indexes")?;
    let mut tx = member(test, "transaction")?.clone();
    for (name, index) in [("data", "data"), ("gasLimit", "gas"), ("value", "value")] {
        let index = uint64(indexes, index).map_err(|error| error.in_object("indexes"))? as usize;
        let values = array(&tx, name)?;
        let value = values
            .get(index)
            .ok_or_else(|| wrong(name, format!("{} values", values.len()), format!("index {index}")))?;
        let value = value.clone();
        if name == "data" {
            let list = tx["accessLists"].get(index).cloned().unwrap_or_default();
            tx["accessList"] = list;
        }
        tx[name] = value;
    }
    let mut env = member(test, "env")?.clone();
    if env.is_object() && env["currentBaseFee"].is_null() {
        env["currentBaseFee"] = BASE_FEE.into();
    }
    Ok(json!({ "fork": fork, "env": env, "pre": member(test, "pre")?, "tx": tx }))
}
