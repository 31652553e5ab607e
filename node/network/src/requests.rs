//! The requests to one peer that wait for their answers.
//!
//! From eth/66 on an answer has the id of its request. Before, answers of a kind come in the order
//! of the requests of that kind. Each request has a deadline that follows from the peer's round
//! trips: three times the usual one, 2 to 20 s. Knows no sockets and no clock. Source:
//! docs/p2p.md, 3 and 6.

use std::collections::VecDeque;
use std::time::Duration;

use crate::messages::{PeerMessage, RequestId, WireProtocol, codes};

/// Requests to one peer at a time.
pub(crate) const REQUESTS_MAX: usize = 64;
/// Shortest time for an answer.
pub const REQUEST_TIMEOUT_MIN: Duration = Duration::from_secs(2);
/// Longest time for an answer.
pub const REQUEST_TIMEOUT_MAX: Duration = Duration::from_secs(20);
/// A round trip counts this many times in a deadline.
const ROUND_TRIPS: u32 = 3;
/// The share of a new round trip in the usual one is one of so many.
const SMOOTHING: u32 = 8;

/// The content of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AnswerKind {
    Headers,
    Bodies,
    Receipts,
    Transactions,
    State,
    /// An answer of `snap/1`, by its code.
    Snap(u64),
}

impl AnswerKind {
    /// The kind of answer that a request asks for. `None` if the message is no request.
    pub(crate) const fn of_request(message: &PeerMessage) -> Option<Self> {
        match message {
            PeerMessage::GetBlockHeaders(..) => Some(Self::Headers),
            PeerMessage::GetBlockBodies(..) => Some(Self::Bodies),
            PeerMessage::GetReceipts(..) => Some(Self::Receipts),
            PeerMessage::GetPooledTransactions(..) => Some(Self::Transactions),
            PeerMessage::GetNodeData(..) => Some(Self::State),
            PeerMessage::Snap(message) if message.is_request() => Some(Self::Snap(message.code() + 1)),
            _ => None,
        }
    }

    /// The kind of an answer with this code. `None` if it is the code of no answer.
    pub(crate) const fn of_answer_code(code: u64) -> Option<Self> {
        match code {
            codes::BLOCK_HEADERS => Some(Self::Headers),
            codes::BLOCK_BODIES => Some(Self::Bodies),
            codes::RECEIPTS => Some(Self::Receipts),
            codes::POOLED => Some(Self::Transactions),
            codes::NODE_DATA => Some(Self::State),
            code => match codes::of_snap(code) {
                Some(own) if !own.is_multiple_of(2) => Some(Self::Snap(own)),
                _ => None,
            },
        }
    }

    /// The kind of an answer. `None` if the message is no answer.
    pub(crate) const fn of_answer(message: &PeerMessage) -> Option<Self> {
        match message {
            PeerMessage::BlockHeaders(..) => Some(Self::Headers),
            PeerMessage::BlockBodies(..) => Some(Self::Bodies),
            PeerMessage::Receipts(..) => Some(Self::Receipts),
            PeerMessage::PooledTransactions(..) => Some(Self::Transactions),
            PeerMessage::NodeData(..) => Some(Self::State),
            PeerMessage::Snap(message) if !message.is_request() => Some(Self::Snap(message.code())),
            _ => None,
        }
    }
}

/// A request that waits for its answer. `T` is what the asker wants to remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitingRequest<T> {
    /// The id. Each request of this node has one of its own, even if the version sends none.
    pub id: RequestId,
    /// The kind of answer that was asked for.
    pub kind: AnswerKind,
    /// The time at which it was sent.
    pub sent: Duration,
    /// The time at which the answer is late.
    pub deadline: Duration,
    /// The note of the asker.
    pub note: T,
}

/// Too many requests wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("got {REQUESTS_MAX} requests that wait for this peer, expected fewer")]
pub(crate) struct TooManyRequests;

