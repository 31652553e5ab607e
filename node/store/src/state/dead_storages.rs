//! Storages of destroyed accounts, and of accounts that began another incarnation.
//!
//! Destroying an account removes nothing, because a reorganization may bring it back and its past
//! stays readable. Later, [`TableId::DeadStorage`] gets a row for its storage, and batches remove
//! what it names, some rows with each:
//!
//! - the trie nodes, when the block that destroyed the storage has moved into the blocks file. A
//!   reorganization that reaches it nevertheless makes them again from the slots;
//! - the slots, too, when no state that is kept has them.
//!
//! The first trie node that goes is the root. So a storage whose root is there has all its nodes.

use std::ops::ControlFlow;

use primitives::EMPTY_ROOT;

use super::keys::STORAGE;
use super::{AccountKey, StateChanges, StateReads, StorageOwner};
use crate::source::{Source, read_row};
use crate::write_tables::Tables;
use crate::{StoreError, TableId};

const TABLE: TableId = TableId::DeadStorage;

/// The value of a row: what is to be removed.
const TRIE: u8 = 0;
const TRIE_AND_SLOTS: u8 = 1;

impl Tables<'_> {
    /// Notes the storages that the canonical blocks `first` to `last` destroyed, so that their trie
    /// nodes are removed. Blocks whose lists of changes are gone were noted before.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails or a row is corrupt.
    pub fn note_dead_tries(&mut self, first: u64, last: u64) -> Result<(), StoreError> {
        for number in first.max(1)..=last {
            let key = number.to_be_bytes();
            let changes = read_row(self, TableId::BlockToChanges, &key, StateChanges::decode)?;
            if let Some(changes) = changes {
                self.note_dead_storages(number, &changes, false)?;
            }
        }
        Ok(())
    }

    /// Notes the storages that block `number` destroyed. `with_slots`: no state that is kept has
    /// their slots.
    pub(super) fn note_dead_storages(
        &mut self,
        number: u64,
        changes: &StateChanges,
        with_slots: bool,
    ) -> Result<(), StoreError> {
        for (address, before) in &changes.accounts {
            let had_storage = before
                .account
                .is_some_and(|account| account.storage_root != EMPTY_ROOT);
            let key = AccountKey::of(address);
            if had_storage && self.account_by_key(&key, number)?.incarnation > before.incarnation {
                let owner = key.storage(before.incarnation).to_bytes();
                let with_slots = with_slots
                    || self
                        .get(TABLE, &owner)?
                        .is_some_and(|what| what == [TRIE_AND_SLOTS]);
                let what = if with_slots { TRIE_AND_SLOTS } else { TRIE };
                self.put(TABLE, &owner, &[what])?;
            }
        }
        Ok(())
    }

    /// The storage is alive again: a reorganization has taken back the block that destroyed it.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn revive_storage(&mut self, owner: &StorageOwner) -> Result<(), StoreError> {
        self.delete(TABLE, &owner.to_bytes())
    }

    /// Removes rows of dead storages, `rows_max` at most. Returns `true` when none are left.
    ///
    /// # Errors
    /// [`StoreError`] when a read or write fails or a row is corrupt.
    pub fn sweep_dead_storages(&mut self, rows_max: usize) -> Result<bool, StoreError> {
        let mut left = rows_max;
        while let Some((owner, with_slots)) = self.first_dead_storage()? {
            let of_storage = [&[STORAGE], owner.as_slice()].concat();
            let mut parts = vec![(TableId::PathToTrieNode, of_storage.as_slice())];
            if with_slots {
                parts.push((TableId::StateHistory, &of_storage));
                parts.push((TableId::GoneStorage, &owner));
                parts.push((TableId::Storage, &owner));
            }
            for (table, prefix) in parts {
                self.delete_with_prefix(table, prefix, &mut left)?;
            }
            if left == 0 {
                return Ok(false);
            }
            self.delete(TABLE, &owner)?;
        }
        Ok(true)
    }

    /// The first storage of the table, and whether its slots go, too.
    fn first_dead_storage(&self) -> Result<Option<([u8; StorageOwner::BYTES], bool)>, StoreError> {
        let mut found = None;
        self.scan(TABLE, &[], |key, row| {
            let what = match (<[u8; StorageOwner::BYTES]>::try_from(key), row) {
                (Ok(owner), [TRIE]) => Ok((owner, false)),
                (Ok(owner), [TRIE_AND_SLOTS]) => Ok((owner, true)),
                _ => {
                    let (key_len, row_len) = (key.len(), row.len());
                    let reason = format!(
                        "got a key of {key_len} bytes and a value of {row_len}, expected {} and 1, which is 0 or 1",
                        StorageOwner::BYTES
                    );
                    Err(StoreError::corrupt(TABLE, key, reason))
                }
            };
            found = Some(what);
            ControlFlow::Break(())
        })?;
        found.transpose()
    }

    /// Removes rows whose keys begin with `prefix`, `left` at most.
    pub(super) fn delete_with_prefix(
        &mut self,
        table: TableId,
        prefix: &[u8],
        left: &mut usize,
    ) -> Result<(), StoreError> {
        let mut keys = Vec::new();
        if *left == 0 {
            return Ok(());
        }
        self.scan(table, prefix, |key, _| {
            if !key.starts_with(prefix) {
                return ControlFlow::Break(());
            }
            keys.push(key.to_vec());
            if keys.len() == *left {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        *left -= keys.len();
        keys.iter().try_for_each(|key| self.delete(table, key))
    }
}
