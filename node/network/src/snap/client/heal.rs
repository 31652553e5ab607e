//! Finds the rows that differ from the pivot's state: walks its tries from the root down, to where
//! this node's own trie has another hash.
//!
//! A node says of all keys below its path what is there: children, values, and nothing elsewhere.
//! So its values are handed over, the ranges without anything are emptied, and of the children
//! those are fetched whose hash the own trie does not have at that path. What is handed over are
//! rows; the store's own trie follows them. Source: ethereum/devp2p, `caps/snap.md`.

use std::collections::{BTreeMap, HashMap};

use chain::trie::{NodeFormError, PartContent, hex_prefix, node_parts, read_account_value, read_slot_value};
use primitives::{B256, Bytes, DecodeError, EMPTY_ROOT, U256, keccak256};
use store::{AccountRecord, StoreError};

use super::load::{LAST_KEY, WantedCodes};
use super::path::{KEY_NIBBLES, key_below, next_key};
use super::sink::{SnapFigures, SnapSink};
use crate::messages::snap::PathSet;

/// The mark between the path of an account and a path of its storage. It is above all nibbles.
const STORAGE_MARK: u8 = 16;

/// The place of a node: the nibbles of its path; in a storage trie after the nibbles of the account
/// and [`STORAGE_MARK`]. Sorted, it is the order of a walk into the depth.
pub(super) type NodePlace = Vec<u8>;

/// The reason why a walk does not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum WalkError {
    /// The node has the right hash and another form.
    #[error(transparent)]
    Form(#[from] NodeFormError),
    /// A value has another form.
    #[error(transparent)]
    Value(#[from] DecodeError),
    /// A path is longer than a key, or a value does not end one.
    #[error("a path of the trie has {got} nibbles, expected at most {KEY_NIBBLES}")]
    Depth { got: usize },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, Default)]
pub(super) struct Walk {
    /// The nodes to fetch, with their hashes.
    wanted: BTreeMap<NodePlace, B256>,
    /// The number of nodes that are asked for.
    asked: usize,
    /// Accounts that wait for their codes.
    accounts: HashMap<B256, Vec<(B256, AccountRecord)>>,
}

/// The account and the path in the trie of a place.
fn split(place: &[u8]) -> (Option<B256>, &[u8]) {
    match place.split_at_checked(KEY_NIBBLES) {
        Some((account, [STORAGE_MARK, path @ ..])) => (Some(key_below(account, 0)), path),
        _ => (None, place),
    }
}

fn nibbles(key: &B256) -> Vec<u8> {
    key.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).collect()
}

impl Walk {
    /// Begins at the root of a state.
    pub(super) fn begin(root: B256, sink: &mut dyn SnapSink) -> Result<Self, StoreError> {
        let mut walk = Self::default();
        if root == EMPTY_ROOT {
            sink.replace_accounts(&B256::ZERO, &LAST_KEY, &[])?;
        } else {
            walk.want(Vec::new(), root, sink)?;
        }
        Ok(walk)
    }

    /// Whether nothing is left to fetch.
    pub(super) fn is_done(&self) -> bool {
        self.wanted.is_empty() && self.asked == 0 && self.accounts.is_empty()
    }

    fn want(&mut self, place: NodePlace, hash: B256, sink: &dyn SnapSink) -> Result<(), StoreError> {
        let (account, path) = split(&place);
        let own = sink.node(account.as_ref(), path)?;
        if own.is_none_or(|own| keccak256(own) != hash) {
            self.wanted.insert(place, hash);
        }
        Ok(())
    }

    /// The next nodes to ask for, at most `most`, in order of their places.
    pub(super) fn take(&mut self, most: usize) -> Vec<(NodePlace, B256)> {
        let taken: Vec<_> = (0..most).map_while(|_| self.wanted.pop_first()).collect();
        self.asked += taken.len();
        taken
    }

    /// Nodes that were asked for did not come.
    pub(super) fn put_back(&mut self, nodes: Vec<(NodePlace, B256)>) {
        self.asked -= nodes.len();
        self.wanted.extend(nodes);
    }

