//! Opens a store, and rewrites it first if an older program made it.
//!
//! The package `store` rewrites the rows; the tries are built here, from the accounts and slots in
//! the order of their keys. The account trie must have the state root of the head, so a fault of
//! the rewrite cannot stay unnoticed. A process that dies meanwhile loses some seconds: the next
//! one goes on where the build was saved last. Knows no layout of rows.

use std::path::Path;

use primitives::B256;
use store::{
    FetchedStateReads, Store, StoreError, StoreOptions, TableId, UpgradeProgress, UpgradeState, meta_key,
};

use crate::trie::{SAVE_BYTES, TrieBuild};

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
        build_head_tries(&store, SAVE_BYTES, report)?;
        store.end_upgrade()?;
    }
    Store::open(directory, options)
}

/// Builds all tries of the head state. Goes on with a build that was interrupted.
fn build_head_tries(
    store: &Store,
    save_bytes: usize,
    report: &mut dyn FnMut(UpgradeProgress),
) -> Result<(), StoreError> {
    let view = store.snapshot()?;
    let Some(head) = view.head_block()? else {
        return Ok(());
    };
    let header = &head.record.header;
    let total = view.stats()?[TableId::Account as usize].rows;
    let begun = view.begun_tries()?.unwrap_or_default();
    let build = TrieBuild {
        store,
        view: &view,
        number: header.number,
        begun: &begun,
        save_bytes,
    };
    let root = build.run(
        |found, got| check_root("storage root", got, found.account.storage_root),
        |tables, state| tables.put_begun_tries(state),
        |done| {
            if done.is_multiple_of(REPORT_ACCOUNTS) || done == total {
                report(UpgradeProgress {
                    what: "tries",
                    done,
                    total,
                });
            }
        },
    )?;
    check_root("state root", root, header.state_root).map(drop)
}

fn check_root(what: &str, got: B256, expected: B256) -> Result<B256, StoreError> {
    if got == expected {
        return Ok(got);
    }
    let reason = format!("{what} of the rewritten state: got {got}, expected {expected}");
    Err(StoreError::corrupt(TableId::Meta, meta_key::HEAD, reason))
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use primitives::{Address, U256};
    use store::Source;

    use super::*;
    use crate::ChainSpec;
    use crate::genesis::ensure_genesis;
    use crate::spec::GenesisAccount;
    use crate::trie::SortedTrie;

    #[test]
    fn tries_that_were_killed_go_on_where_they_were_saved() {
        let mut spec = ChainSpec::dev();
        for index in 0..3 * REPORT_ACCOUNTS {
            let mut account = GenesisAccount {
                balance: U256::from(index + 1),
                ..GenesisAccount::default()
            };
            account.storage.insert(U256::from(index), U256::from(7));
            let address = Address::left_padding_from(&(index + 1_000_000).to_be_bytes());
            spec.genesis.alloc.insert(address, account);
        }
        let store = Store::in_memory().unwrap();
        ensure_genesis(&store, &spec).unwrap();
        let tries = nodes(&store);
        clear_tries(&store);

        for round in 1..=2 {
            let killed_at = round * REPORT_ACCOUNTS;
            let build = || {
                build_head_tries(&store, 1 << 14, &mut |progress| {
                    assert!(progress.done < killed_at, "killed");
                })
            };
            catch_unwind(AssertUnwindSafe(build)).expect_err("the build was interrupted");
            let begun = begun_tries(&store).expect("a saved state");
            let saved = SortedTrie::resume(|_: &[u8], _| Ok::<_, StoreError>(()), &begun).unwrap();
            let lost = killed_at - saved.entries();
            assert!(lost < 200, "{lost} accounts were lost at account {killed_at}");
            // The next build takes what was saved: a state that is none is refused.
            put_begun_tries(&store, &[1]);
            let error = build_head_tries(&store, 1 << 14, &mut |_| ()).unwrap_err();
            assert!(
                error.to_string().contains("expected the state of a trie"),
                "{error}"
            );
            put_begun_tries(&store, &begun);
        }
        build_head_tries(&store, 1 << 14, &mut |_| ()).unwrap();
        assert!(
            nodes(&store) == tries,
            "the tries are those of a build without a stop"
        );
        store.end_upgrade().unwrap();
        assert_eq!(begun_tries(&store), None);
    }

    fn begun_tries(store: &Store) -> Option<Vec<u8>> {
        store.snapshot().unwrap().begun_tries().unwrap()
    }

    fn put_begun_tries(store: &Store, state: &[u8]) {
        let batch = store.batch().unwrap();
        batch.write(|tables| tables.put_begun_tries(state)).unwrap();
        batch.commit().unwrap();
    }

    fn clear_tries(store: &Store) {
        let batch = store.batch().unwrap();
        batch.write(|tables| tables.clear_tries(usize::MAX)).unwrap();
        batch.commit().unwrap();
        assert_eq!(nodes(store), []);
    }

    fn nodes(store: &Store) -> Vec<(Vec<u8>, Vec<u8>)> {
        let view = store.snapshot().unwrap();
        let mut nodes = Vec::new();
        view.scan(TableId::PathToTrieNode, &[], |key, value| {
            nodes.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
        nodes
    }
}
