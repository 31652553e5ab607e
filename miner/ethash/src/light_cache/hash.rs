//! Hashes of nonces, with dataset items computed from the light cache.

use super::cache::LightCache;
use super::items::compute_items;
use crate::B256;
use crate::hashimoto::{DatasetItem, ItemLookup, PowHash, hash_seeds, seed512};
use crate::simd::{SimdKernel, SimdOps, dispatch};

/// Hashes from the light cache that are computed at the same time. With more, the rate rises no
/// further.
pub const LIGHT_IN_FLIGHT: usize = 64;

impl LightCache {
    /// Hashes one nonce. Computes the items that the hash reads.
    pub fn hash(&self, header_hash: &B256, pow_nonce: u64) -> PowHash {
        let [hash] = self.hash_many(header_hash, [pow_nonce]);
        hash
    }

    /// Hashes `N` nonces.
    ///
    /// The time per nonce falls with `N` up to [`LIGHT_IN_FLIGHT`], where the latency of the memory
    /// is hidden.
    pub fn hash_many<const N: usize>(&self, header_hash: &B256, pow_nonces: [u64; N]) -> [PowHash; N] {
        let mut hashes = [PowHash::ZERO; N];
        self.hash_nonces(header_hash, &pow_nonces, &mut hashes);
        hashes
    }

    /// Hashes nonces, with results in the same order.
    ///
    /// Has no parameters of types or lengths, so this package alone compiles the kernels.
    fn hash_nonces(&self, header_hash: &B256, pow_nonces: &[u64], hashes: &mut [PowHash]) {
        let mut seeds = [[0; 8]; LIGHT_IN_FLIGHT];
        for (nonces, hashes) in pow_nonces
            .chunks(LIGHT_IN_FLIGHT)
            .zip(hashes.chunks_mut(LIGHT_IN_FLIGHT))
        {
            for (seed, nonce) in seeds.iter_mut().zip(nonces) {
                *seed = seed512(header_hash, *nonce);
            }
            self.hash_seeds(&seeds[..nonces.len()], hashes);
        }
    }

    /// Hashes seeds, with results in the same order: [`LIGHT_IN_FLIGHT`] at once, then eight, then
    /// one. They may be of different headers.
    pub(crate) fn hash_seeds(&self, seeds: &[[u64; 8]], hashes: &mut [PowHash]) {
        let (seeds, rest) = seeds.as_chunks::<LIGHT_IN_FLIGHT>();
        let (out, rest_out) = hashes.as_chunks_mut::<LIGHT_IN_FLIGHT>();
        self.hash_groups(seeds, out);
        let (seeds, rest) = rest.as_chunks::<8>();
        let (out, rest_out) = rest_out.as_chunks_mut::<8>();
        self.hash_groups(seeds, out);
        self.hash_groups(rest.as_chunks::<1>().0, rest_out.as_chunks_mut::<1>().0);
    }

    /// Hashes groups of `N` seeds, `N` at once.
    fn hash_groups<const N: usize>(&self, groups: &[[[u64; 8]; N]], hashes: &mut [[PowHash; N]]) {
        for (seeds, hashes) in groups.iter().zip(hashes) {
            *hashes = dispatch(LightHash {
                cache: self,
                seeds: *seeds,
            });
        }
    }
}

/// Hashes `N` seeds at once.
struct LightHash<'a, const N: usize> {
    cache: &'a LightCache,
    seeds: [[u64; 8]; N],
}

impl<const N: usize> SimdKernel for LightHash<'_, N> {
    type Output = [PowHash; N];

    #[inline(always)]
    fn run<S: SimdOps>(self, simd: S) -> [PowHash; N] {
        let items = ItemsFromCache(simd, self.cache);
        hash_seeds(simd, self.cache.item_count, &self.seeds, items)
    }
}

/// An [`ItemLookup`] that computes each item.
struct ItemsFromCache<'a, S>(S, &'a LightCache);

impl<S: SimdOps, const N: usize> ItemLookup<N> for ItemsFromCache<'_, S> {
    #[inline(always)]
    fn items(&mut self, indices: [u32; N]) -> [DatasetItem; N] {
        compute_items(self.0, self.1, &indices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::light_cache::reference;
    use crate::simd::on_each_instruction_set;

    #[test]
    fn nonces_hashed_together_hash_like_single_ones() {
        let cache = LightCache::with_sizes(B256::ZERO, 1024, 32_768).expect("sizes of the test dataset");
        let header_hash = B256::repeat_byte(0x5a);
        // Two parts, and groups of each size: 64, 8 and 1; then 8 and 1.
        let mut nonces: [u64; 2 * LIGHT_IN_FLIGHT + 11] = core::array::from_fn(|i| 42 + i as u64);
        for (place, edge) in [0, 1, u64::from(u32::MAX), 1 << 32, u64::MAX]
            .into_iter()
            .enumerate()
        {
            nonces[place * 29] = edge;
        }
        let hashes = cache.hash_many(&header_hash, nonces);
        for (hash, nonce) in hashes.into_iter().zip(nonces) {
            assert_eq!(hash, cache.hash(&header_hash, nonce), "nonce {nonce:#x}");
        }
    }

    #[test]
    fn light_hashes_agree_on_every_instruction_set() {
        let cache = reference::small_cache();
        let header_hash = B256::repeat_byte(0x77);
        // Groups of each size: 64, 8 and 1.
        let pow_nonces =
            core::array::from_fn::<_, { LIGHT_IN_FLIGHT + 10 }, _>(|i| (i as u64).wrapping_sub(4));
        let expected = pow_nonces.map(|nonce| {
            let lookup = |index| reference::dataset_item(&cache, index);
            crate::hashimoto(97, lookup, &header_hash, nonce).expect("97 items")
        });
        on_each_instruction_set(|set| {
            assert_eq!(cache.hash_many(&header_hash, pow_nonces), expected, "{set}");
        });
    }
}
