//! The answers in which geth 1.8.27 differs, and the reasons.
//!
//! Each rule names the method, the member, and what the values must be like. A rule that explains
//! nothing is an error, too: then the reason is gone.

use primitives::U256;
use serde_json::Value;

use super::Difference;
use super::scene::RELAY;
use crate::mc::harness::{BENEFICIARY, account};

/// A difference, with what the rules ask about it.
pub(super) struct Case<'a> {
    method: &'a str,
    params: &'a Value,
    /// The whole answer of this node.
    answer: &'a Value,
    difference: &'a Difference,
}

impl<'a> Case<'a> {
    pub(super) const fn new(
        (method, params): (&'a str, &'a Value),
        answer: &'a Value,
        difference: &'a Difference,
    ) -> Self {
        Self {
            method,
            params,
            answer,
            difference,
        }
    }

    fn ours(&self) -> &Value {
        self.difference.ours.as_ref().unwrap_or(&Value::Null)
    }

    fn theirs(&self) -> &Value {
        self.difference.theirs.as_ref().unwrap_or(&Value::Null)
    }

    /// Only this node has the member.
    const fn is_only_ours(&self) -> bool {
        self.difference.theirs.is_none()
    }

    /// Only geth has the member.
    const fn is_only_theirs(&self) -> bool {
        self.difference.ours.is_none()
    }

    /// The name of the member, or the index of the element.
    fn member(&self) -> &str {
        self.difference.path.last().map_or("", String::as_str)
    }

    fn path(&self) -> Vec<&str> {
        self.difference.path.iter().map(String::as_str).collect()
    }

    /// Member `name` of this node's object that has the member.
    fn beside(&self, name: &str) -> &Value {
        let above = &self.difference.path[..self.difference.path.len() - 1];
        let mut object = self.answer;
        for step in above {
            object = match object {
                Value::Array(list) => &list[step.parse::<usize>().expect("an index")],
                object => &object[step],
            };
        }
        &object[name]
    }

    /// The tracer of a trace; `steps` without one.
    fn tracer(&self) -> &str {
        if self.method.starts_with("debug_trace") {
            self.params[1]["tracer"].as_str().unwrap_or("steps")
        } else {
            ""
        }
    }

    fn is_inner_call(&self) -> bool {
        self.path().contains(&"calls")
    }

    /// Both values, as numbers.
    fn numbers(&self) -> Option<(U256, U256)> {
        let number = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
        Some((number(self.ours())?, number(self.theirs())?))
    }
}

/// The reason for geth's other answer, and the differences for which it holds.
type Rule = (&'static str, fn(&Case<'_>) -> bool);

/// The reasons of failures of this node, by the first words of geth's.
const REASONS: [(&str, &str); 9] = [
    ("invalid opcode", "Invalid opcode"),
    ("invalid jump destination", "evm: InvalidJump"),
    ("stack underflow", "evm: StackUnderflow"),
    ("gas uint64 overflow", "out of gas"),
    ("contract creation code storage out of gas", "out of gas"),
    ("contract address collision", "contract address collision"),
    ("execution reverted", "evm: execution reverted"),
    ("evm: write protection", "evm: StateChangeDuringStaticCall"),
    ("evm: return data out of bounds", "evm: OutOfOffset"),
];

/// The rules for blocks, transactions, calls and estimates.
const ANSWERS: &[Rule] = &[
    (
        "later versions show the type of a transaction and its chain id",
        |case| case.is_only_ours() && matches!(case.member(), "type" | "chainId"),
    ),
    (
        "transactions of this program's own networks have these members",
        |case| case.is_only_ours() && matches!(case.member(), "shardingFlag" | "syscnt"),
    ),
    ("later versions show the price of a unit of gas", |case| {
        case.is_only_ours() && case.member() == "effectiveGasPrice"
    }),
    (
        "later versions answer calls that fail with an error, 1.8.27 with their output",
        |case| {
            let path = case.path();
            case.method == "eth_call"
                && (path == ["error"] && case.ours()["code"].is_number() && case.theirs().is_null()
                    || path == ["result"] && case.ours().is_null() && case.theirs().is_string())
        },
    ),
    ("the text says how much gas is missing", |case| {
        let text = case.ours().as_str().unwrap_or_default();
        case.method == "eth_call" && case.path() == ["error", "message"] && text.starts_with("intrinsic gas")
    }),
    (
        "later versions say why an estimate fails, and give the data of a revert",
        |case| {
            let theirs = case.theirs().as_str().unwrap_or_default();
            case.method == "eth_estimateGas"
                && match case.member() {
                    "message" => theirs.ends_with("or always failing transaction"),
                    "code" => case.ours() == 3,
                    member => member == "data" && case.is_only_ours(),
                }
        },
    ),
    (
        "this node ends its search at 1/64 above the lowest amount",
        |case| {
            let close =
                |(ours, theirs): (U256, U256)| theirs <= ours && ours <= theirs + theirs / U256::from(64);
            case.method == "eth_estimateGas" && case.numbers().is_some_and(close)
        },
    ),
    (
        "the calls of this contract may fail, and then it needs less gas",
        |case| {
            let more = |(ours, theirs)| theirs < ours;
            case.method == "eth_estimateGas"
                && case.params[0]["to"] == serde_json::json!(RELAY)
                && case.numbers().is_some_and(more)
        },
    ),
];

