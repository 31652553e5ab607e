//! Subscriptions: notifications that a connection gets without asking again, for as long as it
//! lasts.
//!
//! A subscription holds a cursor into the node's feeds. The connection's task pulls new results
//! when it can send them, and never more than `PULL_LEN_MAX` or one result. For a slow reader
//! nothing piles up: its cursors just stay behind. The same holds if too little memory is left for
//! a pull. The calls of a message see the subscriptions of their connection through a
//! [`MessageSubscriptions`]. The kinds of subscriptions are in `sources.rs`. The connections are
//! served by `server/duplex`.

mod sources;

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

pub(crate) use sources::{HeadSource, MatchingLogs, NewHeads, NewWorkSource, PendingSource, SyncSource};

use crate::error::{RpcError, RpcResult};
use crate::ids::random_id;
use crate::json::Json;
use crate::modules::NameStyle;
use crate::text::{COPY_LEN_MAX, Text, TextWriter};
use crate::types::quantity;

/// Bytes of notifications that one pull returns, with those beside their texts. The last result may
/// exceed them.
pub(crate) const PULL_LEN_MAX: usize = 64 << 10;
/// As the bound of a pull: it returns one result.
pub(crate) const ONE_RESULT: usize = 1;
/// Bytes that a notification takes in memory beside its result: the text around the result, and the
/// values that hold it.
const NOTIFICATION_LEN: usize = 384;
/// Bytes that are reserved for a pull while it runs: for the results, and for the notifications
/// that are made of them. A result that is longer than a piece of text is reserved on its own.
pub(crate) const PULL_RESERVED: usize = 2 * (PULL_LEN_MAX + COPY_LEN_MAX);

/// The origin of the results of a subscription.
pub(crate) trait SubscriptionSource: Send {
    /// Changes when there may be new results.
    fn signal(&self) -> ChangeSignal;

    /// Adds the results since the last call to `out`, as long as they find a place. Returns whether
    /// there are more. After an error the results are thrown away, and the next call adds them
    /// again.
    fn pull(&mut self, out: &mut PulledResults) -> RpcResult<bool>;
}

/// The results of one source in one pull.
#[derive(Debug)]
pub(crate) struct PulledResults {
    results: Vec<Json>,
    len_left: usize,
}

impl PulledResults {
    /// None yet, and place for about `len_max` bytes of notifications.
    const fn new(len_max: usize) -> Self {
        Self {
            results: Vec::new(),
            len_left: len_max,
        }
    }

    /// Whether no further result finds a place.
    pub(crate) const fn is_full(&self) -> bool {
        self.len_left == 0
    }

