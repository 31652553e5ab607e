//! The thread that fetches a state: it runs the [`SnapClient`] on the store.
//!
//! After a failure of the store it goes on from the last commit. Each run of the client has tickets
//! of its own, so answers to an earlier run reach nobody.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain::Chain;
use chain::chain::WriteError;
use chain::fetched_state::FetchedState;
use chain::import::BlockId;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use primitives::B256;
use store::StoreError;

use super::{StateProgress, TICKETS};
use crate::peers::{PeerId, PeerOrder, PeerRequest, RequestTicket};
use crate::snap::client::{SnapAction, SnapClient, SnapEvent, SnapPivot};
use crate::sync::SyncOutcome;
use crate::sync::driver::TakeOutcome;

/// A peer that was busy is asked again after this time.
const BUSY_TIME: Duration = Duration::from_secs(1);
/// Rows that came are stored after this time at the latest.
const SAVE_INTERVAL: Duration = Duration::from_secs(10);
/// The pause after a failure of the store.
const STORE_RETRY: Duration = Duration::from_secs(5);
/// The time between two reports if there are no orders.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two looks if nothing happens.
const IDLE: Duration = Duration::from_millis(500);
/// The tickets of one run of the client.
const TICKETS_OF_RUN: u64 = 1 << 40;

/// News of the thread that fetches a state.
#[derive(Clone, Debug)]
pub struct StateReport {
    pub(super) orders: Vec<PeerOrder>,
    pub(super) progress: StateProgress,
    /// The root of the state that is whole.
    pub(super) done: Option<B256>,
    /// Blocks are executed from now on.
    pub(super) ended: bool,
    /// The end was refused, and may succeed later.
    pub(super) refused: bool,
}

/// An input of the thread.
pub(super) enum StateInput {
    Event(SnapEvent),
    /// The head is the block whose state is whole.
    End(BlockId),
}

/// The thread that fetches a state.
pub(super) struct StateFetch {
    chain: Chain,
    take: Arc<TakeOutcome>,
    /// `None` after a failure of the store.
    running: Option<(FetchedState, SnapClient)>,
    retry_at: Instant,
    /// The runs of the client so far: each has tickets of its own.
    runs: u64,
    peers: BTreeSet<PeerId>,
    pivot: Option<SnapPivot>,
    /// Events that wait for their time.
    later: VecDeque<(Instant, SnapEvent)>,
    saved_at: Instant,
    progress: StateProgress,
    orders: Vec<PeerOrder>,
    reported_at: Instant,
}

impl StateFetch {
    pub(super) fn new(chain: Chain, take: Arc<TakeOutcome>) -> Self {
        Self {
            chain,
            take,
            running: None,
            retry_at: Instant::now(),
            runs: 0,
            peers: BTreeSet::new(),
            pivot: None,
            later: VecDeque::new(),
            saved_at: Instant::now(),
            progress: StateProgress::default(),
            orders: Vec::new(),
            reported_at: Instant::now(),
        }
    }

    /// Works until the sender of the inputs is gone, or blocks are executed.
    pub(super) fn run(&mut self, inputs: &Receiver<StateInput>) {
        loop {
            self.open_if_due();
            match inputs.recv_timeout(IDLE) {
                Ok(StateInput::Event(event)) => self.take_event(event),
                Ok(StateInput::End(id)) => {
                    if self.end(id) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.save();
                    return;
                }
            }
            while self.later.front().is_some_and(|(at, _)| *at <= Instant::now())
                && let Some((_, event)) = self.later.pop_front()
            {
                self.handle(event);
            }
            if self.saved_at.elapsed() >= SAVE_INTERVAL {
                self.save();
            }
            let has_news = self.running.is_some() && self.reported_at.elapsed() >= REPORT_INTERVAL;
            if !self.orders.is_empty() || has_news {
                self.report(None, false, false);
            }
        }
    }

