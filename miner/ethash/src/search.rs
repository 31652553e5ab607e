//! The search over a full dataset in memory, with many hashes in flight.
//!
//! A hash reads 64 items one after the other. So the rate depends on how many items are being
//! loaded at the same time. The search goes round [`GROUPS_IN_FLIGHT`] groups of hashes. Each time
//! it comes to a group, it mixes in the items that were prefetched the last time, and prefetches
//! the next ones. The groups start in different rounds: while one group computes Keccak, the items
//! of the others arrive.
//!
//! The caller chooses the nonces and uses the hashes.

use crate::arith::{Modulus, fnv, prefetch};
use crate::cache_row::CacheRow;
use crate::full_dataset::FullDataset;
use crate::hashimoto::{DatasetItem, PowHash, compress_mix};
use crate::keccak::{BATCH_STATES, PAD_END, RATE_256, RATE_512, StateBatch, bytes_of, lanes};
use crate::simd::{SimdKernel, SimdOps, dispatch};
use crate::{ACCESSES, B256, ITEM_WORDS, ROW_WORDS};

/// Nonces that are started and finished together: as many as Keccak states in a batch.
pub const SEARCH_GROUP: usize = BATCH_STATES;
/// Groups in flight. A processor core can wait for about a hundred items at once. More groups would
/// only fill its first-level cache.
const GROUPS_IN_FLIGHT: usize = 12;
/// Hashes in flight.
pub const SEARCH_IN_FLIGHT: usize = GROUPS_IN_FLIGHT * SEARCH_GROUP;
/// Rounds between the starts of two groups. This spreads the groups evenly over the accesses of a
/// hash.
const ROUNDS_APART: usize = ACCESSES as usize / GROUPS_IN_FLIGHT;

impl FullDataset<'_> {
    /// Hashes nonces until `next` returns `None` and all started hashes are finished.
    ///
    /// `next` gives [`SEARCH_GROUP`] nonces at a time. `done` gets each of these groups with its
    /// hashes, in the order in which `next` gave them. Up to [`SEARCH_IN_FLIGHT`] hashes are in
    /// flight.
    pub fn search(
        &self,
        header_hash: &B256,
        mut next: impl FnMut() -> Option<[u64; SEARCH_GROUP]>,
        mut done: impl FnMut(&[u64; SEARCH_GROUP], &[PowHash; SEARCH_GROUP]),
    ) {
        self.search_groups(header_hash, &mut next, &mut done);
    }

    /// Does the work of [`search`](Self::search). Has no parameters of types, so this package alone
    /// compiles the kernel.
    fn search_groups(&self, header_hash: &B256, next: &mut NextGroup<'_>, done: &mut GroupDone<'_>) {
        dispatch(DatasetSearch {
            items: self.items,
            item_count: self.item_count,
            header: lanes(&header_hash.0),
            next,
            done,
        });
    }
}

/// Gives the nonces of the next group.
type NextGroup<'a> = dyn FnMut() -> Option<[u64; SEARCH_GROUP]> + 'a;
/// Takes the nonces of a group and their hashes.
type GroupDone<'a> = dyn FnMut(&[u64; SEARCH_GROUP], &[PowHash; SEARCH_GROUP]) + 'a;

struct DatasetSearch<'a> {
    items: &'a [DatasetItem],
    item_count: Modulus,
    header: [u64; 4],
    next: &'a mut NextGroup<'a>,
    done: &'a mut GroupDone<'a>,
}

impl SimdKernel for DatasetSearch<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SimdOps>(self, simd: S) {
        let mut groups = [const { NonceGroup::IDLE }; GROUPS_IN_FLIGHT];
        let (mut round, mut more, mut idle) = (0, true, GROUPS_IN_FLIGHT);
        while more || idle < GROUPS_IN_FLIGHT {
            for (i, group) in groups.iter_mut().enumerate() {
                if group.access < ACCESSES {
                    group.advance(simd, self.items, self.item_count);
                    if group.access < ACCESSES {
                        continue;
                    }
                    (self.done)(&group.nonces, &group.finish(simd));
                    idle += 1;
                } else if more && round >= i * ROUNDS_APART {
                    match (self.next)() {
                        Some(nonces) => {
                            group.start(simd, &self.header, nonces, self.items, self.item_count);
                            idle -= 1;
                        }
                        None => more = false,
                    }
                }
            }
            round += 1;
        }
    }
}

