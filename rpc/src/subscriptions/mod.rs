//! Subscriptions: what a connection is told of its own accord, for as long as it lasts.
//!
//! A subscription holds a cursor into the node's feeds. The connection's task asks for what is new
//! when it can send, so a slow reader makes nothing pile up: its cursors just stay behind. A message
//! sees its connection's subscriptions through a [`Session`] of its own. What
//! there is to subscribe to is in `sources`; how connections use this is in `server/talk.rs`.

mod sources;

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

pub(crate) use sources::{Heads, Logs, Pending, Syncing};

use crate::error::{RpcError, RpcResult};
use crate::ids::random_id;
use crate::json::Json;
use crate::modules::Dialect;
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
///
/// Its messages are answered side by side, and meanwhile there is something to tell: whoever asks
/// the sources holds them alone and no lock, so a message never waits for the chain to be read.
pub(crate) struct Subscriptions {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Every subscription there is, told of already or not.
    ids: HashSet<u128>,
    /// Those that are told of and not being asked just now.
    told: Vec<Subscription>,
}

struct Subscription {
    id: u128,
    dialect: Dialect,
    source: Box<dyn Source>,
    /// Not everything new was told.
    behind: bool,
}

/// A notification on its way.
#[derive(Debug)]
pub(crate) struct Notice {
    id: u128,
    /// A whole message.
    pub(crate) text: Vec<u8>,
}

impl Subscriptions {
    /// Those of a connection that may have so many.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            state: Mutex::default(),
        })
    }

    /// What the calls of one more message see of them.
    pub(crate) fn session(self: &Arc<Self>) -> Session {
        Session {
            subscriptions: Arc::clone(self),
            made: Mutex::default(),
        }
    }

    /// The answer to `session`'s message is on its way, and what is told from now on comes after
    /// it: the subscriptions made in it begin. Adds their signals to those that the connection
    /// waits for.
    pub(crate) fn start(&self, session: &Session, signals: &mut Vec<Signal>) {
        let mut made = session.made.lock();
        if made.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for mut subscription in made.drain(..) {
            if !state.ids.contains(&subscription.id) {
                continue;
            }
            let signal = subscription.source.signal();
            if !signals.iter().any(|other| other.is_same(&signal)) {
                signals.push(signal);
            }
            // Something may have happened between the subscription and its answer.
            subscription.behind = true;
            state.told.push(subscription);
        }
    }

    /// Whether something is left to tell, whatever the signals say.
    pub(crate) fn is_behind(&self) -> bool {
        let state = self.state.lock();
        state.told.iter().any(|subscription| subscription.behind)
    }

    /// Leaves those of `notices` out whose subscription has ended since they were made.
    pub(crate) fn still_wanted(&self, mut notices: Vec<Notice>) -> Vec<Notice> {
        let state = self.state.lock();
        notices.retain(|notice| state.ids.contains(&notice.id));
        notices
    }

    /// What there is to tell now, in parts. For one caller at a time.
    pub(crate) fn pull(&self) -> RpcResult<Vec<Notice>> {
        let mut asked = std::mem::take(&mut self.state.lock().told);
        let pulled = pull(&mut asked);
        let mut state = self.state.lock();
        asked.retain(|subscription| state.ids.contains(&subscription.id));
        asked.append(&mut state.told);
        state.told = asked;
        pulled
    }
}

/// Asks each for its share; whoever gets nothing this time comes first the next.
fn pull(asked: &mut [Subscription]) -> RpcResult<Vec<Notice>> {
    let mut notices = Vec::new();
    let mut room = PULL_LEN_MAX;
    let mut results = Vec::new();
    let mut passed_over = None;
    for (index, subscription) in asked.iter_mut().enumerate() {
        if room == 0 {
            subscription.behind = true;
            passed_over.get_or_insert(index);
            continue;
        }
        let Subscription { id, dialect, .. } = *subscription;
        subscription.behind = subscription.source.pull(room, &mut results)?;
        for result in results.drain(..) {
            let text = notification(id, dialect, &result);
            room = room.saturating_sub(text.len());
            notices.push(Notice { id, text });
        }
    }
    asked.rotate_left(passed_over.unwrap_or_default());
    Ok(notices)
}

/// What the calls of one message do to the subscriptions of its connection. Nothing is told of
/// those that they make before the message's answer is on its way.
pub struct Session {
    subscriptions: Arc<Subscriptions>,
    made: Mutex<Vec<Subscription>>,
}

impl Session {
    /// Adds a subscription and gives its id.
    ///
    /// # Errors
    /// −32000 where the connection has as many as it may have.
    pub(crate) fn add(&self, source: Box<dyn Source>, dialect: Dialect) -> RpcResult<String> {
        let id = random_id()?;
        let mut state = self.subscriptions.state.lock();
        if state.ids.len() >= self.subscriptions.max {
            return Err(RpcError::refused(format!(
                "too many subscriptions: at most {} on a connection",
                self.subscriptions.max
            )));
        }
        state.ids.insert(id);
        drop(state);
        self.made.lock().push(Subscription {
            id,
            dialect,
            source,
            behind: false,
        });
        Ok(quantity(id))
    }

