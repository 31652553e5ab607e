//! The state a block's transactions run on: stored state at the parent, changes over it.
//!
//! [`BlockState`] reads through to the store, takes each transaction's changes, and gives
//! the block's state root and the versions to write. What it has read and made lives on in a
//! [`HeadState`], from which the next block goes on. Knows accounts and slots; knows no
//! transactions.

mod account;
pub mod flat;
mod update;

pub(crate) use update::revert_block;
pub use update::{HeadState, StateUpdate};

use std::collections::hash_map::Entry;

use primitives::{Address, B256, EMPTY_CODE_HASH, EMPTY_ROOT, U256, keccak256};
use revm::bytecode::Bytecode;
use revm::database_interface::DBErrorMarker;
use revm::primitives::{AddressMap, B256Map};
use revm::state::{Account, AccountInfo};
use revm::{Database, DatabaseCommit};
use store::{BlockReads, StateReads, StoreError};

use crate::spec::GenesisAccount;
use crate::trie::NodeSource;
use account::{Cached, Slot};

/// A store failure on its way through the EVM.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct StateError(#[from] pub StoreError);

impl DBErrorMarker for StateError {}

/// What the EVM must be able to ask of the state beside revm's own questions.
pub(crate) trait StorageProbe: Database<Error = StateError> {
    /// Whether any slot of the account is not zero.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    fn has_storage(&mut self, address: Address) -> Result<bool, StateError>;
}

/// Changes over a parent block's state, kept for the pending block's readers.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    accounts: AddressMap<Cached>,
    changed: Vec<Address>,
    code: B256Map<Bytecode>,
}

impl Overlay {
    /// The account as the block leaves it; `None` where the block did not look at it.
    pub(crate) fn account(&self, address: &Address) -> Option<Option<&AccountInfo>> {
        self.accounts.get(address).map(|cached| cached.now.as_ref())
    }

    /// The slot as the block leaves it; `None` where that is as its parent left it.
    pub(crate) fn slot(&self, address: &Address, slot: &U256) -> Option<U256> {
        let held = self.accounts.get(address)?.slots.get(slot).map(|slot| slot.now);
        held.or_else(|| self.is_emptied(address).then_some(U256::ZERO))
    }

    /// The slots of the account that the block read or wrote, as it leaves them.
    pub(crate) fn slots(&self, address: &Address) -> impl Iterator<Item = (U256, U256)> {
        let cached = self.accounts.get(address).into_iter();
        cached.flat_map(|cached| cached.slots.iter().map(|(slot, held)| (*slot, held.now)))
    }

    /// Whether nothing is left of the storage that the account had at the parent.
    pub(crate) fn is_emptied(&self, address: &Address) -> bool {
        let cached = self.accounts.get(address);
        cached.is_some_and(|cached| cached.now.is_none() || cached.wiped)
    }

    /// Code that the block's transactions made.
    pub(crate) fn code(&self, code_hash: &B256) -> Option<&Bytecode> {
        self.code.get(code_hash)
    }
}

/// What a state has had to ask its source for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// Accounts, slots, codes and block hashes.
    pub(crate) rows: u32,
    /// Bytes of code, each of which was hashed and looked through.
    pub(crate) code_bytes: usize,
}

/// State at a parent block with the changes of the block being executed.
#[derive(Debug)]
pub struct BlockState<'a, S> {
    source: &'a S,
    parent: u64,
    /// Whether touched empty accounts are removed (EIP-161).
    remove_empty: bool,
    /// What is held in memory: the state after the parent, with the block's changes.
    head: HeadState,
    /// Code that the block's transactions made.
    new_code: B256Map<Bytecode>,
    /// Accounts that changed since the root was last computed.
    unrooted: Vec<Address>,
    /// Accounts that changed in the block before that.
    rooted: Vec<Address>,
    /// Storages of which the trie has to take the block's changes back before its next root.
    undone: Vec<Undone>,
    reads: Reads,
}

/// Whose storage, its root as the trie has it, and slots with the values to go back to.
type Undone = ((Address, u32), B256, Vec<(U256, U256)>);

impl<'a, S: StateReads + BlockReads + NodeSource> BlockState<'a, S> {
    /// The state after block `parent`, whose state root is `parent_root`.
    ///
    /// `source` must have `parent` as its head for [`BlockState::root`] and
    /// [`BlockState::update`]; for reading, any block up to the head will do.
    pub fn new(source: &'a S, parent: u64, parent_root: B256) -> Self {
        Self::over(source, parent, HeadState::new(parent_root))
    }

    /// The state after block `parent`, going on from what `head` holds of it. What `head` holds
    /// need not be in `source`.
    pub fn over(source: &'a S, parent: u64, head: HeadState) -> Self {
        Self {
            source,
            parent,
            remove_empty: true,
            head,
            new_code: B256Map::default(),
            unrooted: Vec::new(),
            rooted: Vec::new(),
            undone: Vec::new(),
            reads: Reads::default(),
        }
    }

