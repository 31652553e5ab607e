//! The taker of a fetched state's rows, and the figures of the progress.

use chain::fetched_state::FetchedState;
use primitives::{B256, U256};
use store::{AccountRecord, StoreError};

/// A store that takes a state in rows. Methods give [`StoreError`] when the store fails.
///
/// Rows are by the hashes of addresses and slots. Whatever was handed over since the last commit
/// is stored by the next one, all of it together with the progress, or none of it.
pub trait SnapSink {
    /// Replaces all accounts from `first` to `last` by these rows, which ascend. Accounts that are
    /// not among them go, with their slots. The storage roots of the rows are those of the peers'
    /// state, which the slots here may not have yet.
    fn replace_accounts(
        &mut self,
        first: &B256,
        last: &B256,
        rows: &[(B256, AccountRecord)],
    ) -> Result<(), StoreError>;

    /// Replaces all slots of an account from `first` to `last` by these rows, which ascend. The
    /// account itself may follow later.
    fn replace_slots(
        &mut self,
        account: &B256,
        first: &B256,
        last: &B256,
        rows: &[(B256, U256)],
    ) -> Result<(), StoreError>;

    /// Whether the code with this hash is here.
    fn has_code(&self, hash: &B256) -> Result<bool, StoreError>;

    /// Keeps a code.
    fn put_code(&mut self, hash: &B256, code: &[u8]) -> Result<(), StoreError>;

    /// Stores all that was handed over, and the progress. If the trie is built, it follows: it is
    /// always the trie of the rows, and an account's storage root in it is always that of its
    /// slots, not what a peer has said.
    fn commit(&mut self, progress: &[u8]) -> Result<(), StoreError>;

    /// The RLP of a node of this store's own trie, as of the last commit: of the state's, or of an
    /// account's storage. The path has one nibble per byte; the empty path is the root's. `None` if
    /// there is no node with a row of its own.
    fn node(&self, account: Option<&B256>, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
}

impl SnapSink for FetchedState {
    fn replace_accounts(
        &mut self,
        first: &B256,
        last: &B256,
        rows: &[(B256, AccountRecord)],
    ) -> Result<(), StoreError> {
        self.replace_accounts(first, last, rows)
    }

    fn replace_slots(
        &mut self,
        account: &B256,
        first: &B256,
        last: &B256,
        rows: &[(B256, U256)],
    ) -> Result<(), StoreError> {
        self.replace_slots(account, first, last, rows)
    }

    fn has_code(&self, hash: &B256) -> Result<bool, StoreError> {
        self.has_code(hash)
    }

    fn put_code(&mut self, hash: &B256, code: &[u8]) -> Result<(), StoreError> {
        self.put_code(hash, code);
        Ok(())
    }

    fn commit(&mut self, progress: &[u8]) -> Result<(), StoreError> {
        self.commit(progress)
    }

    fn node(&self, account: Option<&B256>, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.node(account, path)
    }
}

/// Counts since the begin of the download, over restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapFigures {
    /// Accounts that were stored.
    pub accounts: u64,
    /// Slots that were stored.
    pub slots: u64,
    /// Codes that were stored.
    pub codes: u64,
    /// Bytes of rows and codes that peers have sent: what they count in an answer.
    pub bytes: u64,
    /// Trie nodes that were fetched to find the rows that differ.
    pub healed: u64,
    /// The part of `bytes` that is slots.
    pub slot_bytes: u64,
    /// The part of `bytes` that is codes.
    pub code_bytes: u64,
    /// The part of `bytes` that is such trie nodes.
    pub healed_bytes: u64,
}

impl SnapFigures {
    /// The part of `bytes` that is accounts.
    pub const fn account_bytes(&self) -> u64 {
        self.bytes
            .saturating_sub(self.slot_bytes)
            .saturating_sub(self.code_bytes)
            .saturating_sub(self.healed_bytes)
    }
}
