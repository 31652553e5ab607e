//! Sets or removes one key of a trie, and changes the nodes on the key's path accordingly.
//!
//! Source: Ethereum Yellow Paper, appendix D. Nodes are loaded from their source when the path
//! reaches them. Changed nodes get their new hashes later, in `references`.

use store::StoreError;

use super::node::{Branch, NodeKind, NodeLink, TrieNode};
use super::{NodeSource, load_node};

/// The change of one key.
pub(super) struct KeyUpdate<'a, S> {
    /// The prefix of the trie's rows.
    pub(super) prefix: &'a [u8],
    pub(super) source: &'a S,
    /// The whole key, one nibble per byte.
    pub(super) key: &'a [u8],
    /// Rows whose node was removed from the trie.
    pub(super) obsolete: &'a mut Vec<Vec<u8>>,
    /// Memory of the nodes that were read from the source or created, in bytes, roughly.
    pub(super) loaded_bytes: usize,
    /// Number of nodes read from the source.
    pub(super) read: u64,
}

impl<S: NodeSource> KeyUpdate<'_, S> {
    /// The row key of the node at `path`.
    fn row(&self, path: &[u8]) -> Vec<u8> {
        [self.prefix, path].concat()
    }

    /// Reads the node at `path` from the source if it is not in memory yet.
    pub(super) fn load(&mut self, link: &mut NodeLink, path: &[u8]) -> Result<(), StoreError> {
        if let NodeLink::Stored(_) | NodeLink::StoredLeaf(_) = link {
            let row = self.row(path);
            let node = load_node(self.source, &row, link, path.is_empty())?;
            self.loaded_bytes += node.memory_bytes();
            *link = NodeLink::Loaded(node);
            self.read += 1;
        }
        Ok(())
    }

    /// Sets the key's value in the subtree of `link`, which is at nibble `depth` of the key.
    /// Returns whether the trie changed.
    pub(super) fn insert(
        &mut self,
        link: &mut NodeLink,
        depth: usize,
        value: &[u8],
    ) -> Result<bool, StoreError> {
        let key = self.key;
        self.load(link, &key[..depth])?;
        let rest = &key[depth..];
        let NodeLink::Loaded(node) = link else {
            let leaf = TrieNode::leaf(rest.to_vec(), value.to_vec());
            self.loaded_bytes += size_of::<NodeLink>() + leaf.memory_bytes();
            *link = NodeLink::Loaded(leaf);
            return Ok(true);
        };
        let (shared, length) = match &mut *node.kind {
            NodeKind::Branch(branch) => {
                let changed = match rest.split_first() {
                    Some((nibble, _)) => {
                        self.insert(branch.children.get_or_empty(*nibble), depth + 1, value)?
                    }
                    None => replace(branch.value.get_or_insert_default(), value),
                };
                if changed {
                    node.touch();
                }
                return Ok(changed);
            }
            NodeKind::Leaf(leaf) if leaf.key == rest => {
                let changed = replace(&mut leaf.value, value);
                if changed {
                    node.touch();
                }
                return Ok(changed);
            }
            NodeKind::Leaf(leaf) => (shared(&leaf.key, rest), leaf.key.len()),
            NodeKind::Extension(extension) => (shared(&extension.key, rest), extension.key.len()),
        };
        if let NodeKind::Extension(extension) = &mut *node.kind
            && shared == length
        {
            let changed = self.insert(&mut extension.child, depth + length, value)?;
            if changed {
                node.touch();
            }
            return Ok(changed);
        }
        *link = self.split(std::mem::take(link), shared, &rest[shared..], value);
        Ok(true)
    }

    /// Replaces a leaf or an extension by a branch at nibble `shared` of its key, and puts `value`
    /// into the branch under the nibbles `rest`. If `shared` is not 0, an extension with the shared
    /// nibbles leads to the branch. Deeper nodes keep their paths.
    fn split(&mut self, link: NodeLink, shared: usize, rest: &[u8], value: &[u8]) -> NodeLink {
        let NodeLink::Loaded(node) = link else {
            unreachable!("`insert` splits loaded nodes only")
        };
        let mut branch = Branch::default();
        let mut shared_key = match *node.kind {
            NodeKind::Leaf(leaf) => {
                match leaf.key.get(shared) {
                    None => branch.value = Some(leaf.value),
                    Some(nibble) => {
                        let below = TrieNode::leaf(leaf.key[shared + 1..].to_vec(), leaf.value);
                        branch.children.set(*nibble, NodeLink::Loaded(below));
                    }
                }
                leaf.key
            }
            NodeKind::Extension(extension) => {
                let (key, child) = (extension.key, extension.child);
                let below = if key.len() == shared + 1 {
                    child
                } else {
                    NodeLink::Loaded(TrieNode::extension(key[shared + 1..].to_vec(), child))
                };
                branch.children.set(key[shared], below);
                key
            }
            NodeKind::Branch(_) => unreachable!("`insert` handles branches without a split"),
        };
        shared_key.truncate(shared);
        match rest.split_first() {
            None => branch.value = Some(value.to_vec()),
            Some((nibble, rest)) => {
                let leaf = TrieNode::leaf(rest.to_vec(), value.to_vec());
                self.loaded_bytes += leaf.memory_bytes();
                branch.children.set(*nibble, NodeLink::Loaded(leaf));
            }
        }
        let branch = TrieNode::branch(branch);
        self.loaded_bytes += branch.memory_bytes();
        let branch = NodeLink::Loaded(branch);
        if shared_key.is_empty() {
            branch
        } else {
            NodeLink::Loaded(TrieNode::extension(shared_key, branch))
        }
    }

    /// Removes the key from the subtree of `link`, which is at nibble `depth` of the key. Returns
    /// whether the trie changed.
    pub(super) fn remove(&mut self, link: &mut NodeLink, depth: usize) -> Result<bool, StoreError> {
        self.load(link, &self.key[..depth])?;
        let rest = &self.key[depth..];
        let NodeLink::Loaded(node) = link else {
            return Ok(false);
        };
        let changed = match &mut *node.kind {
            NodeKind::Leaf(leaf) => {
                if leaf.key != rest {
                    return Ok(false);
                }
                *link = NodeLink::Empty;
                return Ok(true);
            }
            NodeKind::Extension(extension) => {
                rest.starts_with(&extension.key) && {
                    let depth = depth + extension.key.len();
                    self.remove(&mut extension.child, depth)?
                }
            }
            NodeKind::Branch(branch) => match rest.split_first() {
                None => branch.value.take().is_some(),
                Some((nibble, _)) => match branch.children.get_mut(*nibble) {
                    Some(child) => {
                        let changed = self.remove(child, depth + 1)?;
                        if child.is_empty() {
                            branch.children.take(*nibble);
                        }
                        changed
                    }
                    None => false,
                },
            },
        };
        if changed {
            node.touch();
            self.collapse(node, depth)?;
        }
        Ok(changed)
    }

    /// Restores the canonical form after a removal below `node`: a branch has at least two entries,
    /// and the child of an extension is a branch.
    fn collapse(&mut self, node: &mut TrieNode, depth: usize) -> Result<(), StoreError> {
        if let NodeKind::Branch(Branch { children, value }) = &mut *node.kind {
            match (children.first(), children.len(), value.take()) {
                (None, _, Some(value)) => {
                    *node = TrieNode::leaf(Vec::new(), value);
                    self.obsolete.push(self.row(&self.key[..depth]));
                }
                (Some(nibble), 1, None) => {
                    let child = children.take(nibble);
                    *node = TrieNode::extension(vec![nibble], child);
                }
                (_, _, unchanged) => {
                    *value = unchanged;
                    return Ok(());
                }
            }
        }
        self.merge(node, depth)
    }

    /// Merges an extension with its child, unless the child is a branch.
    fn merge(&mut self, node: &mut TrieNode, depth: usize) -> Result<(), StoreError> {
        let NodeKind::Extension(extension) = &mut *node.kind else {
            return Ok(());
        };
        let path = [&self.key[..depth], &extension.key].concat();
        self.load(&mut extension.child, &path)?;
        let NodeLink::Loaded(below) = &mut extension.child else {
            unreachable!("the child was a branch or a stored node, and `load` read it")
        };
        let mut whole = std::mem::take(&mut extension.key);
        *node = match &mut *below.kind {
            NodeKind::Branch(_) => {
                extension.key = whole;
                return Ok(());
            }
            NodeKind::Leaf(leaf) => {
                whole.append(&mut leaf.key);
                let leaf = TrieNode::leaf(whole, std::mem::take(&mut leaf.value));
                // Leaves have no rows.
                self.obsolete.push(self.row(&self.key[..depth]));
                leaf
            }
            NodeKind::Extension(lower) => {
                whole.append(&mut lower.key);
                self.obsolete.push(self.row(&path));
                TrieNode::extension(whole, std::mem::take(&mut lower.child))
            }
        };
        Ok(())
    }
}

/// The length of the common prefix of two keys, in nibbles.
fn shared(key: &[u8], other: &[u8]) -> usize {
    key.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// Replaces a value. Returns whether the new value differs.
fn replace(old: &mut Vec<u8>, value: &[u8]) -> bool {
    let differs = old != value;
    if differs {
        old.clear();
        old.extend_from_slice(value);
    }
    differs
}
