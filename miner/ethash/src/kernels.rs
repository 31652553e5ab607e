//! The loops of the light cache: filling its rows, and computing items from them.
//!
//! Each is a [`Kernel`], compiled for several instruction sets. Which epoch, how large and for whom
//! is `light`'s business.

use core::marker::PhantomData;

use crate::arith::{Modulus, fnv, prefetch};
use crate::hashimoto::{Item, Lookup, PowHash, lockstep};
use crate::isa::{Isa, Kernel};
use crate::keccak::{Lane, keccak512_64};
use crate::light::LightCache;
use crate::{B256, DATASET_PARENTS, ITEM_WORDS, ROW_WORDS};

/// How far ahead of its use a row is asked for while building.
const PREFETCH_ROWS: usize = 4;

/// Items computed side by side where many are wanted. Once the light cache is larger than the
/// processor's third-level cache, what counts is how many rows are on their way from memory.
pub(crate) const MOST_ITEMS: usize = MOST_NODES / 2;
/// The same in nodes, the halves of items.
const MOST_NODES: usize = 128;
/// Up to so many nodes side by side, the time of one row after another bounds the rate.
const FEW_NODES: usize = 4;

/// One row of the light cache, or half a dataset item: a cache line of 16 words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Row(pub(crate) [u32; ROW_WORDS]);

impl Row {
    #[inline(always)]
    pub(crate) fn lanes(&self) -> [u64; 8] {
        let mut lanes = [0; 8];
        for (lane, [low, high]) in lanes.iter_mut().zip(self.0.as_chunks::<2>().0) {
            *lane = u64::from(*low) | u64::from(*high) << 32;
        }
        lanes
    }

    #[inline(always)]
    pub(crate) fn from_lanes(lanes: &[u64; 8]) -> Self {
        let mut words = [0; ROW_WORDS];
        for ([low, high], lane) in words.as_chunks_mut::<2>().0.iter_mut().zip(lanes) {
            (*low, *high) = (*lane as u32, (*lane >> 32) as u32);
        }
        Self(words)
    }
}

/// Each lane in all states of `L`.
#[inline(always)]
fn splat<L: Lane>(lanes: &[u64; 8]) -> [L; 8] {
    let mut wide = [L::splat(0); 8];
    for (wide, lane) in wide.iter_mut().zip(lanes) {
        *wide = L::splat(*lane);
    }
    wide
}

/// The lanes of the first state.
#[inline(always)]
fn first<L: Lane>(wide: &[L; 8]) -> [u64; 8] {
    let mut lanes = [0; 8];
    for (lane, wide) in lanes.iter_mut().zip(wide) {
        *lane = wide.first();
    }
    lanes
}

/// Fills the rows `from..to`, of which none is the first, each with the Keccak-512 of the one
/// before.
pub(crate) struct Chain<'a> {
    pub(crate) rows: &'a mut [Row],
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Kernel for Chain<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self) {
        let mut lanes = splat::<I::Few>(&self.rows[self.from - 1].lanes());
        for row in &mut self.rows[self.from..self.to] {
            lanes = keccak512_64(&lanes);
            *row = Row::from_lanes(&first(&lanes));
        }
    }
}

/// One pass of the low-memory hash over the rows `from..to`, in place.
pub(crate) struct Shuffle<'a> {
    pub(crate) rows: &'a mut [Row],
    pub(crate) row_count: Modulus,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Kernel for Shuffle<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self) {
        let Self {
            rows,
            row_count,
            from,
            to,
        } = self;
        let last = rows.len() - 1;
        let mut lanes = splat::<I::Few>(&rows[if from == 0 { last } else { from - 1 }].lanes());
        for i in from..to {
            // A row's partner follows from its own old value, so it is known well before it is
            // needed.
            let ahead = &rows[(i + PREFETCH_ROWS).min(last)];
            prefetch(&rows[row_count.of(ahead.0[0]) as usize]);
            let partner = &rows[row_count.of(rows[i].0[0]) as usize];
            for (lane, other) in lanes.iter_mut().zip(splat::<I::Few>(&partner.lanes())) {
                *lane = lane.xor(other);
            }
            lanes = keccak512_64(&lanes);
            rows[i] = Row::from_lanes(&first(&lanes));
        }
    }
}

/// Computes the 64-byte halves `index[..]` of dataset items side by side.
#[inline(always)]
fn nodes<I: Isa, const N: usize>(cache: &LightCache, index: &[u32; N]) -> [Row; N] {
    let (rows, row_count) = (cache.as_rows(), cache.row_count);
    let mut mix = [Row([0; ROW_WORDS]); N];
    for (mix, index) in mix.iter_mut().zip(index) {
        *mix = rows[row_count.of(*index) as usize];
        mix.0[0] ^= index;
    }
    I::keccak512_rows(&mut mix);
    if N <= FEW_NODES {
        mix_parents_soon::<I, N>(cache, index, &mut mix);
    } else {
        mix_parents::<I, N>(cache, index, &mut mix);
    }
    I::keccak512_rows(&mut mix);
    mix
}

