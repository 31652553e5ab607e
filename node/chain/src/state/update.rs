//! The state changes of an executed block: the rows to write, and the cached state that the next
//! block starts from. Also takes the changes of the head block back.
//!
//! This module knows accounts, slots and tries. It executes nothing.

use std::collections::BTreeMap;

use primitives::{Address, B256, EMPTY_ROOT, U256};
use revm::bytecode::Bytecode;
use revm::primitives::{AddressMap, B256Map};
use store::{
    AccountKey, AccountRecord, AccountVersion, AccountWrite, PastNode, StateChanges, StateReads, StateTrieId,
    StorageOwner, StoreError, TableId, Tables,
};

use super::TRIE_IS_HERE;
use super::account::CachedAccount;
use super::code::CodeCache;
use crate::trie::{LoadedTries, NodeSource, StateTrie, TrieStats};

/// If more accounts and slots than this are cached at a commit, the cache is emptied.
const CACHED_ENTRIES_MAX: usize = 200_000;
/// Memory of a cached account or slot, in bytes, roughly.
const ENTRY_BYTES: usize = 400;

/// The cached part of the state after a block: accounts, slots, code, trie nodes.
///
/// After [`HeadState::save`] the store has all of it too.
#[derive(Debug)]
pub struct HeadState {
    /// Each in a box, because a table has up to twice the room that its entries need.
    pub(super) accounts: AddressMap<Box<CachedAccount>>,
    pub(super) code: CodeCache,
    /// The tries; `None` while they are lent to the thread that computes roots.
    pub(super) trie: Option<StateTrie>,
    /// Upper bound of the number of cached accounts and slots. Slots that were forgotten since the
    /// cache was last emptied are counted too.
    pub(super) cached_entries: usize,
}

impl HeadState {
    /// An empty cache for the state with this root.
    pub fn new(root: B256) -> Self {
        Self {
            accounts: AddressMap::default(),
            code: CodeCache::default(),
            trie: Some(StateTrie::new(root)),
            cached_entries: 0,
        }
    }

    /// Writes the changed trie nodes and shrinks the cache to its bounds. Returns the trie's
    /// statistics since the last call.
    ///
    /// The accounts and slots of all blocks since the last call must be written before.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn save(&mut self, tables: &mut Tables<'_>) -> Result<TrieStats, StoreError> {
        let trie = self.trie.as_mut().expect(TRIE_IS_HERE);
        trie.write_to(tables)?;
        if self.cached_entries > CACHED_ENTRIES_MAX {
            self.accounts.clear();
            self.cached_entries = 0;
        }
        self.code.save();
        Ok(trie.take_stats())
    }

    /// Takes the tries out, so that another thread can compute roots. While they are away, the
    /// state is good for blocks that end with `BlockState::update_without_root`.
    pub(crate) const fn lend_trie(&mut self) -> Option<StateTrie> {
        self.trie.take()
    }

    /// Takes the tries back, which have the changes of all blocks.
    pub(crate) fn return_trie(&mut self, trie: StateTrie) {
        self.trie = Some(trie);
    }

    /// Takes the storage roots that were computed of an earlier block's changes.
    pub(crate) fn take_storage_roots(&mut self, changes: &[AccountWrite]) {
        for AccountWrite { address, version, .. } in changes.iter().filter(|change| !change.slots.is_empty())
        {
            if let Some(cached) = self.accounts.get_mut(address) {
                cached.take_storage_root(version);
            }
        }
    }

    /// Memory that the cache takes, in bytes, roughly: what was read and what was changed.
    pub(crate) const fn memory_bytes(&self) -> usize {
        let trie = match &self.trie {
            Some(trie) => trie.memory_bytes(),
            None => 0,
        };
        self.cached_entries * ENTRY_BYTES + self.code.bytes() + trie
    }

    fn keep_code(&mut self, new_code: &B256Map<Bytecode>) {
        for (hash, code) in new_code {
            self.code.keep_created(*hash, code.clone());
        }
    }
}

/// The state changes of a whole block, ready to be written.
#[derive(Debug)]
pub struct StateUpdate {
    /// The state root after the block.
    pub root: B256,
    changed: Vec<AccountWrite>,
    new_code: B256Map<Bytecode>,
    head: HeadState,
}