    /// A node that was asked for has come. Its hash is right.
    pub(super) fn node_came(
        &mut self,
        place: &NodePlace,
        rlp: &[u8],
        (codes, figures): (&mut WantedCodes, &mut SnapFigures),
        sink: &mut dyn SnapSink,
    ) -> Result<(), WalkError> {
        self.asked -= 1;
        figures.healed += 1;
        let (account, path) = split(place);
        let (mut next, end) = (Some(key_below(path, 0)), key_below(path, 15));
        for part in node_parts(rlp)? {
            let full = [path, &part.path].concat();
            let is_value = matches!(part.content, PartContent::Value(_));
            if full.len() > KEY_NIBBLES || is_value != (full.len() == KEY_NIBBLES) {
                return Err(WalkError::Depth { got: full.len() });
            }
            let (low, high) = (key_below(&full, 0), key_below(&full, 15));
            if let Some(first) = next.filter(|first| *first < low) {
                // The key below `low`.
                let last = B256::from(U256::from_be_bytes(low.0) - U256::from(1));
                empty(account.as_ref(), &first, &last, sink)?;
            }
            next = next_key(&high);
            match part.content {
                PartContent::Child(hash) => {
                    let below = [&place[..], &part.path].concat();
                    self.want(below, hash, sink)?;
                }
                PartContent::Value(value) => match account {
                    Some(owner) => {
                        let value = read_slot_value(&value)?;
                        sink.replace_slots(&owner, &low, &low, &[(low, value)])?;
                        figures.slots += 1;
                    }
                    None => self.account_came(low, read_account_value(&value)?, (codes, figures), sink)?,
                },
            }
        }
        if let Some(first) = next.filter(|first| *first <= end) {
            empty(account.as_ref(), &first, &end, sink)?;
        }
        Ok(())
    }

    fn account_came(
        &mut self,
        hash: B256,
        account: AccountRecord,
        (codes, figures): (&mut WantedCodes, &mut SnapFigures),
        sink: &mut dyn SnapSink,
    ) -> Result<(), StoreError> {
        if account.storage_root == EMPTY_ROOT {
            sink.replace_slots(&hash, &B256::ZERO, &LAST_KEY, &[])?;
        } else {
            let place = [&nibbles(&hash)[..], &[STORAGE_MARK]].concat();
            self.want(place, account.storage_root, sink)?;
        }
        if codes.is_here(&account.code_hash, sink)? {
            sink.replace_accounts(&hash, &hash, &[(hash, account)])?;
            figures.accounts += 1;
        } else {
            self.accounts
                .entry(account.code_hash)
                .or_default()
                .push((hash, account));
        }
        Ok(())
    }

    /// A code is here now: the accounts that have waited for it are handed over.
    pub(super) fn code_came(
        &mut self,
        code: &B256,
        figures: &mut SnapFigures,
        sink: &mut dyn SnapSink,
    ) -> Result<(), StoreError> {
        for (hash, account) in self.accounts.remove(code).unwrap_or_default() {
            sink.replace_accounts(&hash, &hash, &[(hash, account)])?;
            figures.accounts += 1;
        }
        Ok(())
    }
}

/// Empties a range of the state's trie, or of an account's storage.
fn empty(
    account: Option<&B256>,
    first: &B256,
    last: &B256,
    sink: &mut dyn SnapSink,
) -> Result<(), StoreError> {
    match account {
        Some(owner) => sink.replace_slots(owner, first, last, &[]),
        None => sink.replace_accounts(first, last, &[]),
    }
}

/// The paths of nodes as a request has them: those of one storage are in one set.
pub(super) fn path_sets(nodes: &[(NodePlace, B256)]) -> Vec<PathSet> {
    let mut sets: Vec<PathSet> = Vec::new();
    let mut owner_of_last = None;
    for (place, _) in nodes {
        let (owner, path) = split(place);
        match (owner, sets.last_mut()) {
            (Some(_), Some(set)) if owner == owner_of_last => set.push(Bytes::from(hex_prefix(path))),
            (Some(owner), _) => sets.push(vec![
                Bytes::copy_from_slice(owner.as_slice()),
                Bytes::from(hex_prefix(path)),
            ]),
            (None, _) => sets.push(vec![Bytes::from(hex_prefix(path))]),
        }
        owner_of_last = owner;
    }
    sets
}
