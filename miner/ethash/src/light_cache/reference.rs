//! Slow versions of the computations here, step by step as in the specification. For tests.

use super::cache::LightCache;
use crate::arith::fnv;
use crate::cache_row::CacheRow;
use crate::hashimoto::DatasetItem;
use crate::keccak::{bytes_of, keccak512};
use crate::{B256, DATASET_PARENTS, ROW_WORDS};

/// A cache of 31 rows for a dataset of 97 items.
pub(super) fn small_cache() -> LightCache {
    LightCache::with_sizes(B256::ZERO, 64 * 31, 128 * 97).expect("small sizes")
}

/// Keccak-512 of a row.
pub(super) fn keccak512_words(words: &[u32; ROW_WORDS]) -> [u32; ROW_WORDS] {
    let hash = keccak512(&bytes_of::<8, 64>(CacheRow(*words).lanes()));
    core::array::from_fn(|i| u32::from_le_bytes(core::array::from_fn(|byte| hash[i * 4 + byte])))
}

/// Dataset item `index`.
pub(super) fn dataset_item(cache: &LightCache, index: u32) -> DatasetItem {
    let half = |half_index: u32| {
        let row = |index: u32| cache.as_rows()[(index % cache.rows()) as usize].0;
        let mut mix = row(half_index);
        mix[0] ^= half_index;
        mix = keccak512_words(&mix);
        for parent in 0..DATASET_PARENTS {
            let other = row(fnv(half_index ^ parent, mix[parent as usize % ROW_WORDS]));
            mix = core::array::from_fn(|i| fnv(mix[i], other[i]));
        }
        keccak512_words(&mix)
    };
    let halves = [half(2 * index), half(2 * index + 1)];
    core::array::from_fn(|i| halves[i / ROW_WORDS][i % ROW_WORDS])
}
