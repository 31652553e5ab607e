//! A full dataset in memory, and the hash of one nonce over it.

use crate::arith::Modulus;
use crate::hashimoto::{DatasetItem, LookupFn, PowHash, hash_seeds, seed512};
use crate::simd::Scalar;
use crate::{B256, ITEM_WORDS};

/// Hashes one nonce over the full dataset in memory, with 32 words per item.
///
/// `None` if `dataset` is empty or its length is not a multiple of 32.
pub fn hash_full(dataset: &[u32], header_hash: &B256, pow_nonce: u64) -> Option<PowHash> {
    FullDataset::new(dataset).map(|dataset| dataset.hash(header_hash, pow_nonce))
}

/// A full dataset in memory.
#[derive(Clone, Copy, Debug)]
pub struct FullDataset<'a> {
    pub(crate) items: &'a [DatasetItem],
    pub(crate) item_count: Modulus,
}

impl<'a> FullDataset<'a> {
    /// Views `words` as dataset items of 32 words.
    ///
    /// `None` if there is no item, if words are left over, or if there are more than 2^32 - 1
    /// items.
    pub fn new(words: &'a [u32]) -> Option<Self> {
        let (items, rest) = words.as_chunks::<ITEM_WORDS>();
        let count = u32::try_from(items.len()).ok()?;
        (count > 0 && rest.is_empty()).then(|| Self {
            items,
            item_count: Modulus::new(count),
        })
    }

    /// Number of items in the dataset.
    pub const fn items(&self) -> u32 {
        self.item_count.divisor()
    }

    /// Hashes one nonce.
    pub fn hash(&self, header_hash: &B256, pow_nonce: u64) -> PowHash {
        let lookup = LookupFn(|index: u32| self.items[index as usize]);
        let seeds = [seed512(header_hash, pow_nonce)];
        let [hash] = hash_seeds(Scalar, self.item_count, &seeds, lookup);
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LightCache, hashimoto};

    #[test]
    fn every_way_to_hash_agrees() {
        let cache = LightCache::with_sizes(B256::ZERO, 1024, 32_768).expect("sizes of the test dataset");
        let mut dataset = vec![0; 256 * ITEM_WORDS];
        cache.fill_items(0, &mut dataset);
        let full = FullDataset::new(&dataset).expect("256 items");
        let header_hash = B256::repeat_byte(0xc3);
        let nonces: [u64; 16] = core::array::from_fn(|i| (i as u64).wrapping_sub(8));
        for nonce in nonces {
            let hash = full.hash(&header_hash, nonce);
            assert_eq!(hash, cache.hash(&header_hash, nonce), "light, nonce {nonce:#x}");
            assert_eq!(
                Some(hash),
                hash_full(&dataset, &header_hash, nonce),
                "full, nonce {nonce:#x}"
            );
            let by_lookup = hashimoto(256, |index| cache.dataset_item(index), &header_hash, nonce);
            assert_eq!(Some(hash), by_lookup, "lookup, nonce {nonce:#x}");
        }
    }

    #[test]
    fn a_dataset_without_whole_items_is_refused() {
        assert!(FullDataset::new(&[]).is_none());
        assert!(FullDataset::new(&[0; 33]).is_none());
        assert!(hash_full(&[0; 31], &B256::ZERO, 0).is_none());
        assert!(hashimoto(0, |_| [0; ITEM_WORDS], &B256::ZERO, 0).is_none());
    }
}