impl StateUpdate {
    /// Collects the changes of `touched`, the accounts that the block may have changed, in this
    /// order, and makes the block's values the base for the next block.
    pub(super) fn new(
        root: B256,
        mut head: HeadState,
        touched: &[Address],
        new_code: B256Map<Bytecode>,
    ) -> Self {
        let mut changed = Vec::with_capacity(touched.len());
        for address in touched {
            let Some(cached) = head.accounts.get_mut(address) else {
                continue;
            };
            let before = cached.before;
            let slots = cached.end_block();
            if cached.before != before {
                changed.push(AccountWrite {
                    address: *address,
                    key: cached.key,
                    version: cached.before,
                    slots,
                });
            }
        }
        head.keep_code(&new_code);
        Self {
            root,
            changed,
            new_code,
            head,
        }
    }

    /// Writes the accounts and slots after block `number`, what the block changed, and new code.
    /// Returns the state after the block, whose trie nodes are not saved yet.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub(crate) fn write_without_trie(
        self,
        tables: &mut Tables<'_>,
        number: u64,
    ) -> Result<HeadState, StoreError> {
        tables.put_state(number, &self.changed)?;
        put_codes(tables, &self.new_code)?;
        Ok(self.head)
    }

    /// Writes all state changes of block `number`, trie nodes included. Returns the state after the
    /// block.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn write(self, tables: &mut Tables<'_>, number: u64) -> Result<HeadState, StoreError> {
        let mut head = self.write_without_trie(tables, number)?;
        head.save(tables)?;
        Ok(head)
    }
}

/// The state changes of a whole block, without state root and storage roots.
#[derive(Debug)]
pub(crate) struct UpdateWithoutRoot {
    changes: Vec<AccountWrite>,
    new_code: B256Map<Bytecode>,
    head: HeadState,
}

impl UpdateWithoutRoot {
    /// Makes the block's values the base for the next block. `touched` are the accounts that the
    /// block may have changed, `changes` those that it has changed.
    pub(super) fn new(
        mut head: HeadState,
        touched: &[Address],
        changes: Vec<AccountWrite>,
        new_code: B256Map<Bytecode>,
    ) -> Self {
        for address in touched {
            if let Some(cached) = head.accounts.get_mut(address) {
                cached.end_block();
            }
        }
        for change in changes.iter().filter(|change| !change.slots.is_empty()) {
            if let Some(cached) = head.accounts.get_mut(&change.address) {
                cached.blocks_without_root += 1;
            }
        }
        head.keep_code(&new_code);
        Self {
            changes,
            new_code,
            head,
        }
    }

    /// Writes new code. Returns the state after the block, without its tries, and the changes, of
    /// which [`StateTrie::apply`] makes the root. They are written with [`Tables::put_state`]
    /// afterwards.
    pub(crate) fn write_code(
        self,
        tables: &mut Tables<'_>,
    ) -> Result<(HeadState, Vec<AccountWrite>), StoreError> {
        put_codes(tables, &self.new_code)?;
        Ok((self.head, self.changes))
    }
}

/// Writes the code that a block has created.
fn put_codes(tables: &mut Tables<'_>, codes: &B256Map<Bytecode>) -> Result<(), StoreError> {
    for (code_hash, code) in codes {
        tables.put_code(code_hash, code.original_byte_slice())?;
    }
    Ok(())
}

/// Takes the state changes of the head block `number` back: accounts, slots and trie nodes.
///
/// `root` is the block's state root, `parent_root` the one of its parent.
///
/// # Errors
/// [`StoreError`] when the store fails, or when the resulting state root is not `parent_root`,
/// which means that the store is damaged.
pub(crate) fn revert_block(
    tables: &mut Tables<'_>,
    number: u64,
    root: B256,
    parent_root: B256,
) -> Result<(), StoreError> {
    let changes = tables.changes(number)?;
    let mut trie = StateTrie::new(root);
    for (address, version) in &changes.accounts {
        revive_storage(tables, &mut trie, number, AccountKey::of(address), version)?;
    }
    let account = |key: &AccountKey| Ok(tables.account_by_key(key, number)?.account);
    take_back(&*tables, account, &mut trie, &changes)?;
    compare_root(&mut trie, number, parent_root)?;
    trie.write_to(tables)?;
    tables.revert_state(number, &changes)
}

