//! Runs the synchronization of a node: its jobs on threads, its progress in the log.
//!
//! [`ChainSync`] joins the state machine with a running chain. Whoever runs it hands over news of
//! peers, the time and the outcomes of jobs, all on one thread, and carries out the orders. Jobs of
//! a kind are done in order, by a thread for each kind. Their queues are short, because the state
//! machine has bounds for what is under way. Knows threads and the chain; knows no sockets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use chain::mining::pause::WorkPause;
use chain::{Chain, View, unix_now};
use crossbeam_channel::{Sender, bounded};
use parking_lot::Mutex;
use primitives::{B256, catch_panic};
use store::StoreError;

use super::jobs::{ChainRefusal, SyncJob, SyncOutcome, run_job};
use super::network_watch::NetworkWatch;
use super::state_fetch::{StateProgress, StateSync};
use super::{CHAIN_RETRY, SyncActions, SyncState, Synchronizer};
use crate::moment::Moment;
use crate::peers::{PeerNews, PeerOrder};
use crate::snap::client::{SnapFigures, SnapPhase};

/// Time between two lines of the log about the progress.
const LOG_INTERVAL: Duration = Duration::from_secs(8);
/// Time between two lines of the log while there are no peers.
const REMINDER_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two looks at the network if nothing else happens.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The jobs of a kind that may wait. The state machine has one job for headers, two for bodies and
/// two for blocks under way. Jobs that forget a block come at most every few seconds, so this is
/// room for hours of a disk that stands still. If there were more, [`SyncDriver::run`] would wait.
const LANE_JOBS_MAX: usize = 1024;

/// Takes the outcome of a job. It must not wait.
pub(super) type TakeOutcome = dyn Fn(SyncOutcome) + Send + Sync;

/// Threads that do the jobs of a synchronization.
pub(crate) struct SyncDriver {
    headers: Sender<SyncJob>,
    bodies: Sender<SyncJob>,
    blocks: Sender<SyncJob>,
}

impl SyncDriver {
    /// Starts the threads. Each outcome is given to `take`, on one of them. The threads end when
    /// the driver is dropped, after their current job.
    ///
    /// # Errors
    /// If the system gives no threads.
    pub(crate) fn start(chain: &Chain, take: &Arc<TakeOutcome>) -> std::io::Result<Self> {
        let lane = |name: &str| {
            let (sender, jobs) = bounded(LANE_JOBS_MAX);
            let (chain, take) = (chain.clone(), take.clone());
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || jobs.into_iter().for_each(|job| take(run_on_chain(&chain, job))))
                .map(|_| sender)
        };
        Ok(Self {
            headers: lane("sync-headers")?,
            bodies: lane("sync-bodies")?,
            blocks: lane("sync-blocks")?,
        })
    }

    pub(crate) fn run(&self, job: SyncJob) {
        let lane = match &job {
            SyncJob::Headers(_) => &self.headers,
            SyncJob::Bodies { .. } => &self.bodies,
            SyncJob::Blocks(_) | SyncJob::Fill(_) | SyncJob::Forget(_) => &self.blocks,
        };
        // A thread ends only when this is dropped.
        let _ = lane.send(job);
    }
}

/// Does a job. A panic is an outcome, too, so that the state machine does not wait for ever.
fn run_on_chain(chain: &Chain, job: SyncJob) -> SyncOutcome {
    let after_panic = match &job {
        SyncJob::Headers(_) => SyncOutcome::Headers(Err(ChainRefusal::NotNow(String::new()))),
        SyncJob::Bodies { ticket, wanted, .. } => SyncOutcome::Bodies {
            ticket: *ticket,
            blocks: vec![None; wanted.len()],
            wrong: None,
        },
        SyncJob::Blocks(_) | SyncJob::Fill(_) => SyncOutcome::Blocks {
            stored: 0,
            refusal: Some(ChainRefusal::NotNow(String::new())),
        },
        SyncJob::Forget(_) => SyncOutcome::Forgotten,
    };
    catch_panic(move || run_job(chain, job)).unwrap_or_else(|panic| {
        tracing::error!(%panic, "a job of the synchronization panicked");
        after_panic
    })
}

