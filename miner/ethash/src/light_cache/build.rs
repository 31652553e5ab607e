//! Builds a light cache: it is filled with a chain of hashes, then mixed by RandMemoHash.
//!
//! Each row of a cache depends on the one before. So the caches of several epochs are built side by
//! side, each in a part of the vector registers: four take about twice as long as one.

use core::ops::ControlFlow;
use std::time::Instant;

use super::cache::LightCache;
use crate::arith::{Modulus, prefetch};
use crate::cache_row::CacheRow;
use crate::huge_pages::HugeTable;
use crate::keccak::{BATCH_STATES, Lane, NewLane, keccak512_32, keccak512_64};
use crate::simd::{SimdKernel, SimdOps, dispatch};
use crate::sizes::{SizeError, cache_bytes, dataset_bytes};
use crate::{B256, CACHE_ROUNDS, Epoch, ITEM_BYTES, ROW_BYTES};

/// Rows that are computed between two calls of the progress function.
const ROWS_PER_REPORT: usize = 1 << 14;
/// The number of rows before its use at which the partner of a row is prefetched.
const PREFETCH_ROWS: usize = 4;

/// The reasons why a light cache cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// The epoch is out of range.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The given sizes are not possible.
    #[error(
        "light cache: got sizes of {cache_bytes} bytes for the cache and {dataset_bytes} for the dataset, \
         expected multiples of 64 and of 128, above zero"
    )]
    BadSizes {
        /// The given size of the cache.
        cache_bytes: u64,
        /// The given size of the dataset.
        dataset_bytes: u64,
    },
    /// There is not enough memory.
    #[error("no memory for a light cache of {bytes} bytes")]
    OutOfMemory {
        /// Size of the cache.
        bytes: u64,
    },
    /// The caller no longer needs the cache.
    #[error("building the light cache was cancelled")]
    Cancelled,
}

impl LightCache {
    /// Builds the light cache of `epoch`.
    ///
    /// # Errors
    /// [`CacheError::Size`] if the epoch is above [`MAX_EPOCH`](crate::MAX_EPOCH),
    /// [`CacheError::OutOfMemory`] if there is not enough memory.
    pub fn build(epoch: Epoch) -> Result<Self, CacheError> {
        Self::build_with(epoch, &mut |_, _| ControlFlow::Continue(()))
    }

