//! Forms of a program `evm`, such as geth's: blocks as it is given them, and the lines that it
//! writes of steps, with their comparison.

use std::path::Path;

use primitives::{AccessListEntry, hex};
use serde_json::{Value, json};

use crate::case::{Case, CaseBlock};

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

/// The programs that are compared.
#[derive(Clone, Copy, Debug)]
pub struct EvmPrograms<'a> {
    /// This node's `vnode`.
    pub vnode: &'a Path,
    /// The other program.
    pub evm: &'a Path,
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

/// An access list as JSON.
pub(crate) fn access_list(list: &[AccessListEntry]) -> Value {
    let entries = list.iter().map(|entry| {
        let slots: Vec<String> = entry.slots.iter().map(hex::encode_prefixed).collect();
        json!({ "address": hex::encode_prefixed(entry.address), "storageKeys": slots })
    });
    entries.collect()
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
