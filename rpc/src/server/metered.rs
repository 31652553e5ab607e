//! A stream that counts what it has read since its last whole message, and holds room for it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::traffic::{Room, Traffic};

/// Room is taken in pieces of this many bytes; the first is free.
const PIECE_LEN: usize = 64 * 1024;

/// A stream that holds room for what it reads.
pub(super) struct Metered<T> {
    inner: T,
    traffic: Traffic,
    room: Room,
    room_len: usize,
    len: usize,
}

impl<T> Metered<T> {
    pub(super) fn new(inner: T, traffic: Traffic) -> Self {
        Self {
            inner,
            traffic,
            room: Room::default(),
            room_len: PIECE_LEN,
            len: 0,
        }
    }

    /// What was read is whole: it is counted elsewhere from now on.
    pub(super) fn reset(&mut self) {
        (self.room, self.room_len, self.len) = (Room::default(), PIECE_LEN, 0);
    }

    fn count(&mut self, len: usize) -> bool {
        self.len += len;
        while self.room_len < self.len {
            if !self.traffic.take(&mut self.room, PIECE_LEN) {
                return false;
            }
            self.room_len += PIECE_LEN;
        }
        true
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
        if len > 0 && !self.count(len) {
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
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
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn long_messages_need_room() {
        let traffic = Traffic::new(2 * PIECE_LEN);
        let bytes = vec![0_u8; 10 * PIECE_LEN];
        let mut stream = Metered::new(bytes.as_slice(), traffic.clone());
        let mut piece = vec![0; PIECE_LEN];
        for _ in 0..3 {
            stream
                .read_exact(&mut piece)
                .await
                .expect("room for a free piece and two more");
        }
        let mut other = Metered::new(bytes.as_slice(), traffic);
        other.read_exact(&mut piece).await.expect("its free piece");
        assert!(other.read_exact(&mut piece).await.is_err(), "the rest is taken");
        stream.reset();
        let mut other = Metered::new(bytes.as_slice(), stream.traffic.clone());
        for _ in 0..3 {
            other.read_exact(&mut piece).await.expect("given back");
        }
    }
}
