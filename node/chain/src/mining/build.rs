//! Builds the next block from the pool: the work miners get, and the pending block.
//!
//! Transactions are taken by price, an account's in order of nonces; what does not fit or
//! fails its checks is passed over. Knows the pool and the head; seals nothing.

use primitives::{Address, B256, Block, Bytes, Header, SYSTEM_SENDER, Transaction, U256, uncles_hash};
use store::{BlockReads, HeaderRecord, StateReads, StoreError};

use crate::evm::execute::{Executed, Executor, TransactionError};
use crate::import::receipts_root;
use crate::pool::{PooledTransaction, ReadyTransactions};
use crate::rules::body::{RecentAncestors, transactions_root};
use crate::rules::difficulty::next_difficulty;
use crate::rules::{UNCLE_GENERATIONS, UNCLES_MAX, dao_extra, next_gas_limit};
use crate::spec::ChainSpec;
use crate::state::{BlockState, Overlay, StateError};
use crate::trie::NodeSource;

/// What a miner chooses about its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildSettings {
    /// Who gets rewards and fees.
    pub beneficiary: Address,
    /// The header's extra data, at most 32 bytes.
    pub extra_data: Bytes,
    /// The gas limit to steer to.
    pub gas_target: u64,
}

/// A block without its seal.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The block; mix hash and nonce are zero.
    pub block: Block,
    /// Who sent each transaction.
    pub senders: Vec<Address>,
    /// What executing it gave.
    pub executed: Executed,
    /// Total difficulty with this block.
    pub total_difficulty: U256,
    /// The state it leaves, over its parent's.
    pub overlay: Overlay,
}

/// Builds the block after `parent`. `candidates` are side blocks that might be uncles.
///
/// # Errors
/// [`StateError`] when the store fails. Transactions never make it fail.
pub fn build<S: StateReads + BlockReads + NodeSource>(
    spec: &ChainSpec,
    view: &S,
    parent: &HeaderRecord,
    timestamp: u64,
    settings: &BuildSettings,
    ready: ReadyTransactions,
    candidates: &[Header],
) -> Result<Draft, StateError> {
    let above = &parent.header;
    let parent_hash = above.hash();
    let uncles = pick_uncles(spec, view, &parent_hash, above.number + 1, candidates)?;
    let mut header = Header {
        parent_hash,
        uncles_hash: uncles_hash(&uncles),
        beneficiary: settings.beneficiary,
        difficulty: next_difficulty(spec, above, timestamp),
        number: above.number + 1,
        gas_limit: next_gas_limit(spec, above.gas_limit, settings.gas_target),
        timestamp,
        extra_data: dao_extra(spec, above.number + 1).unwrap_or_else(|| settings.extra_data.clone()),
        ..Default::default()
    };
    let mut state = BlockState::new(view, above.number, above.state_root);
    let mut executor = Executor::new(spec, &header, &mut state);
    executor.begin()?;
    let (transactions, senders) = fill(&mut executor, ready)?;
    let executed = executor.finish(&uncles)?;
    header.state_root = state.root()?;
    header.transactions_root = transactions_root(&transactions);
    header.receipts_root = receipts_root(spec, &executed);
    header.logs_bloom = executed.logs_bloom;
    header.gas_used = executed.gas_used;
    Ok(Draft {
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

fn fill<S: StateReads + BlockReads + NodeSource>(
    executor: &mut Executor<'_, '_, S>,
    mut ready: ReadyTransactions,
) -> Result<(Vec<Transaction>, Vec<Address>), StateError> {
    let mut transactions = Vec::new();
    let mut senders = Vec::new();
    if executor.spec().system_contract {
        let system = executor.expected_system_transaction()?;
        if let Err(TransactionError::State(error)) = executor.transaction(&system, SYSTEM_SENDER) {
            return Err(error);
        }
        transactions.push(system);
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
                ready.taken(sender);
            }
            Err(TransactionError::State(error)) => return Err(error),
            Err(refused) => {
                tracing::debug!(hash = %transaction.hash(), %refused, "transaction left out of the block");
                ready.refused(sender);
            }
        }
    }
    Ok((transactions, senders))
}

/// The first candidates that may be uncles of block `number`.
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
            && uncle.number + UNCLE_GENERATIONS >= number
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
