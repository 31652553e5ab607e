//! What can be wrong in a store, each in one line.

use primitives::{Address, B256, hex};
use store::{StoreError, TableId};

/// Something stored that is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "fields are the place, the value got and the value expected, as the texts say"
)]
pub enum CheckFault {
    /// Something of a block differs from what follows from the rest.
    #[error("block {number} ({hash}): {what}: got {got}, want {expected}")]
    Block {
        number: u64,
        hash: B256,
        what: &'static str,
        got: String,
        expected: String,
    },
    /// A row of a block is not there.
    #[error("block {number} ({hash}): no {what}")]
    BlockLacks {
        number: u64,
        hash: B256,
        what: &'static str,
    },
    /// There is no canonical block of a number.
    #[error("block {number}: there is none, though the chain is longer")]
    NoBlock { number: u64 },
    /// A transaction is not found where it lies.
    #[error("transaction {hash}: position {got}, want {expected}")]
    Position {
        hash: B256,
        got: String,
        expected: String,
    },
    /// A block's list of changes names a version that is not there.
    #[error("block {number}: its list of changes names {what}, of which it left no version")]
    NoVersion { number: u64, what: String },
    /// An account's storage, or an account's code.
    #[error("account {address} at block {number}: {what}: got {got}, want {expected}")]
    Account {
        address: Address,
        number: u64,
        what: &'static str,
        got: String,
        expected: String,
    },
    /// The versions at a block do not give its state root.
    #[error("state at block {number}: root {got}, the header has {expected}")]
    StateRoot { number: u64, got: B256, expected: B256 },
    /// A node of a trie.
    #[error("trie node {row}: {reason}")]
    TrieNode { row: String, reason: String },
    /// The trie has another number of values than there are accounts or slots.
    #[error("{what}: the trie has {got} values, want {expected}")]
    Leaves { what: String, got: u64, expected: u64 },
    /// One of the single values.
    #[error("{what}: got {got}, want {expected}")]
    Meta {
        what: &'static str,
        got: String,
        expected: String,
    },
    /// Rows that nothing else answers for, or too few.
    #[error("{table}: got {got} rows, want {expected}")]
    Rows {
        table: &'static str,
        got: u64,
        expected: u64,
    },
    /// A table of lists has too many or too few entries.
    #[error("{table}: got {got} entries, want {expected}")]
    Entries {
        table: &'static str,
        got: u64,
        expected: u64,
    },
    /// A row that cannot be decoded.
    #[error("{table} row {key}: {reason}")]
    Row {
        table: &'static str,
        key: String,
        reason: String,
    },
    /// Something that cannot be read.
    #[error("{place}: {reason}")]
    Unreadable { place: String, reason: String },
    /// Something that could not be checked because of another fault.
    #[error("{what} was not checked: {reason}")]
    Skipped {
        what: &'static str,
        reason: &'static str,
    },
}

impl CheckFault {
    /// A row whose key or value is none.
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
