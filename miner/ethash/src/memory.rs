//! Loops that only read memory: they show what it can deliver to a search at best.
//!
//! This package is always optimised, so the loops are here and not beside the program that
//! measures. Starts no threads and knows no hashing.

use std::hint::black_box;
use std::time::Instant;

use crate::arith::prefetch;
use crate::constants::{ITEM_WORDS, ROW_WORDS};

/// The number of times that all rows in flight are read between two looks at the clock.
const ROUNDS_PER_LOOK: usize = 64;
/// Words of a cache line.
const LINE_WORDS: usize = 16;

/// Reads random items until `end`, and returns how many it has read. The next `ahead` items are
/// requested before they are read. `first` is the number of the first read: threads that begin at
/// other numbers read other items. Returns 0 if there is no item.
pub fn read_items(items: &[[u32; ITEM_WORDS]], ahead: usize, first: u64, end: Instant) -> u64 {
    read_random(items, ahead, first, end)
}

/// Reads random rows of a light cache until `end`, like [`read_items`].
pub fn read_cache_rows(rows: &[[u32; ROW_WORDS]], ahead: usize, first: u64, end: Instant) -> u64 {
    read_random(rows, ahead, first, end)
}

#[inline(always)]
fn read_random<const WORDS: usize>(rows: &[[u32; WORDS]], ahead: usize, first: u64, end: Instant) -> u64 {
    if rows.is_empty() || ahead == 0 {
        return 0;
    }
    let number = |n: u64| row_of(first.wrapping_add(n), rows.len());
    let mut in_flight: Vec<usize> = (0..ahead as u64).map(number).collect();
    for &row in &in_flight {
        fetch(&rows[row]);
    }
    let (mut sum, mut done) = ([0; WORDS], 0);
    while Instant::now() < end {
        for _ in 0..ROUNDS_PER_LOOK {
            for next in &mut in_flight {
                let row = &rows[*next];
                *next = number(done + ahead as u64);
                fetch(&rows[*next]);
                done += 1;
                for (sum, word) in sum.iter_mut().zip(row) {
                    *sum ^= word;
                }
            }
        }
    }
    black_box(sum);
    done
}

/// Returns the row of read number `n`: mixes the bits of the number and scales it to `rows`.
fn row_of(n: u64, rows: usize) -> usize {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 32;
    ((u128::from(x) * rows as u128) >> 64) as usize
}

/// Prefetches a whole row.
#[inline(always)]
fn fetch<const WORDS: usize>(row: &[u32; WORDS]) {
    for line in row.chunks(LINE_WORDS) {
        prefetch(line.as_ptr());
    }
}

/// Returns the wrapping sum of the words, taken in pairs as little-endian 64-bit numbers.
pub fn sum_u64(words: &[u32]) -> u64 {
    let pairs = words.as_chunks::<2>().0.iter();
    pairs.fold(0, |sum, [low, high]| {
        sum.wrapping_add(u64::from(*low) | u64::from(*high) << 32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_spread_evenly_over_the_table() {
        const ROWS: usize = 1000;
        let mut counts = [0_u32; ROWS];
        for n in 0..100 * ROWS as u64 {
            counts[row_of(n, ROWS)] += 1;
        }
        // 100 are expected, with a standard deviation of ten.
        assert!(counts.iter().all(|count| (40..180).contains(count)), "{counts:?}");
        assert_eq!(row_of(u64::MAX, 1), 0);
    }
}
