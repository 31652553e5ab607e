//! The jobs of the Stratum server: the newest job, and older jobs that miners may still have shares
//! for.
//!
//! Jobs are numbered. The first job after a new head starts a new generation, and shares for jobs
//! of older generations are stale. Between a new head and its first job, which may take a second,
//! there is no other work, so shares still count.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use chain::mining::work::WORK_LIFETIME;
use ethash::{B256, WorkPackage};
use parking_lot::Mutex;
use tokio::sync::watch;

/// Most jobs that are kept.
const JOBS_MAX: usize = 64;
/// Most nonces of one job that are kept, to recognize duplicate shares.
const SHARES_MAX: usize = 200_000;

/// A work package with a number.
#[derive(Debug)]
pub(crate) struct StratumJob {
    pub(crate) number: u64,
    pub(crate) package: WorkPackage,
    /// Number of heads so far that had work.
    pub(crate) generation: u64,
    /// Whether the job is the first one of its generation.
    pub(crate) clean: bool,
    /// The time at which the work manager sent the work.
    pub(crate) received_at: Instant,
    /// The number of workers that the job was sent to.
    pub(crate) sent: AtomicU64,
    /// Nonces of the shares so far.
    nonces: Mutex<HashSet<u64>>,
}

/// Whether a job had a share with the same nonce before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NonceStatus {
    New,
    Duplicate,
    /// The job has had too many shares to tell.
    Unknown,
}

/// Whether the work of a job is still wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobAge {
    Current,
    /// The head has changed and the new head has no work yet. Shares count, but a block of this job
    /// will not become the head.
    HeadChanged,
    /// There is work on another head. Shares are stale.
    Stale,
}

impl StratumJob {
    /// Whether a valid share with this nonce was recorded.
    pub(crate) fn has_nonce(&self, pow_nonce: u64) -> bool {
        self.nonces.lock().contains(&pow_nonce)
    }

    /// Records the nonce of a share.
    pub(crate) fn record_nonce(&self, pow_nonce: u64) -> NonceStatus {
        let mut nonces = self.nonces.lock();
        if nonces.len() >= SHARES_MAX {
            NonceStatus::Unknown
        } else if nonces.insert(pow_nonce) {
            NonceStatus::New
        } else {
            NonceStatus::Duplicate
        }
    }
}

/// The newest job and the jobs before it.
#[derive(Debug)]
pub(crate) struct JobHistory {
    state: Mutex<JobHistoryState>,
    /// Number of the newest job; 0 before the first.
    latest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct JobHistoryState {
    /// The oldest job first.
    jobs: VecDeque<Arc<StratumJob>>,
    last_number: u64,
    generation: u64,
    /// The head has just changed, and there is no work yet.
    head_changed: bool,
}

impl Default for JobHistory {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            latest: watch::Sender::new(0),
        }
    }
}

impl JobHistory {
    /// Adds the work that the work manager sends. `None` means that the head has changed and the
    /// work so far is over.
    pub(crate) fn update(&self, package: Option<WorkPackage>) {
        let mut state = self.state.lock();
        let Some(package) = package else {
            state.head_changed = true;
            return;
        };
        let clean = state.head_changed || state.jobs.is_empty();
        state.generation += u64::from(state.head_changed);
        state.head_changed = false;
        state.last_number += 1;
        let job = StratumJob {
            number: state.last_number,
            package,
            generation: state.generation,
            clean,
            received_at: Instant::now(),
            sent: AtomicU64::new(0),
            nonces: Mutex::default(),
        };
        state.jobs.push_back(Arc::new(job));
        let is_over = |job: &Arc<StratumJob>| job.received_at.elapsed() > WORK_LIFETIME;
        while state.jobs.len() > JOBS_MAX || (state.jobs.len() > 1 && state.jobs.front().is_some_and(is_over))
        {
            state.jobs.pop_front();
        }
        let number = state.last_number;
        drop(state);
        self.latest.send_replace(number);
    }

