//! A part of an account's storage as it was before a transaction, in the order of the trie.
//!
//! The order is that of the slots' hashes, which no table has: all slots are passed, and the
//! lowest hashes kept.

use std::collections::BTreeMap;
use std::time::Duration;

use primitives::{Address, B256, U256, keccak256};
use store::StateReads;

use super::bounds::TraceBounds;
use super::replay::BlockReplay;
use super::{TIMEOUT_MAX, TraceError};
use crate::state::flat;
use crate::view::{StoredBlock, View};

/// The most slots that are given at once.
pub const STORAGE_RANGE_MAX: usize = 8192;

/// A part of a storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageRange {
    /// The slots that are not zero, by hash.
    pub entries: Vec<StorageEntry>,
    /// Hash of the first slot after them; `None` where these were the last.
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

/// The lowest hashes from a first one on.
struct LowestSlots {
    from: B256,
    /// One more than wanted, to know the next.
    most: usize,
    found: BTreeMap<B256, (U256, U256)>,
}

impl LowestSlots {
    fn offer(&mut self, slot: U256, value: U256) {
        let hash = keccak256(slot.to_be_bytes::<32>());
        if value.is_zero() || hash < self.from {
            return;
        }
        self.found.insert(hash, (slot, value));
        if self.found.len() > self.most {
            self.found.pop_last();
        }
    }
}

impl View {
    /// Up to `limit` slots of `address` from hash `from` on, as they were before transaction
    /// `index` of `block`; with as many transactions as `index`, as they were after the last.
    ///
    /// # Errors
    /// [`TraceError`] when the block's state is not at hand, or time is over.
    pub fn storage_range(
        &self,
        block: &StoredBlock,
        index: usize,
        address: &Address,
        from: B256,
        limit: usize,
        timeout: Duration,
    ) -> Result<StorageRange, TraceError> {
        let count = block.body.transactions.len();
        if index > count {
            return Err(TraceError::NoTransaction { got: index, count });
        }
        let bounds = TraceBounds::new(timeout.min(TIMEOUT_MAX), usize::MAX);
        let mut replay = BlockReplay::begin(self, block)?;
        replay.run_to(index, &bounds)?;
        let overlay = replay.into_overlay();
        let limit = limit.min(STORAGE_RANGE_MAX);
        let mut lowest = LowestSlots {
            from,
            most: limit + 1,
            found: BTreeMap::new(),
        };
        if !overlay.is_emptied(address) {
            let parent = block.record.header.number.saturating_sub(1);
            let version = self.snapshot().account_at(address, parent)?;
            if version.account.is_some() {
                let owner = (*address, version.incarnation);
                flat::slots(self.snapshot(), owner, parent, |slot, value| {
                    bounds.check()?;
                    if overlay.slot(address, &slot).is_none() {
                        lowest.offer(slot, value);
                    }
                    Ok::<_, TraceError>(())
                })?;
            }
        }
        overlay
            .slots(address)
            .for_each(|(slot, value)| lowest.offer(slot, value));
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
