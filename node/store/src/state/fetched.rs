//! A state that is fetched from peers: rows that no block here has written.
//!
//! While rows come, the present rows belong to no block. The row [`meta_key::FETCHED_STATE`] says
//! so, and the horizon is [`NO_STATE`], above every block: whoever asks for a state is refused.
//! At the end the horizon is the block of the state. Blocks are executed from there on.
//!
//! | [`FetchedStage`] | present rows | tries |
//! |---|---|---|
//! | `Clearing` | are those of block 0, and go | are those of block 0, and go |
//! | `Rows` | are replaced by what comes | are of no meaning |
//! | `Tries` | are replaced by what comes | are those of the rows |
//!
//! A fetched row lists block 0 as the one that changed it, because a list is never empty. It has no
//! address and no number of a slot before a block changes it. Knows no tries and no peers.

use std::ops::ControlFlow;

use primitives::{B256, U256};

use super::history::encode_row;
use super::{AccountKey, AccountRecord, AccountVersion, SlotKey, StateHorizon, StateKind, StorageOwner};
use crate::codec::RowReader;
use crate::row_error::RowError;
use crate::source::{Source, read_row};
use crate::tables::meta_key;
use crate::write_tables::Tables;
use crate::{StoreError, TableId};

/// The oldest block with a state, while there is no state.
pub const NO_STATE: u64 = u64::MAX;
/// The block that fetched rows list.
const LISTED_BLOCK: u64 = 0;

/// The meaning of the present rows while a state is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchedStage {
    /// The rows of block 0 are being removed.
    Clearing,
    /// Rows come, and there are no tries.
    Rows,
    /// The tries are built and follow the rows.
    Tries,
}

/// A state that is being fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedStateRecord {
    /// The meaning of the present rows.
    pub stage: FetchedStage,
    /// The bytes that whoever fetches has stored with the last rows.
    pub progress: Vec<u8>,
}

impl FetchedStateRecord {
    fn decode(row: &[u8]) -> Result<Self, RowError> {
        let mut reader = RowReader::new(row);
        let [stage] = reader.array()?;
        let stage = match stage {
            0 => FetchedStage::Clearing,
            1 => FetchedStage::Rows,
            2 => FetchedStage::Tries,
            got => {
                return Err(RowError::Above {
                    field: "stage of the fetched state",
                    got: got.into(),
                    bound: 2,
                });
            }
        };
        let progress = reader.remaining().to_vec();
        Ok(Self { stage, progress })
    }
}

/// Reads of a state that is being fetched.
pub trait FetchedStateReads: Source + Sized {
    /// The state that is being fetched; `None` if none is.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn fetched_state(&self) -> Result<Option<FetchedStateRecord>, StoreError> {
        read_row(
            self,
            TableId::Meta,
            meta_key::FETCHED_STATE,
            FetchedStateRecord::decode,
        )
    }

    /// The block whose state was fetched. Of older accounts and slots only the hashes are known,
    /// unless a later block has changed them. `None` if all blocks were executed here.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn first_executed_after(&self) -> Result<Option<u64>, StoreError> {
        let number = |row: &[u8]| {
            let mut reader = RowReader::new(row);
            let number = u64::from_be_bytes(reader.array()?);
            reader.finish()?;
            Ok(number)
        };
        read_row(self, TableId::Meta, meta_key::FETCHED_BLOCK, number)
    }

    /// The place from where the build of the tries goes on; `None` if none was interrupted.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn begun_tries(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(TableId::Meta, meta_key::BEGUN_TRIES, <[u8]>::to_vec)
    }

    /// The hashes of the present accounts from `first` to `last`, at most `most`.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn present_accounts(&self, first: &B256, last: &B256, most: usize) -> Result<Vec<B256>, StoreError> {
        present_hashes(
            self,
            StateKind::Account,
            (first.as_slice(), last.as_slice()),
            most,
        )
    }

    /// The hashes of the present slots of a storage from `first` to `last`, at most `most`.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails.
    fn present_slots(
        &self,
        owner: StorageOwner,
        first: &B256,
        last: &B256,
        most: usize,
    ) -> Result<Vec<B256>, StoreError> {
        let (low, high) = (owner.slot(*first).to_bytes(), owner.slot(*last).to_bytes());
        present_hashes(self, StateKind::Slot, (&low, &high), most)
    }
}

impl<S: Source> FetchedStateReads for S {}

