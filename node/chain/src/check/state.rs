//! Checks the state at the head: accounts, slots, codes and trie, each against the head's state
//! root.
//!
//! The roots are computed from accounts and slots alone, in one walk, and the stored tries are
//! verified separately. Both hold one path of a trie in memory, whatever the size of the state.

use std::ops::ControlFlow;

use primitives::{B256, EMPTY_CODE_HASH, EMPTY_ROOT, hex, keccak256};
use store::{
    AccountKey, Snapshot, Source, StateReads, StateTrieId, StorageOwner, StoreError, TableId, WalkedAccount,
};

use super::{CheckError, CheckFault, StoreCheck, guarded, panic_to_fault};
use crate::trie::{SortedTrie, encode_account, verify_trie};

/// Progress is reported once in so many accounts.
const PROGRESS_ACCOUNTS: u64 = 1024;

/// Checks the state at block `head`, whose header has the state root `root`.
pub(super) fn check(check: &mut StoreCheck<'_>, head: u64, root: B256) -> Result<(), CheckError> {
    codes(check)?;
    let Some((got, expected)) = accounts(check, head)? else {
        return Ok(());
    };
    if got != root {
        check.faults(vec![CheckFault::StateRoot {
            number: head,
            got,
            expected: root,
        }]);
    }
    let leaves = trie(check, "account trie", StateTrieId::Accounts, root);
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

/// Checks all accounts with their storage. Returns the root of the trie that they make, and their
/// number; `None` if not all of them can be read.
fn accounts(check: &mut StoreCheck<'_>, head: u64) -> Result<Option<(B256, u64)>, CheckError> {
    let view = check.view;
    let mut trie = SortedTrie::new(|_: &[u8], _| Ok::<_, AccountWalkError>(()));
    let walked = panic_to_fault("account_by_hash", || {
        view.walk_accounts(&AccountKey(B256::ZERO), head, |found| {
            trie.add(&found.key.0, encode_account(&found.account))?;
            check.summary.accounts += 1;
            account(check, head, &found);
            if check.summary.accounts.is_multiple_of(PROGRESS_ACCOUNTS) {
                check.progress("accounts", check.summary.accounts, 0)?;
            }
            Ok::<_, AccountWalkError>(())
        })
    });
    let ended = walked.map(|walked| {
        let entries = trie.entries();
        walked.and_then(|()| Ok((trie.finish()?, entries)))
    });
    let fault = match ended {
        Ok(Ok(found)) => {
            check.progress("accounts", check.summary.accounts, check.summary.accounts)?;
            return Ok(Some(found));
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
fn account(check: &mut StoreCheck<'_>, head: u64, found: &WalkedAccount) {
    let account = &found.account;
    let name = account_name(found);
    let differs = |what, got: String, expected: B256| CheckFault::Account {
        name: name.clone(),
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
    let owner = found.storage();
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
        let what = format!("storage trie of {name}");
        let leaves = trie(check, &what, StateTrieId::Storage(owner), expected);
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
    let mut trie = SortedTrie::new(|_: &[u8], _| Ok::<_, StoreError>(()));
    view.walk_slots::<StoreError>(&owner, &B256::ZERO, head, |slot| {
        trie.add(&slot.hash, alloy_rlp::encode(slot.value))
    })?;
    let slots = trie.entries();
    Ok((trie.finish()?, slots))
}

/// The address of an account, or the hash of it if no more is known.
fn account_name(found: &WalkedAccount) -> String {
    match found.address {
        Some(address) => address.to_string(),
        None => format!("hash {}", found.key.0),
    }
}

/// Verifies a stored trie. Returns its number of values, or `None` if the trie has faults.
fn trie(check: &mut StoreCheck<'_>, what: &str, id: StateTrieId, root: B256) -> Option<u64> {
    let mut faults = Vec::new();
    let verified = guarded(what, || {
        verify_trie(check.view, id.prefix(), root, &mut |row, reason| {
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
