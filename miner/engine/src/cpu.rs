//! Searches nonces on the CPU, with one searcher for each thread.
//!
//! A searcher starts at once with the light cache. It changes to the full dataset as soon as the
//! [`DatasetManager`] has one. The nonces, the work and the delivery of solutions are in
//! [`search`](crate::search).

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use ethash::{Epoch, FullDataset, LIGHT_IN_FLIGHT, LightCache, SEARCH_GROUP};

use crate::dataset::{Dataset, DatasetManager};
use crate::search::{CandidateSolution, ComparedBits, CpuThrottle, NonceCursor, SearchContext, SearchJob};
use crate::telemetry::DeviceTelemetry;

/// Nonces hashed from the full dataset before the searcher considers a pause. It applies below full
/// intensity only.
const NONCES_PER_SLICE: u64 = 1024;

/// One searching thread.
pub(crate) struct CpuSearcher {
    pub(crate) context: Arc<SearchContext>,
    pub(crate) datasets: Arc<DatasetManager>,
    /// The telemetry of the CPU, which all its threads share.
    pub(crate) telemetry: Arc<DeviceTelemetry>,
    /// The nonces of this thread.
    pub(crate) cursor: NonceCursor,
    pub(crate) throttle: CpuThrottle,
}

impl CpuSearcher {
    /// Searches until the engine stops.
    pub(crate) fn run(mut self) {
        while let Some(job) = self.context.current_job.wait_for_job() {
            let Some(cache) = self.context.current_job.wait_for_light_cache(&job) else {
                continue;
            };
            self.search(&job, &cache);
        }
    }

    /// Searches until `job` ends.
    fn search(&mut self, job: &SearchJob, cache: &Arc<LightCache>) {
        let epoch = job.work.epoch;
        self.telemetry.begin_search(epoch.index);
        self.cursor.begin_job();
        while self.context.current_job.is_active(job) && !self.cursor.is_exhausted(job.nonces) {
            if self.telemetry.control.is_resting() {
                self.context
                    .current_job
                    .wait_while(job, || self.telemetry.control.is_resting());
                continue;
            }
            self.datasets.request(epoch, cache);
            match self.datasets.ready(epoch) {
                Some(dataset) => self.search_full(job, cache, epoch, &dataset),
                None => self.search_light(job, cache),
            }
        }
        if self.context.current_job.is_active(job) {
            self.telemetry.warn_of_used_up_nonces();
        }
        // A searcher without nonces must not look like a stalled one.
        self.telemetry.end_search();
        self.context.current_job.wait_for_end(job);
    }

    /// Searches one batch from the light cache.
    fn search_light(&mut self, job: &SearchJob, cache: &LightCache) {
        let start = self.throttle.is_on().then(Instant::now);
        let (nonces, new) = self.cursor.next::<LIGHT_IN_FLIGHT>(job.nonces);
        let hashes = cache.hash_many(&job.work.header_hash, nonces);
        self.telemetry.add_hashes(new as u64);
        for (nonce, hash) in nonces.into_iter().zip(hashes).take(new) {
            self.context.submit(job, &self.telemetry, nonce, &hash);
        }
        self.pause_if_due(start);
    }

    /// Searches with the full dataset until the job ends or the dataset gives a wrong hash.
    fn search_full(&mut self, job: &SearchJob, cache: &LightCache, epoch: Epoch, dataset: &Arc<Dataset>) {
        let full: FullDataset<'_> = dataset.view();
        let context = Arc::clone(&self.context);
        let is_wrong = Cell::new(false);
        while context.current_job.is_active(job) && !self.cursor.is_exhausted(job.nonces) {
            let start = self.throttle.is_on().then(Instant::now);
            // Nonces that were handed out, are new for this job, and have no hash yet.
            let in_flight = Cell::new(0);
            let mut handed_out = 0;
            full.search(
                &job.work.header_hash,
                || {
                    let ends = is_wrong.get()
                        || self.telemetry.control.is_resting()
                        || !context.current_job.is_active(job)
                        || self.cursor.is_exhausted(job.nonces)
                        || start.is_some() && handed_out >= NONCES_PER_SLICE;
                    handed_out += SEARCH_GROUP as u64;
                    (!ends).then(|| {
                        let (nonces, new) = self.cursor.next(job.nonces);
                        in_flight.set(in_flight.get() + new);
                        nonces
                    })
                },
                |nonces, hashes| {
                    // Groups finish in order, and only the last group of a range has nonces that
                    // are not new.
                    let new = in_flight.get().min(nonces.len());
                    in_flight.set(in_flight.get() - new);
                    self.telemetry.add_hashes(new as u64);
                    for (pow_nonce, hash) in nonces.iter().zip(hashes).take(new) {
                        // With a wrong dataset the remaining hashes are useless.
                        if is_wrong.get()
                            || !ethash::meets_boundary(&hash.final_hash, &job.work.boundary)
                            || !context.current_job.wants_solution(job)
                        {
                            continue;
                        }
                        let candidate = CandidateSolution {
                            pow_nonce: *pow_nonce,
                            mix_hash: hash.mix_hash,
                            compared: ComparedBits::All,
                        };
                        is_wrong.set(!context.verify_and_submit(job, &self.telemetry, cache, &candidate));
                    }
                },
            );
            if is_wrong.get() {
                self.datasets.reject(epoch, dataset);
                return;
            }
            if self.telemetry.control.is_resting() {
                return;
            }
            self.pause_if_due(start);
        }
    }