/// The trie nodes that block `number` changed, as they were before it, sorted by path. `after` is
/// the state after the block, `changes` are the block's.
///
/// `root` is the block's state root, `parent_root` the one of its parent.
///
/// # Errors
/// [`StoreError`] when the store fails, or when the resulting state root is not `parent_root`,
/// which means that the store is damaged.
pub(crate) fn nodes_before_block(
    after: &LoadedTries<'_, impl StateReads>,
    number: u64,
    changes: &StateChanges,
    root: B256,
    parent_root: B256,
) -> Result<Vec<PastNode>, StoreError> {
    let mut trie = StateTrie::new(root);
    take_back(after, |key| after.account(key), &mut trie, changes)?;
    compare_root(&mut trie, number, parent_root)?;
    let mut before = Vec::new();
    for (path, node) in trie.take_rows() {
        // A node may have been made anew as it was.
        if after.node(&path)? != node {
            before.push((path, node));
        }
    }
    Ok(before)
}

/// Puts the values before a block into the tries of the state after it, whose nodes and leaves are
/// those of `nodes`. `account` returns an account of that state.
fn take_back(
    nodes: &impl NodeSource,
    account: impl Fn(&AccountKey) -> Result<Option<AccountRecord>, StoreError>,
    trie: &mut StateTrie,
    changes: &StateChanges,
) -> Result<(), StoreError> {
    let mut slots: BTreeMap<StorageOwner, Vec<(B256, U256)>> = BTreeMap::new();
    for change in &changes.slots {
        let key = change.row_key();
        slots
            .entry(key.owner)
            .or_default()
            .push((key.hash, change.before));
    }
    for (owner, slots) in slots {
        // The trie still has the storage root after this block.
        let now = account(&owner.account)?;
        let root = now.map_or(EMPTY_ROOT, |account| account.storage_root);
        trie.set_slots(nodes, owner, root, slots)?;
    }
    let accounts = changes.accounts.iter();
    let before: Vec<_> = accounts
        .map(|(address, version)| (AccountKey::of(address), version.account))
        .collect();
    trie.set_accounts(nodes, &before)
}

fn compare_root(trie: &mut StateTrie, number: u64, parent_root: B256) -> Result<(), StoreError> {
    let got = trie.root();
    if got == parent_root {
        return Ok(());
    }
    Err(StoreError::corrupt(
        TableId::BlockToChanges,
        &number.to_be_bytes(),
        format!("state root without the block: got {got}, expected {parent_root}"),
    ))
}

/// Makes sure that the trie has the storage of an account as it was before block `number`, if the
/// block has destroyed it: the trie nodes of destroyed storages are removed after a while.
fn revive_storage(
    tables: &mut Tables<'_>,
    trie: &mut StateTrie,
    number: u64,
    key: AccountKey,
    before: &AccountVersion,
) -> Result<(), StoreError> {
    let owner = key.storage(before.incarnation);
    let Some(root) = before
        .account
        .map(|account| account.storage_root)
        .filter(|root| *root != EMPTY_ROOT)
    else {
        return Ok(());
    };
    if tables.account_by_key(&key, number)?.incarnation == before.incarnation {
        return Ok(());
    }
    tables.revive_storage(&owner)?;
    let root_path = StateTrieId::Storage(owner).prefix();
    if tables.trie_node(&root_path)?.is_some() {
        return Ok(());
    }
    let mut slots = Vec::new();
    tables.walk_slots::<StoreError>(&owner, &B256::ZERO, number, |found| {
        slots.push((found.hash, found.value));
        Ok(())
    })?;
    trie.set_slots(&*tables, owner, EMPTY_ROOT, slots)?;
    trie.hash_storages();
    match trie.storage_root(owner) {
        Some(got) if got == root => Ok(()),
        got => Err(StoreError::corrupt(
            TableId::Account,
            key.0.as_slice(),
            format!(
                "storage root of incarnation {} from its slots: got {}, expected {root}",
                before.incarnation,
                got.unwrap_or(EMPTY_ROOT)
            ),
        )),
    }
}