/// Mixes all parents into nodes of which many are on their way, so that only the work for each
/// counts.
#[inline(always)]
fn mix_parents<I: Isa, const N: usize>(cache: &LightCache, index: &[u32; N], mix: &mut [Row; N]) {
    let (rows, row_count) = (cache.as_rows(), cache.row_count);
    let mut places = [0; N];
    for ((place, mix), index) in places.iter_mut().zip(&*mix).zip(index) {
        *place = row_count.of(fnv(*index, mix.0[0])) as usize;
        prefetch(&rows[*place]);
    }
    for next in 1..=DATASET_PARENTS {
        for ((place, mix), index) in places.iter_mut().zip(&mut *mix).zip(index) {
            I::mix_row(mix, &rows[*place].0);
            // After the last parent this asks for one row in vain.
            *place = row_count.of(fnv(index ^ next, mix.0[next as usize % ROW_WORDS])) as usize;
            prefetch(&rows[*place]);
        }
    }
}

/// Mixes all parents into few nodes: what counts is the time from one row to the next.
///
/// The word that leads to the next row is mixed apart from the others, so that nothing but the last
/// exclusive or and the remainder lie between the arrival of a row and the request for the next.
#[inline(always)]
fn mix_parents_soon<I: Isa, const N: usize>(cache: &LightCache, index: &[u32; N], mix: &mut [Row; N]) {
    let (rows, row_count) = (cache.as_rows(), cache.row_count);
    let mut places = [0; N];
    for ((place, mix), index) in places.iter_mut().zip(&*mix).zip(index) {
        *place = row_count.of(fnv(*index, mix.0[0])) as usize;
    }
    for next in 1..=DATASET_PARENTS {
        for ((place, mix), index) in places.iter_mut().zip(&mut *mix).zip(index) {
            let row = &rows[*place].0;
            let word = next as usize % ROW_WORDS;
            let known = fnv(index ^ next, fnv(mix.0[word], 0));
            *place = row_count.of(known ^ row[word]) as usize;
            I::mix_row(mix, row);
        }
    }
}

/// Computes the items `index[..]` side by side: [`MOST_ITEMS`] at once, then eight, four, two and
/// one.
#[inline(always)]
fn items<I: Isa, const N: usize>(cache: &LightCache, index: &[u32; N]) -> [Item; N] {
    let mut out = [[0; ITEM_WORDS]; N];
    let mut done = 0;
    while done + MOST_ITEMS <= N {
        halves::<I, MOST_NODES>(cache, &index[done..], &mut out[done..]);
        done += MOST_ITEMS;
    }
    while done + 8 <= N {
        halves::<I, 16>(cache, &index[done..], &mut out[done..]);
        done += 8;
    }
    if done + 4 <= N {
        halves::<I, 8>(cache, &index[done..], &mut out[done..]);
        done += 4;
    }
    if done + 2 <= N {
        halves::<I, 4>(cache, &index[done..], &mut out[done..]);
        done += 2;
    }
    if done < N {
        halves::<I, 2>(cache, &index[done..], &mut out[done..]);
    }
    out
}

/// Computes the first `NODES / 2` items of `index`, both halves of each, side by side.
#[inline(always)]
fn halves<I: Isa, const NODES: usize>(cache: &LightCache, index: &[u32], out: &mut [Item]) {
    let mut node = [0; NODES];
    for ([first, second], index) in node.as_chunks_mut::<2>().0.iter_mut().zip(index) {
        *first = index.wrapping_mul(2);
        *second = *first | 1;
    }
    for (k, row) in nodes::<I, NODES>(cache, &node).iter().enumerate() {
        out[k / 2][k % 2 * ROW_WORDS..][..ROW_WORDS].copy_from_slice(&row.0);
    }
}

/// Computes `N` items side by side.
pub(crate) struct Items<'a, const N: usize> {
    pub(crate) cache: &'a LightCache,
    pub(crate) first: [u32; N],
}

impl<const N: usize> Kernel for Items<'_, N> {
    type Output = [Item; N];

    #[inline(always)]
    fn run<I: Isa>(self) -> [Item; N] {
        items::<I, N>(self.cache, &self.first)
    }
}

/// Hashes `N` nonces in lockstep from the light cache.
pub(crate) struct LightHash<'a, const N: usize> {
    pub(crate) cache: &'a LightCache,
    pub(crate) header_hash: &'a B256,
    pub(crate) pow_nonces: [u64; N],
}

