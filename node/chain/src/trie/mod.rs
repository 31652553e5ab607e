//! The Merkle Patricia trie, changed in place: cost follows the changed keys, not the state.
//!
//! Nodes lie in the store by path (head state only) and are loaded when a key leads
//! through them; [`Trie::commit`] returns the rows to write and to remove. Nodes stay in
//! memory until they are too many, so a trie that follows the head reads each once. Every loaded
//! node is compared with the hash its parent has for it. Knows bytes; what keys and
//! values mean is in [`StateTrie`]. Source: Ethereum Yellow Paper, appendix D.

mod change;
mod node;
mod seal;
mod sorted;
mod state;
mod walk;

pub(crate) use sorted::sorted_root;
pub use state::StateTrie;
pub(crate) use state::{accounts_prefix, encode_account, storage_prefix};
pub(crate) use walk::walk;

use primitives::{B256, EMPTY_ROOT, keccak256};
use store::{StateReads, StoreError};

use change::Walk;
use node::{Link, Reference, nibbles};

/// Where a trie's nodes come from.
pub trait NodeSource {
    /// The node stored under `path`.
    ///
    /// # Errors
    /// [`StoreError`] when the medium fails.
    fn node(&self, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
}

impl<S: StateReads> NodeSource for S {
    fn node(&self, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.trie_node(path)
    }
}

/// No stored nodes: for tries that live and die in memory.
#[derive(Clone, Copy, Debug)]
pub struct NoNodes;

impl NodeSource for NoNodes {
    fn node(&self, _path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }
}

/// What a commit asks of the store: path, and the node or `None` to remove it.
pub type NodeRows = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// What a trie has done since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrieWork {
    /// Nodes read from the store.
    pub read: u64,
    /// Nodes that were encoded and hashed.
    pub hashed: u64,
    /// Rows written or removed.
    pub written: u64,
}

impl std::ops::AddAssign for TrieWork {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.hashed += other.hashed;
        self.written += other.written;
    }
}

/// A trie over the nodes of a source.
#[derive(Debug)]
pub struct Trie {
    /// Put before every path: tells one trie's rows from another's.
    prefix: Vec<u8>,
    root: Link,
    /// Paths where a node was and is no more, unless another has come since.
    obsolete: Vec<Vec<u8>>,
    /// Nodes that came into memory since this was last asked: read or made.
    loaded: u64,
    /// Those of them that were read.
    read: u64,
}

impl Trie {
    /// The trie with this root hash, whose nodes lie under `prefix`.
    pub fn new(prefix: Vec<u8>, root: B256) -> Self {
        let root = if root == EMPTY_ROOT {
            Link::Empty
        } else {
            Link::Stored(root)
        };
        Self {
            prefix,
            root,
            obsolete: Vec::new(),
            loaded: 0,
            read: 0,
        }
    }

    /// An empty trie in memory.
    pub fn in_memory() -> Self {
        Self::new(Vec::new(), EMPTY_ROOT)
    }

    /// Puts `value` under `key`, over an older one. An empty value removes the key.
    ///
    /// # Errors
    /// [`StoreError`] when a node on the way is missing, altered or unreadable.
    pub fn insert(&mut self, source: &impl NodeSource, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if value.is_empty() {
            return self.remove(source, key);
        }
        self.change(source, key, |walk, root| walk.insert(root, 0, value))
    }

    /// Removes `key`; nothing happens where it is not.
    ///
    /// # Errors
    /// [`StoreError`] when a node on the way is missing, altered or unreadable.
    pub fn remove(&mut self, source: &impl NodeSource, key: &[u8]) -> Result<(), StoreError> {
        self.change(source, key, |walk, root| walk.remove(root, 0))
    }

