//! What clients read of a MicroChain: blocks, transactions, receipts, accounts, calls, the pool.
//!
//! A [`Reader`] reads snapshots of the store and the pool's memory. So any number of threads may
//! read while the engine works.

use std::collections::BTreeMap;
use std::sync::Arc;

use chain::call::EvmCallError;
use chain::import::BlockId;
use primitives::{Address, Receipt, Transaction, U256};
use store::StoreError;

/// A transaction of a canonical block.
#[derive(Clone, Debug)]
pub struct MinedTransaction {
    /// The transaction.
    pub transaction: Transaction,
    /// Who signed it.
    pub sender: Address,
    /// The block.
    pub block: BlockId,
    /// The block's time, in unix seconds.
    pub timestamp: u64,
    /// The index in the block.
    pub index: u64,
}

/// A receipt of a canonical block.
#[derive(Clone, Debug)]
pub struct MinedReceipt {
    /// The transaction.
    pub mined: MinedTransaction,
    /// Outcome, cumulative gas, logs.
    pub receipt: Receipt,
    /// Gas of this transaction alone.
    pub gas_used: u64,
    /// Index of its first log in the block.
    pub first_log: u64,
    /// The contract that it created.
    pub contract: Option<Address>,
}

/// A Dapp that DappBase knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DappEntry {
    /// Its address.
    pub address: Address,
    /// Its owner.
    pub owner: Address,
    /// Its ABI, as it was registered.
    pub abi: String,
    /// 1 enabled.
    pub state: u64,
}

/// An amount of tokens of a user that goes from one world to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeRecord {
    /// The user.
    pub user: Address,
    /// Tokens in units of 10^-18.
    pub tokens: U256,
    /// Unix seconds.
    pub time: u64,
}

/// The pool: for each sender the transactions by nonce.
#[derive(Clone, Debug, Default)]
pub struct PoolContent {
    /// Those that can be executed next.
    pub pending: BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>,
    /// Those that wait for one with a smaller nonce.
    pub queued: BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>,
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A call could not be run.
    #[error(transparent)]
    Call(#[from] EvmCallError),
    /// A contract of the MicroChain answered with other bytes than its function has.
    #[error("{function}: {error}")]
    Answer {
        /// The function.
        function: &'static str,
        /// What is wrong.
        error: String,
    },
}

/// The reads of one MicroChain, each on the head of the moment. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Reader;
