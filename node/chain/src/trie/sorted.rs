//! Builds a trie from entries that come sorted by key, without keeping nodes.
//!
//! Only the branches on the path of the last key are in memory. Each node is complete when a key
//! behind it comes; then it is given away. `db check` compares the root with that of the trie that
//! is changed in place. The two share only the encoding of nodes, so that a fault in one does not
//! hide in the other. Source: Ethereum Yellow Paper, appendix D.

use std::convert::Infallible;

use alloy_rlp::{EMPTY_STRING_CODE, Encodable};
use primitives::rlp::{RlpReader, encode_fields_to_vec};
use primitives::{B256, EMPTY_ROOT, keccak256};

use super::node::{InlineNode, NodeReference, nibbles, push_hex_prefix, push_leaf_bits, wrap_list};

/// Nibbles of a key.
const KEY_NIBBLES: usize = 64;

/// A trie that is being built. `put` takes each row of a branch or an extension: the path, one
/// nibble per byte, and the row.
pub(crate) struct SortedTrie<F> {
    put: F,
    /// The branches on the path of the last key, the highest first.
    branches: Vec<OpenBranch>,
    last: Option<LastEntry>,
    entries: u64,
}

/// The entry that was added last. Its leaf is made when the next key is known.
struct LastEntry {
    key: Vec<u8>,
    value: Vec<u8>,
    /// The length of the prefix that it shares with the key before; `None` for the first key.
    shared_before: Option<usize>,
}

/// A branch that may get more children.
struct OpenBranch {
    /// The length of its path, in nibbles.
    depth: usize,
    children: [Option<NodeReference>; 16],
    /// Which children are leaves with a hash.
    leaves: u16,
}

impl<E, F: FnMut(&[u8], Vec<u8>) -> Result<(), E>> SortedTrie<F> {
    pub(crate) const fn new(put: F) -> Self {
        Self {
            put,
            branches: Vec::new(),
            last: None,
            entries: 0,
        }
    }

    /// Goes on where a trie was when [`Self::state`] was called; `None` if `state` is not what that
    /// returned.
    pub(crate) fn resume(put: F, state: &[u8]) -> Option<Self> {
        let mut fields = RlpReader::open(state, "state of a trie").ok()?;
        let entries = fields.u64("entries").ok()?;
        let last = read_last(&mut fields.list("last entry").ok()?)?;
        let mut open = fields.list("open branches").ok()?;
        let mut branches: Vec<OpenBranch> = Vec::new();
        while !open.is_empty() {
            let branch = OpenBranch::read(&mut open.list("open branch").ok()?)?;
            let is_below = branches.last().is_none_or(|above| above.depth < branch.depth);
            branches.push(Some(branch).filter(|_| is_below && last.is_some())?);
        }
        Some(Self {
            put,
            branches,
            last,
            entries,
        })
    }

    /// All that a build needs to go on: the last entry and the open branches, as RLP.
    pub(crate) fn state(&self) -> Vec<u8> {
        let last = self.last.as_ref().map_or_else(
            || encode_fields_to_vec(&[]),
            |last| {
                let shared = last.shared_before.map_or(0, |nibbles| nibbles + 1);
                encode_fields_to_vec(&[&pack(&last.key), &last.value.as_slice(), &shared])
            },
        );
        let branches: Vec<u8> = self.branches.iter().flat_map(OpenBranch::state).collect();
        let mut state = Vec::new();
        self.entries.encode(&mut state);
        state.extend(last);
        state.extend(list(branches));
        list(state)
    }

    /// The key of the last entry; `None` if there is none.
    pub(crate) fn last_key(&self) -> Option<B256> {
        self.last.as_ref().map(|last| pack(&last.key))
    }

