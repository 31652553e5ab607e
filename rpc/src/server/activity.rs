//! The time limits of one HTTP connection: one for reading a header, one for being idle.
//!
//! hyper's own header timeout also runs between requests, so a short one would cut off idle
//! clients. Here the bytes are watched as they pass. The header timeout runs only from a request's
//! first byte to its last header byte. The idle timeout restarts with every byte.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::service::Service;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

/// What a connection is doing, shared by its reader, its service and its timer. All three run in
/// the connection's task, so relaxed stores are seen in the order of events.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<ActivityTimes>);

#[derive(Debug)]
struct ActivityTimes {
    opened: Instant,
    header_timeout: Duration,
    idle_timeout: Duration,
    /// Milliseconds from `opened` to the first byte of the header being read, or [`NO_HEADER`].
    header_since_ms: AtomicU64,
    /// Milliseconds from `opened` to the last byte in either direction.
    last_byte_ms: AtomicU64,
    /// Requests being answered: at most one on a connection.
    busy: AtomicU64,
}

/// No header is being read.
const NO_HEADER: u64 = u64::MAX;

impl Activity {
    /// A connection that has just been opened. The timeout of its first header runs already.
    pub(super) fn new(header_timeout: Duration, idle_timeout: Duration) -> Self {
        Self(Arc::new(ActivityTimes {
            opened: Instant::now(),
            header_timeout,
            idle_timeout,
            header_since_ms: AtomicU64::new(0),
            last_byte_ms: AtomicU64::new(0),
            busy: AtomicU64::new(0),
        }))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.opened.elapsed().as_millis()).unwrap_or(NO_HEADER - 1)
    }

    fn bytes_read(&self) {
        let now = self.now_ms();
        self.0.last_byte_ms.store(now, Relaxed);
        if self.0.busy.load(Relaxed) == 0 && self.0.header_since_ms.load(Relaxed) == NO_HEADER {
            self.0.header_since_ms.store(now, Relaxed);
        }
    }

    fn bytes_written(&self) {
        self.0.last_byte_ms.store(self.now_ms(), Relaxed);
    }

    fn request_begins(&self) -> BusyGuard {
        self.0.header_since_ms.store(NO_HEADER, Relaxed);
        self.0.busy.fetch_add(1, Relaxed);
        BusyGuard(self.clone())
    }

    /// When the connection must be closed if nothing more happens.
    fn deadline(&self) -> Instant {
        let idle =
            self.0.opened + Duration::from_millis(self.0.last_byte_ms.load(Relaxed)) + self.0.idle_timeout;
        match self.0.header_since_ms.load(Relaxed) {
            NO_HEADER => idle,
            since => idle.min(self.0.opened + Duration::from_millis(since) + self.0.header_timeout),
        }
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

/// Marks a request as being answered. Dropping the guard ends that.
struct BusyGuard(Activity);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.0.busy.fetch_sub(1, Relaxed);
    }
}

/// A stream or a service that records what happens on it in [`Activity`].
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
        Pin::new(&mut self.inner).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(task)
    }
}

impl<T> Watched<T> {
    fn note_write(&self, result: &Poll<io::Result<usize>>) {
        if matches!(result, Poll::Ready(Ok(1..))) {
            self.activity.bytes_written();
        }
    }
}

impl<R, S> Service<R> for Watched<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
    S::Response: 'static,
    S::Error: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn call(&self, request: R) -> Self::Future {
        let busy = self.activity.request_begins();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            drop(busy);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Duration = Duration::from_millis(100);
    const IDLE: Duration = Duration::from_millis(1000);

    #[test]
    fn deadlines_follow_events() {
        let activity = Activity::new(HEADER, IDLE);
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

    #[tokio::test]
    async fn silence_ends_a_connection() {
        let activity = Activity::new(HEADER, IDLE);
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
        let activity = Activity::new(HEADER, 2 * HEADER);
        drop(activity.request_begins());
        let writer = activity.clone();
        let connection = std::pin::pin!(async move {
            for _ in 0..10 {
                tokio::time::sleep(HEADER / 2).await;
                writer.bytes_written();
            }
            "done"
        });
        assert_eq!(activity.watch(connection).await, Some("done"));
    }
}
