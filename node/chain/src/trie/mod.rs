//! The Merkle Patricia trie, changed in place: cost follows the changed keys, not the state.
//!
//! Nodes lie in the store by path (head state only) and are loaded when a key leads
//! through them; [`Trie::commit`] returns the rows to write and to remove. Every loaded
//! node is compared with the hash its parent has for it. Knows bytes; what keys and
//! values mean is in [`StateTrie`]. Source: Ethereum Yellow Paper, appendix D.

mod node;
mod sorted;
mod state;
mod walk;

pub(crate) use sorted::sorted_root;
pub use state::StateTrie;
pub(crate) use state::{accounts_prefix, encode_account, storage_prefix};
pub(crate) use walk::walk;

use node::{Kind, Link, Node, Reference, nibbles, reference_of};
use primitives::{B256, EMPTY_ROOT, keccak256};
use store::{StateReads, StoreError, TableId};

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

/// What a commit asks of the store: path, and the node or `None` to remove it.
pub type NodeRows = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// A trie over the nodes of a source.
#[derive(Debug)]
pub struct Trie {
    /// Put before every path: tells one trie's rows from another's.
    prefix: Vec<u8>,
    root: Link,
    /// Paths where a node was and is no more, unless another has come since.
    obsolete: Vec<Vec<u8>>,
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
        let key = nibbles(key);
        let mut root = std::mem::take(&mut self.root);
        let mut walk = Walk {
            prefix: &self.prefix,
            source,
            key: &key,
            obsolete: &mut self.obsolete,
        };
        let result = walk.insert(&mut root, 0, value);
        self.root = root;
        result
    }

    /// Removes `key`; nothing happens where it is not.
    ///
    /// # Errors
    /// [`StoreError`] when a node on the way is missing, altered or unreadable.
    pub fn remove(&mut self, source: &impl NodeSource, key: &[u8]) -> Result<(), StoreError> {
        let key = nibbles(key);
        let mut root = std::mem::take(&mut self.root);
        let mut walk = Walk {
            prefix: &self.prefix,
            source,
            key: &key,
            obsolete: &mut self.obsolete,
        };
        let result = walk.remove(&mut root, 0);
        self.root = root;
        result.map(|_changed| ())
    }

    /// The root hash of the trie as it is now.
    pub fn root(&mut self) -> B256 {
        match &mut self.root {
            Link::Empty => EMPTY_ROOT,
            Link::Stored(hash) => *hash,
            Link::Node(node) => match seal(node) {
                Reference::Hash(hash) => *hash,
                Reference::Inline(rlp) => keccak256(rlp),
            },
        }
    }

    /// Root hash, and the rows by which the store follows the changes. The trie stays usable.
    pub fn commit(&mut self) -> (B256, NodeRows) {
        let root = self.root();
        let mut rows = NodeRows::new();
        let mut path = self.prefix.clone();
        if let Link::Node(node) = &mut self.root {
            save(node, &mut path, true, &mut rows);
        }
        rows.sort_unstable();
        let written = rows.len();
        for path in std::mem::take(&mut self.obsolete) {
            if rows[..written]
                .binary_search_by(|(row, _)| row.cmp(&path))
                .is_err()
            {
                rows.push((path, None));
            }
        }
        (root, rows)
    }
}

impl NodeSource for NoNodes {
    fn node(&self, _path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
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

/// One key's way down.
struct Walk<'a, S> {
    prefix: &'a [u8],
    source: &'a S,
    key: &'a [u8],
    obsolete: &'a mut Vec<Vec<u8>>,
}

impl<S: NodeSource> Walk<'_, S> {
    fn row(&self, path: &[u8]) -> Vec<u8> {
        [self.prefix, path].concat()
    }

