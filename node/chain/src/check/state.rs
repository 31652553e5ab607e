//! Checks the state at the head: accounts, slots, codes and trie, each against the head's state
//! root.
//!
//! The root is computed from accounts and slots alone, and the stored trie is verified separately.
//! The keys of all accounts, and of one account's slots, are held in memory.

use std::ops::ControlFlow;

use primitives::{Address, B256, EMPTY_CODE_HASH, EMPTY_ROOT, U256, hex, keccak256};
use store::{Snapshot, Source, StateReads, StoreError, TableId};

use super::{CheckError, CheckFault, StoreCheck, guarded, panic_to_fault};
use crate::state::scan::{self, ScannedAccount};
use crate::trie::{StorageOwner, accounts_prefix, encode_account, sorted_root, storage_prefix, verify_trie};

/// Progress is reported once in so many accounts.
const PROGRESS_ACCOUNTS: u64 = 1024;

/// Checks the state at block `head`, whose header has the state root `root`.
pub(super) fn check(check: &mut StoreCheck<'_>, head: u64, root: B256) -> Result<(), CheckError> {
    codes(check)?;
    let Some(keys) = accounts(check, head)? else {
        return Ok(());
    };
    let view = check.view;
    let computed = guarded("account", || {
        sorted_root(&keys, &mut |address: &Address| {
            let account = view.account_at(address, head)?.account.unwrap_or_default();
            Ok::<_, StoreError>(encode_account(&account))
        })
    });
    match computed {
        Ok(got) if got == root => {}
        Ok(got) => check.faults(vec![CheckFault::StateRoot {
            number: head,
            got,
            expected: root,
        }]),
        Err(fault) => check.faults(vec![fault]),
    }
    let leaves = trie(check, "account trie", accounts_prefix(), root);
    let expected = keys.len() as u64;
    if let Some(got) = leaves.filter(|got| *got != expected) {
        check.faults(vec![CheckFault::Leaves {
            what: "account trie".to_owned(),
            got,
            expected,
        }]);
    }
    Ok(())
}

/// Checks every code against its hash.
fn codes(check: &mut StoreCheck<'_>) -> Result<(), CheckError> {
    let (mut faults, mut count) = (Vec::new(), 0);
    let view = check.view;
    let scanned = guarded("hash_to_code", || {
        view.scan(TableId::HashToCode, &[], |key, code| {
            count += 1;
            let got = keccak256(code);
            if key != got.as_slice() {
                faults.push(CheckFault::row(
                    TableId::HashToCode,
                    key,
                    format!("hash of the code: got {got}, expected the key"),
                ));
            }
            ControlFlow::Continue(())
        })
    });
    faults.extend(scanned.err());
    check.summary.codes = count;
    check.faults(faults);
    check.progress("codes", count, count)
}

/// Checks all accounts with their storage. Returns the accounts, sorted by the hash of their
/// address, or `None` if not all of them can be read.
fn accounts(check: &mut StoreCheck<'_>, head: u64) -> Result<Option<Vec<(B256, Address)>>, CheckError> {
    let mut keys = Vec::new();
    let view = check.view;
    let walked = panic_to_fault("account", || {
        scan::accounts::<AccountWalkError>(view, head, |flat| {
            keys.push((keccak256(flat.address), flat.address));
            check.summary.accounts += 1;
            account(check, head, &flat);
            if check.summary.accounts.is_multiple_of(PROGRESS_ACCOUNTS) {
                check.progress("accounts", check.summary.accounts, 0)?;
            }
            Ok(())
        })
    });
    let fault = match walked {
        Ok(Ok(())) => {
            keys.sort_unstable();
            check.progress("accounts", check.summary.accounts, check.summary.accounts)?;
            return Ok(Some(keys));
        }
        Ok(Err(AccountWalkError::StoreCheck(error))) => return Err(error),
        Ok(Err(AccountWalkError::Store(error))) => error.into(),
        Err(fault) => fault,
    };
    check.faults(vec![fault]);
    Ok(None)
}

/// The reason why the walk over the accounts stopped.
enum AccountWalkError {
    Store(StoreError),
    StoreCheck(CheckError),
}

impl From<StoreError> for AccountWalkError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<CheckError> for AccountWalkError {
    fn from(error: CheckError) -> Self {
        Self::StoreCheck(error)
    }
}

/// Checks an account's code and storage.
fn account(check: &mut StoreCheck<'_>, head: u64, flat: &ScannedAccount) {
    let ScannedAccount {
        address,
        incarnation,
        account,
    } = flat;
    let differs = |what, got: String, expected: B256| CheckFault::Account {
        address: *address,
        number: head,
        what,
        got,
        expected: expected.to_string(),
    };
    let view = check.view;
    let mut faults = Vec::new();
    let code_hash = account.code_hash;
    if code_hash != EMPTY_CODE_HASH {
        // `codes` has checked the hashes of all codes.
        let code = guarded("hash_to_code", || {
            view.with(TableId::HashToCode, code_hash.as_slice(), |_| ())
        });
        match code {
            Ok(Some(())) => {}
            Ok(None) => faults.push(differs("code", "none".to_owned(), code_hash)),
            Err(fault) => faults.push(fault),
        }
    }
    let expected = account.storage_root;
    let owner = (*address, *incarnation);
    let mut count = 0;
    match guarded("storage", || storage_root(view, owner, head)) {
        Ok((got, slots)) => {
            count = slots;
            if got != expected {
                faults.push(differs("storage root", got.to_string(), expected));
            }
        }
        Err(fault) => faults.push(fault),
    }
    check.summary.slots += count;
    check.faults(faults);
    if expected != EMPTY_ROOT {
        let what = format!("storage trie of {address}");
        let leaves = trie(check, &what, storage_prefix(address, *incarnation), expected);
        if let Some(got) = leaves.filter(|got| *got != count) {
            check.faults(vec![CheckFault::Leaves {
                what,
                got,
                expected: count,
            }]);
        }
    }
}

/// Computes the root of an account's storage from its slots. Returns the root and
/// the number of slots that are not zero.
fn storage_root(view: &Snapshot, owner: StorageOwner, head: u64) -> Result<(B256, u64), StoreError> {
    let mut values: Vec<(B256, U256)> = Vec::new();
    scan::slots::<StoreError>(view, owner, head, |slot, value| {
        values.push((keccak256(slot.to_be_bytes::<32>()), value));
        Ok(())
    })?;
    values.sort_unstable();
    let root = sorted_root(&values, &mut |value| {
        Ok::<_, StoreError>(alloy_rlp::encode(value))
    })?;
    Ok((root, values.len() as u64))
}

/// Verifies a stored trie. Returns its number of values, or `None` if the trie has faults.
fn trie(check: &mut StoreCheck<'_>, what: &str, prefix: Vec<u8>, root: B256) -> Option<u64> {
    let mut faults = Vec::new();
    let verified = guarded(what, || {
        verify_trie(check.view, prefix, root, &mut |row, reason| {
            faults.push(CheckFault::TrieNode {
                row: hex::encode(row),
                reason,
            });
        })
    });
    let mut leaves = None;
    match verified {
        Ok(counts) => {
            check.summary.trie_nodes += counts.nodes;
            leaves = faults.is_empty().then_some(counts.leaves);
        }
        Err(fault) => faults.push(fault),
    }
    check.faults(faults);
    leaves
}
