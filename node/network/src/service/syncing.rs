//! The thread of the synchronization: it takes news of peers and outcomes of jobs, and lets the hub
//! carry out the orders.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::core::Core;
use super::threads::tell_head;
use crate::peers::{PeerId, PeerNews, PeerOrder};
use crate::sync::{ChainSync, FAR_BEHIND_BLOCKS, SHORT_GAP_BLOCKS, SyncOutcome};

/// While more inputs than this wait for the thread, heads of peers wait elsewhere, where a newer
/// one replaces an older one.
const QUEUE_USUAL: usize = 16;
/// The inputs that may wait for the thread. While there are so many, no new peer is let in. The
/// peers that are here add little: the answer to each open question, and their end.
pub(super) const INPUTS_MAX: usize = 4096;
/// The time after which the thread looks again whether the service has ended.
const IDLE: Duration = Duration::from_secs(1);

pub(super) enum SyncInput {
    News(PeerNews),
    Outcome(SyncOutcome),
    HeadMoved,
}

/// The way in which a peer tells of its head. The latest news of one way does not replace that of
/// another.
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

/// The queue between the tasks of the service and the thread of the synchronization.
#[derive(Default)]
struct SyncQueue {
    waiting: Mutex<WaitingInputs>,
    arrived: Condvar,
}

/// The inputs that wait for the thread.
#[derive(Default)]
struct WaitingInputs {
    queue: VecDeque<SyncInput>,
    /// The latest head of each peer and kind, while the queue is long.
    heads: BTreeMap<(PeerId, HeadNewsKind), PeerNews>,
    /// The head has moved, while the queue is long.
    has_moved: bool,
}

impl WaitingInputs {
    fn is_long(&self) -> bool {
        self.queue.len() >= QUEUE_USUAL
    }

    /// Keeps the latest head of a peer and kind; of announced blocks, the highest.
    fn keep_head(&mut self, source: (PeerId, HeadNewsKind), news: PeerNews) {
        let highest = |news: &PeerNews| match news {
            PeerNews::DistantAnnouncement { blocks, .. } => blocks.iter().map(|block| block.number).max(),
            _ => None,
        };
        let is_lower = |kept: &PeerNews| highest(&news) < highest(kept);
        if !self.heads.get(&source).is_some_and(is_lower) {
            self.heads.insert(source, news);
        }
    }
}

/// The end of the queue that takes news. The default is of a network over which nobody
/// synchronizes: it drops them.
#[derive(Clone, Default)]
pub(super) struct SyncInbox(Option<Arc<SyncQueue>>);

/// The other end of a [`SyncInbox`].
pub(super) struct SyncInputs(Arc<SyncQueue>);

impl SyncInbox {
    pub(super) fn new() -> (Self, SyncInputs) {
        let queue = Arc::<SyncQueue>::default();
        (Self(Some(Arc::clone(&queue))), SyncInputs(queue))
    }

    /// Whether so much waits that no new peer may come in.
    pub(super) fn is_full(&self) -> bool {
        let queue = self.0.as_ref();
        queue.is_some_and(|queue| queue.waiting.lock().queue.len() >= INPUTS_MAX)
    }

    pub(super) fn news(&self, news: PeerNews) {
        self.put(|waiting| match HeadNewsKind::of(&news) {
            Some(source) if waiting.is_long() => waiting.keep_head(source, news),
            _ => waiting.queue.push_back(SyncInput::News(news)),
        });
    }

    pub(super) fn outcome(&self, outcome: SyncOutcome) {
        self.put(|waiting| waiting.queue.push_back(SyncInput::Outcome(outcome)));
    }

    pub(super) fn head_moved(&self) {
        self.put(|waiting| {
            if waiting.is_long() {
                waiting.has_moved = true;
            } else {
                waiting.queue.push_back(SyncInput::HeadMoved);
            }
        });
    }

    fn put(&self, put: impl FnOnce(&mut WaitingInputs)) {
        if let Some(queue) = &self.0 {
            put(&mut queue.waiting.lock());
            queue.arrived.notify_one();
        }
    }
}

impl SyncInputs {
    /// Waits for the next input. Also returns the heads that wait, once the queue is short.
    fn take(&self, wait: Duration) -> Vec<SyncInput> {
        let mut waiting = self.0.waiting.lock();
        if waiting.queue.is_empty() {
            self.0.arrived.wait_for(&mut waiting, wait);
        }
        let mut inputs: Vec<_> = waiting.queue.pop_front().into_iter().collect();
        if !waiting.is_long() {
            let heads = std::mem::take(&mut waiting.heads);
            inputs.extend(heads.into_values().map(SyncInput::News));
            inputs.extend(std::mem::take(&mut waiting.has_moved).then_some(SyncInput::HeadMoved));
        }
        inputs
    }
}

/// Runs the synchronization until the service ends.
pub(super) fn run(core: &Weak<Core>, mut sync: ChainSync, inputs: &SyncInputs) {
    let shared = sync.shared();
    let mut now = Duration::ZERO;
    loop {
        let wait = sync
            .deadline()
            .map_or(IDLE, |deadline| deadline.saturating_sub(now));
        let inputs = if sync.is_waiting() {
            // The inputs wait in the queue, which has its bounds.
            std::thread::sleep(wait.min(IDLE));
            Vec::new()
        } else {
            inputs.take(wait.min(IDLE))
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
        if missing <= SHORT_GAP_BLOCKS && core.has_untold_head.swap(false, Ordering::AcqRel) {
            // Peers that hang on this node wait for the last one.
            tell_head(&core, sync.chain());
        }
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
    use crate::messages::AnnouncedBlock;

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
            inputs.0.waiting.lock().queue.len(),
            QUEUE_USUAL + 1,
            "the end of a peer is always queued"
        );
        let (mut came, mut has_moved) = (Vec::new(), 0);
        loop {
            let taken = inputs.take(Duration::ZERO);
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
    }

    #[test]
    fn the_highest_announced_block_is_kept() {
        let announced = |number: u64| {
            let hash = B256::repeat_byte(1);
            let blocks = vec![AnnouncedBlock { hash, number }];
            PeerNews::DistantAnnouncement {
                peer: PeerId(1),
                blocks,
            }
        };
        let mut waiting = WaitingInputs::default();
        for number in [7, 9, 8] {
            let news = announced(number);
            let source = HeadNewsKind::of(&news).expect("the news of a head");
            waiting.keep_head(source, news);
        }
        let kept: Vec<_> = waiting.heads.into_values().collect();
        assert_eq!(kept, [announced(9)]);
    }

    #[test]
    fn a_full_queue_is_noticed() {
        let (inbox, inputs) = SyncInbox::new();
        for peer in 0..INPUTS_MAX as u64 {
            assert!(!inbox.is_full());
            inbox.news(PeerNews::Left(PeerId(peer)));
        }
        assert!(inbox.is_full());
        inbox.news(PeerNews::Left(PeerId(INPUTS_MAX as u64)));
        inputs.take(Duration::ZERO);
        assert!(inbox.is_full(), "one too many is queued all the same");
        inputs.take(Duration::ZERO);
        assert!(!inbox.is_full());
        assert!(!SyncInbox::default().is_full());
    }
}
