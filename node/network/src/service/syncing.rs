//! The thread of the synchronization: it takes news of peers and outcomes of jobs, and lets the hub
//! carry out the orders.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use parking_lot::Mutex;

use super::core::Core;
use super::threads::tell_head;
use crate::peers::{PeerId, PeerNews, PeerOrder};
use crate::sync::{ChainSync, FAR_BEHIND_BLOCKS, SHORT_GAP_BLOCKS, SyncOutcome};

/// While more inputs than this wait for the thread, heads of peers wait elsewhere, where a newer
/// one replaces an older one.
const QUEUE_USUAL: usize = 16;
/// How often the thread looks whether the service has ended.
const IDLE: Duration = Duration::from_secs(1);

/// What the thread takes.
pub(super) enum SyncInput {
    News(PeerNews),
    Outcome(SyncOutcome),
    /// The head has moved.
    HeadMoved,
}

/// What waits while the thread has much to do: of each peer and each kind the latest only.
#[derive(Default)]
struct LatestHeads {
    news: BTreeMap<(PeerId, HeadNewsKind), PeerNews>,
    has_moved: bool,
}

/// How a peer tells of its head. What it says in one way does not replace what it says in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HeadNewsKind {
    Announcement,
    Head,
    Block,
}

impl HeadNewsKind {
    const fn of(news: &PeerNews) -> Option<(PeerId, Self)> {
        match news {
            PeerNews::DistantAnnouncement { peer, .. } => Some((*peer, Self::Announcement)),
            PeerNews::Head { peer, .. } => Some((*peer, Self::Head)),
            PeerNews::DistantBlock { peer, .. } => Some((*peer, Self::Block)),
            _ => None,
        }
    }
}

/// Where news for the synchronization go. The queue needs no bound of its own: peers have a bound
/// for open requests, and what they say of their heads leaves the queue when it is long.
#[derive(Clone)]
pub(super) struct SyncInbox {
    queue: Sender<SyncInput>,
    latest: Arc<Mutex<LatestHeads>>,
}

/// The other end of a [`SyncInbox`].
pub(super) struct SyncInputs {
    queue: Receiver<SyncInput>,
    latest: Arc<Mutex<LatestHeads>>,
}

impl SyncInbox {
    pub(super) fn new() -> (Self, SyncInputs) {
        let (sender, queue) = unbounded();
        let latest = Arc::<Mutex<LatestHeads>>::default();
        let inbox = Self {
            queue: sender,
            latest: Arc::clone(&latest),
        };
        (inbox, SyncInputs { queue, latest })
    }

    pub(super) fn news(&self, news: PeerNews) {
        match HeadNewsKind::of(&news).filter(|_| self.queue.len() >= QUEUE_USUAL) {
            Some(source) => drop(self.latest.lock().news.insert(source, news)),
            None => self.put(SyncInput::News(news)),
        }
    }

    pub(super) fn outcome(&self, outcome: SyncOutcome) {
        self.put(SyncInput::Outcome(outcome));
    }

    pub(super) fn head_moved(&self) {
        if self.queue.len() < QUEUE_USUAL {
            self.put(SyncInput::HeadMoved);
        } else {
            self.latest.lock().has_moved = true;
        }
    }

    fn put(&self, input: SyncInput) {
        // When the thread has ended, the service has, too.
        let _ = self.queue.send(input);
    }
}

impl SyncInputs {
    /// Waits for the next input, and takes what waits elsewhere once the queue is short. `None` if
    /// nobody can put anything any more.
    fn take(&self, wait: Duration) -> Option<Vec<SyncInput>> {
        let mut inputs = match self.queue.recv_timeout(wait) {
            Ok(input) => vec![input],
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        if self.queue.len() < QUEUE_USUAL {
            let LatestHeads { news, has_moved } = std::mem::take(&mut *self.latest.lock());
            inputs.extend(news.into_values().map(SyncInput::News));
            inputs.extend(has_moved.then_some(SyncInput::HeadMoved));
        }
        Some(inputs)
    }
}

/// Runs the synchronization until the service ends.
pub(super) fn run(core: &Weak<Core>, mut sync: ChainSync, inputs: &SyncInputs) {
    let shared = sync.shared();
    let mut now = Duration::ZERO;
    let mut was_behind = false;
    loop {
        let wait = sync
            .deadline()
            .map_or(IDLE, |deadline| deadline.saturating_sub(now));
        let Some(inputs) = inputs.take(wait.min(IDLE)) else {
            return;
        };
        let Some(core) = core.upgrade() else { return };
        let moment = core.now();
        now = moment.elapsed;
        let mut orders = Vec::new();
        for input in inputs {
            orders.extend(match input {
                SyncInput::News(news) => sync.handle(moment, news),
                SyncInput::Outcome(outcome) => sync.job_done(moment, outcome),
                SyncInput::HeadMoved => sync.on_time(moment),
            });
        }
        if sync.deadline().is_some_and(|deadline| deadline <= now) {
            orders.extend(sync.on_time(moment));
        }
        let missing = shared.missing();
        carry_out(&core, orders, missing > FAR_BEHIND_BLOCKS);
        let is_behind = missing > SHORT_GAP_BLOCKS;
        if was_behind && !is_behind {
            // Heads were not told meanwhile. Peers that hang on this node wait for the last one.
            tell_head(&core, sync.chain());
        }
        was_behind = is_behind;
    }
}

fn carry_out(core: &Arc<Core>, orders: Vec<PeerOrder>, is_behind: bool) {
    core.with_hub(|hub, now| {
        hub.set_behind(is_behind);
        let orders = orders.into_iter();
        orders.flat_map(|order| hub.carry_out(order, now)).collect()
    });
}

#[cfg(test)]
mod tests {
    use primitives::{B256, U256};

    use super::*;

    fn head(peer: u64, mark: u8) -> PeerNews {
        PeerNews::Head {
            peer: PeerId(peer),
            head: B256::repeat_byte(mark),
            total_difficulty: U256::from(mark),
        }
    }

    #[test]
    fn the_latest_head_of_each_peer_is_kept_however_long_the_queue_is() {
        let (inbox, inputs) = SyncInbox::new();
        for mark in 0..200 {
            inbox.news(head(1, mark));
            inbox.news(head(2, mark));
            inbox.head_moved();
        }
        let left = PeerNews::Left(PeerId(9));
        inbox.news(left.clone());
        assert_eq!(
            inputs.queue.len(),
            QUEUE_USUAL + 1,
            "what others wait for is always queued"
        );
        let (mut came, mut has_moved) = (Vec::new(), 0);
        loop {
            let taken = inputs.take(Duration::ZERO).expect("the inbox is there");
            if taken.is_empty() {
                break;
            }
            for input in taken {
                match input {
                    SyncInput::News(news) => came.push(news),
                    SyncInput::HeadMoved => has_moved += 1,
                    SyncInput::Outcome(_) => panic!("there was none"),
                }
            }
        }
        for expected in [head(1, 199), head(2, 199), left] {
            assert!(came.contains(&expected), "{expected:?}");
        }
        assert!(has_moved > 0);
        drop(inbox);
        assert!(inputs.take(Duration::ZERO).is_none());
    }
}