    /// Builds the light cache of `epoch` and reports progress.
    ///
    /// Calls `progress` every 16,384 row computations, with the number that are done
    /// and their total. If `progress` returns a break, the work ends.
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`CacheError::Cancelled`] if `progress` returned a break.
    pub fn build_with(
        epoch: Epoch,
        progress: &mut dyn FnMut(u32, u32) -> ControlFlow<()>,
    ) -> Result<Self, CacheError> {
        Self::build_one(CacheSizes::of(epoch)?, progress)
    }

    /// Builds the light caches of `epochs` side by side, in their order. With vector registers four
    /// take about twice as long as one.
    ///
    /// # Errors
    /// As [`build`](Self::build), if it holds for one of them.
    pub fn build_many(epochs: &[Epoch]) -> Result<Vec<Self>, CacheError> {
        let sizes = epochs.iter().map(|epoch| CacheSizes::of(*epoch));
        Self::build_group(&sizes.collect::<Result<Vec<_>, _>>()?, &mut |_, _| {
            ControlFlow::Continue(())
        })
    }

    /// Builds a light cache of any size.
    ///
    /// For the small datasets that clients use in tests: 1024 bytes of cache for 32768 bytes of
    /// dataset.
    ///
    /// # Errors
    /// [`CacheError::BadSizes`] if a size is zero, not a multiple of the size of a row (64) or an
    /// item (128), or more than 2^31 of them.
    pub fn with_sizes(seed_hash: B256, cache_bytes: u64, dataset_bytes: u64) -> Result<Self, CacheError> {
        let sizes = CacheSizes {
            seed_hash,
            cache_bytes,
            dataset_bytes,
        };
        Self::build_one(sizes, &mut |_, _| ControlFlow::Continue(()))
    }

    /// Builds a light cache of any size and reports progress, as [`build_with`](Self::build_with).
    pub(crate) fn build_one(
        sizes: CacheSizes,
        progress: &mut dyn FnMut(u32, u32) -> ControlFlow<()>,
    ) -> Result<Self, CacheError> {
        let mut built = Self::build_group(&[sizes], progress)?;
        Ok(built.remove(0))
    }

    /// Builds light caches side by side, in the order of `sizes`. Reports progress as
    /// [`build_with`](Self::build_with) does, every 16,384 rows of each.
    pub(crate) fn build_group(
        sizes: &[CacheSizes],
        progress: &mut dyn FnMut(u32, u32) -> ControlFlow<()>,
    ) -> Result<Vec<Self>, CacheError> {
        let start = Instant::now();
        let mut tables = sizes.iter().map(Table::new).collect::<Result<Vec<_>, _>>()?;
        let total = tables.iter().map(Table::total).fold(0, u32::saturating_add);
        loop {
            let left = tables.iter().map(Table::left).fold(0, u32::saturating_add);
            if progress(total.saturating_sub(left), total).is_break() {
                return Err(CacheError::Cancelled);
            }
            let mut open: Vec<_> = tables.iter_mut().filter(|table| table.left() > 0).collect();
            // No table is complete before the last of these rows.
            let Some(least) = open.iter().map(|table| table.left() as usize).min() else {
                break;
            };
            dispatch(HashRows {
                tables: &mut open,
                rows: least.min(ROWS_PER_REPORT),
            });
        }
        let build_time = start.elapsed();
        let caches = sizes.iter().zip(tables).map(|(sizes, table)| Self {
            rows: table.rows,
            row_count: table.row_count,
            item_count: table.item_count,
            seed_hash: sizes.seed_hash,
            build_time,
        });
        let caches: Vec<_> = caches.collect();
        if let Some(first) = caches.first() {
            first.choose_instruction_set();
        }
        Ok(caches)
    }
}

/// The cache to build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheSizes {
    pub(crate) seed_hash: B256,
    pub(crate) cache_bytes: u64,
    pub(crate) dataset_bytes: u64,
}

impl CacheSizes {
    /// The cache of an epoch.
    pub(crate) fn of(epoch: Epoch) -> Result<Self, SizeError> {
        Ok(Self {
            seed_hash: epoch.seed_hash(),
            cache_bytes: cache_bytes(epoch.index)?,
            dataset_bytes: dataset_bytes(epoch.index)?,
        })
    }
}

/// Returns the number of units of `unit_bytes` in `bytes`. `None` if a part is left over, or if
/// there are none or more than 2^31.
fn count_units(bytes: u64, unit_bytes: u64) -> Option<u32> {
    let count = u32::try_from(bytes / unit_bytes).ok()?;
    (bytes.is_multiple_of(unit_bytes) && (1..=1 << 31).contains(&count)).then_some(count)
}

/// A cache that is being built.
struct Table {
    rows: HugeTable<CacheRow>,
    row_count: Modulus,
    item_count: Modulus,
    /// The row that is computed next.
    at: usize,
    /// Passes over all rows that are left, this one included: filling, then RandMemoHash.
    passes: u32,
}

