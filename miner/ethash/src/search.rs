//! The search over a full dataset in memory: many hashes in flight, each at its own access.
//!
//! A hash reads 64 items one after another, so what bounds the rate is how many items are on their
//! way at a time. [`FLIGHT`] groups of hashes are gone round; a visit mixes in the items that were
//! asked for at the visit before, and asks for the next. Groups begin at different turns, so that
//! while one is in Keccak the items of all others arrive. Which nonces, and what becomes of a hash,
//! is the caller's business.

use crate::arith::{Modulus, fnv, prefetch};
use crate::hashimoto::{FullDataset, Item, PowHash, fold};
use crate::isa::{Isa, Kernel, dispatch};
use crate::keccak::{PAD_END, RATE_256, RATE_512, SIDE_BY_SIDE, States, bytes_of, lanes};
use crate::kernels::Row;
use crate::{ACCESSES, B256, ITEM_WORDS, ROW_WORDS};

/// Nonces that are begun and finished together: as many as states of Keccak go side by side.
pub const GROUP: usize = SIDE_BY_SIDE;
/// Groups in flight. A core waits for some hundred items at once; more would only fill its
/// first-level cache.
const FLIGHT: usize = 12;
/// Hashes in flight.
pub const IN_FLIGHT: usize = FLIGHT * GROUP;
/// Turns between the beginnings of two groups, so that they spread over the accesses of a hash.
const TURNS_APART: usize = ACCESSES as usize / FLIGHT;

impl FullDataset<'_> {
    /// Hashes the nonces that `next` gives, [`GROUP`] at a time, until it gives none and all that
    /// were begun are done. `done` gets each group with its hashes, in the order in which they were
    /// begun.
    ///
    /// [`IN_FLIGHT`] hashes are in flight where `next` gives as many.
    pub fn search(
        &self,
        header_hash: &B256,
        next: impl FnMut() -> Option<[u64; GROUP]>,
        done: impl FnMut(&[u64; GROUP], &[PowHash; GROUP]),
    ) {
        dispatch(Search {
            items: self.items,
            count: self.count,
            header: lanes(&header_hash.0),
            next,
            done,
        });
    }
}

struct Search<'a, N, D> {
    items: &'a [Item],
    count: Modulus,
    header: [u64; 4],
    next: N,
    done: D,
}

impl<N, D> Kernel for Search<'_, N, D>
where
    N: FnMut() -> Option<[u64; GROUP]>,
    D: FnMut(&[u64; GROUP], &[PowHash; GROUP]),
{
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(mut self) {
        let mut groups = [const { Group::IDLE }; FLIGHT];
        let (mut turn, mut more, mut idle) = (0, true, FLIGHT);
        while more || idle < FLIGHT {
            for (place, group) in groups.iter_mut().enumerate() {
                if group.access < ACCESSES {
                    group.visit::<I>(self.items, self.count);
                    if group.access < ACCESSES {
                        continue;
                    }
                    (self.done)(&group.nonces, &group.finish::<I>());
                    idle += 1;
                } else if more && turn >= place * TURNS_APART {
                    match (self.next)() {
                        Some(nonces) => {
                            group.begin::<I>(&self.header, nonces, self.items, self.count);
                            idle -= 1;
                        }
                        None => more = false,
                    }
                }
            }
            turn += 1;
        }
    }
}

/// Some hashes at the same access.
struct Group {
    mix: [[Row; 2]; GROUP],
    /// The item each of them reads next.
    index: [u32; GROUP],
    /// Lane by lane, as Keccak has them.
    seeds: [[u64; GROUP]; 8],
    nonces: [u64; GROUP],
    /// How many items are mixed in; all of them where nothing is in flight.
    access: u32,
}

impl Group {
    const IDLE: Self = Self {
        mix: [[Row([0; ROW_WORDS]); 2]; GROUP],
        index: [0; GROUP],
        seeds: [[0; GROUP]; 8],
        nonces: [0; GROUP],
        access: ACCESSES,
    };

    /// Computes the seeds and asks for the first items.
    #[inline(always)]
    fn begin<I: Isa>(&mut self, header: &[u64; 4], nonces: [u64; GROUP], items: &[Item], count: Modulus) {
        let mut states: States = [[0; GROUP]; 25];
        for (lanes, lane) in states.iter_mut().zip(header) {
            *lanes = [*lane; GROUP];
        }
        states[4] = nonces;
        states[5] = [1; GROUP];
        states[RATE_512 - 1] = [PAD_END; GROUP];
        I::permute(&mut states, GROUP);
        self.seeds.copy_from_slice(&states[..8]);
        self.nonces = nonces;
        for (j, mix) in self.mix.iter_mut().enumerate() {
            let mut seed = [0; 8];
            for (lane, lanes) in seed.iter_mut().zip(&self.seeds) {
                *lane = lanes[j];
            }
            *mix = [Row::from_lanes(&seed); 2];
        }
        self.access = 0;
        for j in 0..GROUP {
            self.ask(j, items, count);
        }
    }