/// The progress of the synchronization, for readers on any thread.
#[derive(Debug, Default)]
pub(crate) struct SyncShared(Mutex<SyncState>);

impl SyncShared {
    pub(crate) fn progress(&self) -> SyncState {
        *self.0.lock()
    }

    /// The block at which the running synchronization began, and the highest block that is known
    /// of. `None` if there is nothing to catch up with.
    pub(crate) fn status(&self) -> Option<(u64, u64)> {
        let progress = self.progress();
        Some((progress.started_at?, progress.highest))
    }

    /// Blocks whose headers are here and whose bodies are not.
    pub(crate) fn missing(&self) -> u64 {
        self.progress().missing
    }

    fn set(&self, progress: &SyncState) {
        *self.0.lock() = *progress;
    }
}

/// An input of the state machine that waits, because the chain cannot be read.
enum WaitingInput {
    News(PeerNews),
    Outcome(SyncOutcome),
}

/// The clock of the state machine. It stands while the chain cannot be read, because answers wait
/// meanwhile, and no peer is to blame for that.
#[derive(Debug, Default)]
struct MachineClock {
    /// The time that it has stood in all.
    stood: Duration,
    /// The time since which it stands.
    stands_since: Option<Duration>,
}

impl MachineClock {
    fn stop(&mut self, now: Moment) {
        self.stands_since.get_or_insert(now.elapsed);
    }

    fn go_on(&mut self, now: Moment) {
        if let Some(since) = self.stands_since.take() {
            self.stood += now.elapsed.saturating_sub(since);
        }
    }

    /// The time that it shows.
    const fn at(&self, now: Moment) -> Moment {
        Moment {
            elapsed: now.elapsed.saturating_sub(self.stood),
            unix: now.unix,
        }
    }
}

/// The synchronization of a running chain.
///
/// The time of all calls is that of [`Moment::elapsed`]. After each call, the orders that it
/// returned are carried out, in order, and [`ChainSync::deadline`] says when [`ChainSync::on_time`]
/// is due. While [`ChainSync::is_waiting`], all inputs are kept, so they should come later.
pub(crate) struct ChainSync {
    machine: Synchronizer,
    /// The inputs since the chain could last be read. If the state machine did not get them, it
    /// would wait for them for ever.
    waiting: VecDeque<WaitingInput>,
    /// The time at which the chain is read again after a failure.
    retry_at: Option<Duration>,
    clock: MachineClock,
    driver: SyncDriver,
    /// The state that is fetched, if one is.
    state: StateSync,
    take: Arc<TakeOutcome>,
    chain: Chain,
    shared: Arc<SyncShared>,
    log: ProgressLog,
    watch: NetworkWatch,
    /// The next look at the network, as in [`Moment::elapsed`].
    next_look: Duration,
    /// The next line of the log about a network that is not there.
    next_reminder: Duration,
}

impl ChainSync {
    /// A synchronization without peers. Outcomes of jobs come to `take` on other threads, which
    /// hands them to [`Self::job_done`].
    ///
    /// # Errors
    /// If the system gives no threads.
    pub(crate) fn start(
        chain: Chain,
        genesis: B256,
        take: impl Fn(SyncOutcome) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let take: Arc<TakeOutcome> = Arc::new(take);
        Ok(Self {
            machine: Synchronizer::new(genesis),
            waiting: VecDeque::new(),
            retry_at: None,
            clock: MachineClock::default(),
            driver: SyncDriver::start(&chain, &take)?,
            state: StateSync::full(),
            take,
            chain,
            shared: Arc::default(),
            log: ProgressLog::default(),
            watch: NetworkWatch::new(false),
            next_look: Duration::ZERO,
            next_reminder: Duration::ZERO,
        })
    }

