//! Measures rates of several threads: of any work, and what the memory of the CPU can deliver at
//! best: random rows of a table, and a plain copy.
//!
//! [`GpuSearcher::measure_ceilings`](crate::gpu::GpuSearcher::measure_ceilings) measures the memory
//! of a graphics adapter. The numbers of the rows are known in advance, and each row is requested
//! by prefetch while other rows are being loaded. Knows no hashing.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use ethash::{ITEM_WORDS, ROW_WORDS};
use memmap2::MmapMut;

use crate::threads::run_parallel;

/// The number of times that all rows in flight are read between two looks at the clock.
const ROUNDS_PER_LOOK: usize = 64;
/// Bytes of each of the two buffers of the copy. They are larger than the caches of any processor.
const COPY_BYTES: usize = 256 << 20;
/// Words of a cache line.
const LINE_WORDS: usize = 16;

/// Returns the hashes per second of `threads` threads. `search` gets the first nonce of a thread
/// and the end of the measurement, and returns how many nonces it has hashed.
pub fn rate(threads: usize, time: Duration, search: impl Fn(u64, Instant) -> u64 + Sync) -> f64 {
    let start = Instant::now();
    let counts = run_parallel("bench", threads, |thread| {
        search((thread as u64) << 48, start + time)
    });
    let hashes: u64 = counts.into_iter().sum();
    hashes as f64 / start.elapsed().as_secs_f64()
}

/// Returns the bytes per second that `threads` threads read from random items of a dataset. All
/// measurements together take `time`. Returns `None` if there is no item.
pub fn item_read_rate(dataset: &[u32], threads: usize, time: Duration) -> Option<f64> {
    random_read_rate::<ITEM_WORDS>(dataset, threads, time)
}

/// Returns the bytes per second that `threads` threads read from random rows of a light cache. All
/// measurements together take `time`. Returns `None` if there is no row.
pub fn row_read_rate(cache: &[u32], threads: usize, time: Duration) -> Option<f64> {
    random_read_rate::<ROW_WORDS>(cache, threads, time)
}

/// Reads random rows of `WORDS` words.
///
/// The best number of rows in flight depends on the processor. Four numbers are tried, and the best
/// one counts.
fn random_read_rate<const WORDS: usize>(table: &[u32], threads: usize, time: Duration) -> Option<f64> {
    let rows = table.as_chunks::<WORDS>().0;
    if rows.is_empty() {
        return None;
    }
    let each = time / 4;
    let rates = [
        rate(threads, each, |first, end| read::<_, 16>(rows, first, end)),
        rate(threads, each, |first, end| read::<_, 48>(rows, first, end)),
        rate(threads, each, |first, end| read::<_, 96>(rows, first, end)),
        rate(threads, each, |first, end| read::<_, 144>(rows, first, end)),
    ];
    let best = rates.into_iter().fold(0.0, f64::max);
    Some(best * (WORDS * 4) as f64)
}

/// Reads random rows until `end`, with `AHEAD` rows in flight, and returns how many it has read.
/// `first` is the number of the first read.
fn read<const WORDS: usize, const AHEAD: usize>(rows: &[[u32; WORDS]], first: u64, end: Instant) -> u64 {
    let number = |n: u64| row_of(first.wrapping_add(n), rows.len());
    let mut in_flight: [usize; AHEAD] = core::array::from_fn(|n| number(n as u64));
    for &row in &in_flight {
        fetch(&rows[row]);
    }
    let (mut sum, mut done) = ([0; WORDS], 0);
    while Instant::now() < end {
        for _ in 0..ROUNDS_PER_LOOK {
            for next in &mut in_flight {
                let row = &rows[*next];
                *next = number(done + AHEAD as u64);
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
        ethash::prefetch(line.as_ptr());
    }
}

/// Returns the bytes read plus the bytes written per second, by `threads` threads that copy from
/// one buffer to another for `time`. Returns `None` if there is no memory for the buffers.
pub fn copy_rate(threads: usize, time: Duration) -> Option<f64> {
    let mut from = MmapMut::map_anon(COPY_BYTES).ok()?;
    let mut to = MmapMut::map_anon(COPY_BYTES).ok()?;
    ethash::advise_huge_pages(&mut from[..]);
    ethash::advise_huge_pages(&mut to[..]);
    let part = COPY_BYTES.div_ceil(threads.max(1));
    let start_line = Barrier::new(COPY_BYTES.div_ceil(part));
    let copy = |from: &mut [u8], to: &mut [u8]| {
        // The system provides memory pages only when they are written.
        from.fill(1);
        to.fill(2);
        start_line.wait();
        let (start, mut copied) = (Instant::now(), 0);
        while copied == 0 || start.elapsed() < time {
            to.copy_from_slice(from);
            black_box(&mut *to);
            copied += to.len();
        }
        copied as f64 / start.elapsed().as_secs_f64().max(1e-9)
    };
    let per_second: f64 = std::thread::scope(|scope| {
        let threads: Vec<_> = from
            .chunks_mut(part)
            .zip(to.chunks_mut(part))
            .map(|(from, to)| scope.spawn(move || copy(from, to)))
            .collect();
        // A thread that has panicked counts as 0.
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(0.0))
            .sum()
    });
    Some(2.0 * per_second)
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

    #[test]
    fn a_rate_is_measured_or_absent() {
        let time = Duration::from_millis(6);
        let table: Vec<u32> = (0..4096).collect();
        assert!(item_read_rate(&table, 2, time).is_some_and(|rate| rate > 0.0));
        assert_eq!(item_read_rate(&table[..31], 1, time), None);
        assert!(copy_rate(3, time).is_some_and(|rate| rate > 0.0));
    }
}