    /// Goes on from the last commit.
    fn open_if_due(&mut self) {
        if self.running.is_some() || self.retry_at > Instant::now() {
            return;
        }
        let opened = self.chain.fetch_state().map(|(state, progress)| {
            let client = if progress.is_empty() {
                SnapClient::new()
            } else {
                SnapClient::resume(&progress).unwrap_or_else(|error| {
                    tracing::error!(%error, "the state is fetched from the begin");
                    SnapClient::new()
                })
            };
            (state, client)
        });
        match opened {
            Ok(running) => {
                self.runs += 1;
                self.running = Some(running);
                self.later.clear();
                for peer in self.peers.clone() {
                    self.handle(SnapEvent::Joined(peer));
                }
                if let Some(pivot) = self.pivot {
                    self.handle(SnapEvent::Pivot(pivot));
                }
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &StoreError) {
        tracing::error!(%error, "the state cannot be stored; it goes on from the last commit");
        self.running = None;
        self.retry_at = Instant::now() + STORE_RETRY;
    }

    const fn first_ticket(&self) -> u64 {
        TICKETS + self.runs * TICKETS_OF_RUN
    }

    fn take_event(&mut self, mut event: SnapEvent) {
        let first = self.first_ticket();
        match &mut event {
            SnapEvent::Joined(peer) => {
                self.peers.insert(*peer);
            }
            SnapEvent::Left(peer) => {
                self.peers.remove(peer);
            }
            SnapEvent::Pivot(pivot) => self.pivot = Some(*pivot),
            SnapEvent::Answer { ticket, .. } | SnapEvent::NotAnswered { ticket, .. } => {
                // Answers to an earlier run reach nobody.
                let Some(number) = ticket.0.checked_sub(first) else {
                    return;
                };
                *ticket = RequestTicket(number);
            }
            SnapEvent::Built(_) => {}
        }
        if matches!(event, SnapEvent::NotAnswered { .. }) {
            // The peer is busy, or slow: it is not asked again at once.
            self.later.push_back((Instant::now() + BUSY_TIME, event));
        } else {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: SnapEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Some((state, client)) = &mut self.running else {
                return;
            };
            let actions = match client.handle(event, state) {
                Ok(actions) => actions,
                Err(error) => return self.failed(&error),
            };
            for action in actions {
                match action {
                    SnapAction::Ask {
                        peer,
                        ticket,
                        request,
                    } => {
                        let ticket = RequestTicket(self.first_ticket() + ticket.0);
                        let request = PeerRequest::Snap(request);
                        self.orders.push(PeerOrder::Ask {
                            peer,
                            ticket,
                            request,
                        });
                    }
                    SnapAction::Drop { peer, fault } => self.orders.push(PeerOrder::Drop { peer, fault }),
                    SnapAction::Done(pivot) => self.report(Some(pivot.root), false, false),
                    SnapAction::Build => match self.build() {
                        Ok(root) => events.push_back(SnapEvent::Built(root)),
                        Err(error) => return self.failed(&error),
                    },
                }
            }
        }
    }

    /// Builds the tries of all rows.
    fn build(&mut self) -> Result<B256, StoreError> {
        self.report(None, false, false);
        let progress = self.progress;
        let Some((state, _)) = &mut self.running else {
            return Ok(primitives::EMPTY_ROOT);
        };
        let mut reported = Instant::now();
        tracing::info!(
            accounts = progress.figures.accounts,
            "building the tries of the state"
        );
        let take = self.take.clone();
        let root = state.build(|built| {
            if reported.elapsed() < REPORT_INTERVAL {
                return;
            }
            reported = Instant::now();
            take(SyncOutcome::State(StateReport {
                orders: Vec::new(),
                progress: StateProgress { built, ..progress },
                done: None,
                ended: false,
                refused: false,
            }));
        })?;
        tracing::info!(%root, "the tries of the state are built");
        Ok(root)
    }

    fn save(&mut self) {
        self.saved_at = Instant::now();
        if let Some((state, client)) = &mut self.running
            && let Err(error) = client.save(state)
        {
            self.failed(&error);
        }
    }

    /// Lets blocks be executed. Returns whether it did.
    pub(super) fn end(&mut self, id: BlockId) -> bool {
        let refusal = self.chain.end_fetched_state(id).err();
        let ended = refusal.is_none();
        let refusal = refusal.filter(|error| !matches!(error, WriteError::Stopping));
        if let Some(error) = &refusal {
            tracing::error!(%error, "the fetched state cannot be used yet");
        }
        self.report(None, ended, refusal.is_some());
        ended
    }

    fn report(&mut self, done: Option<B256>, ended: bool, refused: bool) {
        if let Some((_, client)) = &self.running {
            self.progress = StateProgress {
                figures: client.figures(),
                phase: client.phase(),
                loaded: (client.loaded_share() * 1000.0) as u32,
                built: 0,
                peers: client.usable_peers(),
                pivot: self.pivot.map_or(0, |pivot| pivot.number),
            };
        }
        let report = StateReport {
            orders: std::mem::take(&mut self.orders),
            progress: self.progress,
            done,
            ended,
            refused,
        };
        self.reported_at = Instant::now();
        (self.take)(SyncOutcome::State(report));
    }
}
