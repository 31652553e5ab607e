//! The leaves of the tries of the state: they are made of the rows of accounts and slots.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use primitives::{B256, U256};

use super::history::StateRow;
use super::{
    AccountKey, AccountRecord, AccountVersion, StateChanges, StateKind, StateTrieId, decode_slot_value, walk,
};
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

/// The leaves of a past state that differ from those of the head state. They are collected from
/// the head downwards, from the changes of each block. So a read costs no search in the changes of
/// later blocks.
#[derive(Clone, Debug, Default)]
pub struct PastLeaves(BTreeMap<StateTrieId, BTreeMap<B256, Option<StateLeaf>>>);

impl PastLeaves {
    /// Goes on to the state before a block, whose changes these are.
    pub fn take_back(&mut self, changes: &StateChanges) {
        let accounts = self.0.entry(StateTrieId::Accounts).or_default();
        for (address, before) in &changes.accounts {
            accounts.insert(AccountKey::of(address).0, before.account.map(StateLeaf::Account));
        }
        for change in &changes.slots {
            let key = change.row_key();
            let slots = self.0.entry(StateTrieId::Storage(key.owner)).or_default();
            slots.insert(
                key.hash,
                (!change.before.is_zero()).then_some(StateLeaf::Slot(change.before)),
            );
        }
    }

    /// The first leaf of a trie whose key begins with these nibbles. `source` has the head state.
    pub(super) fn first(
        &self,
        source: &impl Source,
        trie: StateTrieId,
        nibbles: &[u8],
    ) -> Result<Option<(B256, StateLeaf)>, StoreError> {
        let Some(changed) = self.0.get(&trie) else {
            return trie_leaf(source, trie, nibbles, |_| false);
        };
        let mut changed_here = changed
            .range(lowest_hash(nibbles)..)
            .take_while(|(hash, _)| begins_with(hash, nibbles));
        let past = changed_here.find_map(|(hash, leaf)| leaf.map(|leaf| (*hash, leaf)));
        let stored = trie_leaf(source, trie, nibbles, |hash| changed.contains_key(hash))?;
        let both = past.into_iter().chain(stored);
        Ok(both.min_by_key(|(hash, _)| *hash))
    }
}

/// The first present row of a trie whose key begins with these nibbles and is not `passed_over`.
pub(super) fn trie_leaf(
    source: &impl Source,
    trie: StateTrieId,
    nibbles: &[u8],
    passed_over: impl Fn(&B256) -> bool,
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
        if passed_over(&hash) {
            return ControlFlow::Continue(());
        }
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
    source: &impl Source,
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