/// The rules for traces of steps.
const STEPS: &[Rule] = &[
    (
        "later versions name the transaction in the trace of a block",
        |case| case.is_only_ours() && case.member() == "txHash",
    ),
    ("1.8.27 writes every error as an empty object", |case| {
        case.tracer() == "steps"
            && case.member() == "error"
            && case.theirs() == &serde_json::json!({})
            && case.ours().is_string()
    }),
    (
        "1.8.27 does not tell errors that an instruction has only when it runs",
        |case| {
            let late = ["evm: InvalidJump", "evm: OutOfOffset"];
            case.tracer() == "steps"
                && case.member() == "error"
                && case.is_only_ours()
                && case.ours().as_str().is_some_and(|error| late.contains(&error))
        },
    ),
    (
        "the virtual machine does not tell what a step would have cost that failed",
        |case| case.tracer() == "steps" && case.member() == "gasCost" && case.beside("error").is_string(),
    ),
    (
        "later versions show the memory before the step extends it",
        |case| {
            let (Some(ours), Some(theirs)) = (case.ours().as_array(), case.theirs().as_array()) else {
                return false;
            };
            let zero = serde_json::json!("0".repeat(64));
            case.member() == "memory"
                && theirs.starts_with(ours)
                && theirs[ours.len()..].iter().all(|word| *word == zero)
        },
    ),
    ("later versions use other names of instructions", |case| {
        let names = [
            ("KECCAK256", "SHA3"),
            ("INVALID", "Missing opcode 0xfe"),
            ("opcode 0x0c not defined", "Missing opcode 0xc"),
        ];
        let both = (
            case.ours().as_str().unwrap_or_default(),
            case.theirs().as_str().unwrap_or_default(),
        );
        case.member() == "op" && names.contains(&both)
    }),
    ("later versions show storage only at steps that use it", |case| {
        let uses = matches!(case.beside("op").as_str(), Some("SLOAD" | "SSTORE"));
        case.member() == "storage" && case.is_only_theirs() && (!uses || case.beside("error").is_string())
    }),
    (
        "later versions show what SLOAD reads, 1.8.27 what a failed SSTORE would have written",
        |case| {
            let path = case.path();
            let [.., "storage", _] = path[..] else {
                return false;
            };
            case.tracer() == "steps"
        },
    ),
    (
        "later versions show no code of a creation that could not pay for it",
        |case| case.member() == "returnValue" && case.ours() == "" && case.beside("failed") == true,
    ),
];

