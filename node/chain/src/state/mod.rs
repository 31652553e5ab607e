//! The state that a block's transactions run on: the stored state of the parent with the block's
//! changes over it.
//!
//! [`BlockState`] reads accounts from the store when they are first needed, collects the changes
//! of each transaction, and computes the block's state root and the versions to write. What it
//! has read and changed stays in memory as [`HeadState`], so the next block starts with a warm
//! cache. This module knows accounts and slots, but no transactions.

mod account;
mod code;
mod overrides;
pub mod scan;
mod update;

pub use overrides::{AccountOverride, StorageOverride};
pub(crate) use update::UpdateWithoutRoot;
pub use update::{HeadState, StateUpdate};
pub(crate) use update::{nodes_before_block, revert_block};

use std::collections::hash_map::Entry;

use primitives::{Address, B256, EMPTY_CODE_HASH, EMPTY_ROOT, U256, keccak256};
use revm::bytecode::Bytecode;
use revm::database_interface::DBErrorMarker;
use revm::primitives::{AddressMap, B256Map};
use revm::state::{Account, AccountInfo};
use revm::{Database, DatabaseCommit};
use store::{
    AccountKey, AccountRecord, AccountWrite, BlockReads, NO_STATE, Snapshot, Source, StateReads,
    StorageOwner, StoreError, slot_hash,
};

use crate::spec::GenesisAccount;
use crate::trie::ShareableNodes;
use account::{CachedAccount, CachedSlot};
use overrides::GivenAncestors;

/// The reason why the tries are there when a root is computed.
const TRIE_IS_HERE: &str = "tries are lent only for blocks that end without a root";

/// A store failure that passes through the EVM.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct StateError(#[from] pub StoreError);

impl DBErrorMarker for StateError {}

/// A state that is too old: the store keeps recent states only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct StateNotKept {
    /// Number of the block.
    pub got: u64,
    /// The oldest block whose state is kept.
    pub expected: u64,
}

impl StateNotKept {
    fn text(&self) -> String {
        let Self { got, expected } = self;
        if *expected == NO_STATE {
            return format!(
                "state of block {got} is not here: got a node that is still fetching a state from peers, \
                 expected one that has done so (--syncmode snap)"
            );
        }
        format!(
            "state of block {got} is not kept: got block {got}, expected block {expected} or later \
             (--state recent, --syncmode snap)"
        )
    }
}

/// The questions that this chain's EVM asks of the state in addition to revm's [`Database`].
pub(crate) trait StorageProbe: Database<Error = StateError> {
    /// Whether any storage slot of the account is not zero.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    fn has_storage(&mut self, address: Address) -> Result<bool, StateError>;
}

/// The changes of a block, without the state of its parent. Readers of the pending block use it.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    accounts: AddressMap<Box<CachedAccount>>,
    changed: Vec<Address>,
    code: B256Map<Bytecode>,
}

impl Overlay {
    /// The account after the block. `None` if the block did not read or change the account;
    /// `Some(None)` if the account does not exist.
    pub(crate) fn account(&self, address: &Address) -> Option<Option<&AccountInfo>> {
        self.accounts.get(address).map(|cached| cached.now.as_ref())
    }

    /// The slot after the block. `None` if the block did not read or change the slot.
    pub(crate) fn slot(&self, address: &Address, slot: &U256) -> Option<U256> {
        let cached = self.accounts.get(address)?.slot(slot).map(|slot| slot.now);
        cached.or_else(|| self.is_emptied(address).then_some(U256::ZERO))
    }

    /// The slots of the account that the block read or wrote, with their values after the block.
    pub(crate) fn slots(&self, address: &Address) -> impl Iterator<Item = (U256, U256)> {
        let cached = self.accounts.get(address).into_iter();
        cached.flat_map(|cached| cached.slots().map(|(key, slot)| (*key, slot.now)))
    }

