//! The hash of a nonce: 64 reads of dataset items, each of which depends on the one before, mixed
//! into 128 bytes.
//!
//! Written for `N` nonces at the same access, and for any source of items: computed from the light
//! cache, read from memory, or given by a caller of [`hashimoto`]. The search over a dataset in
//! memory is in `search.rs`; there each group of hashes is at its own access.

use crate::arith::{Modulus, fnv};
use crate::cache_row::CacheRow;
use crate::keccak::{bytes_of, keccak256_96, keccak512_40, lanes};
use crate::simd::{Scalar, SimdOps};
use crate::{ACCESSES, B256, ITEM_WORDS, ROW_WORDS};

/// A dataset item: 128 bytes as little-endian words.
pub(crate) type DatasetItem = [u32; ITEM_WORDS];

/// The two results of a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PowHash {
    /// The compressed mix. It is part of the header and proves which items were read.
    pub mix_hash: B256,
    /// The value that is compared with the boundary, as a big-endian number.
    pub final_hash: B256,
}

impl PowHash {
    pub(crate) const ZERO: Self = Self {
        mix_hash: B256::ZERO,
        final_hash: B256::ZERO,
    };
}

/// The seed of a hash: Keccak-512 of header hash and little-endian nonce, as eight little-endian
/// lanes.
pub fn seed512(header_hash: &B256, pow_nonce: u64) -> [u64; 8] {
    let [a, b, c, d] = lanes::<4>(&header_hash.0);
    keccak512_40(&[a, b, c, d, pow_nonce])
}

/// Hashes one nonce over a dataset of `items` items that `lookup` reads by index.
///
/// `None` if `items` is 0, because there is nothing to read.
pub fn hashimoto(
    items: u32,
    lookup: impl FnMut(u32) -> [u32; ITEM_WORDS],
    header_hash: &B256,
    pow_nonce: u64,
) -> Option<PowHash> {
    let item_count = (items > 0).then(|| Modulus::new(items))?;
    let seeds = [seed512(header_hash, pow_nonce)];
    let [hash] = hash_seeds(Scalar, item_count, &seeds, LookupFn(lookup));
    Some(hash)
}

/// A source of dataset items for `N` nonces at the same access.
///
/// A trait and not a closure, because a closure is compiled for the baseline instruction
/// set unless the compiler happens to inline it.
pub(crate) trait ItemLookup<const N: usize> {
    /// The items at `indices`. Implementations must be `#[inline(always)]`.
    fn items(&mut self, indices: [u32; N]) -> [DatasetItem; N];
}

/// An [`ItemLookup`] that calls a function of the index.
pub(crate) struct LookupFn<F>(pub(crate) F);

impl<F: FnMut(u32) -> DatasetItem> ItemLookup<1> for LookupFn<F> {
    #[inline(always)]
    fn items(&mut self, [index]: [u32; 1]) -> [DatasetItem; 1] {
        [(self.0)(index)]
    }
}

/// Hashes `N` seeds over a dataset of `item_count` items, all at the same access.
#[inline(always)]
pub(crate) fn hash_seeds<S: SimdOps, const N: usize>(
    simd: S,
    item_count: Modulus,
    seeds: &[[u64; 8]; N],
    mut lookup: impl ItemLookup<N>,
) -> [PowHash; N] {
    let mut mixes = [[CacheRow::ZERO; 2]; N];
    for (seed, mix) in seeds.iter().zip(&mut mixes) {
        *mix = [CacheRow::from_lanes(seed); 2];
    }
    for access in 0..ACCESSES {
        let word = access as usize % ITEM_WORDS;
        let mut indices = [0; N];
        for ((index, seed), mix) in indices.iter_mut().zip(seeds).zip(&mixes) {
            *index = item_count.reduce(fnv(
                access ^ seed[0] as u32,
                mix[word / ROW_WORDS].0[word % ROW_WORDS],
            ));
        }
        let items = lookup.items(indices);
        for (mix, item) in mixes.iter_mut().zip(&items) {
            let (halves, _) = item.as_chunks::<ROW_WORDS>();
            for (mix, half) in mix.iter_mut().zip(halves) {
                simd.mix_row(mix, half);
            }
        }
    }
    let mut hashes = [PowHash::ZERO; N];
    for ((hash, seed), mix) in hashes.iter_mut().zip(seeds).zip(&mixes) {
        *hash = finish(seed, mix);
    }
    hashes
}

/// Compresses the mix to 32 bytes, and hashes these with the seed.
#[inline(always)]
fn finish(seed: &[u64; 8], mix: &[CacheRow; 2]) -> PowHash {
    let compressed = compress_mix(mix);
    PowHash {
        mix_hash: B256::from(bytes_of(compressed)),
        final_hash: B256::from(final_hash_bytes(seed, &compressed)),
    }
}

/// Compresses the mix to 32 bytes, as little-endian lanes.
#[inline(always)]
pub(crate) fn compress_mix(mix: &[CacheRow; 2]) -> [u64; 4] {
    let mix = bytemuck::cast_ref::<[CacheRow; 2], DatasetItem>(mix);
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

/// The final hash: Keccak-256 of the seed and the compressed mix.
#[inline(always)]
pub(crate) fn final_hash_bytes(seed: &[u64; 8], compressed_mix: &[u64; 4]) -> [u8; 32] {
    let mut words = [0; 12];
    words[..8].copy_from_slice(seed);
    words[8..].copy_from_slice(compressed_mix);
    bytes_of(keccak256_96(&words))
}
