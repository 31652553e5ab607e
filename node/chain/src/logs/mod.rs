//! Finds logs by contract and topics: in a range of blocks, in one block, or in given receipts.
//!
//! | question | where |
//! |---|---|
//! | does this log match? | [`LogQuery`] |
//! | can this block have a match? | [`BloomTest`] |
//! | which blocks may have a match? | `candidates`, with the log index or with blooms |
//! | which logs match? | [`LogSearch`], block by block |
//!
//! Index and blooms only propose blocks. Every log is compared with the query before it is
//! returned.

mod bloom;
mod candidates;
mod query;
mod search;

pub use bloom::BloomTest;
pub use query::{LogQuery, ReceiptLog};
pub use search::{LogPlan, LogSearch};

use primitives::{B256, Log};
use store::StoreError;

use crate::import::BlockId;
use crate::query_limit::QueryStop;

/// The default limit of logs that a query returns.
pub const RESULTS_MAX: u64 = 10_000;
/// The default limit of blocks whose logs a query reads. With the index, almost all blocks that are
/// read have a match. The others have the requested values in different logs.
pub const BLOCKS_READ_MAX: u64 = 100_000;

/// A matching log with its position in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLog {
    /// The log's block.
    pub block: BlockId,
    /// The index of the log's transaction in the block.
    pub transaction_index: usize,
    /// The hash of the log's transaction.
    pub transaction_hash: B256,
    /// The index of the log in the block.
    pub log_index: usize,
    /// The log.
    pub log: Log,
}

/// The limits of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// The most logs that a query returns.
    pub results_max: u64,
    /// The most blocks in the range of a query. Blocks above the head do not count.
    pub range_max: u64,
    /// The most blocks whose logs are read.
    pub blocks_read_max: u64,
}

/// The range is not limited: the cost of a query with the index follows the number of matches and
/// not the length of the range.
impl Default for LogLimits {
    fn default() -> Self {
        Self {
            results_max: RESULTS_MAX,
            range_max: u64::MAX,
            blocks_read_max: BLOCKS_READ_MAX,
        }
    }
}

impl LogLimits {
    /// No limits.
    pub const NONE: Self = Self {
        results_max: u64::MAX,
        range_max: u64::MAX,
        blocks_read_max: u64::MAX,
    };
}

/// The reason why a query fails, at its start or after some results.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// More logs match than the limit allows.
    #[error("more than {max} logs match")]
    Results {
        /// The limit.
        max: u64,
    },
    /// The range is longer than the limit allows.
    #[error("block range: got {got} blocks, expected at most {max}")]
    Range {
        /// Number of blocks in the range, up to the head.
        got: u64,
        /// The limit.
        max: u64,
    },
    /// The logs of older blocks are not kept.
    #[error(
        "logs of blocks: got block {got} as the first one, expected block {first} or a later one: older ones are not kept"
    )]
    NotKept {
        /// The first block of the range.
        got: u64,
        /// The first one whose logs are kept.
        first: u64,
    },
    /// More blocks must be read than the limit allows.
    #[error("more than {max} blocks would have to be read")]
    BlocksRead {
        /// The limit.
        max: u64,
    },
    /// The time is over, or nobody waits for the logs any more.
    #[error(transparent)]
    Stopped(#[from] QueryStop),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
