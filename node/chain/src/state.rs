//! The state a block's transactions run on: stored state at the parent, changes over it.
//!
//! [`BlockState`] reads through to the store, takes each transaction's changes, and gives
//! the block's state root and the versions to write. Knows accounts and slots; knows no
//! transactions.

use crate::handler::StorageProbe;
use crate::spec::GenesisAccount;
use crate::trie::{NodeSource, StateTrie};
use primitives::{Address, B256, EMPTY_CODE_HASH, EMPTY_ROOT, U256, keccak256};
use revm::bytecode::Bytecode;
use revm::database_interface::DBErrorMarker;
use revm::state::{Account, AccountInfo};
use revm::{Database, DatabaseCommit};
use std::collections::{BTreeMap, HashMap};
use store::{AccountRecord, AccountVersion, BlockReads, StateChanges, StateReads, StoreError, Tables};

/// A store failure on its way through the EVM.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct StateError(#[from] pub StoreError);

impl DBErrorMarker for StateError {}

/// An account as the block has it so far.
#[derive(Clone, Debug)]
struct Cached {
    /// Now, without a storage root; `None`: does not exist.
    now: Option<AccountInfo>,
    /// As the parent block left it.
    before: AccountVersion,
    /// Storage was emptied within the block.
    wiped: bool,
    /// Something was written to the account or its slots.
    changed: bool,
    /// Slot values now. Values before are in `original`.
    slots: HashMap<U256, U256>,
    /// Slots as the parent block left them, where read.
    original: HashMap<U256, U256>,
}

/// Changes over a parent block's state, kept for the pending block's readers.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    accounts: HashMap<Address, Cached>,
    code: HashMap<B256, Bytecode>,
}

impl Overlay {
    /// The account as the block leaves it; `None` where the block did not look at it.
    pub(crate) fn account(&self, address: &Address) -> Option<Option<&AccountInfo>> {
        self.accounts.get(address).map(|cached| cached.now.as_ref())
    }

    /// The slot as the block leaves it; `None` where that is as its parent left it.
    pub(crate) fn slot(&self, address: &Address, slot: &U256) -> Option<U256> {
        let cached = self.accounts.get(address)?;
        let emptied = cached.now.is_none() || cached.wiped;
        let written = cached.slots.get(slot).copied();
        written.or_else(|| emptied.then_some(U256::ZERO))
    }

    /// The slots of an account that the block wrote, and whether the rest of its storage is gone;
    /// `None` where the block did not look at the account.
    pub(crate) fn slots(&self, address: &Address) -> Option<(bool, &HashMap<U256, U256>)> {
        let cached = self.accounts.get(address)?;
        Some((cached.now.is_none() || cached.wiped, &cached.slots))
    }

    /// Code that the block's transactions made.
    pub(crate) fn code(&self, code_hash: &B256) -> Option<&Bytecode> {
        self.code.get(code_hash)
    }
}

/// State at a parent block with the changes of the block being executed.
#[derive(Debug)]
pub struct BlockState<'a, S> {
    source: &'a S,
    parent: u64,
    parent_root: B256,
    /// Whether touched empty accounts are removed (EIP-161).
    remove_empty: bool,
    accounts: HashMap<Address, Cached>,
    /// Code that was read.
    code: HashMap<B256, Bytecode>,
    /// Code that the block's transactions made.
    new_code: HashMap<B256, Bytecode>,
}

impl<'a, S: StateReads + BlockReads + NodeSource> BlockState<'a, S> {
    /// The state after block `parent`, whose state root is `parent_root`.
    ///
    /// `source` must have `parent` as its head for [`BlockState::root`] and
    /// [`BlockState::update`]; for reading, any block up to the head will do.
    pub fn new(source: &'a S, parent: u64, parent_root: B256) -> Self {
        Self {
            source,
            parent,
            parent_root,
            remove_empty: true,
            accounts: HashMap::new(),
            code: HashMap::new(),
            new_code: HashMap::new(),
        }
    }

    /// Sets whether touched empty accounts are removed; they are unless told otherwise.
    pub fn set_remove_empty(&mut self, remove: bool) {
        self.remove_empty = remove;
    }

    /// The changes, apart from the source they were read from.
    pub fn into_overlay(self) -> Overlay {
        Overlay {
            accounts: self.accounts,
            code: self.new_code,
        }
    }

    /// The state after block `parent` with changes that were made on it before.
    pub fn with_overlay(source: &'a S, parent: u64, parent_root: B256, overlay: Overlay) -> Self {
        let Overlay { accounts, code } = overlay;
        Self {
            accounts,
            new_code: code,
            ..Self::new(source, parent, parent_root)
        }
    }

