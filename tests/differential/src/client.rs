//! The independent executors: processes that answer one request a line.
//!
//! `tests/clients/js/executor.mjs` is `@ethereumjs/vm`, which has all forks from Frontier on and
//! takes single EIPs besides a fork. `tests/clients/python/executor.py` is the specification of
//! Ethereum in Python, which also judges headers and uncles. Both are installed without a compiler.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use chain::trace::TraceStep;
use e2e::clients::Clients;
use primitives::{Block, Header, hex};
use serde_json::{Value, json};

use crate::case::Case;
use crate::error::DifferentialError;
use crate::ours::{ExecutedCase, Fate, pre_state};
use crate::rules::ForkRules;

/// Longest time for one answer. Contracts that call as deep as they can take 90 s by the
/// specification in Python, and much more beside other work.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1800);

/// An independent executor. Its process is started again after it has failed.
#[derive(Debug)]
pub struct IndependentExecutor {
    clients: &'static Clients,
    script: &'static str,
    process: Option<ExecutorProcess>,
}

/// A running process. Killed when dropped.
#[derive(Debug)]
struct ExecutorProcess {
    child: Child,
    input: ChildStdin,
    lines: Receiver<std::io::Result<String>>,
}

/// The answer of the independent executor about a case.
#[derive(Clone, Debug)]
pub struct ClientAnswer {
    /// The state root of block 0.
    pub genesis_root: String,
    /// The blocks.
    pub blocks: Vec<ClientBlock>,
    /// The steps of the requested transaction.
    pub steps: Vec<CodeStep>,
}

/// The answer of the independent executor about a block. Hashes are hex with 0x.
#[derive(Clone, Debug)]
pub struct ClientBlock {
    /// The hash, by the values that the executor has computed.
    pub hash: String,
    /// The state root.
    pub state_root: String,
    /// The receipts root.
    pub receipts_root: String,
    /// The transactions root.
    pub transactions_root: String,
    /// The bloom of all logs.
    pub logs_bloom: String,
    /// The gas of all transactions.
    pub gas_used: u64,
    /// The fates of the transactions of the plan.
    pub fates: Vec<Fate>,
}

/// A step of the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeStep {
    /// The program counter.
    pub pc: u64,
    /// The instruction.
    pub code: u8,
    /// The gas before the step.
    pub gas: u64,
    /// The depth of calls; 1 in the transaction's own call.
    pub depth: u64,
}

impl From<&TraceStep> for CodeStep {
    fn from(step: &TraceStep) -> Self {
        Self {
            pc: step.pc as u64,
            code: step.opcode,
            gas: step.gas,
            depth: step.depth as u64,
        }
    }
}

/// A transaction of a case, by the places of its block and of itself in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidatePlace {
    /// Index of the block.
    pub block: usize,
    /// Index of the transaction.
    pub transaction: usize,
}

/// A header that may be wrong, with uncles that may be.
#[derive(Clone, Debug)]
pub struct HeaderVariant {
    /// The parent; `None` if it is the last block of the chain.
    pub parent: Option<Header>,
    /// The header.
    pub header: Header,
    /// Its uncles.
    pub uncles: Vec<Header>,
}

impl IndependentExecutor {
    /// `@ethereumjs/vm`; `None` if it is not installed and the test must be skipped.
    pub fn installed() -> Option<Self> {
        Some(Self {
            clients: e2e::clients::javascript()?,
            script: "executor.mjs",
            process: None,
        })
    }

    /// The specification in Python; `None` if it is not installed and the test must be skipped.
    pub fn specification() -> Option<Self> {
        Some(Self {
            clients: e2e::clients::python()?,
            script: "executor.py",
            process: None,
        })
    }

