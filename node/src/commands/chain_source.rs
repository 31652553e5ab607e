//! The canonical blocks that an export writes: those of a data directory, or those of the node that
//! runs on it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use chain::genesis::record::SpecRecord;
use chain::rules::body::senders;
use chain::trace::CallFrame;
use chain::view::StoredBlock;
use chain::{ChainSpec, View};
use primitives::{B256, Block, Receipt, U256, hex};
use serde_json::{Value, json};
use store::{BlockBody, HeaderRecord};

use super::error::CommandError;
use super::running::{AskedNode, OpenedChain, is_in_use};
use super::running_traces::{NodeTrace, call_trees};
use crate::data_directory::{DataDirectory, OpenPurpose};
use crate::options::VnodeOptions;

/// The canonical blocks of a data directory, or of the node that runs on it.
pub enum ChainSource {
    /// Nobody else has the directory open.
    Here {
        /// The chain.
        view: Box<View>,
        /// Stays open as long as the view is read.
        directory: Box<DataDirectory>,
    },
    /// A node runs on the directory.
    Running(Box<RunningChain>),
}

impl ChainSource {
    /// Opens the data directory that the options name, or connects to the node that has it open.
    ///
    /// # Errors
    /// [`CommandError`] if there is no chain, or if another process has it open that is no node.
    pub fn open(options: &VnodeOptions) -> Result<Self, CommandError> {
        match DataDirectory::open(options, OpenPurpose::Read) {
            Ok(directory) => Ok(Self::Here {
                view: Box::new(View::new(&directory.store, directory.spec.clone())?),
                directory: Box::new(directory),
            }),
            Err(error) if is_in_use(&error) => match OpenedChain::open(options)? {
                OpenedChain::Running(node) => Ok(Self::Running(Box::new(RunningChain::of(node)?))),
                // The other process has closed it meanwhile.
                OpenedChain::Here { .. } => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// The rules of the chain.
    pub(super) fn spec(&self) -> &ChainSpec {
        match self {
            Self::Here { view, .. } => view.spec(),
            Self::Running(chain) => chain.spec(),
        }
    }

    /// The number of the head.
    ///
    /// # Errors
    /// [`CommandError`] if the running node does not answer.
    pub fn head(&self) -> Result<u64, CommandError> {
        match self {
            Self::Here { view, .. } => Ok(view.head_number()),
            Self::Running(chain) => chain.head(),
        }
    }
}

/// The chain of a running node, which may be reorganized between two questions.
pub struct RunningChain {
    spec: ChainSpec,
    node: Mutex<AskedNode>,
}

/// The figures of a block that its bytes do not have.
pub(super) struct BlockFigures {
    pub(super) hash: B256,
    pub(super) total_difficulty: U256,
}

impl RunningChain {
    fn of(mut node: AskedNode) -> Result<Self, CommandError> {
        const METHOD: &str = "admin_networkRecord";
        let text: Option<String> = node.ask(METHOD, &[])?;
        let text = text.ok_or_else(|| answer(METHOD, "got no record, expected that of its network"))?;
        let file = SpecRecord::decode(text.as_bytes()).and_then(|record| record.spec());
        Ok(Self {
            spec: file.map_err(|error| answer(METHOD, error))?.spec,
            node: Mutex::new(node),
        })
    }

    /// The rules of the chain.
    pub const fn spec(&self) -> &ChainSpec {
        &self.spec
    }

    fn node(&self) -> MutexGuard<'_, AskedNode> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn head(&self) -> Result<u64, CommandError> {
        const METHOD: &str = "mc_blockNumber";
        let text: String = self.node().ask(METHOD, &[])?;
        u64::from_str_radix(text.trim_start_matches("0x"), 16).map_err(|error| answer(METHOD, error))
    }

    /// The figures of the canonical block `number`; `None` above the head.
    ///
    /// # Errors
    /// [`CommandError`] if the node does not answer.
    pub(super) fn named(&self, number: u64) -> Result<Option<BlockFigures>, CommandError> {
        const METHOD: &str = "mc_getBlockByNumber";
        let block: Value = self.node().ask(METHOD, &[number_text(number), json!(false)])?;
        if block.is_null() {
            return Ok(None);
        }
        let text = |name: &str| block[name].as_str().unwrap_or_default();
        Ok(Some(BlockFigures {
            hash: text("hash").parse().map_err(|error| answer(METHOD, error))?,
            total_difficulty: text("totalDifficulty")
                .parse()
                .map_err(|error| answer(METHOD, error))?,
        }))
    }

    /// The hash of the canonical block `number`; `None` above the head.
    ///
    /// # Errors
    /// [`CommandError`] if the node does not answer.
    pub fn canonical_hash(&self, number: u64) -> Result<Option<B256>, CommandError> {
        Ok(self.named(number)?.map(|block| block.hash))
    }

    /// The canonical block `number` with its bytes.
    ///
    /// # Errors
    /// [`CommandError`] if the node does not answer, or the bytes are no block.
    pub(super) fn raw_block(&self, number: u64) -> Result<(Block, Vec<u8>), CommandError> {
        let text: String = self.node().ask("debug_getRawBlock", &[number_text(number)])?;
        let rlp = bytes(number, &text)?;
        let block = Block::decode(&rlp, self.spec.tx_rules()).map_err(|error| unread(number, error))?;
        Ok((block, rlp))
    }

    /// The canonical block `number` with the senders of its transactions; `None` above the head.
    ///
    /// # Errors
    /// [`CommandError`] if the node does not answer, or its chain changed meanwhile.
    pub fn block(&self, number: u64) -> Result<Option<StoredBlock>, CommandError> {
        let Some(BlockFigures {
            hash,
            total_difficulty,
        }) = self.named(number)?
        else {
            return Ok(None);
        };
        let (block, _) = self.raw_block(number)?;
        if block.hash() != hash {
            return Err(CommandError::Reorganized(number));
        }
        let Block {
            header,
            transactions,
            uncles,
        } = block;
        let senders = senders(&self.spec, number, &transactions).map_err(|error| unread(number, error))?;
        let record = HeaderRecord {
            header,
            total_difficulty,
            executed: true,
        };
        Ok(Some(StoredBlock {
            hash,
            record,
            body: BlockBody {
                transactions,
                senders,
                uncles,
            },
        }))
    }

    /// The receipts of a block.
    ///
    /// # Errors
    /// [`CommandError`] if the node does not answer, or has no receipts of this block.
    pub fn receipts(&self, block: &StoredBlock) -> Result<Vec<Receipt>, CommandError> {
        self.receipts_of(block.record.header.number, &block.hash)
    }

    /// As [`Self::receipts`], for the block of this number and hash.
    pub(super) fn receipts_of(&self, number: u64, hash: &B256) -> Result<Vec<Receipt>, CommandError> {
        let texts: Vec<String> = self.node().ask("debug_getRawReceipts", &[hash_text(hash)])?;
        let decode = |text: &String| {
            Receipt::decode(&bytes(number, text)?, self.spec.receipt_form())
                .map_err(|error| unread(number, error))
        };
        texts.iter().map(decode).collect()
    }

    /// The calls of the transactions of a block, each with the index of its transaction. Calls of
    /// precompiled contracts that move no value are left out.
    ///
    /// # Errors
    /// [`CommandError`] if the node does not trace the block, or says something else than expected.
    pub fn call_trees(&self, block: &StoredBlock) -> Result<Vec<(usize, CallFrame)>, CommandError> {
        const METHOD: &str = "trace_block";
        let traces: Vec<NodeTrace> = self.node().ask(METHOD, &[hash_text(&block.hash)])?;
        call_trees(traces).map_err(|error| answer(METHOD, error))
    }
}

fn number_text(number: u64) -> Value {
    json!(format!("{number:#x}"))
}

fn hash_text(hash: &B256) -> Value {
    json!(format!("{hash:#x}"))
}

fn bytes(number: u64, text: &str) -> Result<Vec<u8>, CommandError> {
    hex::decode(text).map_err(|error| unread(number, error))
}

fn unread(number: u64, error: impl ToString) -> CommandError {
    CommandError::Block {
        number,
        reason: error.to_string(),
    }
}

fn answer(method: &str, error: impl ToString) -> CommandError {
    CommandError::Answer {
        method: method.to_owned(),
        reason: error.to_string(),
    }
}
