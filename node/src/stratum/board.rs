//! The board: the present job and those before it that shares may still belong to.
//!
//! Jobs are numbered. The first job after a new head begins a new generation: shares of the one before are stale.
//! Until there is one, which may take a second, nobody could search for anything else, and shares count.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use chain::mining::work::WORK_LIFETIME;
use ethash::{B256, WorkPackage};
use parking_lot::Mutex;
use tokio::sync::watch;

/// Most jobs that are remembered.
const JOBS_MAX: usize = 64;
/// Most shares of one job that are remembered, to know them again.
const SHARES_MAX: usize = 200_000;

/// A piece of work under a number.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) package: WorkPackage,
    /// Counts the heads that were mined on.
    pub(super) generation: u64,
    /// It begins its generation.
    pub(super) clean: bool,
    /// When the desk gave it.
    pub(super) at: Instant,
    /// To how many workers it was sent.
    pub(super) sent: AtomicU64,
    /// Nonces of its shares so far.
    nonces: Mutex<HashSet<u64>>,
}

/// Whether a share is the first of its nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    New,
    Known,
    /// There are too many to tell.
    TooMany,
}

impl Job {
    /// Takes note of a share's nonce.
    pub(super) fn note(&self, pow_nonce: u64) -> Novelty {
        let mut nonces = self.nonces.lock();
        if nonces.len() >= SHARES_MAX {
            Novelty::TooMany
        } else if nonces.insert(pow_nonce) {
            Novelty::New
        } else {
            Novelty::Known
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Board {
    state: Mutex<State>,
    /// The number of the present job, 0 before the first. Waiting for it is waiting for work.
    latest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Arc<Job>>,
    last_number: u64,
    generation: u64,
    /// There is no work now: the head has just changed.
    pausing: bool,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            latest: watch::Sender::new(0),
        }
    }
}

impl Board {
    /// Takes what the desk gives: new work, or none, which means that the work before is over.
    pub(super) fn put(&self, package: Option<WorkPackage>) {
        let mut state = self.state.lock();
        let Some(package) = package else {
            state.pausing = true;
            return;
        };
        let clean = state.pausing || state.jobs.is_empty();
        state.generation += u64::from(state.pausing);
        state.pausing = false;
        state.last_number += 1;
        let job = Job {
            number: state.last_number,
            package,
            generation: state.generation,
            clean,
            at: Instant::now(),
            sent: AtomicU64::new(0),
            nonces: Mutex::default(),
        };
        state.jobs.push_back(Arc::new(job));
        let is_over = |job: &Arc<Job>| job.at.elapsed() > WORK_LIFETIME;
        while state.jobs.len() > JOBS_MAX || (state.jobs.len() > 1 && state.jobs.front().is_some_and(is_over))
        {
            state.jobs.pop_front();
        }
        let number = state.last_number;
        drop(state);
        self.latest.send_replace(number);
    }

    /// Tells of new jobs.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    /// The newest job. In the moment between a head and its work that is the one before: searching on may
    /// still give an uncle.
    pub(super) fn newest(&self) -> Option<Arc<Job>> {
        self.state.lock().jobs.back().cloned()
    }

    /// Job `number`, if it is remembered.
    pub(super) fn by_number(&self, number: u64) -> Option<Arc<Job>> {
        let state = self.state.lock();
        state.jobs.iter().find(|job| job.number == number).cloned()
    }

    /// The newest job with this header, if it is remembered.
    pub(super) fn by_header(&self, header_hash: &B256) -> Option<Arc<Job>> {
        let state = self.state.lock();
        let mut newest_first = state.jobs.iter().rev();
        newest_first
            .find(|job| job.package.header_hash == *header_hash)
            .cloned()
    }

    /// Whether shares of `job` come too late: there is work on another head.
    pub(super) fn is_stale(&self, job: &Job) -> bool {
        job.generation != self.state.lock().generation
    }

    /// Whether a block of `job` comes too late: the head is another one.
    pub(super) fn is_late(&self, job: &Job) -> bool {
        let state = self.state.lock();
        state.pausing || job.generation != state.generation
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
    fn a_head_makes_the_jobs_before_stale_and_better_transactions_do_not() {
        let board = Board::default();
        let jobs = board.subscribe();
        board.put(None);
        assert!(board.newest().is_none());
        board.put(Some(package(1)));
        board.put(Some(package(2)));
        let [first, second] = [1, 2].map(|number| board.by_number(number).expect("remembered"));
        assert!(first.clean && !second.clean);
        assert!(!board.is_stale(&first) && !board.is_stale(&second));
        assert_eq!(*jobs.borrow(), 2);
        board.put(None);
        board.put(None);
        assert!(board.is_late(&second), "the head has changed");
        assert!(!board.is_stale(&second), "there is nothing else to search");
        assert_eq!(
            board.newest().map(|job| job.number),
            Some(2),
            "nothing else to search yet"
        );
        board.put(Some(package(3)));
        let third = board.newest().expect("there is work");
        assert!(third.clean && !board.is_stale(&third) && !board.is_late(&third));
        assert!(board.is_stale(&first) && board.is_late(&second));
        assert_eq!(
            board.by_header(&B256::repeat_byte(2)).map(|job| job.number),
            Some(2)
        );
        assert!(board.by_number(9).is_none() && board.by_header(&B256::ZERO).is_none());
    }

    #[test]
    fn old_jobs_are_forgotten_and_shares_known_again() {
        let board = Board::default();
        for mark in 0..=JOBS_MAX {
            board.put(Some(package(mark as u8)));
        }
        assert!(board.by_number(1).is_none() && board.by_number(2).is_some());
        let job = board.newest().expect("there is work");
        assert_eq!(
            (job.note(5), job.note(5), job.note(6)),
            (Novelty::New, Novelty::Known, Novelty::New)
        );
    }
}