    fn change<S: NodeSource>(
        &mut self,
        source: &S,
        key: &[u8],
        change: impl FnOnce(&mut Walk<'_, S>, &mut Link) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let key = nibbles(key);
        let mut walk = Walk {
            prefix: &self.prefix,
            source,
            key: &key,
            obsolete: &mut self.obsolete,
            loaded: 0,
            read: 0,
        };
        let result = change(&mut walk, &mut self.root);
        let (loaded, read) = (walk.loaded, walk.read);
        self.loaded += loaded;
        self.read += read;
        result.map(|_changed| ())
    }

    /// The root hash of the trie as it is now.
    pub fn root(&mut self) -> B256 {
        seal::seal([&*self]);
        self.sealed_root()
    }

    /// The root hash of a trie whose nodes have their references.
    fn sealed_root(&self) -> B256 {
        match &self.root {
            Link::Empty => EMPTY_ROOT,
            Link::Stored(hash) => *hash,
            Link::Node(node) => match node.reference.get().expect("the trie is sealed") {
                Reference::Hash(hash) => *hash,
                Reference::Inline(rlp) => keccak256(rlp),
            },
        }
    }

    /// Root hash, and the rows by which the store follows the changes. The trie stays usable.
    pub fn commit(&mut self) -> (B256, NodeRows) {
        let root = self.root();
        let mut rows = NodeRows::new();
        self.save(&mut rows);
        (root, rows)
    }

    /// Appends the rows by which the store follows the changes of a sealed trie, by path.
    fn save(&mut self, rows: &mut NodeRows) {
        let start = rows.len();
        let mut path = self.prefix.clone();
        if let Link::Node(node) = &mut self.root {
            seal::save(node, &mut path, true, rows);
        }
        // A parent's path is the beginning of its children's, so that walking down has them in order.
        let written = rows.len();
        let mut obsolete = std::mem::take(&mut self.obsolete);
        obsolete.sort_unstable();
        obsolete.dedup();
        for path in obsolete {
            let there = rows[start..written].binary_search_by(|(row, _)| row.cmp(&path));
            if there.is_err() {
                rows.push((path, None));
            }
        }
        rows[start..].sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    }

    /// Forgets all nodes in memory; they are read again where they are needed. What was not
    /// saved must not be lost: only to be called after a commit.
    fn unload(&mut self) {
        debug_assert!(self.obsolete.is_empty(), "everything is saved");
        self.root = match self.sealed_root() {
            EMPTY_ROOT => Link::Empty,
            root => Link::Stored(root),
        };
    }

    /// Nodes that came into memory since the last time, and those of them that were read.
    fn take_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.loaded), std::mem::take(&mut self.read))
    }
}

/// Root of a list's trie: keys are the RLP of the indexes.
pub fn ordered_root<T: AsRef<[u8]>>(values: impl IntoIterator<Item = T>) -> B256 {
    let mut trie = Trie::in_memory();
    for (index, value) in values.into_iter().enumerate() {
        trie.insert(&NoNodes, &alloy_rlp::encode(index), value.as_ref())
            .expect("a trie in memory reads no store");
    }
    trie.root()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Rows(HashMap<Vec<u8>, Vec<u8>>);

    impl NodeSource for Rows {
        fn node(&self, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            Ok(self.0.get(path).cloned())
        }
    }

    impl Rows {
        fn apply(&mut self, rows: NodeRows) {
            for (path, node) in rows {
                match node {
                    Some(node) => self.0.insert(path, node),
                    None => self.0.remove(&path),
                };
            }
        }
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

        /// Changes in any order, committed in any portions, give the root and exactly the
        /// rows that a trie made at once from what is left gives.
        #[test]
        fn history_leaves_no_trace(
            portions in proptest::collection::vec(
                proptest::collection::vec((keys(), proptest::option::of(proptest::collection::vec(1u8..9, 1..40))), 0..12),
                1..6,
            )
        ) {
            let mut entries = BTreeMap::new();
            let mut rows = Rows::default();
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
                let (new_root, changes) = trie.commit();
                rows.apply(changes);
                root = new_root;
                let mut fresh = Trie::new(vec![0xff], EMPTY_ROOT);
                for (key, value) in &entries {
                    fresh.insert(&NoNodes, key, value).unwrap();
                }
                let (fresh_root, fresh_rows) = fresh.commit();
                prop_assert_eq!(root, fresh_root);
                let mut expected = Rows::default();
                expected.apply(fresh_rows);
                prop_assert_eq!(&rows.0, &expected.0);
            }
        }

        /// Another implementation agrees.
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
        let mut rows = Rows::default();
        let mut trie = Trie::new(Vec::new(), EMPTY_ROOT);
        for key in 0u8..40 {
            trie.insert(&NoNodes, &[key, 1], &[7; 40]).unwrap();
        }
        let (root, changes) = trie.commit();
        rows.apply(changes);
        let path = rows.0.keys().find(|path| path.len() == 2).unwrap().clone();
        let key = [path[0] << 4 | path[1], 1];
        *rows.0.get_mut(&path).unwrap().last_mut().unwrap() ^= 1;
        let error = Trie::new(Vec::new(), root).insert(&rows, &key, &[1]).unwrap_err();
        assert!(error.to_string().contains("node has hash"), "{error}");
        rows.0.remove(&path);
        let error = Trie::new(Vec::new(), root).insert(&rows, &key, &[1]).unwrap_err();
        assert!(error.to_string().contains("no node"), "{error}");
    }
}
