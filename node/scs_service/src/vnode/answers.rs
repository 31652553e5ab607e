//! Answers of calls, from the moment when they are made until they are sent.
//!
//! A client of HTTP/2 decides how much it is sent. One that asks and lets nothing through would
//! keep its answers here. So their bytes count as memory of the client, and a connection with an
//! answer that is not sent in time ends.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use super::server::{ConnectionState, OpenCall};
use crate::wire::metered::StreamMeter;

/// The times at which the answers of a connection were made that are not sent yet, by number.
#[derive(Debug, Default)]
pub(super) struct UnsentAnswers {
    next: u64,
    made: BTreeMap<u64, Instant>,
}

impl UnsentAnswers {
    /// Adds an answer. Returns its number.
    fn add(&mut self, made: Instant) -> u64 {
        let number = self.next;
        self.next += 1;
        self.made.insert(number, made);
        number
    }

    /// The time at which the oldest of them was made.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.made.values().next().copied()
    }
}

/// An answer that is not sent yet, with the memory that it takes and its open call.
struct UnsentAnswer {
    connection: Arc<ConnectionState>,
    number: u64,
    _meter: StreamMeter,
    _open: OpenCall,
}

impl Drop for UnsentAnswer {
    fn drop(&mut self) {
        self.connection.unsent.lock().made.remove(&self.number);
    }
}

/// A part of an answer. HTTP/2 drops it when all of it is sent, or its stream has ended.
struct AnswerPart {
    bytes: Bytes,
    _answer: Arc<UnsentAnswer>,
}

impl AsRef<[u8]> for AnswerPart {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The answer `inner`, whose bytes are counted with `meter`. The call stays `open` until it is
/// sent.
pub(super) fn counted_answer(
    inner: Body,
    connection: Arc<ConnectionState>,
    meter: StreamMeter,
    open: OpenCall,
) -> Body {
    let number = connection.unsent.lock().add(Instant::now());
    let answer = Arc::new(UnsentAnswer {
        connection,
        number,
        _meter: meter,
        _open: open,
    });
    let hold = move |bytes| {
        let _answer = Arc::clone(&answer);
        Bytes::from_owner(AnswerPart { bytes, _answer })
    };
    Body::new(HeldBody { inner, hold })
}

/// A body whose parts are passed through `hold`. HTTP/2 takes a part as a whole as soon as its
/// client lets one byte through, and asks for the next part at once. So only the drop of the
/// part's bytes says that they are sent.
pub(super) struct HeldBody<F> {
    pub(super) inner: Body,
    pub(super) hold: F,
}

impl<F: Fn(Bytes) -> Bytes + Unpin> HttpBody for HeldBody<F> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        Poll::Ready(frame.map(|frame| Ok(frame?.map_data(&self.hold))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
