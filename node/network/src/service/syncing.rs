//! The thread of the synchronization: it takes news of peers and outcomes of jobs, and lets the hub
//! carry out the orders.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::core::Core;
use crate::peers::{PeerNews, PeerOrder};
use crate::sync::{ChainSync, FAR_BEHIND_BLOCKS, SyncOutcome};

/// News that nobody waits for are dropped while more than this wait for the thread.
const SPARE_NEWS_MAX: usize = 16;
/// How often the thread looks whether the service has ended.
const IDLE: Duration = Duration::from_secs(1);

/// What the thread takes.
pub(super) enum SyncInput {
    News(PeerNews),
    Outcome(SyncOutcome),
    /// The head has moved.
    HeadMoved,
}

/// Where news for the synchronization go. The queue needs no bound of its own: peers have a bound
/// for open requests, and spare news are dropped.
#[derive(Clone)]
pub(super) struct SyncInbox(Sender<SyncInput>);

impl SyncInbox {
    pub(super) fn new() -> (Self, Receiver<SyncInput>) {
        let (sender, inbox) = unbounded();
        (Self(sender), inbox)
    }

    pub(super) fn news(&self, news: PeerNews) {
        let is_spare = matches!(
            news,
            PeerNews::DistantBlock { .. } | PeerNews::DistantAnnouncement { .. } | PeerNews::Head { .. }
        );
        if !is_spare || self.0.len() < SPARE_NEWS_MAX {
            self.put(SyncInput::News(news));
        }
    }

    pub(super) fn outcome(&self, outcome: SyncOutcome) {
        self.put(SyncInput::Outcome(outcome));
    }

    pub(super) fn head_moved(&self) {
        if self.0.len() < SPARE_NEWS_MAX {
            self.put(SyncInput::HeadMoved);
        }
    }

    fn put(&self, input: SyncInput) {
        // When the thread has ended, the service has, too.
        let _ = self.0.send(input);
    }
}

/// Runs the synchronization until the service ends.
pub(super) fn run(core: &Weak<Core>, mut sync: ChainSync, inbox: &Receiver<SyncInput>) {
    let shared = sync.shared();
    let mut now = Duration::ZERO;
    loop {
        let wait = sync
            .deadline()
            .map_or(IDLE, |deadline| deadline.saturating_sub(now));
        let input = match inbox.recv_timeout(wait.min(IDLE)) {
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let Some(core) = core.upgrade() else { return };
        let moment = core.now();
        now = moment.elapsed;
        let mut orders = match input {
            Some(SyncInput::News(news)) => sync.handle(moment, news),
            Some(SyncInput::Outcome(outcome)) => sync.job_done(moment, outcome),
            Some(SyncInput::HeadMoved) => sync.on_time(moment),
            None => Vec::new(),
        };
        if sync.deadline().is_some_and(|deadline| deadline <= now) {
            orders.extend(sync.on_time(moment));
        }
        carry_out(&core, orders, shared.missing() > FAR_BEHIND_BLOCKS);
    }
}

fn carry_out(core: &Arc<Core>, orders: Vec<PeerOrder>, is_behind: bool) {
    core.with_hub(|hub, now| {
        hub.set_behind(is_behind);
        let orders = orders.into_iter();
        orders.flat_map(|order| hub.carry_out(order, now)).collect()
    });
}
