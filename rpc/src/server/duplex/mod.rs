//! The exchange of messages on a connection that lasts: the client's messages are answered side by
//! side, each as soon as it is done, and notifications of subscriptions are sent in between.
//!
//! Knows neither frames nor sockets: a [`DuplexChannel`] moves the messages. A client that asks
//! faster than it reads is held up, because the number of running calls is bounded and no message
//! is read while an answer waits to be sent. Notifications do not pile up either: the subscriptions
//! are pulled only when their notifications can be sent. If too little memory is left for one, the
//! subscriptions stay where they are for a while. A client that takes too long to read a message is
//! disconnected, and so is one whose notification finds no memory for as long.

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use daemon::stopped;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, select_all};
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::acceptor::RequestSource;
use crate::caller::RpcCaller;
use crate::dispatch::{Answering, PullResult};
use crate::error::RpcError;
use crate::message::NoMemory;
use crate::subscriptions::{ChangeSignal, MessageSubscriptions, Subscriptions};
use crate::text::Text;
use crate::traffic::{FREE_LEN, MemoryReservation};

/// Time between two pulls if too little memory is left for a notification.
const MEMORY_PAUSE: Duration = Duration::from_millis(100);

/// Moves messages in both directions.
pub(super) trait DuplexChannel: Send {
    /// Whether a client that sends no more may still read, and so waits for its answers.
    const HALF_CLOSES: bool;

    /// Waits for the next message. Returns `None` if the client has hung up. Dropping the future
    /// loses no message.
    fn receive(&mut self) -> impl Future<Output = Result<Option<Bytes>, DuplexError>> + Send;

    /// Waits until a client that sends no more has also stopped to read.
    fn closed(&mut self) -> impl Future<Output = ()> + Send {
        pending()
    }

    /// Sends a message. It may wait for the next one if that follows at once (`has_more`). Fails
    /// with [`DuplexError::SlowReader`] if it takes too long.
    fn send(&mut self, message: Text, has_more: bool)
    -> impl Future<Output = Result<(), DuplexError>> + Send;
}

