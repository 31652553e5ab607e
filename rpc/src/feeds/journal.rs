//! The last head events in order, shared by all followers.
//!
//! The journal is bounded. When there are too many events the oldest is dropped. A follower that
//! has not read it by then reads the chain instead (`cursor.rs`). The journal knows neither the
//! chain nor its followers.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use chain::chain::HeadEvent;
use chain::import::BlockId;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Most events kept.
const EVENTS_MAX: usize = 4096;
/// Most blocks named in the events kept, so that deep reorganizations do not pile up.
const BLOCKS_MAX: usize = 32_768;
/// The number of the first event. A smaller number is never found in the journal.
const FIRST: u64 = 1;

/// The last head events.
#[derive(Debug)]
pub(super) struct HeadJournal {
    inner: Mutex<Inner>,
    /// The number of the next event.
    signal: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner {
    events: VecDeque<Arc<HeadEvent>>,
    /// The number of the oldest event kept.
    first: u64,
    /// Blocks named in all events kept.
    blocks: usize,
}

impl Inner {
    fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }
}

/// The next events that a follower has not seen.
#[derive(Debug)]
pub(super) struct UnseenEvents {
    /// The events in their order. If there are many, these are the first of them.
    pub(super) events: Vec<Arc<HeadEvent>>,
    /// The number of the event after them.
    pub(super) next: u64,
}

impl HeadJournal {
    pub(super) fn new() -> Self {
        Self {
            inner: Mutex::new(Inner {
                events: VecDeque::new(),
                first: FIRST,
                blocks: 0,
            }),
            signal: watch::Sender::new(FIRST),
        }
    }

    /// The number that the next event will have.
    pub(super) fn next(&self) -> u64 {
        *self.signal.borrow()
    }

    /// A receiver that changes with every event.
    pub(super) fn signal(&self) -> watch::Receiver<u64> {
        self.signal.subscribe()
    }

    /// Appends an event.
    pub(super) fn push(&self, event: Arc<HeadEvent>) {
        let mut inner = self.inner.lock();
        inner.blocks += block_count(&event);
        inner.events.push_back(event);
        while inner.events.len() > EVENTS_MAX || inner.blocks > BLOCKS_MAX {
            let Some(oldest) = inner.events.pop_front() else {
                break;
            };
            inner.blocks -= block_count(&oldest);
            inner.first += 1;
        }
        let next = inner.next();
        drop(inner);
        self.signal.send_replace(next);
    }

    /// The events with numbers in `range`, for a follower that has seen the chain up to `head`.
    /// Events up to the one that led to `head` are left out. Returns whole events until they name
    /// `blocks_max` blocks, or `None` if the first is not kept any more.
    pub(super) fn since(&self, range: Range<u64>, head: &BlockId, blocks_max: usize) -> Option<UnseenEvents> {
        let inner = self.inner.lock();
        let from = usize::try_from(range.start.checked_sub(inner.first)?).ok()?;
        let count = usize::try_from(range.end.saturating_sub(range.start)).ok()?;
        let unseen = inner.events.iter().skip(from).take(count);
        let is_seen = |event: &Arc<HeadEvent>| event.applied.last() == Some(head);
        let seen = unseen.clone().rposition(is_seen).map_or(0, |index| index + 1);
        let mut blocks_left = blocks_max;
        let mut events = Vec::new();
        for event in unseen.skip(seen) {
            if blocks_left == 0 {
                break;
            }
            blocks_left = blocks_left.saturating_sub(block_count(event));
            events.push(Arc::clone(event));
        }
        let next = range.start + (seen + events.len()) as u64;
        Some(UnseenEvents { events, next })
    }
}

/// The number of blocks that an event names.
pub(super) const fn block_count(event: &HeadEvent) -> usize {
    event.reverted.len() + event.applied.len()
}

#[cfg(test)]
mod tests {
    use primitives::B256;

    use super::*;

    fn id(number: u64) -> BlockId {
        BlockId {
            number,
            hash: B256::with_last_byte(number as u8),
        }
    }

    fn event(numbers: std::ops::Range<u64>) -> Arc<HeadEvent> {
        Arc::new(HeadEvent {
            reverted: Vec::new(),
            applied: numbers.map(id).collect(),
        })
    }

    fn numbers(unseen: Option<UnseenEvents>) -> Option<(Vec<u64>, u64)> {
        unseen.map(|unseen| {
            let blocks = unseen.events.iter().flat_map(|event| &event.applied);
            (blocks.map(|id| id.number).collect(), unseen.next)
        })
    }

    #[test]
    fn followers_get_the_events_they_have_not_seen() {
        let journal = HeadJournal::new();
        let mut signal = journal.signal();
        assert_eq!(journal.next(), 1);
        for number in 1..=3 {
            journal.push(event(number..number + 1));
        }
        assert_eq!(*signal.borrow_and_update(), 4);
        assert_eq!(
            numbers(journal.since(1..u64::MAX, &id(0), 100)),
            Some((vec![1, 2, 3], 4))
        );
        assert_eq!(
            numbers(journal.since(3..u64::MAX, &id(2), 100)),
            Some((vec![3], 4))
        );
        assert_eq!(numbers(journal.since(2..3, &id(1), 100)), Some((vec![2], 3)));
        assert_eq!(
            numbers(journal.since(4..u64::MAX, &id(3), 100)),
            Some((vec![], 4))
        );
        assert_eq!(
            numbers(journal.since(1..u64::MAX, &id(0), 2)),
            Some((vec![1, 2], 3)),
            "in parts"
        );
        assert_eq!(
            numbers(journal.since(1..u64::MAX, &id(2), 100)),
            Some((vec![3], 4)),
            "events up to the follower's head are left out"
        );
        assert_eq!(numbers(journal.since(0..u64::MAX, &id(0), 100)), None);
    }

    #[test]
    fn the_oldest_event_is_dropped_first() {
        let journal = HeadJournal::new();
        for _ in 0..EVENTS_MAX + 10 {
            journal.push(event(1..2));
        }
        assert_eq!(numbers(journal.since(10..u64::MAX, &id(0), 1)), None);
        assert!(journal.since(11..u64::MAX, &id(0), 1).is_some());
        journal.push(event(1..BLOCKS_MAX as u64 + 2));
        assert_eq!(journal.inner.lock().events.len(), 0, "an event too large to keep");
        assert_eq!(journal.next(), EVENTS_MAX as u64 + 12);
        assert_eq!(numbers(journal.since(20..u64::MAX, &id(0), 1)), None);
        assert_eq!(
            numbers(journal.since(journal.next()..u64::MAX, &id(0), 1)),
            Some((vec![], journal.next()))
        );
    }
}
