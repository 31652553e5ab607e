//! The messages that wait for one stream to be sent.
//!
//! The queue is bounded by number and bytes, and by the memory for all queues. Broadcasts of other
//! SCSs may fill a part of it only, and are dropped beyond that, as in the published node. If
//! anything else finds no place, the stream ends with an error: so its SCS knows that it has lost
//! something, connects again and reads the state of its contracts.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use daemon::{QuotaPermit, percent_of};
use parking_lot::Mutex;
use tonic::Status;

use super::limits::BROADCAST_PERCENT;
use crate::proto::ScsPushMsg;

/// Bytes of a waiting message beside its fields.
const ENTRY_LEN: usize = 400;

/// The fate of a message for an SCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PushOutcome {
    /// The message will be sent.
    Queued,
    /// The queue has no place for it.
    Dropped,
    /// The stream has ended, or ends now because the queue has no place.
    Ended,
}

/// The messages that wait for one stream.
#[derive(Debug)]
pub(super) struct PushQueue {
    len_max: usize,
    bytes_max: usize,
    state: Mutex<QueueState>,
}

#[derive(Debug)]
struct QueueState {
    messages: VecDeque<ScsPushMsg>,
    /// Bytes of the messages, and of those that were taken out and are not sent yet.
    bytes: usize,
    /// Bytes of those that were taken out and are in no part of the stream's body yet.
    taken: usize,
    /// Bytes of those in parts of the stream's body. A part counts until it is dropped, because
    /// HTTP/2 keeps it until its client lets it through.
    sending: usize,
    /// The part of the memory for all queues that the messages hold.
    permit: QuotaPermit,
    end: QueueEnd,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum QueueEnd {
    Open,
    /// The stream ends when all messages are sent.
    Closed,
    /// The stream ends at once with this error.
    Failed(Status),
    /// The stream has ended.
    Over,
}

impl PushQueue {
    /// An empty queue, whose memory is counted with `permit`.
    pub(super) const fn new(len_max: usize, bytes_max: usize, permit: QuotaPermit) -> Self {
        Self {
            len_max,
            bytes_max,
            state: Mutex::new(QueueState {
                messages: VecDeque::new(),
                bytes: 0,
                taken: 0,
                sending: 0,
                permit,
                end: QueueEnd::Open,
                waker: None,
            }),
        }
    }

    /// Adds a message. It must be compact, see [`ScsPushMsg::compact`].
    pub(super) fn push(&self, message: ScsPushMsg, is_broadcast: bool) -> PushOutcome {
        let state = &mut *self.state.lock();
        if !matches!(state.end, QueueEnd::Open) {
            return PushOutcome::Ended;
        }
        let len = ENTRY_LEN + message.content_len();
        let share = |max| {
            if is_broadcast {
                percent_of(max, BROADCAST_PERCENT)
            } else {
                max
            }
        };
        let (count, bytes) = (state.messages.len() + 1, state.bytes + len);
        let refused = if count > share(self.len_max) {
            Some(format!("got {count} messages, expected at most {}", self.len_max))
        } else if bytes > share(self.bytes_max) {
            Some(format!("got {bytes} bytes, expected at most {}", self.bytes_max))
        } else {
            state.permit.grow(len).err().map(|error| error.to_string())
        };
        match refused {
            None => {
                state.bytes = bytes;
                state.messages.push_back(message);
                state.wake();
                PushOutcome::Queued
            }
            Some(_) if is_broadcast => PushOutcome::Dropped,
            Some(reason) => {
                let text = format!("messages that wait for this SCS: {reason}");
                state.fail(Status::resource_exhausted(text));
                PushOutcome::Ended
            }
        }
    }

    /// Whether messages are still taken.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state.lock().end, QueueEnd::Open)
    }

    /// Ends the stream when all messages are sent.
    pub(super) fn close(&self) {
        let state = &mut *self.state.lock();
        if matches!(state.end, QueueEnd::Open) {
            state.end = QueueEnd::Closed;
            state.wake();
        }
    }

    /// Ends the stream at once with an error.
    pub(super) fn fail(&self, status: Status) {
        let state = &mut *self.state.lock();
        if matches!(state.end, QueueEnd::Open | QueueEnd::Closed) {
            state.fail(status);
        }
    }

