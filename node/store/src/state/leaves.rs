//! The leaves of the tries of the state: they are made of the rows of accounts and slots.

use std::ops::ControlFlow;

use primitives::{B256, U256};

use super::history::StateRow;
use super::{AccountKey, AccountRecord, AccountVersion, StateKind, StateTrieId, decode_slot_value, walk};
use crate::StoreError;
use crate::row_error::RowError;
use crate::source::Source;

/// A leaf of a trie of the state: what the row of an account or a slot has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateLeaf {
    /// An account.
    Account(AccountRecord),
    /// The value of a slot.
    Slot(U256),
}

/// The first present row of a trie whose key begins with these nibbles.
pub(super) fn trie_leaf(
    source: &(impl Source + ?Sized),
    trie: StateTrieId,
    nibbles: &[u8],
) -> Result<Option<(B256, StateLeaf)>, StoreError> {
    let (kind, prefix) = match trie {
        StateTrieId::Accounts => (StateKind::Account, Vec::new()),
        StateTrieId::Storage(owner) => (StateKind::Slot, owner.to_bytes().to_vec()),
    };
    let low = [prefix.as_slice(), lowest_hash(nibbles).as_slice()].concat();
    let table = kind.present();
    let mut found = None;
    source.visit_from(table, &low, &mut |key, row| {
        let hash = key
            .strip_prefix(prefix.as_slice())
            .filter(|hash| hash.len() == 32);
        let Some(hash) = hash
            .map(B256::from_slice)
            .filter(|hash| begins_with(hash, nibbles))
        else {
            return ControlFlow::Break(());
        };
        let leaf = StateRow::parse(kind, row).and_then(|row| {
            Ok(match kind {
                StateKind::Account => {
                    let version = AccountVersion::decode(row.value)?;
                    StateLeaf::Account(version.account.ok_or(RowError::NotPresent)?)
                }
                StateKind::Slot => StateLeaf::Slot(decode_slot_value(row.value)?),
            })
        });
        let leaf = leaf.map_err(|error| error.in_row(table, key));
        found = Some(leaf.map(|leaf| (hash, leaf)));
        ControlFlow::Break(())
    })?;
    found.transpose()
}

/// The first leaf of a trie after block `number` whose key begins with these nibbles.
pub(super) fn past_trie_leaf(
    source: &(impl Source + ?Sized),
    trie: StateTrieId,
    nibbles: &[u8],
    number: u64,
) -> Result<Option<(B256, StateLeaf)>, StoreError> {
    let low = lowest_hash(nibbles);
    let found = match trie {
        StateTrieId::Accounts => {
            let first = walk::first_account(source, &AccountKey(low), nibbles, number)?;
            first.map(|found| (found.key.0, StateLeaf::Account(found.account)))
        }
        StateTrieId::Storage(owner) => {
            let first = walk::first_slot(source, &owner, &low, nibbles, number)?;
            first.map(|found| (found.hash, StateLeaf::Slot(found.value)))
        }
    };
    Ok(found)
}

/// The lowest hash that begins with these nibbles.
fn lowest_hash(nibbles: &[u8]) -> B256 {
    let mut low = B256::ZERO;
    for (at, nibble) in nibbles.iter().enumerate().take(64) {
        low[at / 2] |= nibble << (4 * (1 - at % 2));
    }
    low
}

/// Whether a hash begins with these nibbles.
pub(super) fn begins_with(hash: &B256, nibbles: &[u8]) -> bool {
    let nibble = |at: usize| (hash[at / 2] >> (4 * (1 - at % 2))) & 0xf;
    nibbles.len() <= 64
        && nibbles
            .iter()
            .enumerate()
            .all(|(at, wanted)| nibble(at) == *wanted)
}