    /// Adds a result. Returns `false` if it finds no place, or too little memory is left and others
    /// can be sent before it.
    ///
    /// # Errors
    /// As [`Json::write`], if it is the first result.
    pub(crate) fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> RpcResult<bool> {
        if self.is_full() {
            return Ok(false);
        }
        match Json::write(value) {
            Ok(result) => {
                let len = NOTIFICATION_LEN + result.text().len();
                self.len_left = self.len_left.saturating_sub(len);
                self.results.push(result);
                Ok(true)
            }
            Err(error) if error == RpcError::no_memory() && !self.results.is_empty() => {
                self.len_left = 0;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// A value that changes when there may be new results.
#[derive(Clone, Debug)]
pub(crate) enum ChangeSignal {
    /// A count of events.
    Count(watch::Receiver<u64>),
    /// A state that is on or off.
    State(watch::Receiver<bool>),
}

impl ChangeSignal {
    /// Waits for the next change. Waits for ever if the sender is gone.
    pub(crate) async fn changed(&mut self) {
        let changed = match self {
            Self::Count(count) => count.changed().await,
            Self::State(state) => state.changed().await,
        };
        if changed.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether both are receivers of the same sender.
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
/// The connection's messages are answered while its sources are pulled. A pull takes the sources
/// out and holds no lock, so a message never waits until a pull has read the chain.
pub(crate) struct Subscriptions {
    max: usize,
    state: Mutex<SubscriptionsState>,
}

#[derive(Default)]
struct SubscriptionsState {
    /// Every subscription, also those that are not started yet or are being pulled.
    ids: HashSet<u128>,
    /// The subscriptions that are started and not being pulled.
    started: Vec<Subscription>,
}

struct Subscription {
    id: u128,
    name_style: NameStyle,
    source: Box<dyn SubscriptionSource>,
    /// The last pull left results behind.
    has_more: bool,
}

/// A notification that is to be sent.
#[derive(Debug)]
pub(crate) struct Notification {
    /// The subscription's id.
    id: u128,
    /// The whole JSON-RPC message. The memory of a long one is reserved.
    pub(crate) text: Text,
}

/// The outcome of one pull.
#[derive(Debug, Default)]
pub(crate) struct PulledNotifications {
    /// The notifications, in the order in which they are sent.
    pub(crate) notifications: Vec<Notification>,
    /// Bytes of memory that they take, about. Those of long results are reserved on their own.
    pub(crate) len: usize,
    /// Too little memory was left for a result. Nothing is lost: a later pull returns it.
    pub(crate) lacks_memory: bool,
}

impl Subscriptions {
    /// The subscriptions of a connection that may have at most `max`.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            state: Mutex::default(),
        })
    }

    /// The subscriptions of a connection, as the calls of one message see them.
    pub(crate) fn of_message(self: &Arc<Self>) -> MessageSubscriptions {
        MessageSubscriptions {
            subscriptions: Arc::clone(self),
            created: Mutex::default(),
        }
    }

    /// Starts the subscriptions that the calls of `message` created, and adds their signals to
    /// `signals`. The caller has queued the answer to their message, so that every notification
    /// comes after it.
    pub(crate) fn start(&self, message: &MessageSubscriptions, signals: &mut Vec<ChangeSignal>) {
        let mut created = message.created.lock();
        if created.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for mut subscription in created.drain(..) {
            if !state.ids.contains(&subscription.id) {
                continue;
            }
            let signal = subscription.source.signal();
            if !signals.iter().any(|other| other.is_same(&signal)) {
                signals.push(signal);
            }
            // Results may have come between the subscription and its answer.
            subscription.has_more = true;
            state.started.push(subscription);
        }
    }

    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        !self.state.lock().ids.is_empty()
    }

    /// Whether another pull is due without a signal, because the last one left results behind.
    pub(crate) fn has_backlog(&self) -> bool {
        let state = self.state.lock();
        state.started.iter().any(|subscription| subscription.has_more)
    }

    /// `notifications` without those of subscriptions that have ended meanwhile.
    pub(crate) fn without_ended(&self, mut notifications: Vec<Notification>) -> Vec<Notification> {
        let state = self.state.lock();
        notifications.retain(|notification| state.ids.contains(&notification.id));
        notifications
    }

    /// The notifications that are due now, about `len_max` bytes of them, and at least one if there
    /// is any. For one caller at a time.
    ///
    /// # Errors
    /// The error that kept a source from reading the chain, except for a lack of memory.
    pub(crate) fn pull(&self, len_max: usize) -> RpcResult<PulledNotifications> {
        let mut pulled = std::mem::take(&mut self.state.lock().started);
        let notifications = pull(&mut pulled, len_max);
        let mut state = self.state.lock();
        pulled.retain(|subscription| state.ids.contains(&subscription.id));
        pulled.append(&mut state.started);
        state.started = pulled;
        notifications
    }
}

/// Pulls each subscription in turn. The first that finds no place left comes first the next time.
fn pull(subscriptions: &mut [Subscription], len_max: usize) -> RpcResult<PulledNotifications> {
    let mut all = PulledNotifications::default();
    let mut len_left = len_max;
    let mut first_skipped = None;
    for (index, subscription) in subscriptions.iter_mut().enumerate() {
        if len_left == 0 {
            subscription.has_more = true;
            first_skipped.get_or_insert(index);
            continue;
        }
        let Subscription { id, name_style, .. } = *subscription;
        let mut pulled = PulledResults::new(len_left);
        match subscription.source.pull(&mut pulled) {
            Ok(has_more) => subscription.has_more = has_more,
            Err(error) if error == RpcError::no_memory() => {
                subscription.has_more = true;
                all.lacks_memory = true;
                continue;
            }
            Err(error) => return Err(error),
        }
        len_left = pulled.len_left;
        for result in pulled.results {
            all.len += NOTIFICATION_LEN + result.text().len().min(COPY_LEN_MAX);
            let text = notification(id, name_style, result)?;
            all.notifications.push(Notification { id, text });
        }
    }
    subscriptions.rotate_left(first_skipped.unwrap_or_default());
    Ok(all)
}

/// The subscriptions of a connection, as the calls of one message see them. A subscription that
/// they create starts only when the answer to the message is queued.
pub struct MessageSubscriptions {
    subscriptions: Arc<Subscriptions>,
    created: Mutex<Vec<Subscription>>,
}

impl MessageSubscriptions {
    /// Adds a subscription and returns its id.
    ///
    /// # Errors
    /// −32000 if the connection has the most subscriptions allowed.
    pub(crate) fn add(
        &self,
        source: Box<dyn SubscriptionSource>,
        name_style: NameStyle,
    ) -> RpcResult<String> {
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
        self.created.lock().push(Subscription {
            id,
            name_style,
            source,
            has_more: false,
        });
        Ok(quantity(id))
    }

    /// Ends a subscription. Returns whether it existed.
    pub(crate) fn remove(&self, id: u128) -> bool {
        let mut state = self.subscriptions.state.lock();
        state.started.retain(|subscription| subscription.id != id);
        state.ids.remove(&id)
    }
}

impl std::fmt::Debug for MessageSubscriptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageSubscriptions").finish_non_exhaustive()
    }
}

