//! The state at the head: flat versions, code and trie, each against the head's state root.
//!
//! The root is made anew from the flat state alone, so that it and the stored trie judge
//! each other. Holds the keys of all accounts, and of one account's slots, in memory.

use std::ops::ControlFlow;

use primitives::{Address, B256, EMPTY_CODE_HASH, EMPTY_ROOT, U256, hex, keccak256};
use store::{Snapshot, Source, StateReads, StoreError, TableId};

use super::{CheckError, CheckFault, StoreCheck, guarded};
use crate::state::flat::{FlatAccount, accounts, slots};
use crate::trie::{accounts_prefix, encode_account, sorted_root, storage_prefix, verify_trie};

/// After this many accounts or codes it is said how far the check is.
const PROGRESS_STEP: u64 = 1024;

/// Checks the state at block `head`, whose header has `root`.
pub(super) fn check(check: &mut StoreCheck<'_>, head: u64, root: B256) -> Result<(), CheckError> {
    codes(check)?;
    let keys = match flat(check, head)? {
        Some(keys) => keys,
        None => return Ok(()),
    };
    let view = check.view;
    let whole = guarded("account_at_block", || {
        sorted_root(&keys, &mut |address: &Address| {
            let account = view.account_at(address, head)?.account.unwrap_or_default();
            Ok::<_, StoreError>(encode_account(&account))
        })
    });
    let mut faults = Vec::new();
    match whole {
        Ok(Ok(got)) if got == root => {}
        Ok(Ok(got)) => faults.push(CheckFault::StateRoot {
            number: head,
            got,
            expected: root,
        }),
        Ok(Err(error)) => faults.push(error.into()),
        Err(fault) => faults.push(fault),
    }
    check.faults(faults);
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

/// Every code against its hash.
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
                    format!("code has hash {got}"),
                ));
            }
            ControlFlow::Continue(())
        })
    });
    match scanned {
        Ok(Ok(())) => {}
        Ok(Err(error)) => faults.push(error.into()),
        Err(fault) => faults.push(fault),
    }
    check.checked.codes = count;
    check.faults(faults);
    check.progress("codes", count, count)
}

/// Walks the flat accounts with their storage; gives the accounts by the hash of their
/// address, or `None` where they cannot all be read.
fn flat(check: &mut StoreCheck<'_>, head: u64) -> Result<Option<Vec<(B256, Address)>>, CheckError> {
    let mut keys = Vec::new();
    let view = check.view;
    let walked = guarded("account_at_block", || {
        accounts::<AccountWalkError>(view, head, |flat| {
            keys.push((keccak256(flat.address), flat.address));
            check.checked.accounts += 1;
            account(check, head, &flat);
            if check.checked.accounts.is_multiple_of(PROGRESS_STEP) {
                check.progress("accounts", check.checked.accounts, 0)?;
            }
            Ok(())
        })
    });
    let fault = match walked {
        Ok(Ok(())) => {
            keys.sort_unstable();
            check.progress("accounts", check.checked.accounts, check.checked.accounts)?;
            return Ok(Some(keys));
        }
        Ok(Err(AccountWalkError::StoreCheck(error))) => return Err(error),
        Ok(Err(AccountWalkError::Store(error))) => error.into(),
        Err(fault) => fault,
    };
    check.faults(vec![fault]);
    Ok(None)
}

/// Why the walk over the accounts ended.
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

/// An account's code and storage.
fn account(check: &mut StoreCheck<'_>, head: u64, flat: &FlatAccount) {
    let FlatAccount {
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
        // Whether the code has this hash was looked at for all codes.
        let there = guarded("hash_to_code", || {
            view.with(TableId::HashToCode, code_hash.as_slice(), |_| ())
        });
        match there {
            Ok(Ok(Some(()))) => {}
            Ok(Ok(None)) => faults.push(differs("code", "none".to_owned(), code_hash)),
            Ok(Err(error)) => faults.push(error.into()),
            Err(fault) => faults.push(fault),
        }
    }
    let expected = account.storage_root;
    let owner = (*address, *incarnation);
    let mut count = 0;
    match guarded("storage_at_block", || storage_root(view, owner, head)) {
        Ok(Ok((got, slots))) => {
            count = slots;
            if got != expected {
                faults.push(differs("storage root", got.to_string(), expected));
            }
        }
        Ok(Err(error)) => faults.push(error.into()),
        Err(fault) => faults.push(fault),
    }
    check.checked.slots += count;
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

/// The root of an account's storage from its flat slots, and their number.
fn storage_root(view: &Snapshot, owner: (Address, u32), head: u64) -> Result<(B256, u64), StoreError> {
    let mut values: Vec<(B256, U256)> = Vec::new();
    slots::<StoreError>(view, owner, head, |slot, value| {
        values.push((keccak256(slot.to_be_bytes::<32>()), value));
        Ok(())
    })?;
    values.sort_unstable();
    let root = sorted_root(&values, &mut |value| {
        Ok::<_, StoreError>(alloy_rlp::encode(value))
    })?;
    Ok((root, values.len() as u64))
}

/// Walks a stored trie; gives its number of values where it is whole.
fn trie(check: &mut StoreCheck<'_>, what: &str, prefix: Vec<u8>, root: B256) -> Option<u64> {
    let mut faults = Vec::new();
    let walked = guarded(what, || {
        verify_trie(check.view, prefix, root, &mut |row, reason| {
            faults.push(CheckFault::TrieNode {
                row: hex::encode(row),
                reason,
            });
        })
    });
    let mut leaves = None;
    match walked {
        Ok(Ok(walked)) => {
            check.checked.trie_nodes += walked.nodes;
            leaves = faults.is_empty().then_some(walked.leaves);
        }
        Ok(Err(error)) => faults.push(error.into()),
        Err(fault) => faults.push(fault),
    }
    check.faults(faults);
    leaves
}