    /// A receiver that sees the number of each new job.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    /// The newest job. Between a new head and its first work this is a job on the old head, whose
    /// blocks can still become uncles.
    pub(crate) fn newest(&self) -> Option<Arc<StratumJob>> {
        self.state.lock().jobs.back().cloned()
    }

    /// Whether there ever was a job with this number.
    pub(crate) fn was_issued(&self, number: u64) -> bool {
        (1..=self.state.lock().last_number).contains(&number)
    }

    /// The job with this number, if it is kept.
    pub(crate) fn by_number(&self, number: u64) -> Option<Arc<StratumJob>> {
        let state = self.state.lock();
        state.jobs.iter().find(|job| job.number == number).cloned()
    }

    /// The newest job with this header hash, if it is kept.
    pub(crate) fn by_header(&self, header_hash: &B256) -> Option<Arc<StratumJob>> {
        let state = self.state.lock();
        let mut newest_first = state.jobs.iter().rev();
        newest_first
            .find(|job| job.package.header_hash == *header_hash)
            .cloned()
    }

    /// Whether the work of `job` is still wanted.
    pub(crate) fn age(&self, job: &StratumJob) -> JobAge {
        let state = self.state.lock();
        if job.generation != state.generation {
            JobAge::Stale
        } else if state.head_changed {
            JobAge::HeadChanged
        } else {
            JobAge::Current
        }
    }
}

#[cfg(test)]
mod tests {
    use ethash::Epoch;

    use super::*;

    fn package(mark: u8) -> WorkPackage {
        let epoch = Epoch::ethash(0);
        WorkPackage {
            header_hash: B256::repeat_byte(mark),
            seed_hash: epoch.seed_hash(),
            boundary: B256::repeat_byte(0xff),
            number: Some(1),
            epoch,
        }
    }

    #[test]
    fn a_new_head_makes_jobs_stale_and_new_transactions_do_not() {
        let history = JobHistory::default();
        let newest_number = history.subscribe();
        history.update(None);
        assert!(history.newest().is_none());
        history.update(Some(package(1)));
        history.update(Some(package(2)));
        let [first, second] = [1, 2].map(|number| history.by_number(number).expect("the job is kept"));
        assert!(first.clean && !second.clean);
        assert_eq!(history.age(&first), JobAge::Current);
        assert_eq!(history.age(&second), JobAge::Current);
        assert_eq!(*newest_number.borrow(), 2);
        history.update(None);
        history.update(None);
        assert_eq!(history.age(&second), JobAge::HeadChanged);
        assert_eq!(
            history.newest().map(|job| job.number),
            Some(2),
            "there is no other work yet"
        );
        history.update(Some(package(3)));
        let third = history.newest().expect("there is work");
        assert!(third.clean);
        assert_eq!(history.age(&third), JobAge::Current);
        assert_eq!(history.age(&first), JobAge::Stale);
        assert_eq!(history.age(&second), JobAge::Stale);
        assert_eq!(
            history.by_header(&B256::repeat_byte(2)).map(|job| job.number),
            Some(2)
        );
        assert!(history.by_number(9).is_none() && history.by_header(&B256::ZERO).is_none());
    }

    #[test]
    fn old_jobs_are_dropped_and_duplicate_shares_recognized() {
        let history = JobHistory::default();
        for mark in 0..=JOBS_MAX {
            history.update(Some(package(mark as u8)));
        }
        assert!(history.by_number(1).is_none() && history.by_number(2).is_some());
        let last = JOBS_MAX as u64 + 1;
        assert_eq!(
            [0, 1, last, last + 1].map(|number| history.was_issued(number)),
            [false, true, true, false]
        );
        let job = history.newest().expect("there is work");
        assert!(!job.has_nonce(5));
        assert_eq!(
            [5, 5, 6].map(|nonce| job.record_nonce(nonce)),
            [NonceStatus::New, NonceStatus::Duplicate, NonceStatus::New]
        );
        assert!(job.has_nonce(5));
    }
}
