//! A conversation on a connection that lasts: messages are answered side by side, each when it is
//! done, and in between the client is told what it has subscribed to.
//!
//! Knows neither frames nor sockets: a [`Channel`] moves the messages. Only so many messages are
//! under way, and none is read while an answer waits to be sent, so a client that asks faster than
//! it reads is held up. Nothing piles up for it either: what it is to be told is asked for when it
//! can be sent, and one that takes too long to take in a message is given up.

use std::collections::VecDeque;
use std::future::{pending, poll_fn, ready};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, select_all};
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;

use super::stopped;
use crate::dispatch::Dispatcher;
use crate::error::{RpcError, RpcResult};
use crate::subscriptions::{Notice, Session, Signal, Subscriptions};
use crate::traffic::Room;

/// Moves messages in both directions.
pub(super) trait Channel: Send {
    /// Whether a client that sends no more may still read, and so waits for its answers.
    const HALF_CLOSES: bool;

    /// The next message; `None` where the client has hung up. May be dropped while it waits, without
    /// loss.
    fn receive(&mut self) -> impl Future<Output = Result<Option<Bytes>, Fault>> + Send;

    /// Sends a message, within the time for that.
    fn send(&mut self, message: Vec<u8>) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// Why a conversation ends before its time.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The client takes too long to take in what it is sent.
    #[error("the client reads too slowly")]
    Slow,
    /// Nothing came for too long, not even an answer to a ping.
    #[error("nothing heard for too long")]
    Silent,
    /// A message is longer than allowed.
    #[error("a message longer than {0} bytes")]
    TooLong(usize),
    /// No further message can be found.
    #[error("{0}")]
    Broken(RpcError),
    /// What came is not the channel's protocol.
    #[error("{0}")]
    Protocol(String),
    /// No room in memory for a long message, as others have taken it.
    #[error("too many long messages at the same time")]
    NoRoom,
    /// The node failed.
    #[error("{0}")]
    Failed(RpcError),
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// How a conversation ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The client hung up.
    Closed,
    /// The server stops.
    Stopped,
}

/// Talks until the client hangs up or the server stops; then what is under way is finished where
/// somebody may read it.
pub(super) async fn talk<C: Send + Sync + 'static, T: Channel>(
    dispatcher: &Dispatcher<C>,
    channel: &mut T,
    stop: &mut watch::Receiver<bool>,
) -> Result<End, Fault> {
    let mut work = Work::new(dispatcher);
    let mut end = None;
    loop {
        while let Some(message) = work.unsent.pop_front() {
            work.send(channel, message).await?;
        }
        if work.calls.is_empty()
            && let Some(end) = end
        {
            return end;
        }
        let reads = end.is_none() && work.calls.len() < dispatcher.limits().connection_calls_max;
        tokio::select! {
            () = stopped(stop), if end.is_none() => end = Some(Ok(End::Stopped)),
            message = channel.receive(), if reads => match message {
                Ok(Some(message)) => work.begin(message).await?,
                Ok(None) if T::HALF_CLOSES => end = Some(Ok(End::Closed)),
                Ok(None) => return Ok(End::Closed),
                // What came before is still to be answered.
                Err(fault @ Fault::Broken(_)) => end = Some(Err(fault)),
                Err(fault) => return Err(fault),
            },
            done = work.go_on() => done?,
        }
    }
}

/// What a conversation is busy with. Dropped, calls that have not begun never do.
struct Work<'a, C> {
    dispatcher: &'a Dispatcher<C>,
    subscriptions: Arc<Subscriptions>,
    /// The messages under way.
    calls: FuturesUnordered<BoxFuture<'a, Answered>>,
    /// The question what there is to tell.
    asking: Option<BoxFuture<'a, RpcResult<Vec<Notice>>>>,
    /// Move when there may be something to tell.
    signals: Vec<Signal>,
    /// Something is left to tell, whatever the signals say.
    behind: bool,
    unsent: VecDeque<Unsent>,
    /// How many of those not sent, or not sent to their end, are notices.
    notices: usize,
}

/// A message that is done.
struct Answered {
    answer: Option<Vec<u8>>,
    session: Session,
}

/// A message for the client.
enum Unsent {
    /// With the room that it takes up since it was made.
    Answer(Vec<u8>, Room),
    Notice(Vec<u8>),
}

