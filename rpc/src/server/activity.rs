//! The work of a connection, and the time limits that follow from it: one for reading a header, one
//! for being idle, one for reading an answer.
//!
//! hyper's own header timeout also runs between requests, so a short one would cut off idle
//! clients. Here the bytes are watched as they pass. The header timeout runs only from a request's
//! first byte to its last header byte. The idle timeout restarts with every byte. An answer must be
//! read at a least rate ([`ReadPace`]) until its last byte is with the system. From the same times
//! follows whether the connection can make room for another ([`Claimant`]).
//!
//! Knows neither sockets nor what messages say: it is told of bytes, requests and answers.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use daemon::{Claim, Claimant};
use futures_util::future::BoxFuture;
use hyper::Response;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

use super::pace::ReadPace;
use crate::limits::Limits;

/// The work of a connection, shared by its reader, its service and its timer. All three run in the
/// connection's task, so relaxed stores are seen in the order of events.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<ActivityTimes>);

#[derive(Debug)]
struct ActivityTimes {
    opened: Instant,
    header_timeout: Duration,
    idle_timeout: Duration,
    pace: ReadPace,
    /// Milliseconds from `opened` to the first byte of the header being read, or [`NEVER`].
    header_since_ms: AtomicU64,
    /// Milliseconds from `opened` to the last byte in either direction.
    last_byte_ms: AtomicU64,
    /// Requests being read or answered: at most one on an HTTP connection.
    busy: AtomicU64,
    /// Reasons why the node may not end the connection to make room: calls that run,
    /// subscriptions.
    working: AtomicU64,
    /// Milliseconds from `opened` to the begin of the period in which the answer is being sent, or
    /// [`NEVER`].
    answer_since_ms: AtomicU64,
    /// Bytes written in that period.
    answer_len: AtomicU64,
    /// Whether the whole answer was taken by hyper, which may not have written all of it.
    answer_taken: AtomicBool,
}

/// A time that did not come.
const NEVER: u64 = u64::MAX;
/// A connection within a request or an answer is not idle before nothing has passed for this long.
const TRANSFER_PAUSE: Duration = Duration::from_secs(1);

impl Activity {
    /// A connection that has just been opened. The timeout of its first header runs already.
    pub(super) fn new(limits: &Limits) -> Self {
        Self(Arc::new(ActivityTimes {
            opened: Instant::now(),
            header_timeout: limits.header_timeout,
            idle_timeout: limits.idle_timeout,
            pace: ReadPace::new(limits),
            header_since_ms: AtomicU64::new(0),
            last_byte_ms: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            working: AtomicU64::new(0),
            answer_since_ms: AtomicU64::new(NEVER),
            answer_len: AtomicU64::new(0),
            answer_taken: AtomicBool::new(false),
        }))
    }

    /// Says that the node works for the connection, until the guard is dropped.
    pub(super) fn works(&self) -> WorkGuard {
        self.0.working.fetch_add(1, Relaxed);
        WorkGuard(self.clone())
    }

    /// Notes that a message has passed, on a connection whose bytes are not watched.
    pub(super) fn message_passed(&self) {
        self.0.last_byte_ms.store(self.now_ms(), Relaxed);
    }

