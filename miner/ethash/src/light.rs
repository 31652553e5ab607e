//! The light cache of an epoch, and dataset items computed from it.
//!
//! Building is serial by nature: every row depends on the one before it. Items are independent of
//! each other, so several are computed side by side to hide the latency of the rows they read.
//! Files, threads and which epoch is wanted are other modules' business.

use core::ops::ControlFlow;
use std::time::Duration;

use crate::arith::Modulus;
use crate::hashimoto::PowHash;
use crate::isa::dispatch;
use crate::keccak::keccak512_32;
use crate::kernels::{Chain, Items, LightHash, MOST_ITEMS, Row, Shuffle};
use crate::memory::HugeTable;
use crate::sizes::{SizeError, cache_bytes, dataset_bytes};
use crate::{B256, CACHE_ROUNDS, Epoch, ITEM_BYTES, ITEM_WORDS, ROW_BYTES};

/// How many rows are built between two looks at whether to go on.
const ROWS_PER_REPORT: usize = 1 << 14;

/// Why there is no light cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// The epoch is out of range.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The sizes given by hand cannot work.
    #[error(
        "cache of {cache_bytes} bytes and dataset of {dataset_bytes}: expected whole rows of 64 and items of 128"
    )]
    BadSizes {
        /// Cache size asked for.
        cache_bytes: u64,
        /// Dataset size asked for.
        dataset_bytes: u64,
    },
    /// The system gave no memory.
    #[error("no memory for a light cache of {bytes} bytes")]
    OutOfMemory {
        /// How much was needed.
        bytes: u64,
    },
    /// Whoever asked no longer wants it.
    #[error("building the light cache was cancelled")]
    Cancelled,
}

/// The light cache of an epoch.
pub struct LightCache {
    rows: HugeTable<Row>,
    pub(crate) row_count: Modulus,
    pub(crate) items: Modulus,
    seed_hash: B256,
    build_time: Duration,
}

impl core::fmt::Debug for LightCache {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LightCache")
            .field("seed_hash", &self.seed_hash)
            .field("rows", &self.rows())
            .field("dataset_items", &self.dataset_items())
            .finish_non_exhaustive()
    }
}

impl LightCache {
    /// Builds the light cache of `epoch`.
    ///
    /// # Errors
    /// When the epoch is above [`MAX_EPOCH`](crate::MAX_EPOCH) or there is no memory for it.
    pub fn build(epoch: Epoch) -> Result<Self, CacheError> {
        Self::build_with(epoch, &mut |_, _| ControlFlow::Continue(()))
    }