fn notification(id: u128, name_style: NameStyle, result: Json) -> RpcResult<Text> {
    let method = match name_style {
        NameStyle::Native => "mc_subscription",
        NameStyle::Ethereum => "eth_subscription",
    };
    let begin =
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"subscription":"{id:#x}","result":"#);
    let (result, end) = (result.into_text(), b"}}");
    let len = begin.len() + result.len() + end.len();
    if len <= COPY_LEN_MAX {
        // Most notifications are short, and many may wait. So none takes more than it needs.
        let mut text = Vec::with_capacity(len);
        text.extend_from_slice(begin.as_bytes());
        result.pieces().for_each(|piece| text.extend_from_slice(piece));
        text.extend_from_slice(end);
        return Ok(text.into());
    }
    let mut message = TextWriter::new(None, usize::MAX);
    let written = message.append(begin.as_bytes(), result, end);
    written.map_err(|_| RpcError::no_memory())?;
    Ok(message.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has a number of results left. One result fills half of a pull.
    struct Counter(u64, watch::Receiver<u64>);

    impl SubscriptionSource for Counter {
        fn signal(&self) -> ChangeSignal {
            ChangeSignal::Count(self.1.clone())
        }

        fn pull(&mut self, out: &mut PulledResults) -> RpcResult<bool> {
            while self.0 > 0 && out.add(&"x".repeat(PULL_LEN_MAX / 2))? {
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

    /// Started subscriptions with `left` results each, the message that made them, and their ids.
    fn started(count: usize, left: u64) -> (Arc<Subscriptions>, MessageSubscriptions, Vec<u128>) {
        let subscriptions = Subscriptions::new(count);
        let message = subscriptions.of_message();
        let add = |_| id(&message.add(source(left), NameStyle::Native).expect("an id"));
        let ids = (0..count).map(add).collect();
        subscriptions.start(&message, &mut Vec::new());
        (subscriptions, message, ids)
    }

    fn pulled(subscriptions: &Subscriptions) -> Vec<Notification> {
        let pulled = subscriptions.pull(PULL_LEN_MAX).expect("a pull");
        pulled.notifications
    }

    #[test]
    fn no_notification_comes_before_the_answer() {
        let subscriptions = Subscriptions::new(3);
        let (first, second) = (subscriptions.of_message(), subscriptions.of_message());
        first.add(source(1), NameStyle::Native).expect("an id");
        let later = second.add(source(1), NameStyle::Native).expect("an id");
        assert!(pulled(&subscriptions).is_empty());
        assert!(!subscriptions.has_backlog());
        let mut signals = Vec::new();
        subscriptions.start(&first, &mut signals);
        assert_eq!(signals.len(), 1);
        assert!(subscriptions.has_backlog());
        assert_eq!(
            pulled(&subscriptions).len(),
            1,
            "only the subscription that was answered"
        );
        // This subscription ends before its answer is queued.
        assert!(first.remove(id(&later)));
        subscriptions.start(&second, &mut signals);
        assert!(pulled(&subscriptions).is_empty());
    }

    #[test]
    fn subscriptions_that_ended_meanwhile_send_nothing() {
        let (subscriptions, message, ids) = started(2, 1);
        let pulled = pulled(&subscriptions);
        assert_eq!(pulled.len(), 2);
        assert!(message.remove(ids[0]));
        let left = subscriptions.without_ended(pulled);
        assert_eq!(
            left.iter()
                .map(|notification| notification.id)
                .collect::<Vec<_>>(),
            [ids[1]]
        );
    }

    /// Ends its own subscription and adds another while it is pulled.
    struct Meddler(MessageSubscriptions, Arc<Mutex<u128>>);

    impl SubscriptionSource for Meddler {
        fn signal(&self) -> ChangeSignal {
            ChangeSignal::Count(watch::Sender::new(0).subscribe())
        }

        fn pull(&mut self, out: &mut PulledResults) -> RpcResult<bool> {
            assert!(self.0.remove(*self.1.lock()), "no lock is held");
            self.0.add(source(1), NameStyle::Native)?;
            out.add(&1)
        }
    }

    #[test]
    fn messages_do_not_wait_for_a_pull() {
        let subscriptions = Subscriptions::new(1);
        let (message, meanwhile) = (subscriptions.of_message(), subscriptions.of_message());
        let own = Arc::new(Mutex::new(0));
        let meddler = Meddler(meanwhile, Arc::clone(&own));
        *own.lock() = id(&message.add(Box::new(meddler), NameStyle::Native).expect("an id"));
        subscriptions.start(&message, &mut Vec::new());
        let pulled = pulled(&subscriptions);
        assert_eq!(pulled.len(), 1);
        assert!(subscriptions.without_ended(pulled).is_empty());
        assert!(
            !subscriptions.has_backlog(),
            "the ended subscription is not put back"
        );
    }

    #[test]
    fn notifications_name_their_subscription() {
        let text = |id, name_style, result: &[u8]| {
            let text = notification(id, name_style, Json::from_text(result.to_vec()));
            String::from_utf8(text.expect("memory").to_vec()).expect("text")
        };
        assert_eq!(
            text(0xab, NameStyle::Native, b"[1]"),
            r#"{"jsonrpc":"2.0","method":"mc_subscription","params":{"subscription":"0xab","result":[1]}}"#
        );
        assert!(text(1, NameStyle::Ethereum, b"1").contains(r#""method":"eth_subscription""#));
    }

    #[test]
    fn every_subscription_gets_its_turn() {
        let (subscriptions, _session, ids) = started(3, 4);
        let mut counts = vec![0; 3];
        for round in 0.. {
            let pulled = pulled(&subscriptions);
            assert!(pulled.len() <= 3, "{}", pulled.len());
            for notification in &pulled {
                let which = ids
                    .iter()
                    .position(|id| *id == notification.id)
                    .expect("one of them");
                let begin = String::from_utf8_lossy(&notification.text.to_vec()[..120]).into_owned();
                assert!(begin.contains(&format!("\"{:#x}\"", ids[which])), "{begin}");
                counts[which] += 1;
            }
            if round == 2 {
                assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
            }
            if !subscriptions.has_backlog() {
                break;
            }
        }
        assert_eq!(counts, [4, 4, 4]);
    }

    #[test]
    fn a_connection_has_a_bounded_number() {
        let subscriptions = Subscriptions::new(1);
        let (message, other) = (subscriptions.of_message(), subscriptions.of_message());
        let first = message.add(source(0), NameStyle::Native).expect("an id");
        let refused = other.add(source(0), NameStyle::Native).expect_err("one too many");
        assert_eq!(
            refused.message(),
            "too many subscriptions: at most 1 on a connection"
        );
        assert!(message.remove(id(&first)) && !other.remove(id(&first)));
        other
            .add(source(0), NameStyle::Native)
            .expect("the number is below the bound again");
    }
}
