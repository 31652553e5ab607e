//! The faults of Era1 files.

use std::path::PathBuf;

use primitives::{B256, DecodeError, U256};

use crate::rules::body::BodyError;

/// A fault of an Era1 file, and its place.
#[derive(Debug, thiserror::Error)]
#[error("{}{error}", block.map(|number| format!("block {number}: ")).unwrap_or_default())]
pub struct Era1FileError {
    /// The file.
    pub path: PathBuf,
    /// The block whose entries were being read; `None` outside of blocks.
    pub block: Option<u64>,
    /// The fault.
    pub error: Box<Era1Error>,
}

/// A fault of an Era1 file.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "fields are the value got and the value expected, as the texts say"
)]
pub enum Era1Error {
    /// The system reports an error.
    #[error("cannot read: {0}")]
    Read(#[from] std::io::Error),
    /// The file ends within an entry.
    #[error("the file is cut off: got {got} bytes of {what}, expected {expected}")]
    Cut {
        what: &'static str,
        got: u64,
        expected: u64,
    },
    /// An entry is missing.
    #[error("got {got}, expected {expected}")]
    Order {
        got: &'static str,
        expected: &'static str,
    },
    /// The two bytes after the length of an entry are not zero.
    #[error("the reserved bytes of an entry: got {got:#06x}, expected 0x0000")]
    Reserved { got: u16 },
    /// An entry has a length that its type cannot have.
    #[error("length of the {what}: got {got} bytes, expected {expected}")]
    Length {
        what: &'static str,
        got: u64,
        expected: String,
    },
    /// The data of an entry is not in the framing format of Snappy, or its checksum is wrong.
    #[error("{what}: cannot decompress: {error}")]
    Snappy {
        what: &'static str,
        error: std::io::Error,
    },
    /// The data of an entry is not the RLP that it should be.
    #[error("{0}")]
    Rlp(#[from] DecodeError),
    /// A transaction has no valid sender.
    #[error("{0}")]
    Body(BodyError),
    /// The blocks are not in order.
    #[error("number in the header: got {got}, expected {expected}")]
    Number { got: u64, expected: u64 },
    /// A block does not build on the one before.
    #[error("parent hash: got {got}, expected {expected}")]
    ParentHash { got: B256, expected: B256 },
    /// The hash of a block is another than that of the chain.
    #[error("block hash: got {got}, expected {expected}")]
    Hash { got: B256, expected: B256 },
    /// The total difficulty is not the sum of the difficulties.
    #[error("total difficulty: got {got}, expected {expected}")]
    TotalDifficulty { got: U256, expected: U256 },
    /// The receipts are not those of the header.
    #[error("root of the receipts: got {got}, expected {expected}")]
    ReceiptsRoot { got: B256, expected: B256 },
    /// The accumulator is not that of the blocks.
    #[error("accumulator: got {got}, expected {expected}, the root of the blocks before it")]
    Accumulator { got: B256, expected: B256 },
    /// The index does not fit to the entries.
    #[error("index: {what}: got {got}, expected {expected}")]
    Index {
        what: &'static str,
        got: i128,
        expected: i128,
    },
    /// There are too many blocks.
    #[error("got more than {max} blocks, expected at most so many")]
    TooMany { max: u64 },
    /// Other bytes follow the index.
    #[error("got bytes behind the index, expected the end of the file")]
    Trailing,
    /// The name of the file says something else than its content.
    #[error("the name of the file: got {got}, expected {expected}")]
    Name { got: String, expected: String },
}
