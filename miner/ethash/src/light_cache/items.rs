//! Dataset items, computed from the light cache.
//!
//! An item has two halves of 64 bytes, which are computed alike. The half with index `2 * i` is the
//! first half of item `i`.

use super::cache::LightCache;
use crate::arith::{fnv, prefetch};
use crate::cache_row::CacheRow;
use crate::hashimoto::DatasetItem;
use crate::simd::{SimdKernel, SimdOps, choose_once, dispatch, dispatch_on};
use crate::{DATASET_PARENTS, ITEM_WORDS, ROW_WORDS};

/// The most items that are computed at once. When the light cache is larger than the processor's
/// third-level cache, the rate depends on how many rows are being loaded at the same time.
const PARALLEL_ITEMS_MAX: usize = PARALLEL_HALVES_MAX / 2;
/// The most item halves that are computed at once.
const PARALLEL_HALVES_MAX: usize = 128;
/// Up to this many halves at once, the rate depends on the latency of one row after the other.
const LATENCY_BOUND_HALVES_MAX: usize = 4;

impl LightCache {
    /// Computes dataset item `index`: 128 bytes as 32 little-endian words.
    ///
    /// An index beyond the dataset gives the item that a larger dataset would have there.
    pub fn dataset_item(&self, index: u32) -> [u32; ITEM_WORDS] {
        let [item] = dispatch(ComputeItems {
            cache: self,
            indices: [index],
        });
        item
    }

    /// Computes consecutive dataset items, starting with item `first`, into `out`.
    ///
    /// `out` holds 32 words per item. Words after the last whole item stay unchanged.
    pub fn fill_items(&self, first: u32, out: &mut [u32]) {
        let (items, _) = out.as_chunks_mut::<ITEM_WORDS>();
        let (largest, rest) = items.as_chunks_mut::<PARALLEL_ITEMS_MAX>();
        let next = self.fill_groups(first, largest);
        let (eights, rest) = rest.as_chunks_mut::<8>();
        let next = self.fill_groups(next, eights);
        self.fill_groups(next, rest.as_chunks_mut::<1>().0);
    }

    /// Makes the process use the instruction set that computes the items of this cache most
    /// quickly, unless a set was chosen before. Takes some milliseconds.
    pub(super) fn choose_instruction_set(&self) {
        let mut index = 0_u32;
        choose_once(|set| {
            // Other items each time, so the processor has not loaded their rows yet.
            let kernel = ComputeItems::<PARALLEL_ITEMS_MAX> {
                cache: self,
                indices: core::array::from_fn(|i| index.wrapping_add(i as u32)),
            };
            core::hint::black_box(dispatch_on(set, kernel));
            index += PARALLEL_ITEMS_MAX as u32;
        });
    }

    /// Computes consecutive items, starting with item `first`, `N` at once. Returns the index after
    /// the last.
    fn fill_groups<const N: usize>(&self, first: u32, groups: &mut [[[u32; ITEM_WORDS]; N]]) -> u32 {
        let mut index = first;
        for group in groups {
            *group = dispatch(ComputeItems::<N> {
                cache: self,
                indices: core::array::from_fn(|i| index.wrapping_add(i as u32)),
            });
            index = index.wrapping_add(N as u32);
        }
        index
    }
}

/// Computes `N` items at once.
struct ComputeItems<'a, const N: usize> {
    cache: &'a LightCache,
    indices: [u32; N],
}

impl<const N: usize> SimdKernel for ComputeItems<'_, N> {
    type Output = [DatasetItem; N];

    #[inline(always)]
    fn run<S: SimdOps>(self, simd: S) -> [DatasetItem; N] {
        compute_items(simd, self.cache, &self.indices)
    }
}

/// Computes the items at `indices`: [`PARALLEL_ITEMS_MAX`] at once, then eight, then one. The
/// conditions around the loops are constants, so a step that `N` does not need is not compiled.
#[inline(always)]
pub(super) fn compute_items<S: SimdOps, const N: usize>(
    simd: S,
    cache: &LightCache,
    indices: &[u32; N],
) -> [DatasetItem; N] {
    let mut out = [[0; ITEM_WORDS]; N];
    let mut done = 0;
    if const { N >= PARALLEL_ITEMS_MAX } {
        while done + PARALLEL_ITEMS_MAX <= N {
            compute_both_halves::<S, PARALLEL_HALVES_MAX>(simd, cache, &indices[done..], &mut out[done..]);
            done += PARALLEL_ITEMS_MAX;
        }
    }
    if const { N % PARALLEL_ITEMS_MAX >= 8 } {
        while done + 8 <= N {
            compute_both_halves::<S, 16>(simd, cache, &indices[done..], &mut out[done..]);
            done += 8;
        }
    }
    if const { !N.is_multiple_of(8) } {
        while done < N {
            compute_both_halves::<S, 2>(simd, cache, &indices[done..], &mut out[done..]);
            done += 1;
        }
    }
    out
}

