//! Conversations on a channel in memory, with calls that are done when the test says so.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::dispatch::Rpc;
use crate::json::Json;
use crate::limits::Limits;
use crate::modules::Modules;
use crate::subscriptions::Source;
use crate::table::{Method, reply};

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough for whatever might happen and must not.
const A_WHILE: Duration = Duration::from_millis(50);

/// What the methods work on.
struct Ground {
    /// Lets so many held calls go.
    gate: Semaphore,
    running: AtomicUsize,
    running_most: AtomicUsize,
    begun: AtomicUsize,
    /// Counts what there is to tell.
    ticks: watch::Sender<u64>,
    /// Keeps those who ask what there is to tell waiting.
    is_shut: AtomicBool,
    asked: AtomicU64,
}

/// Counts a held call while it lives.
struct Held(Arc<Ground>);

impl Held {
    fn new(ground: Arc<Ground>) -> Self {
        ground.begun.fetch_add(1, SeqCst);
        let running = ground.running.fetch_add(1, SeqCst) + 1;
        ground.running_most.fetch_max(running, SeqCst);
        Self(ground)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, SeqCst);
    }
}

/// Tells every tick.
struct Ticker(Arc<Ground>, u64);

impl Source for Ticker {
    fn signal(&self) -> Signal {
        Signal::Count(self.0.ticks.subscribe())
    }

    fn pull(&mut self, _: usize, out: &mut Vec<Json>) -> RpcResult<bool> {
        self.0.asked.fetch_add(1, SeqCst);
        let ticks = *self.0.ticks.borrow();
        while self.0.is_shut.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        while self.1 < ticks {
            self.1 += 1;
            out.push(Json::write(&self.1)?);
        }
        Ok(false)
    }
}

fn methods() -> Vec<Method<Arc<Ground>>> {
    vec![
        Method::waiting("mc_hold", |ground, _| {
            Box::pin(async move {
                let held = Held::new(Arc::clone(&ground));
                let gate = held.0.gate.acquire().await;
                gate.map_err(|_| RpcError::refused("no gate"))?.forget();
                reply(Ok("held"))
            })
        }),
        Method::inline("mc_now", |ground, _| {
            ground.begun.fetch_add(1, SeqCst);
            reply(Ok("now"))
        }),
        Method::session("mc_subscribe", |ground, session, params| {
            let ticker = Ticker(Arc::clone(ground), *ground.ticks.borrow());
            Json::write(&session.add(Box::new(ticker), params.dialect())?)
        }),
        Method::session("mc_unsubscribe", |_, session, params| {
            let (id,): (String,) = params.parse()?;
            let id = u128::from_str_radix(id.trim_start_matches("0x"), 16);
            Json::write(&id.is_ok_and(|id| session.remove(id)))
        }),
    ]
}

/// A channel in memory.
struct Wire<const HALF: bool> {
    incoming: mpsc::UnboundedReceiver<Result<String, RpcError>>,
    outgoing: mpsc::Sender<String>,
}

impl<const HALF: bool> Channel for Wire<HALF> {
    const HALF_CLOSES: bool = HALF;

    async fn receive(&mut self) -> Result<Option<Bytes>, Fault> {
        match self.incoming.recv().await.transpose() {
            Ok(message) => Ok(message.map(Bytes::from)),
            Err(error) => Err(Fault::Broken(error)),
        }
    }

    async fn send(&mut self, message: Vec<u8>) -> Result<(), Fault> {
        let text = String::from_utf8(message).map_err(|error| Fault::Protocol(error.to_string()))?;
        let sent = self.outgoing.send(text).await;
        sent.map_err(|_| Fault::Io(io::ErrorKind::BrokenPipe.into()))
    }
}

/// The other end of a conversation.
struct Client {
    ground: Arc<Ground>,
    say: Option<mpsc::UnboundedSender<Result<String, RpcError>>>,
    hear: mpsc::Receiver<String>,
    stop: watch::Sender<bool>,
    talk: JoinHandle<Result<End, Fault>>,
}

impl Client {
    fn start(limits: Limits) -> Self {
        Self::on_wire::<false>(limits, 10_000)
    }