    /// Pauses if the intensity asks for it. `start` is the start of the work since the last call.
    fn pause_if_due(&mut self, start: Option<Instant>) {
        if let Some(pause) = start.and_then(|start| self.throttle.pause(start.elapsed())) {
            self.context.current_job.sleep(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ethash::{B256, LightCaches, WorkPackage};
    use serde_json::Value;

    use super::*;
    use crate::dataset::DatasetPolicy;
    use crate::search::Intensity;
    use crate::search::{FoundSolution, NonceSpace, SearchTask};
    use crate::telemetry::DeviceState;

    fn searcher(
        next_nonce: u64,
        policy: DatasetPolicy,
    ) -> (CpuSearcher, crossbeam_channel::Receiver<FoundSolution>) {
        let (solutions_out, solutions) = crossbeam_channel::unbounded();
        (
            CpuSearcher {
                context: Arc::new(SearchContext::new(solutions_out)),
                datasets: Arc::new(DatasetManager::new(policy, 1, 0)),
                telemetry: Arc::default(),
                cursor: NonceCursor::starting_at(0, 1, next_nonce),
                throttle: CpuThrottle::new(Intensity::FULL),
            },
            solutions,
        )
    }

    /// Finds all solutions of `case`. Each search begins after the previous solution.
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
            searcher.context.current_job.set(None);
            let job = searcher
                .context
                .current_job
                .set(Some(work.into()))
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
            searcher.cursor = NonceCursor::starting_at(0, 1, solution.pow_nonce.wrapping_add(1));
        }
    }

    #[test]
    fn a_searcher_without_nonces_has_the_state_waiting() {
        let epoch = Epoch::ethash(0);
        let cache = LightCaches::with_sizes(1024, 32_768)
            .get(epoch)
            .expect("the test sizes");
        let (mut searcher, _solutions) = searcher(0, DatasetPolicy::Never);
        // A sixteenth of the smallest space.
        searcher.cursor = NonceCursor::starting_at(3, 16, 1234);
        let nonces = NonceSpace::new(0, NonceSpace::BITS_MAX);
        let range = searcher.cursor.range(nonces);
        let (context, telemetry) = (Arc::clone(&searcher.context), Arc::clone(&searcher.telemetry));
        let task = SearchTask {
            work: WorkPackage {
                header_hash: B256::ZERO,
                seed_hash: epoch.seed_hash(),
                boundary: B256::ZERO,
                number: None,
                epoch,
            },
            nonces,
            repeat: true,
        };
        let job = context.current_job.set(Some(task)).expect("new work");
        std::thread::scope(|scope| {
            scope.spawn(|| searcher.search(&job, &cache));
            let status = || telemetry.status(Instant::now());
            let start = Instant::now();
            while status().hashes < range.len || status().state != DeviceState::Waiting {
                if start.elapsed() > Duration::from_secs(600) {
                    context.current_job.stop();
                    panic!("{:?}", status());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(context.current_job.is_active(&job), "the job has not ended");
            context.current_job.stop();
        });
    }

    /// Waits until `searcher` has the full dataset of `cache`, if its policy wants one.
    fn prepare(searcher: &CpuSearcher, policy: &DatasetPolicy, epoch: Epoch, cache: &Arc<LightCache>) {
        if *policy == DatasetPolicy::Never {
            return;
        }
        searcher.datasets.request(epoch, cache);
        let start = Instant::now();
        while searcher.datasets.ready(epoch).is_none() {
            assert!(start.elapsed() < Duration::from_secs(20), "no dataset");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns a task for which every hash is a solution.
    fn easy_task(header: u8, nonces: NonceSpace) -> SearchTask {
        let epoch = Epoch::ethash(0);
        SearchTask {
            work: WorkPackage {
                header_hash: B256::repeat_byte(header),
                seed_hash: epoch.seed_hash(),
                boundary: B256::repeat_byte(0xff),
                number: None,
                epoch,
            },
            nonces,
            repeat: true,
        }
    }

    #[test]
    fn no_hash_of_a_replaced_job_is_lost() {
        let epoch = Epoch::ethash(0);
        let cache =
            Arc::new(LightCache::with_sizes(epoch.seed_hash(), 1024, 32_768).expect("the test sizes"));
        for policy in [DatasetPolicy::Never, DatasetPolicy::Memory] {
            let (mut searcher, solutions) = searcher(0, policy.clone());
            let (context, telemetry) = (Arc::clone(&searcher.context), Arc::clone(&searcher.telemetry));
            prepare(&searcher, &policy, epoch, &cache);
            let set_work = |header| {
                let task = easy_task(header, NonceSpace::default());
                context.current_job.set(Some(task)).expect("new work")
            };
            let mut found = 0;
            for header in 0..10 {
                let job = set_work(header);
                std::thread::scope(|scope| {
                    scope.spawn(|| searcher.search(&job, &cache));
                    let first = solutions.recv_timeout(Duration::from_secs(20));
                    set_work(header | 0x80);
                    first.expect("a solution");
                });
                found += 1 + solutions.try_iter().count() as u64;
                assert_eq!(found, telemetry.status(Instant::now()).hashes, "{policy:?}");
            }
        }
    }

    #[test]
    fn published_searches_are_reproduced() {
        let vectors: Value = serde_json::from_str(include_str!("../../../tests/vectors/ethash.json"))
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
            "one dataset is larger than 4 GiB"
        );
    }

    #[test]
    fn each_nonce_of_a_space_is_searched_once() {
        let epoch = Epoch::ethash(0);
        let cache =
            Arc::new(LightCache::with_sizes(epoch.seed_hash(), 1024, 32_768).expect("the test sizes"));
        for policy in [DatasetPolicy::Never, DatasetPolicy::Memory] {
            let (mut searcher, solutions) = searcher(0, policy.clone());
            // The range is a sixteenth of the smallest space. It is not a whole number of batches,
            // neither from the light cache nor from the dataset.
            searcher.cursor = NonceCursor::starting_at(3, 16, 1234);
            let nonces = NonceSpace::new(7 << 16, NonceSpace::BITS_MAX);
            let range = searcher.cursor.range(nonces);
            assert!(range.len % LIGHT_IN_FLIGHT as u64 != 0 && range.len % SEARCH_GROUP as u64 != 0);
            let context = Arc::clone(&searcher.context);
            let telemetry = Arc::clone(&searcher.telemetry);
            prepare(&searcher, &policy, epoch, &cache);
            let job = context
                .current_job
                .set(Some(easy_task(5, nonces)))
                .expect("new work");
            let mut found = Vec::new();
            std::thread::scope(|scope| {
                scope.spawn(|| searcher.search(&job, &cache));
                while (found.len() as u64) < range.len
                    && let Ok(next) = solutions.recv_timeout(Duration::from_secs(20))
                {
                    found.push(next.solution.pow_nonce);
                }
                // In this time, solutions that should not exist would arrive.
                std::thread::sleep(Duration::from_millis(50));
                context.current_job.stop();
            });
            found.extend(solutions.try_iter().map(|found| found.solution.pow_nonce));
            assert!(found.iter().all(|nonce| range.offset(*nonce).is_some()));
            assert_eq!(found.len() as u64, range.len, "{policy:?}");
            found.sort_unstable();
            found.dedup();
            assert_eq!(
                found.len() as u64,
                range.len,
                "{policy:?}; some nonces were searched twice"
            );
            assert_eq!(telemetry.status(Instant::now()).hashes, range.len);
        }
    }
}