/// The last 32 bytes of the keys of present rows.
fn present_hashes(
    source: &impl Source,
    kind: StateKind,
    (low, high): (&[u8], &[u8]),
    most: usize,
) -> Result<Vec<B256>, StoreError> {
    let mut hashes = Vec::new();
    source.visit_from(kind.present(), low, &mut |key, _| {
        if hashes.len() == most || key > high {
            return ControlFlow::Break(());
        }
        hashes.extend(key.last_chunk::<32>().map(B256::from));
        ControlFlow::Continue(())
    })?;
    Ok(hashes)
}

impl Tables<'_> {
    /// Begins to fetch a state: from now on no state can be read. The head must be block 0.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn begin_fetched_state(&mut self) -> Result<(), StoreError> {
        self.put_horizon(&StateHorizon {
            block: NO_STATE,
            first_changes: NO_STATE,
            looked_at: 0,
        })?;
        self.delete(TableId::BlockToChanges, &0_u64.to_be_bytes())?;
        self.put_fetched_state(FetchedStage::Clearing, &[])
    }

    /// Writes how far the state is fetched.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_fetched_state(&mut self, stage: FetchedStage, progress: &[u8]) -> Result<(), StoreError> {
        if stage != FetchedStage::Rows {
            self.delete_begun_tries()?;
        }
        let row = [&[stage as u8], progress].concat();
        self.put(TableId::Meta, meta_key::FETCHED_STATE, &row)
    }

    /// Writes from where the build of the tries goes on, in the form of whoever builds them.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_begun_tries(&mut self, state: &[u8]) -> Result<(), StoreError> {
        self.put(TableId::Meta, meta_key::BEGUN_TRIES, state)
    }

    /// The tries are built from their begin the next time.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn delete_begun_tries(&mut self) -> Result<(), StoreError> {
        self.delete(TableId::Meta, meta_key::BEGUN_TRIES)
    }

    /// The present rows are the state after block `number`: states can be read from there on.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn end_fetched_state(&mut self, number: u64) -> Result<(), StoreError> {
        self.put_horizon(&StateHorizon {
            block: number,
            first_changes: number.saturating_add(1),
            looked_at: 0,
        })?;
        self.put(TableId::Meta, meta_key::FETCHED_BLOCK, &number.to_be_bytes())?;
        self.delete(TableId::Meta, meta_key::FETCHED_STATE)
    }

    /// The present rows are those of block 0 again, and all states are kept.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn drop_fetched_state(&mut self) -> Result<(), StoreError> {
        self.delete(TableId::Meta, meta_key::STATE_HORIZON)?;
        self.delete(TableId::Meta, meta_key::FETCHED_STATE)
    }

    /// Removes rows of the state but for codes, at most `rows_max`. Returns `true` when none are
    /// left.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails.
    pub fn clear_state(&mut self, rows_max: usize) -> Result<bool, StoreError> {
        let mut left = rows_max;
        for table in [
            TableId::PathToTrieNode,
            TableId::Account,
            TableId::GoneAccount,
            TableId::Storage,
            TableId::GoneStorage,
        ] {
            self.delete_with_prefix(table, &[], &mut left)?;
        }
        Ok(left > 0)
    }

    /// Removes nodes of tries, at most `rows_max`. Returns `true` when none are left.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails.
    pub fn clear_tries(&mut self, rows_max: usize) -> Result<bool, StoreError> {
        let mut left = rows_max;
        self.delete_with_prefix(TableId::PathToTrieNode, &[], &mut left)?;
        Ok(left > 0)
    }

    /// Writes a fetched account; `None` removes it, and not its slots.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails.
    pub fn put_fetched_account(
        &mut self,
        key: AccountKey,
        account: Option<AccountRecord>,
    ) -> Result<(), StoreError> {
        let version = AccountVersion {
            account,
            incarnation: 0,
        };
        let value = account.map(|_| version.to_bytes());
        self.put_fetched(StateKind::Account, key.0.as_slice(), value.as_deref())
    }

    /// Writes a fetched slot; zero removes it.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails.
    pub fn put_fetched_slot(&mut self, key: SlotKey, value: U256) -> Result<(), StoreError> {
        let value = (!value.is_zero()).then(|| value.to_be_bytes_trimmed_vec());
        self.put_fetched(StateKind::Slot, &key.to_bytes(), value.as_deref())
    }

    fn put_fetched(&mut self, kind: StateKind, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError> {
        let Some(value) = value else {
            return self.delete(kind.present(), key);
        };
        let row = encode_row(kind, false, &[LISTED_BLOCK], None, value);
        self.put(kind.present(), key, &row)
    }
}