    /// Lets miners have no work while the network is not there, from now on.
    ///
    /// # Errors
    /// If the chain cannot be read.
    pub(crate) fn with_work_for_seen_networks(mut self) -> Result<Self, StoreError> {
        self.watch = NetworkWatch::new(true);
        let now = Moment {
            elapsed: Duration::ZERO,
            unix: unix_now(),
        };
        let view = self.view()?;
        let head = view.head_number();
        let progress = SyncState {
            head,
            best_header: head,
            highest: head,
            ..SyncState::default()
        };
        self.look_at_network(now, &view, &progress);
        Ok(self)
    }

    /// Fetches the state of a recent block if the chain has block 0 only. Goes on with one that was
    /// begun.
    ///
    /// # Errors
    /// If the chain cannot be read.
    pub(crate) fn with_fetched_state(mut self) -> Result<Self, StoreError> {
        self.state = StateSync::wanted(&self.view()?)?;
        if self.state.holds_blocks() {
            // Nothing is imported before the first plan is made.
            self.machine.fill_to(Some(0));
        }
        Ok(self)
    }

    /// Leaves the lines between begin and end out of the log. Someone else shows the progress.
    #[must_use]
    pub(crate) const fn without_progress_lines(mut self) -> Self {
        self.log.is_quiet = true;
        self
    }

    pub(crate) const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The progress of the synchronization, for readers on any thread.
    pub(crate) fn shared(&self) -> Arc<SyncShared> {
        self.shared.clone()
    }

    /// Something has happened with peers.
    pub(crate) fn handle(&mut self, now: Moment, news: PeerNews) -> Vec<PeerOrder> {
        match self.state.news(news) {
            Some(news) => self.with_view(now, Some(WaitingInput::News(news))),
            None => Vec::new(),
        }
    }

    /// A job has ended.
    pub(crate) fn job_done(&mut self, now: Moment, outcome: SyncOutcome) -> Vec<PeerOrder> {
        if let SyncOutcome::State(report) = outcome {
            let mut orders = self.state.take(now, report);
            orders.extend(self.on_time(now));
            return orders;
        }
        self.with_view(now, Some(WaitingInput::Outcome(outcome)))
    }

    /// The time has come that [`Self::deadline`] has named. It does no harm to call this earlier,
    /// for example after the head has moved.
    pub(crate) fn on_time(&mut self, now: Moment) -> Vec<PeerOrder> {
        self.with_view(now, None)
    }