    /// Loads the node at `path` where it is still in the store.
    fn load(&self, link: &mut Link, path: &[u8]) -> Result<(), StoreError> {
        if let Link::Stored(hash) = link {
            let row = self.row(path);
            let corrupt = |reason: String| StoreError::corrupt(TableId::PathToTrieNode, &row, reason);
            let rlp = self
                .source
                .node(&row)?
                .ok_or_else(|| corrupt(format!("no node, want {hash}")))?;
            let got = keccak256(&rlp);
            if got != *hash {
                return Err(corrupt(format!("node has hash {got}, want {hash}")));
            }
            let node = Node::decode(&rlp, Reference::Hash(*hash)).map_err(corrupt)?;
            *link = Link::Node(Box::new(node));
        }
        Ok(())
    }

    fn insert(&mut self, link: &mut Link, depth: usize, value: &[u8]) -> Result<(), StoreError> {
        self.load(link, &self.key[..depth])?;
        let rest = &self.key[depth..];
        let Link::Node(node) = link else {
            *link = Node::leaf(rest, value.to_vec());
            return Ok(());
        };
        node.touch();
        match &mut node.kind {
            Kind::Leaf { key, value: old } if key == rest => *old = value.to_vec(),
            Kind::Branch { value: old, .. } if rest.is_empty() => *old = Some(value.to_vec()),
            Kind::Branch { children, .. } => {
                return self.insert(&mut children[usize::from(rest[0])], depth + 1, value);
            }
            Kind::Extension { key, child } if rest.starts_with(key) => {
                let depth = depth + key.len();
                return self.insert(child, depth, value);
            }
            Kind::Leaf { key, .. } | Kind::Extension { key, .. } => {
                let shared = key.iter().zip(rest).take_while(|(a, b)| a == b).count();
                self.split(link, shared);
                let Link::Node(node) = link else {
                    unreachable!("split leaves a node")
                };
                let branch = match &mut node.kind {
                    Kind::Extension {
                        child: Link::Node(branch),
                        ..
                    } => branch,
                    _ => node,
                };
                let Kind::Branch { children, value: own } = &mut branch.kind else {
                    unreachable!("split leaves a branch, behind an extension or not")
                };
                match rest.get(shared) {
                    None => *own = Some(value.to_vec()),
                    Some(nibble) => {
                        children[usize::from(*nibble)] = Node::leaf(&rest[shared + 1..], value.to_vec());
                    }
                }
            }
        }
        Ok(())
    }

    /// Turns a leaf or extension into a branch at nibble `shared` of its key, behind an
    /// extension where `shared` is not 0. Deeper nodes keep their paths.
    fn split(&mut self, link: &mut Link, shared: usize) {
        let Link::Node(node) = std::mem::take(link) else {
            unreachable!("only nodes are split")
        };
        let mut children: Box<[Link; 16]> = Box::default();
        let mut own = None;
        let shared_key = match node.kind {
            Kind::Leaf { mut key, value } => {
                match key.get(shared) {
                    None => own = Some(value),
                    Some(nibble) => {
                        children[usize::from(*nibble)] = Node::leaf(&key[shared + 1..], value);
                    }
                }
                key.truncate(shared);
                key
            }
            Kind::Extension { mut key, child } => {
                let nibble = usize::from(key[shared]);
                children[nibble] = if key.len() == shared + 1 {
                    child
                } else {
                    let key = key[shared + 1..].to_vec();
                    Link::Node(Box::new(Node::new(Kind::Extension { key, child })))
                };
                key.truncate(shared);
                key
            }
            Kind::Branch { .. } => unreachable!("branches are not split"),
        };
        let branch = Link::Node(Box::new(Node::new(Kind::Branch { children, value: own })));
        *link = if shared_key.is_empty() {
            branch
        } else {
            Link::Node(Box::new(Node::new(Kind::Extension {
                key: shared_key,
                child: branch,
            })))
        };
    }

