//! Runs the engines of MicroChains on threads that they share.
//!
//! Each engine has a task, which waits for its next event or tick. Then the engine has a turn on a
//! thread for blocking work. So many engines have a turn at the same time, the others wait in the
//! order in which they came ([`EngineTurns`]).
//!
//! Events wait in a queue with bounds. What does not fit is dropped: the engine asks others for
//! blocks that it misses, and the next head of the base chain brings the state of the contract
//! again.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use microchain::{Action, EngineError, Event, MemberEngine, Reader};
use parking_lot::Mutex;
use primitives::Address;
use tokio::sync::{Semaphore, mpsc};

/// Most events that wait for an engine.
const EVENTS_MAX: usize = 4096;
/// Most transactions that wait for an engine: messages and the base chain have the other places.
const TRANSACTIONS_MAX: usize = EVENTS_MAX / 2;
/// Most bytes of messages and transactions that wait for an engine.
const EVENT_BYTES_MAX: usize = 64 << 20;
/// Shortest time between two ticks, in milliseconds.
const TICK_MIN_MS: u64 = 10;
/// After so long an engine that has more events lets others have a turn.
const TURN_MAX: Duration = Duration::from_millis(50);
/// Fewest and most threads for the turns of all engines: two, so that a long block of one
/// MicroChain does not stop all others, and not more than chains are busy at the same time.
const TURNS_MIN: usize = 2;
const TURNS_MAX: usize = 16;
/// Pause after the store of an engine has failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(2);
/// A failure that stays the same is logged again after this time.
const FAILURE_TOLD_AGAIN: Duration = Duration::from_secs(60);

/// The turns of all engines of an SCS. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct EngineTurns(Arc<Semaphore>);

impl EngineTurns {
    /// As many turns at a time as the machine has processors, within bounds.
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(TURNS_MIN, NonZero::get);
        Self(Arc::new(Semaphore::new(processors.clamp(TURNS_MIN, TURNS_MAX))))
    }
}

/// The acts that an engine wants.
#[derive(Debug)]
pub(crate) struct EngineActions {
    /// The MicroChain.
    pub chain: Address,
    /// The actions, in order.
    pub actions: Vec<Action>,
}

/// A running engine. When all clones are dropped, its task ends.
#[derive(Clone, Debug)]
pub(crate) struct EngineHandle {
    events: mpsc::Sender<Event>,
    bytes: Arc<AtomicUsize>,
    transactions: Arc<AtomicUsize>,
    deposits_from: Arc<Mutex<Option<u64>>>,
    reader: Reader,
}

impl EngineHandle {
    /// Starts the task of `engine`, which works in `turns`. Its actions go to `actions`. Must be
    /// called within a tokio runtime.
    pub(crate) fn start(
        engine: MemberEngine,
        turns: EngineTurns,
        actions: mpsc::Sender<EngineActions>,
    ) -> Self {
        let (handle, worker) = Self::with_worker(engine);
        tokio::spawn(worker.run(turns, actions));
        handle
    }

    /// The handle of `engine`, and the worker that runs it.
    fn with_worker(engine: MemberEngine) -> (Self, Worker) {
        let (events, waiting) = mpsc::channel(EVENTS_MAX);
        let handle = Self {
            events,
            bytes: Arc::default(),
            transactions: Arc::default(),
            deposits_from: Arc::new(Mutex::new(engine.deposits_from())),
            reader: engine.reader(),
        };
        let worker = Worker {
            due: engine.next_tick(now_ms()),
            engine,
            waiting,
            bytes: Arc::clone(&handle.bytes),
            transactions: Arc::clone(&handle.transactions),
            deposits_from: Arc::clone(&handle.deposits_from),
            told: None,
        };
        (handle, worker)
    }

