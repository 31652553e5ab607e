//! Message exchange on a channel in memory, with calls that end when the test lets them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::dispatch::Rpc;
use crate::error::RpcResult;
use crate::health::{Health, Healthy};
use crate::limits::Limits;
use crate::modules::{Modules, NameStyle};
use crate::server::activity::Activity;
use crate::subscriptions::{PULL_LEN_MAX, PulledResults, SubscriptionSource};
use crate::table::Method;
use crate::traffic::TrafficMemory;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough for an event that must not happen to happen.
const A_WHILE: Duration = Duration::from_millis(50);

/// The context of the methods.
struct TestContext {
    /// Each permit lets one `mc_hold` call end.
    gate: Semaphore,
    running: AtomicUsize,
    running_max: AtomicUsize,
    started: AtomicUsize,
    /// The number of the last tick. Every subscription is notified of each tick.
    ticks: watch::Sender<u64>,
    /// Makes every pull wait.
    blocks_pulls: AtomicBool,
    pulls: AtomicU64,
}

impl Healthy for Arc<TestContext> {
    fn health(&self) -> RpcResult<Health> {
        Err(RpcError::refused("this test has no chain"))
    }
}

/// Counts an `mc_hold` call as running until it is dropped.
struct RunningCall(Arc<TestContext>);

impl RunningCall {
    fn new(context: Arc<TestContext>) -> Self {
        context.started.fetch_add(1, SeqCst);
        let running = context.running.fetch_add(1, SeqCst) + 1;
        context.running_max.fetch_max(running, SeqCst);
        Self(context)
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, SeqCst);
    }
}

/// Notifies of every tick after the given one.
struct Ticker(Arc<TestContext>, u64);

impl SubscriptionSource for Ticker {
    fn signal(&self) -> ChangeSignal {
        ChangeSignal::Count(self.0.ticks.subscribe())
    }