impl Table {
    /// A table with its first row.
    fn new(sizes: &CacheSizes) -> Result<Self, CacheError> {
        let CacheSizes {
            seed_hash,
            cache_bytes,
            dataset_bytes,
        } = *sizes;
        let bad_sizes = || CacheError::BadSizes {
            cache_bytes,
            dataset_bytes,
        };
        let row_count = count_units(cache_bytes, ROW_BYTES as u64).ok_or_else(bad_sizes)?;
        let item_count = count_units(dataset_bytes, ITEM_BYTES as u64).ok_or_else(bad_sizes)?;
        let mut rows = HugeTable::<CacheRow>::zeroed(row_count as usize)
            .ok_or(CacheError::OutOfMemory { bytes: cache_bytes })?;
        rows[0] = CacheRow::from_lanes(&keccak512_32(&seed_hash.0));
        let mut table = Self {
            rows,
            row_count: Modulus::new(row_count),
            item_count: Modulus::new(item_count),
            at: 0,
            passes: 1 + CACHE_ROUNDS,
        };
        table.advance();
        Ok(table)
    }

    /// Rows that are computed over all passes.
    const fn total(&self) -> u32 {
        self.row_count.divisor().saturating_mul(1 + CACHE_ROUNDS)
    }

    /// Rows that are still to be computed over all passes.
    const fn left(&self) -> u32 {
        let rows = self.row_count.divisor().saturating_mul(self.passes);
        rows.saturating_sub(self.at as u32)
    }

    /// The lanes whose Keccak-512 is the next row.
    #[inline(always)]
    fn input(&self) -> [u64; 8] {
        let rows = &*self.rows;
        let last = rows.len() - 1;
        let mut lanes = rows[if self.at == 0 { last } else { self.at - 1 }].lanes();
        if self.passes > CACHE_ROUNDS {
            return lanes;
        }
        // The old value of a row selects its partner, so the partner of a later row is known now.
        let ahead = &rows[(self.at + PREFETCH_ROWS).min(last)];
        prefetch(&raw const rows[self.row_count.reduce(ahead.0[0]) as usize]);
        let partner = &rows[self.row_count.reduce(rows[self.at].0[0]) as usize];
        for (lane, other) in lanes.iter_mut().zip(partner.lanes()) {
            *lane ^= other;
        }
        lanes
    }

    /// Stores the next row.
    #[inline(always)]
    fn store(&mut self, lanes: &[u64; 8]) {
        self.rows[self.at] = CacheRow::from_lanes(lanes);
        self.advance();
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.at += 1;
        if self.at == self.rows.len() {
            self.at = 0;
            self.passes -= 1;
        }
    }
}

/// Computes the next `rows` rows of each table, which must have so many left.
struct HashRows<'a, 'b> {
    tables: &'a mut [&'b mut Table],
    rows: usize,
}

impl SimdKernel for HashRows<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SimdOps>(self, simd: S) {
        let Self { tables, rows } = self;
        if let [table] = tables {
            for _ in 0..rows {
                let mut wide = [S::LatencyLane::splat(simd, 0); 8];
                for (wide, lane) in wide.iter_mut().zip(table.input()) {
                    *wide = S::LatencyLane::splat(simd, lane);
                }
                let mut lanes = [0; 8];
                for (lane, wide) in lanes.iter_mut().zip(&keccak512_64(&wide)) {
                    *lane = wide.first();
                }
                table.store(&lanes);
            }
            return;
        }
        for group in tables.chunks_mut(S::ThroughputLane::WIDTH) {
            for _ in 0..rows {
                hash_group(simd, group);
            }
        }
    }
}

