//! Trie nodes as they were before recent blocks.
//!
//! The trie's table has the nodes of the head state. A row of [`TableId::BlockToPastNodes`] has the
//! nodes that a block changed, as they were before it: the number of nodes in LEB128, then for each
//! node, ascending by path, the length of its path, the path, 0 if there was no node and otherwise
//! the length of the node plus 1, and the node. Lengths are in LEB128.
//!
//! So the node at a path after block N is that of the first row above N that has the path, or that
//! of the head. One row a block is written and removed at the ends of a small table, whatever the
//! size of the state. Which rows are kept is for the package `chain` to say.

use std::ops::ControlFlow;

use crate::codec::{RowReader, push_number};
use crate::row_error::RowError;
use crate::source::{Source, read_row};
use crate::write_tables::Tables;
use crate::{StoreError, TableId};

const TABLE: TableId = TableId::BlockToPastNodes;

/// A path, and the node that was there before a block; `None` if there was none.
pub type PastNode = (Vec<u8>, Option<Vec<u8>>);

/// Calls `visit` with each node of a row, in order, until it breaks.
fn scan_row<'a>(
    row: &'a [u8],
    mut visit: impl FnMut(&'a [u8], Option<&'a [u8]>) -> ControlFlow<()>,
) -> Result<(), RowError> {
    let mut reader = RowReader::new(row);
    let mut before: Option<&[u8]> = None;
    for _ in 0..reader.number()? {
        let length = reader.number32("length of a path")?;
        let path = reader.take(length as usize)?;
        if before.is_some_and(|before| before >= path) {
            return Err(RowError::Order { field: "paths" });
        }
        before = Some(path);
        let node = match reader.number32("length of a node")? {
            0 => None,
            length => Some(reader.take(length as usize - 1)?),
        };
        if visit(path, node).is_break() {
            return Ok(());
        }
    }
    reader.finish()
}

fn encode(nodes: &[PastNode]) -> Vec<u8> {
    let bytes = nodes
        .iter()
        .map(|(path, node)| path.len() + node.as_ref().map_or(0, Vec::len) + 4);
    let mut row = Vec::with_capacity(bytes.sum::<usize>() + 4);
    push_number(&mut row, nodes.len() as u64);
    for (path, node) in nodes {
        push_number(&mut row, path.len() as u64);
        row.extend_from_slice(path);
        push_number(&mut row, node.as_ref().map_or(0, |node| node.len() as u64 + 1));
        row.extend_from_slice(node.as_deref().unwrap_or_default());
    }
    row
}

/// Reads of the trie nodes before recent blocks.
pub trait PastNodeReads: Source + Sized {
    /// The lowest and the highest block whose past nodes are stored; `None` if there are none.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or a key is corrupt.
    fn past_nodes_range(&self) -> Result<Option<(u64, u64)>, StoreError> {
        let number = |key: &[u8]| {
            let number = key.try_into().map(u64::from_be_bytes);
            number.map_err(|_| RowError::OtherKey.in_row(TABLE, key))
        };
        let mut first = None;
        self.scan(TABLE, &[], |key, _| {
            first = Some(number(key));
            ControlFlow::Break(())
        })?;
        let last = self.with_last(TABLE, &[], &[0xff; 9], |key, _| number(key))?;
        Ok(first.transpose()?.zip(last.transpose()?))
    }

    /// The nodes that block `number` changed, as they were before it, ascending by path; `None` if
    /// they are not stored.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn past_nodes(&self, number: u64) -> Result<Option<Vec<PastNode>>, StoreError> {
        read_row(self, TABLE, &number.to_be_bytes(), |row| {
            let mut nodes = Vec::new();
            scan_row(row, |path, node| {
                nodes.push((path.to_vec(), node.map(<[u8]>::to_vec)));
                ControlFlow::Continue(())
            })?;
            Ok(nodes)
        })
    }

    /// Calls `visit` with the path of each node that block `number` changed. Returns `false` if
    /// they are not stored.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails or the row is corrupt.
    fn visit_past_paths(&self, number: u64, visit: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let visited = read_row(self, TABLE, &number.to_be_bytes(), |row| {
            scan_row(row, |path, _| {
                visit(path);
                ControlFlow::Continue(())
            })
        })?;
        Ok(visited.is_some())
    }

    /// The node at `path` before block `number`, which changed it.
    ///
    /// # Errors
    /// [`StoreError`] when the read fails, or the row is corrupt or does not have the path.
    fn past_node(&self, number: u64, path: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let key = number.to_be_bytes();
        let found = read_row(self, TABLE, &key, |row| {
            let mut found = None;
            scan_row(row, |other, node| {
                if other < path {
                    return ControlFlow::Continue(());
                }
                found = (other == path).then(|| node.map(<[u8]>::to_vec));
                ControlFlow::Break(())
            })?;
            Ok(found)
        })?;
        found.flatten().ok_or_else(|| {
            let lacks = RowError::LacksChange {
                table: TableId::PathToTrieNode,
                key: path.to_vec(),
            };
            lacks.in_row(TABLE, &key)
        })
    }
}

