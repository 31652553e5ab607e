//! The state trie: accounts under the hashes of addresses, each with a storage trie.
//!
//! Storage tries of different incarnations of an account lie apart, so a destroyed
//! account's storage needs no deletion here either.

use std::collections::{BTreeSet, HashMap};

use alloy_rlp::Encodable;
use ethash::keccak256_many;
use primitives::{Address, B256, U256};
use store::{AccountRecord, StoreError, Tables};

use super::{NodeRows, NodeSource, Trie, TrieWork, seal};

/// Prefix of the account trie's rows.
const ACCOUNTS: u8 = 0;
/// Prefix of storage tries' rows; address and incarnation follow.
const STORAGE: u8 = 1;

/// When more nodes than this are in memory at a commit, they go. About 120 MB.
const NODES_MAX: u64 = 200_000;

/// Whose storage: address and incarnation.
type Owner = (Address, u32);

/// The account trie and those storage tries that changed since they were last unloaded.
#[derive(Debug)]
pub struct StateTrie {
    accounts: Trie,
    storages: HashMap<Owner, Trie>,
    /// Storage tries that changed since their roots were last computed.
    unsealed: BTreeSet<Owner>,
    /// Storage tries that changed since they were last saved.
    unsaved: BTreeSet<Owner>,
    /// Nodes in memory, or some more: those that went are counted.
    held: u64,
    work: TrieWork,
}

impl StateTrie {
    /// The state with this root. Nodes come from the source given to each change.
    pub fn new(root: B256) -> Self {
        Self {
            accounts: Trie::new(accounts_prefix(), root),
            storages: HashMap::new(),
            unsealed: BTreeSet::new(),
            unsaved: BTreeSet::new(),
            held: 0,
            work: TrieWork::default(),
        }
    }

    /// Sets slots of an account; zero removes one. [`Self::storage_root`] has the new root
    /// after [`Self::seal_storages`].
    ///
    /// `root` is the storage root before the first change, `incarnation` says whose storage.
    ///
    /// # Errors
    /// [`StoreError`] when a trie node is missing, altered or unreadable.
    pub fn set_slots(
        &mut self,
        source: &impl NodeSource,
        (address, incarnation): (Address, u32),
        root: B256,
        slots: impl IntoIterator<Item = (U256, U256)>,
    ) -> Result<(), StoreError> {
        let owner = (address, incarnation);
        let trie = self
            .storages
            .entry(owner)
            .or_insert_with(|| Trie::new(storage_prefix(&address, incarnation), root));
        let (keys, values): (Vec<[u8; 32]>, Vec<U256>) = slots
            .into_iter()
            .map(|(slot, value)| (slot.to_be_bytes(), value))
            .unzip();
        for (key, value) in in_order(&keys, values) {
            if value.is_zero() {
                trie.remove(source, &key)?;
            } else {
                trie.insert(source, &key, &alloy_rlp::encode(value))?;
            }
        }
        let (loaded, read) = trie.take_counts();
        self.held += loaded;
        self.work.read += read;
        self.unsealed.insert(owner);
        self.unsaved.insert(owner);
        Ok(())
    }

    /// Computes the roots of all storage tries that changed, together.
    pub fn seal_storages(&mut self) {
        let unsealed = std::mem::take(&mut self.unsealed);
        self.work.hashed += seal::seal(unsealed.iter().filter_map(|owner| self.storages.get(owner)));
    }

    /// Root of a storage trie that was changed and sealed; `None` where it was not changed.
    pub fn storage_root(&self, owner: Owner) -> Option<B256> {
        self.storages.get(&owner).map(Trie::sealed_root)
    }

    /// Forgets the trie of a storage that is to begin anew and was never saved.
    pub(crate) fn forget_storage(&mut self, owner: Owner) {
        self.storages.remove(&owner);
        self.unsealed.remove(&owner);
        self.unsaved.remove(&owner);
    }

    /// Sets accounts, or removes them.
    ///
    /// # Errors
    /// [`StoreError`] when a trie node is missing, altered or unreadable.
    pub fn set_accounts(
        &mut self,
        source: &impl NodeSource,
        accounts: &[(Address, Option<AccountRecord>)],
    ) -> Result<(), StoreError> {
        let (addresses, accounts): (Vec<&Address>, Vec<_>) = accounts
            .iter()
            .map(|(address, account)| (address, *account))
            .unzip();
        for (key, account) in in_order(&addresses, accounts) {
            match account {
                Some(account) => self.accounts.insert(source, &key, &encode_account(&account))?,
                None => self.accounts.remove(source, &key)?,
            }
        }
        let (loaded, read) = self.accounts.take_counts();
        self.held += loaded;
        self.work.read += read;
        Ok(())
    }

    /// The state root as it is now.
    pub fn root(&mut self) -> B256 {
        self.seal_storages();
        self.work.hashed += seal::seal([&self.accounts]);
        self.accounts.sealed_root()
    }

    /// Writes the nodes that changed since the last commit, and keeps what fits in memory for
    /// the blocks to come.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn commit(&mut self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        self.root();
        let mut rows = NodeRows::new();
        self.accounts.save(&mut rows);
        for owner in std::mem::take(&mut self.unsaved) {
            if let Some(trie) = self.storages.get_mut(&owner) {
                trie.save(&mut rows);
            }
        }
        // In the order of the table, as rows of one page are written with less work together.
        for (path, node) in &rows {
            tables.put_trie_node(path, node.as_deref())?;
        }
        self.work.written += rows.len() as u64;
        if self.held > NODES_MAX {
            self.accounts.unload();
            self.storages.clear();
            self.held = 0;
        }
        Ok(())
    }

    /// What was done since this was last asked.
    pub fn take_work(&mut self) -> TrieWork {
        std::mem::take(&mut self.work)
    }
}

/// The hashes of keys, each with the value of its key, in the order of the hashes: what lies
/// near each other in the trie and in its table is visited together.
fn in_order<T: AsRef<[u8]>, V>(keys: &[T], values: Vec<V>) -> Vec<([u8; 32], V)> {
    let hashes = keccak256_many(&keys.iter().map(AsRef::as_ref).collect::<Vec<_>>());
    let mut hashed: Vec<_> = hashes.into_iter().zip(values).collect();
    hashed.sort_unstable_by_key(|(hash, _)| *hash);
    hashed
}

/// Where the rows of the account trie begin.
pub(crate) fn accounts_prefix() -> Vec<u8> {
    vec![ACCOUNTS]
}

/// Where the rows of a storage trie begin.
pub(crate) fn storage_prefix(address: &Address, incarnation: u32) -> Vec<u8> {
    [&[STORAGE][..], address.as_slice(), &incarnation.to_be_bytes()].concat()
}

/// RLP of an account as the state trie holds it.
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