/// Computes the next row of each table, at most as many as a throughput lane has states.
#[inline(always)]
fn hash_group<S: SimdOps>(simd: S, tables: &mut [&mut Table]) {
    let mut states = [[0; BATCH_STATES]; 8];
    for (j, table) in tables.iter().enumerate() {
        for (lanes, lane) in states.iter_mut().zip(table.input()) {
            lanes[j] = lane;
        }
    }
    let mut wide = [S::ThroughputLane::splat(simd, 0); 8];
    for (wide, lanes) in wide.iter_mut().zip(&states) {
        *wide = S::ThroughputLane::load(simd, lanes, 0);
    }
    for (wide, lanes) in keccak512_64(&wide).into_iter().zip(&mut states) {
        wide.store(lanes, 0);
    }
    for (j, table) in tables.iter_mut().enumerate() {
        let mut row = [0; 8];
        for (lane, lanes) in row.iter_mut().zip(&states) {
            *lane = lanes[j];
        }
        table.store(&row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::light_cache::reference::keccak512_words;
    use crate::simd::on_each_instruction_set;

    #[test]
    fn progress_counts_up_and_can_cancel() {
        let mut seen = Vec::new();
        let sizes = CacheSizes {
            seed_hash: B256::ZERO,
            cache_bytes: 64 * 40_000,
            dataset_bytes: 128,
        };
        let cache = LightCache::build_one(sizes, &mut |done, total| {
            seen.push((done, total));
            ControlFlow::Continue(())
        });
        assert!(cache.is_ok());
        assert!(seen.is_sorted() && seen.len() > 8, "{seen:?}");
        assert_eq!(seen.last(), Some(&(160_000, 160_000)));

        let mut calls = 0;
        let cancelled = LightCache::build_with(Epoch::ethash(0), &mut |_, _| {
            calls += 1;
            if calls == 3 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        assert_eq!(cancelled.err(), Some(CacheError::Cancelled));
        assert_eq!(calls, 3);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (cache, dataset) in [
            (0, 128),
            (64, 0),
            (65, 128),
            (64, 127),
            (64 << 32, 128),
            (64, 128 << 32),
        ] {
            let error = LightCache::with_sizes(B256::ZERO, cache, dataset).err();
            assert_eq!(
                error,
                Some(CacheError::BadSizes {
                    cache_bytes: cache,
                    dataset_bytes: dataset
                })
            );
        }
        assert!(matches!(
            LightCache::build(Epoch::ethash(32_640)),
            Err(CacheError::Size(_))
        ));
    }

    /// The rows of a cache, computed one after the other.
    fn reference_rows(sizes: &CacheSizes) -> Vec<[u32; 16]> {
        let mut rows = vec![CacheRow::from_lanes(&keccak512_32(&sizes.seed_hash.0)).0];
        let count = (sizes.cache_bytes / 64) as usize;
        for i in 1..count {
            rows.push(keccak512_words(&rows[i - 1]));
        }
        for i in (0..count).cycle().take(count * CACHE_ROUNDS as usize) {
            let partner = rows[rows[i][0] as usize % count];
            let before = rows[(i + count - 1) % count];
            rows[i] = keccak512_words(&core::array::from_fn(|word| before[word] ^ partner[word]));
        }
        rows
    }

    #[test]
    fn caches_alone_and_side_by_side_are_the_same_on_every_instruction_set() {
        let sizes = |seed: u8, rows: u64| CacheSizes {
            seed_hash: B256::repeat_byte(seed),
            cache_bytes: 64 * rows,
            dataset_bytes: 128 * (97 + rows),
        };
        // One, several of different lengths, and more than a register has states.
        let all: Vec<_> = (0..11)
            .map(|seed| sizes(seed, 1 + 37 * u64::from(seed) % 60))
            .collect();
        let expected: Vec<_> = all.iter().map(reference_rows).collect();
        on_each_instruction_set(|set| {
            for group in [&all[3..4], &all[1..3], &all[2..6], &all[..]] {
                let built = LightCache::build_group(group, &mut |_, _| ControlFlow::Continue(()));
                let built = built.expect("small sizes");
                assert_eq!(built.len(), group.len());
                for (cache, sizes) in built.iter().zip(group) {
                    let rows = &expected[usize::from(sizes.seed_hash[0])];
                    assert_eq!(
                        cache.as_words(),
                        rows.as_flattened(),
                        "{set}, {} at once",
                        group.len()
                    );
                    assert_eq!(
                        (cache.seed_hash(), cache.dataset_bytes()),
                        (sizes.seed_hash, sizes.dataset_bytes)
                    );
                }
            }
        });
    }
}