#[derive(Debug)]
pub(crate) struct RequestBook<T> {
    protocol: WireProtocol,
    waiting: VecDeque<WaitingRequest<T>>,
    next_id: RequestId,
    round_trip: Option<Duration>,
}

impl<T> RequestBook<T> {
    pub(crate) const fn new(protocol: WireProtocol) -> Self {
        Self {
            protocol,
            waiting: VecDeque::new(),
            next_id: 1,
            round_trip: None,
        }
    }

    /// The usual round trip. `None` before the first answer.
    pub(crate) const fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// The time that an answer may take now.
    pub(crate) fn timeout(&self) -> Duration {
        self.round_trip.map_or(REQUEST_TIMEOUT_MAX, |usual| {
            (usual * ROUND_TRIPS).clamp(REQUEST_TIMEOUT_MIN, REQUEST_TIMEOUT_MAX)
        })
    }

    /// Notes a request. Returns its id, which belongs into the message.
    ///
    /// # Errors
    /// [`TooManyRequests`] if it must not be sent.
    pub(crate) fn ask(
        &mut self,
        kind: AnswerKind,
        now: Duration,
        note: T,
    ) -> Result<RequestId, TooManyRequests> {
        if self.waiting.len() >= REQUESTS_MAX {
            return Err(TooManyRequests);
        }
        let id = self.next_id;
        self.next_id += 1;
        self.waiting.push_back(WaitingRequest {
            id,
            kind,
            sent: now,
            deadline: now + self.timeout(),
            note,
        });
        Ok(id)
    }

    /// Whether an answer of this kind is waited for.
    pub(crate) fn awaits(&self, kind: AnswerKind) -> bool {
        self.waiting.iter().any(|request| request.kind == kind)
    }

    /// The request that `message` answers. `None` if it answers none.
    pub(crate) fn answered(&mut self, message: &PeerMessage, now: Duration) -> Option<WaitingRequest<T>> {
        let kind = AnswerKind::of_answer(message)?;
        let has_ids = self.protocol.has_request_ids() || matches!(kind, AnswerKind::Snap(_));
        let is_it = |request: &WaitingRequest<T>| {
            request.kind == kind && (!has_ids || message.request_id() == Some(request.id))
        };
        let at = self.waiting.iter().position(is_it)?;
        let request = self.waiting.remove(at)?;
        let trip = now.saturating_sub(request.sent);
        let usual = self.round_trip.unwrap_or(trip);
        self.round_trip = Some((usual * (SMOOTHING - 1) + trip) / SMOOTHING);
        Some(request)
    }

