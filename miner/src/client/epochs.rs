//! Which epochs an endpoint may name.
//!
//! An epoch costs memory and time: a light cache, and a dataset on every device. So the epoch of a
//! job is checked before the engine gets the job:
//!
//! - It must be one that a chain can have reached.
//! - The devices of this rig must have the memory for it.
//! - Within a session, it moves only as fast as a chain does.
//! - The first job of a session may name any such epoch, because some pools change between chains.
//!   An endpoint may do this a few times in an hour.
//!
//! Every endpoint has its own history, so that pools of different chains do not disturb each other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::EpochRefusal;
use ethash::Epoch;
use parking_lot::Mutex;

use super::error::ClientError;

/// The highest accepted epoch. Its dataset has 33 GiB. No public chain has come to a quarter of it
/// in ten years.
const EPOCH_MAX: u32 = 4095;
/// Seed steps by which a session may move within [`PERIOD`]. A step is an epoch of 30,000
/// blocks; an epoch of 60,000 blocks has two. So this is two of the long epochs, and a chain with
/// a block a second needs 33 hours for them.
const STEPS_MAX: u32 = 4;
/// The number of times that an endpoint may begin a session far from its last epoch within
/// [`PERIOD`].
const CHANGES_MAX: usize = 12;
/// The time in which both are counted.
const PERIOD: Duration = Duration::from_secs(3600);

/// Tells whether the devices of the rig can search an epoch, and if not, why.
pub type EpochCheck = dyn Fn(Epoch) -> Result<(), EpochRefusal> + Send + Sync;

/// The epochs that an endpoint has named.
#[derive(Debug, Default)]
pub(super) struct EpochHistory(Mutex<EpochHistoryState>);

#[derive(Debug, Default)]
struct EpochHistoryState {
    /// The seed steps of the latest job.
    last: Option<u32>,
    /// The times at which sessions began far from the job before them.
    changes: VecDeque<Instant>,
}

/// The epochs of one session.
pub(super) struct SessionEpochs {
    history: Arc<EpochHistory>,
    check: Arc<EpochCheck>,
    /// The seed steps that later ones are compared with, and since when. `None` before the first
    /// job.
    reference: Option<(u32, Instant)>,
    /// The epoch of the latest job.
    last: Option<Epoch>,
}

impl SessionEpochs {
    /// A session without a job.
    pub(super) fn new(history: Arc<EpochHistory>, check: Arc<EpochCheck>) -> Self {
        Self {
            history,
            check,
            reference: None,
            last: None,
        }
    }

    /// Accepts the epoch of a job that came at the time `now`.
    ///
    /// # Errors
    /// [`ClientError::EpochTooHigh`], [`ClientError::EpochTooFar`], [`ClientError::EpochChanges`]
    /// and [`ClientError::EpochTooLarge`]. The job must then not reach the engine.
    pub(super) fn accept(&mut self, epoch: Epoch, now: Instant) -> Result<(), ClientError> {
        if self.last == Some(epoch) {
            return Ok(());
        }
        let (got, steps) = (epoch.index, epoch.seed_steps);
        if got > EPOCH_MAX {
            return Err(ClientError::EpochTooHigh { got, max: EPOCH_MAX });
        }
        let mut reference = self.reference.unwrap_or((steps, now));
        if now.duration_since(reference.1) > PERIOD {
            reference = (self.last.map_or(steps, |last| last.seed_steps), now);
        }
        if reference.0.abs_diff(steps) > STEPS_MAX {
            return Err(ClientError::EpochTooFar {
                got,
                steps,
                min: reference.0.saturating_sub(STEPS_MAX),
                max: reference.0.saturating_add(STEPS_MAX),
            });
        }
        (self.check)(epoch).map_err(|reason| ClientError::EpochTooLarge { got, reason })?;
        self.history.accept(steps, now)?;
        self.reference = Some(reference);
        self.last = Some(epoch);
        Ok(())
    }
}

