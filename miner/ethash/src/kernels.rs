//! The loops of the light cache: filling its rows, and computing items from them.
//!
//! Each is a [`Kernel`], compiled for several instruction sets. Which epoch, how large and for whom is
//! `light`'s business.

use core::marker::PhantomData;

use crate::arith::{Modulus, fnv, prefetch};
use crate::hashimoto::{Item, Lookup, PowHash, lockstep};
use crate::isa::{Isa, Kernel};
use crate::keccak::keccak512_64;
use crate::light::LightCache;
use crate::{B256, DATASET_PARENTS, ITEM_WORDS, ROW_WORDS};

/// How far ahead of its use a row is asked for while building.
const PREFETCH_ROWS: usize = 4;

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

/// Appends `count` rows, each the Keccak-512 of the one before.
pub(crate) struct Chain<'a> {
    pub(crate) rows: &'a mut Vec<Row>,
    pub(crate) count: usize,
}

impl Kernel for Chain<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self) {
        let Some(mut lanes) = self.rows.last().map(Row::lanes) else {
            return;
        };
        for _ in 0..self.count {
            lanes = keccak512_64(&lanes);
            self.rows.push(Row::from_lanes(&lanes));
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
        let mut lanes = rows[if from == 0 { last } else { from - 1 }].lanes();
        for i in from..to {
            // A row's partner follows from its own old value, so it is known well before it is needed.
            let ahead = &rows[(i + PREFETCH_ROWS).min(last)];
            prefetch(&rows[row_count.of(ahead.0[0]) as usize]);
            let partner = &rows[row_count.of(rows[i].0[0]) as usize];
            for (lane, other) in lanes.iter_mut().zip(partner.lanes()) {
                *lane ^= other;
            }
            lanes = keccak512_64(&lanes);
            rows[i] = Row::from_lanes(&lanes);
        }
    }
}

/// Computes the 64-byte halves `index[..]` of dataset items side by side.
#[inline(always)]
fn nodes<I: Isa, const N: usize>(cache: &LightCache, index: &[u32; N]) -> [Row; N] {
    let LightCache { rows, row_count, .. } = cache;
    let mut mix = [Row([0; ROW_WORDS]); N];
    for (mix, index) in mix.iter_mut().zip(index) {
        *mix = rows[row_count.of(*index) as usize];
        mix.0[0] ^= index;
    }
    I::keccak512_rows(&mut mix);
    for parent in 0..DATASET_PARENTS {
        // All addresses first: the rows then travel while the other nodes are worked on.
        let mut places = [0; N];
        for ((place, mix), index) in places.iter_mut().zip(&mix).zip(index) {
            *place = row_count.of(fnv(index ^ parent, mix.0[parent as usize % ROW_WORDS])) as usize;
        }
        for place in places {
            prefetch(&rows[place]);
        }
        for (mix, place) in mix.iter_mut().zip(places) {
            I::mix_row(mix, &rows[place].0);
        }
    }
    I::keccak512_rows(&mut mix);
    mix
}

/// Computes the items `index[..]` side by side: eight at once, then four, then two, then one.
#[inline(always)]
fn items<I: Isa, const N: usize>(cache: &LightCache, index: &[u32; N]) -> [Item; N] {
    let mut out = [[0; ITEM_WORDS]; N];
    let mut done = 0;
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
    type Item = Item;

    #[inline(always)]
    fn items(&mut self, index: [u32; N]) -> [Item; N] {
        items::<I, N>(self.0, &index)
    }
}
