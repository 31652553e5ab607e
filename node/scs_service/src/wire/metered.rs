//! The memory of messages that are being received.
//!
//! A stream may announce a message of the greatest length and send its last byte never. So the
//! bytes of messages that are not complete are counted for the client, within a bound for all
//! clients.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use inbound::QuotaPermit;
use parking_lot::Mutex;
use tonic::Status;

/// What a request or a stream holds of the memory for received bytes. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct StreamMeter(Arc<Mutex<QuotaPermit>>);

impl StreamMeter {
    /// A meter that counts with `permit`.
    pub(crate) fn new(permit: QuotaPermit) -> Self {
        Self(Arc::new(Mutex::new(permit)))
    }

    /// Gives everything back. Called after a message was received in full and is no longer needed.
    pub(crate) fn release(&self) {
        self.0.lock().shrink(0);
    }

    fn add(&self, len: usize) -> Result<(), Status> {
        let grown = self.0.lock().grow(len);
        grown.map_err(|error| Status::resource_exhausted(format!("memory for received messages: {error}")))
    }
}

/// A body whose bytes are counted.
pub(crate) struct MeteredBody<B> {
    inner: B,
    meter: StreamMeter,
}

impl<B> MeteredBody<B> {
    pub(crate) const fn new(inner: B, meter: StreamMeter) -> Self {
        Self { inner, meter }
    }
}

impl<B> Body for MeteredBody<B>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
            None => return Poll::Ready(None),
            Some(Ok(frame)) => frame,
            // The client has reset the stream, or the connection has ended.
            Some(Err(error)) => return Poll::Ready(Some(Err(Status::cancelled(error.to_string())))),
        };
        let len = frame.data_ref().map_or(0, Bytes::len);
        Poll::Ready(Some(self.meter.add(len).map(|()| frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
