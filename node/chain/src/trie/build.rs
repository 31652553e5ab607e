//! Builds all tries of a state from the rows of accounts and slots, in one pass in the order of
//! their keys, and writes them with many commits.

use std::cell::RefCell;

use primitives::{B256, EMPTY_ROOT};
use store::{AccountKey, Snapshot, StateReads, StateTrieId, Store, StoreError, WalkedAccount};

use super::{SortedTrie, encode_account};

/// Bytes of trie nodes that are written with one commit.
const BATCH_BYTES: usize = 32 << 20;

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
        self.write()
    }

    fn write(&mut self) -> Result<(), StoreError> {
        self.nodes.sort_unstable();
        let batch = self.store.batch()?;
        batch.write(|tables| {
            let mut nodes = self.nodes.iter();
            nodes.try_for_each(|(path, row)| tables.put_trie_node(path, Some(row)))
        })?;
        batch.commit()?;
        self.nodes.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Builds the tries of the state that `view` has after block `number`, and returns its root.
/// `storage` gets each account with a storage root, and the root of its slots; the trie of accounts
/// has what it returns. `done` gets the number of accounts so far.
///
/// # Errors
/// Any error of `storage`, and [`StoreError`] when a read or write fails.
pub(crate) fn build_tries(
    (store, view): (&Store, &Snapshot),
    number: u64,
    mut storage: impl FnMut(&WalkedAccount, B256) -> Result<B256, StoreError>,
    mut done: impl FnMut(u64),
) -> Result<B256, StoreError> {
    let batch = RefCell::new(RowBatch {
        store,
        nodes: Vec::new(),
        bytes: 0,
    });
    let put = |trie: StateTrieId| {
        let (batch, prefix) = (&batch, trie.prefix());
        move |path: &[u8], row| batch.borrow_mut().put([&prefix, path].concat(), row)
    };
    let mut accounts = SortedTrie::new(put(StateTrieId::Accounts));
    view.walk_accounts::<StoreError>(&AccountKey(B256::ZERO), number, |found| {
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
        done(accounts.entries());
        Ok(())
    })?;
    let root = accounts.finish()?;
    batch.into_inner().write()?;
    Ok(root)
}
