//! The Merkle Patricia trie. It is changed in place, so the cost of a block follows the number of
//! changed keys and not the size of the state.
//!
//! The store has the branches and extensions of the head's state, each under its path; its leaves
//! are the rows of accounts and slots. A node is loaded when a key's path reaches it, and compared
//! with the hash that its parent has for it. [`Trie::take_rows`] returns the rows to write and to
//! remove. Loaded nodes stay in memory until there are too many, so a trie that follows the head
//! reads each node once. This module knows bytes; [`StateTrie`] knows what the keys and values
//! mean. Source: Ethereum Yellow Paper, appendix D.

mod build;
mod change;
mod children;
mod halves;
mod node;
mod parts;
mod past;
mod proof;
mod range_proof;
mod references;
mod sorted;
mod state;
mod verify;

pub(crate) use build::{SAVE_BYTES, TrieBuild};
pub use parts::{
    NodeFormError, NodePart, PartContent, account_value, hex_prefix, node_at, node_parts, read_account_value,
    read_slot_value, row_of_node, slot_value,
};
pub(crate) use past::{LoadedTries, PastTries};
pub use past::{PastNodeIndex, PastNodes};
pub(crate) use proof::trie_proof;
pub use proof::{KeyProofError, ProofNodes};
pub use range_proof::{RANGE_PROOF_NODES_MAX, RangeProofError, prove_range, verify_range};
pub(crate) use sorted::{SortedTrie, sorted_root};
pub use state::StateTrie;
pub(crate) use state::encode_account;
pub(crate) use verify::verify_trie;

use std::convert::Infallible;

use primitives::{B256, EMPTY_ROOT, keccak256};
use store::{Snapshot, StateLeaf, StateReads, StateTrieId, StoreError};

use change::KeyUpdate;
use node::{NodeLink, NodeReference, TrieNode, TrieNodeError, nibbles};

/// The source of a trie's nodes.
pub trait NodeSource {
    /// The row of the branch or extension under `path`, which includes the trie's prefix.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    fn node(&self, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// The first leaf below `path`, which includes the trie's prefix.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails or the row is corrupt.
    fn leaf(&self, path: &[u8]) -> Result<Option<StoredLeaf>, StoreError>;

    /// The snapshot that nodes are read from, if it is one: several threads may read it.
    fn shared(&self) -> Option<&Snapshot> {
        None
    }
}

/// A leaf as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLeaf {
    /// The key behind the path, one nibble per byte.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

impl StoredLeaf {
    /// The leaf of an account or a slot at a path of so many nibbles.
    fn below(path_nibbles: usize, (hash, leaf): (B256, StateLeaf)) -> Self {
        Self {
            key: nibbles(hash.as_slice()).split_off(path_nibbles),
            value: match leaf {
                StateLeaf::Account(account) => encode_account(&account),
                StateLeaf::Slot(value) => alloy_rlp::encode(value),
            },
        }
    }
}

/// Reads a node from its row, or a leaf, and compares its hash. `is_root`: the node may be either.
///
/// # Errors
/// [`StoreError`] when the node is missing, altered or unreadable.
fn load_node(
    source: &impl NodeSource,
    row: &[u8],
    link: &NodeLink,
    is_root: bool,
) -> Result<TrieNode, StoreError> {
    read_node(source, row, link, is_root)?.map_err(|error| error.in_row(row))
}

/// As [`load_node`]. The inner error says what is wrong with the node.
fn read_node(
    source: &impl NodeSource,
    row: &[u8],
    link: &NodeLink,
    is_root: bool,
) -> Result<Result<TrieNode, TrieNodeError>, StoreError> {
    let (expected, mut is_leaf) = match link {
        NodeLink::Stored(hash) => (*hash, false),
        NodeLink::StoredLeaf(hash) => (*hash, true),
        NodeLink::Empty | NodeLink::Loaded(_) => unreachable!("only stored nodes are read"),
    };
    let stored = if is_leaf { None } else { source.node(row)? };
    is_leaf |= is_root && stored.is_none();
    if is_leaf {
        let Some(leaf) = source.leaf(row)? else {
            return Ok(Err(TrieNodeError::NoLeaf { expected }));
        };
        return Ok(TrieNode::stored_leaf(leaf.key, leaf.value, expected));
    }
    let Some(stored) = stored else {
        return Ok(Err(TrieNodeError::Missing { expected }));
    };
    Ok(TrieNode::from_row(&stored, expected))
}

