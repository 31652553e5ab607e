//! The accounts of block 0: their state root, and their rows.
//!
//! A genesis file may have a million accounts. So the root is computed without keeping nodes, and
//! the trie is written in parts. This module knows accounts, but neither headers nor files.

use std::convert::Infallible;

use primitives::{Address, B256, EMPTY_ROOT, U256, keccak256};
use store::{AccountRecord, AccountVersion, AccountWrite, StoreError, TableId, Tables};

use crate::spec::{Genesis, GenesisAccount};
use crate::trie::{StateTrie, encode_account, sorted_root};

/// The number of accounts or slots that are added to the trie before its nodes are written.
const TRIE_PART_KEYS: usize = 20_000;

/// The state root of the accounts of block 0.
pub(super) fn state_root(genesis: &Genesis) -> B256 {
    let entries = sorted_accounts(genesis);
    let root = sorted_root(&entries, &mut |(_, account)| {
        Ok::<_, Infallible>(encode_account(&record(account, storage_root(account))))
    });
    root.unwrap_or_else(|never| match never {})
}

/// Writes the accounts of block 0: values, code, and the trie, whose root must be `state_root`.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub(super) fn write(tables: &mut Tables<'_>, genesis: &Genesis, state_root: B256) -> Result<(), StoreError> {
    let got = write_trie(tables, genesis)?;
    if got != state_root {
        return Err(StoreError::corrupt(
            TableId::PathToTrieNode,
            &[],
            format!("state root of block 0: got {got}, expected {state_root}"),
        ));
    }
    for account in genesis.alloc.values().filter(|account| !account.code.is_empty()) {
        tables.put_code(&keccak256(&account.code), &account.code)?;
    }
    let changes = genesis.alloc.iter().map(|(address, account)| AccountWrite {
        address: *address,
        version: AccountVersion {
            account: Some(record(account, storage_root(account))),
            incarnation: 0,
        },
        slots: slots(account).collect(),
    });
    tables.put_state(0, &changes.collect::<Vec<_>>())
}

/// Writes the nodes of all tries. Returns the state root.
fn write_trie(tables: &mut Tables<'_>, genesis: &Genesis) -> Result<B256, StoreError> {
    let mut trie = StateTrie::new(EMPTY_ROOT);
    let mut root = EMPTY_ROOT;
    // In the order of the hashes each part of the trie is changed once.
    for part in sorted_accounts(genesis).chunks(TRIE_PART_KEYS) {
        let mut records = Vec::with_capacity(part.len());
        for (_, (address, account)) in part {
            let storage_root = write_storage(tables, &mut trie, *address, account)?;
            records.push((*address, Some(record(account, storage_root))));
        }
        trie.set_accounts(&*tables, &records)?;
        root = trie.root();
        trie.write_to(tables)?;
    }
    Ok(root)
}

/// Sets the slots of an account in its trie. Returns the storage root.
fn write_storage(
    tables: &mut Tables<'_>,
    trie: &mut StateTrie,
    address: Address,
    account: &GenesisAccount,
) -> Result<B256, StoreError> {
    let owner = (address, 0);
    let mut root = EMPTY_ROOT;
    let all: Vec<_> = sorted_slots(account).into_iter().map(|(_, slot)| slot).collect();
    for part in all.chunks(TRIE_PART_KEYS) {
        trie.set_slots(&*tables, owner, root, part.iter().copied())?;
        trie.hash_storages();
        root = trie.storage_root(owner).unwrap_or(root);
        if part.len() == TRIE_PART_KEYS {
            trie.write_to(tables)?;
        }
    }
    Ok(root)
}

/// The accounts with the hashes of their addresses, sorted by hash.
fn sorted_accounts(genesis: &Genesis) -> Vec<(B256, (Address, &GenesisAccount))> {
    let accounts = genesis.alloc.iter();
    let mut entries: Vec<_> = accounts
        .map(|(address, account)| (keccak256(address), (*address, account)))
        .collect();
    entries.sort_unstable_by_key(|(hash, _)| *hash);
    entries
}

