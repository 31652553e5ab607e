//! Builds all tries of a state from the rows of accounts and slots, in one pass in the order of
//! their keys, and writes them with many commits. A build can go on where another was interrupted.

use std::cell::RefCell;

use primitives::{B256, EMPTY_ROOT, U256};
use store::{
    AccountKey, Snapshot, StateReads, StateTrieId, Store, StoreError, TableId, Tables, WalkedAccount,
    meta_key,
};

use super::{SortedTrie, encode_account};

/// Bytes of trie nodes that are written with one commit.
const BATCH_BYTES: usize = 32 << 20;
/// A build is saved after so many bytes of nodes, which take some seconds. A storage that is larger
/// is built again from its begin.
pub(crate) const SAVE_BYTES: usize = BATCH_BYTES / 2;

/// The rows that are to be written.
struct RowBatch<'a> {
    store: &'a Store,
    nodes: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl RowBatch<'_> {
    fn put(&mut self, path: Vec<u8>, row: Vec<u8>) -> Result<(), StoreError> {
        self.bytes += path.len() + row.len();
        self.nodes.push((path, row));
        if self.bytes < BATCH_BYTES {
            return Ok(());
        }
        self.write(|_| Ok(()))
    }

    /// Writes the nodes, and what `also` writes with them.
    fn write(
        &mut self,
        also: impl FnOnce(&mut Tables<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.nodes.sort_unstable();
        let batch = self.store.batch()?;
        batch.write(|tables| {
            let mut nodes = self.nodes.iter();
            nodes.try_for_each(|(path, row)| tables.put_trie_node(path, Some(row)))?;
            also(tables)
        })?;
        batch.commit()?;
        self.nodes.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// A build of all tries of a state.
pub(crate) struct TrieBuild<'a> {
    pub(crate) store: &'a Store,
    pub(crate) view: &'a Snapshot,
    /// The tries are those of the state after this block.
    pub(crate) number: u64,
    /// The state of a build that was interrupted, or nothing.
    pub(crate) begun: &'a [u8],
    /// A state is saved after so many bytes of nodes.
    pub(crate) save_bytes: usize,
}

impl TrieBuild<'_> {
    /// Builds the tries and returns the root of the state. `storage` gets each account with a
    /// storage root, and the root of its slots; the trie of accounts has what it returns. `save`
    /// gets, in the transaction that has all nodes so far, the state from which a build goes on.
    /// `done` gets the number of accounts so far.
    ///
    /// # Errors
    /// Any error of `storage` and `save`, and [`StoreError`] when a read or write fails or `begun`
    /// is not a state.
    pub(crate) fn run(
        self,
        mut storage: impl FnMut(&WalkedAccount, B256) -> Result<B256, StoreError>,
        mut save: impl FnMut(&mut Tables<'_>, &[u8]) -> Result<(), StoreError>,
        mut done: impl FnMut(u64),
    ) -> Result<B256, StoreError> {
        let Self {
            store, view, number, ..
        } = self;
        let batch = RefCell::new(RowBatch {
            store,
            nodes: Vec::new(),
            bytes: 0,
        });
        let put = |trie: StateTrieId| {
            let (batch, prefix) = (&batch, trie.prefix());
            move |path: &[u8], row| batch.borrow_mut().put([&prefix, path].concat(), row)
        };
        let mut accounts = match self.begun {
            [] => SortedTrie::new(put(StateTrieId::Accounts)),
            state => SortedTrie::resume(put(StateTrieId::Accounts), state).ok_or_else(|| {
                let reason = format!("got {} bytes, expected the state of a trie", state.len());
                StoreError::corrupt(TableId::Meta, meta_key::BEGUN_TRIES, reason)
            })?,
        };
        let low = accounts.last_key().map_or(Some(B256::ZERO), next_key);
        let add = |found: WalkedAccount| {
            let mut account = found.account;
            if account.storage_root != EMPTY_ROOT {
                let owner = found.storage();
                let mut slots = SortedTrie::new(put(StateTrieId::Storage(owner)));
                view.walk_slots::<StoreError>(&owner, &B256::ZERO, number, |slot| {
                    slots.add(&slot.hash, alloy_rlp::encode(slot.value))
                })?;
                account.storage_root = storage(&found, slots.finish()?)?;
            }
            accounts.add(&found.key.0, encode_account(&account))?;
            if batch.borrow().bytes >= self.save_bytes {
                let state = accounts.state();
                batch.borrow_mut().write(|tables| save(tables, &state))?;
            }
            done(accounts.entries());
            Ok(())
        };
        if let Some(low) = low {
            view.walk_accounts(&AccountKey(low), number, add)?;
        }
        let root = accounts.finish()?;
        batch.into_inner().write(|_| Ok(()))?;
        Ok(root)
    }
}

/// The key after this one; `None` after the last one.
fn next_key(key: B256) -> Option<B256> {
    let next = U256::from_be_bytes(key.0).checked_add(U256::ONE)?;
    Some(B256::from(next))
}
