//! The desk: the one piece of work that all searchers of an engine share.
//!
//! New work replaces the old at once, the first solution ends it, and a searcher learns of either by one
//! atomic read per batch. Knows nothing of hashing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ethash::{Epoch, LightCache, WorkPackage};
use parking_lot::{Condvar, Mutex};

use crate::task::{NonceSpace, Task};

/// No job is to be searched.
const IDLE: u64 = 0;

/// A task with a number of its own.
#[derive(Debug)]
pub(crate) struct Job {
    /// Counts up from 1 with every new piece of work.
    pub(crate) id: u64,
    pub(crate) work: WorkPackage,
    pub(crate) nonces: NonceSpace,
    /// Whether the search goes on after a solution.
    repeat: bool,
    cache: OnceLock<Arc<LightCache>>,
}

#[derive(Debug, Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    changed: Condvar,
    /// The job to be searched now, or `IDLE`.
    active: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    job: Option<Arc<Job>>,
    /// The job has its solution, or cannot be searched.
    done: bool,
    /// The epoch of the latest work, also while there is none.
    epoch: Option<Epoch>,
    last_id: u64,
    stopping: bool,
}

impl Desk {
    /// Lays new work on the desk, or takes the old away. Gives the new job.
    ///
    /// The same header, boundary and nonces as the present job's are no new work: sources that are polled
    /// repeat themselves, and a solved job must not be solved again.
    pub(crate) fn put(&self, task: Option<Task>) -> Option<Arc<Job>> {
        let mut state = self.state.lock();
        let Some(Task { work, nonces, repeat }) = task else {
            state.job = None;
            self.active.store(IDLE, Ordering::Relaxed);
            self.changed.notify_all();
            return None;
        };
        let same = |job: &Arc<Job>| {
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
        let job = Arc::new(Job {
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

    /// Waits for a job to be searched; `None` when the engine stops.
    pub(crate) fn take(&self) -> Option<Arc<Job>> {
        let mut state = self.state.lock();
        loop {
            match &state.job {
                _ if state.stopping => return None,
                Some(job) if !state.done => return Some(Arc::clone(job)),
                _ => self.changed.wait(&mut state),
            }
        }
    }

    /// The job to be searched now, if any; never waits.
    pub(crate) fn peek(&self) -> Option<Arc<Job>> {
        let state = self.state.lock();
        state.job.clone().filter(|_| !state.done && !state.stopping)
    }

    /// Whether `job` is still to be searched.
    pub(crate) fn is_active(&self, job: &Job) -> bool {
        self.active.load(Ordering::Relaxed) == job.id
    }

    /// Takes note that `job` has a solution, which ends the search for it unless it is to go on. False when
    /// the solution comes too late.
    pub(crate) fn solve(&self, job: &Job) -> bool {
        if job.repeat {
            self.is_active(job)
        } else {
            self.finish(job)
        }
    }

    /// Ends the search for `job`; true for the first who asks while it is active.
    pub(crate) fn finish(&self, job: &Job) -> bool {
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
    pub(crate) fn bring_cache(&self, job: &Job, cache: Arc<LightCache>) {
        // Only one thread brings it; a second would bring the same.
        let _ = job.cache.set(cache);
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    /// Waits for the light cache of `job`; `None` when the job is no longer to be searched.
    pub(crate) fn cache_of(&self, job: &Job) -> Option<Arc<LightCache>> {
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

    /// Waits until `job` is no longer to be searched.
    pub(crate) fn outwait(&self, job: &Job) {
        let mut state = self.state.lock();
        while self.is_active(job) {
            self.changed.wait(&mut state);
        }
    }

    /// Waits until the latest work is of another epoch than `epoch`, `at_most` so long.
    pub(crate) fn outwait_epoch(&self, epoch: Epoch, at_most: Duration) {
        let end = Instant::now() + at_most;
        let mut state = self.state.lock();
        while !state.stopping && state.epoch == Some(epoch) {
            if self.changed.wait_until(&mut state, end).timed_out() {
                return;
            }
        }
    }

    /// Whether the latest work is of `epoch` and the engine goes on.
    pub(crate) fn wants_epoch(&self, epoch: Epoch) -> bool {
        let state = self.state.lock();
        !state.stopping && state.epoch == Some(epoch)
    }

    /// Sleeps, though not beyond the engine's stop.
    pub(crate) fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut state = self.state.lock();
        while !state.stopping && !self.changed.wait_until(&mut state, end).timed_out() {}
    }

    /// Ends everything: nobody waits here any more.
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

    fn work(header: u8, boundary: u8) -> Task {
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
    fn work_that_goes_on_is_solved_many_times() {
        let desk = Desk::default();
        let shares = Task {
            repeat: true,
            ..work(1, 9)
        };
        let job = desk.put(Some(shares.clone())).expect("new work");
        assert!(desk.solve(&job) && desk.solve(&job) && desk.is_active(&job));
        let elsewhere = Task {
            nonces: NonceSpace::new(1 << 63, 1),
            ..shares
        };
        let next = desk.put(Some(elsewhere)).expect("other nonces are new work");
        assert!(!desk.solve(&job), "too late");
        assert!(desk.solve(&next));
    }

    #[test]
    fn whoever_has_no_nonces_left_waits_for_the_next_job() {
        let desk = Desk::default();
        let job = desk.put(Some(work(1, 9))).expect("new work");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| desk.outwait(&job));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            desk.put(Some(work(2, 9)));
            waiting.join().expect("no panic");
        });
    }

    #[test]
    fn whoever_cannot_search_an_epoch_waits_for_another() {
        let desk = Desk::default();
        desk.put(Some(work(1, 9)));
        let epoch = Epoch::ethash(0);
        desk.outwait_epoch(epoch, Duration::from_millis(1));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| desk.outwait_epoch(epoch, Duration::from_secs(600)));
            desk.put(Some(work(2, 9)));
            desk.put(None);
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished(), "the epoch is the same");
            let mut next = work(3, 9);
            next.work.epoch = Epoch::ethash(1);
            desk.put(Some(next));
            waiting.join().expect("no panic");
            let waiting = scope.spawn(|| desk.outwait_epoch(Epoch::ethash(1), Duration::from_secs(600)));
            desk.stop();
            waiting.join().expect("no panic");
        });
    }