/// Hashes of [`SEARCH_GROUP`] nonces, all at the same access.
struct NonceGroup {
    mixes: [[CacheRow; 2]; SEARCH_GROUP],
    /// The index of the item that each hash reads next.
    indices: [u32; SEARCH_GROUP],
    /// The seeds, lane by lane, as in a batch of Keccak states.
    seeds: [[u64; SEARCH_GROUP]; 8],
    nonces: [u64; SEARCH_GROUP],
    /// The number of items that are mixed in. [`ACCESSES`] if the group is idle.
    access: u32,
}

impl NonceGroup {
    const IDLE: Self = Self {
        mixes: [[CacheRow::ZERO; 2]; SEARCH_GROUP],
        indices: [0; SEARCH_GROUP],
        seeds: [[0; SEARCH_GROUP]; 8],
        nonces: [0; SEARCH_GROUP],
        access: ACCESSES,
    };

    /// Computes the seeds and prefetches the first items.
    #[inline(always)]
    fn start<S: SimdOps>(
        &mut self,
        simd: S,
        header: &[u64; 4],
        nonces: [u64; SEARCH_GROUP],
        items: &[DatasetItem],
        item_count: Modulus,
    ) {
        let mut states: StateBatch = [[0; SEARCH_GROUP]; 25];
        for (lanes, lane) in states.iter_mut().zip(header) {
            *lanes = [*lane; SEARCH_GROUP];
        }
        states[4] = nonces;
        states[5] = [1; SEARCH_GROUP];
        states[RATE_512 - 1] = [PAD_END; SEARCH_GROUP];
        simd.permute(&mut states, SEARCH_GROUP);
        self.seeds.copy_from_slice(&states[..8]);
        self.nonces = nonces;
        for (j, mix) in self.mixes.iter_mut().enumerate() {
            let mut seed = [0; 8];
            for (lane, lanes) in seed.iter_mut().zip(&self.seeds) {
                *lane = lanes[j];
            }
            *mix = [CacheRow::from_lanes(&seed); 2];
        }
        self.access = 0;
        for j in 0..SEARCH_GROUP {
            self.prefetch_next(j, items, item_count);
        }
    }

    /// Mixes in the prefetched items and prefetches the next ones.
    #[inline(always)]
    fn advance<S: SimdOps>(&mut self, simd: S, items: &[DatasetItem], item_count: Modulus) {
        self.access += 1;
        for j in 0..SEARCH_GROUP {
            let (halves, _) = items[self.indices[j] as usize].as_chunks::<ROW_WORDS>();
            for (mix, half) in self.mixes[j].iter_mut().zip(halves) {
                simd.mix_row(mix, half);
            }
            // After the last access this prefetches an item that is not needed. A check would cost
            // more.
            self.prefetch_next(j, items, item_count);
        }
    }

    /// Computes the index of the item that hash `j` reads next, and prefetches that item.
    #[inline(always)]
    fn prefetch_next(&mut self, j: usize, items: &[DatasetItem], item_count: Modulus) {
        let word = self.access as usize % ITEM_WORDS;
        let mixed = self.mixes[j][word / ROW_WORDS].0[word % ROW_WORDS];
        let index = item_count.reduce(fnv(self.access ^ self.seeds[0][j] as u32, mixed));
        self.indices[j] = index;
        prefetch_item(&items[index as usize]);
    }