    /// Adds an entry. Its key is above all keys before, and its value is not empty.
    ///
    /// # Errors
    /// Any error of `put`.
    pub(crate) fn add(&mut self, key: &B256, value: Vec<u8>) -> Result<(), E> {
        let key = nibbles(key.as_slice());
        self.entries += 1;
        let shared_before = match self.last.take() {
            None => None,
            Some(last) => {
                debug_assert!(last.key < key, "keys are strictly ascending");
                let shared = last.key.iter().zip(&key).take_while(|(a, b)| a == b).count();
                self.put_leaf(&last, Some(shared));
                self.close_below(&last.key, Some(shared))?;
                Some(shared)
            }
        };
        self.last = Some(LastEntry {
            key,
            value,
            shared_before,
        });
        Ok(())
    }

    /// The number of entries so far.
    pub(crate) const fn entries(&self) -> u64 {
        self.entries
    }

    /// Ends the trie and returns its root.
    ///
    /// # Errors
    /// Any error of `put`.
    pub(crate) fn finish(mut self) -> Result<B256, E> {
        let Some(last) = self.last.take() else {
            return Ok(EMPTY_ROOT);
        };
        if last.shared_before.is_none() {
            return Ok(keccak256(leaf(&last.key, &last.value)));
        }
        self.put_leaf(&last, None);
        let root = self.close_below(&last.key, None)?;
        Ok(root.unwrap_or(EMPTY_ROOT))
    }

    /// Puts the leaf of an entry into the deepest branch that it shares with a neighbour.
    fn put_leaf(&mut self, entry: &LastEntry, shared_after: Option<usize>) {
        let Some(depth) = entry.shared_before.max(shared_after) else {
            return;
        };
        let reference = NodeReference::of(&leaf(&entry.key[depth + 1..], &entry.value));
        let nibble = entry.key[depth];
        let branch = self.branch_at(depth);
        if matches!(reference, NodeReference::Hash(_)) {
            branch.leaves |= 1 << nibble;
        }
        branch.children[usize::from(nibble)] = Some(reference);
    }

    /// The open branch at `depth`, which is not above the deepest one.
    fn branch_at(&mut self, depth: usize) -> &mut OpenBranch {
        if self.branches.last().is_none_or(|branch| branch.depth < depth) {
            self.branches.push(OpenBranch {
                depth,
                children: Default::default(),
                leaves: 0,
            });
        }
        self.branches.last_mut().expect("one was pushed")
    }

    /// Ends the branches deeper than `depth` on the path of `key`; all if it is `None`. Returns the
    /// hash of the root then.
    fn close_below(&mut self, key: &[u8], depth: Option<usize>) -> Result<Option<B256>, E> {
        while let Some(branch) = self
            .branches
            .pop_if(|branch| depth.is_none_or(|depth| branch.depth > depth))
        {
            let above = self.branches.last().map(|branch| branch.depth).max(depth);
            // The node stands below its parent's nibble, or at the root.
            let start = above.map_or(0, |above| above + 1);
            let (rlp, row) = branch.encode();
            let mut reference = self.give(&key[..branch.depth], &rlp, row, branch.depth == 0)?;
            let mut rlp = rlp;
            if start < branch.depth {
                rlp = extension(&key[start..branch.depth], &reference);
                reference = self.give(&key[..start], &rlp, rlp.clone(), start == 0)?;
            }
            match above {
                Some(above) => self.branch_at(above).children[usize::from(key[above])] = Some(reference),
                None => return Ok(Some(keccak256(rlp))),
            }
        }
        Ok(None)
    }

    /// Gives the row of a node away, unless the node is so short that its parent has it. The root
    /// always has a row.
    fn give(&mut self, path: &[u8], rlp: &[u8], row: Vec<u8>, is_root: bool) -> Result<NodeReference, E> {
        let reference = NodeReference::of(rlp);
        if is_root || matches!(reference, NodeReference::Hash(_)) {
            (self.put)(path, row)?;
        }
        Ok(reference)
    }
}

