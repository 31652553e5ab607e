//! What reads of a MicroChain answer with.

use std::collections::BTreeMap;
use std::sync::Arc;

use chain::import::BlockId;
use primitives::{Address, Receipt, Transaction, U256};

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
pub struct WaitingTransactions {
    /// Those that can be executed next.
    pub pending: BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>,
    /// Those that wait for one with a smaller nonce.
    pub queued: BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>,
}
