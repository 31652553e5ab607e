//! Subscriptions: what a connection is told of its own accord, for as long as it lasts.
//!
//! A subscription holds a cursor into the node's feeds. The connection's task asks for what is new
//! when it can send, so a slow reader makes nothing pile up: its cursors just stay behind. What
//! there is to subscribe to is in `sources`; how connections use this is in `server/talk.rs`.

mod sources;

use parking_lot::Mutex;
use tokio::sync::watch;

pub(crate) use sources::{Heads, Logs, Pending, Syncing};

use crate::error::{RpcError, RpcResult};
use crate::filters::random_id;
use crate::params::Dialect;
use crate::table::Json;
use crate::types::quantity;

/// Bytes of notifications given to a connection at once, a source's share always together.
const PULL_LEN_MAX: usize = 1 << 20;

/// Something a connection can be told of.
pub(crate) trait Source: Send {
    /// Moves when there may be something new.
    fn signal(&self) -> Signal;

    /// Adds the results of what is new since the last call to `out`, about `len_max` bytes of them;
    /// gives whether there is more.
    fn pull(&mut self, len_max: usize, out: &mut Vec<Json>) -> RpcResult<bool>;
}

/// Moves when there may be something new.
#[derive(Clone, Debug)]
pub(crate) enum Signal {
    /// A count of what has happened.
    Count(watch::Receiver<u64>),
    /// A state.
    State(watch::Receiver<bool>),
}

impl Signal {
    /// Waits for the next move; for ever where there will be none.
    pub(crate) async fn moved(&mut self) {
        let moved = match self {
            Self::Count(count) => count.changed().await,
            Self::State(state) => state.changed().await,
        };
        if moved.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether this is the same signal as `other`.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Count(one), Self::Count(two)) => one.same_channel(two),
            (Self::State(one), Self::State(two)) => one.same_channel(two),
            _ => false,
        }
    }
}

/// The subscriptions of one connection.
#[derive(Debug)]
pub struct Session {
    subscriptions_max: usize,
    subscriptions: Mutex<Vec<Subscription>>,
}

struct Subscription {
    id: u128,
    dialect: Dialect,
    source: Box<dyn Source>,
    /// Nothing is told before the client knows the id.
    started: bool,
    /// Not everything new was told.
    behind: bool,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The next notifications.
#[derive(Debug)]
pub(crate) struct Pulled {
    /// Each a whole message.
    pub(crate) messages: Vec<Vec<u8>>,
    /// Whether there are more.
    pub(crate) more: bool,
}

impl Session {
    /// A connection without subscriptions, of which it may have so many.
    pub fn new(subscriptions_max: usize) -> Self {
        Self {
            subscriptions_max,
            subscriptions: Mutex::default(),
        }
    }

    /// Adds a subscription and gives its id.
    ///
    /// # Errors
    /// −32000 where the connection has as many as it may have.
    pub(crate) fn add(&self, source: Box<dyn Source>, dialect: Dialect) -> RpcResult<String> {
        let id = random_id()?;
        let mut subscriptions = self.subscriptions.lock();
        if subscriptions.len() >= self.subscriptions_max {
            return Err(RpcError::refused(format!(
                "too many subscriptions: at most {} on a connection",
                self.subscriptions_max
            )));
        }
        subscriptions.push(Subscription {
            id,
            dialect,
            source,
            started: false,
            behind: false,
        });
        Ok(quantity(id))
    }

    /// Ends a subscription; whether it was there.
    pub(crate) fn remove(&self, id: u128) -> bool {
        let mut subscriptions = self.subscriptions.lock();
        let before = subscriptions.len();
        subscriptions.retain(|subscription| subscription.id != id);
        subscriptions.len() < before
    }

    /// The client has read the ids of its subscriptions: they start. Adds their signals to those
    /// that the connection waits for.
    pub(crate) fn start(&self, signals: &mut Vec<Signal>) {
        for subscription in self
            .subscriptions
            .lock()
            .iter_mut()
            .filter(|subscription| !subscription.started)
        {
            subscription.started = true;
            // Something may have happened between the subscription and its answer.
            subscription.behind = true;
            let signal = subscription.source.signal();
            if !signals.iter().any(|other| other.is_same(&signal)) {
                signals.push(signal);
            }
        }
    }

    /// Whether something is left to tell, whatever the signals say.
    pub(crate) fn is_behind(&self) -> bool {
        let subscriptions = self.subscriptions.lock();
        subscriptions
            .iter()
            .any(|subscription| subscription.started && subscription.behind)
    }