/// The rules for `callTracer` and `4byteTracer`.
const CALLS: &[Rule] = &[
    ("it is the time that the trace took", |case| {
        case.tracer() == "callTracer" && case.member() == "time" && case.is_only_theirs()
    }),
    (
        "later versions count what every transaction pays, and refunds",
        |case| {
            case.tracer() == "callTracer"
                && !case.is_inner_call()
                && matches!(case.member(), "gas" | "gasUsed")
                && case.numbers().is_some()
        },
    ),
    ("texts differ", |case| {
        let (ours, theirs) = (case.ours().as_str(), case.theirs().as_str().unwrap_or_default());
        let mut reasons = REASONS.iter();
        case.tracer() == "callTracer"
            && case.member() == "error"
            && reasons.any(|(start, own)| theirs.starts_with(start) && ours == Some(own))
    }),
    (
        "1.8.27 does not know why a call failed that made no step",
        |case| {
            let reasons = ["evm: OutOfFunds", "out of gas", "contract address collision"];
            case.is_inner_call()
                && case.member() == "error"
                && (case.is_only_ours() || case.theirs() == "internal failure")
                && case
                    .ours()
                    .as_str()
                    .is_some_and(|reason| reasons.contains(&reason))
        },
    ),
    ("later versions leave an empty output out", |case| {
        case.tracer() == "callTracer"
            && case.member() == "output"
            && case.is_only_theirs()
            && case.theirs() == "0x"
    }),
    ("later versions show the output of a revert", |case| {
        case.tracer() == "callTracer"
            && case.member() == "output"
            && case.is_only_ours()
            && case.beside("error") == "evm: execution reverted"
    }),
    (
        "later versions do not name the contract of a creation that failed",
        |case| {
            case.tracer() == "callTracer"
                && case.member() == "to"
                && case.is_only_theirs()
                && case.beside("type") == "CREATE"
                && case.beside("error").is_string()
        },
    ),
    ("later versions show the members of a destruction", |case| {
        case.is_inner_call() && case.is_only_ours() && case.beside("type") == "SELFDESTRUCT"
    }),
    (
        "1.8.27 shows no gas of creations, and of calls that made no step",
        |case| {
            let kind = case.beside("type").as_str().unwrap_or_default();
            case.is_inner_call()
                && case.is_only_ours()
                && matches!(case.member(), "gas" | "gasUsed")
                && (kind.starts_with("CREATE") || case.beside("error").is_string())
        },
    ),
    ("later versions show the value of a DELEGATECALL", |case| {
        case.is_inner_call()
            && case.is_only_ours()
            && case.member() == "value"
            && case.beside("type") == "DELEGATECALL"
    }),
    ("later versions list calls of precompiled contracts", |case| {
        let is_builtin = |call: &Value| {
            let to = call["to"].as_str().unwrap_or_default();
            to.len() == 42 && to.trim_start_matches("0x").trim_start_matches('0').len() == 1
        };
        case.tracer() == "callTracer"
            && case.member() == "calls"
            && case.is_only_ours()
            && case
                .ours()
                .as_array()
                .is_some_and(|calls| calls.iter().all(is_builtin))
    }),
    (
        "1.8.27 counts no call of the addresses that Byzantium makes precompiled",
        |case| case.tracer() == "4byteTracer" && case.is_only_ours() && case.member() == "0xec4916dd-60",
    ),
    (
        "1.8.27 counts a STATICCALL that the rules do not know yet",
        |case| case.tracer() == "4byteTracer" && case.is_only_theirs() && case.member() == "0x-28",
    ),
];

/// The rules for `prestateTracer`.
const PRESTATE: &[Rule] = &[
    ("1.8.27 fails if no code runs", |case| {
        let error = case.theirs()["message"].as_str().unwrap_or_default();
        case.tracer() == "prestateTracer"
            && (case.path() == ["result"] && case.theirs().is_null()
                || case.path() == ["error"] && error.starts_with("TypeError: "))
    }),
    ("later versions show the account that the block pays", |case| {
        case.tracer() == "prestateTracer"
            && case.is_only_ours()
            && case.member() == primitives::hex::encode_prefixed(BENEFICIARY)
    }),
    ("the gas is paid already when 1.8.27 looks", |case| {
        // No transaction pays more than this.
        let most = U256::from(0x493e0) * U256::from(1_000_000_000);
        let paid = |(ours, theirs): (U256, U256)| theirs < ours && ours - theirs <= most;
        case.tracer() == "prestateTracer"
            && case.member() == "balance"
            && case.path().contains(&account(0).as_str())
            && case.numbers().is_some_and(paid)
    }),
    ("later versions leave empty values out", |case| {
        case.tracer() == "prestateTracer"
            && case.is_only_theirs()
            && match case.member() {
                "code" => case.theirs() == "0x",
                "nonce" => case.theirs() == 0,
                member => member == "storage" && case.theirs() == &serde_json::json!({}),
            }
    }),
    ("1.8.27 shows what a step that fails would have read", |case| {
        let is_account = case.member().len() == 42;
        case.tracer() == "prestateTracer"
            && case.is_only_theirs()
            && (is_account || case.member() == "storage")
    }),
    (
        "later versions show accounts that are paid, created or asked for",
        |case| case.tracer() == "prestateTracer" && case.is_only_ours() && case.member().len() == 42,
    ),
];

/// The rules, with how often each has explained a difference.
pub(super) struct Known(Vec<(Rule, usize)>);

impl Known {
    pub(super) fn new() -> Self {
        let rules = [ANSWERS, STEPS, CALLS, PRESTATE].concat();
        Self(rules.into_iter().map(|rule| (rule, 0)).collect())
    }

    /// Whether a rule explains the difference.
    pub(super) fn explains(&mut self, case: &Case<'_>) -> bool {
        let rule = self.0.iter_mut().find(|(rule, _)| rule.1(case));
        rule.map(|(_, uses)| *uses += 1).is_some()
    }

    /// Every rule has explained something.
    #[track_caller]
    pub(super) fn check_all_used(&self) {
        for ((reason, _), uses) in &self.0 {
            println!("{uses:>6} {reason}");
        }
        let unused: Vec<_> = self
            .0
            .iter()
            .filter(|(_, uses)| *uses == 0)
            .map(|(rule, _)| rule.0)
            .collect();
        assert!(unused.is_empty(), "rules without a difference: {unused:#?}");
    }
}
