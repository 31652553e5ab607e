//! What the memory of the CPU gives at best: random rows of a table, and a plain copy, with all
//! threads.
//!
//! The twin of what [`GpuSearcher::measure_ceilings`](crate::gpu::GpuSearcher::measure_ceilings)
//! measures on a card: rows are read one after another at places known long before, each asked for
//! by prefetch while others are on their way. Knows no hashing.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use super::rate;

/// How often all rows on their way are read between two looks at the clock.
const ROUNDS_PER_LOOK: usize = 64;
/// Bytes of each of the two buffers that are copied; no cache of a processor holds them.
const COPY_BYTES: usize = 256 << 20;
/// Bytes that come from memory at once.
const LINE_WORDS: usize = 16;

/// Bytes per second that `threads` threads read of random rows of `ROW_WORDS` words. Measures for
/// `time` in all. `None` where the table has no row.
///
/// How many rows should be on their way depends on the processor; the best of four numbers counts.
pub(super) fn random_read_rate<const ROW_WORDS: usize>(
    table: &[u32],
    threads: usize,
    time: Duration,
) -> Option<f64> {
    let rows = table.as_chunks::<ROW_WORDS>().0;
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
    Some(best * (ROW_WORDS * 4) as f64)
}

/// Reads the rows with the numbers from `first` on until `end`, of which the next `AHEAD` are on
/// their way, and says how many.
fn read<const ROW_WORDS: usize, const AHEAD: usize>(
    rows: &[[u32; ROW_WORDS]],
    first: u64,
    end: Instant,
) -> u64 {
    let number = |n: u64| row_of(first.wrapping_add(n), rows.len());
    let mut coming: [usize; AHEAD] = core::array::from_fn(|n| number(n as u64));
    for &row in &coming {
        fetch(&rows[row]);
    }
    let (mut sum, mut done) = ([0; ROW_WORDS], 0);
    while Instant::now() < end {
        for _ in 0..ROUNDS_PER_LOOK {
            for place in &mut coming {
                let row = &rows[*place];
                *place = number(done + AHEAD as u64);
                fetch(&rows[*place]);
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

/// The row of read number `n` of `rows`: the number with its bits well mixed, scaled.
fn row_of(n: u64, rows: usize) -> usize {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 32;
    ((u128::from(x) * rows as u128) >> 64) as usize
}

/// Asks the processor for a whole row.
#[inline(always)]
fn fetch<const ROW_WORDS: usize>(row: &[u32; ROW_WORDS]) {
    for line in row.chunks(LINE_WORDS) {
        ethash::prefetch(line.as_ptr());
    }
}

/// Bytes read and bytes written, together, per second, by `threads` threads that copy from one
/// buffer to another for `time`. `None` where there is no memory for them.
pub(super) fn copy_rate(threads: usize, time: Duration) -> Option<f64> {
    let mut from = MmapMut::map_anon(COPY_BYTES).ok()?;
    let mut to = MmapMut::map_anon(COPY_BYTES).ok()?;
    ethash::advise_huge_pages(&mut from[..]);
    ethash::advise_huge_pages(&mut to[..]);
    let part = COPY_BYTES.div_ceil(threads.max(1));
    let start_line = Barrier::new(COPY_BYTES.div_ceil(part));
    let copy = |from: &mut [u8], to: &mut [u8]| {
        // Memory is there only once it has been written.
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
        // A thread that panicked has copied nothing.
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(0.0))
            .sum()
    });
    Some(2.0 * per_second)
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
        // A hundred expected, with a standard deviation of ten.
        assert!(counts.iter().all(|count| (40..180).contains(count)), "{counts:?}");
        assert_eq!(row_of(u64::MAX, 1), 0);
    }

    #[test]
    fn rates_are_measured_or_absent() {
        let time = Duration::from_millis(6);
        let table: Vec<u32> = (0..4096).collect();
        assert!(random_read_rate::<32>(&table, 2, time).is_some_and(|rate| rate > 0.0));
        assert_eq!(random_read_rate::<32>(&table[..31], 1, time), None);
        assert!(copy_rate(3, time).is_some_and(|rate| rate > 0.0));
    }
}