    #[test]
    fn new_work_replaces_old_and_repeated_work_does_not() {
        let desk = Desk::default();
        let first = desk.put(Some(work(1, 9))).expect("new work");
        assert!(desk.is_active(&first));
        assert!(desk.put(Some(work(1, 9))).is_none(), "the same again");
        assert!(desk.is_active(&first));
        let harder = desk.put(Some(work(1, 8))).expect("another boundary is new work");
        assert!(!desk.is_active(&first) && desk.is_active(&harder));
        assert_eq!(desk.take().map(|job| job.id), Some(harder.id));
    }

    #[test]
    fn a_job_is_solved_once() {
        let desk = Desk::default();
        let job = desk.put(Some(work(1, 9))).expect("new work");
        assert!(desk.finish(&job));
        assert!(!desk.finish(&job), "only the first solution counts");
        assert!(desk.peek().is_none());
        assert!(
            desk.put(Some(work(1, 9))).is_none(),
            "solved work is not searched again"
        );
        let next = desk.put(Some(work(2, 9))).expect("new work");
        assert!(!desk.finish(&job), "a late solution of the old job");
        assert!(desk.is_active(&next));
    }

    #[test]
    fn a_pause_ends_the_search_and_keeps_the_epoch() {
        let desk = Desk::default();
        let job = desk.put(Some(work(1, 9))).expect("new work");
        desk.put(None);
        assert!(!desk.is_active(&job) && desk.peek().is_none());
        assert!(desk.wants_epoch(Epoch::ethash(0)) && !desk.wants_epoch(Epoch::ethash(1)));
        assert!(
            desk.put(Some(work(1, 9))).is_some(),
            "after a pause the same work is new"
        );
    }

    #[test]
    fn stopping_wakes_everyone() {
        let desk = Desk::default();
        let job = desk.put(Some(work(1, 9))).expect("new work");
        std::thread::scope(|scope| {
            let cache = scope.spawn(|| desk.cache_of(&job).is_none());
            let sleeper = scope.spawn(|| desk.sleep(Duration::from_secs(600)));
            std::thread::sleep(Duration::from_millis(20));
            desk.stop();
            assert!(cache.join().expect("no panic"));
            sleeper.join().expect("no panic");
        });
        assert!(desk.take().is_none());
        assert!(desk.put(Some(work(2, 9))).is_none());
    }
}