    fn cached(&mut self, address: Address) -> Result<&mut Cached, StateError> {
        use std::collections::hash_map::Entry;
        match self.accounts.entry(address) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let before = self.source.account_at(&address, self.parent)?;
                let now = before.account.map(|account| AccountInfo {
                    balance: account.balance,
                    nonce: account.tx_nonce,
                    code_hash: account.code_hash,
                    code: None,
                    ..Default::default()
                });
                Ok(entry.insert(Cached {
                    now,
                    before,
                    wiped: false,
                    changed: false,
                    slots: HashMap::new(),
                    original: HashMap::new(),
                }))
            }
        }
    }

    /// Balance and nonce of an account as of now; zeros where it does not exist.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn balance_and_nonce(&mut self, address: Address) -> Result<(U256, u64), StateError> {
        let info = self.cached(address)?.now.as_ref();
        Ok(info.map_or((U256::ZERO, 0), |info| (info.balance, info.nonce)))
    }

    /// Counts a transaction of an account; makes the account where it does not exist.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn bump_nonce(&mut self, address: Address) -> Result<(), StateError> {
        let cached = self.cached(address)?;
        cached.now.get_or_insert_with(AccountInfo::default).nonce += 1;
        cached.changed = true;
        Ok(())
    }

    /// Empties a balance; nothing happens where the account does not exist.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn take_balance(&mut self, address: Address) -> Result<(), StateError> {
        let cached = self.cached(address)?;
        if let Some(info) = &mut cached.now {
            info.balance = U256::ZERO;
            cached.changed = true;
        }
        Ok(())
    }

    /// Adds to a balance; makes the account where it does not exist.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn add_balance(&mut self, address: Address, amount: U256) -> Result<(), StateError> {
        let remove_empty = self.remove_empty;
        let cached = self.cached(address)?;
        let info = cached.now.get_or_insert_with(AccountInfo::default);
        info.balance = info.balance.saturating_add(amount);
        cached.changed = true;
        if remove_empty && info.is_empty() {
            cached.wiped |= cached.before.account.is_some();
            cached.now = None;
        }
        Ok(())
    }

    /// Sets an account of block 0.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn set_account(&mut self, address: Address, account: &GenesisAccount) -> Result<(), StoreError> {
        let code_hash = keccak256(&account.code);
        let cached = self.cached(address).map_err(|error| error.0)?;
        let (balance, nonce) = (account.balance, account.tx_nonce);
        cached.now = Some(AccountInfo {
            balance,
            nonce,
            code_hash,
            code: None,
            ..Default::default()
        });
        cached.changed = true;
        cached.slots = account
            .storage
            .iter()
            .map(|(slot, value)| (*slot, *value))
            .collect();
        if !account.code.is_empty() {
            self.new_code
                .insert(code_hash, Bytecode::new_legacy(account.code.clone()));
        }
        Ok(())
    }

    /// The account's slots that differ from the parent block's, with their values.
    fn changed_slots(cached: &Cached) -> Vec<(&U256, &U256)> {
        let mut slots: Vec<_> = cached
            .slots
            .iter()
            .filter(|(slot, value)| {
                let before = if cached.wiped {
                    None
                } else {
                    cached.original.get(*slot)
                };
                before.copied().unwrap_or_default() != **value
            })
            .collect();
        slots.sort_unstable();
        slots
    }

    /// The accounts as the block leaves them, with storage roots, and the tries of that state.
    fn finish(&self) -> Result<(StateTrie, Vec<Finished<'_>>), StoreError> {
        let mut trie = StateTrie::new(self.parent_root);
        let mut finished = Vec::new();
        let mut addresses: Vec<_> = self
            .accounts
            .iter()
            .filter(|(_, cached)| cached.changed)
            .collect();
        addresses.sort_unstable_by_key(|(address, _)| **address);
        for (address, cached) in addresses {
            let incarnation = cached.before.incarnation + u32::from(cached.wiped);
            let slots = if cached.now.is_some() {
                Self::changed_slots(cached)
            } else {
                Vec::new()
            };
            let account = match &cached.now {
                None => None,
                Some(info) => {
                    let before = cached.before.account.filter(|_| !cached.wiped);
                    let root = before.map_or(EMPTY_ROOT, |account| account.storage_root);
                    let storage_root = if slots.is_empty() {
                        root
                    } else {
                        let owner = (*address, incarnation);
                        trie.set_slots(self.source, owner, root, slots.iter().copied())?
                    };
                    Some(AccountRecord {
                        tx_nonce: info.nonce,
                        balance: info.balance,
                        storage_root,
                        code_hash: info.code_hash,
                    })
                }
            };
            let version = AccountVersion { account, incarnation };
            if version != cached.before {
                trie.set_account(self.source, address, account.as_ref())?;
                finished.push(Finished {
                    address: *address,
                    version,
                    slots,
                });
            }
        }
        Ok((trie, finished))
    }

    /// The state root with all changes so far.
    ///
    /// # Errors
    /// [`StateError`] when the store fails or a trie node is damaged.
    pub fn root(&self) -> Result<B256, StateError> {
        Ok(self.finish()?.0.root())
    }

    /// What the block leaves behind, detached from the source it was read from.
    ///
    /// # Errors
    /// [`StateError`] when the store fails or a trie node is damaged.
    pub fn update(&self) -> Result<StateUpdate, StateError> {
        let (mut trie, finished) = self.finish()?;
        let root = trie.root();
        let versions = finished
            .into_iter()
            .map(
                |Finished {
                     address,
                     version,
                     slots,
                 }| {
                    (
                        address,
                        version,
                        slots.into_iter().map(|(slot, value)| (*slot, *value)).collect(),
                    )
                },
            )
            .collect();
        Ok(StateUpdate {
            root,
            trie,
            versions,
            new_code: self.new_code.clone(),
        })
    }
}