impl EpochHistory {
    /// Records the seed steps of a job, and whether they are far from those of the job before.
    fn accept(&self, steps: u32, now: Instant) -> Result<(), ClientError> {
        let mut state = self.0.lock();
        if state.last.is_some_and(|last| last.abs_diff(steps) > STEPS_MAX) {
            while (state.changes.front()).is_some_and(|time| now.duration_since(*time) > PERIOD) {
                state.changes.pop_front();
            }
            if state.changes.len() >= CHANGES_MAX {
                return Err(ClientError::EpochChanges {
                    got: state.changes.len() + 1,
                    max: CHANGES_MAX,
                });
            }
            state.changes.push_back(now);
        }
        state.last = Some(steps);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches epochs below 3000.
    fn session(history: &Arc<EpochHistory>) -> SessionEpochs {
        let check = |epoch: Epoch| {
            let fits = epoch.index < 3000;
            fits.then_some(()).ok_or(EpochRefusal::Ended)
        };
        SessionEpochs::new(Arc::clone(history), Arc::new(check))
    }

    fn error(result: Result<(), ClientError>) -> String {
        result.expect_err("the epoch is refused").to_string()
    }

    #[test]
    fn a_session_moves_as_fast_as_a_chain() {
        let history = Arc::default();
        let mut session = session(&history);
        let now = Instant::now();
        let hours = |hours: u64| now + Duration::from_secs(hours * 3601);
        session.accept(Epoch::ethash(700), now).expect("the first");
        for near in [701, 702, 704, 696, 700] {
            session.accept(Epoch::ethash(near), now).expect("near");
        }
        for far in [705, 695, 0, 2999] {
            let got = error(session.accept(Epoch::ethash(far), now));
            assert!(
                got.contains(&format!("epoch: got {far} ")) && got.contains("696 to 704"),
                "{got}"
            );
        }
        session
            .accept(Epoch::ethash(704), now)
            .expect("a refused job changes nothing");
        session
            .accept(Epoch::ethash(708), hours(1))
            .expect("an hour later");
        error(session.accept(Epoch::ethash(709), hours(1)));
        session
            .accept(Epoch::ethash(709), hours(3))
            .expect("an hour later again");
    }

    #[test]
    fn long_epochs_have_room_for_two() {
        let history = Arc::default();
        let mut session = session(&history);
        let now = Instant::now();
        for index in [370, 371, 372, 369, 368] {
            session.accept(Epoch::etchash(index), now).expect("near");
        }
        error(session.accept(Epoch::etchash(373), now));
        // The same number of an epoch of another schedule is another chain.
        error(session.accept(Epoch::ethash(370), now));
    }

    #[test]
    fn epochs_that_no_chain_has_or_no_device_holds_are_refused() {
        let history = Arc::default();
        let mut session = session(&history);
        let now = Instant::now();
        let got = error(session.accept(Epoch::ethash(32_639), now));
        assert_eq!(
            got,
            "epoch: got 32639, expected at most 4095, which no public chain has reached"
        );
        let got = error(session.accept(Epoch::ethash(3000), now));
        assert_eq!(got, "epoch 3000 cannot be searched here: the engine has ended");
        session
            .accept(Epoch::ethash(5), now)
            .expect("a refused job sets no epoch");
    }

    #[test]
    fn an_endpoint_may_change_between_chains_a_few_times() {
        let history = Arc::default();
        let now = Instant::now();
        let begin = |steps: u32, now| session(&history).accept(Epoch::ethash(steps), now);
        begin(100, now).expect("the first chain");
        for change in 0..CHANGES_MAX as u32 {
            begin(if change % 2 == 0 { 800 } else { 100 }, now).expect("few changes");
            begin(if change % 2 == 0 { 801 } else { 99 }, now).expect("the same chain");
        }
        let got = error(begin(800, now));
        assert!(
            got.contains("got 13 within an hour, expected at most 12"),
            "{got}"
        );
        begin(101, now).expect("the chain of the last session");
        begin(800, now + PERIOD * 2).expect("hours later");
        let other = Arc::default();
        session(&other)
            .accept(Epoch::ethash(3), now)
            .expect("another endpoint");
    }
}
