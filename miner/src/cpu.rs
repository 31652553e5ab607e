//! Searches nonces on the CPU, one thread each.
//!
//! Starts at once from the light cache and goes over to the full dataset when the [`Keeper`](crate::keeper)
//! has one. Which nonces, which work and what becomes of a hit is decided elsewhere.

use std::sync::Arc;

use ethash::{Epoch, FullDataset, LightCache};

use crate::dataset::Dataset;
use crate::desk::Job;
use crate::rate::Meter;
use crate::shared::{Compared, Hit, Shared};

/// Nonces hashed side by side from the light cache: sixteen rows on their way at any time.
pub(crate) const LIGHT_WIDTH: usize = 8;
/// Nonces hashed side by side from the full dataset.
pub(crate) const FULL_WIDTH: usize = 16;

/// One searching thread.
pub(crate) struct CpuSearcher {
    pub(crate) shared: Arc<Shared>,
    pub(crate) meter: Arc<Meter>,
    /// The next nonce of this thread's own range. It never goes back, so nothing is tried twice.
    pub(crate) next_nonce: u64,
}

impl CpuSearcher {
    /// Searches until the engine stops.
    pub(crate) fn run(mut self) {
        while let Some(job) = self.shared.desk.take() {
            let Some(cache) = self.shared.desk.cache_of(&job) else {
                continue;
            };
            self.search(&job, &cache);
        }
    }

    fn search(&mut self, job: &Job, cache: &Arc<LightCache>) {
        let epoch = job.work.epoch;
        while self.shared.desk.is_active(job) {
            self.shared.keeper.want(epoch, cache);
            match self.shared.keeper.ready(epoch) {
                Some(dataset) => self.search_full(job, cache, epoch, &dataset),
                None => self.search_light(job, cache),
            }
        }
    }

    /// One batch from the light cache.
    fn search_light(&mut self, job: &Job, cache: &LightCache) {
        let nonces = self.nonces::<LIGHT_WIDTH>();
        let hashes = cache.hash_many(&job.work.header_hash, nonces);
        self.meter.add(LIGHT_WIDTH as u64);
        for (nonce, hash) in nonces.into_iter().zip(hashes) {
            self.shared.solve(job, nonce, &hash);
        }
    }

    /// Batches from the full dataset until the job ends or the dataset turns out wrong.
    fn search_full(&mut self, job: &Job, cache: &LightCache, epoch: Epoch, dataset: &Arc<Dataset>) {
        let full: FullDataset<'_> = dataset.view();
        while self.shared.desk.is_active(job) {
            let nonces = self.nonces::<FULL_WIDTH>();
            let hashes = full.hash_many(&job.work.header_hash, nonces);
            self.meter.add(FULL_WIDTH as u64);
            for (pow_nonce, hash) in nonces.into_iter().zip(hashes) {
                if !ethash::meets_boundary(&hash.final_hash, &job.work.boundary) {
                    continue;
                }
                let hit = Hit {
                    pow_nonce,
                    mix_hash: hash.mix_hash,
                    compared: Compared::All,
                };
                if !self.shared.check_and_solve(job, cache, &hit) {
                    self.shared.keeper.reject(epoch, dataset);
                    return;
                }
            }
        }
    }

    /// The next `N` nonces of this thread; beyond the last number comes 0.
    fn nonces<const N: usize>(&mut self) -> [u64; N] {
        let first = self.next_nonce;
        self.next_nonce = first.wrapping_add(N as u64);
        core::array::from_fn(|i| first.wrapping_add(i as u64))
    }
}
