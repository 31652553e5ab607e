//! Compares what two executors say of a case, and finds the first step at which they part.

use std::fmt;

use primitives::hex;

use crate::case::Case;
use crate::client::{CandidatePlace, ClientAnswer, CodeStep, IndependentExecutor};
use crate::error::DifferentialError;
use crate::opcodes;
use crate::ours::{ExecutedCase, ExecutedPlan, Fate};

/// The first difference of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The transaction; `None` if its block as a whole differs.
    pub place: Option<CandidatePlace>,
    /// The name of the value that differs, with both values.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(
                f,
                "block {}, transaction {}: ",
                place.block + 1,
                place.transaction
            )?;
        }
        f.write_str(&self.what)
    }
}

/// Both sides of a value.
fn both(what: &str, ours: impl fmt::Display, theirs: impl fmt::Display) -> String {
    format!("{what}: ours {ours}, theirs {theirs}")
}

/// The first difference between our execution and the answer of the independent executor.
pub fn first_difference(ours: &ExecutedCase, theirs: &ClientAnswer) -> Option<Difference> {
    let of_case = |what| Difference { place: None, what };
    let root = ours.genesis.state_root.to_string();
    if root != theirs.genesis_root {
        return Some(of_case(both("state root of block 0", root, &theirs.genesis_root)));
    }
    if ours.blocks.len() != theirs.blocks.len() {
        return Some(of_case(both("blocks", ours.blocks.len(), theirs.blocks.len())));
    }
    for (index, (block, other)) in ours.blocks.iter().zip(&theirs.blocks).enumerate() {
        let found = block
            .fates
            .iter()
            .zip(&other.fates)
            .enumerate()
            .find_map(|(at, (ours, theirs))| Some((at, fate_difference(ours, theirs)?)));
        if let Some((transaction, what)) = found {
            let place = CandidatePlace {
                block: index,
                transaction,
            };
            return Some(Difference {
                place: Some(place),
                what,
            });
        }
        let header = &block.block.header;
        let values = [
            (
                "gas used",
                header.gas_used.to_string(),
                other.gas_used.to_string(),
            ),
            (
                "transactions root",
                header.transactions_root.to_string(),
                other.transactions_root.clone(),
            ),
            (
                "receipts root",
                header.receipts_root.to_string(),
                other.receipts_root.clone(),
            ),
            (
                "logs bloom",
                hex::encode_prefixed(header.logs_bloom),
                other.logs_bloom.clone(),
            ),
            (
                "state root",
                header.state_root.to_string(),
                other.state_root.clone(),
            ),
            ("hash", block.block.hash().to_string(), other.hash.clone()),
        ];
        let different = values.iter().find(|(_, ours, theirs)| ours != theirs);
        if let Some((what, ours, theirs)) = different {
            return Some(of_case(both(
                &format!("block {}: {what}", index + 1),
                ours,
                theirs,
            )));
        }
    }
    None
}

fn fate_difference(ours: &Fate, theirs: &Fate) -> Option<String> {
    match (ours, theirs) {
        (Fate::Refused(_), Fate::Refused(_)) => None,
        (
            Fate::Executed { gas_used, receipt },
            Fate::Executed {
                gas_used: other_gas,
                receipt: other_receipt,
            },
        ) => {
            if gas_used != other_gas {
                return Some(both("gas used", gas_used, other_gas));
            }
            (receipt != other_receipt).then(|| {
                both(
                    "receipt",
                    hex::encode_prefixed(receipt),
                    hex::encode_prefixed(other_receipt),
                )
            })
        }
        (Fate::Refused(reason), Fate::Executed { .. }) => {
            Some(both("validity", format_args!("refused ({reason})"), "executed"))
        }
        (Fate::Executed { .. }, Fate::Refused(reason)) => {
            Some(both("validity", "executed", format_args!("refused ({reason})")))
        }
    }
}

/// The first step at which two traces part, as text; `None` if there is no such step.
pub fn first_step(ours: &[CodeStep], theirs: &[CodeStep]) -> Option<String> {
    let length = ours.len().max(theirs.len());
    let at = (0..length).find(|at| ours.get(*at) != theirs.get(*at))?;
    let shown = |step: Option<&CodeStep>| match step {
        Some(step) => format!(
            "{} at {} with {} gas at depth {}",
            opcodes::name(step.code),
            step.pc,
            step.gas,
            step.depth
        ),
        None => "no more steps".to_owned(),
    };
    let before = at.checked_sub(1).and_then(|before| ours.get(before));
    Some(format!(
        "the traces part at step {at}, after {}: {}",
        shown(before),
        both("next", shown(ours.get(at)), shown(theirs.get(at)))
    ))
}

/// Executes a case on both sides. Returns the first difference.
///
/// # Errors
/// If one of the sides fails.
pub fn run_case(case: &Case, client: &mut IndependentExecutor) -> Result<Outcome, DifferentialError> {
    let ours = crate::ours::execute(case, crate::ours::spec_of(case.rules)?)?;
    let theirs = client.execute(case, &ours, None)?;
    let difference = first_difference(&ours, &theirs);
    Ok(Outcome { ours, difference })
}

/// The result of the comparison of a case.
#[derive(Debug)]
pub struct Outcome {
    /// Our execution.
    pub ours: ExecutedCase,
    /// The first difference.
    pub difference: Option<Difference>,
}

impl Outcome {
    /// The number of transactions that were executed, and of those that were refused.
    pub fn counts(&self) -> (usize, usize) {
        let fates = |block: &ExecutedPlan| {
            let executed = block
                .fates
                .iter()
                .filter(|fate| matches!(fate, Fate::Executed { .. }));
            (executed.count(), block.fates.len())
        };
        let all = self.ours.blocks.iter().map(fates);
        let (executed, fates) = all.fold((0, 0), |sum, block| (sum.0 + block.0, sum.1 + block.1));
        (executed, fates - executed)
    }

    /// The step at which the traces of a transaction part; an empty text if they do not, or are not
    /// known.
    pub fn parting(&self, case: &Case, client: &mut IndependentExecutor) -> String {
        let Some(place) = self.difference.as_ref().and_then(|found| found.place) else {
            return String::new();
        };
        let ours = self.ours.trace(place.block, place.transaction);
        let theirs = client.execute(case, &self.ours, Some(place));
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                let ours: Vec<CodeStep> = ours.iter().map(CodeStep::from).collect();
                first_step(&ours, &theirs.steps).unwrap_or_default()
            }
            (Err(error), _) | (_, Err(error)) => format!("no trace: {error}"),
        }
    }
}