/// Computes both halves of the first `HALVES / 2` items at `indices`, all at once.
#[inline(always)]
fn compute_both_halves<S: SimdOps, const HALVES: usize>(
    simd: S,
    cache: &LightCache,
    indices: &[u32],
    out: &mut [DatasetItem],
) {
    let mut half_indices = [0; HALVES];
    for ([first, second], index) in half_indices.as_chunks_mut::<2>().0.iter_mut().zip(indices) {
        *first = index.wrapping_mul(2);
        *second = *first | 1;
    }
    for (k, row) in compute_halves(simd, cache, &half_indices).iter().enumerate() {
        out[k / 2][k % 2 * ROW_WORDS..][..ROW_WORDS].copy_from_slice(&row.0);
    }
}

/// Computes the item halves at `half_indices`, all at once.
#[inline(always)]
fn compute_halves<S: SimdOps, const N: usize>(
    simd: S,
    cache: &LightCache,
    half_indices: &[u32; N],
) -> [CacheRow; N] {
    let (rows, row_count) = (cache.as_rows(), cache.row_count);
    let mut mixes = [CacheRow::ZERO; N];
    for (mix, index) in mixes.iter_mut().zip(half_indices) {
        *mix = rows[row_count.reduce(*index) as usize];
        mix.0[0] ^= index;
    }
    simd.keccak512_rows(&mut mixes);
    if const { N <= LATENCY_BOUND_HALVES_MAX } {
        mix_parents_low_latency(simd, cache, half_indices, &mut mixes);
    } else {
        mix_parents(simd, cache, half_indices, &mut mixes);
    }
    simd.keccak512_rows(&mut mixes);
    mixes
}

/// Mixes all parents into many halves. Many rows are being loaded at the same time, so only the
/// work per row counts.
#[inline(always)]
fn mix_parents<S: SimdOps, const N: usize>(
    simd: S,
    cache: &LightCache,
    half_indices: &[u32; N],
    mixes: &mut [CacheRow; N],
) {
    let (rows, row_count) = (cache.as_rows(), cache.row_count);
    let mut parents = [0; N];
    for ((parent, mix), index) in parents.iter_mut().zip(&*mixes).zip(half_indices) {
        *parent = row_count.reduce(fnv(*index, mix.0[0])) as usize;
        prefetch(&raw const rows[*parent]);
    }
    for next in 1..=DATASET_PARENTS {
        for ((parent, mix), index) in parents.iter_mut().zip(&mut *mixes).zip(half_indices) {
            simd.mix_row(mix, &rows[*parent].0);
            // After the last parent this prefetches a row that is not needed.
            *parent = row_count.reduce(fnv(index ^ next, mix.0[next as usize % ROW_WORDS])) as usize;
            prefetch(&raw const rows[*parent]);
        }
    }
}

/// Mixes all parents into few halves. Here the time from one row to the next counts.
///
/// The word that selects the next row is mixed separately from the others. So only one exclusive or
/// and one remainder lie between the arrival of a row and the load of the next.
#[inline(always)]
fn mix_parents_low_latency<S: SimdOps, const N: usize>(
    simd: S,
    cache: &LightCache,
    half_indices: &[u32; N],
    mixes: &mut [CacheRow; N],
) {
    let (rows, row_count) = (cache.as_rows(), cache.row_count);
    let mut parents = [0; N];
    for ((parent, mix), index) in parents.iter_mut().zip(&*mixes).zip(half_indices) {
        *parent = row_count.reduce(fnv(*index, mix.0[0])) as usize;
    }
    for next in 1..=DATASET_PARENTS {
        for ((parent, mix), index) in parents.iter_mut().zip(&mut *mixes).zip(half_indices) {
            let row = &rows[*parent].0;
            let word = next as usize % ROW_WORDS;
            let known = fnv(index ^ next, fnv(mix.0[word], 0));
            *parent = row_count.reduce(known ^ row[word]) as usize;
            simd.mix_row(mix, row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::B256;
    use crate::light_cache::reference;
    use crate::simd::on_each_instruction_set;

    #[test]
    fn consecutive_items_equal_single_ones() {
        let cache = LightCache::with_sizes(B256::ZERO, 1024, 32_768).expect("sizes of the test dataset");
        for (first, count) in [(0, 1), (0, 256), (3, 8), (5, 13), (250, 6), (7, 64), (1, 77)] {
            let mut out = vec![7; count * ITEM_WORDS + 5];
            cache.fill_items(first, &mut out);
            for (i, item) in out.as_chunks::<ITEM_WORDS>().0.iter().take(count).enumerate() {
                assert_eq!(
                    *item,
                    cache.dataset_item(first + i as u32),
                    "item {i} from {first}"
                );
            }
            assert_eq!(out[count * ITEM_WORDS..], [7; 5], "words after the last item");
        }
    }

    #[test]
    fn items_follow_the_rules_on_every_instruction_set() {
        let cache = reference::small_cache();
        let expected: [_; 97] = core::array::from_fn(|index| reference::dataset_item(&cache, index as u32));
        on_each_instruction_set(|set| {
            // One group of the largest size, four of eight, and one item.
            let mut items = [[0; ITEM_WORDS]; 97];
            cache.fill_items(0, items.as_flattened_mut());
            assert!(items == expected, "{set}");
        });
    }
}
