//! One key's way down a trie, and what setting or removing its value does to the nodes there.
//!
//! Source: Ethereum Yellow Paper, appendix D. Knows nodes in memory and how one is loaded;
//! hashes nothing but what it loads.

use super::NodeSource;
use super::node::{Kind, Link, Node, Reference};
use primitives::keccak256;
use store::{StoreError, TableId};

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
            *link = Link::Node(Box::new(node));
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
            *link = Node::leaf(rest, value.to_vec());
            self.loaded += 1;
            return Ok(true);
        };
        let changed = match &mut node.kind {
            Kind::Leaf { key, value: old } if key == rest => {
                let changed = old != value;
                if changed {
                    *old = value.to_vec();
                }
                changed
            }
            Kind::Branch { value: old, .. } if rest.is_empty() => {
                let changed = old.as_deref() != Some(value);
                if changed {
                    *old = Some(value.to_vec());
                }
                changed
            }
            Kind::Branch { children, .. } => {
                self.insert(&mut children[usize::from(rest[0])], depth + 1, value)?
            }
            Kind::Extension { key, child } if rest.starts_with(key) => {
                let depth = depth + key.len();
                self.insert(child, depth, value)?
            }
            Kind::Leaf { key, .. } | Kind::Extension { key, .. } => {
                let shared = key.iter().zip(rest).take_while(|(a, b)| a == b).count();
                self.split(link, shared);
                self.put_at_split(link, &rest[shared..], value);
                return Ok(true);
            }
        };
        if changed {
            node.touch();
        }
        Ok(changed)
    }

    /// Puts the value into what [`Self::split`] left; `rest` is the key from the branch on.
    fn put_at_split(&mut self, link: &mut Link, rest: &[u8], value: &[u8]) {
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
        match rest.split_first() {
            None => *own = Some(value.to_vec()),
            Some((nibble, rest)) => {
                children[usize::from(*nibble)] = Node::leaf(rest, value.to_vec());
            }
        }
        // Branch, new leaf, and what was split.
        self.loaded += 3;
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
    pub(super) fn remove(&mut self, link: &mut Link, depth: usize) -> Result<bool, StoreError> {
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
