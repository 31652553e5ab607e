//! The job that all searchers of an engine search now.
//!
//! New work replaces the old job at once, and the first solution ends it. A searcher notices both
//! by one atomic read for each batch. Solutions of a replaced job are still accepted, because its
//! source may still pay them. Knows nothing of hashing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// Whether a solution was accepted.
    is_solved: AtomicBool,
    cache: OnceLock<Arc<LightCache>>,
}

impl SearchJob {
    /// Whether the searches for both jobs find the same solutions, apart from the boundary.
    fn finds_the_same(&self, work: &WorkPackage, nonces: NonceSpace) -> bool {
        self.work.header_hash == work.header_hash && self.work.epoch == work.epoch && self.nonces == nonces
    }
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
    /// Solutions of the jobs up to this number are useless, because a pause came after them.
    last_id_before_pause: u64,
    stopping: bool,
}

impl CurrentJobState {
    /// Whether a solution of `job` is still useful. The job may have been replaced.
    fn wants_solution(&self, job: &SearchJob) -> bool {
        // The search for a job with the same header and nonces may find the same solution again.
        let is_found_again =
            |current: &Arc<SearchJob>| current.id != job.id && current.finds_the_same(&job.work, job.nonces);
        !self.stopping
            && job.id > self.last_id_before_pause
            && (job.repeat || !job.is_solved.load(Ordering::Relaxed))
            && !self.job.as_ref().is_some_and(is_found_again)
    }
}

impl CurrentJob {
    /// Makes `task` the current job and returns that job. `None` pauses the search.
    ///
    /// Returns `None` if there is no new job: after a pause, after [`stop`](Self::stop), or if the
    /// task equals that of the current job. Polled sources send the same work again and again, and
    /// a job that has its solution must not be searched again, unless more solutions are wanted
    /// now.
    pub(crate) fn set(&self, task: Option<SearchTask>) -> Option<Arc<SearchJob>> {
        let mut state = self.state.lock();
        let Some(SearchTask { work, nonces, repeat }) = task else {
            state.job = None;
            state.last_id_before_pause = state.last_id;
            self.active.store(IDLE, Ordering::Relaxed);
            self.changed.notify_all();
            return None;
        };
        let same = |job: &Arc<SearchJob>| {
            job.finds_the_same(&work, nonces) && job.work.boundary == work.boundary && job.repeat == repeat
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
            is_solved: AtomicBool::new(false),
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

    /// Whether a solution of `job` would be accepted now.
    pub(crate) fn wants_solution(&self, job: &SearchJob) -> bool {
        self.state.lock().wants_solution(job)
    }

    /// Records that `job` has a solution. Unless the job allows several solutions, this ends its
    /// search.
    ///
    /// Returns false if the solution is useless: after a pause, if the job already has its only
    /// solution, or if the current job finds the same one again. A job that was replaced by another
    /// is no reason.
    pub(crate) fn accept_solution(&self, job: &SearchJob) -> bool {
        if !self.wants_solution(job) {
            return false;
        }
        let is_first = !job.is_solved.swap(true, Ordering::Relaxed);
        if !job.repeat {
            self.finish(job);
        }
        job.repeat || is_first
    }

    /// Ends the search for `job`, if it is the current one.
    pub(crate) fn finish(&self, job: &SearchJob) {
        let mut state = self.state.lock();
        if state.job.as_ref().is_some_and(|current| current.id == job.id) {
            state.done = true;
            self.active.store(IDLE, Ordering::Relaxed);
            self.changed.notify_all();
        }
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
        assert!(current.accept_solution(&job), "a replaced job still pays");
        assert!(current.accept_solution(&next));
    }

    #[test]
    fn a_replaced_job_still_gets_its_solutions() {
        let current = CurrentJob::default();
        let repeated = |header, boundary| SearchTask {
            repeat: true,
            ..work(header, boundary)
        };
        let set = |task| current.set(Some(task)).expect("new work");
        let [single, shares] = [work(1, 9), repeated(2, 9)].map(set);
        let newest = set(work(3, 9));
        assert!(current.wants_solution(&single) && current.accept_solution(&single));
        assert!(current.is_active(&newest), "the search for the new job goes on");
        assert!(
            !current.wants_solution(&single) && !current.accept_solution(&single),
            "this job allows one solution only"
        );
        assert!(current.accept_solution(&shares) && current.accept_solution(&shares));
        let easier = set(repeated(2, 10));
        assert!(
            !current.accept_solution(&shares) && current.accept_solution(&easier),
            "the new job finds the same solutions again"
        );
        assert!(current.accept_solution(&newest));
        current.set(None);
        assert!(
            !current.accept_solution(&easier),
            "a pause ends all jobs before it"
        );
        let next = set(work(4, 9));
        assert!(!current.accept_solution(&easier) && current.accept_solution(&next));
        let last = set(repeated(5, 9));
        current.stop();
        assert!(!current.accept_solution(&last), "the engine stops");
    }

    #[test]
    fn solved_work_is_searched_again_once_more_solutions_are_wanted() {
        let current = CurrentJob::default();
        let job = current.set(Some(work(1, 9))).expect("new work");
        assert!(current.accept_solution(&job) && current.get().is_none());
        let shares = SearchTask {
            repeat: true,
            ..work(1, 9)
        };
        let again = current.set(Some(shares)).expect("more solutions are wanted");
        assert!(current.is_active(&again) && current.accept_solution(&again));
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
    fn a_job_is_solved_once() {
        let current = CurrentJob::default();
        let job = current.set(Some(work(1, 9))).expect("new work");
        assert!(current.accept_solution(&job));
        assert!(!current.accept_solution(&job), "only the first solution counts");
        assert!(current.get().is_none());
        assert!(
            current.set(Some(work(1, 9))).is_none(),
            "solved work is not searched again"
        );
        let next = current.set(Some(work(2, 9))).expect("new work");
        assert!(!current.accept_solution(&job), "a late solution of the old job");
        current.finish(&job);
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