    /// Builds the light cache of `epoch` and tells `progress` now and then how many row
    /// computations of how many are done; a break from it ends the work.
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`CacheError::Cancelled`] when `progress` breaks.
    pub fn build_with(
        epoch: Epoch,
        progress: &mut dyn FnMut(u32, u32) -> ControlFlow<()>,
    ) -> Result<Self, CacheError> {
        Self::make(
            epoch.seed_hash(),
            cache_bytes(epoch.index)?,
            dataset_bytes(epoch.index)?,
            progress,
        )
    }

    /// Builds a light cache of any size, for the small datasets clients use in tests: 1024 bytes of
    /// cache for a dataset of 32768.
    ///
    /// # Errors
    /// When a size is zero, no whole number of rows or items, or has more than 2^31 of them.
    pub fn with_sizes(seed_hash: B256, cache_bytes: u64, dataset_bytes: u64) -> Result<Self, CacheError> {
        Self::make(seed_hash, cache_bytes, dataset_bytes, &mut |_, _| {
            ControlFlow::Continue(())
        })
    }

    /// All of the above.
    pub(crate) fn make(
        seed_hash: B256,
        cache_bytes: u64,
        dataset_bytes: u64,
        progress: &mut dyn FnMut(u32, u32) -> ControlFlow<()>,
    ) -> Result<Self, CacheError> {
        let start = std::time::Instant::now();
        let bad_sizes = || CacheError::BadSizes {
            cache_bytes,
            dataset_bytes,
        };
        let row_count = pieces(cache_bytes, ROW_BYTES as u64).ok_or_else(bad_sizes)?;
        let items = pieces(dataset_bytes, ITEM_BYTES as u64).ok_or_else(bad_sizes)?;
        let mut rows = HugeTable::<Row>::zeroed(row_count as usize)
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
        rows[0] = Row::from_lanes(&keccak512_32(&seed_hash.0));
        report(1)?;
        for from in (1..rows.len()).step_by(ROWS_PER_REPORT) {
            let to = rows.len().min(from + ROWS_PER_REPORT);
            dispatch(Chain {
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
                dispatch(Shuffle {
                    rows: &mut rows,
                    row_count,
                    from,
                    to,
                });
                report(to - from)?;
            }
        }
        Ok(Self {
            rows,
            row_count,
            items: Modulus::new(items),
            seed_hash,
            build_time: start.elapsed(),
        })
    }

    /// 64-byte rows in this cache.
    pub fn rows(&self) -> u32 {
        self.row_count.divisor()
    }

    /// 128-byte items in the dataset this cache stands for.
    pub fn dataset_items(&self) -> u32 {
        self.items.divisor()
    }

    /// Bytes of the dataset this cache stands for.
    pub fn dataset_bytes(&self) -> u64 {
        u64::from(self.dataset_items()) * ITEM_BYTES as u64
    }

    /// The seed this cache was built from.
    pub fn seed_hash(&self) -> B256 {
        self.seed_hash
    }

    /// How long building it took.
    pub fn build_time(&self) -> Duration {
        self.build_time
    }

    pub(crate) fn as_rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows one after another, sixteen words each.
    pub fn as_words(&self) -> &[u32] {
        bytemuck::cast_slice(self.as_rows())
    }

    /// The rows one after another, as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self.as_rows())
    }

    /// Computes dataset item `index` as 32 words.
    ///
    /// An index beyond the dataset gives the item a larger dataset would have there.
    pub fn dataset_item(&self, index: u32) -> [u32; ITEM_WORDS] {
        let [item] = dispatch(Items {
            cache: self,
            first: [index],
        });
        item
    }

    /// Computes consecutive dataset items from `first` on into `out`, which holds 32 words for
    /// each.
    ///
    /// Words beyond the last whole item are left as they are.
    pub fn fill_items(&self, first: u32, out: &mut [u32]) {
        let (items, _) = out.as_chunks_mut::<ITEM_WORDS>();
        let (most, rest) = items.as_chunks_mut::<MOST_ITEMS>();
        let next = self.fill_groups(first, most);
        let (eights, rest) = rest.as_chunks_mut::<8>();
        let next = self.fill_groups(next, eights);
        self.fill_groups(next, rest.as_chunks_mut::<1>().0);
    }

    /// Computes the items from `first` on, `N` side by side, and gives the index after the last.
    fn fill_groups<const N: usize>(&self, first: u32, groups: &mut [[[u32; ITEM_WORDS]; N]]) -> u32 {
        let mut index = first;
        for group in groups {
            *group = dispatch(Items::<N> {
                cache: self,
                first: core::array::from_fn(|i| index.wrapping_add(i as u32)),
            });
            index = index.wrapping_add(N as u32);
        }
        index
    }

    /// Hashes one nonce, computing the items it reads.
    pub fn hash(&self, header_hash: &B256, pow_nonce: u64) -> PowHash {
        let [hash] = self.hash_many(header_hash, [pow_nonce]);
        hash
    }

    /// Hashes `N` nonces side by side. The time for each falls until some 64 of them hide the
    /// memory's latency.
    pub fn hash_many<const N: usize>(&self, header_hash: &B256, pow_nonces: [u64; N]) -> [PowHash; N] {
        dispatch(LightHash {
            cache: self,
            header_hash,
            pow_nonces,
        })
    }
}

/// How many pieces of `unit` bytes there are, when whole and few enough for 31 bits.
fn pieces(bytes: u64, unit: u64) -> Option<u32> {
    let count = u32::try_from(bytes / unit).ok()?;
    (bytes.is_multiple_of(unit) && (1..=1 << 31).contains(&count)).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> LightCache {
        LightCache::with_sizes(B256::ZERO, 1024, 32_768).expect("sizes of the test dataset")
    }

    #[test]
    fn consecutive_items_equal_single_ones() {
        let cache = small();
        for (first, count) in [(0, 1), (0, 256), (3, 8), (5, 13), (250, 6), (7, 64), (1, 77)] {
            let mut out = vec![7; count * ITEM_WORDS + 5];
            cache.fill_items(first, &mut out);
            for (i, item) in out.as_chunks::<ITEM_WORDS>().0.iter().take(count).enumerate() {
                assert_eq!(
                    *item,
                    cache.dataset_item(first + i as u32),
                    "item {i} from {first}"
                );
            }
            assert_eq!(out[count * ITEM_WORDS..], [7; 5], "words beyond the last item");
        }
    }

    #[test]
    fn nonces_side_by_side_hash_like_one() {
        let cache = small();
        let header_hash = B256::repeat_byte(0x5a);
        let nonces = [
            0,
            1,
            u64::from(u32::MAX),
            1 << 32,
            u64::MAX,
            42,
            43,
            44,
            45,
            46,
            47,
        ];
        let many = cache.hash_many(&header_hash, nonces);
        for (hash, nonce) in many.into_iter().zip(nonces) {
            assert_eq!(hash, cache.hash(&header_hash, nonce), "nonce {nonce:#x}");
        }
    }

    #[test]
    fn progress_counts_up_and_can_cancel() {
        let mut seen = Vec::new();
        let cache = LightCache::make(B256::ZERO, 64 * 40_000, 128, &mut |done, total| {
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
}
