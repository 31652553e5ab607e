//! A conversation on a connection that lasts: messages are answered one after the other, and in
//! between the client is told what it has subscribed to.
//!
//! Knows neither frames nor sockets: a [`Channel`] moves the messages. Nothing piles up for a client
//! that does not read: what it is to be told is asked for when it can be sent, and one that takes
//! too long to take in a message is given up.

use std::future::{pending, ready};
use std::io;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::select_all;
use tokio::sync::watch;

use super::stopped;
use crate::dispatch::Dispatcher;
use crate::error::RpcError;
use crate::subscriptions::{Session, Signal};
use crate::traffic::Room;

/// Moves messages in both directions.
pub(super) trait Channel: Send {
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

/// One conversation's state.
struct Talk<'a, C, T> {
    dispatcher: &'a Dispatcher<C>,
    channel: &'a mut T,
    session: Arc<Session>,
    /// Move when there may be something to tell.
    signals: Vec<Signal>,
    /// Something is left to tell, whatever the signals say.
    behind: bool,
}

/// Talks until the client hangs up or, between two messages, the server stops.
pub(super) async fn talk<C: Send + Sync + 'static, T: Channel>(
    dispatcher: &Dispatcher<C>,
    channel: &mut T,
    stop: &mut watch::Receiver<bool>,
) -> Result<End, Fault> {
    let mut talk = Talk {
        dispatcher,
        channel,
        session: Arc::new(Session::new(dispatcher.limits().subscriptions_max)),
        signals: Vec::new(),
        behind: false,
    };
    loop {
        let message = tokio::select! {
            () = stopped(stop) => return Ok(End::Stopped),
            message = talk.channel.receive() => message?,
            () = news(&mut talk.signals, talk.behind) => {
                talk.tell().await?;
                continue;
            }
        };
        match message {
            Some(message) => talk.answer(message).await?,
            None => return Ok(End::Closed),
        }
    }
}

impl<C: Send + Sync + 'static, T: Channel> Talk<'_, C, T> {
    /// Answers one message, and meanwhile tells what there is to tell.
    async fn answer(&mut self, message: Bytes) -> Result<(), Fault> {
        let session = Arc::clone(&self.session);
        let dispatcher = self.dispatcher;
        let mut answering = pin!(dispatcher.handle_in(message, Some(&*session)));
        let answer = loop {
            tokio::select! {
                answer = answering.as_mut() => break answer,
                () = news(&mut self.signals, self.behind) => self.tell().await?,
            }
        };
        if let Some(answer) = answer {
            self.send(answer).await?;
        }
        self.session.start(&mut self.signals);
        self.behind |= self.session.is_behind();
        Ok(())
    }

    /// Tells the next part of what there is to tell.
    async fn tell(&mut self) -> Result<(), Fault> {
        let pulled = self.dispatcher.pull(&self.session).await.map_err(Fault::Failed)?;
        for message in pulled.messages {
            self.send(message).await?;
        }
        self.behind = pulled.more;
        Ok(())
    }

    async fn send(&mut self, message: Vec<u8>) -> Result<(), Fault> {
        let mut room = Room::default();
        if !self.dispatcher.traffic().take(&mut room, message.len()) {
            return Err(Fault::NoRoom);
        }
        self.channel.send(message).await
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
