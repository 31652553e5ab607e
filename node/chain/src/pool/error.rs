//! Errors of the pool. The texts begin with those of the public network's node, so that clients
//! recognize them.

use primitives::{B256, TxForm, U256};

/// The reason why the pool refuses a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "fields are the value got and the value expected, as the texts say"
)]
pub enum PoolError {
    /// The transaction is in the pool already.
    #[error("known transaction: {0:x}")]
    Known(B256),
    /// The transaction is too large.
    #[error("oversized data: {got} bytes, expected at most {max}")]
    Oversized { got: usize, max: usize },
    /// The nonce was used already.
    #[error("nonce too low: got {got}, expected at least {expected}")]
    NonceTooLow { got: u64, expected: u64 },
    /// The highest nonce there is. An account could not count up from it (EIP-2681).
    #[error("nonce has max value: got {0}")]
    NonceMax(u64),
    /// The gas price is below the price floor, or not above that of the cheapest transaction in a
    /// full pool.
    #[error("transaction underpriced: got {got}, expected at least {expected}")]
    Underpriced { got: U256, expected: U256 },
    /// The gas price is not enough higher than that of the transaction to be replaced.
    #[error("replacement transaction underpriced: got {got}, expected at least {expected}")]
    ReplacementUnderpriced { got: U256, expected: U256 },
    /// The sender cannot pay for the transaction.
    #[error("insufficient funds for gasRemaining * price + value: balance {balance}, cost {cost}")]
    Funds { balance: U256, cost: U256 },
    /// The sender cannot pay for the transaction together with the pending ones.
    #[error(
        "insufficient funds for gasRemaining * price + value: balance {balance}, cost {cost}, of pending transactions {pending}"
    )]
    Overdraft {
        balance: U256,
        cost: U256,
        pending: U256,
    },
    /// The gas limit is lower than the cost of the transaction's data alone.
    #[error("intrinsic gasRemaining too low: got {got}, expected {expected}")]
    IntrinsicGas { got: u64, expected: u64 },
    /// The gas limit is higher than that of a block.
    #[error("exceeds block gasRemaining limit: got {got}, expected at most {limit}")]
    BlockGas { got: u64, limit: u64 },
    /// Too many transactions of this account are queued because of a missing nonce.
    #[error(
        "{got} transactions of this account are queued, at most {max} are allowed: nonce {missing} is missing"
    )]
    AccountQueue { got: usize, max: usize, missing: u64 },
    /// The pool is full, and this transaction would be the first to be evicted.
    #[error("txpool is full: {what}, {got} of at most {max}")]
    Full {
        what: &'static str,
        got: usize,
        max: usize,
    },
    /// A transaction that would be queued would evict a pending one.
    #[error("future transaction tries to replace pending: the pool is full, nonce {missing} is missing")]
    FutureReplacesPending { missing: u64 },
    /// Classic transactions (with 9 fields) are not enabled yet.
    #[error("Classic tx is not currently enabled")]
    ClassicDisabled,
    /// Blocks of this chain do not contain transactions of this form at this height.
    #[error("{0:?} transactions do not belong to this chain at this height")]
    Form(TxForm),
    /// The next block does not have the rules for transactions of this type.
    #[error("got a transaction of type {got:#04x}, expected one without a type in block {number}")]
    Typed { got: u8, number: u64 },
    /// The code that creates a contract is too long (EIP-3860).
    #[error("code that creates a contract: got {got} bytes, expected at most {max}")]
    InitCode { got: usize, max: usize },
    /// The transaction is for an application chain.
    #[error("shardingFlag {0} belongs to an application chain, not into the base chain's pool")]
    ShardingFlag(u64),
    /// The transaction is signed for another chain, or for this chain at another height.
    #[error("invalid sender: chain id: got {got}, expected {expected}")]
    ChainId { got: u64, expected: u64 },
    /// The transaction is a system transaction. Nobody may send one.
    #[error("invalid sender: system transactions are made by blocks alone")]
    System,
}
