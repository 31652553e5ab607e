//! Sets many keys of a trie on two threads.
//!
//! The children of the root do not depend on each other. So one thread changes and hashes the lower
//! eight, and another one the upper eight. Removals follow afterwards, because they may change the
//! root itself.

use store::{Snapshot, StoreError};

use super::change::KeyUpdate;
use super::children::Children;
use super::node::{NodeKind, NodeLink, nibbles};
use super::{NodeSource, Trie, references};
use crate::parallel::in_two_threads;

/// With fewer keys one thread does all.
const KEYS_MIN: usize = 128;
/// The number of children of a branch in the lower half.
const LOWER_CHILDREN: u8 = 8;

/// A key, and its new value. An empty value removes the key.
pub(super) type Entry = ([u8; 32], Vec<u8>);

/// The counts of a thread.
#[derive(Default)]
struct HalfOutcome {
    obsolete: Vec<Vec<u8>>,
    loaded_bytes: usize,
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
        if let NodeLink::Stored(_) | NodeLink::StoredLeaf(_) = self.root {
            self.change(snapshot, &[], |update, root| {
                update.load(root, &[])?;
                Ok(false)
            })?;
        }
        let NodeLink::Loaded(node) = &mut self.root else {
            return Ok(false);
        };
        let NodeKind::Branch(branch) = &mut *node.kind else {
            return Ok(false);
        };
        let first_upper = entries.partition_point(|(key, _)| key[0] >> 4 < LOWER_CHILDREN);
        let (lower_entries, upper_entries) = entries.split_at(first_upper);
        let prefix = self.prefix.as_slice();
        let mut upper_children = branch.children.split_off(LOWER_CHILDREN);
        let lower_children = &mut branch.children;
        let halves = in_two_threads(
            || insert_half(prefix, snapshot, lower_children, lower_entries),
            || insert_half(prefix, snapshot, &mut upper_children, upper_entries),
        );
        branch.children.append(upper_children);
        for half in [halves.0?, halves.1?] {
            self.obsolete.extend(half.obsolete);
            self.loaded_bytes += half.loaded_bytes;
            self.read += half.read;
            self.hashed += half.hashed;
            if half.changed {
                node.touch();
            }
        }
        Ok(true)
    }
}

/// Inserts entries below `children`, some of those of the root, and computes the references of what
/// changed.
fn insert_half(
    prefix: &[u8],
    snapshot: &Snapshot,
    children: &mut Children,
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
            loaded_bytes: 0,
            read: 0,
        };
        let changed = update.insert(children.get_or_empty(key[0]), 1, value);
        let (loaded, read) = (update.loaded_bytes, update.read);
        half.loaded_bytes += loaded;
        half.read += read;
        half.changed |= changed?;
    }
    half.hashed = references::compute_links(children.iter().map(|(_, child)| child));
    Ok(half)
}

#[cfg(test)]
mod tests {
    use primitives::{Address, EMPTY_ROOT, U256};
    use store::{
        AccountKey, AccountVersion, AccountWrite, SlotWrite, StateReads, StateTrieId, Store, slot_hash,
    };

    use super::*;
    use crate::trie::ShareableNodes;

    /// The writes of block `number`: new slots, other values and removals of earlier slots. All
    /// hashes begin with a nibble below `fan`.
    fn slots(number: u64, fan: u8) -> Vec<SlotWrite> {
        let below = |slot: &U256| slot_hash(slot)[0] >> 4 < fan;
        let all = (0u64..).map(U256::from).filter(below);
        // Each block has half of the slots of the block before.
        let slots = all.skip(number as usize * 200).take(400).enumerate();
        let slots = slots.map(|(index, slot)| {
            let removed = number > 0 && (index as u64 + number).is_multiple_of(3);
            let value = U256::from(!removed) * (U256::from(number + 1) << (index % 250));
            SlotWrite::new(slot, value)
        });
        let mut slots: Vec<_> = slots.collect();
        slots.sort_unstable_by_key(|slot| slot.hash);
        slots
    }

    #[test]
    fn two_threads_make_the_rows_of_one() {
        // With a fan of 1 the root is an extension, with 3 only one half has keys.
        for fan in [1, 3, 16] {
            let store = Store::in_memory().unwrap();
            let address = Address::repeat_byte(3);
            let owner = AccountKey::of(&address).storage(0);
            let prefix = StateTrieId::Storage(owner).prefix();
            let mut halved = Trie::new(prefix.clone(), EMPTY_ROOT);
            let mut plain = Trie::new(prefix.clone(), EMPTY_ROOT);
            for number in 0..6 {
                let slots = slots(number, fan);
                let entries: Vec<Entry> = slots
                    .iter()
                    .map(|slot| {
                        let value = (!slot.value.is_zero()).then(|| alloy_rlp::encode(slot.value));
                        (slot.hash.0, value.unwrap_or_default())
                    })
                    .collect();
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
                let write = AccountWrite {
                    address,
                    key: owner.account,
                    version: AccountVersion::default(),
                    slots,
                };
                let batch = store.batch().unwrap();
                let written = batch.write(|tables| {
                    for (path, node) in &rows {
                        tables.put_trie_node(path, node.as_deref())?;
                    }
                    // The order of the changes decides which rows are removed that were never
                    // there.
                    for (path, node) in plain_rows {
                        assert_eq!(tables.trie_node(&path)?, node, "block {number}, fan {fan}");
                    }
                    tables.put_state(number, &[write])
                });
                written.unwrap();
                batch.commit().unwrap();
                if number % 2 == 1 {
                    // From now on nodes are read from the store.
                    halved = Trie::new(prefix.clone(), root);
                    plain = Trie::new(prefix.clone(), root);
                }
            }
        }
    }
}
