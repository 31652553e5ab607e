//! The messages that wait to be handed to the task of a connection: bounded in number and in bytes,
//! for each peer and for all.
//!
//! A message to many peers is encoded and kept once for each version. A peer that reads slowly
//! loses gossip first, and its place if that goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::bounds::{ByteBudget, ReservedBytes};
use super::traffic::TrafficCells;
use crate::messages::{PeerMessage, WireProtocol};
use crate::requests::AnswerKind;
use crate::rlpx::RlpxDisconnect;

/// Messages that wait for the task of a connection. Gossip beyond that is not sent.
pub(crate) const OUTBOX_MESSAGES_MAX: usize = 512;
/// Bytes of messages that wait for the task of a connection. Gossip beyond that is not sent. A
/// longer message is taken if it is the only one.
pub(crate) const OUTBOX_BYTES_MAX: usize = 4 << 20;
/// One of this many messages and bytes may be for application chains. Many strangers' messages go
/// to every peer, so they leave room for what the node itself has to say.
const APPLICATION_PART: usize = 2;
/// A peer whose outbox has no room for so long loses its place.
pub(crate) const OUTBOX_FULL_TIME_MAX: Duration = Duration::from_secs(30);

/// The order in which messages give way to others: the last ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgency {
    /// A request, which would never be answered if it were not sent, or the Status.
    Needed,
    Gossip,
    ApplicationChain,
}

impl Urgency {
    const fn of(message: &PeerMessage) -> Self {
        match message {
            PeerMessage::Status(_) => Self::Needed,
            PeerMessage::ApplicationChain(_) => Self::ApplicationChain,
            _ if AnswerKind::of_request(message).is_some() => Self::Needed,
            _ => Self::Gossip,
        }
    }
}

/// A message as it goes to peers of one version.
#[derive(Debug)]
pub(super) struct EncodedMessage {
    urgency: Urgency,
    pub(super) code: u64,
    pub(super) rlp: Vec<u8>,
    _reserved: ReservedBytes,
}

impl EncodedMessage {
    pub(super) fn new(message: &PeerMessage, protocol: WireProtocol, budget: &Arc<ByteBudget>) -> Arc<Self> {
        let (code, rlp) = message.encode(protocol);
        let reserved = budget.take(rlp.len());
        Arc::new(Self {
            urgency: Urgency::of(message),
            code,
            rlp,
            _reserved: reserved,
        })
    }

    /// Whether the connection is of no use if this is not sent.
    pub(super) fn is_needed(&self) -> bool {
        self.urgency == Urgency::Needed
    }
}

/// A message for the task of a connection.
#[derive(Clone, Debug)]
pub(super) enum OutboxMessage {
    Message(Arc<EncodedMessage>),
    /// The messages before it tell the peer of the pool up to this position.
    Mark(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Taken,
    Full,
    /// There was no room for [`OUTBOX_FULL_TIME_MAX`].
    FullForLong,
}

/// The queue of the messages for a peer.
pub(super) struct Outbox {
    pub(super) protocol: WireProtocol,
    messages: mpsc::Sender<OutboxMessage>,
    /// Bytes that wait.
    waiting: Arc<AtomicUsize>,
    /// The time since which there was no room.
    full_since: Option<Duration>,
    end: Option<oneshot::Sender<RlpxDisconnect>>,
    pub(super) traffic: Arc<TrafficCells>,
}

pub(super) struct OutboxReader {
    messages: mpsc::Receiver<OutboxMessage>,
    waiting: Arc<AtomicUsize>,
}

impl Outbox {
    /// Also returns what the task of the connection has: the messages, and why it must end.
    pub(super) fn new(
        protocol: WireProtocol,
        traffic: Arc<TrafficCells>,
    ) -> (Self, OutboxReader, oneshot::Receiver<RlpxDisconnect>) {
        let (sender, messages) = mpsc::channel(OUTBOX_MESSAGES_MAX);
        let (end, ended) = oneshot::channel();
        let waiting = Arc::<AtomicUsize>::default();
        let outbox = Self {
            protocol,
            messages: sender,
            waiting: Arc::clone(&waiting),
            full_since: None,
            end: Some(end),
            traffic,
        };
        (outbox, OutboxReader { messages, waiting }, ended)
    }