impl<const N: usize> Kernel for LightHash<'_, N> {
    type Output = [PowHash; N];

    #[inline(always)]
    fn run<I: Isa>(self) -> [PowHash; N] {
        lockstep::<I, N>(
            self.cache.items,
            self.header_hash,
            &self.pow_nonces,
            Computed::<I>(self.cache, PhantomData),
        )
    }
}

/// Items computed when they are read.
struct Computed<'a, I>(&'a LightCache, PhantomData<I>);

impl<I: Isa, const N: usize> Lookup<N> for Computed<'_, I> {
    #[inline(always)]
    fn items(&mut self, index: [u32; N]) -> [Item; N] {
        items::<I, N>(self.0, &index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::on_every_set;
    use crate::keccak::{bytes_of, keccak512};

    fn cache() -> LightCache {
        LightCache::with_sizes(B256::ZERO, 64 * 31, 128 * 97).expect("small sizes")
    }

    fn keccak(words: &[u32; ROW_WORDS]) -> [u32; ROW_WORDS] {
        let hash = keccak512(&bytes_of::<8, 64>(Row(*words).lanes()));
        core::array::from_fn(|i| u32::from_le_bytes(core::array::from_fn(|byte| hash[i * 4 + byte])))
    }

    /// An item as the rules have it, step by step.
    fn slow_item(cache: &LightCache, index: u32) -> Item {
        let half = |node: u32| {
            let row = |index: u32| cache.as_rows()[(index % cache.rows()) as usize].0;
            let mut mix = row(node);
            mix[0] ^= node;
            mix = keccak(&mix);
            for parent in 0..DATASET_PARENTS {
                let other = row(fnv(node ^ parent, mix[parent as usize % ROW_WORDS]));
                mix = core::array::from_fn(|i| fnv(mix[i], other[i]));
            }
            keccak(&mix)
        };
        let halves = [half(2 * index), half(2 * index + 1)];
        core::array::from_fn(|i| halves[i / ROW_WORDS][i % ROW_WORDS])
    }

    #[test]
    fn items_follow_the_rules_on_every_instruction_set() {
        fn check<const N: usize>(cache: &LightCache) {
            // In no order, as a search asks for them.
            let first: [u32; N] = core::array::from_fn(|i| (i as u32 * 41 + 5) % 97);
            let expected = first.map(|index| slow_item(cache, index));
            on_every_set(
                || Items { cache, first },
                |items, set| assert!(items == expected, "{N} items, {set}"),
            );
        }
        let cache = cache();
        check::<1>(&cache);
        check::<2>(&cache);
        check::<15>(&cache);
        check::<MOST_ITEMS>(&cache);
        check::<{ MOST_ITEMS + 9 }>(&cache);
    }

    #[test]
    fn light_hashes_agree_on_every_instruction_set() {
        let cache = cache();
        let header_hash = B256::repeat_byte(0x77);
        let pow_nonces = core::array::from_fn::<_, 10, _>(|i| (i as u64).wrapping_sub(4));
        let expected = pow_nonces.map(|nonce| {
            let lookup = |index| slow_item(&cache, index);
            crate::hashimoto(97, lookup, &header_hash, nonce).expect("97 items")
        });
        let kernel = || LightHash {
            cache: &cache,
            header_hash: &header_hash,
            pow_nonces,
        };
        on_every_set(kernel, |hashes, set| assert_eq!(hashes, expected, "{set}"));
    }

    #[test]
    fn the_light_cache_is_the_same_on_every_instruction_set() {
        struct Rows(Vec<Row>);
        impl Kernel for Rows {
            type Output = Vec<Row>;
            #[inline(always)]
            fn run<I: Isa>(mut self) -> Vec<Row> {
                Chain {
                    rows: &mut self.0,
                    from: 1,
                    to: 31,
                }
                .run::<I>();
                Shuffle {
                    rows: &mut self.0,
                    row_count: Modulus::new(31),
                    from: 0,
                    to: 31,
                }
                .run::<I>();
                self.0
            }
        }
        let first = Row(core::array::from_fn(|i| i as u32));
        let mut rows = vec![first.0];
        for i in 0..30 {
            rows.push(keccak(&rows[i]));
        }
        for i in 0..31 {
            let (before, partner) = (rows[(i + 30) % 31], rows[rows[i][0] as usize % 31]);
            rows[i] = keccak(&core::array::from_fn(|word| before[word] ^ partner[word]));
        }
        on_every_set(
            || Rows(vec![first; 31]),
            |got, set| assert!(got.iter().map(|row| row.0).eq(rows.iter().copied()), "{set}"),
        );
    }
}