/// An account, what the block makes of it, and its changed slots with their values.
type ChangedAccount = (Address, AccountVersion, Vec<(U256, U256)>);

/// The changes of a whole block, ready to be written.
#[derive(Debug)]
pub struct StateUpdate {
    /// State root after the block.
    pub root: B256,
    trie: StateTrie,
    versions: Vec<ChangedAccount>,
    new_code: HashMap<B256, Bytecode>,
}

impl StateUpdate {
    /// Writes the versions of block `number`, its change list, new code and trie nodes.
    /// Returns the number of trie rows written.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn write(mut self, tables: &mut Tables<'_>, number: u64) -> Result<usize, StoreError> {
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
        self.trie.commit(tables)
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
    for ((address, incarnation), slots) in &slots {
        // The storage of this incarnation as the block left it, which is the version being removed.
        let now = tables.account_at(address, number)?;
        let root = now.account.map_or(EMPTY_ROOT, |account| account.storage_root);
        trie.set_slots(
            &*tables,
            (*address, *incarnation),
            root,
            slots.iter().map(|(s, v)| (s, v)),
        )?;
    }
    for address in &changes.accounts {
        let before = tables.account_at(address, number - 1)?;
        trie.set_account(&*tables, address, before.account.as_ref())?;
    }
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

struct Finished<'s> {
    address: Address,
    version: AccountVersion,
    slots: Vec<(&'s U256, &'s U256)>,
}

impl<S: StateReads + BlockReads + NodeSource> Database for BlockState<'_, S> {
    type Error = StateError;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        Ok(self.cached(address)?.now.clone())
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, StateError> {
        if code_hash == EMPTY_CODE_HASH {
            return Ok(Bytecode::default());
        }
        if let Some(code) = self
            .new_code
            .get(&code_hash)
            .or_else(|| self.code.get(&code_hash))
        {
            return Ok(code.clone());
        }
        // Not `new_raw`: here code that begins with 0xef01 is code like any other, no delegation.
        let code = Bytecode::new_legacy(self.source.code(&code_hash)?.into());
        self.code.insert(code_hash, code.clone());
        Ok(code)
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, StateError> {
        let (source, parent) = (self.source, self.parent);
        let cached = self.cached(address)?;
        if let Some(value) = cached.slots.get(&slot) {
            return Ok(*value);
        }
        if cached.wiped || cached.before.account.is_none() {
            return Ok(U256::ZERO);
        }
        if let Some(value) = cached.original.get(&slot) {
            return Ok(*value);
        }
        let value = source.slot_at(&address, cached.before.incarnation, &slot, parent)?;
        cached.original.insert(slot, value);
        Ok(value)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, StateError> {
        if number > self.parent {
            return Ok(B256::ZERO);
        }
        Ok(self.source.canonical_hash(number)?.unwrap_or_default())
    }
}

impl<S: StateReads + BlockReads + NodeSource> DatabaseCommit for BlockState<'_, S> {
    fn commit(&mut self, changes: revm::primitives::AddressMap<Account>) {
        for (address, account) in changes {
            if !account.is_touched() {
                continue;
            }
            let remove_empty = self.remove_empty;
            let Ok(cached) = self.cached(address) else {
                // The EVM read this account before it could change it, so it is cached.
                continue;
            };
            cached.changed = true;
            if account.is_selfdestructed() || (remove_empty && account.info.is_empty()) {
                cached.wiped |= cached.before.account.is_some();
                cached.now = None;
                cached.slots.clear();
                continue;
            }
            if account.is_created() {
                cached.wiped |= cached
                    .before
                    .account
                    .is_some_and(|old| old.storage_root != EMPTY_ROOT);
                cached.slots.clear();
            }
            for (slot, value) in account.storage {
                if value.is_changed() {
                    if !cached.wiped {
                        cached.original.entry(slot).or_insert(value.original_value);
                    }
                    cached.slots.insert(slot, value.present_value);
                }
            }
            let mut info = account.info;
            let code = info.code.take();
            let code_hash = info.code_hash;
            cached.now = Some(info);
            if let Some(code) = code.filter(|code| !code.is_empty()) {
                debug_assert_eq!(keccak256(code.original_byte_slice()), code_hash);
                if !self.code.contains_key(&code_hash) {
                    self.new_code.entry(code_hash).or_insert(code);
                }
            }
        }
    }
}

impl<S: StateReads + BlockReads + NodeSource> StorageProbe for &mut BlockState<'_, S> {
    fn has_storage(&mut self, address: Address) -> Result<bool, StateError> {
        let cached = self.cached(address)?;
        let before = cached.before.account.filter(|_| !cached.wiped);
        Ok(before.is_some_and(|account| account.storage_root != EMPTY_ROOT)
            || cached.slots.values().any(|value| !value.is_zero()))
    }
}