    /// Whether the block removed all of the storage that the account had at the parent block.
    pub(crate) fn is_emptied(&self, address: &Address) -> bool {
        let cached = self.accounts.get(address);
        cached.is_some_and(|cached| cached.now.is_none() || cached.wiped)
    }

    /// Contract code that the block's transactions created.
    pub(crate) fn code(&self, code_hash: &B256) -> Option<&Bytecode> {
        self.code.get(code_hash)
    }
}

/// The number of reads from the source because memory did not have the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceReads {
    /// Accounts, slots, codes and block hashes that were read.
    pub(crate) rows: u32,
    /// Bytes of contract code that were read. revm hashes and analyses every byte.
    pub(crate) code_bytes: usize,
}

/// The state at a parent block with the changes of the block being executed.
pub struct BlockState<'a> {
    source: &'a dyn Source,
    parent: u64,
    /// Whether touched empty accounts are removed (EIP-161).
    remove_empty: bool,
    /// The cached part of the parent's state, with the block's changes.
    head: HeadState,
    /// Contract code that the block's transactions created.
    new_code: B256Map<Bytecode>,
    /// Accounts that changed after the root was last computed.
    unrooted: Vec<Address>,
    /// Accounts that changed in this block before the root was last computed.
    rooted: Vec<Address>,
    /// Storages that the trie must set back to the parent's values before its next root.
    storage_undos: Vec<StorageUndo>,
    reads: SourceReads,
    /// The snapshot that trie nodes are read from, if it is one.
    shared_nodes: Option<&'a Snapshot>,
    /// Hashes of blocks in place of those of the source.
    ancestors: Option<GivenAncestors>,
}

/// A storage whose changes the trie has, but which the block has removed since.
#[derive(Debug)]
struct StorageUndo {
    owner: StorageOwner,
    /// The storage root that the trie has now.
    root: B256,
    /// The hashes of the changed slots with their values at the parent block.
    slots: Vec<(B256, U256)>,
}

impl<'a> BlockState<'a> {
    /// The state after block `parent`, whose state root is `parent_root`.
    ///
    /// [`BlockState::root`] and [`BlockState::update`] need a `source` whose head is `parent`.
    /// For reading, `parent` may be any block up to the head.
    pub fn new(source: &'a dyn Source, parent: u64, parent_root: B256) -> Self {
        Self::over(source, parent, HeadState::new(parent_root))
    }

    /// The state after block `parent`, of which `head` has a part in memory. The rows of that part
    /// need not be in `source` yet.
    pub fn over(source: &'a dyn Source, parent: u64, head: HeadState) -> Self {
        Self {
            source,
            parent,
            remove_empty: true,
            head,
            new_code: B256Map::default(),
            unrooted: Vec::new(),
            rooted: Vec::new(),
            storage_undos: Vec::new(),
            reads: SourceReads::default(),
            shared_nodes: None,
            ancestors: None,
        }
    }

