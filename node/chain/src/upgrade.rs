//! Opens a store, and rewrites it first if an older program made it.
//!
//! The package `store` rewrites the rows; the tries are built here, from the accounts and slots in
//! the order of their keys. The account trie must have the state root of the head, so a fault of
//! the rewrite cannot stay unnoticed. A process that dies meanwhile loses nothing: the next one
//! builds the tries again. Knows no layout of rows.

use std::path::Path;

use primitives::B256;
use store::{Store, StoreError, StoreOptions, TableId, UpgradeProgress, UpgradeState, meta_key};

use crate::trie::TrieBuild;

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
        build_head_tries(&store, report)?;
        store.end_upgrade()?;
    }
    Store::open(directory, options)
}

/// Builds all tries of the head state.
fn build_head_tries(store: &Store, report: &mut dyn FnMut(UpgradeProgress)) -> Result<(), StoreError> {
    let view = store.snapshot()?;
    let Some(head) = view.head_block()? else {
        return Ok(());
    };
    let header = &head.record.header;
    let total = view.stats()?[TableId::Account as usize].rows;
    let build = TrieBuild {
        store,
        view: &view,
        number: header.number,
        begun: &[],
        save_bytes: usize::MAX,
    };
    let root = build.run(
        |found, got| check_root("storage root", got, found.account.storage_root),
        |_, _| Ok(()),
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
