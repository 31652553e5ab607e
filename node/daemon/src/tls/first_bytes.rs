//! The first bytes of a client: whether it speaks TLS, and reading them once more.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes that a text shows of what a client has sent.
const SHOWN_LEN_MAX: usize = 32;
/// Names of HTTP's methods that clients begin with.
const HTTP_METHODS: [&str; 9] = [
    "GET ", "POST ", "HEAD ", "PUT ", "DELETE ", "OPTIONS ", "PATCH ", "CONNECT ", "TRACE ",
];

/// The first bytes of a client that does not speak TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct FirstBytes(pub(crate) Vec<u8>);

impl FirstBytes {
    /// Whether they are the begin of a request of HTTP.
    pub fn is_http(&self) -> bool {
        HTTP_METHODS
            .iter()
            .any(|method| self.0.starts_with(method.as_bytes()))
    }
}

/// In quotes, with escapes, shortened.
impl fmt::Display for FirstBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(SHOWN_LEN_MAX)];
        let more = if shown.len() < self.0.len() { "…" } else { "" };
        write!(f, "\"{}{more}\"", shown.escape_ascii())
    }
}

impl fmt::Debug for FirstBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A stream of which some bytes were read already; they are read again first.
#[derive(Debug)]
pub struct Replayed<S> {
    first: Vec<u8>,
    read: usize,
    inner: S,
}

impl<S> Replayed<S> {
    pub(crate) const fn new(first: Vec<u8>, inner: S) -> Self {
        Self {
            first,
            read: 0,
            inner,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Replayed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.first.is_empty() {
            return Pin::new(&mut this.inner).poll_read(task, buffer);
        }
        let left = &this.first[this.read..];
        let len = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..len]);
        this.read += len;
        if this.read == this.first.len() {
            this.first = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Replayed<S> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(task, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(task, parts)
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
