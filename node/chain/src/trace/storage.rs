//! A part of an account's storage before a transaction, in the order of the storage trie.
//!
//! The store has the slots in this order, so only the part that was asked for is read. Slots that
//! the block has changed so far are put between.

use std::collections::{BTreeMap, BTreeSet};

use primitives::{Address, B256, U256};
use store::{AccountKey, StateReads, StoreError, WalkedSlot, slot_hash};

use super::TraceError;
use super::bounds::TraceBounds;
use super::replay::BlockReplay;
use crate::query_limit::QueryLimit;
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
    /// The slot; `None` if only its hash is known.
    pub slot: Option<U256>,
    /// Its value.
    pub value: U256,
}

/// The end of a walk over slots.
enum RangeEnd {
    /// There are enough.
    Enough,
    Failed(TraceError),
}

impl From<StoreError> for RangeEnd {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
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
        // Slots that the block has changed, and one slot more than requested, to know the next one.
        let mut found: BTreeMap<B256, StorageEntry> = BTreeMap::new();
        for (slot, value) in overlay.slots(address) {
            let (hash, slot) = (slot_hash(&slot), Some(slot));
            found.insert(hash, StorageEntry { hash, slot, value });
        }
        let changed: BTreeSet<B256> = found.keys().copied().collect();
        found.retain(|hash, entry| *hash >= from && !entry.value.is_zero());
        let parent = block.record.header.number.saturating_sub(1);
        let key = AccountKey::of(address);
        let version = self.snapshot().account_by_key(&key, parent)?;
        if !overlay.is_emptied(address) && version.account.is_some() {
            let mut stored = 0;
            let owner = key.storage(version.incarnation);
            let walked = self.snapshot().walk_slots(&owner, &from, parent, |slot| {
                bounds.check().map_err(RangeEnd::Failed)?;
                if stored > limit {
                    return Err(RangeEnd::Enough);
                }
                let WalkedSlot { hash, slot, value } = slot;
                if !changed.contains(&hash) {
                    stored += 1;
                    found.insert(hash, StorageEntry { hash, slot, value });
                }
                Ok(())
            });
            if let Err(RangeEnd::Failed(error)) = walked {
                return Err(error);
            }
        }
        let mut entries: Vec<_> = found.into_values().take(limit + 1).collect();
        let next = entries.get(limit).map(|entry| entry.hash);
        entries.truncate(limit);
        Ok(StorageRange { entries, next })
    }
}
