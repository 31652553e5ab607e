//! The job that all searchers of an engine search now.
//!
//! New work replaces the old job at once, and the first solution ends it. A searcher notices both
//! by one atomic read for each batch. Knows nothing of hashing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ethash::{Epoch, LightCache, WorkPackage};
use parking_lot::{Condvar, Mutex};

use super::nonces::NonceSpace;
use super::task::SearchTask;

/// The number that stands for "no job is searched".
const IDLE: u64 = 0;

/// A task with a number of its own.
#[derive(Debug)]
pub(crate) struct SearchJob {
    /// The number of the job. The first job has number 1.
    pub(crate) id: u64,
    pub(crate) work: WorkPackage,
    pub(crate) nonces: NonceSpace,
    /// Whether the search continues after a solution.
    repeat: bool,
    cache: OnceLock<Arc<LightCache>>,
}

/// The current job of an engine. Searchers wait here for work, for its light cache, and for its
/// end.
#[derive(Debug, Default)]
pub(crate) struct CurrentJob {
    state: Mutex<CurrentJobState>,
    changed: Condvar,
    /// The number of the job that is searched now, or `IDLE`.
    active: AtomicU64,
}

#[derive(Debug, Default)]
struct CurrentJobState {
    job: Option<Arc<SearchJob>>,
    /// Whether the job has its solution or cannot be searched.
    done: bool,
    /// The epoch of the latest work. A pause does not change it.
    epoch: Option<Epoch>,
    last_id: u64,
    stopping: bool,
}

impl CurrentJob {
    /// Makes `task` the current job and returns that job. `None` pauses the search.
    ///
    /// Returns `None` if there is no new job: after a pause, after [`stop`](Self::stop), or if
    /// header hash, boundary, epoch and nonces equal those of the current job. Polled sources send
    /// the same work again and again, and a job that has its solution must not be searched again.
    pub(crate) fn set(&self, task: Option<SearchTask>) -> Option<Arc<SearchJob>> {
        let mut state = self.state.lock();
        let Some(SearchTask { work, nonces, repeat }) = task else {
            state.job = None;
            self.active.store(IDLE, Ordering::Relaxed);
            self.changed.notify_all();
            return None;
        };
        let same = |job: &Arc<SearchJob>| {
            job.work.header_hash == work.header_hash
                && job.work.boundary == work.boundary
                && job.work.epoch == work.epoch
                && job.nonces == nonces
        };
        if state.stopping || state.job.as_ref().is_some_and(same) {
            return None;
        }
        state.last_id += 1;
        state.done = false;
        state.epoch = Some(work.epoch);
        let job = Arc::new(SearchJob {
            id: state.last_id,
            work,
            nonces,
            repeat,
            cache: OnceLock::new(),
        });
        state.job = Some(Arc::clone(&job));
        self.active.store(job.id, Ordering::Relaxed);
        self.changed.notify_all();
        Some(job)
    }

    /// Waits for a job that can be searched. Returns `None` when the engine stops.
    pub(crate) fn wait_for_job(&self) -> Option<Arc<SearchJob>> {
        let mut state = self.state.lock();
        loop {
            match &state.job {
                _ if state.stopping => return None,
                Some(job) if !state.done => return Some(Arc::clone(job)),
                _ => self.changed.wait(&mut state),
            }
        }
    }

    /// Returns the job that is searched now, if there is one. Never waits.
    pub(crate) fn get(&self) -> Option<Arc<SearchJob>> {
        let state = self.state.lock();
        state.job.clone().filter(|_| !state.done && !state.stopping)
    }

    /// Whether `job` is searched now.
    pub(crate) fn is_active(&self, job: &SearchJob) -> bool {
        self.active.load(Ordering::Relaxed) == job.id
    }

    /// Records that `job` has a solution. Unless the job allows several solutions, this ends its
    /// search.
    ///
    /// Returns false if the solution comes too late.
    pub(crate) fn accept_solution(&self, job: &SearchJob) -> bool {
        if job.repeat {
            self.is_active(job)
        } else {
            self.finish(job)
        }
    }

