//! A connection over a stream of bytes: an [`RlpxSession`] with a socket and a clock.
//!
//! One task owns a [`PeerConnection`]. It waits in [`PeerConnection::next`], which also writes what
//! [`PeerConnection::send`] has queued, sends Pings and watches the timeouts. `next` can be dropped
//! at any time without losing bytes, so it can stand in a `select!`.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use primitives::{B512, SecretKey};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::error::{RlpxError, SendError};
use super::frame::FRAME_BYTES_LIMIT;
use super::handshake::HandshakeForm;
use super::hello::RlpxDisconnect;
use super::session::{RlpxEvent, RlpxPeer, RlpxSession, RlpxSettings, WRITE_TIMEOUT};
use crate::entropy::Entropy;
use crate::moment::SystemClock;

/// The most bytes of one read.
const READ_BYTES: usize = 16 << 10;
/// Longest time for the last bytes of a connection that ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes that are read away when a connection ends: the rest of the largest frame.
const CLOSE_BYTES_MAX: usize = FRAME_BYTES_LIMIT;

/// The reason why a connection over a socket ended.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The protocol says so.
    #[error(transparent)]
    Rlpx(#[from] RlpxError),
    /// The socket failed.
    #[error("socket: {0}")]
    Socket(#[from] io::Error),
    /// The other side closed the socket.
    #[error("the peer closed the socket")]
    SocketClosed,
    /// The other side does not read.
    #[error("timeout: no byte could be written in 20 s")]
    WriteTimeout,
}

/// A message of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundMessage {
    /// Index of the capability in `RlpxPeer::shared`.
    pub capability: usize,
    /// The code, counted from the capability's first one.
    pub code: u64,
    /// The RLP after the code.
    pub payload: Vec<u8>,
}

