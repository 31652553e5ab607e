//! Executes the blocks of a node and compares what comes out.

use std::sync::Arc;

use chain::evm::execute::Executor;
use chain::genesis::ensure_genesis;
use chain::import::{ImportError, Importer};
use chain::rules::body::senders;
use chain::rules::order::ExecutionOrder;
use chain::rules::seal::SealCheck;
use chain::state::BlockState;
use chain::{ChainSpec, View};
use primitives::{Block, Log, Receipt, ReceiptOutcome, U256, hex};
use serde_json::{Value, json};
use store::{StateReads, Store};

use super::{NamedNode, NodeReport, parse};
use crate::client::CodeStep;
use crate::compare::first_step;
use crate::error::DifferentialError;
use crate::ours::{receipts_root, steps};

/// The most values of the state that are compared one by one for each block. The state root covers
/// all of them.
const VALUES_MAX: usize = 200;

/// Our copy of the node's chain.
#[derive(Debug)]
pub struct Follower {
    spec: Arc<ChainSpec>,
    store: Store,
    importer: Importer,
    report: NodeReport,
}

impl Follower {
    /// A copy with block 0 only.
    ///
    /// # Errors
    /// If the store fails.
    pub fn new(spec: ChainSpec) -> Result<Self, DifferentialError> {
        let (spec, store) = (Arc::new(spec), Store::in_memory()?);
        ensure_genesis(&store, &spec)?;
        Ok(Self {
            importer: Importer::new(store.clone(), spec.clone(), SealCheck::Off),
            spec,
            store,
            report: NodeReport::default(),
        })
    }

    /// The figures so far.
    pub const fn report(&self) -> NodeReport {
        self.report
    }

    fn view(&self) -> Result<View, DifferentialError> {
        Ok(View::new(&self.store, self.spec.clone())?)
    }

    /// Checks that the node has our block 0.
    ///
    /// # Errors
    /// If it has another one.
    pub fn check_block_0(&self, node: &NamedNode) -> Result<(), DifferentialError> {
        let (ours, theirs) = (self.view()?.head_hash(), node.block_hash(0)?);
        if ours == theirs {
            return Ok(());
        }
        Err(DifferentialError::OtherChain { ours, theirs })
    }

    /// Executes and compares the blocks that the node has made since the last call.
    ///
    /// # Errors
    /// The first difference.
    pub fn follow(&mut self, node: &NamedNode) -> Result<(), DifferentialError> {
        let head = node.head_number()?;
        for number in self.view()?.head_number() + 1..=head {
            let block = node.read_block(number, self.spec.tx_rules())?;
            let compared = self.compare_block(node, &block);
            compared.map_err(DifferentialError::at(|| {
                format!("block {number} ({})", block.hash())
            }))?;
            self.report.blocks += 1;
            self.report.transactions += block.transactions.len() as u64;
        }
        Ok(())
    }

    fn compare_block(&mut self, node: &NamedNode, block: &Block) -> Result<(), DifferentialError> {
        let (own, receipts) = self.execute(block)?;
        let order = ExecutionOrder::of(&self.spec, block.header.number, &block.transactions);
        let mut found = None;
        let mut before = 0;
        for (receipt, transaction) in receipts.iter().zip(order.transactions()) {
            let gas_used = receipt.cumulative_gas_used - before;
            before = receipt.cumulative_gas_used;
            let Some(index) = transaction else { continue };
            let hash = block.transactions[index].hash();
            let theirs = node.call("getTransactionReceipt", json!([hex::encode_prefixed(hash)]))?;
            if let Some(what) = receipt_difference(receipt, gas_used, &theirs) {
                found = Some((index, format!("transaction {index} ({hash}): {what}")));
                break;
            }
        }
        // Our block becomes the head of our copy, so that its transactions can be traced and its
        // state can be read.
        self.importer.import(&own, None)?;
        if let Some((index, what)) = found {
            let parting = self.parting(node, block, &own, index);
            return Err(DifferentialError::Difference(format!("{what}\n  {parting}")));
        }
        self.compare_values(node, own.header.number)?;
        let (ours, theirs) = (&own.header, &block.header);
        let values = [
            ("gas used", ours.gas_used.to_string(), theirs.gas_used.to_string()),
            (
                "receipts root",
                ours.receipts_root.to_string(),
                theirs.receipts_root.to_string(),
            ),
            (
                "state root",
                ours.state_root.to_string(),
                theirs.state_root.to_string(),
            ),
            ("hash", own.hash().to_string(), block.hash().to_string()),
        ];
        match values.iter().find(|(_, ours, theirs)| ours != theirs) {
            Some((what, ours, theirs)) => Err(DifferentialError::Difference(format!(
                "{what}: ours {ours}, the node's {theirs}"
            ))),
            None => Ok(()),
        }
    }

    /// Executes the transactions of a block of the node. Returns the block with our results in its
    /// header, and the receipts.
    fn execute(&self, block: &Block) -> Result<(Block, Vec<Receipt>), DifferentialError> {
        let spec = &*self.spec;
        let number = block.header.number;
        let view = self.view()?;
        let parent = &view.head().header;
        let senders = senders(spec, number, &block.transactions)?;
        let snapshot = self.store.snapshot()?;
        let mut state = BlockState::new(&*snapshot, parent.number, parent.state_root);
        let mut executor = Executor::new(spec, &block.header, &mut state);
        executor
            .body(&block.transactions, &senders)
            .map_err(ImportError::from)?;
        let executed = executor.finish(&block.uncles)?;
        let mut own = block.clone();
        own.header.state_root = state.root()?;
        own.header.receipts_root = receipts_root(spec, &executed.receipts);
        own.header.logs_bloom = executed.logs_bloom;
        own.header.gas_used = executed.gas_used;
        Ok((own, executed.receipts))
    }