    /// The option of the program `differential` that chooses this executor.
    pub(crate) fn option(&self) -> &'static str {
        if self.is_specification() {
            " --specification"
        } else {
            ""
        }
    }

    fn is_specification(&self) -> bool {
        self.script.ends_with(".py")
    }

    /// Whether this executor has the rules.
    pub fn has(&self, rules: &ForkRules) -> bool {
        self.names(rules).is_ok()
    }

    /// Its names of the rules: the fork, and the EIPs besides.
    fn names(&self, rules: &ForkRules) -> Result<(&'static str, &'static [u16]), DifferentialError> {
        let names = if self.is_specification() {
            rules.specification.map(|fork| (fork, [].as_slice()))
        } else {
            rules.client.map(|client| (client.hardfork, client.eips))
        };
        names.ok_or(DifferentialError::NoRules(rules.name))
    }

    /// Lets the process execute a case that was executed here. With `trace` it records the steps of
    /// that transaction.
    ///
    /// # Errors
    /// If the process does not know the rules, does not answer, or fails.
    pub fn execute(
        &mut self,
        case: &Case,
        executed: &ExecutedCase,
        trace: Option<CandidatePlace>,
    ) -> Result<ClientAnswer, DifferentialError> {
        let (fork, eips) = self.names(case.rules)?;
        let mut request = request(case, executed, trace);
        request["hardfork"] = fork.into();
        request["eips"] = eips.into();
        let line = self.ask(&request)?;
        let answer: Option<Value> = serde_json::from_str(&line).ok();
        answer
            .and_then(|answer| read(&answer))
            .ok_or(DifferentialError::Answer { line })
    }

    /// Asks the specification which of `variants` may follow. Returns the reasons against them.
    ///
    /// # Errors
    /// As for [`Self::execute`].
    pub fn judge(
        &mut self,
        rules: &ForkRules,
        chain: &[Block],
        variants: &[HeaderVariant],
    ) -> Result<Vec<Option<String>>, DifferentialError> {
        let judged = |header: &Header, uncles: &[Header]| {
            let uncles: Value = uncles.iter().map(whole_header).collect();
            json!({ "header": whole_header(header), "uncles": uncles })
        };
        let headers = chain.iter().map(|block| judged(&block.header, &block.uncles));
        let variants = variants.iter().map(|variant| {
            let mut judged = judged(&variant.header, &variant.uncles);
            judged["parent"] = variant.parent.as_ref().map(whole_header).into();
            judged
        });
        let line = self.ask(&json!({
            "hardfork": self.names(rules)?.0,
            "minerReward": rules.classic_reward.map(|reward| reward.to_string()),
            "headers": headers.collect::<Value>(),
            "variants": variants.collect::<Value>(),
        }))?;
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        let verdicts = answer["verdicts"].as_array().map(|verdicts| {
            let reason = |verdict: &Value| verdict.as_str().map(str::to_owned);
            verdicts.iter().map(reason).collect()
        });
        verdicts.ok_or(DifferentialError::Answer { line })
    }

    fn ask(&mut self, request: &Value) -> Result<String, DifferentialError> {
        let mut process = match self.process.take() {
            Some(running) => running,
            None => ExecutorProcess::start(self.clients, self.script)?,
        };
        // A process that has failed is not used again: a late answer would belong to another
        // request.
        let line = process.answer(request)?;
        self.process = Some(process);
        Ok(line)
    }
}

