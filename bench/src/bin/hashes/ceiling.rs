//! Reads random items of a dataset, as many in flight as a search has, and computes next to nothing.
//!
//! What the next place is depends on what was read, as in a hash, so that no read can begin too early.

use std::hint::black_box;
use std::time::Instant;

use ethash::{ITEM_WORDS, prefetch};

/// Reads between two looks at the clock.
const READS_A_LOOK: usize = 1 << 15;

/// Items read until `end`, `flight` at a time.
pub(crate) fn reads(dataset: &[u32], flight: usize, seed: usize, end: Instant) -> u64 {
    let (items, _) = dataset.as_chunks::<ITEM_WORDS>();
    let count = items.len() as u64;
    let place = |state: u32| ((u64::from(state) * count) >> 32) as usize;
    // A counter goes into every state: a state that followed from its item alone would soon go round in circles.
    let mut counter = (seed as u32).wrapping_mul(0x85eb_ca6b);
    let mut states: Vec<u32> = (1..=flight as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
    let mut total = 0;
    while Instant::now() < end {
        for _ in 0..READS_A_LOOK / flight {
            for state in &mut states {
                let item = &items[place(*state)];
                // One word of each cache line: the rest of a line comes with it.
                counter = counter.wrapping_add(0x9e37_79b9);
                *state = (*state ^ item[0] ^ item[ITEM_WORDS / 2]).wrapping_mul(0x0100_0193) ^ counter;
                let next = &items[place(*state)];
                prefetch(&next[0]);
                prefetch(&next[ITEM_WORDS / 2]);
                total += 1;
            }
        }
    }
    black_box(states);
    total
}
