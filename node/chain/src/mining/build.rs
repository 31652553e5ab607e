//! Builds the next block from the pool. It serves as mining work and as the pending block.
//!
//! Transactions are tried by gas price, those of each account by nonce. A transaction that does not
//! fit or is invalid is left out. This module knows the pool and the head; it seals nothing.

use primitives::{Address, B256, Block, Bytes, Header, SYSTEM_SENDER, Transaction, U256, uncles_hash};
use store::{BlockReads, HeaderRecord, Snapshot, StoreError};

use crate::developer::GAS_LIMIT_MARK;
use crate::evm::execute::{Executed, Executor, TransactionError};
use crate::import::receipts_root;
use crate::pool::{PooledTransaction, ReadyTransactions};
use crate::rules::body::{RecentAncestors, transactions_root};
use crate::rules::difficulty::next_difficulty;
use crate::rules::{UNCLE_GENERATIONS, UNCLES_MAX, dao_extra, next_gas_limit, steered_gas_limit};
use crate::spec::ChainSpec;
use crate::state::{BlockState, Overlay, StateError};

/// The choices of a miner for its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildSettings {
    /// The account that gets rewards and fees.
    pub beneficiary: Address,
    /// The header's extra data, at most 32 bytes.
    pub extra_data: Bytes,
    /// The gas limit that the block's gas limit moves towards.
    pub gas_target: u64,
    /// The gas limit that a developer asked for. It is in force before `gas_target`.
    pub gas_limit: Option<u64>,
}

impl BuildSettings {
    /// The gas limit of a child of a block with gas limit `parent`.
    pub(crate) fn next_gas_limit(&self, spec: &ChainSpec, parent: u64) -> u64 {
        match self.gas_limit {
            Some(asked) if *self.extra_data == *GAS_LIMIT_MARK => asked,
            Some(asked) => steered_gas_limit(parent, asked),
            None => next_gas_limit(spec, parent, self.gas_target),
        }
    }
}

/// A block without its seal.
#[derive(Clone, Debug)]
pub struct UnsealedBlock {
    /// The block. Its mix hash and its nonce are zero.
    pub block: Block,
    /// The sender of each transaction.
    pub senders: Vec<Address>,
    /// The results of the block's execution.
    pub executed: Executed,
    /// Total difficulty of the chain with this block.
    pub total_difficulty: U256,
    /// The changes of the state, to be laid over the parent's state.
    pub overlay: Overlay,
}

/// Builds the block after `parent`. `candidates` are side blocks that may become uncles.
///
/// # Errors
/// [`StateError`] if the store fails. Invalid transactions are left out and cause no error.
pub fn build(
    spec: &ChainSpec,
    view: &Snapshot,
    parent: &HeaderRecord,
    timestamp: u64,
    settings: &BuildSettings,
    ready: ReadyTransactions,
    candidates: &[Header],
) -> Result<UnsealedBlock, StateError> {
    let parent_header = &parent.header;
    let parent_hash = parent_header.hash();
    let uncles = pick_uncles(spec, view, &parent_hash, parent_header.number + 1, candidates)?;
    let header = Header {
        parent_hash,
        uncles_hash: uncles_hash(&uncles),
        beneficiary: settings.beneficiary,
        difficulty: next_difficulty(spec, parent_header, timestamp),
        number: parent_header.number + 1,
        gas_limit: settings.next_gas_limit(spec, parent_header.gas_limit),
        timestamp,
        extra_data: dao_extra(spec, parent_header.number + 1).unwrap_or_else(|| settings.extra_data.clone()),
        ..Default::default()
    };
    let fill = |executor: &mut Executor<'_, '_>| fill(executor, ready);
    build_on(spec, view, parent, header, uncles, Box::new(fill))
}

/// Executes the transactions of a block, and returns them with their senders.
pub type BlockFill<'a> =
    Box<dyn FnOnce(&mut Executor<'_, '_>) -> Result<(Vec<Transaction>, Vec<Address>), StateError> + 'a>;

/// Builds a block with this header and these uncles. The roots, the bloom and the gas used are
/// filled into the header.
///
/// # Errors
/// [`StateError`] if the store fails.
pub fn build_on(
    spec: &ChainSpec,
    view: &Snapshot,
    parent: &HeaderRecord,
    mut header: Header,
    uncles: Vec<Header>,
    fill: BlockFill<'_>,
) -> Result<UnsealedBlock, StateError> {
    let parent_header = &parent.header;
    let mut state = BlockState::new(view, parent_header.number, parent_header.state_root);
    let mut executor = Executor::new(spec, &header, &mut state);
    executor.refuse_large_memory();
    executor.begin()?;
    let (transactions, senders) = fill(&mut executor)?;
    let executed = executor.finish(&uncles)?;
    header.state_root = state.root()?;
    header.transactions_root = transactions_root(&transactions);
    header.receipts_root = receipts_root(spec, &executed);
    header.logs_bloom = executed.logs_bloom;
    header.gas_used = executed.gas_used;
    Ok(UnsealedBlock {
        total_difficulty: parent.total_difficulty + header.difficulty,
        block: Block {
            header,
            transactions,
            uncles,
        },
        senders,
        executed,
        overlay: state.into_overlay(),
    })
}

/// Executes the system transaction, then transactions of the pool until the block's gas is used up.
/// Returns the transactions and their senders.
fn fill(
    executor: &mut Executor<'_, '_>,
    mut ready: ReadyTransactions,
) -> Result<(Vec<Transaction>, Vec<Address>), StateError> {
    let mut transactions = Vec::new();
    let mut senders = Vec::new();
    if executor.spec().system_contract {
        transactions.push(executor.expected_system_transaction()?);
        if let Err(TransactionError::State(error)) = executor.system_transaction() {
            return Err(error);
        }
        senders.push(SYSTEM_SENDER);
    }
    while executor.gas_left() >= crate::evm::TX_GAS {
        let Some(PooledTransaction {
            transaction, sender, ..
        }) = ready.best()
        else {
            break;
        };
        match executor.transaction(&transaction, sender) {
            Ok(_outcome) => {
                transactions.push((*transaction).clone());
                senders.push(sender);
                ready.mark_included(sender);
            }
            Err(TransactionError::State(error)) => return Err(error),
            Err(refused) => {
                tracing::debug!(hash = %transaction.hash(), %refused, "transaction left out of the block");
                ready.skip_sender(sender);
            }
        }
    }
    Ok((transactions, senders))
}

/// The first candidates that can be uncles of block `number`, at most [`UNCLES_MAX`].
fn pick_uncles(
    spec: &ChainSpec,
    view: &impl BlockReads,
    parent: &B256,
    number: u64,
    candidates: &[Header],
) -> Result<Vec<Header>, StoreError> {
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let recent = RecentAncestors::load(spec, view, parent)?;
    let fits = |uncle: &&Header| {
        let hash = uncle.hash();
        uncle.number < number
            && uncle.number + UNCLE_GENERATIONS > number
            && !recent.uncles.contains(&hash)
            && recent.ancestors.iter().all(|(ancestor, _)| *ancestor != hash)
            && recent
                .ancestors
                .iter()
                .skip(1)
                .any(|(ancestor, _)| *ancestor == uncle.parent_hash)
    };
    Ok(candidates.iter().filter(fits).take(UNCLES_MAX).cloned().collect())
}