impl OpenBranch {
    /// The branch in [`SortedTrie::state`].
    fn state(&self) -> Vec<u8> {
        let mut state = Vec::new();
        self.depth.encode(&mut state);
        self.leaves.encode(&mut state);
        for child in &self.children {
            let bytes = match child {
                None => &[],
                Some(NodeReference::Hash(hash)) => hash.as_slice(),
                Some(NodeReference::Inline(node)) => node.rlp(),
            };
            bytes.encode(&mut state);
        }
        list(state)
    }

    fn read(fields: &mut RlpReader<'_>) -> Option<Self> {
        let depth = read_depth(fields)?;
        let leaves = u16::try_from(fields.u64("leaves").ok()?).ok()?;
        let mut children: [Option<NodeReference>; 16] = Default::default();
        for child in &mut children {
            *child = match fields.slice("child").ok()? {
                [] => None,
                bytes => Some(match bytes.try_into() {
                    Ok(hash) => NodeReference::Hash(B256::new(hash)),
                    Err(_) => NodeReference::Inline(InlineNode::new(bytes).ok()?),
                }),
            };
        }
        Some(Self {
            depth,
            children,
            leaves,
        })
    }

    /// The RLP and the row.
    fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let mut payload = Vec::with_capacity(17 * 33 + 5);
        for child in &self.children {
            match child {
                None => payload.push(EMPTY_STRING_CODE),
                Some(reference) => push_reference(reference, &mut payload),
            }
        }
        // All keys have the same length, so no branch has a value.
        payload.push(EMPTY_STRING_CODE);
        let rlp = list(payload);
        let mut row = rlp.clone();
        push_leaf_bits(self.leaves, &mut row);
        (rlp, row)
    }
}

/// The root of the trie with these entries, sorted by key.
pub(crate) fn sorted_root(entries: impl IntoIterator<Item = (B256, Vec<u8>)>) -> B256 {
    let mut trie = SortedTrie::new(|_: &[u8], _| Ok::<_, Infallible>(()));
    let added = entries
        .into_iter()
        .try_for_each(|(key, value)| trie.add(&key, value));
    added
        .and_then(|()| trie.finish())
        .unwrap_or_else(|never| match never {})
}

/// A number of nibbles that is below the length of a key.
fn read_depth(fields: &mut RlpReader<'_>) -> Option<usize> {
    let depth = usize::try_from(fields.u64("depth").ok()?).ok()?;
    (depth < KEY_NIBBLES).then_some(depth)
}

/// The last entry in [`SortedTrie::state`], which may have none. The outer `None` is an error.
fn read_last(fields: &mut RlpReader<'_>) -> Option<Option<LastEntry>> {
    if fields.is_empty() {
        return Some(None);
    }
    let key: B256 = fields.fixed("key").ok()?;
    let value = fields.slice("value").ok()?.to_vec();
    let shared = fields.u64("shared nibbles").ok()?;
    let shared_before = usize::try_from(shared).ok()?.checked_sub(1);
    let entry = LastEntry {
        key: nibbles(key.as_slice()),
        value,
        shared_before,
    };
    (shared <= KEY_NIBBLES as u64).then_some(Some(entry))
}

