//! A client without an engine: the test takes its tasks and finds solutions for it.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};
use ethash::{B256, Solution};
use miner::client::{self, ClientConfig, Ending, Endpoint, Ledger, LedgerStatus, Wires};
use miner::{FoundSolution, SearchTask};
use tokio::sync::{mpsc, watch};

/// How long tests wait for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The hashrate that is reported.
pub(crate) const RATE: u64 = 5_242_880;

/// A running client.
pub(crate) struct Client {
    pub(crate) tasks: Receiver<Option<SearchTask>>,
    found: mpsc::Sender<FoundSolution>,
    pub(crate) ledger: Arc<Ledger>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<Ending>>,
}

/// Quick turns, so that tests take no longer than they must.
pub(crate) fn config(urls: &[String]) -> ClientConfig {
    let endpoints = urls
        .iter()
        .map(|url| url.parse::<Endpoint>().expect("a good URL"))
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

    /// A client whose engine does `rate` hashes a second.
    pub(crate) fn start_at(config: ClientConfig, rate: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let (work, tasks) = unbounded();
        let (found, found_in) = mpsc::channel(64);
        let (stop, stopped) = watch::channel(false);
        let ledger = Arc::new(Ledger::new(&config.endpoints));
        let shared = Arc::clone(&ledger);
        let wires = Wires {
            work,
            found: found_in,
            hashrate: Arc::new(move || rate() as f64),
        };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime
                .block_on(client::run(config, wires, shared, stopped))
                .expect("good TLS settings")
        });
        Self {
            tasks,
            found,
            ledger,
            stop,
            thread: Some(thread),
        }
    }

    /// The next task that `is_wanted`; pauses and others are passed over.
    #[track_caller]
    pub(crate) fn task_where(&self, is_wanted: impl Fn(&SearchTask) -> bool) -> SearchTask {
        let started = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(started.elapsed());
            match self.tasks.recv_timeout(left) {
                Ok(Some(task)) if is_wanted(&task) => return task,
                Ok(_) => {}
                Err(error) => panic!("no such task: {error}; {:?}", self.status()),
            }
        }
    }

    /// The next task with this header.
    #[track_caller]
    pub(crate) fn task(&self, header: B256) -> SearchTask {
        self.task_where(|task| task.work.header_hash == header)
    }

    /// Waits for a pause.
    #[track_caller]
    pub(crate) fn pause(&self) {
        let started = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(started.elapsed());
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

    pub(crate) fn status(&self) -> LedgerStatus {
        self.ledger.status()
    }

    /// Waits until the ledger says so.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&LedgerStatus) -> bool) {
        let started = Instant::now();
        while !holds(&self.status()) {
            assert!(started.elapsed() < PATIENCE, "never: {what}; {:?}", self.status());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Tells it to stop, and does not wait.
    pub(crate) fn tell_to_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until it ends.
    #[track_caller]
    pub(crate) fn ending(mut self) -> Ending {
        let thread = self.thread.take().expect("not yet joined");
        let started = Instant::now();
        while !thread.is_finished() {
            assert!(started.elapsed() < PATIENCE, "the client goes on");
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