    /// On a wire that takes so many messages before they are read.
    fn on_wire<const HALF: bool>(limits: Limits, capacity: usize) -> Self {
        let ground = Arc::new(Ground {
            gate: Semaphore::new(0),
            running: AtomicUsize::new(0),
            running_most: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            ticks: watch::Sender::new(0),
            is_shut: AtomicBool::new(false),
            asked: AtomicU64::new(0),
        });
        let (say, incoming) = mpsc::unbounded_channel();
        let (outgoing, hear) = mpsc::channel(capacity);
        let stop = watch::Sender::new(false);
        let mut told = stop.subscribe();
        let rpc = Rpc::new(Arc::new(Arc::clone(&ground)), methods(), limits).expect("sound rows");
        let dispatcher = rpc.dispatcher(&Modules::default());
        let talk = tokio::spawn(async move {
            let mut wire = Wire::<HALF> { incoming, outgoing };
            talk(&dispatcher, &mut wire, &mut told).await
        });
        Self {
            ground,
            say: Some(say),
            hear,
            stop,
            talk,
        }
    }

    fn send(&self, message: String) {
        let say = self.say.as_ref().expect("not hung up yet");
        say.send(Ok(message)).expect("the conversation goes on");
    }

    fn call(&self, id: usize, method: &str) {
        self.send(request(id, method, "[]"));
    }

    async fn hears(&mut self) -> String {
        let heard = timeout(PATIENCE, self.hear.recv()).await.expect("in time");
        heard.expect("a message")
    }

    #[track_caller]
    fn check_silence(&mut self) {
        assert!(self.hear.try_recv().is_err(), "nothing is said");
    }

