//! One key's way down a trie, and what setting or removing its value does to the nodes there.
//!
//! Source: Ethereum Yellow Paper, appendix D. Knows nodes in memory and how one is loaded;
//! hashes nothing but what it loads.

use primitives::keccak256;
use store::{StoreError, TableId};

use super::NodeSource;
use super::node::{Branch, Kind, Link, Node, Reference};

/// One key's way down.
pub(super) struct Walk<'a, S> {
    pub(super) prefix: &'a [u8],
    pub(super) source: &'a S,
    /// The whole key, a nibble a byte.
    pub(super) key: &'a [u8],
    /// Paths where a node was and is no more.
    pub(super) obsolete: &'a mut Vec<Vec<u8>>,
    /// Nodes that came into memory.
    pub(super) loaded: u64,
    /// Those of them that were read.
    pub(super) read: u64,
}

impl<S: NodeSource> Walk<'_, S> {
    fn row(&self, path: &[u8]) -> Vec<u8> {
        [self.prefix, path].concat()
    }

    /// Loads the node at `path` where it is still in the store.
    fn load(&mut self, link: &mut Link, path: &[u8]) -> Result<(), StoreError> {
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
            *link = Link::Node(node);
            self.loaded += 1;
            self.read += 1;
        }
        Ok(())
    }

    /// Whether something was changed.
    pub(super) fn insert(&mut self, link: &mut Link, depth: usize, value: &[u8]) -> Result<bool, StoreError> {
        let key = self.key;
        self.load(link, &key[..depth])?;
        let rest = &key[depth..];
        let Link::Node(node) = link else {
            *link = Link::Node(Node::leaf(rest.to_vec(), value.to_vec()));
            self.loaded += 1;
            return Ok(true);
        };
        let (shared, length) = match &mut node.kind {
            Kind::Branch(branch) => {
                let changed = match rest.split_first() {
                    Some((nibble, _)) => {
                        self.insert(&mut branch.children[usize::from(*nibble)], depth + 1, value)?
                    }
                    None => replace(branch.value.get_or_insert_default(), value),
                };
                if changed {
                    node.touch();
                }
                return Ok(changed);
            }
            Kind::Leaf(leaf) if leaf.key == rest => {
                let changed = replace(&mut leaf.value, value);
                if changed {
                    node.touch();
                }
                return Ok(changed);
            }
            Kind::Leaf(leaf) => (shared(&leaf.key, rest), leaf.key.len()),
            Kind::Extension(extension) => (shared(&extension.key, rest), extension.key.len()),
        };
        if let Kind::Extension(extension) = &mut node.kind
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

    /// Turns a leaf or extension into a branch at nibble `shared` of its key, behind an
    /// extension where `shared` is not 0, and puts `value` under what is left of its key there.
    /// Deeper nodes keep their paths.
    fn split(&mut self, link: Link, shared: usize, rest: &[u8], value: &[u8]) -> Link {
        let Link::Node(node) = link else {
            unreachable!("only nodes are split")
        };
        let mut branch = Box::<Branch>::default();
        let mut shared_key = match node.kind {
            Kind::Leaf(leaf) => {
                match leaf.key.get(shared) {
                    None => branch.value = Some(leaf.value),
                    Some(nibble) => {
                        let below = Node::leaf(leaf.key[shared + 1..].to_vec(), leaf.value);
                        branch.children[usize::from(*nibble)] = Link::Node(below);
                    }
                }
                leaf.key
            }
            Kind::Extension(extension) => {
                let (key, child) = (extension.key, extension.child);
                branch.children[usize::from(key[shared])] = if key.len() == shared + 1 {
                    child
                } else {
                    Link::Node(Node::extension(key[shared + 1..].to_vec(), child))
                };
                key
            }
            Kind::Branch(_) => unreachable!("branches are not split"),
        };
        shared_key.truncate(shared);
        match rest.split_first() {
            None => branch.value = Some(value.to_vec()),
            Some((nibble, rest)) => {
                branch.children[usize::from(*nibble)] = Link::Node(Node::leaf(rest.to_vec(), value.to_vec()));
            }
        }
        // Branch, new leaf, and what was split.
        self.loaded += 3;
        let branch = Link::Node(Node::branch(branch));
        if shared_key.is_empty() {
            branch
        } else {
            Link::Node(Node::extension(shared_key, branch))
        }
    }

    /// Whether something was removed.
    pub(super) fn remove(&mut self, link: &mut Link, depth: usize) -> Result<bool, StoreError> {
        self.load(link, &self.key[..depth])?;
        let rest = &self.key[depth..];
        let Link::Node(node) = link else { return Ok(false) };
        let changed = match &mut node.kind {
            Kind::Leaf(leaf) => {
                if leaf.key != rest {
                    return Ok(false);
                }
                *link = Link::Empty;
                self.obsolete.push(self.row(&self.key[..depth]));
                return Ok(true);
            }
            Kind::Extension(extension) => {
                rest.starts_with(&extension.key) && {
                    let depth = depth + extension.key.len();
                    self.remove(&mut extension.child, depth)?
                }
            }
            Kind::Branch(branch) => match rest.split_first() {
                None => branch.value.take().is_some(),
                Some((nibble, _)) => self.remove(&mut branch.children[usize::from(*nibble)], depth + 1)?,
            },
        };
        if changed {
            node.touch();
            self.collapse(node, depth)?;
        }
        Ok(changed)
    }

    /// Restores the canonical form after a removal below: no branch with one way only, no
    /// extension before anything but a branch.
    fn collapse(&mut self, node: &mut Node, depth: usize) -> Result<(), StoreError> {
        if let Kind::Branch(branch) = &mut node.kind {
            let Branch { children, value } = &mut **branch;
            let mut ways = children.iter().enumerate().filter(|(_, child)| !child.is_empty());
            match (ways.next(), ways.next(), value.is_some()) {
                (None, _, true) => {
                    let value = value.take().expect("just seen");
                    *node = Node::leaf(Vec::new(), value);
                }
                (Some((nibble, _)), None, false) => {
                    let child = std::mem::take(&mut children[nibble]);
                    *node = Node::extension(vec![nibble as u8], child);
                }
                _ => return Ok(()),
            }
        }
        self.merge(node, depth)
    }

    /// Draws the child of an extension into it, unless the child is a branch.
    fn merge(&mut self, node: &mut Node, depth: usize) -> Result<(), StoreError> {
        let Kind::Extension(extension) = &mut node.kind else {
            return Ok(());
        };
        let path = [&self.key[..depth], &extension.key].concat();
        self.load(&mut extension.child, &path)?;
        let Link::Node(below) = &mut extension.child else {
            unreachable!("an extension's child is never removed as a whole: it is a branch")
        };
        let mut whole = std::mem::take(&mut extension.key);
        *node = match &mut below.kind {
            Kind::Branch(_) => {
                extension.key = whole;
                return Ok(());
            }
            Kind::Leaf(leaf) => {
                whole.append(&mut leaf.key);
                Node::leaf(whole, std::mem::take(&mut leaf.value))
            }
            Kind::Extension(lower) => {
                whole.append(&mut lower.key);
                Node::extension(whole, std::mem::take(&mut lower.child))
            }
        };
        self.obsolete.push(self.row(&path));
        Ok(())
    }
}

/// How many nibbles two keys have in common at their beginning.
fn shared(key: &[u8], other: &[u8]) -> usize {
    key.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// Puts a value in place of another; says whether they differ.
fn replace(old: &mut Vec<u8>, value: &[u8]) -> bool {
    let differs = old != value;
    if differs {
        old.clear();
        old.extend_from_slice(value);
    }
    differs
}
