//! The memory of messages that are being received, and of answers until they are sent.
//!
//! A stream may announce a message of the greatest length and send its last byte never. So the
//! bytes of messages that are not complete are counted for the client, within a bound for all
//! clients.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use daemon::{QuotaError, QuotaPermit};
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tonic::Status;

/// An answer of at most this many bytes is not counted. So a call that has acted can always say so.
pub(crate) const FREE_ANSWER_LEN: usize = 1024;

/// The part of the memory for received bytes that a request or a stream holds. Clones are the same.
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

    /// Counts `len` more bytes.
    ///
    /// # Errors
    /// If the client would hold more than it may.
    pub(crate) fn add(&self, len: usize) -> Result<(), Status> {
        self.0.lock().grow(len).map_err(refusal)
    }

    /// Counts an answer of `len` bytes in place of what was counted: its request is gone.
    ///
    /// # Errors
    /// If the client would hold more than it may. A short answer always has room.
    pub(crate) fn count_answer(&self, len: usize) -> Result<(), Status> {
        let counted = if len > FREE_ANSWER_LEN { len } else { 0 };
        self.0.lock().resize(counted).map_err(refusal)
    }
}

fn refusal(error: QuotaError) -> Status {
    Status::resource_exhausted(format!("memory for messages and answers: {error}"))
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

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use daemon::{ClientId, Quota};

    use super::*;

    #[test]
    fn a_short_answer_always_has_room() {
        let quota = Quota::new(8000, 100);
        let client = ClientId::from(IpAddr::from(Ipv4Addr::LOCALHOST));
        let meter = || StreamMeter::new(quota.take(client, 0).expect("nothing"));
        let (all, other) = (meter(), meter());
        all.add(6900).expect("room");
        other.add(100).expect("room");
        other.count_answer(FREE_ANSWER_LEN).expect("it has room");
        all.add(100).expect("it was given back");
        assert!(other.count_answer(FREE_ANSWER_LEN + 1).is_err());
        other.count_answer(FREE_ANSWER_LEN).expect("it has room");
        // A long answer takes the place of its request.
        all.count_answer(7000).expect("room");
        assert_eq!(quota.used(), 7000);
        all.count_answer(2000).expect("room");
        assert_eq!(quota.used(), 2000);
    }
}
