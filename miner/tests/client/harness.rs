//! A client without an engine: the test receives its tasks and gives it solutions.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};
use engine::{ClientStats, ClientStatus, EpochRefusal};
use engine::{FoundSolution, SearchTask};
use ethash::{B256, Epoch, Solution};
use miner::client::testing::{self, ClientEnd, EngineLink};
use miner::client::{ClientConfig, MiningEndpoint};
use tokio::sync::{Notify, mpsc, watch};

/// Tests wait this long for an expected event.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(20);

/// The hashrate of the engine.
pub(crate) const RATE: u64 = 5_242_880;

/// A running client.
pub(crate) struct Client {
    pub(crate) tasks: Receiver<Option<SearchTask>>,
    found: mpsc::Sender<FoundSolution>,
    pub(crate) stats: Arc<ClientStats>,
    stop: watch::Sender<bool>,
    pub(crate) reconnect: Arc<Notify>,
    thread: Option<JoinHandle<ClientEnd>>,
}

/// Settings with short times, so that tests are fast.
pub(crate) fn config(urls: &[String]) -> ClientConfig {
    let endpoints = urls
        .iter()
        .map(|url| url.parse::<MiningEndpoint>().expect("a good URL"))
        .collect();
    ClientConfig {
        recheck: Duration::from_millis(10),
        response_timeout: Duration::from_secs(5),
        report_every: Some(Duration::from_millis(50)),
        first_back_off: Duration::from_millis(20),
        last_back_off: Duration::from_millis(100),
        ..ClientConfig::new(endpoints)
    }
}

impl Client {
    pub(crate) fn start(config: ClientConfig) -> Self {
        Self::start_at(config, || RATE)
    }

    /// A client whose engine computes `rate` hashes per second.
    pub(crate) fn start_at(config: ClientConfig, rate: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self::start_engine(config, rate, |_| Ok(()))
    }

    /// A client whose engine can search the epochs for which `check_epoch` gives no error.
    pub(crate) fn start_with_check(
        config: ClientConfig,
        check_epoch: impl Fn(Epoch) -> Result<(), EpochRefusal> + Send + Sync + 'static,
    ) -> Self {
        Self::start_engine(config, || RATE, check_epoch)
    }

    fn start_engine(
        config: ClientConfig,
        rate: impl Fn() -> u64 + Send + Sync + 'static,
        check_epoch: impl Fn(Epoch) -> Result<(), EpochRefusal> + Send + Sync + 'static,
    ) -> Self {
        let (work, tasks) = unbounded();
        let (found, found_in) = mpsc::channel(64);
        let (stop, stopped) = watch::channel(false);
        let stats = Arc::new(ClientStats::new(config.endpoints.iter().map(ToString::to_string)));
        let shared = Arc::clone(&stats);
        let reconnect = Arc::<Notify>::default();
        let link = EngineLink {
            work,
            found: found_in,
            hashrate: Arc::new(move || rate() as f64),
            check_epoch: Arc::new(check_epoch),
            reconnect: Arc::clone(&reconnect),
        };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime
                .block_on(testing::run(config, link, shared, stopped))
                .expect("good TLS settings")
        });
        Self {
            tasks,
            found,
            stats,
            reconnect,
            stop,
            thread: Some(thread),
        }
    }

    /// The next task for which `is_wanted` is true. Skips pauses and other tasks.
    #[track_caller]
    pub(crate) fn task_where(&self, is_wanted: impl Fn(&SearchTask) -> bool) -> SearchTask {
        let started = Instant::now();
        loop {
            let left = WAIT_MAX.saturating_sub(started.elapsed());
            match self.tasks.recv_timeout(left) {
                Ok(Some(task)) if is_wanted(&task) => return task,
                Ok(_) => {}
                Err(error) => panic!("no such task: {error}; {:?}", self.status()),
            }
        }
    }

    /// The next task with this header hash.
    #[track_caller]
    pub(crate) fn task(&self, header: B256) -> SearchTask {
        self.task_where(|task| task.work.header_hash == header)
    }

    /// Waits for a pause.
    #[track_caller]
    pub(crate) fn pause(&self) {
        let started = Instant::now();
        loop {
            let left = WAIT_MAX.saturating_sub(started.elapsed());
            match self.tasks.recv_timeout(left) {
                Ok(None) => return,
                Ok(Some(_)) => {}
                Err(error) => panic!("no pause: {error}"),
            }
        }
    }

    /// Device `device` finds `pow_nonce` for `header`.
    pub(crate) fn find(&self, device: usize, header: B256, pow_nonce: u64) {
        let solution = Solution {
            header_hash: header,
            pow_nonce,
            mix_hash: B256::repeat_byte(0x11),
        };
        self.found
            .blocking_send(FoundSolution { solution, device })
            .expect("the client runs");
    }

    pub(crate) fn status(&self) -> ClientStatus {
        self.stats.status()
    }

    /// Waits until `condition` is true for the status.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, condition: impl Fn(&ClientStatus) -> bool) {
        let started = Instant::now();
        while !condition(&self.status()) {
            assert!(started.elapsed() < WAIT_MAX, "never: {what}; {:?}", self.status());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Tells the client to stop, without waiting.
    pub(crate) fn tell_to_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until the client ends.
    #[track_caller]
    pub(crate) fn end(mut self) -> ClientEnd {
        let thread = self.thread.take().expect("not yet joined");
        let started = Instant::now();
        while !thread.is_finished() {
            assert!(started.elapsed() < WAIT_MAX, "the client does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
        thread.join().expect("the client does not panic")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