    /// The source of the values that are not in memory.
    pub(crate) const fn source(&self) -> &'a dyn Source {
        self.source
    }

    /// Says that the trie nodes of the source are those of a snapshot. Then several threads may
    /// compute the root.
    pub(crate) const fn set_shared_nodes(&mut self, snapshot: Option<&'a Snapshot>) {
        self.shared_nodes = snapshot;
    }

    /// The number of reads from the source so far.
    pub(crate) const fn source_reads(&self) -> SourceReads {
        self.reads
    }

    /// Whether touched empty accounts are removed (EIP-161).
    pub(crate) const fn removes_empty(&self) -> bool {
        self.remove_empty
    }

    /// Sets whether touched empty accounts are removed (EIP-161). The default is `true`.
    pub(crate) const fn set_remove_empty(&mut self, remove: bool) {
        self.remove_empty = remove;
    }

    /// The changes alone, without the source.
    pub(crate) fn into_overlay(self) -> Overlay {
        Overlay {
            accounts: self.head.accounts,
            changed: [self.rooted, self.unrooted].concat(),
            code: self.new_code,
        }
    }

    /// The state after block `parent` with the changes in `overlay`, which were made on it before.
    pub(crate) fn with_overlay(
        source: &'a dyn Source,
        parent: u64,
        parent_root: B256,
        overlay: Overlay,
    ) -> Self {
        let mut state = Self::new(source, parent, parent_root);
        state.head.accounts = overlay.accounts;
        state.new_code = overlay.code;
        // The trie is the one of the parent, so it has none of these changes.
        for address in overlay.changed {
            if let Some(cached) = state.head.accounts.get_mut(&address) {
                cached.unroot();
                state.mark(address);
            }
        }
        state
    }

    fn cached(&mut self, address: Address) -> Result<&mut CachedAccount, StateError> {
        match self.head.accounts.entry(address) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let key = AccountKey::of(&address);
                let before = self.source.account_by_key(&key, self.parent)?;
                self.head.cached_entries += 1;
                self.reads.rows += 1;
                Ok(entry.insert(Box::new(CachedAccount::new(key, before))))
            }
        }
    }

    /// The account, marked as changed.
    fn changing(&mut self, address: Address) -> Result<&mut CachedAccount, StateError> {
        self.cached(address)?;
        Ok(self
            .mark(address)
            .expect("`cached` put the account into the cache"))
    }

    /// Marks an account as changed. Returns `None` if the account is not cached.
    fn mark(&mut self, address: Address) -> Option<&mut CachedAccount> {
        let cached = self.head.accounts.get_mut(&address)?;
        if !cached.unrooted {
            cached.unrooted = true;
            self.unrooted.push(address);
        }
        Some(cached)
    }

    /// Removes a cached account and its storage.
    fn destroy(&mut self, address: Address) {
        if let Some(cached) = self.mark(address) {
            cached.now = None;
            let existed = cached.before.account.is_some();
            self.empty_storage(address, existed);
        }
    }

    /// Empties the storage of a cached account. `had_storage` says that the parent block has rows
    /// of that storage: then the account continues with a new incarnation.
    fn empty_storage(&mut self, address: Address, had_storage: bool) {
        let Some(cached) = self.head.accounts.get_mut(&address) else {
            return;
        };
        if cached.wiped || cached.before.account.is_none() {
            // The incarnation began in this block, so no store has rows of it. So a trie that is
            // lent has none either: in this block it is not asked for a root.
            if let Some(trie) = &mut self.head.trie {
                trie.forget_storage(cached.storage());
            }
        } else {
            let slots = cached.rooted_changes();
            if !slots.is_empty() {
                self.storage_undos.push(StorageUndo {
                    owner: cached.storage(),
                    root: cached.storage_root,
                    slots,
                });
            }
            cached.wiped = had_storage;
        }
        cached.empty_storage();
    }

    /// The current balance and nonce of an account; zeros if the account does not exist.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn balance_and_nonce(&mut self, address: Address) -> Result<(U256, u64), StateError> {
        let info = self.cached(address)?.now.as_ref();
        Ok(info.map_or((U256::ZERO, 0), |info| (info.balance, info.nonce)))
    }

    /// Adds 1 to an account's nonce. Creates the account if it does not exist.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub(crate) fn bump_nonce(&mut self, address: Address) -> Result<(), StateError> {
        let cached = self.changing(address)?;
        cached.now.get_or_insert_with(AccountInfo::default).nonce += 1;
        Ok(())
    }

    /// Sets a balance to 0. Does nothing if the account does not exist.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub(crate) fn take_balance(&mut self, address: Address) -> Result<(), StateError> {
        if let Some(info) = &mut self.changing(address)?.now {
            info.balance = U256::ZERO;
        }
        Ok(())
    }

    /// Adds `amount` to a balance. Creates the account if it does not exist.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub(crate) fn add_balance(&mut self, address: Address, amount: U256) -> Result<(), StateError> {
        let remove_empty = self.remove_empty;
        let cached = self.changing(address)?;
        let info = cached.now.get_or_insert_with(AccountInfo::default);
        info.balance = info.balance.saturating_add(amount);
        if remove_empty && info.is_empty() {
            self.destroy(address);
        }
        Ok(())
    }

    /// Sets a slot of an account that exists.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub(crate) fn set_slot(&mut self, address: Address, slot: U256, value: U256) -> Result<(), StateError> {
        let before = self.storage(address, slot)?;
        if before != value {
            let added = self.changing(address)?.write(slot, before, value);
            self.head.cached_entries += added;
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
        let added: usize = slots
            .map(|(slot, value)| cached.write(*slot, U256::ZERO, *value))
            .sum();
        self.head.cached_entries += added;
        if !account.code.is_empty() {
            self.new_code
                .insert(code_hash, Bytecode::new_legacy(account.code.clone()));
        }
        Ok(())
    }

    /// The state root with all changes so far. The cost follows the number of changes since the
    /// last call.
    ///
    /// # Errors
    /// [`StateError`] when the store fails or a trie node is damaged.
    pub fn root(&mut self) -> Result<B256, StateError> {
        let mut changes = self.take_changes();
        let nodes = ShareableNodes {
            source: &self.source,
            snapshot: self.shared_nodes,
        };
        let HeadState { accounts, trie, .. } = &mut self.head;
        let trie = trie.as_mut().expect(TRIE_IS_HERE);
        for undo in self.storage_undos.drain(..) {
            trie.set_slots(&nodes, undo.owner, undo.root, undo.slots)?;
        }
        let root = trie.apply(&nodes, &mut changes)?;
        for AccountWrite { address, version, .. } in &changes {
            if let (Some(cached), Some(account)) = (accounts.get_mut(address), version.account) {
                cached.storage_root = account.storage_root;
            }
        }
        Ok(root)
    }

    /// Takes the changes since the state root was last computed, in the order of the addresses,
    /// with the storage roots of then.
    fn take_changes(&mut self) -> Vec<AccountWrite> {
        let mut addresses = std::mem::take(&mut self.unrooted);
        addresses.sort_unstable();
        let mut changes = Vec::with_capacity(addresses.len());
        for address in addresses {
            let Some(cached) = self.head.accounts.get_mut(&address) else {
                continue;
            };
            let slots = cached.take_unrooted();
            let version = cached.version();
            if cached.rooted || !slots.is_empty() || version != cached.before {
                changes.push(AccountWrite {
                    address,
                    key: cached.key,
                    version,
                    slots,
                });
            }
            cached.unrooted = false;
            if !cached.rooted {
                cached.rooted = true;
                self.rooted.push(address);
            }
        }
        changes
    }

    /// Ends the block. Returns its changes, which no longer borrow the source.
    ///
    /// # Errors
    /// [`StateError`] when the store fails or a trie node is damaged.
    pub fn update(mut self) -> Result<StateUpdate, StateError> {
        let root = self.root()?;
        self.rooted.sort_unstable();
        Ok(StateUpdate::new(root, self.head, &self.rooted, self.new_code))
    }

    /// Whether the tries are elsewhere. Then the block ends with [`Self::update_without_root`], and
    /// [`Self::root`] must not be called.
    pub(crate) const fn trie_is_lent(&self) -> bool {
        self.head.trie.is_none()
    }

    /// Ends the block, whose state root has not been asked for. Returns its changes, of which the
    /// owner of the tries computes the root.
    pub(crate) fn update_without_root(mut self) -> UpdateWithoutRoot {
        debug_assert!(self.rooted.is_empty() && self.storage_undos.is_empty());
        let changes = self.take_changes();
        UpdateWithoutRoot::new(self.head, &self.rooted, changes, self.new_code)
    }
}

