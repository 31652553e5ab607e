//! Searches nonces on the CPU, one thread each.
//!
//! Starts at once from the light cache and goes over to the full dataset when the [`Keeper`](crate::keeper::Keeper)
//! has one. Which nonces, which work and what becomes of a hit is decided elsewhere.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use ethash::{Epoch, FullDataset, LightCache, SEARCH_GROUP};

use crate::dataset::Dataset;
use crate::desk::Job;
use crate::gauge::Gauge;
use crate::intensity::Throttle;
use crate::shared::{Compared, Hit, Shared};
use crate::task::Cursor;

/// Nonces hashed side by side from the light cache: 128 rows on their way at any time.
pub(crate) const LIGHT_WIDTH: usize = 64;
/// Nonces hashed from the full dataset before a pause is thought of, where pauses are wanted.
const NONCES_A_SLICE: u64 = 1024;

/// One searching thread.
pub(crate) struct CpuSearcher {
    pub(crate) shared: Arc<Shared>,
    pub(crate) gauge: Arc<Gauge>,
    /// This thread's own nonces.
    pub(crate) cursor: Cursor,
    pub(crate) throttle: Throttle,
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
        self.gauge.begin_search(epoch.index);
        self.cursor.begin();
        while self.shared.desk.is_active(job) && !self.cursor.is_used_up(job.nonces) {
            self.shared.keeper.want(epoch, cache);
            match self.shared.keeper.ready(epoch) {
                Some(dataset) => self.search_full(job, cache, epoch, &dataset),
                None => self.search_light(job, cache),
            }
        }
        // Whoever has no nonces left is not stalled.
        self.gauge.end_search();
        self.shared.desk.outwait(job);
    }

    /// One batch from the light cache.
    fn search_light(&mut self, job: &Job, cache: &LightCache) {
        let began = self.throttle.is_on().then(Instant::now);
        let (nonces, new) = self.cursor.next::<LIGHT_WIDTH>(job.nonces);
        let hashes = cache.hash_many(&job.work.header_hash, nonces);
        self.gauge.add(new as u64);
        for (nonce, hash) in nonces.into_iter().zip(hashes).take(new) {
            self.shared.solve(job, &self.gauge, nonce, &hash);
        }
        self.rest(began);
    }

    /// Searches the full dataset until the job ends or the dataset turns out wrong.
    fn search_full(&mut self, job: &Job, cache: &LightCache, epoch: Epoch, dataset: &Arc<Dataset>) {
        let full: FullDataset<'_> = dataset.view();
        let shared = Arc::clone(&self.shared);
        let wrong = Cell::new(false);
        while shared.desk.is_active(job) && !self.cursor.is_used_up(job.nonces) {
            let began = self.throttle.is_on().then(Instant::now);
            // Nonces that are new for this job, begun and not yet done.
            let flying = Cell::new(0);
            let mut begun = 0;
            full.search(
                &job.work.header_hash,
                || {
                    let ends = wrong.get()
                        || !shared.desk.is_active(job)
                        || self.cursor.is_used_up(job.nonces)
                        || began.is_some() && begun >= NONCES_A_SLICE;
                    begun += SEARCH_GROUP as u64;
                    (!ends).then(|| {
                        let (nonces, new) = self.cursor.next(job.nonces);
                        flying.set(flying.get() + new);
                        nonces
                    })
                },
                |nonces, hashes| {
                    // Groups are done in their order, and only the last of a range is not all new.
                    let new = flying.get().min(nonces.len());
                    flying.set(flying.get() - new);
                    self.gauge.add(new as u64);
                    for (pow_nonce, hash) in nonces.iter().zip(hashes).take(new) {
                        // Where the job has ended or the dataset is wrong, hits in flight are of no use.
                        let useful = !wrong.get() && shared.desk.is_active(job);
                        if !useful || !ethash::meets_boundary(&hash.final_hash, &job.work.boundary) {
                            continue;
                        }
                        let hit = Hit {
                            pow_nonce: *pow_nonce,
                            mix_hash: hash.mix_hash,
                            compared: Compared::All,
                        };
                        wrong.set(!shared.check_and_solve(job, &self.gauge, cache, &hit));
                    }
                },
            );
            if wrong.get() {
                shared.keeper.reject(epoch, dataset);
                return;
            }
            self.rest(began);
        }
    }

    /// Pauses where the intensity asks for it.
    fn rest(&mut self, began: Option<Instant>) {
        if let Some(pause) = began.and_then(|began| self.throttle.pause(began.elapsed())) {
            self.shared.desk.sleep(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ethash::{B256, LightCaches, WorkPackage};
    use serde_json::Value;

    use super::*;
    use crate::engine::DatasetPolicy;
    use crate::gauge::DeviceState;
    use crate::intensity::Intensity;
    use crate::keeper::Keeper;
    use crate::task::{Found, NonceSpace, Task};

    fn searcher(next_nonce: u64, policy: DatasetPolicy) -> (CpuSearcher, crossbeam_channel::Receiver<Found>) {
        let (solutions_out, solutions) = crossbeam_channel::unbounded();
        let shared = Arc::new(Shared::new(Keeper::new(policy, 1, 0), solutions_out));
        (
            CpuSearcher {
                shared,
                gauge: Arc::default(),
                cursor: Cursor::starting_at(0, 1, next_nonce),
                throttle: Throttle::new(Intensity::FULL),
            },
            solutions,
        )
    }

    /// All solutions of `case`, each found as the first one after the one before.
    fn solutions_of(case: &Value, cache: &Arc<LightCache>) -> Vec<String> {
        let text = |name: &str| case[name].as_str().expect("hex digits");
        let hash = |name: &str| text(name).parse::<B256>().expect("32 bytes");
        let start = u64::from_str_radix(text("start"), 16).expect("8 bytes");
        let count = case["count"].as_u64().expect("a number");
        let epoch = Epoch::ethash(case["epoch"].as_u64().expect("a number") as u32);
        let (mut searcher, solutions) = searcher(start, DatasetPolicy::Never);
        let mut found = Vec::new();
        loop {
            let work = WorkPackage {
                header_hash: hash("header_hash"),
                seed_hash: epoch.seed_hash(),
                boundary: hash("boundary"),
                number: None,
                epoch,
            };
            searcher.shared.desk.put(None);
            let job = searcher
                .shared
                .desk
                .put(Some(work.into()))
                .expect("new work after a pause");
            searcher.search(&job, cache);
            let solution = solutions
                .try_recv()
                .expect("the search ends with a solution")
                .solution;
            if solution.pow_nonce.wrapping_sub(start) >= count {
                return found;
            }
            assert_eq!(
                cache.hash(&solution.header_hash, solution.pow_nonce).mix_hash,
                solution.mix_hash
            );
            found.push(format!("{:016x}", solution.pow_nonce));
            searcher.cursor = Cursor::starting_at(0, 1, solution.pow_nonce.wrapping_add(1));
        }
    }

    #[test]
    fn a_searcher_without_nonces_waits_and_does_not_stall() {
        let epoch = Epoch::ethash(0);
        let cache = LightCaches::with_sizes(1024, 32_768)
            .get(epoch)
            .expect("the test sizes");
        let (mut searcher, _solutions) = searcher(0, DatasetPolicy::Never);
        let (shared, gauge) = (Arc::clone(&searcher.shared), Arc::clone(&searcher.gauge));
        let task = Task {
            work: WorkPackage {
                header_hash: B256::ZERO,
                seed_hash: epoch.seed_hash(),
                boundary: B256::ZERO,
                number: None,
                epoch,
            },
            nonces: NonceSpace::new(0, NonceSpace::BITS_MAX),
            repeat: true,
        };
        let job = shared.desk.put(Some(task)).expect("new work");
        std::thread::scope(|scope| {
            scope.spawn(|| searcher.search(&job, &cache));
            let status = || gauge.status(Instant::now());
            let start = Instant::now();
            while status().hashes < u64::from(u16::MAX) || status().state != DeviceState::Waiting {
                if start.elapsed() > Duration::from_secs(60) {
                    shared.desk.stop();
                    panic!("{:?}", status());
                }
                std::thread::yield_now();
            }
            assert!(shared.desk.is_active(&job), "the job has not ended");
            shared.desk.stop();
        });
    }

    #[test]
    fn published_searches_are_reproduced() {
        let vectors: Value = serde_json::from_str(include_str!("../../tests/vectors/ethash.json"))
            .expect("the vector file is JSON");
        let cases = vectors["search"].as_array().expect("a list");
        let caches = LightCaches::new();
        std::thread::scope(|scope| {
            for case in cases {
                let caches = caches.clone();
                scope.spawn(move || {
                    let epoch = Epoch::ethash(case["epoch"].as_u64().expect("a number") as u32);
                    let cache = caches.get(epoch).expect("an epoch within range");
                    let expected = case["solutions"].as_array().expect("a list").clone();
                    assert_eq!(
                        solutions_of(case, &cache),
                        expected,
                        "epoch {epoch:?} from {}",
                        case["start"]
                    );
                });
            }
        });
        assert!(
            cases.iter().any(|case| case["epoch"].as_u64() >= Some(385)),
            "one above 4 GiB"
        );
    }

    #[test]
    fn each_nonce_of_a_space_is_searched_once() {
        let epoch = Epoch::ethash(0);
        let cache =
            Arc::new(LightCache::with_sizes(epoch.seed_hash(), 1024, 32_768).expect("the test sizes"));
        for policy in [DatasetPolicy::Never, DatasetPolicy::Memory] {
            let has_dataset = policy == DatasetPolicy::Memory;
            let (mut searcher, solutions) = searcher(0, policy);
            // A sixteenth of the smallest space: no whole number of batches, whichever way it is searched.
            searcher.cursor = Cursor::starting_at(3, 16, 1234);
            let nonces = NonceSpace::new(7 << 16, NonceSpace::BITS_MAX);
            let range = searcher.cursor.range(nonces);
            assert!(range.len % LIGHT_WIDTH as u64 != 0 && range.len % SEARCH_GROUP as u64 != 0);
            let shared = Arc::clone(&searcher.shared);
            let gauge = Arc::clone(&searcher.gauge);
            if has_dataset {
                shared.keeper.want(epoch, &cache);
                let start = Instant::now();
                while shared.keeper.ready(epoch).is_none() {
                    assert!(start.elapsed() < Duration::from_secs(20), "no dataset");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            // Every hash is a share.
            let task = Task {
                work: WorkPackage {
                    header_hash: B256::repeat_byte(5),
                    seed_hash: epoch.seed_hash(),
                    boundary: B256::repeat_byte(0xff),
                    number: None,
                    epoch,
                },
                nonces,
                repeat: true,
            };
            let job = shared.desk.put(Some(task)).expect("new work");
            let mut found = Vec::new();
            std::thread::scope(|scope| {
                scope.spawn(|| searcher.search(&job, &cache));
                while (found.len() as u64) < range.len
                    && let Ok(next) = solutions.recv_timeout(Duration::from_secs(20))
                {
                    found.push(next.solution.pow_nonce);
                }
                // Time for more than there should be.
                std::thread::sleep(Duration::from_millis(50));
                shared.desk.stop();
            });
            found.extend(solutions.try_iter().map(|found| found.solution.pow_nonce));
            assert!(found.iter().all(|nonce| range.offset(*nonce).is_some()));
            assert_eq!(found.len() as u64, range.len, "dataset: {has_dataset}");
            found.sort_unstable();
            found.dedup();
            assert_eq!(
                found.len() as u64,
                range.len,
                "dataset: {has_dataset}, some twice"
            );
            assert_eq!(gauge.status(Instant::now()).hashes, range.len);
        }
    }
}