impl<S: StateReads> NodeSource for S {
    fn node(&self, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.trie_node(path)
    }

    fn leaf(&self, path: &[u8]) -> Result<Option<StoredLeaf>, StoreError> {
        let (trie, nibbles) = split_path(path)?;
        let found = self.trie_leaf(trie, nibbles)?;
        Ok(found.map(|found| StoredLeaf::below(nibbles.len(), found)))
    }
}

/// The trie of a path with its prefix, and the path without it.
fn split_path(path: &[u8]) -> Result<(StateTrieId, &[u8]), StoreError> {
    StateTrieId::split(path).ok_or_else(|| TrieNodeError::Path.in_row(path))
}

/// A source whose nodes are perhaps those of a snapshot.
#[derive(Debug)]
pub(crate) struct ShareableNodes<'a, S> {
    pub(crate) source: &'a S,
    pub(crate) snapshot: Option<&'a Snapshot>,
}

impl<S: NodeSource> NodeSource for ShareableNodes<'_, S> {
    fn node(&self, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.source.node(path)
    }

    fn leaf(&self, path: &[u8]) -> Result<Option<StoredLeaf>, StoreError> {
        self.source.leaf(path)
    }

    fn shared(&self) -> Option<&Snapshot> {
        self.snapshot
    }
}

/// A source without nodes, for tries that exist in memory only.
#[derive(Clone, Copy, Debug)]
pub struct NoNodes;

impl NodeSource for NoNodes {
    fn node(&self, _path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    fn leaf(&self, _path: &[u8]) -> Result<Option<StoredLeaf>, StoreError> {
        Ok(None)
    }
}

/// The rows to write: path with prefix, and the row of the node. `None` removes the row.
pub type NodeRows = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Nodes: path and RLP.
pub type PathNodes = Vec<(Vec<u8>, Vec<u8>)>;

/// Counts of a trie's work since they were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrieStats {
    /// Nodes read from the store.
    pub read: u64,
    /// Nodes that were encoded and hashed.
    pub hashed: u64,
    /// Rows written or removed.
    pub written: u64,
}

impl std::ops::AddAssign for TrieStats {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.hashed += other.hashed;
        self.written += other.written;
    }
}

/// A trie over the nodes of a source.
#[derive(Debug)]
pub struct Trie {
    /// Stands before every path in a row's key, so that tries do not share rows.
    prefix: Vec<u8>,
    root: NodeLink,
    /// Rows whose node was removed. A new node may have taken the same row since.
    obsolete: Vec<Vec<u8>>,
    /// Memory of the nodes read or created since [`Self::take_counts`], in bytes, roughly.
    loaded_bytes: usize,
    /// Number of nodes read since [`Self::take_counts`].
    read: u64,
    /// Number of nodes hashed together with a change, since [`Self::take_counts`].
    hashed: u64,
}

impl Trie {
    /// The trie with this root hash, whose rows begin with `prefix`.
    pub fn new(prefix: Vec<u8>, root: B256) -> Self {
        let root = if root == EMPTY_ROOT {
            NodeLink::Empty
        } else {
            NodeLink::Stored(root)
        };
        Self {
            prefix,
            root,
            obsolete: Vec::new(),
            loaded_bytes: 0,
            read: 0,
            hashed: 0,
        }
    }

    /// An empty trie without a prefix, for use with [`NoNodes`].
    pub fn in_memory() -> Self {
        Self::new(Vec::new(), EMPTY_ROOT)
    }

    /// Sets the value of `key`. An empty value removes the key.
    ///
    /// # Errors
    /// [`StoreError`] when a node on the key's path is missing, altered or unreadable.
    pub fn insert(&mut self, source: &impl NodeSource, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if value.is_empty() {
            return self.remove(source, key);
        }
        self.change(source, key, |update, root| update.insert(root, 0, value))
    }