    /// The time since which the connection is idle. `None` if the node works for it, or if a part
    /// of a message has passed lately.
    fn idle_since(&self, now: Instant) -> Option<Instant> {
        let times = &self.0;
        if times.working.load(Relaxed) > 0 {
            return None;
        }
        let since = times.opened + Duration::from_millis(times.last_byte_ms.load(Relaxed));
        let in_transfer = times.busy.load(Relaxed) > 0 || times.answer_since_ms.load(Relaxed) != NEVER;
        (!in_transfer || now.saturating_duration_since(since) >= TRANSFER_PAUSE).then_some(since)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.opened.elapsed().as_millis()).unwrap_or(NEVER - 1)
    }

    fn bytes_read(&self) {
        let now = self.now_ms();
        self.0.last_byte_ms.store(now, Relaxed);
        if self.0.busy.load(Relaxed) == 0 && self.0.header_since_ms.load(Relaxed) == NEVER {
            self.0.header_since_ms.store(now, Relaxed);
        }
    }

    fn bytes_written(&self, len: usize) {
        self.0.last_byte_ms.store(self.now_ms(), Relaxed);
        self.0.answer_len.fetch_add(len as u64, Relaxed);
    }

    fn answer_begins(&self) {
        self.0.answer_len.store(0, Relaxed);
        self.0.answer_taken.store(false, Relaxed);
        self.0.answer_since_ms.store(self.now_ms(), Relaxed);
    }

    /// All bytes that hyper has taken are written.
    fn flushed(&self) {
        if self.0.answer_taken.load(Relaxed) {
            self.0.answer_since_ms.store(NEVER, Relaxed);
        }
    }

    fn request_begins(&self) -> BusyGuard {
        self.0.header_since_ms.store(NEVER, Relaxed);
        self.0.busy.fetch_add(1, Relaxed);
        BusyGuard(self.clone())
    }

    /// The time at which the connection must be closed if nothing more happens. Starts the next
    /// period of an answer that was read fast enough.
    fn deadline(&self) -> Instant {
        let idle =
            self.0.opened + Duration::from_millis(self.0.last_byte_ms.load(Relaxed)) + self.0.idle_timeout;
        let at = |since_ms: u64| self.0.opened + Duration::from_millis(since_ms);
        let header = match self.0.header_since_ms.load(Relaxed) {
            NEVER => idle,
            since => at(since) + self.0.header_timeout,
        };
        let answer = match self.0.answer_since_ms.load(Relaxed) {
            NEVER => idle,
            since => {
                let (pace, end) = (self.0.pace, at(since) + self.0.pace.period);
                let is_read = self.0.answer_len.load(Relaxed) >= pace.len_min;
                if is_read && Instant::now() >= end {
                    let period_ms = u64::try_from(pace.period.as_millis()).unwrap_or(NEVER - 1);
                    self.0
                        .answer_since_ms
                        .store(since.saturating_add(period_ms.max(1)).min(NEVER - 1), Relaxed);
                    self.0.answer_len.store(0, Relaxed);
                    end + pace.period
                } else {
                    end
                }
            }
        };
        idle.min(header).min(answer)
    }

    /// Drives `connection` to its end. Returns `None` if it ran out of time.
    pub(super) async fn watch<T>(&self, mut connection: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let mut timer_at = self.deadline();
        let mut timer = std::pin::pin!(sleep_until(timer_at));
        poll_fn(|task| {
            if let Poll::Ready(end) = connection.as_mut().poll(task) {
                return Poll::Ready(Some(end));
            }
            let deadline = self.deadline();
            // Most requests move the deadline to a later time. The timer follows such a move only
            // when it expires, because setting it for every request would cost too much.
            if deadline < timer_at {
                timer_at = deadline;
                timer.as_mut().reset(timer_at);
            }
            while timer.as_mut().poll(task).is_ready() {
                timer_at = self.deadline();
                if timer_at <= Instant::now() {
                    return Poll::Ready(None);
                }
                timer.as_mut().reset(timer_at);
            }
            Poll::Pending
        })
        .await
    }
}

/// A connection that the node does not work for can make room. A new one counts as one that has
/// asked before: its first request may be on its way.
impl Claimant for Activity {
    fn claim(&self, now: std::time::Instant) -> (Claim, std::time::Instant) {
        match self.idle_since(Instant::from_std(now)) {
            Some(since) => (Claim::Known, since.into_std()),
            None => (Claim::Active, now),
        }
    }
}

/// Marks a request as being answered. Dropping the guard ends that.
struct BusyGuard(Activity);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.0.busy.fetch_sub(1, Relaxed);
    }
}

/// Marks a connection as one that the node works for. Dropping the guard ends that.
pub(super) struct WorkGuard(Activity);

impl Drop for WorkGuard {
    fn drop(&mut self) {
        self.0.0.working.fetch_sub(1, Relaxed);
    }
}

/// A stream that records what happens on it in [`Activity`].
pub(super) struct Watched<T> {
    pub(super) inner: T,
    pub(super) activity: Activity,
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.remaining();
        let result = Pin::new(&mut self.inner).poll_read(task, buffer);
        if buffer.remaining() != before {
            self.activity.bytes_read();
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(task, bytes);
        self.note_write(&result);
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(task, parts);
        self.note_write(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(task);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.activity.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(task)
    }
}

impl<T> Watched<T> {
    fn note_write(&self, result: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(len @ 1..)) = result {
            self.activity.bytes_written(*len);
        }
    }
}

/// An answer that is being made, to a request that keeps the connection busy.
pub(super) struct WatchedAnswer<B> {
    answer: BoxFuture<'static, Response<B>>,
    /// Gone when the answer is there.
    busy: Option<BusyGuard>,
    activity: Activity,
}

impl<B> WatchedAnswer<B> {
    /// Begins to answer a request by `answer`.
    pub(super) fn new(activity: Activity, answer: impl FnOnce() -> BoxFuture<'static, Response<B>>) -> Self {
        let busy = Some(activity.request_begins());
        Self {
            answer: answer(),
            busy,
            activity,
        }
    }
}

impl<B> Future for WatchedAnswer<B> {
    type Output = Result<Response<WatchedBody<B>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(self.answer.as_mut().poll(task));
        self.busy = None;
        self.activity.answer_begins();
        let activity = self.activity.clone();
        Poll::Ready(Ok(answer.map(|inner| WatchedBody { inner, activity })))
    }
}

/// The body of an answer. hyper drops it when it has taken all of it.
pub(super) struct WatchedBody<B> {
    inner: B,
    activity: Activity,
}

