//! The accounts of block 0: their state root, and their rows.
//!
//! A genesis file may have a million accounts. So the tries are built in the order of the keys,
//! without keeping nodes. This module knows accounts, but neither headers nor files.

use std::cell::RefCell;
use std::collections::HashMap;

use ethash::keccak256_many;
use primitives::{B256, EMPTY_CODE_HASH, EMPTY_ROOT, keccak256};
use store::{
    AccountKey, AccountRecord, AccountVersion, AccountWrite, SlotWrite, StateTrieId, StoreError, Tables,
};

use crate::spec::{Genesis, GenesisAccount};
use crate::trie::{SortedTrie, encode_account, sorted_root};

/// The number of addresses that are hashed together.
const HASHED_TOGETHER: usize = 1024;

/// The state root of the accounts of block 0.
pub(super) fn state_root(genesis: &Genesis) -> B256 {
    sorted_root(sorted(genesis).into_iter().map(|(key, index)| {
        let account = &genesis.alloc[index];
        let slots = slots(account).into_iter();
        let root = sorted_root(slots.map(|slot| (slot.hash, alloy_rlp::encode(slot.value))));
        (key.0, encode_account(&record(account, root)))
    }))
}

/// Writes the accounts of block 0: values, code and the tries. Returns the state root.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub(crate) fn write(tables: &mut Tables<'_>, genesis: &Genesis) -> Result<B256, StoreError> {
    let sorted = sorted(genesis);
    let mut storage_roots = HashMap::new();
    let shared = RefCell::new(&mut *tables);
    let mut accounts = SortedTrie::new(put_node(&shared, StateTrieId::Accounts));
    for (key, index) in &sorted {
        let account = &genesis.alloc[*index];
        let mut storage_root = EMPTY_ROOT;
        if !account.storage.is_empty() {
            let mut storage = SortedTrie::new(put_node(&shared, StateTrieId::Storage(key.storage(0))));
            for slot in slots(account) {
                storage.add(&slot.hash, alloy_rlp::encode(slot.value))?;
            }
            storage_root = storage.finish()?;
            storage_roots.insert(*key, storage_root);
        }
        if !account.code.is_empty() {
            let hash = keccak256(&account.code);
            shared.borrow_mut().put_code(&hash, &account.code)?;
        }
        accounts.add(&key.0, encode_account(&record(account, storage_root)))?;
    }
    let state_root = accounts.finish()?;
    let writes = sorted.into_iter().map(|(key, index)| {
        let (address, account) = genesis.alloc.get_index(index).expect("an index of the list");
        let storage_root = storage_roots.get(&key).copied().unwrap_or(EMPTY_ROOT);
        AccountWrite {
            address: *address,
            key,
            version: AccountVersion {
                account: Some(record(account, storage_root)),
                incarnation: 0,
            },
            slots: slots(account),
        }
    });
    tables.put_sorted_state(0, writes)?;
    Ok(state_root)
}

/// Writes nodes of a trie.
fn put_node<'a>(
    tables: &'a RefCell<&mut Tables<'_>>,
    trie: StateTrieId,
) -> impl FnMut(&[u8], Vec<u8>) -> Result<(), StoreError> + 'a {
    let prefix = trie.prefix();
    move |path, row| {
        tables
            .borrow_mut()
            .put_trie_node(&[&prefix, path].concat(), Some(&row))
    }
}

/// The keys of the accounts, ascending, and the places of the accounts in `alloc`.
fn sorted(genesis: &Genesis) -> Vec<(AccountKey, usize)> {
    let addresses: Vec<&[u8]> = genesis.alloc.keys().map(|address| address.as_slice()).collect();
    let hashes = addresses.chunks(HASHED_TOGETHER).flat_map(keccak256_many);
    let keys = hashes.map(|hash| AccountKey(B256::new(hash)));
    let mut sorted: Vec<_> = keys.zip(0..).collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    sorted
}

/// The slots that are not zero, sorted by hash.
fn slots(account: &GenesisAccount) -> Vec<SlotWrite> {
    let slots = account.storage.iter().filter(|(_, value)| !value.is_zero());
    let mut slots: Vec<_> = slots.map(|(slot, value)| SlotWrite::new(*slot, *value)).collect();
    slots.sort_unstable_by_key(|slot| slot.hash);
    slots
}

fn record(account: &GenesisAccount, storage_root: B256) -> AccountRecord {
    AccountRecord {
        tx_nonce: account.tx_nonce,
        balance: account.balance,
        storage_root,
        code_hash: if account.code.is_empty() {
            EMPTY_CODE_HASH
        } else {
            keccak256(&account.code)
        },
    }
}

#[cfg(test)]
mod tests {
    use primitives::{Address, U256};
    use store::{BlockReads, StateReads, Store};

    use super::*;
    use crate::genesis::ensure_genesis;
    use crate::spec::ChainSpec;
    use crate::state::BlockState;
    use crate::trie::verify_trie;

    /// Accounts and slots.
    const KEYS: usize = 20_000;

    fn large() -> Genesis {
        let mut genesis = ChainSpec::dev().genesis;
        let number = |index: usize| keccak256(index.to_be_bytes());
        for index in 0..KEYS * 2 {
            let account = GenesisAccount {
                balance: U256::from(index),
                ..Default::default()
            };
            genesis.alloc.insert(Address::from_word(number(index)), account);
        }
        let slots = (0..KEYS + 9).map(|index| (U256::from_be_bytes(number(index).0), index));
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
    fn a_large_state_is_whole() {
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
        let counts = verify_trie(&view, StateTrieId::Accounts.prefix(), root, fault).unwrap();
        assert_eq!(counts.leaves, spec.genesis.alloc.len() as u64);
        let contract = Address::repeat_byte(0xcc);
        let account = view.account_at(&contract, 0).unwrap().account.unwrap();
        let prefix = StateTrieId::Storage(AccountKey::of(&contract).storage(0)).prefix();
        let counts = verify_trie(&view, prefix, account.storage_root, fault).unwrap();
        assert_eq!(counts.leaves, KEYS as u64 + 8, "a value is zero");
        assert_eq!(view.code(&account.code_hash).unwrap(), [1, 2, 3]);
    }
}
