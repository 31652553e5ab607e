//! Measures rates of several threads: of any work, and what the memory of the CPU can deliver at
//! best: random rows of a table, and a plain copy.
//!
//! [`GpuSearcher::measure_ceilings`](crate::gpu::GpuSearcher::measure_ceilings) measures the memory
//! of a graphics adapter. The numbers of the rows are known in advance, and each row is requested
//! by prefetch while other rows are being loaded. Knows no hashing.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use crate::threads::run_parallel;

/// Bytes of each of the two buffers of the copy. They are larger than the caches of any processor.
const COPY_BYTES: usize = 256 << 20;

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
    random_read_rate(dataset, ethash::read_items, threads, time)
}

/// Returns the bytes per second that `threads` threads read from random rows of a light cache. All
/// measurements together take `time`. Returns `None` if there is no row.
pub fn row_read_rate(cache: &[u32], threads: usize, time: Duration) -> Option<f64> {
    random_read_rate(cache, ethash::read_cache_rows, threads, time)
}

/// Returns the bytes per second of `read`, a function like [`ethash::read_items`], with the best of
/// four numbers of rows in flight: which one it is depends on the processor.
fn random_read_rate<const WORDS: usize>(
    table: &[u32],
    read: fn(&[[u32; WORDS]], usize, u64, Instant) -> u64,
    threads: usize,
    time: Duration,
) -> Option<f64> {
    let rows = table.as_chunks::<WORDS>().0;
    if rows.is_empty() {
        return None;
    }
    let rates =
        [16, 48, 96, 144].map(|ahead| rate(threads, time / 4, |first, end| read(rows, ahead, first, end)));
    let best = rates.into_iter().fold(0.0, f64::max);
    Some(best * (WORDS * 4) as f64)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_measured_or_absent() {
        let time = Duration::from_millis(6);
        let table: Vec<u32> = (0..4096).collect();
        assert!(item_read_rate(&table, 2, time).is_some_and(|rate| rate > 0.0));
        assert_eq!(item_read_rate(&table[..31], 1, time), None);
        assert!(copy_rate(3, time).is_some_and(|rate| rate > 0.0));
    }
}
