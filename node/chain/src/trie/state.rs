//! The state trie: accounts under the hashes of their addresses, each with a storage trie.
//!
//! The storage trie of each incarnation of an account has rows of its own. So when a contract is
//! destroyed, no trie nodes need to be deleted.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;

use alloy_rlp::Encodable;
use primitives::{B256, EMPTY_ROOT, U256};
use store::{AccountKey, AccountRecord, AccountWrite, StateTrieId, StorageOwner, StoreError, Tables};

use super::{NodeRows, NodeSource, Trie, TrieStats, references};

/// If the nodes in memory have more bytes than this at a commit, they are dropped.
const NODE_BYTES_MAX: usize = 64 << 20;

/// The account trie and the storage tries that changed since nodes were last dropped.
#[derive(Debug)]
pub struct StateTrie {
    accounts: Trie,
    storages: HashMap<StorageOwner, Trie>,
    /// Storage tries that changed after their roots were last computed.
    unhashed: BTreeSet<StorageOwner>,
    /// Storage tries that changed after they were last saved.
    unsaved: BTreeSet<StorageOwner>,
    /// Memory of the nodes, in bytes, roughly. Nodes that were removed since nodes were last
    /// dropped are counted too.
    loaded_bytes: usize,
    stats: TrieStats,
}

impl StateTrie {
    /// The trie of the state with this root. Nodes come from the source given to each change.
    pub fn new(root: B256) -> Self {
        Self {
            accounts: Trie::new(StateTrieId::Accounts.prefix(), root),
            storages: HashMap::new(),
            unhashed: BTreeSet::new(),
            unsaved: BTreeSet::new(),
            loaded_bytes: 0,
            stats: TrieStats::default(),
        }
    }

    /// Sets slots of a storage, by the hashes of their numbers. The value zero removes a slot.
    /// [`Self::storage_root`] returns the new root after [`Self::hash_storages`].
    ///
    /// `root` is the storage root before the first change.
    ///
    /// # Errors
    /// [`StoreError`] when a trie node is missing, altered or unreadable.
    pub fn set_slots(
        &mut self,
        source: &impl NodeSource,
        owner: StorageOwner,
        root: B256,
        slots: impl IntoIterator<Item = (B256, U256)>,
    ) -> Result<(), StoreError> {
        let trie = self
            .storages
            .entry(owner)
            .or_insert_with(|| Trie::new(StateTrieId::Storage(owner).prefix(), root));
        let mut entries: Vec<_> = slots
            .into_iter()
            .map(|(hash, value)| {
                let value = (!value.is_zero()).then(|| alloy_rlp::encode(value));
                (hash.0, value.unwrap_or_default())
            })
            .collect();
        entries.sort_unstable_by_key(|(hash, _)| *hash);
        trie.set_sorted(source, &entries)?;
        let (loaded, read, hashed) = trie.take_counts();
        self.loaded_bytes += loaded;
        self.stats.read += read;
        self.stats.hashed += hashed;
        self.unhashed.insert(owner);
        self.unsaved.insert(owner);
        Ok(())
    }

    /// Computes the roots of all changed storage tries together.
    pub fn hash_storages(&mut self) {
        let unhashed = std::mem::take(&mut self.unhashed);
        self.stats.hashed +=
            references::compute(unhashed.iter().filter_map(|owner| self.storages.get(owner)));
    }

    /// The root of a changed storage trie after [`Self::hash_storages`]. `None` if the storage did
    /// not change.
    pub fn storage_root(&self, owner: StorageOwner) -> Option<B256> {
        self.storages.get(&owner).map(Trie::computed_root)
    }

    /// Forgets the trie of a storage that was never saved, so that it starts empty again.
    pub(crate) fn forget_storage(&mut self, owner: StorageOwner) {
        self.storages.remove(&owner);
        self.unhashed.remove(&owner);
        self.unsaved.remove(&owner);
    }

    /// Sets accounts. `None` removes one.
    ///
    /// # Errors
    /// [`StoreError`] when a trie node is missing, altered or unreadable.
    pub fn set_accounts(
        &mut self,
        source: &impl NodeSource,
        accounts: &[(AccountKey, Option<AccountRecord>)],
    ) -> Result<(), StoreError> {
        let mut entries: Vec<_> = accounts
            .iter()
            .map(|(key, account)| (key.0.0, account.as_ref().map_or_else(Vec::new, encode_account)))
            .collect();
        entries.sort_unstable_by_key(|(hash, _)| *hash);
        self.accounts.set_sorted(source, &entries)?;
        let (loaded, read, hashed) = self.accounts.take_counts();
        self.loaded_bytes += loaded;
        self.stats.read += read;
        self.stats.hashed += hashed;
        Ok(())
    }