    /// Compresses the mixes and computes the final hashes.
    #[inline(always)]
    fn finish<S: SimdOps>(&self, simd: S) -> [PowHash; SEARCH_GROUP] {
        let mut states: StateBatch = [[0; SEARCH_GROUP]; 25];
        states[..8].copy_from_slice(&self.seeds);
        let mut hashes = [PowHash::ZERO; SEARCH_GROUP];
        for (j, (hash, mix)) in hashes.iter_mut().zip(&self.mixes).enumerate() {
            let compressed = compress_mix(mix);
            for (lanes, lane) in states[8..12].iter_mut().zip(compressed) {
                lanes[j] = lane;
            }
            hash.mix_hash = B256::from(bytes_of(compressed));
        }
        states[12] = [1; SEARCH_GROUP];
        states[RATE_256 - 1] = [PAD_END; SEARCH_GROUP];
        simd.permute(&mut states, SEARCH_GROUP);
        for (j, hash) in hashes.iter_mut().enumerate() {
            hash.final_hash = B256::from(bytes_of([states[0][j], states[1][j], states[2][j], states[3][j]]));
        }
        hashes
    }
}

/// Prefetches both cache lines of an item. There are three lines if the items do not begin at a
/// cache line, for example behind the header of a dataset file.
#[inline(always)]
fn prefetch_item(item: &DatasetItem) {
    prefetch(&raw const item[0]);
    prefetch(&raw const item[ITEM_WORDS / 2]);
    prefetch(&raw const item[ITEM_WORDS - 1]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LightCache;
    use crate::simd::on_each_instruction_set;

    #[test]
    fn streams_hash_like_single_nonces() {
        let cache = LightCache::with_sizes(B256::ZERO, 1024, 32_768).expect("sizes of the test dataset");
        let mut dataset = vec![0; 256 * ITEM_WORDS];
        cache.fill_items(0, &mut dataset);
        let full = FullDataset::new(&dataset).expect("256 items");
        let header_hash = B256::repeat_byte(0x2d);
        // No group, one, as many as fit in flight, and more. The nonces wrap from 2^64 - 1 to 0.
        for groups in [
            0,
            1,
            5,
            GROUPS_IN_FLIGHT,
            GROUPS_IN_FLIGHT + 1,
            3 * GROUPS_IN_FLIGHT + 2,
        ] {
            let first = 0_u64.wrapping_sub(20);
            let (mut started, mut finished) = (0, Vec::new());
            full.search(
                &header_hash,
                || {
                    let group = (started < groups).then(|| {
                        core::array::from_fn(|i| first.wrapping_add((started * SEARCH_GROUP + i) as u64))
                    });
                    started += 1;
                    group
                },
                |nonces, hashes| finished.extend(nonces.iter().copied().zip(*hashes)),
            );
            assert_eq!(finished.len(), groups * SEARCH_GROUP);
            for (i, (nonce, hash)) in finished.into_iter().enumerate() {
                assert_eq!(nonce, first.wrapping_add(i as u64), "in order");
                assert_eq!(hash, cache.hash(&header_hash, nonce), "nonce {nonce:#x}");
            }
        }
    }

    #[test]
    fn every_instruction_set_agrees() {
        let dataset: Vec<u32> = (0..1009 * ITEM_WORDS as u32)
            .map(|i| i.wrapping_mul(0x9e37_79b9).rotate_left(7))
            .collect();
        let full = FullDataset::new(&dataset).expect("1009 items");
        let header_hash = B256::repeat_byte(0x61);
        on_each_instruction_set(|set| {
            let (mut hashes, mut nonce) = (Vec::new(), 0);
            full.search(
                &header_hash,
                || {
                    nonce += SEARCH_GROUP as u64;
                    (nonce <= 160).then(|| core::array::from_fn(|i| nonce + i as u64))
                },
                |nonces, done| hashes.extend(nonces.iter().copied().zip(*done)),
            );
            assert_eq!(hashes.len(), 160, "{set}");
            for (nonce, hash) in hashes {
                let expected = crate::hash_full(&dataset, &header_hash, nonce);
                assert_eq!(Some(hash), expected, "{set}, nonce {nonce}");
            }
        });
    }
}
