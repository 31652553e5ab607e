//! The state that all Stratum connections share: settings, jobs, workers and counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chain::Chain;
use crossbeam_channel::RecvTimeoutError;
use daemon::{PlaceLimits, Places};
use ethash::LightCaches;
use tokio::sync::Semaphore;

use crate::addresses::AddressBook;
use crate::block_finders::BlockFinders;
use crate::config::StratumConfig;
use crate::event_log::EventLog;
use crate::extranonces::ExtranoncePool;
use crate::jobs::{JobHistory, StratumJob};
use crate::workers::WorkerRegistry;

/// Time between two reminders that miners still want work. The work manager forgets them
/// after a minute.
const DEMAND_INTERVAL: Duration = Duration::from_secs(15);
/// Time between two checks of the thread that receives work whether it should stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Most connections that are being closed at the same time and still have an extranonce.
const CLOSING_MAX: usize = 256;
/// The part of the processors that may judge shares of connections that have not earned it.
const UNEARNED_PART: usize = 4;

/// The state that all connections share.
pub(crate) struct StratumState {
    pub(crate) config: StratumConfig,
    pub(crate) chain: Chain,
    pub(crate) caches: LightCaches,
    pub(crate) jobs: JobHistory,
    pub(crate) workers: WorkerRegistry,
    /// The workers that sealed the last blocks.
    pub(crate) finders: BlockFinders,
    pub(crate) extranonces: ExtranoncePool,
    /// The places of the connections.
    pub(crate) places: Places,
    pub(crate) addresses: AddressBook,
    pub(crate) log: EventLog,
    /// Limits the number of shares that are judged at the same time.
    pub(crate) judges: Arc<Semaphore>,
    /// The same for shares that earlier shares have not paid for. They have judges of their own, so
    /// that other shares do not wait for them.
    pub(crate) unearned_judges: Arc<Semaphore>,
    /// Number of sessions so far; each connection is one.
    pub(crate) sessions: AtomicU64,
    /// Number of connections that have logged in and are still open.
    pub(crate) logged_in: AtomicU64,
    pub(crate) counters: StratumCounters,
}

/// Counters over all connections.
#[derive(Debug, Default)]
pub(crate) struct StratumCounters {
    pub(crate) connections: AtomicU64,
    pub(crate) turned_away: AtomicU64,
    /// Connections that made room for others.
    pub(crate) displaced: AtomicU64,
    /// Connections that were closed because most of their shares were bad.
    pub(crate) cut_off: AtomicU64,
    /// Connections that were closed because their address is banned.
    pub(crate) ban_refusals: AtomicU64,
    pub(crate) bad_messages: AtomicU64,
    pub(crate) bad_logins: AtomicU64,
    /// For the latest job: microseconds from its arrival until the last worker had it.
    pub(crate) last_push_us: AtomicU64,
    /// Number of workers that have received the latest job.
    pub(crate) last_push_workers: AtomicU64,
}

impl StratumState {
    /// The state of a server that has no jobs and no connections yet.
    pub(crate) fn new(chain: &Chain, caches: &LightCaches, config: StratumConfig) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            extranonces: ExtranoncePool::new(config.connections_max.saturating_add(CLOSING_MAX)),
            places: Places::new(PlaceLimits {
                total: config.connections_max,
                per_client: config.address_connections_max,
            }),
            addresses: AddressBook::new(config.connections_max, config.ban_time),
            log: EventLog::new(Instant::now()),
            config,
            chain: chain.clone(),
            caches: caches.clone(),
            jobs: JobHistory::default(),
            workers: WorkerRegistry::default(),
            finders: BlockFinders::default(),
            judges: Arc::new(Semaphore::new(cores)),
            unearned_judges: Arc::new(Semaphore::new(cores.div_ceil(UNEARNED_PART))),
            sessions: AtomicU64::new(0),
            logged_in: AtomicU64::new(0),
            counters: StratumCounters::default(),
        }
    }

    /// Receives the work of the work manager and turns it into jobs, until `stopping` is true. Also
    /// writes the summaries of the log.
    pub(crate) fn receive_work(&self, stopping: &AtomicBool) {
        let work = self.chain.work().subscribe();
        let mut last_demand = None::<Instant>;
        while !stopping.load(Ordering::Acquire) {
            let wanted = self.logged_in.load(Ordering::Relaxed) > 0;
            if wanted && last_demand.is_none_or(|at| at.elapsed() >= DEMAND_INTERVAL) {
                last_demand = Some(Instant::now());
                // The call only tells the work manager that work is wanted. The work arrives by
                // the channel.
                let _ = self.chain.work().current();
            }
            if let Some(omitted) = self.log.end_minute(Instant::now()) {
                tracing::info!("more Stratum events in the last minute: {omitted}");
            }
            match work.recv_timeout(STOP_CHECK_INTERVAL) {
                Ok(package) => self.jobs.update(package),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Counts that a job was sent to a worker, and how long after its arrival.
    pub(crate) fn count_push(&self, job: &StratumJob) {
        let microseconds = u64::try_from(job.received_at.elapsed().as_micros()).unwrap_or(u64::MAX);
        let workers = job.sent.fetch_add(1, Ordering::Relaxed) + 1;
        self.counters.last_push_us.store(microseconds, Ordering::Relaxed);
        self.counters.last_push_workers.store(workers, Ordering::Relaxed);
    }
}
