//! Runs the engine of a MicroChain on a thread of its own.
//!
//! Events wait in a queue with bounds. What does not fit is dropped: the engine asks others for
//! blocks that it misses, and the next head of the base chain brings the state of the contract
//! again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use microchain::{Action, EngineError, Event, MemberEngine, Reader};
use primitives::Address;
use tokio::sync::mpsc;

/// Most events that wait for an engine.
const EVENTS_MAX: usize = 4096;
/// Most bytes of messages and transactions that wait for an engine.
const EVENT_BYTES_MAX: usize = 64 << 20;
/// Shortest time between two ticks, in milliseconds.
const TICK_MIN_MS: u64 = 10;
/// Pause after the store of an engine has failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(2);
/// A failure that stays the same is logged again after this time.
const FAILURE_TOLD_AGAIN: Duration = Duration::from_secs(60);

/// The acts that an engine wants.
#[derive(Debug)]
pub(crate) struct EngineActions {
    /// The MicroChain.
    pub chain: Address,
    /// The actions, in order.
    pub actions: Vec<Action>,
}

/// A running engine. When all clones are dropped, its thread ends.
#[derive(Clone, Debug)]
pub(crate) struct EngineHandle {
    events: SyncSender<Event>,
    bytes: Arc<AtomicUsize>,
    deposits_from: Arc<AtomicU64>,
    reader: Reader,
}

impl EngineHandle {
    /// Starts the thread of `engine`. Its actions go to `actions`.
    ///
    /// # Errors
    /// The error of the system if there is no thread.
    pub(crate) fn start(engine: MemberEngine, actions: mpsc::Sender<EngineActions>) -> std::io::Result<Self> {
        let (events, waiting) = sync_channel(EVENTS_MAX);
        let handle = Self {
            events,
            bytes: Arc::default(),
            deposits_from: Arc::new(AtomicU64::new(engine.deposits_from())),
            reader: engine.reader(),
        };
        let worker = Worker {
            engine,
            waiting,
            bytes: Arc::clone(&handle.bytes),
            deposits_from: Arc::clone(&handle.deposits_from),
            actions,
            told: None,
        };
        std::thread::Builder::new()
            .name("microchain".to_owned())
            .spawn(move || worker.run())?;
        Ok(handle)
    }

    /// Gives an event to the engine. Returns `false` if there is no room for it.
    pub(crate) fn give(&self, event: Event) -> bool {
        let len = event_len(&event);
        let before = self.bytes.fetch_add(len, Ordering::Relaxed);
        if before.saturating_add(len) <= EVENT_BYTES_MAX && self.events.try_send(event).is_ok() {
            return true;
        }
        self.bytes.fetch_sub(len, Ordering::Relaxed);
        false
    }

    /// The first deposit that the engine wants to know.
    pub(crate) fn deposits_from(&self) -> u64 {
        self.deposits_from.load(Ordering::Relaxed)
    }

    /// The reader for clients.
    pub(crate) const fn reader(&self) -> &Reader {
        &self.reader
    }
}

/// The bytes of an event that others can make long.
pub(crate) fn event_len(event: &Event) -> usize {
    match event {
        Event::Message(message) => message.payload.len(),
        Event::Transaction(transaction) => transaction.input.len(),
        Event::Tick | Event::Contract(_) | Event::Connected => 0,
    }
}

struct Worker {
    engine: MemberEngine,
    waiting: Receiver<Event>,
    bytes: Arc<AtomicUsize>,
    deposits_from: Arc<AtomicU64>,
    actions: mpsc::Sender<EngineActions>,
    /// The last failure that was logged, and when.
    told: Option<(String, Instant)>,
}

impl Worker {
    fn run(mut self) {
        let mut due = self.engine.next_tick(now_ms());
        loop {
            let now = now_ms();
            let event = if now >= due {
                Event::Tick
            } else {
                match self.waiting.recv_timeout(Duration::from_millis(due - now)) {
                    Ok(event) => {
                        self.bytes.fetch_sub(event_len(&event), Ordering::Relaxed);
                        event
                    }
                    Err(RecvTimeoutError::Timeout) => Event::Tick,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            };
            let is_tick = matches!(event, Event::Tick);
            let now = now_ms();
            let handled = self.engine.handle(now, event);
            if !self.pass_on(handled) {
                return;
            }
            self.deposits_from
                .store(self.engine.deposits_from(), Ordering::Relaxed);
            let next = self.engine.next_tick(now);
            // A tick that is due is not put off, however many events come.
            due = if is_tick {
                next.max(now + TICK_MIN_MS)
            } else {
                next.min(due)
            };
        }
    }

    /// Passes the actions on. Returns `false` if nobody takes them any more.
    fn pass_on(&mut self, handled: Result<Vec<Action>, EngineError>) -> bool {
        let chain = self.engine.setup().address;
        match handled {
            Ok(actions) => {
                actions.is_empty()
                    || self
                        .actions
                        .blocking_send(EngineActions { chain, actions })
                        .is_ok()
            }
            Err(error) => {
                let reason = error.to_string();
                // Events for which nothing is written succeed meanwhile.
                let is_told = self
                    .told
                    .as_ref()
                    .is_some_and(|(told, at)| *told == reason && at.elapsed() < FAILURE_TOLD_AGAIN);
                if !is_told {
                    tracing::error!(%chain, %reason, "the MicroChain stands still until its store works");
                    self.told = Some((reason, Instant::now()));
                }
                std::thread::sleep(FAILURE_PAUSE);
                !self.actions.is_closed()
            }
        }
    }
}

/// Unix milliseconds.
fn now_ms() -> u64 {
    u64::try_from(chain::unix_now().as_millis()).unwrap_or(u64::MAX)
}
