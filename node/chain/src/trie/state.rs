//! The state trie: accounts under the hashes of addresses, each with a storage trie.
//!
//! Storage tries of different incarnations of an account lie apart, so a destroyed
//! account's storage needs no deletion here either.

use super::{NodeRows, NodeSource, Trie};
use alloy_rlp::Encodable;
use primitives::{Address, B256, U256, keccak256};
use std::collections::HashMap;
use store::{AccountRecord, StoreError, Tables};

/// Prefix of the account trie's rows.
const ACCOUNTS: u8 = 0;
/// Prefix of storage tries' rows; address and incarnation follow.
const STORAGE: u8 = 1;

/// The account trie and those storage tries that change.
#[derive(Debug)]
pub struct StateTrie {
    accounts: Trie,
    storages: HashMap<(Address, u32), Trie>,
}

impl StateTrie {
    /// The state with this root. Nodes come from the source given to each change.
    pub fn new(root: B256) -> Self {
        Self {
            accounts: Trie::new(accounts_prefix(), root),
            storages: HashMap::new(),
        }
    }

    /// Sets slots of an account (zero removes one) and returns its new storage root.
    ///
    /// `root` is the storage root before the first change, `incarnation` says whose storage.
    ///
    /// # Errors
    /// [`StoreError`] when a trie node is missing, altered or unreadable.
    pub fn set_slots<'a>(
        &mut self,
        source: &impl NodeSource,
        (address, incarnation): (Address, u32),
        root: B256,
        slots: impl IntoIterator<Item = (&'a U256, &'a U256)>,
    ) -> Result<B256, StoreError> {
        let trie = self
            .storages
            .entry((address, incarnation))
            .or_insert_with(|| Trie::new(storage_prefix(&address, incarnation), root));
        for (slot, value) in slots {
            let key = keccak256(slot.to_be_bytes::<32>());
            if value.is_zero() {
                trie.remove(source, key.as_slice())?;
            } else {
                trie.insert(source, key.as_slice(), &alloy_rlp::encode(value))?;
            }
        }
        Ok(trie.root())
    }

    /// Sets an account, or removes it.
    ///
    /// # Errors
    /// [`StoreError`] when a trie node is missing, altered or unreadable.
    pub fn set_account(
        &mut self,
        source: &impl NodeSource,
        address: &Address,
        account: Option<&AccountRecord>,
    ) -> Result<(), StoreError> {
        let key = keccak256(address);
        match account {
            Some(account) => self
                .accounts
                .insert(source, key.as_slice(), &encode_account(account)),
            None => self.accounts.remove(source, key.as_slice()),
        }
    }

    /// The state root as it is now.
    pub fn root(&mut self) -> B256 {
        self.accounts.root()
    }

    /// Writes the changed nodes; returns how many rows that took.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    pub fn commit(&mut self, tables: &mut Tables<'_>) -> Result<usize, StoreError> {
        let mut rows: NodeRows = self.accounts.commit().1;
        for trie in self.storages.values_mut() {
            rows.append(&mut trie.commit().1);
        }
        for (path, node) in &rows {
            tables.put_trie_node(path, node.as_deref())?;
        }
        Ok(rows.len())
    }
}

/// Where the rows of the account trie begin.
pub(crate) fn accounts_prefix() -> Vec<u8> {
    vec![ACCOUNTS]
}

/// Where the rows of a storage trie begin.
pub(crate) fn storage_prefix(address: &Address, incarnation: u32) -> Vec<u8> {
    [&[STORAGE][..], address.as_slice(), &incarnation.to_be_bytes()].concat()
}

/// RLP of an account as the state trie holds it.
pub(crate) fn encode_account(account: &AccountRecord) -> Vec<u8> {
    let mut payload = Vec::with_capacity(110);
    account.tx_nonce.encode(&mut payload);
    account.balance.encode(&mut payload);
    account.storage_root.encode(&mut payload);
    account.code_hash.encode(&mut payload);
    let mut out = Vec::with_capacity(payload.len() + 2);
    alloy_rlp::Header {
        list: true,
        payload_length: payload.len(),
    }
    .encode(&mut out);
    out.extend_from_slice(&payload);
    out
}
