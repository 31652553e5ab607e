//! The faults that a check can find in a store. The text of each is one line.

use primitives::{B256, hex};
use store::{StoreError, TableId};

/// A stored value that is missing or wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "the fields are the location and the got and expected values that the texts name"
)]
pub enum CheckFault {
    /// A value of a block does not match the values that it is derived from.
    #[error("block {number} ({hash}): {what}: got {got}, expected {expected}")]
    Block {
        number: u64,
        hash: B256,
        what: &'static str,
        got: String,
        expected: String,
    },
    /// A row of a block is missing.
    #[error("block {number} ({hash}): no {what}")]
    BlockLacks {
        number: u64,
        hash: B256,
        what: &'static str,
    },
    /// A number up to the head has no canonical block.
    #[error("block {number}: no canonical block has this number, but the head is higher")]
    NoBlock { number: u64 },
    /// The stored position of a transaction is wrong.
    #[error("position of transaction {hash}: got {got}, expected {expected}")]
    Position {
        hash: B256,
        got: String,
        expected: String,
    },
    /// The row of an account or a slot names a block that did not change it.
    #[error("{table} row {key}: it says that block {number} changed it, and block_to_changes does not")]
    Change {
        table: &'static str,
        key: String,
        number: u64,
    },
    /// The number of changes in `block_to_changes` is not the number in the rows of accounts and
    /// slots.
    #[error(
        "changes of accounts and slots: got {got} in their rows, expected the {expected} of block_to_changes"
    )]
    Changes { got: u64, expected: u64 },
    /// An account's storage root or code is wrong.
    #[error("account {name} at block {number}: {what}: got {got}, expected {expected}")]
    Account {
        /// The address, or the hash of it if no more is known.
        name: String,
        number: u64,
        what: &'static str,
        got: String,
        expected: String,
    },
    /// The values at a block do not lead to the state root in its header.
    #[error("state root at block {number}: got {got}, expected {expected}")]
    StateRoot { number: u64, got: B256, expected: B256 },
    /// A node of a trie is wrong.
    #[error("trie node {row}: {reason}")]
    TrieNode { row: String, reason: String },
    /// The number of values in a trie is not the number of accounts or slots.
    #[error("values in {what}: got {got}, expected {expected}")]
    Leaves { what: String, got: u64, expected: u64 },
    /// A value of the table `meta` is wrong.
    #[error("{what}: got {got}, expected {expected}")]
    Meta {
        what: &'static str,
        got: String,
        expected: String,
    },
    /// A table has too many or too few rows.
    #[error("{table}: got {got} rows, expected {expected}")]
    Rows {
        table: &'static str,
        got: u64,
        expected: u64,
    },
    /// The lists in a table have too many or too few entries.
    #[error("{table}: got {got} entries, expected {expected}")]
    Entries {
        table: &'static str,
        got: u64,
        expected: u64,
    },
    /// A row is not valid.
    #[error("{table} row {key}: {reason}")]
    Row {
        table: &'static str,
        key: String,
        reason: String,
    },
    /// A part of the store cannot be read.
    #[error("{place}: {reason}")]
    Unreadable { place: String, reason: String },
    /// A part of the store was not checked because of another fault.
    #[error("{what} was not checked: {reason}")]
    Skipped {
        what: &'static str,
        reason: &'static str,
    },
}

impl CheckFault {
    /// The fault of a row.
    pub(super) fn row(table: TableId, key: &[u8], reason: impl Into<String>) -> Self {
        Self::Row {
            table: table.name(),
            key: hex::encode(key),
            reason: reason.into(),
        }
    }
}

impl From<StoreError> for CheckFault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Corrupt { table, key, reason } => Self::Row { table, key, reason },
            other => Self::Unreadable {
                place: "store".to_owned(),
                reason: other.to_string().replace('\n', " "),
            },
        }
    }
}