/// The reason why the server closes a connection while it does not stop.
#[derive(Debug, thiserror::Error)]
pub(super) enum DuplexError {
    /// The client takes too long to read what it is sent.
    #[error("the client reads too slowly")]
    SlowReader,
    /// The client has sent nothing for too long, not even an answer to a ping.
    #[error("the client was silent for too long")]
    Silent,
    /// The token that the client came with is not valid any more.
    #[error("the token was withdrawn or has expired")]
    Withdrawn,
    /// A message is longer than allowed.
    #[error("a message is longer than {0} bytes")]
    TooLong(usize),
    /// The input is such that no further message can be found in it.
    #[error("{0}")]
    Unreadable(RpcError),
    /// The client broke the channel's protocol.
    #[error("{0}")]
    Protocol(String),
    /// Too little memory is left for a long message, as other messages have reserved it.
    #[error("too many long messages at the same time")]
    NoMemory,
    /// Too little memory is left for a notification, for as long as a client may take to read one.
    #[error("too little memory is left for a notification")]
    Starved,
    /// The node failed.
    #[error("{0}")]
    Node(RpcError),
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The end of an exchange of messages.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DuplexEnd {
    /// The client hung up.
    Closed,
    /// The server stops.
    Stopped,
}

/// Exchanges messages with `client` until it hangs up or the server stops. Running calls then get
/// the grace for stopping. Returns `None` if the grace was too short for them.
pub(super) async fn serve(
    dispatcher: &dyn Answering,
    channel: &mut impl DuplexChannel,
    source: &RequestSource,
    stop: &watch::Receiver<bool>,
) -> Option<Result<DuplexEnd, DuplexError>> {
    let (mut stop, mut exchange_stop) = (stop.clone(), stop.clone());
    let mut exchange = pin!(exchange_messages(dispatcher, channel, source, &mut exchange_stop));
    tokio::select! {
        end = exchange.as_mut() => Some(end),
        () = stopped(&mut stop) => timeout(dispatcher.limits().stop_grace, exchange).await.ok(),
    }
}

/// Exchanges messages until the client hangs up or the server stops. Running calls are then
/// finished if the client may still read their answers.
async fn exchange_messages<T: DuplexChannel>(
    dispatcher: &dyn Answering,
    channel: &mut T,
    source: &RequestSource,
    stop: &mut watch::Receiver<bool>,
) -> Result<DuplexEnd, DuplexError> {
    let mut connection = DuplexConnection::new(dispatcher, &source.caller);
    let mut end = None;
    let mut works = None;
    loop {
        while let Some(message) = connection.unsent.pop_front() {
            works.get_or_insert_with(|| source.activity.works());
            connection.send(channel, message).await?;
        }
        works = connection
            .is_in_use()
            .then(|| works.take().unwrap_or_else(|| source.activity.works()));
        if connection.calls.is_empty()
            && let Some(end) = end
        {
            return end;
        }
        let reads = end.is_none() && connection.calls.len() < dispatcher.limits().connection_calls_max;
        tokio::select! {
            () = stopped(stop), if end.is_none() => end = Some(Ok(DuplexEnd::Stopped)),
            event = next_event(channel, reads, end.is_some()) => match event {
                ClientEvent::Message(Ok(Some(message))) => {
                    source.activity.message_passed();
                    connection.start_call(message).await?;
                }
                ClientEvent::Message(Ok(None)) if T::HALF_CLOSES => end = Some(Ok(DuplexEnd::Closed)),
                ClientEvent::Message(Ok(None)) | ClientEvent::Gone => return Ok(DuplexEnd::Closed),
                // The messages before the unreadable one are still answered.
                ClientEvent::Message(Err(error @ DuplexError::Unreadable(_))) => end = Some(Err(error)),
                ClientEvent::Message(Err(error)) => return Err(error),
            },
            progress = connection.progress() => progress?,
        }
    }
}

/// An act of a client.
enum ClientEvent {
    /// The client sends a message, or no more.
    Message(Result<Option<Bytes>, DuplexError>),
    /// The client does not read any more, either.
    Gone,
}

/// Waits for what the client does next, if messages are read or if it has ended to send.
async fn next_event(channel: &mut impl DuplexChannel, reads: bool, has_ended: bool) -> ClientEvent {
    match (reads, has_ended) {
        (true, _) => ClientEvent::Message(channel.receive().await),
        (false, true) => {
            channel.closed().await;
            ClientEvent::Gone
        }
        (false, false) => pending().await,
    }
}

/// The calls, subscriptions and unsent messages of one connection. Dropping it drops the calls that
/// have not begun.
struct DuplexConnection<'a> {
    dispatcher: &'a dyn Answering,
    caller: &'a RpcCaller,
    subscriptions: Arc<Subscriptions>,
    /// The messages that are being answered.
    calls: FuturesUnordered<BoxFuture<'a, FinishedCall>>,
    /// The running pull of the subscriptions.
    pull: Option<BoxFuture<'a, PullResult>>,
    /// The signals of all subscriptions. A change means that there may be something new to pull.
    signals: Vec<ChangeSignal>,
    /// The last pull left something behind, so another pull is due without a signal.
    has_backlog: bool,
    /// The time since which too little memory is left for a notification.
    lacks_memory_since: Option<Instant>,
    /// Then there is no pull before this time.
    paused_until: Option<Instant>,
    unsent: VecDeque<OutgoingMessage>,
    /// Notifications that are unsent or being sent.
    unsent_notifications: usize,
    /// The memory of these notifications.
    notification_memory: MemoryReservation,
}

/// A message whose call is done.
struct FinishedCall {
    answer: Result<Option<Text>, NoMemory>,
    subscriptions: MessageSubscriptions,
}

/// A message for the client.
enum OutgoingMessage {
    Answer(Text),
    Notification(Text),
}

impl<'a> DuplexConnection<'a> {
    fn new(dispatcher: &'a dyn Answering, caller: &'a RpcCaller) -> Self {
        Self {
            dispatcher,
            caller,
            subscriptions: Subscriptions::new(dispatcher.limits().subscriptions_max),
            calls: FuturesUnordered::new(),
            pull: None,
            signals: Vec::new(),
            has_backlog: false,
            lacks_memory_since: None,
            paused_until: None,
            unsent: VecDeque::new(),
            unsent_notifications: 0,
            notification_memory: MemoryReservation::default(),
        }
    }

    /// Whether the client waits for something: an answer or notifications.
    fn is_in_use(&self) -> bool {
        !self.calls.is_empty() || !self.signals.is_empty() && self.subscriptions.any()
    }

