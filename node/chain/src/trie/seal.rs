//! References and rows: what changed nodes are called, and how the store follows them.
//!
//! Nodes of one level do not wait for each other, so they are encoded and hashed together,
//! level by level from below, for all tries at once.

use ethash::keccak256_many;
use primitives::B256;

use super::node::{Kind, Link, Node, Reference};
use super::{NodeRows, Trie};

/// Nodes with shorter RLP are written into their parents.
const HASHED_BYTES_MIN: usize = 32;

/// Computes the references that are missing in these tries; says how many those were.
pub(super) fn seal<'t>(tries: impl IntoIterator<Item = &'t Trie>) -> u64 {
    let mut levels = Vec::new();
    for trie in tries {
        collect(&trie.root, 0, &mut levels);
    }
    let mut bytes = Vec::new();
    let mut sealed = 0;
    for level in levels.iter().rev() {
        seal_level(level, &mut bytes);
        sealed += level.len() as u64;
    }
    sealed
}

/// Finds the nodes without a reference: where one lacks it, all above do.
fn collect<'t>(link: &'t Link, depth: usize, levels: &mut Vec<Vec<&'t Node>>) {
    let Link::Node(node) = link else { return };
    if node.reference.get().is_some() {
        return;
    }
    if levels.len() == depth {
        levels.push(Vec::new());
    }
    levels[depth].push(node);
    match &node.kind {
        Kind::Leaf(_) => {}
        Kind::Extension(extension) => collect(&extension.child, depth + 1, levels),
        Kind::Branch(branch) => {
            for child in &branch.children {
                collect(child, depth + 1, levels);
            }
        }
    }
}

/// Computes the references of nodes whose children have theirs. `bytes` is room to work in.
fn seal_level(level: &[&Node], bytes: &mut Vec<u8>) {
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
    // Short ones are hashed for nothing, and are few.
    let hashes = keccak256_many(&encoded);
    for ((node, rlp), hash) in level.iter().zip(encoded).zip(hashes) {
        let reference = if rlp.len() < HASHED_BYTES_MIN {
            Reference::Inline(rlp.to_vec())
        } else {
            Reference::Hash(B256::from(hash))
        };
        node.reference
            .set(reference)
            .expect("only nodes without a reference are collected");
    }
}

/// Appends the rows of unsaved nodes, by path. The root is always stored, however short.
pub(super) fn save(node: &mut Node, path: &mut Vec<u8>, root: bool, rows: &mut NodeRows) {
    if !node.unsaved {
        return;
    }
    node.unsaved = false;
    let stored = root || matches!(node.reference.get(), Some(Reference::Hash(_)));
    let rlp = stored.then(|| {
        let mut rlp = Vec::new();
        node.encode_to(&mut rlp);
        rlp
    });
    rows.push((path.clone(), rlp));
    match &mut node.kind {
        Kind::Leaf(_) => {}
        Kind::Extension(extension) => {
            let length = path.len();
            path.extend_from_slice(&extension.key);
            if let Link::Node(child) = &mut extension.child {
                save(child, path, false, rows);
            }
            path.truncate(length);
        }
        Kind::Branch(branch) => {
            for (nibble, child) in branch.children.iter_mut().enumerate() {
                if let Link::Node(child) = child {
                    path.push(nibble as u8);
                    save(child, path, false, rows);
                    path.pop();
                }
            }
        }
    }
}