impl<B: Body + Unpin> Body for WatchedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.inner).poll_frame(task)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> Drop for WatchedBody<B> {
    fn drop(&mut self) {
        self.activity.0.answer_taken.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use daemon::{PlaceLimits, Places};
    use futures_util::FutureExt;

    use super::*;
    use crate::caller::remote_client;

    const HEADER: Duration = Duration::from_millis(100);
    const IDLE: Duration = Duration::from_millis(1000);
    const ANSWER: Duration = Duration::from_millis(300);

    fn activity(idle_timeout: Duration) -> Activity {
        Activity::new(&Limits {
            header_timeout: HEADER,
            idle_timeout,
            write_timeout: ANSWER,
            read_rate_min: 1000,
            ..Limits::default()
        })
    }

    #[test]
    fn deadlines_follow_events() {
        let activity = activity(IDLE);
        let opened = activity.0.opened;
        assert_eq!(
            activity.deadline(),
            opened + HEADER,
            "the first header timeout runs from the start"
        );
        let busy = activity.request_begins();
        assert_eq!(
            activity.deadline(),
            opened + IDLE,
            "no header timeout runs while a request is answered"
        );
        activity.bytes_read();
        assert!(
            activity.deadline() >= opened + IDLE,
            "bytes of a body start no header timeout"
        );
        drop(busy);
        assert!(
            activity.deadline() >= opened + IDLE,
            "between requests only the idle timeout runs"
        );
        activity.bytes_read();
        assert!(
            activity.deadline() < opened + IDLE,
            "the next request's first byte starts the header timeout"
        );
    }

    #[test]
    fn an_answer_must_be_read_at_a_least_rate() {
        let activity = activity(Duration::from_secs(60));
        drop(activity.request_begins());
        activity.answer_begins();
        let begin = activity.deadline() - ANSWER;
        assert!(
            begin <= Instant::now() && begin.elapsed() < ANSWER,
            "the first period"
        );
        activity.bytes_written(299);
        std::thread::sleep(ANSWER);
        assert_eq!(activity.deadline(), begin + ANSWER, "too little was read in it");
        activity.bytes_written(1);
        assert_eq!(activity.deadline(), begin + 2 * ANSWER, "the next period");
        activity.flushed();
        assert_eq!(
            activity.deadline(),
            begin + 2 * ANSWER,
            "hyper has not taken all of the answer"
        );
        activity.0.answer_taken.store(true, Relaxed);
        activity.flushed();
        assert!(
            activity.deadline() > begin + Duration::from_secs(50),
            "the answer is with the system"
        );
    }

    #[test]
    fn who_waits_for_the_client_is_idle() {
        let activity = activity(IDLE);
        let now = Instant::now();
        assert!(activity.idle_since(now).is_some(), "a new connection");
        let busy = activity.request_begins();
        assert_eq!(activity.idle_since(now), None, "a body may be on its way");
        assert!(
            activity.idle_since(now + TRANSFER_PAUSE).is_some(),
            "nothing of the body has come for a while"
        );
        let work = activity.works();
        assert_eq!(activity.idle_since(now + TRANSFER_PAUSE), None, "a call runs");
        drop((work, busy));
        activity.answer_begins();
        assert_eq!(activity.idle_since(now), None, "the answer is being read");
        assert!(
            activity.idle_since(now + TRANSFER_PAUSE).is_some(),
            "nobody reads it"
        );
    }

    #[test]
    fn a_connection_that_the_node_works_for_makes_no_room() {
        let places = Places::new(PlaceLimits::with_share(2, 100));
        let connect = || {
            let connection = activity(IDLE);
            let place = places.take(remote_client(1), connection.clone(), std::time::Instant::now());
            place.map(|place| (place, connection))
        };
        let [(first, working), (second, idle)] = [connect(), connect()].map(|taken| taken.expect("a place"));
        let work = working.works();
        let (_third, answering) = connect().expect("room is made");
        let gone = [&first, &second].map(|place| place.displaced().now_or_never().is_some());
        assert_eq!(gone, [false, true], "the one that is idle");
        let busy = answering.request_begins();
        assert!(
            connect().is_none(),
            "none is idle, as the displaced one counts no more"
        );
        drop((work, busy, idle));
        assert!(connect().is_some(), "both are idle again");
    }

    #[tokio::test]
    async fn silence_ends_a_connection() {
        let activity = activity(IDLE);
        let begun = Instant::now();
        let never = std::pin::pin!(std::future::pending::<()>());
        assert_eq!(activity.watch(never).await, None);
        assert!(
            begun.elapsed() >= HEADER && begun.elapsed() < IDLE,
            "{:?}",
            begun.elapsed()
        );
    }

    #[tokio::test]
    async fn bytes_keep_a_connection_open() {
        let activity = activity(2 * HEADER);
        drop(activity.request_begins());
        let writer = activity.clone();
        let connection = std::pin::pin!(async move {
            for _ in 0..10 {
                tokio::time::sleep(HEADER / 2).await;
                writer.bytes_written(1);
            }
            "done"
        });
        assert_eq!(activity.watch(connection).await, Some("done"));
    }
}