impl ExecutorProcess {
    fn start(clients: &Clients, script: &str) -> Result<Self, DifferentialError> {
        let mut child = clients.start(script).map_err(DifferentialError::Start)?;
        let input = child.stdin.take().expect("its input is a pipe");
        let output = child.stdout.take().expect("its output is a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, input, lines })
    }

    fn answer(&mut self, request: &Value) -> Result<String, DifferentialError> {
        writeln!(self.input, "{request}").map_err(DifferentialError::Process)?;
        self.lines
            .recv_timeout(ANSWER_TIMEOUT)
            .map_err(|_| DifferentialError::NoAnswer(ANSWER_TIMEOUT))?
            .map_err(DifferentialError::Process)
    }
}

impl Drop for ExecutorProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn request(case: &Case, executed: &ExecutedCase, trace: Option<CandidatePlace>) -> Value {
    let blocks = executed.blocks.iter().map(|executed| {
        let header = &executed.block.header;
        let uncles = executed.block.uncles.iter().map(whole_header);
        let transactions = executed.candidates.iter().map(hex::encode_prefixed);
        json!({
            "header": header_fields(header),
            "uncles": uncles.collect::<Value>(),
            "transactions": transactions.collect::<Value>(),
        })
    });
    json!({
        "minerReward": case.rules.classic_reward.map(|reward| reward.to_string()),
        "baseFee": case.base_fee,
        "chainId": executed.chain_id(),
        "pre": pre_state(case),
        "genesis": header_fields(&executed.genesis),
        "blocks": blocks.collect::<Value>(),
        "trace": trace.map(|place| json!({ "block": place.block, "transaction": place.transaction })),
    })
}

/// The fields of a header that its miner chooses, and the difficulty.
fn header_fields(header: &Header) -> Value {
    json!({
        "parentHash": hex::encode_prefixed(header.parent_hash),
        "uncleHash": hex::encode_prefixed(header.uncles_hash),
        "coinbase": hex::encode_prefixed(header.beneficiary),
        "difficulty": format!("{:#x}", header.difficulty),
        "number": format!("{:#x}", header.number),
        "gasLimit": format!("{:#x}", header.gas_limit),
        "timestamp": format!("{:#x}", header.timestamp),
        "extraData": hex::encode_prefixed(&header.extra_data),
        "mixHash": hex::encode_prefixed(header.mix_hash),
        "nonce": format!("{:#018x}", header.pow_nonce),
    })
}

/// All fields of a header.
fn whole_header(header: &Header) -> Value {
    let mut fields = header_fields(header);
    let computed = [
        ("stateRoot", hex::encode_prefixed(header.state_root)),
        ("transactionsRoot", hex::encode_prefixed(header.transactions_root)),
        ("receiptsRoot", hex::encode_prefixed(header.receipts_root)),
        ("logsBloom", hex::encode_prefixed(header.logs_bloom)),
        ("gasUsed", format!("{:#x}", header.gas_used)),
    ];
    for (name, value) in computed {
        fields[name] = value.into();
    }
    fields
}

fn read(answer: &Value) -> Option<ClientAnswer> {
    let blocks = answer["blocks"].as_array()?.iter().map(read_block);
    let steps = answer["steps"].as_array()?.iter().map(|step| {
        Some(CodeStep {
            pc: step[0].as_u64()?,
            code: step[1].as_u64()? as u8,
            gas: step[2].as_u64()?,
            depth: step[3].as_u64()?,
        })
    });
    Some(ClientAnswer {
        genesis_root: answer["genesisRoot"].as_str()?.to_owned(),
        blocks: blocks.collect::<Option<_>>()?,
        steps: steps.collect::<Option<_>>()?,
    })
}

fn read_block(block: &Value) -> Option<ClientBlock> {
    let text = |key: &str| block[key].as_str().map(str::to_owned);
    let fates = block["transactions"].as_array()?.iter().map(|fate| {
        if let Some(reason) = fate["refused"].as_str() {
            return Some(Fate::Refused(reason.to_owned()));
        }
        Some(Fate::Executed {
            gas_used: fate["gasUsed"].as_u64()?,
            receipt: hex::decode(fate["receipt"].as_str()?).ok()?,
        })
    });
    Some(ClientBlock {
        hash: text("hash")?,
        state_root: text("stateRoot")?,
        receipts_root: text("receiptsRoot")?,
        transactions_root: text("transactionsRoot")?,
        logs_bloom: text("logsBloom")?,
        gas_used: block["gasUsed"].as_u64()?,
        fates: fates.collect::<Option<_>>()?,
    })
}