    fn pull(&mut self, out: &mut PulledResults) -> RpcResult<bool> {
        self.0.pulls.fetch_add(1, SeqCst);
        let ticks = *self.0.ticks.borrow();
        while self.0.blocks_pulls.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        while self.1 < ticks {
            self.1 += 1;
            if !out.add(&self.1)? {
                self.1 -= 1;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[expect(
    clippy::redundant_allocation,
    reason = "the rows share their context in an `Arc`, and the context of these tests is one itself"
)]
async fn hold(context: Arc<Arc<TestContext>>, (): ()) -> RpcResult<&'static str> {
    let call = RunningCall::new(Arc::clone(&context));
    let gate = call.0.gate.acquire().await;
    gate.map_err(|_| RpcError::refused("no gate"))?.forget();
    Ok("held")
}

fn now(context: &Arc<TestContext>) -> RpcResult<&'static str> {
    context.started.fetch_add(1, SeqCst);
    Ok("now")
}

fn subscribe(
    context: &Arc<TestContext>,
    subscriptions: &MessageSubscriptions,
    (): (),
    name_style: NameStyle,
) -> RpcResult<String> {
    let ticker = Ticker(Arc::clone(context), *context.ticks.borrow());
    subscriptions.add(Box::new(ticker), name_style)
}

fn unsubscribe(
    _: &Arc<TestContext>,
    subscriptions: &MessageSubscriptions,
    (id,): (String,),
    _: NameStyle,
) -> RpcResult<bool> {
    let id = u128::from_str_radix(id.trim_start_matches("0x"), 16);
    Ok(id.is_ok_and(|id| subscriptions.remove(id)))
}

fn methods() -> Vec<Method<Arc<TestContext>>> {
    vec![
        Method::waiting("mc_hold", [], hold),
        Method::inline("mc_now", [], now),
        Method::subscribing("mc_subscribe", [], subscribe),
        Method::subscribing("mc_unsubscribe", ["id"], unsubscribe),
    ]
}

struct MemoryChannel<const HALF: bool> {
    incoming: mpsc::UnboundedReceiver<Result<String, RpcError>>,
    outgoing: mpsc::Sender<String>,
}

impl<const HALF: bool> DuplexChannel for MemoryChannel<HALF> {
    const HALF_CLOSES: bool = HALF;

    async fn receive(&mut self) -> Result<Option<Bytes>, DuplexError> {
        match self.incoming.recv().await.transpose() {
            Ok(message) => Ok(message.map(Bytes::from)),
            Err(error) => Err(DuplexError::Unreadable(error)),
        }
    }

    async fn send(&mut self, message: Text, _: bool) -> Result<(), DuplexError> {
        let text =
            String::from_utf8(message.to_vec()).map_err(|error| DuplexError::Protocol(error.to_string()))?;
        let sent = self.outgoing.send(text).await;
        sent.map_err(|_| DuplexError::Io(io::ErrorKind::BrokenPipe.into()))
    }
}

/// The client's end of the channel.
struct Client {
    traffic: TrafficMemory,
    context: Arc<TestContext>,
    outgoing: Option<mpsc::UnboundedSender<Result<String, RpcError>>>,
    incoming: mpsc::Receiver<String>,
    stop: watch::Sender<bool>,
    exchange: JoinHandle<Result<DuplexEnd, DuplexError>>,
}

impl Client {
    fn start(limits: Limits) -> Self {
        Self::with_capacity::<false>(limits, 10_000)
    }

    /// On a channel that holds `capacity` messages which the client has not read.
    fn with_capacity<const HALF: bool>(limits: Limits, capacity: usize) -> Self {
        let context = Arc::new(TestContext {
            gate: Semaphore::new(0),
            running: AtomicUsize::new(0),
            running_max: AtomicUsize::new(0),
            started: AtomicUsize::new(0),
            ticks: watch::Sender::new(0),
            blocks_pulls: AtomicBool::new(false),
            pulls: AtomicU64::new(0),
        });
        let (to_server, server_incoming) = mpsc::unbounded_channel();
        let (server_outgoing, from_server) = mpsc::channel(capacity);
        let stop = watch::Sender::new(false);
        let mut exchange_stop = stop.subscribe();
        let rpc = Rpc::new(Arc::new(Arc::clone(&context)), methods(), limits).expect("valid rows");
        let dispatcher = rpc.dispatcher(&Modules::default());
        let traffic = dispatcher.traffic().clone();
        let exchange = tokio::spawn(async move {
            let mut channel = MemoryChannel::<HALF> {
                incoming: server_incoming,
                outgoing: server_outgoing,
            };
            let source = RequestSource::new(
                RpcCaller::local(dispatcher.traffic()),
                Activity::new(dispatcher.limits()),
            );
            exchange_messages(&dispatcher, &mut channel, &source, &mut exchange_stop).await
        });
        Self {
            traffic,
            context,
            outgoing: Some(to_server),
            incoming: from_server,
            stop,
            exchange,
        }
    }

    /// Sends a message, or the error that the channel meets.
    fn send_result(&self, message: Result<String, RpcError>) {
        let outgoing = self.outgoing.as_ref().expect("the client has not hung up");
        outgoing.send(message).expect("the server has not hung up");
    }

    fn send(&self, message: String) {
        self.send_result(Ok(message));
    }

    fn call(&self, id: usize, method: &str) {
        self.send(request(id, method, "[]"));
    }

    /// The next message from the server.
    async fn receive(&mut self) -> String {
        let message = timeout(PATIENCE, self.incoming.recv()).await.expect("in time");
        message.expect("a message")
    }

    #[track_caller]
    fn check_silence(&mut self) {
        assert!(self.incoming.try_recv().is_err(), "the server sends nothing");
    }

    /// Subscribes by call `id`. Returns the subscription's id.
    async fn subscribe(&mut self, id: usize) -> String {
        self.call(id, "mc_subscribe");
        let answer = self.receive().await;
        let (_, result) = answer.split_once(r#""result":""#).expect("a result");
        result.trim_end_matches("\"}").to_owned()
    }

    fn tick(&self) {
        self.context.ticks.send_modify(|ticks| *ticks += 1);
    }

    async fn wait_until(&self, what: &str, condition: impl Fn(&TestContext) -> bool) {
        let begun = Instant::now();
        while !condition(&self.context) {
            assert!(begun.elapsed() < PATIENCE, "waited for {what}");
            sleep(Duration::from_millis(1)).await;
        }
    }

    async fn wait_for_running(&self, count: usize) {
        self.wait_until("calls to run", |context| context.running.load(SeqCst) == count)
            .await;
    }

    async fn end(self) -> Result<DuplexEnd, DuplexError> {
        let ended = timeout(PATIENCE, self.exchange).await.expect("in time");
        ended.expect("no panic")
    }
}

fn request(id: usize, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn answer(id: usize, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"{result}"}}"#)
}

#[tokio::test]
async fn a_slow_call_delays_no_other() {
    let mut client = Client::start(Limits::default());
    client.call(1, "mc_hold");
    client.wait_for_running(1).await;
    for id in 2..1000 {
        client.call(id, "mc_now");
    }
    for id in 2..1000 {
        assert_eq!(client.receive().await, answer(id, "now"), "in their order");
    }
    client.context.gate.add_permits(1);
    assert_eq!(client.receive().await, answer(1, "held"));
}

#[tokio::test]
async fn running_calls_are_bounded() {
    let limits = Limits {
        connection_calls_max: 4,
        ..Limits::default()
    };
    let mut client = Client::start(limits);
    for id in 0..100 {
        client.call(id, "mc_hold");
    }
    client.call(100, "mc_now");
    client.wait_for_running(4).await;
    sleep(A_WHILE).await;
    assert_eq!(client.context.started.load(SeqCst), 4, "the others are not read");
    client.check_silence();
    client.context.gate.add_permits(100);
    let mut received = Vec::new();
    for _ in 0..=100 {
        received.push(client.receive().await);
    }
    let mut expected: Vec<_> = (0..100).map(|id| answer(id, "held")).collect();
    expected.push(answer(100, "now"));
    received.sort();
    expected.sort();
    assert_eq!(received, expected, "each once and whole");
    assert_eq!(client.context.running_max.load(SeqCst), 4);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_read() {
    let mut client = Client::with_capacity::<false>(Limits::default(), 1);
    for id in 0..1000 {
        client.call(id, "mc_now");
    }
    client
        .wait_until("two answers", |context| context.started.load(SeqCst) == 2)
        .await;
    sleep(A_WHILE).await;
    assert_eq!(
        client.context.started.load(SeqCst),
        2,
        "one answer in the channel, one before it"
    );
    for id in 0..1000 {
        assert_eq!(client.receive().await, answer(id, "now"));
    }
}

#[tokio::test]
async fn hanging_up_drops_running_calls() {
    let mut client = Client::start(Limits::default());
    for id in 0..10 {
        client.call(id, "mc_hold");
    }
    client.wait_for_running(10).await;
    client.outgoing = None;
    let context = Arc::clone(&client.context);
    assert!(matches!(client.end().await, Ok(DuplexEnd::Closed)));
    assert_eq!(context.running.load(SeqCst), 0);
}

#[tokio::test]
async fn a_client_that_only_stops_sending_is_answered() {
    let mut client = Client::with_capacity::<true>(Limits::default(), 10);
    for id in 0..3 {
        client.call(id, "mc_hold");
    }
    client.outgoing = None;
    client.wait_for_running(3).await;
    sleep(A_WHILE).await;
    client.check_silence();
    client.context.gate.add_permits(3);
    let mut received = [
        client.receive().await,
        client.receive().await,
        client.receive().await,
    ];
    received.sort();
    assert_eq!(received, [0, 1, 2].map(|id| answer(id, "held")));
    assert!(matches!(client.end().await, Ok(DuplexEnd::Closed)));
}

#[tokio::test]
async fn calls_before_unreadable_input_or_the_stop_are_answered() {
    let mut client = Client::start(Limits::default());
    client.call(1, "mc_hold");
    client.wait_for_running(1).await;
    client.send_result(Err(RpcError::parse("test")));
    client.call(2, "mc_now");
    client.context.gate.add_permits(1);
    assert_eq!(client.receive().await, answer(1, "held"));
    assert!(client.incoming.recv().await.is_none(), "nothing more is read");
    assert!(matches!(client.end().await, Err(DuplexError::Unreadable(_))));

    let mut client = Client::start(Limits::default());
    client.call(1, "mc_hold");
    client.wait_for_running(1).await;
    client.stop.send_replace(true);
    client.context.gate.add_permits(1);
    assert_eq!(client.receive().await, answer(1, "held"));
    assert!(matches!(client.end().await, Ok(DuplexEnd::Stopped)));
}

#[tokio::test]
async fn notifications_come_after_the_answer_that_names_them() {
    let mut client = Client::start(Limits::default());
    let first = client.subscribe(1).await;
    // This subscription exists, but the client learns its id only with the answer to the batch.
    let batch = [request(2, "mc_subscribe", "[]"), request(3, "mc_hold", "[]")];
    client.send(format!("[{}]", batch.join(",")));
    client.wait_for_running(1).await;
    client.tick();
    assert!(client.receive().await.contains(&first));
    client.call(4, "mc_now");
    assert_eq!(client.receive().await, answer(4, "now"));
    sleep(A_WHILE).await;
    client.check_silence();
    client.context.gate.add_permits(1);
    let batch = client.receive().await;
    assert!(batch.starts_with('[') && batch.ends_with(']'), "{batch}");
    let notification = client.receive().await;
    assert!(
        notification.contains("mc_subscription") && !notification.contains(&first),
        "{notification}"
    );
    let notification: serde_json::Value = serde_json::from_str(&notification).expect("JSON");
    let id = notification["params"]["subscription"].to_string();
    assert!(batch.contains(&id), "{notification} after {batch}");
}

#[tokio::test]
async fn a_pull_delays_no_call_and_an_ended_subscription_is_silent() {
    let mut client = Client::start(Limits::default());
    let id = client.subscribe(1).await;
    client.tick();
    assert!(client.receive().await.contains(&id));
    client.context.blocks_pulls.store(true, SeqCst);
    let pulls = client.context.pulls.load(SeqCst);
    client.tick();
    client
        .wait_until("the source to be pulled", |context| {
            context.pulls.load(SeqCst) > pulls
        })
        .await;
    client.call(2, "mc_now");
    assert_eq!(client.receive().await, answer(2, "now"));
    client.send(request(3, "mc_unsubscribe", &format!(r#"["{id}"]"#)));
    assert_eq!(
        client.receive().await,
        r#"{"jsonrpc":"2.0","id":3,"result":true}"#
    );
    let other = client.subscribe(4).await;
    client.context.blocks_pulls.store(false, SeqCst);
    client.tick();
    let notification = client.receive().await;
    assert!(
        notification.contains(&other) && !notification.contains(&id),
        "{notification}"
    );
}

/// A connection holds one pull, however much its client has not read, and all of it is counted.
/// What the client reads later is complete.
#[tokio::test]
async fn a_client_that_does_not_read_holds_one_pull() {
    let mut client = Client::with_capacity::<false>(Limits::default(), 1);
    client.subscribe(1).await;
    client.context.ticks.send_modify(|ticks| *ticks += 2000);
    let begun = Instant::now();
    while !(1..=PULL_LEN_MAX + 1024).contains(&client.traffic.used()) {
        let used = client.traffic.used();
        assert!(begun.elapsed() < PATIENCE, "{used} bytes are counted");
        sleep(Duration::from_millis(1)).await;
    }
    sleep(A_WHILE).await;
    assert!(
        client.context.pulls.load(SeqCst) <= 3,
        "no pull before the last is sent"
    );
    for tick in 1..=2000 {
        let notification = client.receive().await;
        assert!(
            notification.ends_with(&format!("\"result\":{tick}}}}}")),
            "{notification}"
        );
    }
    let begun = Instant::now();
    while client.traffic.used() > 0 {
        assert!(begun.elapsed() < PATIENCE, "the memory is not released");
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn long_messages_keep_memory_until_they_are_answered() {
    let limits = Limits {
        traffic_len_max: 64 << 10,
        ..Limits::default()
    };
    let long = |id| request(id, "mc_hold", &format!("[{}]", " ".repeat(40 << 10)));
    let mut client = Client::start(limits.clone());
    for id in 0..3 {
        client.send(long(id));
        client.wait_for_running(1).await;
        client.context.gate.add_permits(1);
        assert_eq!(client.receive().await, answer(id, "held"));
    }
    let client = Client::start(limits);
    client.send(long(1));
    client.send(long(2));
    assert!(matches!(client.end().await, Err(DuplexError::NoMemory)));
}