    /// Ends a subscription; whether it was there.
    pub(crate) fn remove(&self, id: u128) -> bool {
        let mut state = self.subscriptions.state.lock();
        state.told.retain(|subscription| subscription.id != id);
        state.ids.remove(&id)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
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
        let subscriptions = Subscriptions::new(3);
        let (first, second) = (subscriptions.session(), subscriptions.session());
        first.add(source(1), Dialect::Native).expect("an id");
        let later = second.add(source(1), Dialect::Native).expect("an id");
        assert!(subscriptions.pull().expect("a pull").is_empty());
        assert!(!subscriptions.is_behind());
        let mut signals = Vec::new();
        subscriptions.start(&first, &mut signals);
        assert_eq!(signals.len(), 1);
        assert!(subscriptions.is_behind());
        assert_eq!(
            subscriptions.pull().expect("a pull").len(),
            1,
            "only of the one that was answered"
        );
        // Ended before its answer was on its way.
        assert!(first.remove(id(&later)));
        subscriptions.start(&second, &mut signals);
        assert!(subscriptions.pull().expect("a pull").is_empty());
    }

    #[test]
    fn what_has_ended_meanwhile_is_not_told() {
        let subscriptions = Subscriptions::new(2);
        let session = subscriptions.session();
        let ids: Vec<_> = (0..2)
            .map(|_| id(&session.add(source(1), Dialect::Native).expect("an id")))
            .collect();
        subscriptions.start(&session, &mut Vec::new());
        let pulled = subscriptions.pull().expect("a pull");
        assert_eq!(pulled.len(), 2);
        assert!(session.remove(ids[0]));
        let left = subscriptions.still_wanted(pulled);
        assert_eq!(left.iter().map(|notice| notice.id).collect::<Vec<_>>(), [ids[1]]);
    }

    /// Ends its own subscription, and makes another, while it is asked.
    struct Meddler(Session, Arc<Mutex<u128>>);

    impl Source for Meddler {
        fn signal(&self) -> Signal {
            Signal::Count(watch::Sender::new(0).subscribe())
        }

        fn pull(&mut self, _: usize, out: &mut Vec<Json>) -> RpcResult<bool> {
            assert!(self.0.remove(*self.1.lock()), "no lock is held");
            self.0.add(source(1), Dialect::Native)?;
            out.push(Json::write(&1)?);
            Ok(true)
        }
    }

    #[test]
    fn messages_do_not_wait_for_what_is_being_asked() {
        let subscriptions = Subscriptions::new(1);
        let (session, meanwhile) = (subscriptions.session(), subscriptions.session());
        let own = Arc::new(Mutex::new(0));
        let meddler = Meddler(meanwhile, Arc::clone(&own));
        *own.lock() = id(&session.add(Box::new(meddler), Dialect::Native).expect("an id"));
        subscriptions.start(&session, &mut Vec::new());
        let pulled = subscriptions.pull().expect("a pull");
        assert_eq!(pulled.len(), 1);
        assert!(subscriptions.still_wanted(pulled).is_empty());
        assert!(!subscriptions.is_behind(), "it is not put back");
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
        let subscriptions = Subscriptions::new(3);
        let session = subscriptions.session();
        let ids: Vec<_> = (0..3)
            .map(|_| id(&session.add(source(4), Dialect::Native).expect("an id")))
            .collect();
        subscriptions.start(&session, &mut Vec::new());
        let mut told = vec![0; 3];
        for round in 0.. {
            let pulled = subscriptions.pull().expect("a pull");
            assert!(pulled.len() <= 3, "{}", pulled.len());
            for notice in &pulled {
                let which = ids.iter().position(|id| *id == notice.id).expect("one of them");
                let begin = String::from_utf8_lossy(&notice.text[..120]).into_owned();
                assert!(begin.contains(&format!("\"{:#x}\"", ids[which])), "{begin}");
                told[which] += 1;
            }
            if round == 2 {
                assert!(told.iter().all(|count| *count > 0), "{told:?}");
            }
            if !subscriptions.is_behind() {
                break;
            }
        }
        assert_eq!(told, [4, 4, 4]);
    }

    #[test]
    fn a_connection_has_only_so_many() {
        let subscriptions = Subscriptions::new(1);
        let (session, other) = (subscriptions.session(), subscriptions.session());
        let first = session.add(source(0), Dialect::Native).expect("an id");
        let refused = other.add(source(0), Dialect::Native).expect_err("one too many");
        assert_eq!(
            refused.message(),
            "too many subscriptions: at most 1 on a connection"
        );
        assert!(session.remove(id(&first)) && !other.remove(id(&first)));
        other.add(source(0), Dialect::Native).expect("a place again");
    }
}