    /// Puts a message in if there is room.
    pub(super) fn put(&mut self, message: &Arc<EncodedMessage>, budget: &ByteBudget, now: Duration) -> Put {
        let waiting = self.waiting.load(Ordering::Acquire);
        let bytes = message.rlp.len();
        let part = match message.urgency {
            Urgency::ApplicationChain => APPLICATION_PART,
            Urgency::Needed | Urgency::Gossip => 1,
        };
        if waiting > 0 && !message.is_needed() && budget.is_exceeded() {
            // Other peers have filled it, so this one is not too slow.
            return Put::Full;
        }
        let messages = OUTBOX_MESSAGES_MAX - self.messages.capacity();
        let has_room = waiting == 0 || waiting + bytes <= OUTBOX_BYTES_MAX / part;
        if has_room && messages < OUTBOX_MESSAGES_MAX / part {
            // Before it is sent: the reader subtracts it.
            self.waiting.fetch_add(bytes, Ordering::AcqRel);
            let sent = self
                .messages
                .try_send(OutboxMessage::Message(Arc::clone(message)));
            if sent.is_ok() {
                if waiting <= OUTBOX_BYTES_MAX / 2 {
                    self.full_since = None;
                }
                return Put::Taken;
            }
            self.waiting.fetch_sub(bytes, Ordering::AcqRel);
        }
        let since = *self.full_since.get_or_insert(now);
        if now.saturating_sub(since) >= OUTBOX_FULL_TIME_MAX {
            Put::FullForLong
        } else {
            Put::Full
        }
    }

    /// Puts a mark in if there is room.
    pub(super) fn mark(&self, position: u64) {
        // If there is no room, the mark of another peer counts, or the next mark.
        let _ = self.messages.try_send(OutboxMessage::Mark(position));
    }