    /// Gives an event to the engine. Returns `false` if there is no room for it.
    pub(crate) fn give(&self, event: Event) -> bool {
        let (len, transaction) = (event_len(&event), transactions_in(&event));
        let before = self.bytes.fetch_add(len, Ordering::Relaxed);
        let waiting = self.transactions.fetch_add(transaction, Ordering::Relaxed);
        let has_place = transaction == 0 || waiting < TRANSACTIONS_MAX;
        let fits = has_place && before.saturating_add(len) <= EVENT_BYTES_MAX;
        if fits && self.events.try_send(event).is_ok() {
            return true;
        }
        self.bytes.fetch_sub(len, Ordering::Relaxed);
        self.transactions.fetch_sub(transaction, Ordering::Relaxed);
        false
    }

    /// The first deposit that the engine wants to know; `None` if it wants none yet.
    pub(crate) fn deposits_from(&self) -> Option<u64> {
        *self.deposits_from.lock()
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

/// The number of transactions that an event is: 1 or 0.
const fn transactions_in(event: &Event) -> usize {
    matches!(event, Event::Transaction(_)) as usize
}

struct Worker {
    engine: MemberEngine,
    waiting: mpsc::Receiver<Event>,
    /// The time of the next tick, in unix milliseconds.
    due: u64,
    bytes: Arc<AtomicUsize>,
    transactions: Arc<AtomicUsize>,
    deposits_from: Arc<Mutex<Option<u64>>>,
    /// The last failure that was logged, and when.
    told: Option<(String, Instant)>,
}

/// The end of a turn.
struct TurnEnd {
    actions: Vec<Action>,
    /// The store has failed.
    is_failure: bool,
}

impl Worker {
    async fn run(mut self, turns: EngineTurns, actions: mpsc::Sender<EngineActions>) {
        let chain = self.engine.setup().address;
        loop {
            let wait = Duration::from_millis(self.due.saturating_sub(now_ms()));
            let event = match tokio::time::timeout(wait, self.waiting.recv()).await {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(_) => Event::Tick,
            };
            // The semaphore is never closed, so that a permit always comes.
            let permit = Arc::clone(&turns.0).acquire_owned().await;
            let turn = tokio::task::spawn_blocking(move || {
                let end = self.take_turn(event);
                drop(permit);
                (self, end)
            });
            let end = match turn.await {
                Ok((worker, end)) => {
                    self = worker;
                    end
                }
                Err(error) if error.is_panic() => {
                    tracing::error!(%chain, "the engine of the MicroChain has ended by a panic");
                    return;
                }
                // The program ends.
                Err(_) => return,
            };
            let wanted = EngineActions {
                chain,
                actions: end.actions,
            };
            if !wanted.actions.is_empty() && actions.send(wanted).await.is_err() {
                return;
            }
            if end.is_failure {
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
        }
    }

    /// Handles `event`, and those that wait, until the turn is over.
    fn take_turn(&mut self, event: Event) -> TurnEnd {
        let started = Instant::now();
        let mut next = Some(event);
        let mut end = TurnEnd {
            actions: Vec::new(),
            is_failure: false,
        };
        while let Some(event) = next.take() {
            self.bytes.fetch_sub(event_len(&event), Ordering::Relaxed);
            self.transactions
                .fetch_sub(transactions_in(&event), Ordering::Relaxed);
            match self.handle(event) {
                Ok(actions) => end.actions.extend(actions),
                Err(error) => {
                    self.tell(&error);
                    end.is_failure = true;
                    return end;
                }
            }
            if started.elapsed() < TURN_MAX {
                next = if now_ms() >= self.due {
                    Some(Event::Tick)
                } else {
                    self.waiting.try_recv().ok()
                };
            }
        }
        end
    }

    fn handle(&mut self, event: Event) -> Result<Vec<Action>, EngineError> {
        let is_tick = matches!(event, Event::Tick);
        let now = now_ms();
        let handled = self.engine.handle(now, event);
        *self.deposits_from.lock() = self.engine.deposits_from();
        let next = self.engine.next_tick(now);
        // A tick that is due is not put off, however many events come.
        self.due = if is_tick {
            next.max(now + TICK_MIN_MS)
        } else {
            next.min(self.due)
        };
        handled
    }

    /// Logs a failure, unless it was logged a short while ago. Events for which nothing is written
    /// succeed meanwhile.
    fn tell(&mut self, error: &EngineError) {
        let reason = error.to_string();
        let is_told = self
            .told
            .as_ref()
            .is_some_and(|(told, at)| *told == reason && at.elapsed() < FAILURE_TOLD_AGAIN);
        if !is_told {
            let chain = self.engine.setup().address;
            tracing::error!(%chain, %reason, "the MicroChain stands still until its store works");
            self.told = Some((reason, Instant::now()));
        }
    }
}

/// Unix milliseconds.
fn now_ms() -> u64 {
    u64::try_from(chain::unix_now().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use microchain::{EngineOptions, MicroChainSetup};
    use primitives::{SecretKey, Transaction, TxForm, U256, UnsignedTransaction};

    use super::*;

    /// Engines, many more than turns.
    const ENGINES: u8 = 40;

    fn engine(home: &std::path::Path, mark: u8) -> MemberEngine {
        let setup = MicroChainSetup {
            address: Address::repeat_byte(mark),
            owner: Address::repeat_byte(9),
            supply: U256::from(1000),
            period_secs: 1,
            chain_id: 100,
            withdrawal_min: U256::from(1),
        };
        let options = EngineOptions {
            directory: home.join(mark.to_string()),
            key: SecretKey::from_bytes(&[7; 32]).expect("a key"),
            cache_bytes: 1 << 20,
            confirmations: microchain::event::CONFIRMATIONS_DEFAULT,
            dapp_bases: microchain::event::DappBaseRules::default(),
            states: chain::import::StateRetention::Archive,
            blocks: None,
        };
        MemberEngine::open(setup, &options).expect("it opens")
    }

    /// The threads of this process; `None` where the system does not tell.
    fn threads() -> Option<usize> {
        Some(std::fs::read_dir("/proc/self/task").ok()?.count())
    }

    #[tokio::test]
    async fn engines_share_threads_and_all_get_their_turns() {
        let home = tempfile::tempdir().expect("a folder");
        let (actions, _wanted) = mpsc::channel(1024);
        let turns = EngineTurns::new();
        let before = threads();
        let engines: Vec<_> = (0..ENGINES)
            .map(|mark| EngineHandle::start(engine(home.path(), mark), turns.clone(), actions.clone()))
            .collect();
        let mut most = 0;
        for _ in 0..30 {
            for engine in &engines {
                let message = microchain::MemberMessage {
                    status: 64,
                    sender: Address::repeat_byte(1),
                    receiver: None,
                    payload: vec![1; 1000].into(),
                };
                assert!(engine.give(Event::Message(message)));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            most = most.max(threads().unwrap_or_default());
        }
        let handled = || engines.iter().all(|one| one.bytes.load(Ordering::Relaxed) == 0);
        let waiting = async {
            while !handled() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        assert!(waited.is_ok(), "each engine has handled all its events");
        // Other tests of this process have threads, too: some, and not one for each engine.
        if let Some(before) = before {
            assert!(
                most < before + usize::from(ENGINES) / 2 + TURNS_MAX,
                "{before}, then {most}"
            );
        }
    }

    #[test]
    fn transactions_leave_places_for_all_else() {
        let home = tempfile::tempdir().expect("a folder");
        let (handle, worker) = EngineHandle::with_worker(engine(home.path(), 1));
        let transaction = || -> Transaction { UnsignedTransaction::default().with_form(TxForm::Native, 0) };
        let given = (0..EVENTS_MAX).filter(|_| handle.give(Event::Transaction(Box::new(transaction()))));
        assert_eq!(given.count(), TRANSACTIONS_MAX);
        let given = (0..EVENTS_MAX).filter(|_| handle.give(Event::Connected));
        assert_eq!(given.count(), EVENTS_MAX - TRANSACTIONS_MAX);
        drop(worker);
    }
}
