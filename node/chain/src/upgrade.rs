//! Opens a store, and rewrites it first if an older program made it.
//!
//! The package `store` rewrites the rows; the tries are built here, from the accounts and slots in
//! the order of their keys. The account trie must have the state root of the head, so a fault of
//! the rewrite cannot stay unnoticed. A process that dies meanwhile loses nothing: the next one
//! builds the tries again. Knows no layout of rows.

use std::cell::RefCell;
use std::path::Path;

use primitives::{B256, EMPTY_ROOT};
use store::{
    AccountKey, StateReads, StateTrieId, Store, StoreError, StoreOptions, TableId, UpgradeProgress,
    UpgradeState, meta_key,
};

use crate::trie::{SortedTrie, encode_account};

/// Bytes of trie nodes that are written with one commit.
const BATCH_BYTES: usize = 32 << 20;
/// Progress is reported once in so many accounts.
const REPORT_ACCOUNTS: u64 = 4096;

/// Opens the store in `directory`, as [`Store::open`] does. Rewrites a file of the layout before
/// this program's first, and calls `report` with the progress.
///
/// # Errors
/// As for [`Store::upgrade`] and [`Store::open`], and [`StoreError`] if the rewritten state does
/// not have the state root of the head.
pub fn open_store(
    directory: &Path,
    options: &StoreOptions,
    report: &mut dyn FnMut(UpgradeProgress),
) -> Result<Store, StoreError> {
    match Store::open(directory, options) {
        Err(StoreError::Schema { .. } | StoreError::WithoutTries { .. }) => {}
        opened => return opened,
    }
    if Store::upgrade(directory, options, report)? == UpgradeState::WithoutTries {
        let without_tries = StoreOptions {
            without_tries: true,
            ..options.clone()
        };
        let store = Store::open(directory, &without_tries)?;
        build_tries(&store, report)?;
        store.end_upgrade()?;
    }
    Store::open(directory, options)
}

/// Nodes that are to be written.
struct NodeBatch<'a> {
    store: &'a Store,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl NodeBatch<'_> {
    fn put(&mut self, path: Vec<u8>, row: Vec<u8>) -> Result<(), StoreError> {
        self.bytes += path.len() + row.len();
        self.rows.push((path, row));
        if self.bytes < BATCH_BYTES {
            return Ok(());
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), StoreError> {
        self.rows.sort_unstable();
        let batch = self.store.batch()?;
        batch.write(|tables| {
            let mut rows = self.rows.iter();
            rows.try_for_each(|(path, row)| tables.put_trie_node(path, Some(row)))
        })?;
        batch.commit()?;
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Builds all tries of the head state.
fn build_tries(store: &Store, report: &mut dyn FnMut(UpgradeProgress)) -> Result<(), StoreError> {
    let view = store.snapshot()?;
    let Some(head) = view.head_block()? else {
        return Ok(());
    };
    let header = &head.record.header;
    let total = view.stats()?[TableId::Account as usize].rows;
    let batch = RefCell::new(NodeBatch {
        store,
        rows: Vec::new(),
        bytes: 0,
    });
    let put = |trie: StateTrieId| {
        let (batch, prefix) = (&batch, trie.prefix());
        move |path: &[u8], row| batch.borrow_mut().put([&prefix, path].concat(), row)
    };
    let mut accounts = SortedTrie::new(put(StateTrieId::Accounts));
    view.walk_accounts::<StoreError>(&AccountKey(B256::ZERO), header.number, |found| {
        accounts.add(&found.key.0, encode_account(&found.account))?;
        if found.account.storage_root != EMPTY_ROOT {
            let owner = found.storage();
            let mut storage = SortedTrie::new(put(StateTrieId::Storage(owner)));
            view.walk_slots::<StoreError>(&owner, &B256::ZERO, header.number, |slot| {
                storage.add(&slot.hash, alloy_rlp::encode(slot.value))
            })?;
            let got = storage.finish()?;
            check_root("storage root", got, found.account.storage_root)?;
        }
        let done = accounts.entries();
        if done.is_multiple_of(REPORT_ACCOUNTS) || done == total {
            report(UpgradeProgress {
                what: "tries",
                done,
                total,
            });
        }
        Ok(())
    })?;
    check_root("state root", accounts.finish()?, header.state_root)?;
    batch.into_inner().write()
}

fn check_root(what: &str, got: B256, expected: B256) -> Result<(), StoreError> {
    if got == expected {
        return Ok(());
    }
    let reason = format!("{what} of the rewritten state: got {got}, expected {expected}");
    Err(StoreError::corrupt(TableId::Meta, meta_key::HEAD, reason))
}