    /// The next message that is to be sent; `None` at the end.
    pub(super) fn poll_next(&self, context: &Context<'_>) -> Poll<Option<Result<ScsPushMsg, Status>>> {
        let state = &mut *self.state.lock();
        match std::mem::replace(&mut state.end, QueueEnd::Over) {
            QueueEnd::Failed(status) => return Poll::Ready(Some(Err(status))),
            QueueEnd::Over => return Poll::Ready(None),
            QueueEnd::Closed if state.messages.is_empty() => return Poll::Ready(None),
            end => state.end = end,
        }
        let Some(message) = state.messages.pop_front() else {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        state.taken += ENTRY_LEN + message.content_len();
        Poll::Ready(Some(Ok(message)))
    }

    /// The part `bytes` of the stream's body, which holds the messages that were taken out since
    /// the last part. Their memory is given back when the part is dropped.
    pub(super) fn part(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        let state = &mut *self.state.lock();
        let len = std::mem::take(&mut state.taken);
        state.sending += len;
        Bytes::from_owner(QueuePart {
            bytes,
            len,
            queue: Arc::clone(self),
        })
    }
}

/// A part of the body of a stream.
struct QueuePart {
    bytes: Bytes,
    /// The bytes that its messages count for.
    len: usize,
    queue: Arc<PushQueue>,
}

impl AsRef<[u8]> for QueuePart {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for QueuePart {
    fn drop(&mut self) {
        let state = &mut *self.queue.state.lock();
        state.sending -= self.len;
        state.bytes -= self.len;
        state.permit.shrink(state.bytes);
    }
}

impl QueueState {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn fail(&mut self, status: Status) {
        self.end = QueueEnd::Failed(status);
        self.messages = VecDeque::new();
        self.bytes = self.taken + self.sending;
        self.permit.shrink(self.bytes);
        self.wake();
    }
}

/// A stream of what waits in a queue. `_guard` is dropped with it.
pub(super) struct Outbound<G> {
    queue: Arc<PushQueue>,
    _guard: G,
}

impl<G> Outbound<G> {
    pub(super) const fn new(queue: Arc<PushQueue>, guard: G) -> Self {
        Self { queue, _guard: guard }
    }
}

impl<G: Unpin> tokio_stream::Stream for Outbound<G> {
    type Item = Result<ScsPushMsg, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.queue.poll_next(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use daemon::{ClientId, Quota};

    use super::*;

    fn quota(bytes: usize) -> Quota {
        Quota::new(bytes, 100)
    }

    fn queue(quota: &Quota, len_max: usize, bytes_max: usize) -> Arc<PushQueue> {
        let client = ClientId::from(IpAddr::from(Ipv4Addr::LOCALHOST));
        let permit = quota.take(client, 0).expect("nothing");
        Arc::new(PushQueue::new(len_max, bytes_max, permit))
    }

    fn message(len: usize) -> ScsPushMsg {
        ScsPushMsg {
            msghash: Bytes::from(vec![1; len]),
            ..ScsPushMsg::default()
        }
    }

    /// The messages that are sent now: lengths of messages, then the error, if any.
    fn sent(queue: &Arc<PushQueue>) -> (Vec<usize>, Option<tonic::Code>) {
        let sent = taken(queue);
        drop(queue.part(Bytes::new()));
        sent
    }

    /// As [`sent`], and the messages are in no part yet.
    fn taken(queue: &PushQueue) -> (Vec<usize>, Option<tonic::Code>) {
        let context = Context::from_waker(Waker::noop());
        let mut lengths = Vec::new();
        loop {
            match queue.poll_next(&context) {
                Poll::Ready(Some(Ok(message))) => lengths.push(message.msghash.len()),
                Poll::Ready(Some(Err(status))) => return (lengths, Some(status.code())),
                Poll::Ready(None) | Poll::Pending => return (lengths, None),
            }
        }
    }

    #[test]
    fn messages_are_sent_in_order_and_give_their_memory_back() {
        let quota = quota(1 << 20);
        let queue = queue(&quota, 10, 1 << 20);
        for len in [3, 1, 2] {
            assert_eq!(queue.push(message(len), false), PushOutcome::Queued);
        }
        assert_eq!(quota.used(), 3 * ENTRY_LEN + 6);
        assert_eq!(sent(&queue), (vec![3, 1, 2], None));
        assert_eq!(quota.used(), 0);
        queue.push(message(4), false);
        queue.close();
        assert_eq!(queue.push(message(5), false), PushOutcome::Ended);
        assert_eq!(sent(&queue), (vec![4], None));
    }

    #[test]
    fn messages_count_until_their_part_is_dropped() {
        let quota = quota(1 << 20);
        let queue = queue(&quota, 10, 1 << 20);
        let push = |len| assert_eq!(queue.push(message(len), false), PushOutcome::Queued);
        let counted = |messages: usize, bytes| assert_eq!(quota.used(), messages * ENTRY_LEN + bytes);
        push(3);
        push(1);
        assert_eq!(taken(&queue), (vec![3, 1], None));
        let first = queue.part(Bytes::from_static(b"first"));
        assert_eq!(first, "first");
        push(2);
        assert_eq!(taken(&queue), (vec![2], None));
        counted(3, 6);
        let second = queue.part(Bytes::new());
        push(5);
        queue.fail(Status::cancelled("as asked"));
        counted(3, 6);
        drop(first);
        counted(1, 2);
        assert_eq!(taken(&queue), (vec![], Some(tonic::Code::Cancelled)));
        drop(queue);
        counted(1, 2);
        drop(second);
        counted(0, 0);
    }

    #[test]
    fn broadcasts_leave_room_for_the_rest() {
        let quota = quota(1 << 20);
        let queue = queue(&quota, 8, 1 << 20);
        let outcomes: Vec<_> = (0..7).map(|_| queue.push(message(1), true)).collect();
        assert_eq!(outcomes[..6], [PushOutcome::Queued; 6]);
        assert_eq!(outcomes[6..], [PushOutcome::Dropped]);
        assert_eq!(queue.push(message(1), false), PushOutcome::Queued);
        assert_eq!(queue.push(message(1), false), PushOutcome::Queued);
        assert_eq!(queue.push(message(1), false), PushOutcome::Ended, "it is full");
        assert_eq!(sent(&queue), (vec![], Some(tonic::Code::ResourceExhausted)));
        assert_eq!(sent(&queue), (vec![], None), "it is over");
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn bytes_are_bounded_for_one_queue_and_for_all() {
        let quota = quota(64 << 10);
        let one = queue(&quota, 1000, 20 << 10);
        assert_eq!(one.push(message(16 << 10), true), PushOutcome::Dropped);
        assert_eq!(one.push(message(16 << 10), false), PushOutcome::Queued);
        assert_eq!(one.push(message(4 << 10), false), PushOutcome::Ended);
        let others: Vec<_> = (0..10).map(|_| queue(&quota, 1000, 20 << 10)).collect();
        let queued = others
            .iter()
            .filter(|queue| queue.push(message(16 << 10), false) == PushOutcome::Queued)
            .count();
        assert_eq!(queued, 3, "an eighth is left for others");
    }
}
