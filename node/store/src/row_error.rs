//! The reasons why a stored row, or a part of a file, cannot be one that this program wrote.

use primitives::{B256, DecodeError};

use crate::{StoreError, TableId};

/// The reason why bytes cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RowError {
    #[error("row is missing")]
    Missing,
    #[error("{field}: got {got} bytes, expected {expected}")]
    Length {
        field: &'static str,
        got: usize,
        expected: usize,
    },
    #[error("row ends early: got {got} more bytes, expected {expected}")]
    CutOff { got: usize, expected: u64 },
    #[error("got {got} bytes after the end of the row, expected none")]
    Trailing { got: usize },
    #[error("row ends within a number")]
    NumberCutOff,
    #[error("number is not in its shortest form")]
    NumberForm,
    #[error("number begins with a zero byte")]
    NumberLeadingZero,
    #[error("{field}: got {got} bytes, expected at most {bound}")]
    TooLong {
        field: &'static str,
        got: usize,
        bound: usize,
    },
    /// A number that is too large for its type: it has more than `bits` bits.
    #[error("{field}: got 2^{bits} or more")]
    Overflow { field: &'static str, bits: u32 },
    #[error("{field}: got {got}, expected less than {limit}")]
    NotBelow {
        field: &'static str,
        got: u64,
        limit: u64,
    },
    #[error("{field}: got {got}, expected at most {bound}")]
    Above {
        field: &'static str,
        got: u64,
        bound: u64,
    },
    #[error("{field}: got {got}, expected {expected}")]
    Differs {
        field: &'static str,
        got: u64,
        expected: u64,
    },
    #[error("{field}: got {got}, expected {expected}")]
    Value {
        field: &'static str,
        got: u64,
        /// The accepted values, in words.
        expected: &'static str,
    },
    #[error("distance to the block before {block}: got {got}, expected 1 to {block}")]
    Distance { block: u64, got: u64 },
    #[error("{field}: got another order, expected them ascending")]
    Order { field: &'static str },
    #[error("key: it belongs to something else")]
    OtherKey,
    #[error("hash of the row: got {got}, expected {expected}")]
    Hash { got: B256, expected: B256 },
    #[error("flags: got {got:#04x}, expected {expected}")]
    Flags { got: u8, expected: &'static str },
    #[error("the row lacks a change of {} {}", .table.name(), primitives::hex::encode(.key))]
    LacksChange { table: TableId, key: Vec<u8> },
    #[error("a block has changed the row, but it lacks the address or the number of the slot")]
    NoPreimage,
    #[error("the row stands among those of the head state, but its account does not exist")]
    NotPresent,
    #[error("the value does not belong into this table")]
    OtherTable,
    #[error("length in the frame: got {got:?}, expected at most {bound} bytes")]
    FrameLength { got: Option<u64>, bound: usize },
    #[error("the frame cannot be read: {0}")]
    Frame(std::io::Error),
    #[error("checksum: got {got:08x}, expected {expected:08x}")]
    Checksum { got: u32, expected: u32 },
    #[error(
        "place in the blocks file: got offset {offset} and {lens:?} bytes, expected an offset from {lowest} on"
    )]
    Place {
        offset: u64,
        lens: [u64; 2],
        lowest: u64,
    },
    #[error("table: got {name:?}, which is unknown")]
    UnknownTable { name: String },
    #[error(transparent)]
    Rlp(#[from] DecodeError),
}

impl RowError {
    /// The error for the row of `table` under `key`.
    pub(crate) fn in_row(self, table: TableId, key: &[u8]) -> StoreError {
        StoreError::corrupt(table, key, self)
    }
}
