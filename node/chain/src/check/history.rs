//! Checks the state of every block: the values after each block, put into a trie in the order of
//! blocks, must lead to the state root in the block's header.
//!
//! Nothing is executed. The tries of the whole state are held in memory.

use std::collections::HashMap;

use primitives::{B256, EMPTY_CODE_HASH, EMPTY_ROOT};
use store::{AccountKey, BlockReads, Snapshot, Source, StateReads, StorageOwner, StoreError, TableId};

use super::{CheckError, CheckFault, StoreCheck, guarded};
use crate::trie::{NoNodes, Trie, encode_account};

/// Checks the states of all blocks from 0 to `head`.
pub(super) fn check(check: &mut StoreCheck<'_>, head: u64) -> Result<(), CheckError> {
    let mut history = HistoryCheck {
        view: check.view,
        accounts: Trie::in_memory(),
        storages: HashMap::new(),
        faults: Vec::new(),
    };
    // After a wrong value all roots are wrong until the value is overwritten. Only the first of
    // them is reported.
    let mut wrong = false;
    let first = match check.horizon.first_changes {
        0 => 0,
        _ => {
            let oldest = check.horizon.block;
            let loaded = guarded(&format!("state at block {oldest}"), || history.load(oldest));
            check.faults(loaded.err().into_iter().collect());
            oldest + 1
        }
    };
    for number in first..=head {
        let roots = guarded(&format!("state at block {number}"), || {
            history.apply_block(number)
        });
        check.faults(std::mem::take(&mut history.faults));
        match roots {
            Ok(Some(BlockRoots { got, expected })) => {
                if got != expected && !wrong {
                    check.faults(vec![CheckFault::StateRoot {
                        number,
                        got,
                        expected,
                    }]);
                }
                wrong = got != expected;
            }
            // The check of blocks has reported the missing block.
            Ok(None) => {}
            Err(fault) => check.faults(vec![fault]),
        }
        check.progress("states", number + 1, head + 1)?;
    }
    Ok(())
}

/// The state after the last applied block.
struct HistoryCheck<'a> {
    view: &'a Snapshot,
    accounts: Trie,
    storages: HashMap<StorageOwner, Trie>,
    faults: Vec<CheckFault>,
}

/// The state root of the values after a block, and the one in its header.
struct BlockRoots {
    got: B256,
    expected: B256,
}

impl HistoryCheck<'_> {
    /// Puts the state after block `number` into the tries.
    fn load(&mut self, number: u64) -> Result<(), StoreError> {
        let view = self.view;
        view.walk_accounts::<StoreError>(&AccountKey(B256::ZERO), number, |found| {
            let owner = found.storage();
            let mut storage = Trie::in_memory();
            view.walk_slots::<StoreError>(&owner, &B256::ZERO, number, |slot| {
                storage.insert(&NoNodes, slot.hash.as_slice(), &alloy_rlp::encode(slot.value))
            })?;
            let key = found.key.0;
            self.accounts
                .insert(&NoNodes, key.as_slice(), &encode_account(&found.account))?;
            if found.account.storage_root != EMPTY_ROOT {
                self.storages.insert(owner, storage);
            }
            Ok(())
        })
    }

    /// Applies the changes of block `number`. Returns `None` if the store has no such block.
    fn apply_block(&mut self, number: u64) -> Result<Option<BlockRoots>, StoreError> {
        let Some(hash) = self.view.canonical_hash(number)? else {
            return Ok(None);
        };
        let expected = self
            .view
            .header(number, &hash)?
            .map(|record| record.header.state_root);
        let changes = self.view.changes(number)?;
        for change in &changes.slots {
            let key = change.row_key();
            let value = self.view.slot_by_key(&change.address, &key, number)?;
            let storage = self.storages.entry(key.owner).or_insert_with(Trie::in_memory);
            if value.is_zero() {
                storage.remove(&NoNodes, key.hash.as_slice())?;
            } else {
                storage.insert(&NoNodes, key.hash.as_slice(), &alloy_rlp::encode(value))?;
            }
        }
        for (address, _) in &changes.accounts {
            let key = AccountKey::of(address);
            let version = self.view.account_by_key(&key, number)?;
            let Some(account) = version.account else {
                self.accounts.remove(&NoNodes, key.0.as_slice())?;
                self.storages
                    .remove(&key.storage(version.incarnation.wrapping_sub(1)));
                continue;
            };
            // The hashes of all codes have been checked before.
            let code = account.code_hash;
            let has_code = code == EMPTY_CODE_HASH
                || self
                    .view
                    .with(TableId::HashToCode, code.as_slice(), |_| ())?
                    .is_some();
            if !has_code {
                self.faults.push(CheckFault::Account {
                    name: address.to_string(),
                    number,
                    what: "code",
                    got: "none".to_owned(),
                    expected: code.to_string(),
                });
            }
            let storage = self.storages.get_mut(&key.storage(version.incarnation));
            // The rows are not used, but `commit` frees the trie's list of removed nodes.
            let got = storage.map_or(EMPTY_ROOT, |storage| storage.take_rows().0);
            if got != account.storage_root {
                self.faults.push(CheckFault::Account {
                    name: address.to_string(),
                    number,
                    what: "storage root",
                    got: got.to_string(),
                    expected: account.storage_root.to_string(),
                });
            }
            self.accounts
                .insert(&NoNodes, key.0.as_slice(), &encode_account(&account))?;
        }
        let got = self.accounts.take_rows().0;
        Ok(expected.map(|expected| BlockRoots { got, expected }))
    }
}