    /// Whether the chain cannot be read for now.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.retry_at.is_some()
    }

    /// The time at which [`Self::on_time`] is due.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        if self.is_waiting() {
            return self.retry_at;
        }
        let looks = self.watch.needs_peers() || self.state.holds_blocks();
        let looks = looks.then_some(self.next_look);
        let due = self.machine.deadline().map(|at| at + self.clock.stood);
        [due, looks].into_iter().flatten().min()
    }

    /// Takes the input, and those that wait before it. Without any, the time has come.
    fn with_view(&mut self, now: Moment, input: Option<WaitingInput>) -> Vec<PeerOrder> {
        self.waiting.extend(input);
        if self.retry_at.is_some_and(|at| now.elapsed < at) {
            return Vec::new();
        }
        let view = match self.view() {
            Ok(view) => view,
            Err(error) => {
                tracing::error!(%error, "the synchronization cannot read the chain");
                self.retry_at = Some(now.elapsed + CHAIN_RETRY);
                self.clock.stop(now);
                return Vec::new();
            }
        };
        // The head may have moved while the chain could not be read.
        let is_due = self.retry_at.take().is_some() || self.waiting.is_empty();
        self.clock.go_on(now);
        let SyncActions { mut orders, mut jobs } = self.take_waiting(self.clock.at(now), &view, is_due);
        let mut progress = self.machine.progress();
        let parts = (&self.chain, &self.take);
        match self
            .state
            .go_on(now, (&view, &progress), &mut self.machine, parts)
        {
            Ok(false) => {}
            Ok(true) => {
                let more = self.machine.on_time(self.clock.at(now), &view);
                orders.extend(more.orders);
                jobs.extend(more.jobs);
                progress = self.machine.progress();
            }
            Err(error) => tracing::error!(%error, "the synchronization cannot read the chain"),
        }
        for job in jobs {
            self.driver.run(job);
        }
        if self.state.holds_work(&progress) {
            progress.state = self.state.progress();
            progress.far_behind = true;
            progress.missing = progress.best_header.saturating_sub(progress.head);
            if progress.state.is_some() {
                progress.started_at.get_or_insert(progress.head);
            }
        }
        self.shared.set(&progress);
        self.look_at_network(now, &view, &progress);
        self.log.follow(now.elapsed, &progress);
        orders
    }

    /// Gives the state machine the inputs that wait, and then the time if it is due.
    fn take_waiting(&mut self, now: Moment, view: &View, is_due: bool) -> SyncActions {
        let mut all = SyncActions::default();
        let mut add = |SyncActions { orders, jobs }| {
            all.orders.extend(orders);
            all.jobs.extend(jobs);
        };
        for input in self.waiting.drain(..) {
            add(match input {
                WaitingInput::News(news) => self.machine.handle(now, view, news),
                WaitingInput::Outcome(outcome) => self.machine.job_done(now, view, outcome),
            });
        }
        if is_due {
            add(self.machine.on_time(now, view));
        }
        all
    }

    /// Stops or resumes the making of work, and says why it is stopped.
    fn look_at_network(&mut self, now: Moment, view: &View, progress: &SyncState) {
        let peers = self.machine.peer_count();
        let head_time = Duration::from_secs(view.head().header.timestamp);
        let pause = self.watch.look(now, peers, head_time, progress);
        let was_paused = self.chain.work_pause().is_some();
        self.chain.pause_work(pause);
        self.next_look = now.elapsed + LOOK_INTERVAL;
        match pause {
            Some(reason @ WorkPause::NoPeers { .. }) if now.elapsed >= self.next_reminder => {
                tracing::warn!(%reason, "no work for miners");
                self.next_reminder = now.elapsed + REMINDER_INTERVAL;
            }
            _ if progress
                .state
                .is_some_and(|state| state.pivot > 0 && state.peers == 0)
                && now.elapsed >= self.next_reminder =>
            {
                tracing::warn!(
                    peers,
                    with_snap = self.state.peer_count(),
                    "no peer gives the state: looking for peers with snap/1 that have it"
                );
                self.next_reminder = now.elapsed + REMINDER_INTERVAL;
            }
            None if was_paused => tracing::info!(head = progress.head, peers, "there is work for miners"),
            _ => {}
        }
    }

    /// The last commit that readers may see. A store that was closed by a failure opens again at
    /// the second attempt.
    fn view(&self) -> Result<View, StoreError> {
        self.chain.view().or_else(|_| self.chain.view())
    }
}

/// The lines of the log about the progress.
#[derive(Default)]
struct ProgressLog {
    running: Option<LoggedPoint>,
    /// Only begin and end are logged.
    is_quiet: bool,
    /// The part of a state, in thousandths, at its last line.
    loaded: u32,
}

/// The content of a line of the log.
#[derive(Clone, Copy)]
struct LoggedPoint {
    begun: Duration,
    first: u64,
    at: Duration,
    head: u64,
}

impl ProgressLog {
    /// The line about the state that is fetched.
    fn state_line(&mut self, passed: Duration, head: u64, state: &StateProgress) {
        let SnapFigures {
            accounts,
            slots,
            codes,
            bytes,
            healed,
            ..
        } = state.figures;
        let gained = f64::from(state.loaded.saturating_sub(self.loaded));
        let left = match state.phase {
            SnapPhase::Load if gained > 0.0 => {
                f64::from(1000_u32.saturating_sub(state.loaded)) / gained * passed.as_secs_f64()
            }
            _ => f64::INFINITY,
        };
        self.loaded = state.loaded;
        tracing::info!(
            pivot = state.pivot,
            blocks = head,
            accounts,
            slots,
            codes,
            mebibytes = bytes >> 20,
            healed,
            built = state.built,
            percent = format!("{:.1}", f64::from(state.loaded) / 10.0),
            peers = state.peers,
            left = time_text(left),
            "{}",
            match state.phase {
                SnapPhase::Load => "fetching the state",
                SnapPhase::Build => "building the tries of the state",
                SnapPhase::Heal => "fetching what has changed in the state",
                SnapPhase::Done => "the state is whole; fetching the blocks below it",
            }
        );
    }

