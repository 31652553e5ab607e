//! The records with which reads of a MicroChain answer.

use chain::import::BlockId;
use primitives::{Address, Receipt, Transaction, U256};

/// A transaction of a canonical block.
#[derive(Clone, Debug)]
pub struct MinedTransaction {
    /// The transaction.
    pub transaction: Transaction,
    /// The signer.
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
    /// The address of the contract.
    pub address: Address,
    /// The owner of the contract.
    pub owner: Address,
    /// The ABI of the contract, as it was registered.
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