    /// What was not in memory so far.
    pub(crate) fn reads(&self) -> Reads {
        self.reads
    }

    /// Sets whether touched empty accounts are removed; they are unless told otherwise.
    pub fn set_remove_empty(&mut self, remove: bool) {
        self.remove_empty = remove;
    }

    /// The changes, apart from the source they were read from.
    pub fn into_overlay(self) -> Overlay {
        Overlay {
            accounts: self.head.accounts,
            changed: [self.rooted, self.unrooted].concat(),
            code: self.new_code,
        }
    }

    /// The state after block `parent` with changes that were made on it before.
    pub fn with_overlay(source: &'a S, parent: u64, parent_root: B256, overlay: Overlay) -> Self {
        let mut state = Self::new(source, parent, parent_root);
        state.head.accounts = overlay.accounts;
        state.new_code = overlay.code;
        // The trie is the parent's: it has none of the changes.
        for address in overlay.changed {
            if let Some(cached) = state.head.accounts.get_mut(&address) {
                cached.unroot();
                state.mark(address);
            }
        }
        state
    }

    fn cached(&mut self, address: Address) -> Result<&mut Cached, StateError> {
        match self.head.accounts.entry(address) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let before = self.source.account_at(&address, self.parent)?;
                self.head.held += 1;
                self.reads.rows += 1;
                Ok(entry.insert(Cached::new(before)))
            }
        }
    }

    /// The account, which is going to be changed.
    fn changing(&mut self, address: Address) -> Result<&mut Cached, StateError> {
        self.cached(address)?;
        Ok(self.mark(address).expect("it was just read"))
    }

    /// Notes that an account changes, where it is held.
    fn mark(&mut self, address: Address) -> Option<&mut Cached> {
        let cached = self.head.accounts.get_mut(&address)?;
        if !cached.unrooted {
            cached.unrooted = true;
            self.unrooted.push(address);
        }
        Some(cached)
    }

    /// Removes an account that is held, and its storage with it.
    fn destroy(&mut self, address: Address) {
        if let Some(cached) = self.mark(address) {
            cached.now = None;
            let existed = cached.before.account.is_some();
            self.empty_storage(address, existed);
        }
    }

    /// Begins a held account's storage anew; as another incarnation's where `leaves` says that
    /// the parent block left one behind.
    fn empty_storage(&mut self, address: Address, leaves: bool) {
        let Some(cached) = self.head.accounts.get_mut(&address) else {
            return;
        };
        if cached.wiped || cached.before.account.is_none() {
            // This incarnation is of this block alone, and no store has seen it.
            self.head.trie.forget_storage((address, cached.incarnation()));
        } else {
            let before = cached.rooted_changes();
            if !before.is_empty() {
                let owner = (address, cached.incarnation());
                self.undone.push((owner, cached.storage_root, before));
            }
            cached.wiped = leaves;
        }
        cached.empty_storage();
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
        let cached = self.changing(address)?;
        cached.now.get_or_insert_with(AccountInfo::default).nonce += 1;
        Ok(())
    }

    /// Empties a balance; nothing happens where the account does not exist.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn take_balance(&mut self, address: Address) -> Result<(), StateError> {
        if let Some(info) = &mut self.changing(address)?.now {
            info.balance = U256::ZERO;
        }
        Ok(())
    }

    /// Adds to a balance; makes the account where it does not exist.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn add_balance(&mut self, address: Address, amount: U256) -> Result<(), StateError> {
        let remove_empty = self.remove_empty;
        let cached = self.changing(address)?;
        let info = cached.now.get_or_insert_with(AccountInfo::default);
        info.balance = info.balance.saturating_add(amount);
        if remove_empty && info.is_empty() {
            self.destroy(address);
        }
        Ok(())
    }

    /// Sets an account of block 0.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn set_account(&mut self, address: Address, account: &GenesisAccount) -> Result<(), StoreError> {
        let code_hash = keccak256(&account.code);
        let cached = self.changing(address).map_err(|error| error.0)?;
        cached.now = Some(AccountInfo {
            balance: account.balance,
            nonce: account.tx_nonce,
            code_hash,
            code: None,
            ..Default::default()
        });
        let slots = account.storage.iter();
        let more: usize = slots
            .map(|(slot, value)| cached.write(*slot, U256::ZERO, *value))
            .sum();
        self.head.held += more;
        if !account.code.is_empty() {
            self.new_code
                .insert(code_hash, Bytecode::new_legacy(account.code.clone()));
        }
        Ok(())
    }

    /// The state root with all changes so far. Costs what changed since it was last asked for.
    ///
    /// # Errors
    /// [`StateError`] when the store fails or a trie node is damaged.
    pub fn root(&mut self) -> Result<B256, StateError> {
        let mut addresses = std::mem::take(&mut self.unrooted);
        addresses.sort_unstable();
        let HeadState { accounts, trie, .. } = &mut self.head;
        for (owner, root, slots) in self.undone.drain(..) {
            trie.set_slots(self.source, owner, root, slots)?;
        }
        for address in &addresses {
            let Some(cached) = accounts.get_mut(address) else {
                continue;
            };
            let slots = cached.take_unrooted();
            if !slots.is_empty() {
                let owner = (*address, cached.incarnation());
                trie.set_slots(self.source, owner, cached.storage_root, slots)?;
            }
        }
        trie.seal_storages();
        let mut versions = Vec::with_capacity(addresses.len());
        for address in addresses {
            let Some(cached) = accounts.get_mut(&address) else {
                continue;
            };
            if let Some(root) = trie.storage_root((address, cached.incarnation())) {
                cached.storage_root = root;
            }
            let version = cached.version();
            if cached.rooted || version != cached.before {
                versions.push((address, version.account));
            }
            cached.unrooted = false;
            if !cached.rooted {
                cached.rooted = true;
                self.rooted.push(address);
            }
        }
        trie.set_accounts(self.source, &versions)?;
        Ok(trie.root())
    }

    /// Ends the block: what it leaves behind, detached from the source it was read from.
    ///
    /// # Errors
    /// [`StateError`] when the store fails or a trie node is damaged.
    pub fn update(mut self) -> Result<StateUpdate, StateError> {
        let root = self.root()?;
        self.rooted.sort_unstable();
        Ok(StateUpdate::of(root, self.head, &self.rooted, self.new_code))
    }
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
        let held = self.new_code.get(&code_hash);
        if let Some(code) = held.or_else(|| self.head.code.get(&code_hash)) {
            return Ok(code.clone());
        }
        // Not `new_raw`: here code that begins with 0xef01 is code like any other, no delegation.
        let code = self.source.code(&code_hash)?;
        self.reads.rows += 1;
        self.reads.code_bytes += code.len();
        let code = Bytecode::new_legacy(code.into());
        self.head.code.insert(code_hash, code.clone());
        Ok(code)
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, StateError> {
        let (source, parent) = (self.source, self.parent);
        let cached = self.cached(address)?;
        if let Some(slot) = cached.slots.get(&slot) {
            return Ok(slot.now);
        }
        if cached.wiped || cached.before.account.is_none() {
            return Ok(U256::ZERO);
        }
        let value = source.slot_at(&address, cached.before.incarnation, &slot, parent)?;
        cached.slots.insert(slot, Slot::unchanged(value));
        self.head.held += 1;
        self.reads.rows += 1;
        Ok(value)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, StateError> {
        if number > self.parent {
            return Ok(B256::ZERO);
        }
        self.reads.rows += 1;
        Ok(self.source.canonical_hash(number)?.unwrap_or_default())
    }
}