    /// Whether something was removed.
    fn remove(&mut self, link: &mut Link, depth: usize) -> Result<bool, StoreError> {
        self.load(link, &self.key[..depth])?;
        let rest = &self.key[depth..];
        let Link::Node(node) = link else { return Ok(false) };
        let changed = match &mut node.kind {
            Kind::Leaf { key, .. } => {
                if key != rest {
                    return Ok(false);
                }
                *link = Link::Empty;
                self.obsolete.push(self.row(&self.key[..depth]));
                return Ok(true);
            }
            Kind::Extension { key, child } => {
                rest.starts_with(key) && {
                    let depth = depth + key.len();
                    self.remove(child, depth)?
                }
            }
            Kind::Branch { value, .. } if rest.is_empty() => value.take().is_some(),
            Kind::Branch { children, .. } => self.remove(&mut children[usize::from(rest[0])], depth + 1)?,
        };
        if changed {
            node.touch();
            self.collapse(link, depth)?;
        }
        Ok(changed)
    }

    /// Restores the canonical form after a removal below: no branch with one way only, no
    /// extension before anything but a branch.
    fn collapse(&mut self, link: &mut Link, depth: usize) -> Result<(), StoreError> {
        let Link::Node(node) = link else { return Ok(()) };
        if let Kind::Branch { children, value } = &mut node.kind {
            let mut ways = children.iter().enumerate().filter(|(_, child)| !child.is_empty());
            match (ways.next(), ways.next(), value.is_some()) {
                (None, _, true) => {
                    let value = value.take().expect("just seen");
                    node.kind = Kind::Leaf {
                        key: Vec::new(),
                        value,
                    };
                }
                (Some((nibble, _)), None, false) => {
                    let child = std::mem::take(&mut children[nibble]);
                    node.kind = Kind::Extension {
                        key: vec![nibble as u8],
                        child,
                    };
                }
                _ => return Ok(()),
            }
        }
        self.merge(node, depth)
    }

    /// Draws the child of an extension into it, unless the child is a branch.
    fn merge(&mut self, node: &mut Node, depth: usize) -> Result<(), StoreError> {
        let Kind::Extension { key, child } = &mut node.kind else {
            return Ok(());
        };
        let path = [&self.key[..depth], key].concat();
        self.load(child, &path)?;
        let Link::Node(below) = child else {
            unreachable!("an extension's child is never removed as a whole: it is a branch")
        };
        let mut whole = std::mem::take(key);
        match &mut below.kind {
            Kind::Branch { .. } => {
                *key = whole;
                return Ok(());
            }
            Kind::Leaf { key, value } => {
                whole.append(key);
                let value = std::mem::take(value);
                node.kind = Kind::Leaf { key: whole, value };
            }
            Kind::Extension { key, child } => {
                whole.append(key);
                let child = std::mem::take(child);
                node.kind = Kind::Extension { key: whole, child };
            }
        }
        self.obsolete.push(self.row(&path));
        Ok(())
    }
}

/// Computes the references below and of a node, where they are missing.
fn seal(node: &mut Node) -> &Reference {
    if node.reference.is_none() {
        match &mut node.kind {
            Kind::Leaf { .. } => {}
            Kind::Extension { child, .. } => seal_link(child),
            Kind::Branch { children, .. } => children.iter_mut().for_each(seal_link),
        }
        node.reference = Some(reference_of(&node.encode()));
    }
    node.reference.as_ref().expect("set above")
}

fn seal_link(link: &mut Link) {
    if let Link::Node(node) = link {
        seal(node);
    }
}

/// Collects the rows of unsaved nodes. The root is always stored, however short.
fn save(node: &mut Node, path: &mut Vec<u8>, root: bool, rows: &mut NodeRows) {
    if !node.unsaved {
        return;
    }
    node.unsaved = false;
    let inline = matches!(node.reference, Some(Reference::Inline(_)));
    rows.push((path.clone(), (root || !inline).then(|| node.encode())));
    match &mut node.kind {
        Kind::Leaf { .. } => {}
        Kind::Extension { key, child } => {
            let length = path.len();
            path.extend_from_slice(key);
            if let Link::Node(child) = child {
                save(child, path, false, rows);
            }
            path.truncate(length);
        }
        Kind::Branch { children, .. } => {
            for (nibble, child) in children.iter_mut().enumerate() {
                if let Link::Node(child) = child {
                    path.push(nibble as u8);
                    save(child, path, false, rows);
                    path.pop();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, HashMap};

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
