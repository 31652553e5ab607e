//! Verifies a stored trie: compares every node, from the root down, with the hash that its parent
//! has.
//!
//! After a missing or altered node the walk continues with its siblings, so one walk finds all
//! faults. It holds the nodes of one path in memory.

use primitives::{B256, EMPTY_ROOT};
use store::StoreError;

use super::node::{NodeKind, NodeLink, TrieNode};
use super::{NodeSource, read_node};

/// The longest path to a node, in nibbles.
const DEPTH_MAX: usize = 64;

/// The size of a verified trie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrieCounts {
    /// Number of branches and extensions that have rows.
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
        verifier.verify_stored(&NodeLink::Stored(root), true)?;
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

    /// Verifies the stored node at the current position, and all nodes below it.
    fn verify_stored(&mut self, link: &NodeLink, is_root: bool) -> Result<(), StoreError> {
        match read_node(self.source, &self.row, link, is_root)? {
            Ok(node) => {
                self.counts.nodes += u64::from(!matches!(*node.kind, NodeKind::Leaf(_)));
                self.verify_children(&node)
            }
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
        match &*node.kind {
            NodeKind::Leaf(_) => self.counts.leaves += 1,
            NodeKind::Extension(extension) => self.verify_child(&extension.key, &extension.child)?,
            NodeKind::Branch(branch) => {
                self.counts.leaves += u64::from(branch.value.is_some());
                for (nibble, child) in branch.children.iter() {
                    self.verify_child(&[nibble], child)?;
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
            NodeLink::Stored(_) | NodeLink::StoredLeaf(_) => self.verify_stored(child, false)?,
            NodeLink::Loaded(node) => self.verify_children(node)?,
        }
        self.row.truncate(length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use primitives::keccak256;

    use super::*;
    use crate::trie::tests::StoredNodes;
    use crate::trie::{NoNodes, Trie};

    fn stored_trie() -> (B256, StoredNodes) {
        let mut trie = Trie::new(vec![9], EMPTY_ROOT);
        let mut stored = StoredNodes::default();
        for key in 0u16..300 {
            let key = keccak256(key.to_be_bytes());
            trie.insert(&NoNodes, key.as_slice(), &[7; 40]).unwrap();
            stored.set(&[9], key.as_slice(), &[7; 40]);
        }
        let (root, rows) = trie.take_rows();
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
        assert_eq!((counts.nodes, counts.leaves), (rows.rows.len() as u64, 300));
        assert_eq!(
            super::verify_trie(&rows, vec![9], EMPTY_ROOT, &mut |_, _| panic!("no fault")).unwrap(),
            TrieCounts::default()
        );
    }

    #[test]
    fn every_altered_row_is_reported_with_its_path() {
        let (root, mut rows) = stored_trie();
        let paths: Vec<_> = rows.rows.keys().cloned().collect();
        for path in &paths {
            for at in [5, rows.rows[path].len() - 1] {
                rows.rows.get_mut(path).unwrap()[at] ^= 1;
                let (_, found) = faults(root, &rows);
                assert!(!found.is_empty(), "{path:?}");
                assert!(at > 5 || found[0].0 == *path && found[0].1.contains("node hash: got"));
                rows.rows.get_mut(path).unwrap()[at] ^= 1;
            }
        }
        let leaves: Vec<_> = rows.values.keys().cloned().collect();
        for leaf in leaves.iter().step_by(50) {
            rows.values.get_mut(leaf).unwrap()[0] ^= 1;
            let (_, found) = faults(root, &rows);
            assert!(
                found.len() == 1 && found[0].1.contains("node hash: got"),
                "{found:?}"
            );
            rows.values.get_mut(leaf).unwrap()[0] ^= 1;
        }
        // With two missing rows, the walk continues after the first one.
        let mut below = paths.iter().filter(|path| path.len() > 2);
        for path in [below.next().unwrap(), below.next().unwrap()] {
            rows.rows.remove(path);
        }
        let (_, found) = faults(root, &rows);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|(_, reason)| reason.starts_with("no node")));
    }
}