/// The key of an entry, from its nibbles.
fn pack(nibbles: &[u8]) -> B256 {
    let mut key = B256::ZERO;
    for (byte, pair) in key.iter_mut().zip(nibbles.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    key
}

/// The RLP of a leaf. `path` has one nibble per byte.
fn leaf(path: &[u8], value: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(128);
    push_hex_prefix(path, true, &mut payload);
    value.encode(&mut payload);
    list(payload)
}

fn extension(path: &[u8], child: &NodeReference) -> Vec<u8> {
    let mut payload = Vec::with_capacity(72);
    push_hex_prefix(path, false, &mut payload);
    push_reference(child, &mut payload);
    list(payload)
}

fn push_reference(reference: &NodeReference, out: &mut Vec<u8>) {
    match reference {
        NodeReference::Hash(hash) => hash.encode(out),
        NodeReference::Inline(node) => out.extend_from_slice(node.rlp()),
    }
}

fn list(mut payload: Vec<u8>) -> Vec<u8> {
    wrap_list(0, &mut payload);
    payload
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::trie::tests::StoredNodes;
    use crate::trie::{NoNodes, Trie};

    fn check(entries: &BTreeMap<B256, Vec<u8>>) {
        let mut trie = Trie::in_memory();
        for (key, value) in entries {
            trie.insert(&NoNodes, key.as_slice(), value).unwrap();
        }
        let (root, rows) = trie.take_rows();
        let mut expected = StoredNodes::default();
        expected.apply(rows);
        let mut got = StoredNodes::default();
        let mut sorted = SortedTrie::new(|path: &[u8], row| {
            assert!(got.rows.insert(path.to_vec(), row).is_none(), "one row");
            Ok::<_, Infallible>(())
        });
        for (key, value) in entries {
            sorted.add(key, value.clone()).unwrap();
        }
        assert_eq!(sorted.entries(), entries.len() as u64);
        assert_eq!(sorted.finish().unwrap(), root);
        assert_eq!(got.rows, expected.rows);
        check_resumed(entries, root);
    }

    /// Stops after each entry, and goes on from the state.
    fn check_resumed(entries: &BTreeMap<B256, Vec<u8>>, root: B256) {
        let put = |_: &[u8], _| Ok::<_, Infallible>(());
        let mut state = SortedTrie::new(put).state();
        for (key, value) in entries {
            let mut sorted = SortedTrie::resume(put, &state).unwrap();
            sorted.add(key, value.clone()).unwrap();
            assert_eq!(sorted.last_key(), Some(*key));
            state = sorted.state();
        }
        let resumed = SortedTrie::resume(put, &state).unwrap();
        assert_eq!(resumed.entries(), entries.len() as u64);
        assert_eq!(resumed.finish().unwrap(), root);
        assert!(SortedTrie::resume(put, &state[1..]).is_none());
    }

    #[test]
    fn a_damaged_state_is_refused_or_builds_another_trie() {
        let put = |_: &[u8], _| Ok::<_, Infallible>(());
        let mut sorted = SortedTrie::new(put);
        for number in 1..60_u8 {
            sorted.add(&B256::repeat_byte(number), vec![number; 40]).unwrap();
        }
        let state = sorted.state();
        for (at, bit) in (0..state.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut damaged = state.clone();
            damaged[at] ^= 1 << bit;
            if let Some(mut sorted) = SortedTrie::resume(put, &damaged) {
                if sorted.last_key() < Some(B256::repeat_byte(0xff)) {
                    sorted.add(&B256::repeat_byte(0xff), vec![1; 40]).unwrap();
                }
                sorted.finish().unwrap();
            }
        }
        let whole = (0..state.len()).filter(|len| SortedTrie::resume(put, &state[..*len]).is_some());
        assert_eq!(whole.count(), 0, "a part is no state");
    }

    #[test]
    fn small_tries() {
        check(&BTreeMap::new());
        check(&[(B256::repeat_byte(1), vec![5])].into());
        // A branch at the last nibble, whose children are embedded in it.
        check(
            &[0x10, 0x11, 0x1f]
                .map(|last| (B256::with_last_byte(last), vec![last]))
                .into(),
        );
    }

    proptest! {
        #[test]
        fn agrees_with_the_trie_changed_in_place(
            keys in proptest::collection::vec((proptest::collection::vec(0u8..3, 32), any::<u8>(), 1usize..40), 0..40)
        ) {
            let entries = keys
                .into_iter()
                .map(|(key, byte, length)| (B256::from_slice(&key), vec![byte.max(1); length]))
                .collect();
            check(&entries);
        }

        #[test]
        fn agrees_on_random_keys(entries: BTreeMap<[u8; 32], [u8; 33]>) {
            let entries = entries.into_iter().map(|(k, v)| (B256::from(k), v.to_vec())).collect();
            check(&entries);
        }
    }
}