    pub(super) fn end(self, reason: RlpxDisconnect) {
        if let Some(end) = self.end {
            // If the task has ended, so has the connection.
            let _ = end.send(reason);
        }
    }
}

impl OutboxReader {
    /// The next message. `None` if no more come. Losing this future loses nothing.
    pub(super) async fn next(&mut self) -> Option<OutboxMessage> {
        let next = self.messages.recv().await;
        if let Some(OutboxMessage::Message(message)) = &next {
            self.waiting.fetch_sub(message.rlp.len(), Ordering::AcqRel);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use primitives::{B256, Transaction};

    use super::super::bounds::OUTBOX_BYTES_ALL_MAX;
    use super::*;
    use crate::messages::{ApplicationChainMessage, WireFamily};

    fn protocol() -> WireProtocol {
        WireFamily::Mc.protocol(63).expect("known")
    }

    /// Gossip of this length.
    fn message(bytes: usize, budget: &Arc<ByteBudget>) -> Arc<EncodedMessage> {
        let transaction = Transaction {
            input: vec![7; bytes].into(),
            ..Transaction::system(1)
        };
        EncodedMessage::new(&PeerMessage::Transactions(vec![transaction]), protocol(), budget)
    }

    fn request(budget: &Arc<ByteBudget>) -> Arc<EncodedMessage> {
        let message = PeerMessage::GetBlockBodies(1, vec![B256::ZERO]);
        EncodedMessage::new(&message, protocol(), budget)
    }

    fn of_application_chain(bytes: usize, budget: &Arc<ByteBudget>) -> Arc<EncodedMessage> {
        let message = PeerMessage::ApplicationChain(Box::new(ApplicationChainMessage {
            content: vec![7; bytes].into(),
            ..ApplicationChainMessage::default()
        }));
        EncodedMessage::new(&message, protocol(), budget)
    }

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn one_slow_reader_keeps_few_bytes() {
        let budget = ByteBudget::new(OUTBOX_BYTES_ALL_MAX);
        let (mut outbox, _reader, _ended) = Outbox::new(protocol(), Arc::default());
        let put: Vec<_> = (0..OUTBOX_MESSAGES_MAX)
            .map(|_| outbox.put(&message(1 << 20, &budget), &budget, seconds(0)))
            .collect();
        let taken = put.iter().filter(|put| **put == Put::Taken).count();
        assert_eq!(taken, 3, "a fourth one exceeds the bound by its other fields");
        assert!(budget.used() <= OUTBOX_BYTES_MAX);
        // Short ones are bounded in number.
        let (mut outbox, _reader, _ended) = Outbox::new(protocol(), Arc::default());
        let short = message(1, &budget);
        for _ in 0..OUTBOX_MESSAGES_MAX {
            assert_eq!(outbox.put(&short, &budget, seconds(0)), Put::Taken);
        }
        assert_eq!(outbox.put(&short, &budget, seconds(0)), Put::Full);
    }

    #[test]
    fn a_message_to_many_is_kept_once() {
        let budget = ByteBudget::new(OUTBOX_BYTES_ALL_MAX);
        let large = message(3 << 20, &budget);
        let mut outboxes: Vec<_> = (0..50).map(|_| Outbox::new(protocol(), Arc::default())).collect();
        for (outbox, ..) in &mut outboxes {
            assert_eq!(outbox.put(&large, &budget, seconds(0)), Put::Taken);
        }
        drop(large);
        assert!((3 << 20..4 << 20).contains(&budget.used()), "{}", budget.used());
        drop(outboxes);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn many_slow_readers_keep_few_bytes_and_others_are_still_told() {
        let budget = ByteBudget::new(OUTBOX_BYTES_ALL_MAX);
        let mut slow: Vec<_> = (0..100)
            .map(|_| Outbox::new(protocol(), Arc::default()))
            .collect();
        for _ in 0..4 {
            for (outbox, ..) in &mut slow {
                outbox.put(&message(1 << 20, &budget), &budget, seconds(0));
            }
        }
        // Each has at least the one that it may always have.
        let bound = OUTBOX_BYTES_ALL_MAX + 100 * ((1 << 20) + 100);
        assert!(
            budget.is_exceeded() && budget.used() <= bound,
            "{}",
            budget.used()
        );
        let (mut quick, _reader, _ended) = Outbox::new(protocol(), Arc::default());
        assert_eq!(
            quick.put(&message(1 << 20, &budget), &budget, seconds(0)),
            Put::Taken
        );
    }

    #[test]
    fn what_other_peers_do_not_read_keeps_no_request_from_a_peer() {
        let budget = ByteBudget::new(100);
        let (mut outbox, _reader, _ended) = Outbox::new(protocol(), Arc::default());
        let _others = message(200, &budget);
        assert_eq!(outbox.put(&message(1, &budget), &budget, seconds(0)), Put::Taken);
        for at in 0..2 * OUTBOX_FULL_TIME_MAX.as_secs() {
            let gossip = outbox.put(&message(1, &budget), &budget, seconds(at));
            assert_eq!(gossip, Put::Full, "the peer is not too slow");
            let needed = outbox.put(&request(&budget), &budget, seconds(at));
            assert_eq!(needed, Put::Taken, "at {at} s");
        }
        // The bytes that this peer does not read are bounded all the same.
        let taken = (0..OUTBOX_MESSAGES_MAX)
            .filter(|_| outbox.put(&request(&budget), &budget, seconds(99)) == Put::Taken)
            .count();
        assert_eq!(
            taken,
            OUTBOX_MESSAGES_MAX - 2 * OUTBOX_FULL_TIME_MAX.as_secs() as usize - 1
        );
    }

    #[test]
    fn messages_of_application_chains_leave_room_for_others() {
        let budget = ByteBudget::new(OUTBOX_BYTES_ALL_MAX);
        for (bytes, most) in [(1, OUTBOX_MESSAGES_MAX / 2), (1 << 20, 1)] {
            let (mut outbox, _reader, _ended) = Outbox::new(protocol(), Arc::default());
            let flood = of_application_chain(bytes, &budget);
            let mut put = |message: &Arc<EncodedMessage>| outbox.put(message, &budget, seconds(0));
            let taken = (0..OUTBOX_MESSAGES_MAX).filter(|_| put(&flood) == Put::Taken);
            assert_eq!(taken.count(), most, "messages of {bytes} bytes");
            for _ in 0..OUTBOX_MESSAGES_MAX / 4 {
                assert_eq!(put(&message(1000, &budget)), Put::Taken);
                assert_eq!(put(&request(&budget)), Put::Taken);
            }
        }
    }

    #[tokio::test]
    async fn whoever_reads_too_slowly_for_long_is_told_from_who_catches_up() {
        let budget = ByteBudget::new(OUTBOX_BYTES_ALL_MAX);
        let (mut outbox, mut reader, _ended) = Outbox::new(protocol(), Arc::default());
        let mut put = |at| outbox.put(&message(1 << 20, &budget), &budget, seconds(at));
        while put(0) == Put::Taken {}
        // Reading one message now and then is not enough.
        for at in 1..OUTBOX_FULL_TIME_MAX.as_secs() {
            if at % 10 == 0 {
                reader.next().await.expect("a message");
                assert_eq!(put(at), Put::Taken);
            }
            assert_eq!(put(at), Put::Full, "at {at} s");
        }
        assert_eq!(put(OUTBOX_FULL_TIME_MAX.as_secs()), Put::FullForLong);
        // A peer that has caught up begins anew.
        for _ in 0..3 {
            reader.next().await.expect("a message");
        }
        let later = OUTBOX_FULL_TIME_MAX.as_secs() + 1;
        while put(later) == Put::Taken {}
        assert_eq!(put(later + 1), Put::Full);
    }
}