    /// Removes `key`. Does nothing if the trie does not have it.
    ///
    /// # Errors
    /// [`StoreError`] when a node on the key's path is missing, altered or unreadable.
    pub fn remove(&mut self, source: &impl NodeSource, key: &[u8]) -> Result<(), StoreError> {
        self.change(source, key, |update, root| update.remove(root, 0))
    }

    fn change<S: NodeSource>(
        &mut self,
        source: &S,
        key: &[u8],
        change: impl FnOnce(&mut KeyUpdate<'_, S>, &mut NodeLink) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let key = nibbles(key);
        let mut update = KeyUpdate {
            prefix: &self.prefix,
            source,
            key: &key,
            obsolete: &mut self.obsolete,
            loaded_bytes: 0,
            read: 0,
        };
        let result = change(&mut update, &mut self.root);
        let (loaded, read) = (update.loaded_bytes, update.read);
        self.loaded_bytes += loaded;
        self.read += read;
        result.map(|_changed| ())
    }

    /// The root hash of the trie with all changes so far.
    pub fn root(&mut self) -> B256 {
        references::compute([&*self]);
        self.computed_root()
    }

    /// The root hash of a trie whose references have been computed.
    fn computed_root(&self) -> B256 {
        match &self.root {
            NodeLink::Empty => EMPTY_ROOT,
            NodeLink::Stored(hash) | NodeLink::StoredLeaf(hash) => *hash,
            NodeLink::Loaded(node) => match node.reference.get().expect("references are computed before") {
                NodeReference::Hash(hash) => *hash,
                NodeReference::Inline(node) => keccak256(node.rlp()),
            },
        }
    }

    /// Returns the root hash and the rows to write since the last call. The trie stays usable.
    pub fn take_rows(&mut self) -> (B256, NodeRows) {
        let root = self.root();
        let mut rows = NodeRows::new();
        self.save_into(&mut rows);
        (root, rows)
    }

    /// Appends the rows to write since the last call. See [`Self::save`].
    fn save_into(&mut self, rows: &mut NodeRows) {
        let saved = self.save(|path, row| {
            rows.push((path.to_vec(), row.map(<[u8]>::to_vec)));
            Ok::<_, Infallible>(())
        });
        saved.unwrap_or_else(|never| match never {});
    }

    /// The root hash, and path and RLP of every node in memory that is not embedded in its parent,
    /// leaves included.
    pub fn nodes(&mut self) -> (B256, PathNodes) {
        let root = self.root();
        let mut nodes = Vec::new();
        if let NodeLink::Loaded(node) = &self.root {
            references::collect_nodes(node, &mut Vec::new(), &mut nodes);
        }
        (root, nodes)
    }

    /// Passes the rows to write since the last call to `put`, sorted by path: the path with prefix,
    /// and the row or `None`, which removes the row. The references must have been computed before.
    ///
    /// # Errors
    /// Any error of `put`. Then the trie is not usable any more.
    fn save<E>(&mut self, mut put: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), E>) -> Result<(), E> {
        let mut obsolete = std::mem::take(&mut self.obsolete);
        obsolete.sort_unstable();
        obsolete.dedup();
        let mut obsolete = obsolete.iter().map(Vec::as_slice).peekable();
        if let NodeLink::Loaded(root) = &mut self.root {
            let put_in_order = |path: &[u8], row: Option<&[u8]>| {
                while let Some(before) = obsolete.next_if(|before| *before < path) {
                    put(before, None)?;
                }
                // If a new node uses a row, the row is not removed.
                let _ = obsolete.next_if(|reused| *reused == path);
                put(path, row)
            };
            references::UnsavedWalk::new(&self.prefix, put_in_order).save(root, true)?;
        }
        obsolete.try_for_each(|path| put(path, None))
    }

