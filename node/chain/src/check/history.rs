//! The state of every block: the versions that each block left, put into a trie in memory
//! in the order of blocks, must give each header's state root.
//!
//! Executes nothing. Holds the tries of the whole state in memory.

use std::collections::HashMap;

use primitives::{Address, B256, EMPTY_CODE_HASH, EMPTY_ROOT, keccak256};
use store::{BlockReads, Snapshot, Source, StateReads, StoreError, TableId};

use super::{CheckError, CheckFault, StoreCheck, guarded};
use crate::trie::{NoNodes, Trie, encode_account};

/// Checks the states of all blocks from 0 to `head`.
pub(super) fn check(check: &mut StoreCheck<'_>, head: u64) -> Result<(), CheckError> {
    let mut replay = StateHistory {
        view: check.view,
        accounts: Trie::in_memory(),
        storages: HashMap::new(),
        faults: Vec::new(),
    };
    // After a wrong version all roots differ until it is written over: said once.
    let mut wrong = false;
    for number in 0..=head {
        let followed = guarded(&format!("state at block {number}"), || replay.follow(number));
        check.faults(std::mem::take(&mut replay.faults));
        match followed {
            Ok(Ok(Some((got, expected)))) => {
                if got != expected && !wrong {
                    check.faults(vec![CheckFault::StateRoot {
                        number,
                        got,
                        expected,
                    }]);
                }
                wrong = got != expected;
            }
            // That there is no such block was said with the blocks.
            Ok(Ok(None)) => {}
            Ok(Err(error)) => check.faults(vec![error.into()]),
            Err(fault) => check.faults(vec![fault]),
        }
        check.progress("states", number + 1, head + 1)?;
    }
    Ok(())
}

struct StateHistory<'a> {
    view: &'a Snapshot,
    accounts: Trie,
    storages: HashMap<(Address, u32), Trie>,
    faults: Vec<CheckFault>,
}

impl StateHistory<'_> {
    /// Takes the versions of a block; gives the root they lead to and the header's.
    fn follow(&mut self, number: u64) -> Result<Option<(B256, B256)>, StoreError> {
        let Some(hash) = self.view.canonical_hash(number)? else {
            return Ok(None);
        };
        let expected = self
            .view
            .header(number, &hash)?
            .map(|record| record.header.state_root);
        let changes = self.view.changes(number)?;
        for (address, incarnation, slot) in &changes.slots {
            let value = self.view.slot_at(address, *incarnation, slot, number)?;
            let storage = self
                .storages
                .entry((*address, *incarnation))
                .or_insert_with(Trie::in_memory);
            let key = keccak256(slot.to_be_bytes::<32>());
            if value.is_zero() {
                storage.remove(&NoNodes, key.as_slice())?;
            } else {
                storage.insert(&NoNodes, key.as_slice(), &alloy_rlp::encode(value))?;
            }
        }
        for address in &changes.accounts {
            let version = self.view.account_at(address, number)?;
            let key = keccak256(address);
            let Some(account) = version.account else {
                self.accounts.remove(&NoNodes, key.as_slice())?;
                self.storages
                    .remove(&(*address, version.incarnation.wrapping_sub(1)));
                continue;
            };
            // Whether the code has this hash was looked at for all codes.
            let code = account.code_hash;
            let code_is_there = code == EMPTY_CODE_HASH
                || self
                    .view
                    .with(TableId::HashToCode, code.as_slice(), |_| ())?
                    .is_some();
            if !code_is_there {
                self.faults.push(CheckFault::Account {
                    address: *address,
                    number,
                    what: "code",
                    got: "none".to_owned(),
                    expected: code.to_string(),
                });
            }
            let storage = self.storages.get_mut(&(*address, version.incarnation));
            // The rows are not needed; taking them keeps the trie from remembering old ones.
            let got = storage.map_or(EMPTY_ROOT, |storage| storage.commit().0);
            if got != account.storage_root {
                self.faults.push(CheckFault::Account {
                    address: *address,
                    number,
                    what: "storage root",
                    got: got.to_string(),
                    expected: account.storage_root.to_string(),
                });
            }
            self.accounts
                .insert(&NoNodes, key.as_slice(), &encode_account(&account))?;
        }
        let got = self.accounts.commit().0;
        Ok(expected.map(|expected| (got, expected)))
    }
}