    /// The step at which our trace of a transaction and the node's part, as far as the node has
    /// traces.
    fn parting(&self, node: &NamedNode, block: &Block, own: &Block, index: usize) -> String {
        let hash = hex::encode_prefixed(block.transactions[index].hash());
        let options = json!({ "disableStorage": true, "disableStack": true, "disableMemory": true });
        let theirs = node.try_call("debug_traceTransaction", json!([hash, options]));
        let ours = self.view().and_then(|view| steps(&view, &own.hash(), index));
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                let ours: Vec<CodeStep> = ours.iter().map(CodeStep::from).collect();
                let logs = theirs["structLogs"].as_array().into_iter().flatten();
                let theirs: Vec<CodeStep> = logs.zip(&ours).map(their_step).collect();
                first_step(&ours, &theirs).unwrap_or_else(|| "the traces are the same".to_owned())
            }
            (Err(error), _) => format!("no trace of ours: {error}"),
            (_, Err(error)) => format!("no trace of the node: {error}"),
        }
    }

    /// Compares the values that a block has changed with what the node answers.
    fn compare_values(&mut self, node: &NamedNode, number: u64) -> Result<(), DifferentialError> {
        let view = self.view()?;
        let changes = view.snapshot().changes(number)?;
        let at = format!("{number:#x}");
        for (address, _) in changes.accounts.iter().take(VALUES_MAX) {
            let ours = view.account(address, number)?.unwrap_or_default();
            let params = json!([hex::encode_prefixed(address), at]);
            let balance: U256 = parse(&node.call("getBalance", params.clone())?, "a balance")?;
            let nonce: u64 = parse(&node.call("getTransactionCount", params.clone())?, "a nonce")?;
            let code: Vec<u8> = parse(&node.call("getCode", params)?, "code")?;
            let values = [
                ("balance", ours.balance.to_string(), balance.to_string()),
                ("nonce", ours.tx_nonce.to_string(), nonce.to_string()),
                (
                    "code",
                    hex::encode(view.code(address, number)?),
                    hex::encode(code),
                ),
            ];
            if let Some((what, ours, theirs)) = values.iter().find(|(_, ours, theirs)| ours != theirs) {
                return Err(DifferentialError::Difference(format!(
                    "{what} of {address}: ours {ours}, the node's {theirs}"
                )));
            }
            self.report.values += 3;
        }
        for change in changes.slots.iter().take(VALUES_MAX) {
            let (address, slot) = (change.address, change.slot);
            let ours = view.slot(&address, &slot, number)?;
            let params = json!([hex::encode_prefixed(address), format!("{slot:#x}"), at]);
            let theirs: U256 = parse(&node.call("getStorageAt", params)?, "a slot")?;
            if ours != theirs {
                return Err(DifferentialError::Difference(format!(
                    "slot {slot:#x} of {address}: ours {ours:#x}, the node's {theirs:#x}"
                )));
            }
            self.report.values += 1;
        }
        Ok(())
    }
}

/// A step of a node's trace. Nodes name instructions in different ways, so the code is taken from
/// our step.
fn their_step((log, ours): (&Value, &CodeStep)) -> CodeStep {
    let number = |key: &str| log[key].as_u64().unwrap_or(u64::MAX);
    CodeStep {
        pc: number("pc"),
        code: ours.code,
        gas: number("gas"),
        depth: number("depth"),
    }
}

/// The first difference between our receipt and the node's.
fn receipt_difference(ours: &Receipt, gas_used: u64, theirs: &Value) -> Option<String> {
    let outcome = match ours.outcome {
        ReceiptOutcome::Status(success) => ("status", format!("{:#x}", u8::from(success))),
        ReceiptOutcome::Root(root) => ("root", root.to_string()),
    };
    let values = [
        ("gasUsed", format!("{gas_used:#x}")),
        ("cumulativeGasUsed", format!("{:#x}", ours.cumulative_gas_used)),
        outcome,
        ("logsBloom", hex::encode_prefixed(ours.logs_bloom)),
    ];
    let different = values
        .iter()
        .find(|(key, value)| theirs[*key].as_str() != Some(value));
    if let Some((key, value)) = different {
        return Some(format!("{key}: ours {value}, the node's {}", theirs[*key]));
    }
    let shown = |log: &Log| {
        let topics: Vec<String> = log.topics.iter().map(ToString::to_string).collect();
        (
            hex::encode_prefixed(log.address),
            topics,
            hex::encode_prefixed(&log.data),
        )
    };
    let read = |log: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
        let topics: Vec<String> = log["topics"].as_array().into_iter().flatten().map(text).collect();
        (text(&log["address"]), topics, text(&log["data"]))
    };
    let ours: Vec<_> = ours.logs.iter().map(shown).collect();
    let theirs: Vec<_> = theirs["logs"]
        .as_array()
        .into_iter()
        .flatten()
        .map(read)
        .collect();
    (ours != theirs).then(|| format!("logs: ours {ours:?}, the node's {theirs:?}"))
}