impl<S: Source> PastNodeReads for S {}

impl Tables<'_> {
    /// Writes the nodes that block `number` changed, as they were before it. `nodes` ascend by
    /// path.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn put_past_nodes(&mut self, number: u64, nodes: &[PastNode]) -> Result<(), StoreError> {
        debug_assert!(nodes.is_sorted_by(|one, other| one.0 < other.0));
        self.put(TABLE, &number.to_be_bytes(), &encode(nodes))
    }

    /// Removes the nodes before the blocks `first` to `last`.
    ///
    /// # Errors
    /// [`StoreError`] when the write fails.
    pub fn delete_past_nodes(&mut self, first: u64, last: u64) -> Result<(), StoreError> {
        (first..=last).try_for_each(|number| self.delete(TABLE, &number.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Store;

    proptest! {
        #[test]
        fn nodes_round_trip_and_bad_rows_are_errors(
            nodes in proptest::collection::btree_map(
                proptest::collection::vec(0_u8..16, 0..50),
                proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)),
                0..9,
            ),
            bad: Vec<u8>,
        ) {
            let nodes: Vec<PastNode> = nodes.into_iter().collect();
            let row = encode(&nodes);
            let read = |row: &[u8]| {
                let mut read = Vec::new();
                scan_row(row, |path, node| {
                    read.push((path.to_vec(), node.map(<[u8]>::to_vec)));
                    ControlFlow::Continue(())
                })
                .map(|()| read)
            };
            prop_assert_eq!(read(&row).unwrap(), nodes);
            for cut in 0..row.len() {
                prop_assert!(read(&row[..cut]).is_err());
            }
            let _ = read(&bad);
        }
    }

    #[test]
    fn rows_are_found_and_removed() {
        let store = Store::in_memory().unwrap();
        assert_eq!(store.snapshot().unwrap().past_nodes_range().unwrap(), None);
        let nodes = vec![(vec![0], Some(vec![7; 40])), (vec![0, 3], None)];
        let batch = store.batch().unwrap();
        batch
            .write(|tables| (4..9).try_for_each(|number| tables.put_past_nodes(number, &nodes)))
            .unwrap();
        batch.commit().unwrap();
        let view = store.snapshot().unwrap();
        assert_eq!(view.past_nodes_range().unwrap(), Some((4, 8)));
        assert_eq!(view.past_nodes(5).unwrap(), Some(nodes.clone()));
        assert_eq!(view.past_nodes(9).unwrap(), None);
        assert_eq!(view.past_node(6, &[0]).unwrap(), nodes[0].1);
        assert_eq!(view.past_node(6, &[0, 3]).unwrap(), None);
        let error = view.past_node(6, &[0, 2]).unwrap_err().to_string();
        assert!(error.contains("lacks a change of path_to_branch 0002"), "{error}");
        assert!(view.past_node(9, &[0]).is_err());
        let mut paths = Vec::new();
        let mut visit = |path: &[u8]| paths.push(path.to_vec());
        assert!(view.visit_past_paths(7, &mut visit).unwrap());
        assert!(!view.visit_past_paths(3, &mut visit).unwrap());
        assert_eq!(paths, [vec![0], vec![0, 3]]);
        let batch = store.batch().unwrap();
        batch.write(|tables| tables.delete_past_nodes(0, 6)).unwrap();
        batch.commit().unwrap();
        let view = store.snapshot().unwrap();
        assert_eq!(view.past_nodes_range().unwrap(), Some((7, 8)));
    }
}