/// The slots with the hashes of their keys, sorted by hash.
fn sorted_slots(account: &GenesisAccount) -> Vec<(B256, (U256, U256))> {
    let mut entries: Vec<_> = slots(account)
        .map(|(slot, value)| (keccak256(slot.to_be_bytes::<32>()), (slot, value)))
        .collect();
    entries.sort_unstable_by_key(|(hash, _)| *hash);
    entries
}

/// The slots that are not zero, ascending.
fn slots(account: &GenesisAccount) -> impl Iterator<Item = (U256, U256)> {
    let slots = account.storage.iter().map(|(slot, value)| (*slot, *value));
    slots.filter(|(_, value)| !value.is_zero())
}

fn storage_root(account: &GenesisAccount) -> B256 {
    let root = sorted_root(&sorted_slots(account), &mut |(_, value)| {
        Ok::<_, Infallible>(alloy_rlp::encode(value))
    });
    root.unwrap_or_else(|never| match never {})
}

fn record(account: &GenesisAccount, storage_root: B256) -> AccountRecord {
    AccountRecord {
        tx_nonce: account.tx_nonce,
        balance: account.balance,
        storage_root,
        code_hash: keccak256(&account.code),
    }
}

#[cfg(test)]
mod tests {
    use store::{BlockReads, StateReads, Store};

    use super::*;
    use crate::genesis::ensure_genesis;
    use crate::spec::ChainSpec;
    use crate::state::BlockState;
    use crate::trie::verify_trie;

    /// More accounts and slots than one part of the trie.
    fn large() -> Genesis {
        let mut genesis = ChainSpec::dev().genesis;
        let number = |index: usize| keccak256(index.to_be_bytes());
        for index in 0..TRIE_PART_KEYS * 2 {
            let account = GenesisAccount {
                balance: U256::from(index),
                ..Default::default()
            };
            genesis.alloc.insert(Address::from_word(number(index)), account);
        }
        let slots = (0..TRIE_PART_KEYS + 9).map(|index| (U256::from_be_bytes(number(index).0), index));
        let contract = GenesisAccount {
            tx_nonce: 1,
            code: vec![1, 2, 3].into(),
            storage: slots.map(|(slot, value)| (slot, U256::from(value))).collect(),
            ..Default::default()
        };
        genesis.alloc.insert(Address::repeat_byte(0xcc), contract);
        genesis
    }

    #[test]
    fn a_large_state_is_written_in_parts_and_is_whole() {
        let mut spec = ChainSpec::dev();
        spec.genesis = large();
        let store = Store::in_memory().unwrap();
        ensure_genesis(&store, &spec).unwrap();
        let view = store.snapshot().unwrap();
        let (_, hash) = view.head().unwrap().unwrap();
        let root = view.header_by_hash(&hash).unwrap().unwrap().header.state_root;
        assert_eq!(root, state_root(&spec.genesis));
        // The executor's own way gives the same root.
        let empty = Store::in_memory().unwrap().snapshot().unwrap();
        let mut state = BlockState::new(&empty, 0, EMPTY_ROOT);
        for (address, account) in &spec.genesis.alloc {
            state.set_account(*address, account).unwrap();
        }
        assert_eq!(state.root().unwrap(), root);
        let fault = &mut |_: &[u8], reason| panic!("{reason}");
        let counts = verify_trie(&view, crate::trie::accounts_prefix(), root, fault).unwrap();
        assert_eq!(counts.leaves, spec.genesis.alloc.len() as u64);
        let contract = Address::repeat_byte(0xcc);
        let account = view.account_at(&contract, 0).unwrap().account.unwrap();
        let prefix = crate::trie::storage_prefix(&contract, 0);
        let counts = verify_trie(&view, prefix, account.storage_root, fault).unwrap();
        assert_eq!(counts.leaves, TRIE_PART_KEYS as u64 + 8, "a value is zero");
        assert_eq!(view.code(&account.code_hash).unwrap(), [1, 2, 3]);
    }
}
