//! Computes the references of changed nodes, and the rows by which the store follows them.
//!
//! The nodes of one level do not depend on each other. So they are encoded and hashed together,
//! level by level from the deepest one up, for all tries at once.

use ethash::keccak256_many;
use primitives::B256;

use super::node::{NodeKind, NodeLink, NodeReference, TrieNode, push_leaf_bits};
use super::{PathNodes, Trie};

/// Computes the missing references of these tries. Returns their number.
pub(super) fn compute<'t>(tries: impl IntoIterator<Item = &'t Trie>) -> u64 {
    compute_links(tries.into_iter().map(|trie| &trie.root))
}

/// Computes the missing references of these nodes and of the nodes below them. Returns their
/// number.
pub(super) fn compute_links<'t>(links: impl Iterator<Item = &'t NodeLink>) -> u64 {
    let mut levels = Vec::new();
    for link in links {
        collect_unreferenced(link, 0, &mut levels);
    }
    let mut bytes = Vec::new();
    let mut computed = 0;
    for level in levels.iter().rev() {
        compute_level(level, &mut bytes);
        computed += level.len() as u64;
    }
    computed
}

/// Collects the nodes without a reference by level. If a node has no reference, its ancestors have
/// none either, so the search stops at the first node with one.
fn collect_unreferenced<'t>(link: &'t NodeLink, depth: usize, levels: &mut Vec<Vec<&'t TrieNode>>) {
    let NodeLink::Loaded(node) = link else { return };
    if node.reference.get().is_some() {
        return;
    }
    if levels.len() == depth {
        levels.push(Vec::new());
    }
    levels[depth].push(node);
    match &*node.kind {
        NodeKind::Leaf(_) => {}
        NodeKind::Extension(extension) => collect_unreferenced(&extension.child, depth + 1, levels),
        NodeKind::Branch(branch) => {
            for (_, child) in branch.children.iter() {
                collect_unreferenced(child, depth + 1, levels);
            }
        }
    }
}

/// Computes the references of the nodes of one level, whose children have theirs. `bytes` is a
/// buffer that is reused between levels.
fn compute_level(level: &[&TrieNode], bytes: &mut Vec<u8>) {
    bytes.clear();
    let mut starts = Vec::with_capacity(level.len());
    for node in level {
        starts.push(bytes.len());
        node.encode_to(bytes);
    }
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    let encoded: Vec<&[u8]> = starts
        .iter()
        .zip(ends)
        .map(|(start, end)| &bytes[*start..end])
        .collect();
    // The few short nodes need no hash, but sorting them out would cost more.
    let hashes = keccak256_many(&encoded);
    for ((node, rlp), hash) in level.iter().zip(encoded).zip(hashes) {
        let reference = NodeReference::with(rlp, || B256::from(hash));
        node.reference
            .set(reference)
            .expect("only nodes without a reference are collected");
    }
}

/// A walk over the nodes that are not saved.
pub(super) struct UnsavedWalk<F> {
    /// Takes the rows, sorted by path. `None` removes the row of a node that has none any more.
    put: F,
    path: Vec<u8>,
    /// The row of the current node. The buffer is used for all.
    row: Vec<u8>,
}

impl<E, F: FnMut(&[u8], Option<&[u8]>) -> Result<(), E>> UnsavedWalk<F> {
    /// A walk over a trie whose rows begin with `prefix`.
    pub(super) fn new(prefix: &[u8], put: F) -> Self {
        Self {
            put,
            path: prefix.to_vec(),
            row: Vec::new(),
        }
    }

    /// Passes the rows of a node and of the nodes below it to `put`, sorted by path, and marks them
    /// as saved. Leaves have no rows. Nor has a short node, except for the root.
    ///
    /// # Errors
    /// Any error of `put`.
    pub(super) fn save(&mut self, node: &mut TrieNode, root: bool) -> Result<(), E> {
        if !node.unsaved {
            return Ok(());
        }
        node.unsaved = false;
        if !matches!(*node.kind, NodeKind::Leaf(_)) {
            let stored = root || node.is_hashed();
            if stored {
                self.row.clear();
                node.encode_to(&mut self.row);
                if let Some(bits) = node.leaf_bits() {
                    push_leaf_bits(bits, &mut self.row);
                }
            }
            (self.put)(&self.path, stored.then_some(&self.row))?;
        }
        match &mut *node.kind {
            NodeKind::Leaf(_) => Ok(()),
            NodeKind::Extension(extension) => self.save_below(&extension.key, &mut extension.child),
            NodeKind::Branch(branch) => branch
                .children
                .iter_mut()
                .try_for_each(|(nibble, child)| self.save_below(&[nibble], child)),
        }
    }

    fn save_below(&mut self, key: &[u8], link: &mut NodeLink) -> Result<(), E> {
        let NodeLink::Loaded(child) = link else {
            return Ok(());
        };
        let length = self.path.len();
        self.path.extend_from_slice(key);
        self.save(child, false)?;
        self.path.truncate(length);
        Ok(())
    }
}

/// Appends path and RLP of a node and of the nodes below it, but for those that are embedded in
/// their parents.
pub(super) fn collect_nodes(node: &TrieNode, path: &mut Vec<u8>, nodes: &mut PathNodes) {
    if path.is_empty() || node.is_hashed() {
        let mut rlp = Vec::new();
        node.encode_to(&mut rlp);
        nodes.push((path.clone(), rlp));
    }
    let mut below = |key: &[u8], child: &NodeLink| {
        if let NodeLink::Loaded(child) = child {
            let length = path.len();
            path.extend_from_slice(key);
            collect_nodes(child, path, nodes);
            path.truncate(length);
        }
    };
    match &*node.kind {
        NodeKind::Leaf(_) => {}
        NodeKind::Extension(extension) => below(&extension.key, &extension.child),
        NodeKind::Branch(branch) => {
            for (nibble, child) in branch.children.iter() {
                below(&[nibble], child);
            }
        }
    }
}
