//! A part of an account's storage before a transaction, in the order of the storage trie.
//!
//! The trie orders slots by their hashes, but no table of the store does. So all slots are read,
//! and those with the lowest hashes are kept.

use std::collections::BTreeMap;

use primitives::{Address, B256, U256, keccak256};
use store::StateReads;

use super::TraceError;
use super::bounds::TraceBounds;
use super::replay::BlockReplay;
use crate::query_limit::QueryLimit;
use crate::state::scan;
use crate::view::{StoredBlock, View};

/// The most slots in one [`StorageRange`].
pub const STORAGE_RANGE_MAX: usize = 8192;

/// A part of an account's storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageRange {
    /// The slots that are not zero, sorted by hash.
    pub entries: Vec<StorageEntry>,
    /// The hash of the next slot; `None` if `entries` has the last one.
    pub next: Option<B256>,
}

/// A slot with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageEntry {
    /// Keccak-256 of the slot.
    pub hash: B256,
    /// The slot.
    pub slot: U256,
    /// Its value.
    pub value: U256,
}

/// Collects the slots with the lowest hashes, from a first hash on.
struct LowestSlots {
    from: B256,
    /// One more than requested, to know the next slot.
    count_max: usize,
    /// Slot and value by hash.
    found: BTreeMap<B256, (U256, U256)>,
}

impl LowestSlots {
    fn insert(&mut self, slot: U256, value: U256) {
        let hash = keccak256(slot.to_be_bytes::<32>());
        if value.is_zero() || hash < self.from {
            return;
        }
        self.found.insert(hash, (slot, value));
        if self.found.len() > self.count_max {
            self.found.pop_last();
        }
    }
}

impl View {
    /// Up to `limit` slots of `address`, from hash `from` on, before transaction `index` of
    /// `block`. If `index` is the number of transactions, the slots after the last transaction.
    ///
    /// # Errors
    /// [`TraceError`] when the block's state is not stored, or the work is stopped.
    pub fn storage_range(
        &self,
        block: &StoredBlock,
        index: usize,
        address: &Address,
        from: B256,
        limit: usize,
        work: impl Into<QueryLimit>,
    ) -> Result<StorageRange, TraceError> {
        let count = block.body.transactions.len();
        if index > count {
            return Err(TraceError::NoTransaction { got: index, count });
        }
        let bounds = TraceBounds::new(work.into(), usize::MAX);
        let mut replay = BlockReplay::begin(self, block)?;
        replay.run_to(index, &bounds)?;
        let overlay = replay.into_overlay();
        let limit = limit.min(STORAGE_RANGE_MAX);
        let mut lowest = LowestSlots {
            from,
            count_max: limit + 1,
            found: BTreeMap::new(),
        };
        if !overlay.is_emptied(address) {
            let parent = block.record.header.number.saturating_sub(1);
            let version = self.snapshot().account_at(address, parent)?;
            if version.account.is_some() {
                let owner = (*address, version.incarnation);
                scan::slots(self.snapshot(), owner, parent, |slot, value| {
                    bounds.check()?;
                    if overlay.slot(address, &slot).is_none() {
                        lowest.insert(slot, value);
                    }
                    Ok::<_, TraceError>(())
                })?;
            }
        }
        overlay
            .slots(address)
            .for_each(|(slot, value)| lowest.insert(slot, value));
        let mut entries: Vec<_> = lowest
            .found
            .into_iter()
            .map(|(hash, (slot, value))| StorageEntry { hash, slot, value })
            .collect();
        let next = entries.get(limit).map(|entry| entry.hash);
        entries.truncate(limit);
        Ok(StorageRange { entries, next })
    }
}
