//! The sizes of datasets: those of real epochs, or small ones for software adapters.

use ethash::{CacheError, Epoch, LightCache, seed_hash};

/// Items of a small dataset.
const SMALL_ITEMS: u32 = 5_011;
/// Bytes of the light cache of a small dataset.
const SMALL_CACHE_BYTES: u64 = 64 << 10;
/// The first epoch whose dataset exceeds 2 GiB, the largest buffer that most drivers bind.
const SEVERAL_PAGES_FROM: u32 = 129;
/// The epochs of a benchmark in the order of their value. 385 is the first above 4 GiB, and 450 has
/// about the present size of Ethereum Classic.
const EPOCHS: [u32; 5] = [385, 450, 0, 100, 600];
/// The epochs whose small versions are measured: one with several pages, and one with a single
/// page.
const SMALL_EPOCHS: [u32; 2] = [385, 0];

/// The sizes of datasets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchScale {
    /// The sizes of real epochs.
    Full,
    /// A few MiB, with as many pages as the real ones.
    Small,
}

impl BenchScale {
    /// The epochs, the most valuable one first.
    pub(super) const fn epochs(self) -> &'static [u32] {
        match self {
            Self::Full => &EPOCHS,
            Self::Small => &SMALL_EPOCHS,
        }
    }

    /// Page counts of the small datasets on which all kernels are compared with the CPU: those
    /// with which a run begins, and others.
    pub(super) const fn page_counts(self) -> (&'static [u32], &'static [u32]) {
        match self {
            Self::Full => (&[5, 1], &[3, 2, 8]),
            // A kernel for as many pages is needed later, too.
            Self::Small => (&[5, 1], &[]),
        }
    }

    /// Times in milliseconds of all batches in flight together.
    pub(super) const fn batches_ms(self) -> &'static [u32] {
        match self {
            Self::Full => &[100, 50, 25, 200, 10, 400],
            Self::Small => &[100, 20],
        }
    }

    /// Numbers of slices of the light cache, beside the usual form of generation.
    pub(super) const fn slices(self) -> &'static [u32] {
        match self {
            Self::Full => &[1, 2, 4],
            Self::Small => &[1, 4],
        }
    }

    /// The name in records.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Small => "small",
        }
    }

    /// Builds the light cache of an epoch.
    pub(super) fn light_cache(self, epoch: u32) -> Result<LightCache, CacheError> {
        match self {
            Self::Full => LightCache::build(Epoch::ethash(epoch)),
            Self::Small => {
                let dataset_bytes = u64::from(SMALL_ITEMS) * ethash::ITEM_BYTES as u64;
                LightCache::with_sizes(seed_hash(epoch), SMALL_CACHE_BYTES, dataset_bytes)
            }
        }
    }

    /// Largest number of items in a page, so that a small dataset has five pages, or three large
    /// ones, where the real one has several.
    pub(super) const fn max_page_items(self, epoch: u32) -> Option<u32> {
        match self {
            Self::Small if epoch >= SEVERAL_PAGES_FROM => Some(SMALL_ITEMS / 3 + 1),
            _ => None,
        }
    }

    /// Nonces whose hits are compared with the CPU.
    pub(super) const fn nonces_compared(self) -> u64 {
        match self {
            Self::Full => 2048,
            Self::Small => 512,
        }
    }
}
