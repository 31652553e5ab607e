//! Every node of a stored trie, from its root down, compared with the hash its parent has.
//!
//! Goes on beside a node that is missing or altered, so that one walk finds all of them.
//! Holds one way down in memory.

use primitives::{B256, EMPTY_ROOT, keccak256};
use store::StoreError;

use super::NodeSource;
use super::node::{Kind, Link, Node, Reference};

/// Longest way down, in nibbles.
const DEPTH_MAX: usize = 64;

/// What a walk saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    /// Rows that were read.
    pub(crate) nodes: u64,
    /// Values at the ends.
    pub(crate) leaves: u64,
}

/// Walks the trie with this root, whose rows lie under `prefix`. `fault` is told the row and
/// what is wrong with it.
///
/// # Errors
/// [`StoreError`] when the medium fails.
pub(crate) fn walk(
    source: &impl NodeSource,
    prefix: Vec<u8>,
    root: B256,
    fault: &mut dyn FnMut(&[u8], String),
) -> Result<Walked, StoreError> {
    let mut walk = Walk {
        source,
        start: prefix.len(),
        row: prefix,
        fault,
        walked: Walked::default(),
    };
    if root != EMPTY_ROOT {
        walk.stored(root)?;
    }
    Ok(walk.walked)
}

struct Walk<'a, S> {
    source: &'a S,
    /// Prefix and path of where the walk is.
    row: Vec<u8>,
    /// Length of the prefix.
    start: usize,
    fault: &'a mut dyn FnMut(&[u8], String),
    walked: Walked,
}

impl<S: NodeSource> Walk<'_, S> {
    fn wrong(&mut self, reason: String) {
        (self.fault)(&self.row, reason);
    }

    /// The node in the row where the walk is.
    fn stored(&mut self, expected: B256) -> Result<(), StoreError> {
        let Some(rlp) = self.source.node(&self.row)? else {
            self.wrong(format!("no node, want {expected}"));
            return Ok(());
        };
        self.walked.nodes += 1;
        let got = keccak256(&rlp);
        if got != expected {
            self.wrong(format!("node has hash {got}, want {expected}"));
            return Ok(());
        }
        match Node::decode(&rlp, Reference::Hash(expected)) {
            Ok(node) => self.node(&node),
            Err(reason) => {
                self.wrong(reason);
                Ok(())
            }
        }
    }

    fn node(&mut self, node: &Node) -> Result<(), StoreError> {
        if self.row.len() - self.start > DEPTH_MAX {
            self.wrong(format!("deeper than {DEPTH_MAX} nibbles"));
            return Ok(());
        }
        match &node.kind {
            Kind::Leaf(_) => self.walked.leaves += 1,
            Kind::Extension(extension) => self.below(&extension.key, &extension.child)?,
            Kind::Branch(branch) => {
                self.walked.leaves += u64::from(branch.value.is_some());
                for (nibble, child) in branch.children.iter().enumerate() {
                    self.below(&[nibble as u8], child)?;
                }
            }
        }
        Ok(())
    }

    fn below(&mut self, way: &[u8], child: &Link) -> Result<(), StoreError> {
        let length = self.row.len();
        self.row.extend_from_slice(way);
        match child {
            Link::Empty => {}
            Link::Stored(hash) => self.stored(*hash)?,
            Link::Node(node) => self.node(node)?,
        }
        self.row.truncate(length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::trie::{NoNodes, Trie};

    struct Rows(HashMap<Vec<u8>, Vec<u8>>);

    impl NodeSource for Rows {
        fn node(&self, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            Ok(self.0.get(path).cloned())
        }
    }

    fn rows() -> (B256, Rows) {
        let mut trie = Trie::new(vec![9], EMPTY_ROOT);
        for key in 0u16..300 {
            let key = keccak256(key.to_be_bytes());
            trie.insert(&NoNodes, key.as_slice(), &[7; 40]).unwrap();
        }
        let (root, rows) = trie.commit();
        let kept = rows
            .into_iter()
            .filter_map(|(path, node)| Some((path, node?)))
            .collect();
        (root, Rows(kept))
    }

    fn faults(root: B256, rows: &Rows) -> (Walked, Vec<(Vec<u8>, String)>) {
        let mut faults = Vec::new();
        let walked = walk(rows, vec![9], root, &mut |row, reason| {
            faults.push((row.to_vec(), reason));
        });
        (walked.unwrap(), faults)
    }

    #[test]
    fn a_whole_trie_is_walked_whole() {
        let (root, rows) = rows();
        let (walked, faults) = faults(root, &rows);
        assert_eq!(faults, []);
        assert_eq!((walked.nodes, walked.leaves), (rows.0.len() as u64, 300));
        assert_eq!(
            super::walk(&rows, vec![9], EMPTY_ROOT, &mut |_, _| panic!("no fault")).unwrap(),
            Walked::default()
        );
    }

    #[test]
    fn every_altered_row_is_found_at_its_place() {
        let (root, mut rows) = rows();
        let paths: Vec<_> = rows.0.keys().cloned().collect();
        for path in &paths {
            let row = rows.0.get_mut(path).unwrap();
            *row.last_mut().unwrap() ^= 1;
            let (_, found) = faults(root, &rows);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].0 == *path && found[0].1.contains("node has hash"));
            *rows.0.get_mut(path).unwrap().last_mut().unwrap() ^= 1;
        }
        // Two at once: the walk goes on behind the first.
        let mut leaves = paths.iter().filter(|path| path.len() > 2);
        for path in [leaves.next().unwrap(), leaves.next().unwrap()] {
            rows.0.remove(path);
        }
        let (_, found) = faults(root, &rows);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|(_, reason)| reason.starts_with("no node")));
    }
}
