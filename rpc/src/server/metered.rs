//! Memory for messages that are still being read: how much of it is reserved, and a stream that
//! reserves it for what it reads.
//!
//! Does not know where a message ends: whoever reads the stream says so. What lies around a message
//! counts, too: headers of its frames, or space between values. So a client that sends nothing else
//! is cut off, and holds no memory that others need.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::traffic::{ClientMemory, MemoryReservation};

/// Memory is reserved in pieces of this many bytes. The first piece is free.
const PIECE_LEN: usize = 64 * 1024;
/// A message may take so many times its greatest length on the wire. The rest is for the headers
/// of its frames.
const WIRE_FACTOR: usize = 2;

/// The memory reserved for one message while it is being read.
pub(super) struct ReadReservation {
    memory: ClientMemory,
    reservation: MemoryReservation,
    reserved_len: usize,
    len: usize,
}

impl ReadReservation {
    /// No bytes are read and nothing is reserved yet.
    pub(super) fn new(memory: ClientMemory) -> Self {
        Self {
            memory,
            reservation: MemoryReservation::default(),
            reserved_len: PIECE_LEN,
            len: 0,
        }
    }

    /// Reserves memory for `len` more bytes. Returns `false` if too little is left.
    pub(super) fn add(&mut self, len: usize) -> bool {
        self.len += len;
        while self.reserved_len < self.len {
            if !self.memory.reserve(&mut self.reservation, PIECE_LEN) {
                return false;
            }
            self.reserved_len += PIECE_LEN;
        }
        true
    }

    /// Forgets `len` of the bytes, which are not kept, and releases their memory.
    fn forget(&mut self, len: usize) {
        self.len = self.len.saturating_sub(len);
        let more_pieces = self.len.div_ceil(PIECE_LEN).saturating_sub(1);
        self.reserved_len = (1 + more_pieces) * PIECE_LEN;
        self.reservation.shrink(more_pieces * PIECE_LEN);
    }

    /// Releases the memory and counts from 0 again.
    pub(super) fn reset(&mut self) {
        (self.reservation, self.reserved_len, self.len) = (MemoryReservation::default(), PIECE_LEN, 0);
    }

    /// The reserved memory, for as long as the message is kept.
    pub(super) fn into_memory(self) -> MemoryReservation {
        self.reservation
    }
}

/// A stream that reserves memory for the bytes it has read since the last whole message. A read
/// fails with [`io::ErrorKind::OutOfMemory`] if too little is left, and with
/// [`io::ErrorKind::FileTooLarge`] if so many bytes hold no message of the greatest length.
pub(super) struct Metered<T> {
    inner: T,
    reservation: ReadReservation,
    /// The most bytes between the ends of two messages.
    wire_len_max: usize,
}

impl<T> Metered<T> {
    /// A stream of messages that have at most `len_max` bytes.
    pub(super) fn new(inner: T, memory: ClientMemory, len_max: usize) -> Self {
        Self {
            inner,
            reservation: ReadReservation::new(memory),
            wire_len_max: len_max.saturating_mul(WIRE_FACTOR).saturating_add(PIECE_LEN),
        }
    }

    /// The stream itself.
    pub(super) const fn inner(&self) -> &T {
        &self.inner
    }

    /// Forgets `len` bytes that were read and are not part of the message that is being read.
    pub(super) fn forget(&mut self, len: usize) {
        self.reservation.forget(len);
    }

    /// Releases the memory: the message is whole, and the caller reserves memory for it from now
    /// on.
    pub(super) fn reset(&mut self) {
        self.reservation.reset();
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(task, buffer);
        let len = buffer.filled().len() - before;
        if len > 0 && !self.reservation.add(len) {
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        if self.reservation.len > self.wire_len_max {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(task)
    }
}

#[cfg(test)]
mod tests {
    use daemon::ClientId;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::traffic::TrafficMemory;

    #[tokio::test]
    async fn long_messages_need_memory() {
        let memory = TrafficMemory::new(2 * PIECE_LEN, 100).client(ClientId::Local(0));
        let bytes = vec![0_u8; 10 * PIECE_LEN];
        let mut stream = Metered::new(bytes.as_slice(), memory.clone(), bytes.len());
        let mut piece = vec![0; PIECE_LEN];
        for _ in 0..3 {
            stream
                .read_exact(&mut piece)
                .await
                .expect("memory for the free piece and two more");
        }
        let mut other = Metered::new(bytes.as_slice(), memory.clone(), bytes.len());
        other
            .read_exact(&mut piece)
            .await
            .expect("the free piece of its own");
        assert!(
            other.read_exact(&mut piece).await.is_err(),
            "the other stream has reserved the rest"
        );
        stream.reset();
        let mut other = Metered::new(bytes.as_slice(), memory.clone(), bytes.len());
        for _ in 0..3 {
            other
                .read_exact(&mut piece)
                .await
                .expect("the memory is free again");
        }
    }

    #[tokio::test]
    async fn bytes_without_a_message_are_bounded() {
        let traffic = TrafficMemory::new(100 * PIECE_LEN, 100);
        let bytes = vec![0_u8; 10 * PIECE_LEN];
        let memory = traffic.client(ClientId::Local(0));
        let mut stream = Metered::new(bytes.as_slice(), memory, PIECE_LEN);
        let mut piece = vec![0; PIECE_LEN];
        for _ in 0..3 {
            stream.read_exact(&mut piece).await.expect("a long message");
        }
        stream.reset();
        for _ in 0..3 {
            stream.read_exact(&mut piece).await.expect("the next message");
        }
        let error = stream
            .read_exact(&mut piece)
            .await
            .expect_err("no message in all this");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[tokio::test]
    async fn forgotten_bytes_release_their_memory_and_no_more() {
        let traffic = TrafficMemory::new(8 * PIECE_LEN, 100);
        let bytes = vec![0_u8; 10 * PIECE_LEN];
        let memory = traffic.client(ClientId::Local(0));
        let mut stream = Metered::new(bytes.as_slice(), memory, bytes.len());
        let mut pieces = vec![0; 3 * PIECE_LEN];
        stream.read_exact(&mut pieces).await.expect("memory");
        assert_eq!(traffic.used(), 2 * PIECE_LEN);
        for (len, used) in [
            (1, 2),
            (PIECE_LEN - 2, 2),
            (1, 1),
            (PIECE_LEN, 0),
            (PIECE_LEN, 0),
            (PIECE_LEN, 0),
        ] {
            stream.forget(len);
            assert_eq!(traffic.used(), used * PIECE_LEN, "{len} bytes are forgotten");
        }
        stream.read_exact(&mut pieces).await.expect("memory");
        assert_eq!(traffic.used(), 2 * PIECE_LEN, "it counts from 0 again");
    }
}