    /// Ends the search for `job`. Returns true for the first call while the job is active.
    pub(crate) fn finish(&self, job: &SearchJob) -> bool {
        let mut state = self.state.lock();
        let first = !state.done && state.job.as_ref().is_some_and(|active| active.id == job.id);
        if first {
            state.done = true;
            self.active.store(IDLE, Ordering::Relaxed);
            self.changed.notify_all();
        }
        first
    }

    /// Gives `job` the light cache of its epoch.
    pub(crate) fn set_light_cache(&self, job: &SearchJob, cache: Arc<LightCache>) {
        // Only one thread sets the cache of a job. A second one would set the same cache.
        let _ = job.cache.set(cache);
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    /// Waits for the light cache of `job`. Returns `None` when the job is no longer searched.
    pub(crate) fn wait_for_light_cache(&self, job: &SearchJob) -> Option<Arc<LightCache>> {
        let mut state = self.state.lock();
        loop {
            if !self.is_active(job) {
                return None;
            }
            if let Some(cache) = job.cache.get() {
                return Some(Arc::clone(cache));
            }
            self.changed.wait(&mut state);
        }
    }

    /// Waits until `job` is no longer searched.
    pub(crate) fn wait_for_end(&self, job: &SearchJob) {
        let mut state = self.state.lock();
        while self.is_active(job) {
            self.changed.wait(&mut state);
        }
    }

    /// Waits while `job` is searched and `condition` holds. Whoever ends the condition calls
    /// [`wake`](Self::wake).
    pub(crate) fn wait_while(&self, job: &SearchJob, condition: impl Fn() -> bool) {
        let mut state = self.state.lock();
        while self.is_active(job) && condition() {
            self.changed.wait(&mut state);
        }
    }

    /// Waits until `condition` holds. Returns false if the engine stops before.
    pub(crate) fn wait_until(&self, condition: impl Fn() -> bool) -> bool {
        let mut state = self.state.lock();
        while !state.stopping && !condition() {
            self.changed.wait(&mut state);
        }
        !state.stopping
    }

    /// Wakes all that wait for a condition of their own.
    pub(crate) fn wake(&self) {
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    /// Waits until the latest work belongs to another epoch than `epoch`, for `at_most` this time.
    pub(crate) fn wait_for_other_epoch(&self, epoch: Epoch, at_most: Duration) {
        let end = Instant::now() + at_most;
        let mut state = self.state.lock();
        while !state.stopping && state.epoch == Some(epoch) {
            if self.changed.wait_until(&mut state, end).timed_out() {
                return;
            }
        }
    }

    /// Whether the latest work belongs to `epoch` and the engine is not stopping.
    pub(crate) fn needs_epoch(&self, epoch: Epoch) -> bool {
        let state = self.state.lock();
        !state.stopping && state.epoch == Some(epoch)
    }

    /// Sleeps for `time`. Returns early when the engine stops.
    pub(crate) fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut state = self.state.lock();
        while !state.stopping && !self.changed.wait_until(&mut state, end).timed_out() {}
    }

    /// Stops the engine's search for good: every waiting thread wakes up, and no later work is
    /// taken.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        state.job = None;
        self.active.store(IDLE, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Whether [`stop`](Self::stop) was called.
    pub(crate) fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }
}

#[cfg(test)]
mod tests {
    use ethash::B256;

    use super::*;

    fn work(header: u8, boundary: u8) -> SearchTask {
        let epoch = Epoch::ethash(0);
        let work = WorkPackage {
            header_hash: B256::repeat_byte(header),
            seed_hash: epoch.seed_hash(),
            boundary: B256::repeat_byte(boundary),
            number: None,
            epoch,
        };
        work.into()
    }