    /// Subscribes with this call; gives the subscription's id.
    async fn subscribe(&mut self, id: usize) -> String {
        self.call(id, "mc_subscribe");
        let heard = self.hears().await;
        let (_, result) = heard.split_once(r#""result":""#).expect("a result");
        result.trim_end_matches("\"}").to_owned()
    }

    fn tick(&self) {
        self.ground.ticks.send_modify(|ticks| *ticks += 1);
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Ground) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.ground) {
            assert!(begun.elapsed() < PATIENCE, "waited for {what}");
            sleep(Duration::from_millis(1)).await;
        }
    }

    async fn running(&self, count: usize) {
        self.until("calls to run", |ground| ground.running.load(SeqCst) == count)
            .await;
    }

    async fn end(self) -> Result<End, Fault> {
        let ended = timeout(PATIENCE, self.talk).await.expect("in time");
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
async fn a_slow_call_holds_up_no_other() {
    let mut client = Client::start(Limits::default());
    client.call(1, "mc_hold");
    client.running(1).await;
    for id in 2..1000 {
        client.call(id, "mc_now");
    }
    for id in 2..1000 {
        assert_eq!(client.hears().await, answer(id, "now"), "in their order");
    }
    client.ground.gate.add_permits(1);
    assert_eq!(client.hears().await, answer(1, "held"));
}

#[tokio::test]
async fn only_so_many_are_under_way() {
    let limits = Limits {
        connection_calls_max: 4,
        ..Limits::default()
    };
    let mut client = Client::start(limits);
    for id in 0..100 {
        client.call(id, "mc_hold");
    }
    client.call(100, "mc_now");
    client.running(4).await;
    sleep(A_WHILE).await;
    assert_eq!(client.ground.begun.load(SeqCst), 4, "the others are not read");
    client.check_silence();
    client.ground.gate.add_permits(100);
    let mut heard = Vec::new();
    for _ in 0..=100 {
        heard.push(client.hears().await);
    }
    let mut expected: Vec<_> = (0..100).map(|id| answer(id, "held")).collect();
    expected.push(answer(100, "now"));
    heard.sort();
    expected.sort();
    assert_eq!(heard, expected, "each once and whole");
    assert_eq!(client.ground.running_most.load(SeqCst), 4);
}

#[tokio::test]
async fn whoever_does_not_read_is_not_read() {
    let mut client = Client::on_wire::<false>(Limits::default(), 1);
    for id in 0..1000 {
        client.call(id, "mc_now");
    }
    client
        .until("two answers", |ground| ground.begun.load(SeqCst) == 2)
        .await;
    sleep(A_WHILE).await;
    assert_eq!(
        client.ground.begun.load(SeqCst),
        2,
        "one on the wire, one before it"
    );
    for id in 0..1000 {
        assert_eq!(client.hears().await, answer(id, "now"));
    }
}

#[tokio::test]
async fn hanging_up_ends_what_is_under_way() {
    let mut client = Client::start(Limits::default());
    for id in 0..10 {
        client.call(id, "mc_hold");
    }
    client.running(10).await;
    client.say = None;
    let ground = Arc::clone(&client.ground);
    assert!(matches!(client.end().await, Ok(End::Closed)));
    assert_eq!(ground.running.load(SeqCst), 0);
}

#[tokio::test]
async fn who_only_stops_talking_is_answered() {
    let mut client = Client::on_wire::<true>(Limits::default(), 10);
    for id in 0..3 {
        client.call(id, "mc_hold");
    }
    client.say = None;
    client.running(3).await;
    sleep(A_WHILE).await;
    client.check_silence();
    client.ground.gate.add_permits(3);
    let mut heard = [client.hears().await, client.hears().await, client.hears().await];
    heard.sort();
    assert_eq!(heard, [0, 1, 2].map(|id| answer(id, "held")));
    assert!(matches!(client.end().await, Ok(End::Closed)));
}

#[tokio::test]
async fn what_came_before_nonsense_or_the_end_is_answered() {
    let mut client = Client::start(Limits::default());
    client.call(1, "mc_hold");
    client.running(1).await;
    let say = client.say.as_ref().expect("not hung up yet");
    say.send(Err(RpcError::parse("as asked"))).expect("it goes on");
    client.call(2, "mc_now");
    client.ground.gate.add_permits(1);
    assert_eq!(client.hears().await, answer(1, "held"));
    assert!(client.hear.recv().await.is_none(), "nothing more is read");
    assert!(matches!(client.end().await, Err(Fault::Broken(_))));

    let mut client = Client::start(Limits::default());
    client.call(1, "mc_hold");
    client.running(1).await;
    client.stop.send_replace(true);
    client.ground.gate.add_permits(1);
    assert_eq!(client.hears().await, answer(1, "held"));
    assert!(matches!(client.end().await, Ok(End::Stopped)));
}

#[tokio::test]
async fn notices_come_after_the_answer_that_names_them() {
    let mut client = Client::start(Limits::default());
    let first = client.subscribe(1).await;
    // This subscription is there, and its id is not told before the batch is done.
    let batch = [request(2, "mc_subscribe", "[]"), request(3, "mc_hold", "[]")];
    client.send(format!("[{}]", batch.join(",")));
    client.running(1).await;
    client.tick();
    assert!(client.hears().await.contains(&first));
    client.call(4, "mc_now");
    assert_eq!(client.hears().await, answer(4, "now"));
    sleep(A_WHILE).await;
    client.check_silence();
    client.ground.gate.add_permits(1);
    let batch = client.hears().await;
    assert!(batch.starts_with('[') && batch.ends_with(']'), "{batch}");
    let notice = client.hears().await;
    assert!(
        notice.contains("mc_subscription") && !notice.contains(&first),
        "{notice}"
    );
    let notice: serde_json::Value = serde_json::from_str(&notice).expect("JSON");
    let id = notice["params"]["subscription"].to_string();
    assert!(batch.contains(&id), "{notice} after {batch}");
}

#[tokio::test]
async fn who_is_asked_holds_up_nobody_and_is_not_heard_of_after_its_end() {
    let mut client = Client::start(Limits::default());
    let id = client.subscribe(1).await;
    client.tick();
    assert!(client.hears().await.contains(&id));
    client.ground.is_shut.store(true, SeqCst);
    let asked = client.ground.asked.load(SeqCst);
    client.tick();
    client
        .until("the source to be asked", |ground| {
            ground.asked.load(SeqCst) > asked
        })
        .await;
    client.call(2, "mc_now");
    assert_eq!(client.hears().await, answer(2, "now"));
    client.send(request(3, "mc_unsubscribe", &format!(r#"["{id}"]"#)));
    assert_eq!(client.hears().await, r#"{"jsonrpc":"2.0","id":3,"result":true}"#);
    let other = client.subscribe(4).await;
    client.ground.is_shut.store(false, SeqCst);
    client.tick();
    let notice = client.hears().await;
    assert!(notice.contains(&other) && !notice.contains(&id), "{notice}");
}

#[tokio::test]
async fn long_messages_take_up_room_until_they_are_answered() {
    let limits = Limits {
        traffic_len_max: 64 << 10,
        ..Limits::default()
    };
    let long = |id| request(id, "mc_hold", &format!("[{}]", " ".repeat(40 << 10)));
    let mut client = Client::start(limits.clone());
    for id in 0..3 {
        client.send(long(id));
        client.running(1).await;
        client.ground.gate.add_permits(1);
        assert_eq!(client.hears().await, answer(id, "held"));
    }
    let client = Client::start(limits);
    client.send(long(1));
    client.send(long(2));
    assert!(matches!(client.end().await, Err(Fault::NoRoom)));
}