impl<'a, C: Send + Sync + 'static> Work<'a, C> {
    fn new(dispatcher: &'a Dispatcher<C>) -> Self {
        Self {
            dispatcher,
            subscriptions: Subscriptions::new(dispatcher.limits().subscriptions_max),
            calls: FuturesUnordered::new(),
            asking: None,
            signals: Vec::new(),
            behind: false,
            unsent: VecDeque::new(),
            notices: 0,
        }
    }

    /// Begins with a message, and is done with it at once where nothing has to be waited for: such
    /// messages are answered in the order in which they came.
    async fn begin(&mut self, message: Bytes) -> Result<(), Fault> {
        let room = self.room(message.len())?;
        let dispatcher = self.dispatcher;
        let session = self.subscriptions.session();
        let mut call: BoxFuture<'a, Answered> = Box::pin(async move {
            let answer = dispatcher.handle_in(message, Some(&session)).await;
            drop(room);
            Answered { answer, session }
        });
        match poll_fn(|task| Poll::Ready(call.as_mut().poll(task))).await {
            Poll::Ready(answered) => self.finish(answered),
            Poll::Pending => {
                self.calls.push(call);
                Ok(())
            }
        }
    }

    /// Waits for the next thing to be done; for ever where there is none. May be dropped while it
    /// waits, without loss.
    async fn go_on(&mut self) -> Result<(), Fault> {
        let asks = self.asking.is_none() && self.notices == 0;
        tokio::select! {
            Some(answered) = self.calls.next() => self.finish(answered),
            told = asked(&mut self.asking) => {
                self.asking = None;
                self.behind = self.subscriptions.is_behind();
                // One that has ended since is not heard of after the answer that says so.
                let notices = self.subscriptions.still_wanted(told.map_err(Fault::Failed)?);
                self.notices += notices.len();
                self.unsent.extend(notices.into_iter().map(|notice| Unsent::Notice(notice.text)));
                Ok(())
            }
            () = news(&mut self.signals, self.behind), if asks => {
                let subscriptions = Arc::clone(&self.subscriptions);
                self.asking = Some(Box::pin(self.dispatcher.pull(subscriptions)));
                Ok(())
            }
        }
    }

    /// Puts the answer behind what waits to be sent; notices of subscriptions made with it come
    /// behind it.
    fn finish(&mut self, Answered { answer, session }: Answered) -> Result<(), Fault> {
        if let Some(answer) = answer {
            let room = self.room(answer.len())?;
            self.unsent.push_back(Unsent::Answer(answer, room));
        }
        self.subscriptions.start(&session, &mut self.signals);
        self.behind |= self.subscriptions.is_behind();
        Ok(())
    }

    /// Sends a message; meanwhile the others go on.
    async fn send(&mut self, channel: &mut impl Channel, message: Unsent) -> Result<(), Fault> {
        let is_notice = matches!(message, Unsent::Notice(_));
        let (text, _room) = match message {
            Unsent::Answer(text, room) => (text, room),
            Unsent::Notice(text) => {
                let room = self.room(text.len())?;
                (text, room)
            }
        };
        let mut sending = pin!(channel.send(text));
        loop {
            tokio::select! {
                sent = sending.as_mut() => {
                    self.notices -= usize::from(is_notice);
                    return sent;
                }
                done = self.go_on() => done?,
            }
        }
    }

    fn room(&self, len: usize) -> Result<Room, Fault> {
        let mut room = Room::default();
        match self.dispatcher.traffic().take(&mut room, len) {
            true => Ok(room),
            false => Err(Fault::NoRoom),
        }
    }
}

/// The answer to the question what there is to tell; never where it is not asked.
async fn asked<T>(asking: &mut Option<BoxFuture<'_, T>>) -> T {
    match asking {
        Some(asking) => asking.await,
        None => pending().await,
    }
}

/// Waits until there may be something to tell: at once where something is left, for ever where
/// there are no subscriptions.
async fn news(signals: &mut [Signal], behind: bool) {
    if behind {
        return ready(()).await;
    }
    if signals.is_empty() {
        return pending().await;
    }
    select_all(signals.iter_mut().map(|signal| Box::pin(signal.moved()))).await;
}

#[cfg(test)]
mod tests;
