//! The channels that carry changes of the head to subscribers.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;

use super::HeadEvent;

/// The most head events that wait for a subscriber: some minutes of an import at full speed. A
/// subscriber that is further behind has stopped to read: its channel ends after these events.
pub const HEAD_EVENTS_MAX: usize = 1 << 17;

#[derive(Default)]
pub(super) struct HeadSubscribers(Mutex<Vec<Sender<Arc<HeadEvent>>>>);

impl HeadSubscribers {
    pub(super) fn subscribe(&self) -> Receiver<Arc<HeadEvent>> {
        let (sender, receiver) = unbounded();
        self.0.lock().push(sender);
        receiver
    }

    /// Sends `event` to all subscribers. Never waits.
    pub(super) fn notify(&self, event: &Arc<HeadEvent>) {
        self.0.lock().retain(|subscriber| {
            if subscriber.len() >= HEAD_EVENTS_MAX {
                tracing::error!(
                    HEAD_EVENTS_MAX,
                    "a subscriber of the head does not read and is dropped"
                );
                return false;
            }
            subscriber.send(event.clone()).is_ok()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscriber_that_does_not_read_is_dropped_at_the_bound() {
        let subscribers = HeadSubscribers::default();
        let (stuck, reading) = (subscribers.subscribe(), subscribers.subscribe());
        let event = Arc::new(HeadEvent {
            reverted: Vec::new(),
            applied: Vec::new(),
        });
        for _ in 0..=HEAD_EVENTS_MAX {
            subscribers.notify(&event);
            reading.try_recv().expect("an event");
        }
        assert_eq!(stuck.iter().count(), HEAD_EVENTS_MAX);
        subscribers.notify(&event);
        reading.try_recv().expect("an event");
    }
}
