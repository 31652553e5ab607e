//! The data of a light cache.

use std::time::Duration;

use crate::arith::Modulus;
use crate::cache_row::CacheRow;
use crate::huge_pages::HugeTable;
use crate::{B256, ITEM_BYTES};

/// The light cache of an epoch.
pub struct LightCache {
    pub(super) rows: HugeTable<CacheRow>,
    pub(super) row_count: Modulus,
    /// Number of items in the dataset that belongs to this cache.
    pub(super) item_count: Modulus,
    pub(super) seed_hash: B256,
    pub(super) build_time: Duration,
}

impl core::fmt::Debug for LightCache {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LightCache")
            .field("seed_hash", &self.seed_hash)
            .field("rows", &self.rows())
            .field("dataset_items", &self.dataset_items())
            .finish_non_exhaustive()
    }
}

impl LightCache {
    /// Number of 64-byte rows in this cache.
    pub const fn rows(&self) -> u32 {
        self.row_count.divisor()
    }

    /// Number of 128-byte items in the dataset that belongs to this cache.
    pub const fn dataset_items(&self) -> u32 {
        self.item_count.divisor()
    }

    /// Size in bytes of the dataset that belongs to this cache.
    pub fn dataset_bytes(&self) -> u64 {
        u64::from(self.dataset_items()) * ITEM_BYTES as u64
    }

    /// The seed from which this cache was built.
    pub const fn seed_hash(&self) -> B256 {
        self.seed_hash
    }

    /// The time that it took to build this cache.
    pub const fn build_time(&self) -> Duration {
        self.build_time
    }

    pub(super) fn as_rows(&self) -> &[CacheRow] {
        &self.rows
    }

    /// The rows in order, sixteen words each.
    pub fn as_words(&self) -> &[u32] {
        bytemuck::cast_slice(self.as_rows())
    }

    /// The bytes of the rows in order.
    pub fn as_bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self.as_rows())
    }
}
