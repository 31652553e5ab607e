//! Builds a light cache: it is filled with a chain of hashes, then mixed by RandMemoHash.

use core::ops::ControlFlow;
use std::time::Instant;

use super::cache::LightCache;
use crate::arith::{Modulus, prefetch};
use crate::cache_row::CacheRow;
use crate::huge_pages::HugeTable;
use crate::keccak::{Lane, NewLane, keccak512_32, keccak512_64};
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
        Self::build_sized(
            epoch.seed_hash(),
            cache_bytes(epoch.index)?,
            dataset_bytes(epoch.index)?,
            progress,
        )
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
        Self::build_sized(seed_hash, cache_bytes, dataset_bytes, &mut |_, _| {
            ControlFlow::Continue(())
        })
    }

    /// Builds a light cache of any size and reports progress, as [`build_with`](Self::build_with).
    pub(crate) fn build_sized(
        seed_hash: B256,
        cache_bytes: u64,
        dataset_bytes: u64,
        progress: &mut dyn FnMut(u32, u32) -> ControlFlow<()>,
    ) -> Result<Self, CacheError> {
        let start = Instant::now();
        let bad_sizes = || CacheError::BadSizes {
            cache_bytes,
            dataset_bytes,
        };
        let row_count = count_units(cache_bytes, ROW_BYTES as u64).ok_or_else(bad_sizes)?;
        let item_count = count_units(dataset_bytes, ITEM_BYTES as u64).ok_or_else(bad_sizes)?;
        let mut rows = HugeTable::<CacheRow>::zeroed(row_count as usize)
            .ok_or(CacheError::OutOfMemory { bytes: cache_bytes })?;

        let total = row_count.saturating_mul(1 + CACHE_ROUNDS);
        let mut done = 0;
        let mut report = |rows: usize| {
            done += rows as u32;
            match progress(done, total) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(CacheError::Cancelled),
            }
        };
        rows[0] = CacheRow::from_lanes(&keccak512_32(&seed_hash.0));
        report(1)?;
        for from in (1..rows.len()).step_by(ROWS_PER_REPORT) {
            let to = rows.len().min(from + ROWS_PER_REPORT);
            dispatch(FillRows {
                rows: &mut rows,
                from,
                to,
            });
            report(to - from)?;
        }
        let row_count = Modulus::new(row_count);
        for _ in 0..CACHE_ROUNDS {
            for from in (0..rows.len()).step_by(ROWS_PER_REPORT) {
                let to = rows.len().min(from + ROWS_PER_REPORT);
                dispatch(RandMemoHash {
                    rows: &mut rows,
                    row_count,
                    from,
                    to,
                });
                report(to - from)?;
            }
        }
        let cache = Self {
            rows,
            row_count,
            item_count: Modulus::new(item_count),
            seed_hash,
            build_time: start.elapsed(),
        };
        cache.choose_instruction_set();
        Ok(cache)
    }
}

/// Returns the number of units of `unit_bytes` in `bytes`. `None` if a part is left over, or if
/// there are none or more than 2^31.
fn count_units(bytes: u64, unit_bytes: u64) -> Option<u32> {
    let count = u32::try_from(bytes / unit_bytes).ok()?;
    (bytes.is_multiple_of(unit_bytes) && (1..=1 << 31).contains(&count)).then_some(count)
}

/// Fills the rows `from..to` with the Keccak-512 of the row before. `from` must not be 0.
struct FillRows<'a> {
    rows: &'a mut [CacheRow],
    from: usize,
    to: usize,
}

impl SimdKernel for FillRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SimdOps>(self, simd: S) {
        let mut lanes = splat::<S, S::LatencyLane>(simd, &self.rows[self.from - 1].lanes());
        for row in &mut self.rows[self.from..self.to] {
            lanes = keccak512_64(&lanes);
            *row = CacheRow::from_lanes(&first(&lanes));
        }
    }
}

/// One pass of RandMemoHash over the rows `from..to`, in place.
struct RandMemoHash<'a> {
    rows: &'a mut [CacheRow],
    row_count: Modulus,
    from: usize,
    to: usize,
}

impl SimdKernel for RandMemoHash<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SimdOps>(self, simd: S) {
        let Self {
            rows,
            row_count,
            from,
            to,
        } = self;
        let last = rows.len() - 1;
        let mut lanes =
            splat::<S, S::LatencyLane>(simd, &rows[if from == 0 { last } else { from - 1 }].lanes());
        for i in from..to {
            // The old value of a row selects its partner, so the partner of a later row is known
            // now.
            let ahead = &rows[(i + PREFETCH_ROWS).min(last)];
            prefetch(&raw const rows[row_count.reduce(ahead.0[0]) as usize]);
            let partner = &rows[row_count.reduce(rows[i].0[0]) as usize];
            for (lane, other) in lanes
                .iter_mut()
                .zip(splat::<S, S::LatencyLane>(simd, &partner.lanes()))
            {
                *lane = lane.xor(other);
            }
            lanes = keccak512_64(&lanes);
            rows[i] = CacheRow::from_lanes(&first(&lanes));
        }
    }
}

/// The same row in all states of `L`.
#[inline(always)]
fn splat<S: Copy, L: NewLane<S>>(simd: S, lanes: &[u64; 8]) -> [L; 8] {
    let mut wide = [L::splat(simd, 0); 8];
    for (wide, lane) in wide.iter_mut().zip(lanes) {
        *wide = L::splat(simd, *lane);
    }
    wide
}

/// The row in the first state.
#[inline(always)]
fn first<L: Lane>(wide: &[L; 8]) -> [u64; 8] {
    let mut lanes = [0; 8];
    for (lane, wide) in lanes.iter_mut().zip(wide) {
        *lane = wide.first();
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::light_cache::reference::keccak512_words;
    use crate::simd::on_each_instruction_set;

    #[test]
    fn progress_counts_up_and_can_cancel() {
        let mut seen = Vec::new();
        let cache = LightCache::build_sized(B256::ZERO, 64 * 40_000, 128, &mut |done, total| {
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

    #[test]
    fn the_light_cache_is_the_same_on_every_instruction_set() {
        let seed = B256::repeat_byte(3);
        let mut rows = vec![CacheRow::from_lanes(&keccak512_32(&seed.0)).0];
        for i in 0..30 {
            rows.push(keccak512_words(&rows[i]));
        }
        for i in (0..31).cycle().take(31 * CACHE_ROUNDS as usize) {
            let (before, partner) = (rows[(i + 30) % 31], rows[rows[i][0] as usize % 31]);
            rows[i] = keccak512_words(&core::array::from_fn(|word| before[word] ^ partner[word]));
        }
        on_each_instruction_set(|set| {
            let cache = LightCache::with_sizes(seed, 64 * 31, 128 * 97).expect("small sizes");
            assert_eq!(cache.as_words(), rows.as_flattened(), "{set}");
        });
    }
}
