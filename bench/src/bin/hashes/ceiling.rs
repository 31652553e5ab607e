//! Reads random items of a dataset with almost no computation: the upper bound for the search.
//!
//! As many reads are in flight as in the search. The index of the next read depends on the item
//! that was read, as in a hash, so that no read can start too early.

use std::hint::black_box;
use std::time::Instant;

use ethash::{ITEM_WORDS, prefetch};

/// Number of reads between two reads of the clock.
const READS_PER_CLOCK: usize = 1 << 15;

/// Reads items until `end`, with `flight` reads in flight. Returns how many items were read.
pub(crate) fn reads(dataset: &[u32], flight: usize, seed: usize, end: Instant) -> u64 {
    let (items, _) = dataset.as_chunks::<ITEM_WORDS>();
    let count = items.len() as u64;
    let index_of = |state: u32| ((u64::from(state) * count) >> 32) as usize;
    // A counter is mixed into each state. A state that depended only on its item would soon repeat.
    let mut counter = (seed as u32).wrapping_mul(0x85eb_ca6b);
    let mut states: Vec<u32> = (1..=flight as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
    let mut total = 0;
    while Instant::now() < end {
        for _ in 0..READS_PER_CLOCK / flight {
            for state in &mut states {
                let item = &items[index_of(*state)];
                // One word of each cache line is enough, because the whole line is loaded.
                counter = counter.wrapping_add(0x9e37_79b9);
                *state = (*state ^ item[0] ^ item[ITEM_WORDS / 2]).wrapping_mul(0x0100_0193) ^ counter;
                let next = &items[index_of(*state)];
                prefetch(&raw const next[0]);
                prefetch(&raw const next[ITEM_WORDS / 2]);
                total += 1;
            }
        }
    }
    black_box(states);
    total
}