/// An open connection to a peer.
pub struct PeerConnection<S> {
    stream: S,
    session: RlpxSession,
    peer: RlpxPeer,
    clock: SystemClock,
    entropy: Entropy,
    /// The time since which bytes wait that cannot be written.
    stalled: Option<Duration>,
    timer: Pin<Box<Sleep>>,
    is_paused: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> PeerConnection<S> {
    /// Makes a connection to `remote` over `stream`, which this node has dialled.
    ///
    /// # Errors
    /// [`ConnectionError`] if the handshake fails.
    pub async fn dial(
        stream: S,
        key: SecretKey,
        remote: B512,
        form: HandshakeForm,
        settings: RlpxSettings,
        mut entropy: Entropy,
    ) -> Result<Self, ConnectionError> {
        let clock = SystemClock::start();
        let session = RlpxSession::dial(key, remote, form, settings, Duration::ZERO, &mut entropy)?;
        Self::open(stream, session, clock, entropy).await
    }

    /// Makes a connection over `stream`, which another node has dialled.
    ///
    /// # Errors
    /// [`ConnectionError`] if the handshake fails.
    pub async fn accept(
        stream: S,
        key: SecretKey,
        settings: RlpxSettings,
        mut entropy: Entropy,
    ) -> Result<Self, ConnectionError> {
        let clock = SystemClock::start();
        let session = RlpxSession::accept(key, settings, Duration::ZERO, &mut entropy);
        Self::open(stream, session, clock, entropy).await
    }

    async fn open(
        mut stream: S,
        mut session: RlpxSession,
        clock: SystemClock,
        mut entropy: Entropy,
    ) -> Result<Self, ConnectionError> {
        let mut timer = Box::pin(sleep_until(Instant::now()));
        let mut stalled = None;
        let mut parts = SessionParts {
            stream: &mut stream,
            session: &mut session,
            clock: &clock,
            entropy: &mut entropy,
            stalled: &mut stalled,
            timer: timer.as_mut(),
            is_paused: false,
        };
        parts.next_or_written(None).await?;
        // The other side waits for the Hello, even if the caller does nothing for a while.
        parts.flush().await?;
        let peer = session
            .peer()
            .expect("the first event says that the peer is known")
            .clone();
        Ok(Self {
            stream,
            session,
            peer,
            clock,
            entropy,
            stalled,
            timer,
            is_paused: false,
        })
    }

    /// The other side.
    pub const fn peer(&self) -> &RlpxPeer {
        &self.peer
    }

    /// The stream, for what the system knows of it.
    pub const fn stream(&self) -> &S {
        &self.stream
    }

    /// The number of bytes that wait to be sent.
    pub fn backlog(&self) -> usize {
        self.session.output().len()
    }

    /// Reads no more, or reads again. While it does not read, no message comes, and the other side
    /// has to wait once the buffers of the system are full. Pings are sent all the same, and what
    /// waits to be sent is written.
    pub(crate) const fn pause_reading(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Waits for the next message. Writes meanwhile what waits to be sent. Losing this future loses
    /// nothing.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection ended. If that is this side's decision, the other side
    /// was told why.
    pub async fn next(&mut self) -> Result<InboundMessage, ConnectionError> {
        loop {
            if let Some(message) = self.next_or_written(None).await? {
                return Ok(message);
            }
        }
    }

    /// As [`Self::next`]. It also returns, with `None`, when at most `left` bytes wait to be sent.
    ///
    /// # Errors
    /// As for [`Self::next`].
    pub async fn next_or_written(
        &mut self,
        left: Option<usize>,
    ) -> Result<Option<InboundMessage>, ConnectionError> {
        loop {
            match self.parts().next_or_written(left).await? {
                Some(RlpxEvent::Message {
                    capability,
                    code,
                    payload,
                }) => {
                    return Ok(Some(InboundMessage {
                        capability,
                        code,
                        payload,
                    }));
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// Queues a message. [`Self::next`] writes it.
    ///
    /// # Errors
    /// [`SendError`] if it is not taken.
    pub fn send(&mut self, capability: usize, code: u64, payload: &[u8]) -> Result<(), SendError> {
        self.session.send(capability, code, payload)
    }

    /// Ends the connection and tells the other side why.
    pub async fn disconnect(mut self, reason: RlpxDisconnect) {
        self.session.disconnect(reason);
        self.parts().close().await;
    }

    fn parts(&mut self) -> SessionParts<'_, S> {
        SessionParts {
            stream: &mut self.stream,
            session: &mut self.session,
            clock: &self.clock,
            entropy: &mut self.entropy,
            stalled: &mut self.stalled,
            timer: self.timer.as_mut(),
            is_paused: self.is_paused,
        }
    }
}

/// The parts of a connection that move the bytes of a session, before and after the peer is known.
struct SessionParts<'a, S> {
    stream: &'a mut S,
    session: &'a mut RlpxSession,
    clock: &'a SystemClock,
    entropy: &'a mut Entropy,
    stalled: &'a mut Option<Duration>,
    timer: Pin<&'a mut Sleep>,
    is_paused: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> SessionParts<'_, S> {
    /// The next event, or `None` when at most `left` bytes wait to be sent.
    async fn next_or_written(&mut self, left: Option<usize>) -> Result<Option<RlpxEvent>, ConnectionError> {
        let result = poll_fn(|context| match self.poll_next(context) {
            Poll::Pending if left.is_some_and(|left| self.session.output().len() <= left) => {
                Poll::Ready(Ok(None))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(event) => Poll::Ready(event.map(Some)),
        })
        .await;
        if let Err(ConnectionError::Rlpx(_)) = &result {
            // The last bytes are the Disconnect.
            self.close().await;
        }
        result
    }

    /// Writes all that waits to be sent.
    async fn flush(&mut self) -> Result<(), ConnectionError> {
        let late = |_| ConnectionError::WriteTimeout;
        let write = poll_fn(|context| self.poll_write(context));
        Ok(timeout(WRITE_TIMEOUT, write).await.map_err(late)??)
    }

    /// Sends what waits, the Disconnect included, and then reads away what still comes. If bytes of
    /// the other side stayed unread, the system would reset the connection, and the other side
    /// would not learn why it ends.
    /// Nothing is read from a side that has not even shown its key.
    async fn close(&mut self) {
        let has_reason = !self.session.output().is_empty();
        let last = async {
            let write = poll_fn(|context| {
                ready!(self.poll_write(context))?;
                Pin::new(&mut *self.stream).poll_shutdown(context)
            });
            write.await?;
            let mut bytes = vec![0; READ_BYTES];
            let mut left = if has_reason { CLOSE_BYTES_MAX } else { 0 };
            while left > 0 {
                let mut buffer = ReadBuf::new(&mut bytes);
                poll_fn(|context| Pin::new(&mut *self.stream).poll_read(context, &mut buffer)).await?;
                match buffer.filled().len() {
                    0 => break,
                    count => left = left.saturating_sub(count),
                }
            }
            io::Result::Ok(())
        };
        // The connection ends in any case.
        let _ = timeout(CLOSE_TIMEOUT, last).await;
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<RlpxEvent, ConnectionError>> {
        loop {
            let now = self.clock.now().elapsed;
            if self.is_paused {
                self.session.not_reading(now);
            } else if let Some(event) = self.session.next_event(now, self.entropy)? {
                return Poll::Ready(Ok(event));
            }
            let written = self.poll_write(context);
            // Reading never waits for writing, see `UNANSWERED_PINGS_FROM`.
            let mut bytes = [0; READ_BYTES];
            let mut buffer = ReadBuf::new(&mut bytes);
            if !self.is_paused
                && let Poll::Ready(read) = Pin::new(&mut *self.stream).poll_read(context, &mut buffer)
            {
                read?;
                if buffer.filled().is_empty() {
                    return Poll::Ready(Err(ConnectionError::SocketClosed));
                }
                self.session.receive(buffer.filled());
                continue;
            }
            // Bytes that the other side sent before it went are read first.
            if let Poll::Ready(written) = written {
                written?;
            }
            ready!(self.poll_timer(context, now))?;
        }
    }

    /// Waits for the next deadline, then does what it asks for.
    fn poll_timer(&mut self, context: &mut Context<'_>, now: Duration) -> Poll<Result<(), ConnectionError>> {
        let stalled = self.stalled.map(|since| since + WRITE_TIMEOUT);
        if stalled.is_some_and(|end| now >= end) {
            return Poll::Ready(Err(ConnectionError::WriteTimeout));
        }
        let deadline = self.session.deadline().min(stalled.unwrap_or(Duration::MAX));
        if now >= deadline {
            return Poll::Ready(self.session.on_time(now).map_err(ConnectionError::Rlpx));
        }
        let Some(instant) = self.clock.instant(deadline) else {
            return Poll::Pending;
        };
        self.timer.as_mut().reset(instant.into());
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Ok(()))
    }

    /// Writes all that waits to be sent.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.session.output().is_empty() {
            match Pin::new(&mut *self.stream).poll_write(context, self.session.output()) {
                Poll::Ready(written) => {
                    let count = written?;
                    if count == 0 {
                        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                    }
                    self.session.sent(count);
                    *self.stalled = None;
                }
                Poll::Pending => {
                    self.stalled.get_or_insert_with(|| self.clock.now().elapsed);
                    return Poll::Pending;
                }
            }
        }
        Pin::new(&mut *self.stream).poll_flush(context)
    }
}
