//! Verifies a stored trie: compares every node, from the root down, with the hash that its parent
//! has.
//!
//! After a missing or altered node the walk continues with its siblings, so one walk finds all
//! faults. It holds the nodes of one path in memory.

use primitives::{B256, EMPTY_ROOT, keccak256};
use store::StoreError;

use super::NodeSource;
use super::node::{NodeKind, NodeLink, NodeReference, TrieNode, TrieNodeError};

/// The longest path to a node, in nibbles.
const DEPTH_MAX: usize = 64;

/// The size of a verified trie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrieCounts {
    /// Number of rows that were read.
    pub(crate) nodes: u64,
    /// Number of values.
    pub(crate) leaves: u64,
}

/// Verifies the trie with this root, whose rows begin with `prefix`. Calls `fault` with the row and
/// a text for each fault.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub(crate) fn verify_trie(
    source: &impl NodeSource,
    prefix: Vec<u8>,
    root: B256,
    fault: &mut dyn FnMut(&[u8], String),
) -> Result<TrieCounts, StoreError> {
    let mut verifier = TrieVerifier {
        source,
        prefix_bytes: prefix.len(),
        row: prefix,
        fault,
        counts: TrieCounts::default(),
    };
    if root != EMPTY_ROOT {
        verifier.verify_stored(root)?;
    }
    Ok(verifier.counts)
}

struct TrieVerifier<'a, S> {
    source: &'a S,
    /// The current position: prefix and path.
    row: Vec<u8>,
    prefix_bytes: usize,
    fault: &'a mut dyn FnMut(&[u8], String),
    counts: TrieCounts,
}

impl<S: NodeSource> TrieVerifier<'_, S> {
    fn report(&mut self, reason: String) {
        (self.fault)(&self.row, reason);
    }

    /// Verifies the node in the row at the current position, and all nodes below it.
    fn verify_stored(&mut self, expected: B256) -> Result<(), StoreError> {
        let Some(rlp) = self.source.node(&self.row)? else {
            self.report(TrieNodeError::Missing { expected }.to_string());
            return Ok(());
        };
        self.counts.nodes += 1;
        let got = keccak256(&rlp);
        if got != expected {
            self.report(TrieNodeError::Hash { got, expected }.to_string());
            return Ok(());
        }
        match TrieNode::decode(&rlp, NodeReference::Hash(expected)) {
            Ok(node) => self.verify_children(&node),
            Err(error) => {
                self.report(error.to_string());
                Ok(())
            }
        }
    }

    fn verify_children(&mut self, node: &TrieNode) -> Result<(), StoreError> {
        let depth = self.row.len() - self.prefix_bytes;
        if depth > DEPTH_MAX {
            self.report(format!(
                "depth: got {depth} nibbles, expected at most {DEPTH_MAX}"
            ));
            return Ok(());
        }
        match &node.kind {
            NodeKind::Leaf(_) => self.counts.leaves += 1,
            NodeKind::Extension(extension) => self.verify_child(&extension.key, &extension.child)?,
            NodeKind::Branch(branch) => {
                self.counts.leaves += u64::from(branch.value.is_some());
                for (nibble, child) in branch.children.iter().enumerate() {
                    self.verify_child(&[nibble as u8], child)?;
                }
            }
        }
        Ok(())
    }

    /// Verifies a child whose path is the current one and `key`.
    fn verify_child(&mut self, key: &[u8], child: &NodeLink) -> Result<(), StoreError> {
        let length = self.row.len();
        self.row.extend_from_slice(key);
        match child {
            NodeLink::Empty => {}
            NodeLink::Stored(hash) => self.verify_stored(*hash)?,
            NodeLink::Loaded(node) => self.verify_children(node)?,
        }
        self.row.truncate(length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trie::tests::StoredNodes;
    use crate::trie::{NoNodes, Trie};

    fn stored_trie() -> (B256, StoredNodes) {
        let mut trie = Trie::new(vec![9], EMPTY_ROOT);
        for key in 0u16..300 {
            let key = keccak256(key.to_be_bytes());
            trie.insert(&NoNodes, key.as_slice(), &[7; 40]).unwrap();
        }
        let (root, rows) = trie.take_rows();
        let mut stored = StoredNodes::default();
        stored.apply(rows);
        (root, stored)
    }

    fn faults(root: B256, rows: &StoredNodes) -> (TrieCounts, Vec<(Vec<u8>, String)>) {
        let mut faults = Vec::new();
        let counts = verify_trie(rows, vec![9], root, &mut |row, reason| {
            faults.push((row.to_vec(), reason));
        });
        (counts.unwrap(), faults)
    }

    #[test]
    fn every_node_of_a_sound_trie_is_counted() {
        let (root, rows) = stored_trie();
        let (counts, faults) = faults(root, &rows);
        assert_eq!(faults, []);
        assert_eq!((counts.nodes, counts.leaves), (rows.0.len() as u64, 300));
        assert_eq!(
            super::verify_trie(&rows, vec![9], EMPTY_ROOT, &mut |_, _| panic!("no fault")).unwrap(),
            TrieCounts::default()
        );
    }

    #[test]
    fn every_altered_row_is_reported_with_its_path() {
        let (root, mut rows) = stored_trie();
        let paths: Vec<_> = rows.0.keys().cloned().collect();
        for path in &paths {
            let row = rows.0.get_mut(path).unwrap();
            *row.last_mut().unwrap() ^= 1;
            let (_, found) = faults(root, &rows);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].0 == *path && found[0].1.contains("node hash: got"));
            *rows.0.get_mut(path).unwrap().last_mut().unwrap() ^= 1;
        }
        // With two missing rows, the walk continues after the first one.
        let mut leaves = paths.iter().filter(|path| path.len() > 2);
        for path in [leaves.next().unwrap(), leaves.next().unwrap()] {
            rows.0.remove(path);
        }
        let (_, found) = faults(root, &rows);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|(_, reason)| reason.starts_with("no node")));
    }
}