    /// The time at which [`Self::late`] has something to tell.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.waiting.iter().map(|request| request.deadline).min()
    }

    /// The requests whose answers are late. They wait no longer.
    pub(crate) fn late(&mut self, now: Duration) -> Vec<WaitingRequest<T>> {
        let (late, waiting) = self
            .waiting
            .drain(..)
            .partition(|request| request.deadline <= now);
        self.waiting = waiting;
        Vec::from(late)
    }

    /// All requests, when the peer is gone.
    pub(crate) fn into_waiting(self) -> Vec<WaitingRequest<T>> {
        self.waiting.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::WireFamily;

    fn book(version: u64) -> RequestBook<&'static str> {
        RequestBook::new(WireFamily::Eth.protocol(version).expect("known"))
    }

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn answers_with_ids_may_come_in_any_order() {
        let mut book = book(66);
        let first = book.ask(AnswerKind::Headers, seconds(0), "first").expect("room");
        let second = book.ask(AnswerKind::Headers, seconds(0), "second").expect("room");
        let answer = |id| PeerMessage::BlockHeaders(id, Vec::new());
        let mut note = |message: &PeerMessage| book.answered(message, seconds(1)).map(|request| request.note);
        assert_eq!(note(&answer(second)), Some("second"));
        assert_eq!(note(&answer(second)), None, "once only");
        assert_eq!(
            note(&PeerMessage::BlockBodies(first, Vec::new())),
            None,
            "another kind"
        );
        assert_eq!(note(&PeerMessage::NewBlockHashes(Vec::new())), None, "no answer");
        assert_eq!(note(&answer(first)), Some("first"));
        assert!(book.waiting.is_empty());
    }

    #[test]
    fn answers_without_ids_come_in_order() {
        let mut book = book(63);
        for (kind, note) in [
            (AnswerKind::Headers, "one"),
            (AnswerKind::Bodies, "two"),
            (AnswerKind::Headers, "three"),
        ] {
            book.ask(kind, seconds(0), note).expect("room");
        }
        let mut note = |message: &PeerMessage| book.answered(message, seconds(1)).map(|request| request.note);
        assert_eq!(note(&PeerMessage::BlockBodies(0, Vec::new())), Some("two"));
        assert_eq!(note(&PeerMessage::BlockHeaders(0, Vec::new())), Some("one"));
        assert_eq!(note(&PeerMessage::BlockHeaders(0, Vec::new())), Some("three"));
        assert_eq!(note(&PeerMessage::BlockHeaders(0, Vec::new())), None);
    }

    #[test]
    fn deadlines_follow_the_round_trips() {
        let mut book = book(63);
        assert_eq!(book.timeout(), REQUEST_TIMEOUT_MAX);
        let mut trip = |time: Duration| {
            book.ask(AnswerKind::Bodies, seconds(100), "").expect("room");
            book.answered(&PeerMessage::BlockBodies(0, Vec::new()), seconds(100) + time)
                .expect("it waits");
            book.timeout()
        };
        assert_eq!(trip(Duration::from_millis(50)), REQUEST_TIMEOUT_MIN);
        let slow: Vec<_> = (0..50).map(|_| trip(seconds(3))).collect();
        assert!(
            slow.is_sorted() && slow[49] > seconds(8) && slow[49] <= seconds(9),
            "{slow:?}"
        );
        assert_eq!(
            (0..50).map(|_| trip(seconds(60))).last(),
            Some(REQUEST_TIMEOUT_MAX)
        );
    }

    #[test]
    fn late_answers_and_bounds() {
        let mut book = book(66);
        for number in 0..REQUESTS_MAX {
            assert!(book.ask(AnswerKind::Receipts, seconds(number as u64), "").is_ok());
        }
        assert_eq!(
            book.ask(AnswerKind::Receipts, seconds(0), ""),
            Err(TooManyRequests)
        );
        assert_eq!(book.deadline(), Some(REQUEST_TIMEOUT_MAX));
        assert_eq!(book.late(seconds(19)), []);
        let late: Vec<_> = book.late(seconds(21)).iter().map(|request| request.id).collect();
        assert_eq!(late, [1, 2]);
        assert_eq!(book.waiting.len(), REQUESTS_MAX - 2);
        assert_eq!(
            book.answered(&PeerMessage::Receipts(1, Vec::new()), seconds(22)),
            None
        );
        assert_eq!(book.into_waiting().len(), REQUESTS_MAX - 2);
    }

    #[test]
    fn kinds_of_messages() {
        let requests = [
            PeerMessage::GetBlockBodies(1, Vec::new()),
            PeerMessage::GetReceipts(1, Vec::new()),
            PeerMessage::GetPooledTransactions(1, Vec::new()),
            PeerMessage::GetNodeData(1, Vec::new()),
        ];
        let answers = [
            PeerMessage::BlockBodies(1, Vec::new()),
            PeerMessage::Receipts(1, Vec::new()),
            PeerMessage::PooledTransactions(1, Vec::new()),
            PeerMessage::NodeData(1, Vec::new()),
        ];
        for (request, answer) in requests.iter().zip(&answers) {
            let kind = AnswerKind::of_request(request);
            assert!(kind.is_some());
            assert_eq!(kind, AnswerKind::of_answer(answer));
            assert_eq!(AnswerKind::of_answer(request), None);
            assert_eq!(AnswerKind::of_request(answer), None);
        }
    }
}