    /// Forgets all nodes in memory. They are read again when they are needed. All changes must
    /// have been saved before.
    fn unload(&mut self) {
        debug_assert!(self.obsolete.is_empty(), "everything is saved");
        self.root = match self.computed_root() {
            EMPTY_ROOT => NodeLink::Empty,
            root => NodeLink::Stored(root),
        };
    }

    /// Takes the memory of the nodes added since the last call, and the numbers of those that were
    /// read and that were hashed together with a change.
    fn take_counts(&mut self) -> (usize, u64, u64) {
        (
            std::mem::take(&mut self.loaded_bytes),
            std::mem::take(&mut self.read),
            std::mem::take(&mut self.hashed),
        )
    }
}

/// The root of a list's trie, whose keys are the RLP of the indexes.
pub fn ordered_root<T: AsRef<[u8]>>(values: impl IntoIterator<Item = T>) -> B256 {
    let mut trie = Trie::in_memory();
    for (index, value) in values.into_iter().enumerate() {
        trie.insert(&NoNodes, &alloy_rlp::encode(index), value.as_ref())
            .expect("`NoNodes` returns no error");
    }
    trie.root()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::{BTreeMap, HashMap};

    use proptest::prelude::*;

    use super::*;

    /// Stored rows of nodes, and values, by path with prefix.
    #[derive(Default)]
    pub(in crate::trie) struct StoredNodes {
        pub(in crate::trie) rows: HashMap<Vec<u8>, Vec<u8>>,
        pub(in crate::trie) values: BTreeMap<Vec<u8>, Vec<u8>>,
    }

    impl NodeSource for StoredNodes {
        fn node(&self, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            Ok(self.rows.get(path).cloned())
        }

        fn leaf(&self, path: &[u8]) -> Result<Option<StoredLeaf>, StoreError> {
            let first = self.values.range(path.to_vec()..).next();
            Ok(first.and_then(|(key, value)| {
                Some(StoredLeaf {
                    key: key.strip_prefix(path)?.to_vec(),
                    value: value.clone(),
                })
            }))
        }
    }

    impl StoredNodes {
        pub(in crate::trie) fn apply(&mut self, rows: NodeRows) {
            let in_order = rows.is_sorted_by(|(one, _), (next, _)| one < next);
            assert!(in_order, "each path comes once, by ascending path");
            for (path, node) in rows {
                match node {
                    Some(node) => self.rows.insert(path, node),
                    None => self.rows.remove(&path),
                };
            }
        }

        /// Sets a value, as the rows of accounts and slots have it.
        pub(in crate::trie) fn set(&mut self, prefix: &[u8], key: &[u8], value: &[u8]) {
            let path = [prefix, &nibbles(key)].concat();
            if value.is_empty() {
                self.values.remove(&path);
            } else {
                self.values.insert(path, value.to_vec());
            }
        }
    }

    /// A key of 64 nibbles can have a branch at each of them. Such a trie is changed, stored, read
    /// and dropped on a thread with an eighth of the usual stack.
    #[test]
    fn the_deepest_trie_needs_little_stack() {
        let deepest = || {
            let keys: Vec<[u8; 32]> = (0..64)
                .map(|nibble| {
                    let mut key = [0; 32];
                    key[nibble / 2] = if nibble % 2 == 0 { 0x10 } else { 0x01 };
                    key
                })
                .collect();
            let mut stored = StoredNodes::default();
            let mut trie = Trie::new(vec![9], EMPTY_ROOT);
            for key in &keys {
                trie.insert(&NoNodes, key, &[7; 40]).expect("in memory");
                stored.set(&[9], key, &[7; 40]);
            }
            let (root, rows) = trie.take_rows();
            assert!(
                rows.iter().any(|(path, _)| path.len() == 1 + 62),
                "a branch at each nibble"
            );
            stored.apply(rows);
            drop(trie);
            assert!(
                proof::trie_proof(&stored, &[9], root, &keys[63])
                    .expect("stored")
                    .len()
                    >= 64
            );
            let mut trie = Trie::new(vec![9], root);
            for key in keys.iter().rev() {
                trie.remove(&stored, key).expect("stored");
            }
            assert_eq!(trie.root(), EMPTY_ROOT);
        };
        let thread = std::thread::Builder::new().stack_size(256 * 1024);
        thread.spawn(deepest).expect("a thread").join().expect("no panic");
    }

    fn root_of(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> B256 {
        let mut trie = Trie::in_memory();
        for (key, value) in entries {
            trie.insert(&NoNodes, key, value).unwrap();
        }
        trie.root()
    }

    #[test]
    fn known_roots() {
        assert_eq!(Trie::in_memory().root(), EMPTY_ROOT);
        let entries = [
            ("do", "verb"),
            ("dog", "puppy"),
            ("doge", "coin"),
            ("horse", "stallion"),
        ];
        let entries = entries
            .map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec()))
            .into();
        let expected = "5991bb8c6514148a29db676a14ac506cd2cd5775ace63c30a4fe457715e9ac84";
        assert_eq!(root_of(&entries), expected.parse::<B256>().unwrap());
    }

    fn keys() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(0u8..4, 2),
            proptest::collection::vec(any::<u8>(), 0..4)
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Changes in any order, committed in any portions, lead to the same root and the same
        /// rows as a new trie with the final entries.
        #[test]
        fn rows_depend_on_the_entries_only(
            portions in proptest::collection::vec(
                proptest::collection::vec((keys(), proptest::option::of(proptest::collection::vec(1u8..9, 1..40))), 0..12),
                1..6,
            )
        ) {
            let mut entries = BTreeMap::new();
            let mut rows = StoredNodes::default();
            let mut root = EMPTY_ROOT;
            for portion in portions {
                let mut trie = Trie::new(vec![0xff], root);
                for (key, value) in portion {
                    match value {
                        Some(value) => {
                            trie.insert(&rows, &key, &value).unwrap();
                            entries.insert(key, value);
                        }
                        None => {
                            trie.remove(&rows, &key).unwrap();
                            entries.remove(&key);
                        }
                    }
                }
                let (new_root, changes) = trie.take_rows();
                rows.apply(changes);
                rows.values.clear();
                for (key, value) in &entries {
                    rows.set(&[0xff], key, value);
                }
                root = new_root;
                let mut fresh = Trie::new(vec![0xff], EMPTY_ROOT);
                for (key, value) in &entries {
                    fresh.insert(&NoNodes, key, value).unwrap();
                }
                let (fresh_root, fresh_rows) = fresh.take_rows();
                prop_assert_eq!(root, fresh_root);
                let mut expected = StoredNodes::default();
                expected.apply(fresh_rows);
                prop_assert_eq!(&rows.rows, &expected.rows);
            }
        }

        #[test]
        fn agrees_with_alloy_trie(entries: BTreeMap<[u8; 32], [u8; 33]>) {
            let mut builder = alloy_trie::HashBuilder::default();
            for (key, value) in &entries {
                builder.add_leaf(alloy_trie::Nibbles::unpack(key), value);
            }
            let ours = entries.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
            prop_assert_eq!(root_of(&ours), builder.root());
        }
    }

    #[test]
    fn an_altered_or_missing_node_is_an_error() {
        let mut rows = StoredNodes::default();
        let mut trie = Trie::new(Vec::new(), EMPTY_ROOT);
        for key in 0u8..40 {
            trie.insert(&NoNodes, &[key, 1], &[7; 40]).unwrap();
            rows.set(&[], &[key, 1], &[7; 40]);
        }
        let (root, changes) = trie.take_rows();
        rows.apply(changes);
        let fails = |rows: &StoredNodes, expected: &str| {
            let error = Trie::new(Vec::new(), root)
                .insert(rows, &[0x12, 1], &[1])
                .unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        };
        // A leaf, then the branch above it.
        rows.set(&[], &[0x12, 1], &[8; 40]);
        fails(&rows, "node hash: got");
        rows.set(&[], &[0x12, 1], &[]);
        fails(&rows, "no leaf");
        let path = vec![1];
        rows.rows.get_mut(&path).unwrap()[5] ^= 1;
        fails(&rows, "node hash: got");
        rows.rows.remove(&path);
        fails(&rows, "no node");
    }
}