    /// What there is to tell now, in parts.
    pub(crate) fn pull(&self) -> RpcResult<Pulled> {
        let mut subscriptions = self.subscriptions.lock();
        let mut messages = Vec::new();
        let mut room = PULL_LEN_MAX;
        let mut results = Vec::new();
        let mut passed_over = None;
        for (index, subscription) in subscriptions.iter_mut().enumerate() {
            if !subscription.started {
                continue;
            }
            if room == 0 {
                subscription.behind = true;
                passed_over.get_or_insert(index);
                continue;
            }
            subscription.behind = subscription.source.pull(room, &mut results)?;
            for result in results.drain(..) {
                let message = notification(subscription.id, subscription.dialect, &result);
                room = room.saturating_sub(message.len());
                messages.push(message);
            }
        }
        // Whoever got nothing this time comes first the next.
        if let Some(first) = passed_over {
            subscriptions.rotate_left(first);
        }
        let more = subscriptions
            .iter()
            .any(|subscription| subscription.started && subscription.behind);
        Ok(Pulled { messages, more })
    }
}

fn notification(id: u128, dialect: Dialect, result: &Json) -> Vec<u8> {
    let method = match dialect {
        Dialect::Native => "mc_subscription",
        Dialect::Ethereum => "eth_subscription",
    };
    let mut message =
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"subscription":"{id:#x}","result":"#)
            .into_bytes();
    message.extend_from_slice(result.as_bytes());
    message.extend_from_slice(b"}}");
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives `left` results, one at a time where room is short.
    struct Counter(u64, watch::Receiver<u64>);

    impl Source for Counter {
        fn signal(&self) -> Signal {
            Signal::Count(self.1.clone())
        }

        fn pull(&mut self, len_max: usize, out: &mut Vec<Json>) -> RpcResult<bool> {
            let mut room = len_max;
            while self.0 > 0 && room > 0 {
                let result = Json::write(&"x".repeat(PULL_LEN_MAX / 2))?;
                room = room.saturating_sub(result.as_bytes().len());
                out.push(result);
                self.0 -= 1;
            }
            Ok(self.0 > 0)
        }
    }

    fn source(count: u64) -> Box<Counter> {
        Box::new(Counter(count, watch::Sender::new(0).subscribe()))
    }

    fn id(text: &str) -> u128 {
        u128::from_str_radix(&text[2..], 16).expect("hexadecimal")
    }

    #[test]
    fn nothing_is_told_before_the_answer() {
        let session = Session::new(2);
        session.add(source(1), Dialect::Native).expect("an id");
        assert!(session.pull().expect("a pull").messages.is_empty());
        assert!(!session.is_behind());
        let mut signals = Vec::new();
        session.start(&mut signals);
        assert_eq!(signals.len(), 1);
        assert!(session.is_behind());
        assert_eq!(session.pull().expect("a pull").messages.len(), 1);
    }

    #[test]
    fn notifications_name_their_subscription() {
        let text = notification(0xab, Dialect::Native, &Json::from_text(b"[1]".to_vec()));
        assert_eq!(
            String::from_utf8(text).expect("text"),
            r#"{"jsonrpc":"2.0","method":"mc_subscription","params":{"subscription":"0xab","result":[1]}}"#
        );
        let text = notification(1, Dialect::Ethereum, &Json::from_text(b"1".to_vec()));
        assert!(
            String::from_utf8(text)
                .expect("text")
                .contains(r#""method":"eth_subscription""#)
        );
    }

    #[test]
    fn everyone_gets_a_turn() {
        let session = Session::new(3);
        let ids: Vec<_> = (0..3)
            .map(|_| id(&session.add(source(4), Dialect::Native).expect("an id")))
            .collect();
        session.start(&mut Vec::new());
        let mut told = vec![0; 3];
        for round in 0.. {
            let pulled = session.pull().expect("a pull");
            assert!(pulled.messages.len() <= 3, "{}", pulled.messages.len());
            for message in &pulled.messages {
                let message = String::from_utf8_lossy(&message[..120]).into_owned();
                let which = ids
                    .iter()
                    .position(|id| message.contains(&format!("\"{id:#x}\"")));
                told[which.expect("one of them")] += 1;
            }
            if round == 2 {
                assert!(told.iter().all(|count| *count > 0), "{told:?}");
            }
            if !pulled.more {
                break;
            }
        }
        assert_eq!(told, [4, 4, 4]);
    }

    #[test]
    fn a_connection_has_only_so_many() {
        let session = Session::new(1);
        let first = session.add(source(0), Dialect::Native).expect("an id");
        let refused = session.add(source(0), Dialect::Native).expect_err("one too many");
        assert_eq!(
            refused.message(),
            "too many subscriptions: at most 1 on a connection"
        );
        assert!(session.remove(id(&first)) && !session.remove(id(&first)));
        session.add(source(0), Dialect::Native).expect("a place again");
    }
}