impl Database for BlockState<'_> {
    type Error = StateError;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        Ok(self.cached(address)?.now.clone())
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, StateError> {
        if code_hash == EMPTY_CODE_HASH {
            return Ok(Bytecode::default());
        }
        let new_code = self.new_code.get(&code_hash);
        if let Some(code) = new_code.or_else(|| self.head.code.get(&code_hash)) {
            return Ok(code.clone());
        }
        // `new_raw` would read code that begins with 0xef01 as a delegation (EIP-7702), which
        // these chains do not have.
        let code = self.source.code(&code_hash)?;
        self.reads.rows += 1;
        self.reads.code_bytes += code.len();
        let code = Bytecode::new_legacy(code.into());
        self.head.code.keep_read(code_hash, code.clone());
        Ok(code)
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, StateError> {
        let (source, parent) = (self.source, self.parent);
        let cached = self.cached(address)?;
        if let Some(slot) = cached.slot(&slot) {
            return Ok(slot.now);
        }
        if cached.wiped || cached.before.account.is_none() {
            return Ok(U256::ZERO);
        }
        let key = cached
            .key
            .storage(cached.before.incarnation)
            .slot(slot_hash(&slot));
        let value = source.slot_by_key(&address, &key, parent)?;
        cached.keep_read(slot, CachedSlot::read(key.hash, value));
        self.head.cached_entries += 1;
        self.reads.rows += 1;
        Ok(value)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, StateError> {
        if let Some(ancestors) = &mut self.ancestors {
            return Ok(ancestors.hash(number));
        }
        if number > self.parent {
            return Ok(B256::ZERO);
        }
        self.reads.rows += 1;
        Ok(self.source.canonical_hash(number)?.unwrap_or_default())
    }
}

impl DatabaseCommit for BlockState<'_> {
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
                let cached = self.head.accounts.get(&address);
                let had_storage = cached.is_some_and(|cached| {
                    let before = cached.before.account;
                    let had_root = |account: AccountRecord| account.storage_root != EMPTY_ROOT;
                    before.is_some_and(had_root) || cached.blocks_without_root > 0
                });
                self.empty_storage(address, had_storage);
            }
            let Some(cached) = self.mark(address) else {
                // Never happens: the EVM reads an account before it changes the account, and
                // reading puts the account into the cache.
                continue;
            };
            let mut added = 0;
            for (slot, value) in account.storage {
                if value.is_changed() {
                    added += cached.write(slot, value.original_value, value.present_value);
                }
            }
            let mut info = account.info;
            let code = info.code.take();
            let code_hash = info.code_hash;
            cached.now = Some(info);
            if let Some(code) = code.filter(|code| !code.is_empty()) {
                debug_assert_eq!(keccak256(code.original_byte_slice()), code_hash);
                if self.head.code.get(&code_hash).is_none() {
                    self.new_code.entry(code_hash).or_insert(code);
                }
            }
            self.head.cached_entries += added;
        }
    }
}

impl StorageProbe for &mut BlockState<'_> {
    fn has_storage(&mut self, address: Address) -> Result<bool, StateError> {
        let (source, parent) = (self.source, self.parent);
        let cached = self.cached(address)?;
        if cached.slots().any(|(_, slot)| !slot.now.is_zero()) {
            return Ok(true);
        }
        let Some(before) = cached.before.account.filter(|_| !cached.wiped) else {
            return Ok(false);
        };
        if cached.blocks_without_root == 0 {
            return Ok(before.storage_root != EMPTY_ROOT);
        }
        // The root is not known yet. All slots that changed are cached, by their numbers. A stored
        // slot whose number is not known was not changed here.
        let owner = cached.key.storage(cached.before.incarnation);
        let found = source.walk_slots::<Option<StoreError>>(&owner, &B256::ZERO, parent, |found| {
            let is_cached = found.slot.is_some_and(|slot| cached.slot(&slot).is_some());
            is_cached.then_some(()).ok_or(None)
        });
        match found {
            Ok(()) => Ok(false),
            Err(None) => Ok(true),
            Err(Some(error)) => Err(error.into()),
        }
    }
}