    /// Starts to answer a message. A message that needs no waiting is answered here, so such
    /// messages are answered in the order in which they came.
    async fn start_call(&mut self, message: Bytes) -> Result<(), DuplexError> {
        let reservation = self.reserve(message.len())?;
        let (dispatcher, caller) = (self.dispatcher, self.caller);
        let subscriptions = self.subscriptions.of_message();
        let mut call: BoxFuture<'a, FinishedCall> = Box::pin(async move {
            let answer = dispatcher
                .answer_boxed(message, caller, Some(&subscriptions))
                .await;
            drop(reservation);
            FinishedCall {
                answer,
                subscriptions,
            }
        });
        match poll_fn(|task| Poll::Ready(call.as_mut().poll(task))).await {
            Poll::Ready(finished) => self.finish_call(finished),
            Poll::Pending => {
                self.calls.push(call);
                Ok(())
            }
        }
    }

    /// Waits until a call or a pull is done, or starts the next pull. Waits for ever if there is
    /// neither. Dropping the future loses nothing.
    async fn progress(&mut self) -> Result<(), DuplexError> {
        let may_pull = self.pull.is_none() && self.unsent_notifications == 0;
        let paused_until = self.paused_until;
        tokio::select! {
            Some(finished) = self.calls.next() => self.finish_call(finished),
            pulled = pull_result(&mut self.pull) => {
                self.pull = None;
                self.has_backlog = self.subscriptions.has_backlog();
                // A subscription may have ended during the pull. Nothing of it may follow the
                // answer that says so.
                let (pulled, memory) = pulled.map_err(DuplexError::Node)?;
                self.note_memory(pulled.lacks_memory)?;
                let notifications = self.subscriptions.without_ended(pulled.notifications);
                if !notifications.is_empty() {
                    self.notification_memory = memory;
                }
                self.unsent_notifications += notifications.len();
                let messages = notifications.into_iter().map(|notification| notification.text);
                self.unsent.extend(messages.map(OutgoingMessage::Notification));
                Ok(())
            }
            () = sleep_until(paused_until.unwrap_or_else(Instant::now)), if paused_until.is_some() => {
                self.paused_until = None;
                Ok(())
            }
            () = something_new(&mut self.signals, self.has_backlog), if may_pull && paused_until.is_none() => {
                let subscriptions = Arc::clone(&self.subscriptions);
                let memory = self.caller.memory.clone();
                self.pull = Some(self.dispatcher.pull_boxed(subscriptions, memory));
                Ok(())
            }
        }
    }

    /// Notes whether the last pull lacked memory for a notification.
    ///
    /// # Errors
    /// If memory was lacking for as long as a client may take to read a message.
    fn note_memory(&mut self, is_lacking: bool) -> Result<(), DuplexError> {
        if !is_lacking {
            self.lacks_memory_since = None;
            return Ok(());
        }
        let now = Instant::now();
        let since = *self.lacks_memory_since.get_or_insert(now);
        if now.duration_since(since) >= self.dispatcher.limits().write_timeout {
            return Err(DuplexError::Starved);
        }
        self.paused_until = Some(now + MEMORY_PAUSE);
        Ok(())
    }

    /// Queues the answer, and starts the subscriptions that the call made. Their notifications come
    /// after the answer.
    fn finish_call(
        &mut self,
        FinishedCall {
            answer,
            subscriptions,
        }: FinishedCall,
    ) -> Result<(), DuplexError> {
        match answer {
            Ok(answer) => self.unsent.extend(answer.map(OutgoingMessage::Answer)),
            Err(NoMemory) => return Err(DuplexError::NoMemory),
        }
        self.subscriptions.start(&subscriptions, &mut self.signals);
        self.has_backlog |= self.subscriptions.has_backlog();
        Ok(())
    }

    /// Sends a message. Calls and pulls go on meanwhile.
    async fn send(
        &mut self,
        channel: &mut impl DuplexChannel,
        message: OutgoingMessage,
    ) -> Result<(), DuplexError> {
        let is_notification = matches!(message, OutgoingMessage::Notification(_));
        let (OutgoingMessage::Answer(text) | OutgoingMessage::Notification(text)) = message;
        let has_more = !self.unsent.is_empty();
        let mut sending = pin!(channel.send(text, has_more));
        loop {
            tokio::select! {
                sent = sending.as_mut() => {
                    self.unsent_notifications -= usize::from(is_notification);
                    if self.unsent_notifications == 0 {
                        self.notification_memory.shrink(0);
                    }
                    return sent;
                }
                progress = self.progress() => progress?,
            }
        }
    }

    /// Reserves memory for messages of `len` bytes.
    fn reserve(&self, len: usize) -> Result<MemoryReservation, DuplexError> {
        let mut reservation = MemoryReservation::default();
        match len <= FREE_LEN || self.caller.memory.reserve(&mut reservation, len) {
            true => Ok(reservation),
            false => Err(DuplexError::NoMemory),
        }
    }
}

/// Waits for the result of the pull. Waits for ever if there is no pull.
async fn pull_result<T>(pull: &mut Option<BoxFuture<'_, T>>) -> T {
    match pull {
        Some(pull) => pull.await,
        None => pending().await,
    }
}

/// Waits until a pull may find something: not at all if there is a backlog, for ever if there are
/// no subscriptions.
async fn something_new(signals: &mut [ChangeSignal], has_backlog: bool) {
    if has_backlog {
        return;
    }
    if signals.is_empty() {
        return pending().await;
    }
    select_all(signals.iter_mut().map(|signal| Box::pin(signal.changed()))).await;
}

#[cfg(test)]
mod tests;