    #[test]
    fn a_repeated_job_accepts_many_solutions() {
        let current = CurrentJob::default();
        let shares = SearchTask {
            repeat: true,
            ..work(1, 9)
        };
        let job = current.set(Some(shares.clone())).expect("new work");
        assert!(current.accept_solution(&job) && current.accept_solution(&job) && current.is_active(&job));
        let other_nonces = SearchTask {
            nonces: NonceSpace::new(1 << 63, 1),
            ..shares
        };
        let next = current
            .set(Some(other_nonces))
            .expect("other nonces are new work");
        assert!(!current.accept_solution(&job), "too late");
        assert!(current.accept_solution(&next));
    }

    #[test]
    fn a_searcher_can_wait_for_the_end_of_its_job() {
        let current = CurrentJob::default();
        let job = current.set(Some(work(1, 9))).expect("new work");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| current.wait_for_end(&job));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            current.set(Some(work(2, 9)));
            waiting.join().expect("no panic");
        });
    }

    #[test]
    fn a_searcher_can_wait_for_another_epoch() {
        let current = CurrentJob::default();
        current.set(Some(work(1, 9)));
        let epoch = Epoch::ethash(0);
        current.wait_for_other_epoch(epoch, Duration::from_millis(1));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| current.wait_for_other_epoch(epoch, Duration::from_secs(600)));
            current.set(Some(work(2, 9)));
            current.set(None);
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished(), "the epoch is the same");
            let mut next = work(3, 9);
            next.work.epoch = Epoch::ethash(1);
            current.set(Some(next));
            waiting.join().expect("no panic");
            let waiting =
                scope.spawn(|| current.wait_for_other_epoch(Epoch::ethash(1), Duration::from_secs(600)));
            current.stop();
            waiting.join().expect("no panic");
        });
    }

    #[test]
    fn new_work_replaces_the_job_and_the_same_work_does_not() {
        let current = CurrentJob::default();
        let first = current.set(Some(work(1, 9))).expect("new work");
        assert!(current.is_active(&first));
        assert!(current.set(Some(work(1, 9))).is_none(), "the same work again");
        assert!(current.is_active(&first));
        let harder = current
            .set(Some(work(1, 8)))
            .expect("another boundary is new work");
        assert!(!current.is_active(&first) && current.is_active(&harder));
        assert_eq!(current.wait_for_job().map(|job| job.id), Some(harder.id));
    }

    #[test]
    fn a_job_is_finished_once() {
        let current = CurrentJob::default();
        let job = current.set(Some(work(1, 9))).expect("new work");
        assert!(current.finish(&job));
        assert!(!current.finish(&job), "only the first solution counts");
        assert!(current.get().is_none());
        assert!(
            current.set(Some(work(1, 9))).is_none(),
            "solved work is not searched again"
        );
        let next = current.set(Some(work(2, 9))).expect("new work");
        assert!(!current.finish(&job), "a late solution of the old job");
        assert!(current.is_active(&next));
    }

    #[test]
    fn a_pause_ends_the_search_and_keeps_the_epoch() {
        let current = CurrentJob::default();
        let job = current.set(Some(work(1, 9))).expect("new work");
        current.set(None);
        assert!(!current.is_active(&job) && current.get().is_none());
        assert!(current.needs_epoch(Epoch::ethash(0)) && !current.needs_epoch(Epoch::ethash(1)));
        assert!(
            current.set(Some(work(1, 9))).is_some(),
            "after a pause the same work is new"
        );
    }

    #[test]
    fn stopping_wakes_every_waiting_thread() {
        let current = CurrentJob::default();
        let job = current.set(Some(work(1, 9))).expect("new work");
        std::thread::scope(|scope| {
            let cache = scope.spawn(|| current.wait_for_light_cache(&job).is_none());
            let sleeper = scope.spawn(|| current.sleep(Duration::from_secs(600)));
            std::thread::sleep(Duration::from_millis(20));
            current.stop();
            assert!(cache.join().expect("no panic"));
            sleeper.join().expect("no panic");
        });
        assert!(current.wait_for_job().is_none());
        assert!(current.set(Some(work(2, 9))).is_none());
    }
}
