//! Sets many keys of a trie on two threads.
//!
//! The children of the root do not depend on each other. So one thread changes and hashes the lower
//! eight, and another one the upper eight. Removals follow afterwards, because they may change the
//! root itself.

use store::{Snapshot, StoreError};

use super::change::KeyUpdate;
use super::node::{NodeKind, NodeLink, nibbles};
use super::{NodeSource, Trie, references};
use crate::parallel::in_two_threads;

/// With fewer keys one thread does all.
const KEYS_MIN: usize = 128;
/// The number of children of a branch in the lower half.
const LOWER_CHILDREN: usize = 8;

/// A key, and its new value. An empty value removes the key.
pub(super) type Entry = ([u8; 32], Vec<u8>);

/// The counts of a thread.
#[derive(Default)]
struct HalfOutcome {
    obsolete: Vec<Vec<u8>>,
    loaded: u64,
    read: u64,
    hashed: u64,
    changed: bool,
}

impl Trie {
    /// Sets the values of many keys. `entries` are sorted by key, and no key is there twice.
    ///
    /// # Errors
    /// [`StoreError`] when a node on the path of a key is missing, altered or unreadable.
    pub(super) fn set_sorted(
        &mut self,
        source: &impl NodeSource,
        entries: &[Entry],
    ) -> Result<(), StoreError> {
        let halved = match source.shared().filter(|_| entries.len() >= KEYS_MIN) {
            Some(snapshot) => self.insert_halves(snapshot, entries)?,
            None => false,
        };
        for (key, value) in entries.iter().filter(|(_, value)| !halved || value.is_empty()) {
            self.insert(source, key, value)?;
        }
        Ok(())
    }

    /// Inserts the entries with values on two threads, and computes the references of what they
    /// changed below the root. Returns `false` if the root is no branch; then nothing was done.
    fn insert_halves(&mut self, snapshot: &Snapshot, entries: &[Entry]) -> Result<bool, StoreError> {
        if let NodeLink::Stored(_) = self.root {
            self.change(snapshot, &[], |update, root| {
                update.load(root, &[])?;
                Ok(false)
            })?;
        }
        let NodeLink::Loaded(node) = &mut self.root else {
            return Ok(false);
        };
        let NodeKind::Branch(branch) = &mut node.kind else {
            return Ok(false);
        };
        let (lower, upper) = branch.children.split_at_mut(LOWER_CHILDREN);
        let first_upper = entries.partition_point(|(key, _)| usize::from(key[0] >> 4) < LOWER_CHILDREN);
        let (lower_entries, upper_entries) = entries.split_at(first_upper);
        let prefix = self.prefix.as_slice();
        let (lower, upper) = in_two_threads(
            || insert_half(prefix, snapshot, lower, 0, lower_entries),
            || insert_half(prefix, snapshot, upper, LOWER_CHILDREN, upper_entries),
        );
        for half in [lower?, upper?] {
            self.obsolete.extend(half.obsolete);
            self.loaded += half.loaded;
            self.read += half.read;
            self.hashed += half.hashed;
            if half.changed {
                node.touch();
            }
        }
        Ok(true)
    }
}

/// Inserts entries below `children`, the first of which is the child `first` of the root, and
/// computes the references of what changed.
fn insert_half(
    prefix: &[u8],
    snapshot: &Snapshot,
    children: &mut [NodeLink],
    first: usize,
    entries: &[Entry],
) -> Result<HalfOutcome, StoreError> {
    let mut half = HalfOutcome::default();
    for (key, value) in entries.iter().filter(|(_, value)| !value.is_empty()) {
        let key = nibbles(key);
        let mut update = KeyUpdate {
            prefix,
            source: snapshot,
            key: &key,
            obsolete: &mut half.obsolete,
            loaded: 0,
            read: 0,
        };
        let changed = update.insert(&mut children[usize::from(key[0]) - first], 1, value);
        let (loaded, read) = (update.loaded, update.read);
        half.loaded += loaded;
        half.read += read;
        half.changed |= changed?;
    }
    half.hashed = references::compute_links(children.iter());
    Ok(half)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use primitives::{EMPTY_ROOT, keccak256};
    use store::{Store, Tables};

    use super::*;
    use crate::trie::tests::StoredNodes;
    use crate::trie::{NodeRows, ShareableNodes};

    fn write(tables: &mut Tables<'_>, rows: NodeRows) -> Result<(), StoreError> {
        for (path, node) in rows {
            tables.put_trie_node(&path, node.as_deref())?;
        }
        Ok(())
    }

    /// Entries of block `number`: new keys, other values and removals of earlier keys. All keys
    /// begin with a nibble below `fan`.
    fn entries(number: u64, fan: u8) -> Vec<Entry> {
        let entries = (0..400u64).map(|index| {
            // Each block has half of the keys of the block before.
            let mut key = keccak256((number * 200 + index).to_be_bytes()).0;
            key[0] = (((key[0] >> 4) % fan) << 4) | (key[0] & 0xf);
            let removed = number > 0 && (index + number).is_multiple_of(3);
            let length = if removed { 0 } else { 1 + index as usize % 50 };
            (key, vec![number as u8 + 1; length])
        });
        entries.collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    #[test]
    fn two_threads_make_the_rows_of_one() {
        // With a fan of 1 the root is an extension, with 3 only one half has keys.
        for fan in [1, 3, 16] {
            let store = Store::in_memory().unwrap();
            let mut halved = Trie::new(vec![3], EMPTY_ROOT);
            let mut plain = Trie::new(vec![3], EMPTY_ROOT);
            let (mut halved_rows, mut plain_rows_so_far) = (StoredNodes::default(), StoredNodes::default());
            for number in 0..6 {
                let entries = entries(number, fan);
                assert!(entries.len() >= KEYS_MIN);
                let snapshot = store.snapshot().unwrap();
                let nodes = ShareableNodes {
                    source: &*snapshot,
                    snapshot: Some(&snapshot),
                };
                halved.set_sorted(&nodes, &entries).unwrap();
                for (key, value) in &entries {
                    plain.insert(&snapshot, key, value).unwrap();
                }
                let (root, rows) = halved.take_rows();
                let (plain_root, plain_rows) = plain.take_rows();
                assert_eq!(root, plain_root, "block {number}, fan {fan}");
                // The order of the changes decides which rows are removed that were never there.
                halved_rows.apply(rows.clone());
                plain_rows_so_far.apply(plain_rows);
                assert_eq!(halved_rows.0, plain_rows_so_far.0, "block {number}, fan {fan}");
                let batch = store.batch().unwrap();
                batch.write(|tables| write(tables, rows)).unwrap();
                batch.commit().unwrap();
                if number % 2 == 1 {
                    // From now on nodes are read from the store.
                    halved = Trie::new(vec![3], root);
                    plain = Trie::new(vec![3], root);
                }
            }
        }
    }
}
