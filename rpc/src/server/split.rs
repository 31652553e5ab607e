//! A TCP stream that can be asked whether the client has hung up while somebody else reads it.
//!
//! Does not know what the bytes mean, and keeps none of them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::sleep;

use crate::caller::HangUp;

/// The time between two looks for a client that has sent its next request already.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A TCP stream in two halves. The half that writes is shared with those who watch for the end.
pub(super) struct SplitStream {
    read: OwnedReadHalf,
    write: Arc<OwnedWriteHalf>,
}

/// Knows whether the client of a TCP stream has hung up.
///
/// A client that only stops to send looks the same as one that has gone. It counts as gone, as for
/// other servers.
pub(super) struct StreamHangUp(Arc<OwnedWriteHalf>);

impl SplitStream {
    pub(super) fn new(stream: TcpStream) -> Self {
        let (read, write) = stream.into_split();
        Self {
            read,
            write: Arc::new(write),
        }
    }

    pub(super) fn hang_up(&self) -> StreamHangUp {
        StreamHangUp(Arc::clone(&self.write))
    }

    /// Writes by `write` as soon as the stream takes bytes.
    fn poll_try(
        &self,
        task: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let stream: &TcpStream = (*self.write).as_ref();
        loop {
            ready!(stream.poll_write_ready(task))?;
            match write(stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl HangUp for StreamHangUp {
    fn wait(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            loop {
                let stream: &TcpStream = (*self.0).as_ref();
                match stream.ready(Interest::READABLE).await {
                    Ok(ready) if !ready.is_read_closed() => {}
                    _ => return,
                }
                // There are bytes that nobody reads now, so the next look would find them again.
                sleep(LOOK_INTERVAL).await;
            }
        })
    }
}

impl AsyncRead for SplitStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.read).poll_read(task, buffer)
    }
}

impl AsyncWrite for SplitStream {
    fn poll_write(self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_try(task, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_try(task, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing: whoever ends a connection here drops it at once, and that closes it.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_end_of_a_client_is_noticed_behind_unread_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(address).await.expect("a connection");
        let mut server = SplitStream::new(listener.accept().await.expect("a connection").0);
        client.write_all(b"one").await.expect("sent");
        let mut read = [0; 3];
        server.read_exact(&mut read).await.expect("read");
        let hang_up = server.hang_up();
        let a_while = 3 * LOOK_INTERVAL;
        assert!(
            timeout(a_while, hang_up.wait()).await.is_err(),
            "the client waits"
        );
        client.write_all(b"two").await.expect("sent");
        assert!(
            timeout(a_while, hang_up.wait()).await.is_err(),
            "it has sent more"
        );
        drop(client);
        let noticed = timeout(Duration::from_secs(20), hang_up.wait()).await;
        assert!(noticed.is_ok(), "it has gone");
        server.read_exact(&mut read).await.expect("what it had sent");
        assert_eq!(&read, b"two");
    }
}
