//! Logs by contract and topics: over a range of blocks, in one block, in receipts at hand.
//!
//! | question | where |
//! |---|---|
//! | does this log match? | [`LogQuery`] |
//! | can this block hold a match? | [`BloomTest`] |
//! | which blocks are worth a look? | `candidates`, from the log index or from blooms |
//! | what is in them? | [`LogSearch`], block by block |
//!
//! Whatever proposes a block, every log is compared itself before it is given. Knows no JSON.

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

/// Most logs that a query may give, unless told otherwise.
pub const RESULTS_MAX: u64 = 10_000;
/// Most blocks whose logs a query may read, unless told otherwise. Blocks without a match cost
/// nothing, but for those that have what is asked for in different logs.
pub const BLOCKS_READ_MAX: u64 = 100_000;

/// A log with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLog {
    /// Its block.
    pub block: BlockId,
    /// Its transaction's place in the block.
    pub transaction_index: usize,
    /// Its transaction.
    pub transaction_hash: B256,
    /// Its place in the block.
    pub log_index: usize,
    /// The log.
    pub log: Log,
}

/// What a query may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Most logs that it gives.
    pub results_max: u64,
    /// Longest range of blocks that are there.
    pub range_max: u64,
    /// Most blocks whose logs are read.
    pub blocks_read_max: u64,
}

/// Ranges are not bounded: an indexed query costs what it finds, not what it passes over.
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
    /// No bounds.
    pub const NONE: Self = Self {
        results_max: u64::MAX,
        range_max: u64::MAX,
        blocks_read_max: u64::MAX,
    };
}

/// Why a query is not answered, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// More matches than allowed.
    #[error("more than {max} logs match")]
    Results {
        /// How many are allowed.
        max: u64,
    },
    /// A longer range than allowed.
    #[error("the range has {got} blocks, at most {max} are allowed")]
    Range {
        /// Blocks in the range, up to the head.
        got: u64,
        /// How many are allowed.
        max: u64,
    },
    /// More blocks to read than allowed.
    #[error("more than {max} blocks would have to be read")]
    BlocksRead {
        /// How many are allowed.
        max: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
