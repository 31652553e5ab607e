//! Proofs of an account and of slots of its storage against the state root (EIP-1186).
//!
//! The store keeps the nodes of the tries of the last [`KEPT_TRIES`](crate::import::KEPT_TRIES)
//! blocks, so there are no proofs of older states.

use primitives::{Address, B256, EMPTY_CODE_HASH, EMPTY_ROOT, U256};
use store::{AccountKey, StateReads, StateTrieId, StoreError, slot_hash};

use crate::trie::{PastNodes, trie_proof};
use crate::view::View;

/// An account with its proof. All values are those after one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountProof {
    /// The nonce; 0 if the account does not exist.
    pub tx_nonce: u64,
    /// The balance; 0 if the account does not exist.
    pub balance: U256,
    /// The hash of the code; that of no code if the account does not exist.
    pub code_hash: B256,
    /// The root of the storage; that of an empty trie if the account does not exist.
    pub storage_root: B256,
    /// The nodes of the state trie on the account's path, the root first.
    pub nodes: Vec<Vec<u8>>,
    /// A proof for each slot, in the order in which they were asked for.
    pub slots: Vec<SlotProof>,
}

/// A slot of an account's storage with its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotProof {
    /// The slot.
    pub slot: U256,
    /// Its value.
    pub value: U256,
    /// The nodes of the storage trie on the slot's path, the root first.
    pub nodes: Vec<Vec<u8>>,
}

impl View {
    /// Proves an account and slots of its storage after block `number`. `None` if the tries of that
    /// state are not kept: [`Self::oldest_tries`] says which are.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails, or a trie node is missing or altered.
    pub fn proof(
        &self,
        number: u64,
        address: &Address,
        slots: &[U256],
    ) -> Result<Option<AccountProof>, StoreError> {
        let snapshot = self.snapshot();
        let (Some(index), Some((_, record))) = (self.past_nodes(number)?, self.header(number)?) else {
            return Ok(None);
        };
        let (tries, root) = (PastNodes::new(snapshot, &index), record.header.state_root);
        let key = AccountKey::of(address);
        let nodes = trie_proof(&tries, &StateTrieId::Accounts.prefix(), root, key.0.as_slice())?;
        let version = snapshot.account_by_key(&key, number)?;
        let storage_root = version.account.map_or(EMPTY_ROOT, |account| account.storage_root);
        let prefix = StateTrieId::Storage(key.storage(version.incarnation)).prefix();
        let slots = slots.iter().map(|slot| {
            let key = slot_hash(slot);
            Ok(SlotProof {
                slot: *slot,
                value: self.slot(address, slot, number)?,
                nodes: trie_proof(&tries, &prefix, storage_root, key.as_slice())?,
            })
        });
        Ok(Some(AccountProof {
            tx_nonce: version.account.map_or(0, |account| account.tx_nonce),
            balance: version.account.map_or(U256::ZERO, |account| account.balance),
            code_hash: version
                .account
                .map_or(EMPTY_CODE_HASH, |account| account.code_hash),
            storage_root,
            nodes,
            slots: slots.collect::<Result<_, StoreError>>()?,
        }))
    }
}
