//! Why the pool refuses a transaction. The texts begin as those of the public network do.

use primitives::{B256, TxForm, U256};

/// Why the pool refuses a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "fields are the value got and the value expected, as the texts say"
)]
pub enum PoolError {
    /// In the pool already.
    #[error("known transaction: {0:x}")]
    Known(B256),
    /// Too large.
    #[error("oversized data: {got} bytes, at most {max} are allowed")]
    Oversized { got: usize, max: usize },
    /// The nonce is used already.
    #[error("nonce too low: got {got}, want at least {expected}")]
    NonceTooLow { got: u64, expected: u64 },
    /// The nonce that no account can count up from (EIP-2681).
    #[error("nonce has max value: got {0}")]
    NonceMax(u64),
    /// Cheaper than the floor, or than everything in a full pool.
    #[error("transaction underpriced: got {got}, want at least {expected}")]
    Underpriced { got: U256, expected: U256 },
    /// Not enough dearer than the transaction it would replace.
    #[error("replacement transaction underpriced: got {got}, want at least {expected}")]
    ReplacementUnderpriced { got: U256, expected: U256 },
    /// The sender cannot pay.
    #[error("insufficient funds for gasRemaining * price + value: balance {balance}, cost {cost}")]
    Funds { balance: U256, cost: U256 },
    /// The sender cannot pay for this one and for those that are pending.
    #[error(
        "insufficient funds for gasRemaining * price + value: balance {balance}, cost {cost}, of pending transactions {pending}"
    )]
    Overdraft {
        balance: U256,
        cost: U256,
        pending: U256,
    },
    /// Less gas than the data alone costs.
    #[error("intrinsic gasRemaining too low: got {got}, want {expected}")]
    IntrinsicGas { got: u64, expected: u64 },
    /// More gas than a block has.
    #[error("exceeds block gasRemaining limit: got {got}, want at most {limit}")]
    BlockGas { got: u64, limit: u64 },
    /// Too many transactions of this account wait for a missing nonce.
    #[error(
        "{got} transactions of this account are queued, at most {max} are allowed: nonce {missing} is missing"
    )]
    AccountQueue { got: usize, max: usize, missing: u64 },
    /// Nobody else would be the first to leave.
    #[error("txpool is full: {what}, {got} of at most {max}")]
    Full {
        what: &'static str,
        got: usize,
        max: usize,
    },
    /// A transaction that has to wait would push out one that can be mined.
    #[error("future transaction tries to replace pending: the pool is full, nonce {missing} is missing")]
    FutureReplacesPending { missing: u64 },
    /// 9-field transactions are not taken yet.
    #[error("Classic tx is not currently enabled")]
    ClassicDisabled,
    /// A form that this chain's blocks never have.
    #[error("{0:?} transactions do not belong to this chain at this height")]
    Form(TxForm),
    /// Only for application chains.
    #[error("shardingFlag {0} belongs to an application chain, not into the base chain's pool")]
    ShardingFlag(u64),
    /// Nobody may send one.
    #[error("invalid sender: system transactions are made by blocks alone")]
    System,
}