    /// Mixes in the items asked for and asks for the next.
    #[inline(always)]
    fn visit<I: Isa>(&mut self, items: &[Item], count: Modulus) {
        self.access += 1;
        for j in 0..GROUP {
            let (halves, _) = items[self.index[j] as usize].as_chunks::<ROW_WORDS>();
            for (mix, half) in self.mix[j].iter_mut().zip(halves) {
                I::mix_row(mix, half);
            }
            // After the last access this asks for one item in vain, which costs less than to look.
            self.ask(j, items, count);
        }
    }

    /// Computes which item hash `j` reads next and asks for it.
    #[inline(always)]
    fn ask(&mut self, j: usize, items: &[Item], count: Modulus) {
        let word = self.access as usize % ITEM_WORDS;
        let mixed = self.mix[j][word / ROW_WORDS].0[word % ROW_WORDS];
        let index = count.of(fnv(self.access ^ self.seeds[0][j] as u32, mixed));
        self.index[j] = index;
        prefetch_item(&items[index as usize]);
    }

    /// Folds the mixes and computes the final hashes.
    #[inline(always)]
    fn finish<I: Isa>(&self) -> [PowHash; GROUP] {
        let mut states: States = [[0; GROUP]; 25];
        states[..8].copy_from_slice(&self.seeds);
        let mut hashes = [PowHash::ZERO; GROUP];
        for (j, (hash, mix)) in hashes.iter_mut().zip(&self.mix).enumerate() {
            let folded = fold(mix);
            for (lanes, lane) in states[8..12].iter_mut().zip(folded) {
                lanes[j] = lane;
            }
            hash.mix_hash = B256::from(bytes_of(folded));
        }
        states[12] = [1; GROUP];
        states[RATE_256 - 1] = [PAD_END; GROUP];
        I::permute(&mut states, GROUP);
        for (j, hash) in hashes.iter_mut().enumerate() {
            hash.final_hash = B256::from(bytes_of([states[0][j], states[1][j], states[2][j], states[3][j]]));
        }
        hashes
    }
}

/// Asks for both cache lines of an item, or all three where a file's head has moved the items off
/// their boundaries.
#[inline(always)]
fn prefetch_item(item: &Item) {
    prefetch(&item[0]);
    prefetch(&item[ITEM_WORDS / 2]);
    prefetch(&item[ITEM_WORDS - 1]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LightCache;
    use crate::isa::on_every_set;

    #[test]
    fn streams_hash_like_single_nonces() {
        let cache = LightCache::with_sizes(B256::ZERO, 1024, 32_768).expect("sizes of the test dataset");
        let mut dataset = vec![0; 256 * ITEM_WORDS];
        cache.fill_items(0, &mut dataset);
        let full = FullDataset::new(&dataset).expect("256 items");
        let header_hash = B256::repeat_byte(0x2d);
        // None, one group, as many as are in flight, and more; across the end of the numbers.
        for groups in [0, 1, 5, FLIGHT, FLIGHT + 1, 3 * FLIGHT + 2] {
            let first = 0_u64.wrapping_sub(20);
            let (mut begun, mut finished) = (0, Vec::new());
            full.search(
                &header_hash,
                || {
                    let group = (begun < groups)
                        .then(|| core::array::from_fn(|i| first.wrapping_add((begun * GROUP + i) as u64)));
                    begun += 1;
                    group
                },
                |nonces, hashes| finished.extend(nonces.iter().copied().zip(*hashes)),
            );
            assert_eq!(finished.len(), groups * GROUP);
            for (place, (nonce, hash)) in finished.into_iter().enumerate() {
                assert_eq!(nonce, first.wrapping_add(place as u64), "in order");
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
        struct Collect<'a>(&'a FullDataset<'a>, &'a B256);
        impl Kernel for Collect<'_> {
            type Output = Vec<(u64, PowHash)>;
            #[inline(always)]
            fn run<I: Isa>(self) -> Self::Output {
                let (mut all, mut at) = (Vec::new(), 0);
                Search {
                    items: self.0.items,
                    count: self.0.count,
                    header: lanes(&self.1.0),
                    next: || {
                        at += GROUP as u64;
                        (at <= 160).then(|| core::array::from_fn(|i| at + i as u64))
                    },
                    done: |nonces: &[u64; GROUP], hashes: &[PowHash; GROUP]| {
                        all.extend(nonces.iter().copied().zip(*hashes));
                    },
                }
                .run::<I>();
                all
            }
        }
        on_every_set(
            || Collect(&full, &header_hash),
            |hashes, set| {
                assert_eq!(hashes.len(), 160, "{set}");
                for (nonce, hash) in hashes {
                    let expected = crate::hash_full(&dataset, &header_hash, nonce);
                    assert_eq!(Some(hash), expected, "{set}, nonce {nonce}");
                }
            },
        );
    }
}