    fn follow(&mut self, now: Duration, progress: &SyncState) {
        match (self.running, progress.started_at) {
            (None, Some(first)) => {
                tracing::info!(
                    head = progress.head,
                    highest = progress.highest,
                    "synchronization begins"
                );
                self.running = Some(LoggedPoint {
                    begun: now,
                    first,
                    at: now,
                    head: progress.head,
                });
            }
            (Some(last), None) => {
                let blocks = progress.head.saturating_sub(last.first);
                let seconds = now.saturating_sub(last.begun).as_secs_f64();
                tracing::info!(
                    head = progress.head,
                    blocks,
                    seconds = format!("{seconds:.1}"),
                    "synchronized"
                );
                self.running = None;
            }
            (Some(last), Some(_))
                if !self.is_quiet
                    && now.saturating_sub(last.at) >= LOG_INTERVAL
                    && let Some(state) = progress.state =>
            {
                self.state_line(now.saturating_sub(last.at), progress.head, &state);
                self.running = Some(LoggedPoint {
                    at: now,
                    head: progress.head,
                    ..last
                });
            }
            (Some(last), Some(_)) if !self.is_quiet && now.saturating_sub(last.at) >= LOG_INTERVAL => {
                let seconds = now.saturating_sub(last.at).as_secs_f64();
                let rate = progress.head.saturating_sub(last.head) as f64 / seconds;
                let left = progress.highest.saturating_sub(progress.head);
                let left_seconds = if rate > 0.0 {
                    left as f64 / rate
                } else {
                    f64::INFINITY
                };
                let percent = 100.0 * progress.head as f64 / (progress.highest.max(1)) as f64;
                tracing::info!(
                    head = progress.head,
                    headers = progress.best_header,
                    highest = progress.highest,
                    percent = format!("{percent:.1}"),
                    blocks_per_second = format!("{rate:.1}"),
                    left = time_text(left_seconds),
                    "synchronizing"
                );
                self.running = Some(LoggedPoint {
                    at: now,
                    head: progress.head,
                    ..last
                });
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
}

/// A time that is left, in words. `unknown` if it has no end.
pub fn time_text(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "unknown".to_owned();
    }
    match seconds as u64 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_words() {
        let check = |seconds: f64, expected: &str| assert_eq!(time_text(seconds), expected);
        check(0.4, "0 s");
        check(119.0, "119 s");
        check(600.0, "10 min");
        check(7200.0, "2 h");
        check(f64::INFINITY, "unknown");
    }

    #[test]
    fn the_clock_of_the_state_machine_stands_while_the_chain_cannot_be_read() {
        let at = |seconds| Moment {
            elapsed: Duration::from_secs(seconds),
            unix: Duration::from_secs(1000 + seconds),
        };
        let mut clock = MachineClock::default();
        clock.go_on(at(5));
        assert_eq!(clock.at(at(5)), at(5));
        clock.stop(at(5));
        clock.stop(at(7));
        clock.go_on(at(10));
        clock.go_on(at(12));
        let shown = clock.at(at(13));
        assert_eq!((shown.elapsed.as_secs(), shown.unix), (8, at(13).unix));
    }

    #[test]
    fn readers_see_the_progress_while_it_runs() {
        let shared = SyncShared::default();
        assert_eq!(shared.status(), None);
        let mut progress = SyncState {
            started_at: Some(5),
            highest: 90,
            missing: 80,
            ..SyncState::default()
        };
        shared.set(&progress);
        assert_eq!((shared.status(), shared.missing()), (Some((5, 90)), 80));
        progress.started_at = None;
        shared.set(&progress);
        assert_eq!(shared.status(), None);
    }
}
