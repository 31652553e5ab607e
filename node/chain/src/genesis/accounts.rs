//! The accounts of block 0: their state root, and their rows.
//!
//! A genesis file may have a million accounts. So the tries are built in the order of the keys,
//! without keeping nodes. This module knows accounts, but neither headers nor files.

use primitives::{B256, keccak256};
use store::{
    AccountKey, AccountRecord, AccountVersion, AccountWrite, SlotWrite, StateTrieId, StoreError, TableId,
    Tables,
};

use crate::spec::{Genesis, GenesisAccount};
use crate::trie::{SortedTrie, encode_account, sorted_root};

/// The state root of the accounts of block 0.
pub(super) fn state_root(genesis: &Genesis) -> B256 {
    let writes = writes(genesis).into_iter();
    sorted_root(writes.filter_map(|write| Some((write.key.0, encode_account(&write.version.account?)))))
}

/// Writes the accounts of block 0: values, code, and the tries, of which that of the accounts must
/// have the root `state_root`.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub(super) fn write(tables: &mut Tables<'_>, genesis: &Genesis, state_root: B256) -> Result<(), StoreError> {
    let changes = writes(genesis);
    let mut accounts = SortedTrie::new(put_node(tables, StateTrieId::Accounts));
    for write in &changes {
        if let Some(account) = &write.version.account {
            accounts.add(&write.key.0, encode_account(account))?;
        }
    }
    let got = accounts.finish()?;
    if got != state_root {
        return Err(StoreError::corrupt(
            TableId::PathToTrieNode,
            &[],
            format!("state root of block 0: got {got}, expected {state_root}"),
        ));
    }
    for write in changes.iter().filter(|write| !write.slots.is_empty()) {
        let mut storage = SortedTrie::new(put_node(tables, StateTrieId::Storage(write.storage())));
        for slot in &write.slots {
            storage.add(&slot.hash, alloy_rlp::encode(slot.value))?;
        }
        storage.finish()?;
    }
    for account in genesis.alloc.values().filter(|account| !account.code.is_empty()) {
        tables.put_code(&keccak256(&account.code), &account.code)?;
    }
    tables.put_state(0, &changes)
}

/// Writes nodes of a trie.
fn put_node<'a>(
    tables: &'a mut Tables<'_>,
    trie: StateTrieId,
) -> impl FnMut(&[u8], Vec<u8>) -> Result<(), StoreError> + 'a {
    let prefix = trie.prefix();
    move |path, row| tables.put_trie_node(&[&prefix, path].concat(), Some(&row))
}

/// The accounts, sorted by key, with their slots, sorted by hash.
fn writes(genesis: &Genesis) -> Vec<AccountWrite> {
    let accounts = genesis.alloc.iter();
    let mut writes: Vec<_> = accounts
        .map(|(address, account)| {
            let slots = slots(account);
            AccountWrite {
                address: *address,
                key: AccountKey::of(address),
                version: AccountVersion {
                    account: Some(record(account, &slots)),
                    incarnation: 0,
                },
                slots,
            }
        })
        .collect();
    writes.sort_unstable_by_key(|write| write.key);
    writes
}

/// The slots that are not zero, sorted by hash.
fn slots(account: &GenesisAccount) -> Vec<SlotWrite> {
    let slots = account.storage.iter().filter(|(_, value)| !value.is_zero());
    let mut slots: Vec<_> = slots.map(|(slot, value)| SlotWrite::new(*slot, *value)).collect();
    slots.sort_unstable_by_key(|slot| slot.hash);
    slots
}

fn record(account: &GenesisAccount, slots: &[SlotWrite]) -> AccountRecord {
    AccountRecord {
        tx_nonce: account.tx_nonce,
        balance: account.balance,
        storage_root: sorted_root(
            slots
                .iter()
                .map(|slot| (slot.hash, alloy_rlp::encode(slot.value))),
        ),
        code_hash: keccak256(&account.code),
    }
}

#[cfg(test)]
mod tests {
    use primitives::{Address, EMPTY_ROOT, U256};
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