impl<S: StateReads + BlockReads + NodeSource> DatabaseCommit for BlockState<'_, S> {
    fn commit(&mut self, changes: revm::primitives::AddressMap<Account>) {
        for (address, account) in changes {
            if !account.is_touched() {
                continue;
            }
            if account.is_selfdestructed() || (self.remove_empty && account.info.is_empty()) {
                self.destroy(address);
                continue;
            }
            if account.is_created() {
                let held = self.head.accounts.get(&address);
                let found = held.and_then(|cached| cached.before.account);
                let leaves = found.is_some_and(|old| old.storage_root != EMPTY_ROOT);
                self.empty_storage(address, leaves);
            }
            let Some(cached) = self.mark(address) else {
                // The EVM read this account before it could change it, so it is held.
                continue;
            };
            let mut more = 0;
            for (slot, value) in account.storage {
                if value.is_changed() {
                    more += cached.write(slot, value.original_value, value.present_value);
                }
            }
            let mut info = account.info;
            let code = info.code.take();
            let code_hash = info.code_hash;
            cached.now = Some(info);
            if let Some(code) = code.filter(|code| !code.is_empty()) {
                debug_assert_eq!(keccak256(code.original_byte_slice()), code_hash);
                if !self.head.code.contains_key(&code_hash) {
                    self.new_code.entry(code_hash).or_insert(code);
                }
            }
            self.head.held += more;
        }
    }
}

impl<S: StateReads + BlockReads + NodeSource> StorageProbe for &mut BlockState<'_, S> {
    fn has_storage(&mut self, address: Address) -> Result<bool, StateError> {
        let cached = self.cached(address)?;
        let before = cached.before.account.filter(|_| !cached.wiped);
        Ok(before.is_some_and(|account| account.storage_root != EMPTY_ROOT)
            || cached.slots.values().any(|slot| !slot.now.is_zero()))
    }
}