    /// Applies changes of accounts and their slots, and returns the state root.
    ///
    /// An account with changed slots comes with the storage root that it had before the first
    /// change that this trie knows. All accounts leave with their storage roots after the changes.
    ///
    /// # Errors
    /// [`StoreError`] when a trie node is missing, altered or unreadable.
    pub(crate) fn apply(
        &mut self,
        source: &impl NodeSource,
        changes: &mut [AccountWrite],
    ) -> Result<B256, StoreError> {
        for change in changes.iter().filter(|change| !change.slots.is_empty()) {
            let root = change
                .version
                .account
                .map_or(EMPTY_ROOT, |account| account.storage_root);
            let slots = change.slots.iter().map(|slot| (slot.hash, slot.value));
            self.set_slots(source, change.storage(), root, slots)?;
        }
        self.hash_storages();
        for change in changes.iter_mut() {
            let root = self.storage_root(change.storage());
            if let (Some(account), Some(root)) = (&mut change.version.account, root) {
                account.storage_root = root;
            }
        }
        let accounts: Vec<_> = changes
            .iter()
            .map(|change| (change.key, change.version.account))
            .collect();
        self.set_accounts(source, &accounts)?;
        Ok(self.root())
    }

    /// The state root with all changes so far.
    pub fn root(&mut self) -> B256 {
        self.hash_storages();
        self.stats.hashed += references::compute([&self.accounts]);
        self.accounts.computed_root()
    }

    /// Writes the nodes that changed since the last call. Loaded nodes stay in memory for the
    /// next blocks, unless there are too many.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails. Then the tries are not usable any more.
    pub fn write_to(&mut self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let mut written = 0;
        // The rows come in the table's order: it is cheaper to write the rows of a page together.
        // No list is made of them, because those of a batch of many blocks take hundreds of MiB.
        self.save_each(|trie| {
            trie.save(|path, row| {
                written += 1;
                tables.put_trie_node(path, row)
            })
        })?;
        self.stats.written += written;
        if self.loaded_bytes > NODE_BYTES_MAX {
            self.accounts.unload();
            self.storages.clear();
            self.loaded_bytes = 0;
        }
        Ok(())
    }

    /// The rows of the nodes that changed since the last call, sorted by path.
    pub(crate) fn take_rows(&mut self) -> NodeRows {
        let mut rows = NodeRows::new();
        let saved = self.save_each(|trie| {
            trie.save_into(&mut rows);
            Ok::<_, Infallible>(())
        });
        saved.unwrap_or_else(|never| match never {});
        rows
    }

    /// Calls `save` for the account trie and for each storage trie that changed since the last
    /// call, in the order of their rows. All references have been computed then.
    fn save_each<E>(&mut self, mut save: impl FnMut(&mut Trie) -> Result<(), E>) -> Result<(), E> {
        self.root();
        save(&mut self.accounts)?;
        for owner in std::mem::take(&mut self.unsaved) {
            if let Some(trie) = self.storages.get_mut(&owner) {
                save(trie)?;
            }
        }
        Ok(())
    }

    /// Memory that the nodes take, in bytes, roughly.
    pub(crate) const fn memory_bytes(&self) -> usize {
        self.loaded_bytes
    }

    /// Takes the counts of the work since the last call.
    pub fn take_stats(&mut self) -> TrieStats {
        std::mem::take(&mut self.stats)
    }
}

/// The RLP of an account in the state trie.
pub(crate) fn encode_account(account: &AccountRecord) -> Vec<u8> {
    let mut payload = Vec::with_capacity(110);
    account.tx_nonce.encode(&mut payload);
    account.balance.encode(&mut payload);
    account.storage_root.encode(&mut payload);
    account.code_hash.encode(&mut payload);
    let mut out = Vec::with_capacity(payload.len() + 2);
    alloy_rlp::Header {
        list: true,
        payload_length: payload.len(),
    }
    .encode(&mut out);
    out.extend_from_slice(&payload);
    out
}
