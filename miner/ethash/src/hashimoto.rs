//! The hash itself: 64 dependent reads of dataset items, folded into a mix.
//!
//! Written for `N` nonces in lockstep and for any way to look up items: computed from the light
//! cache, or whatever a caller of [`hashimoto`] brings. The search over a dataset in memory, where
//! each hash goes at its own pace, is in `search`.

use crate::arith::{Modulus, fnv};
use crate::isa::{Isa, Scalar};
use crate::keccak::{bytes_of, keccak256_96, keccak512_40, lanes};
use crate::kernels::Row;
use crate::{ACCESSES, B256, ITEM_WORDS, ROW_WORDS};

/// 128 bytes of the dataset as words.
pub(crate) type Item = [u32; ITEM_WORDS];

/// The two results of a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PowHash {
    /// Proves which items were read; goes into the header.
    pub mix_hash: B256,
    /// Compared with the boundary as a big-endian number.
    pub final_hash: B256,
}

impl PowHash {
    pub(crate) const ZERO: Self = Self {
        mix_hash: B256::ZERO,
        final_hash: B256::ZERO,
    };
}

/// Keccak-512 of header hash and little-endian nonce: where a hash starts, as eight little-endian
/// lanes.
#[inline(always)]
pub fn seed512(header_hash: &B256, pow_nonce: u64) -> [u64; 8] {
    let [a, b, c, d] = lanes::<4>(&header_hash.0);
    keccak512_40(&[a, b, c, d, pow_nonce])
}

/// Hashes one nonce over a dataset of `items` items that `lookup` reads by index.
///
/// `None` when `items` is 0: there is nothing to read.
pub fn hashimoto(
    items: u32,
    lookup: impl FnMut(u32) -> [u32; ITEM_WORDS],
    header_hash: &B256,
    pow_nonce: u64,
) -> Option<PowHash> {
    let items = (items > 0).then(|| Modulus::new(items))?;
    let [hash] = lockstep::<Scalar, 1>(items, header_hash, &[pow_nonce], ByCaller(lookup));
    Some(hash)
}

/// Items by a function of their index.
struct ByCaller<F>(F);

impl<F: FnMut(u32) -> Item> Lookup<1> for ByCaller<F> {
    #[inline(always)]
    fn items(&mut self, [index]: [u32; 1]) -> [Item; 1] {
        [(self.0)(index)]
    }
}

/// Hashes one nonce over the full dataset in memory, 32 words an item.
///
/// `None` when `dataset` holds no item or a broken one.
pub fn hash_full(dataset: &[u32], header_hash: &B256, pow_nonce: u64) -> Option<PowHash> {
    FullDataset::new(dataset).map(|dataset| dataset.hash(header_hash, pow_nonce))
}

/// A full dataset in memory, ready to be hashed from.
#[derive(Clone, Copy, Debug)]
pub struct FullDataset<'a> {
    pub(crate) items: &'a [Item],
    pub(crate) count: Modulus,
}

impl<'a> FullDataset<'a> {
    /// Views `words`, 32 to an item; `None` when there is no item, a broken one or more than 2^32 -
    /// 1.
    pub fn new(words: &'a [u32]) -> Option<Self> {
        let (items, rest) = words.as_chunks::<ITEM_WORDS>();
        let count = u32::try_from(items.len()).ok()?;
        (count > 0 && rest.is_empty()).then(|| Self {
            items,
            count: Modulus::new(count),
        })
    }

    /// Items in the dataset.
    pub fn items(&self) -> u32 {
        self.count.divisor()
    }

    /// Hashes one nonce.
    pub fn hash(&self, header_hash: &B256, pow_nonce: u64) -> PowHash {
        let lookup = ByCaller(|index: u32| self.items[index as usize]);
        let [hash] = lockstep::<Scalar, 1>(self.count, header_hash, &[pow_nonce], lookup);
        hash
    }
}

/// Where `N` nonces in lockstep get their items from.
///
/// A trait and not a closure, because a closure is compiled for the baseline instruction set unless
/// it happens to be inlined.
pub(crate) trait Lookup<const N: usize> {
    /// Must be `#[inline(always)]`.
    fn items(&mut self, index: [u32; N]) -> [Item; N];
}

/// The hash for `N` nonces at once.
#[inline(always)]
pub(crate) fn lockstep<I: Isa, const N: usize>(
    items: Modulus,
    header_hash: &B256,
    pow_nonces: &[u64; N],
    mut lookup: impl Lookup<N>,
) -> [PowHash; N] {
    let mut seeds = [[0; 8]; N];
    let mut mix = [[Row([0; ROW_WORDS]); 2]; N];
    for ((seed, mix), nonce) in seeds.iter_mut().zip(&mut mix).zip(pow_nonces) {
        *seed = seed512(header_hash, *nonce);
        *mix = [Row::from_lanes(seed); 2];
    }
    for access in 0..ACCESSES {
        let word = access as usize % ITEM_WORDS;
        let mut index = [0; N];
        for ((index, seed), mix) in index.iter_mut().zip(&seeds).zip(&mix) {
            *index = items.of(fnv(
                access ^ seed[0] as u32,
                mix[word / ROW_WORDS].0[word % ROW_WORDS],
            ));
        }
        let found = lookup.items(index);
        for (mix, item) in mix.iter_mut().zip(&found) {
            let (halves, _) = item.as_chunks::<ROW_WORDS>();
            for (mix, half) in mix.iter_mut().zip(halves) {
                I::mix_row(mix, half);
            }
        }
    }
    let mut hashes = [PowHash::ZERO; N];
    for ((hash, seed), mix) in hashes.iter_mut().zip(&seeds).zip(&mix) {
        *hash = finish(seed, mix);
    }
    hashes
}

/// Folds the mix to 32 bytes and hashes it with the seed.
#[inline(always)]
fn finish(seed: &[u64; 8], mix: &[Row; 2]) -> PowHash {
    let compressed = fold(mix);
    PowHash {
        mix_hash: B256::from(bytes_of(compressed)),
        final_hash: B256::from(finish_lanes(seed, &compressed)),
    }
}

/// Folds the mix to 32 bytes.
#[inline(always)]
pub(crate) fn fold(mix: &[Row; 2]) -> [u64; 4] {
    let mix = bytemuck::cast_ref::<[Row; 2], Item>(mix);
    let mut folded = [0; ITEM_WORDS / 4];
    for (out, [a, b, c, d]) in folded.iter_mut().zip(mix.as_chunks::<4>().0) {
        *out = fnv(fnv(fnv(*a, *b), *c), *d);
    }
    let mut compressed = [0; 4];
    for (lane, [low, high]) in compressed.iter_mut().zip(folded.as_chunks::<2>().0) {
        *lane = u64::from(*low) | u64::from(*high) << 32;
    }
    compressed
}

/// The final hash from the seed and the folded mix.
#[inline(always)]
pub(crate) fn finish_lanes(seed: &[u64; 8], compressed: &[u64; 4]) -> [u8; 32] {
    let mut words = [0; 12];
    words[..8].copy_from_slice(seed);
    words[8..].copy_from_slice(compressed);
    bytes_of(keccak256_96(&words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LightCache;

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
