//! What a block leaves behind: the rows to write, and the state that the next block goes on from.
//!
//! Also the way back. Knows versions and tries; executes nothing.

use std::collections::BTreeMap;

use primitives::{Address, B256, EMPTY_ROOT, U256};
use revm::bytecode::Bytecode;
use revm::primitives::{AddressMap, B256Map};
use store::{AccountVersion, StateChanges, StateReads, StoreError, Tables};

use super::account::Cached;
use crate::trie::{StateTrie, TrieWork};

/// When more accounts and slots than this are in memory at a commit, they go. About 100 MB.
const HELD_MAX: usize = 200_000;
/// When there are more bytes of code in memory at a commit, they go.
const CODE_BYTES_MAX: usize = 16 << 20;

/// What is held in memory of the state after a block: accounts, slots, code, trie nodes.
///
/// All of it could be read from the store, once it is [saved](HeadState::save) there.
#[derive(Debug)]
pub struct HeadState {
    pub(super) accounts: AddressMap<Cached>,
    pub(super) code: B256Map<Bytecode>,
    pub(super) trie: StateTrie,
    /// How many accounts and slots, or some more: those that went are counted.
    pub(super) held: usize,
}

impl HeadState {
    /// Nothing but the state root.
    pub fn new(root: B256) -> Self {
        Self {
            accounts: AddressMap::default(),
            code: B256Map::default(),
            trie: StateTrie::new(root),
            held: 0,
        }
    }

    /// Writes the trie's nodes, after the versions of every block since the last time were
    /// written. Returns what the trie has done since then.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn save(&mut self, tables: &mut Tables<'_>) -> Result<TrieWork, StoreError> {
        self.trie.commit(tables)?;
        if self.held > HELD_MAX {
            self.accounts.clear();
            self.held = 0;
        }
        let code = self.code.values().map(|code| code.original_byte_slice().len());
        if code.sum::<usize>() > CODE_BYTES_MAX {
            self.code.clear();
        }
        Ok(self.trie.take_work())
    }
}

/// An account, what the block makes of it, and its changed slots with their values.
type ChangedAccount = (Address, AccountVersion, Vec<(U256, U256)>);

/// The changes of a whole block, ready to be written.
#[derive(Debug)]
pub struct StateUpdate {
    /// State root after the block.
    pub root: B256,
    versions: Vec<ChangedAccount>,
    new_code: Vec<(B256, Bytecode)>,
    head: HeadState,
}

impl StateUpdate {
    /// The changes of the accounts `changed`, in this order.
    pub(super) fn of(
        root: B256,
        mut head: HeadState,
        changed: &[Address],
        new_code: B256Map<Bytecode>,
    ) -> Self {
        let mut versions = Vec::with_capacity(changed.len());
        for address in changed {
            let Some(cached) = head.accounts.get_mut(address) else {
                continue;
            };
            let before = cached.before;
            let slots = cached.end_block();
            if cached.before != before {
                versions.push((*address, cached.before, slots));
            }
        }
        head.code
            .extend(new_code.iter().map(|(hash, code)| (*hash, code.clone())));
        Self {
            root,
            versions,
            new_code: new_code.into_iter().collect(),
            head,
        }
    }

    /// Writes the versions of block `number`, its change list and new code, and gives the state
    /// after the block, whose trie is not saved yet.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn write_versions(self, tables: &mut Tables<'_>, number: u64) -> Result<HeadState, StoreError> {
        let mut changes = StateChanges::default();
        for (address, version, slots) in &self.versions {
            tables.put_account(address, number, version)?;
            changes.accounts.push(*address);
            for (slot, value) in slots {
                tables.put_slot(address, version.incarnation, slot, number, value)?;
                changes.slots.push((*address, version.incarnation, *slot));
            }
        }
        for (code_hash, code) in &self.new_code {
            tables.put_code(code_hash, code.original_byte_slice())?;
        }
        tables.put_changes(number, &changes)?;
        Ok(self.head)
    }

    /// Writes all that block `number` changes, trie nodes included, and gives the state after it.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn write(self, tables: &mut Tables<'_>, number: u64) -> Result<HeadState, StoreError> {
        let mut head = self.write_versions(tables, number)?;
        head.save(tables)?;
        Ok(head)
    }
}

/// Takes the head block's state changes back: versions and trie.
///
/// `parent_root` is the state root to arrive at; arriving elsewhere means a damaged store.
///
/// # Errors
/// [`StoreError`] when the store fails or does not lead back to `parent_root`.
pub(crate) fn revert_block(
    tables: &mut Tables<'_>,
    number: u64,
    root: B256,
    parent_root: B256,
) -> Result<(), StoreError> {
    let changes = tables.changes(number)?;
    let mut trie = StateTrie::new(root);
    let mut slots: BTreeMap<(Address, u32), Vec<(U256, U256)>> = BTreeMap::new();
    for (address, incarnation, slot) in &changes.slots {
        let before = tables.slot_at(address, *incarnation, slot, number - 1)?;
        slots
            .entry((*address, *incarnation))
            .or_default()
            .push((*slot, before));
    }
    for ((address, incarnation), slots) in slots {
        // The storage of this incarnation as the block left it, which is the version being removed.
        let now = tables.account_at(&address, number)?;
        let root = now.account.map_or(EMPTY_ROOT, |account| account.storage_root);
        trie.set_slots(&*tables, (address, incarnation), root, slots)?;
    }
    let mut before = Vec::with_capacity(changes.accounts.len());
    for address in &changes.accounts {
        before.push((*address, tables.account_at(address, number - 1)?.account));
    }
    trie.set_accounts(&*tables, &before)?;
    let got = trie.root();
    if got != parent_root {
        return Err(StoreError::corrupt(
            store::TableId::BlockToChanges,
            &number.to_be_bytes(),
            format!("taking the block back leads to state root {got}, want {parent_root}"),
        ));
    }
    trie.commit(tables)?;
    tables.delete_versions(number, &changes)
}
