//! The state that all Stratum connections share: settings, jobs, workers and counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chain::Chain;
use crossbeam_channel::RecvTimeoutError;
use ethash::LightCaches;
use inbound::{PlaceLimits, Places};
use tokio::sync::Semaphore;

use super::addresses::AddressBook;
use super::config::StratumConfig;
use super::event_log::EventLog;
use super::extranonces::ExtranoncePool;
use super::jobs::{JobHistory, StratumJob};
use super::workers::WorkerRegistry;
use crate::block_finders::BlockFinders;

/// How often the work manager is told that miners still want work. The work manager forgets this
/// after a minute.
const DEMAND_INTERVAL: Duration = Duration::from_secs(15);
/// How often the thread that receives work checks whether it should stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Most connections that are being closed at the same time and still have an extranonce.
const CLOSING_MAX: usize = 256;
/// The part of the processors that may judge shares of connections that have not earned it.
const UNEARNED_PART: usize = 4;

/// The state that all connections share.
pub(super) struct StratumState {
    pub(super) config: StratumConfig,
    pub(super) chain: Chain,
    pub(super) caches: LightCaches,
    pub(super) jobs: JobHistory,
    pub(super) workers: WorkerRegistry,
    /// Which workers sealed the last blocks.
    pub(super) finders: BlockFinders,
    pub(super) extranonces: ExtranoncePool,
    /// The places of the connections.
    pub(super) places: Places,
    pub(super) addresses: AddressBook,
    pub(super) log: EventLog,
    /// Limits the number of shares that are judged at the same time.
    pub(super) judges: Arc<Semaphore>,
    /// The same for shares that earlier shares have not paid for. They have judges of their own, so
    /// that other shares do not wait for them.
    pub(super) unearned_judges: Arc<Semaphore>,
    /// Number of sessions so far; each connection is one.
    pub(super) sessions: AtomicU64,
    /// Number of connections that have logged in and are still open.
    pub(super) logged_in: AtomicU64,
    pub(super) counters: StratumCounters,
}

/// Counters over all connections.
#[derive(Debug, Default)]
pub(super) struct StratumCounters {
    pub(super) connections: AtomicU64,
    pub(super) turned_away: AtomicU64,
    /// Connections that made room for others.
    pub(super) displaced: AtomicU64,
    /// Connections that were closed because most of their shares were bad.
    pub(super) cut_off: AtomicU64,
    /// Connections that were closed because their address is banned.
    pub(super) ban_refusals: AtomicU64,
    pub(super) bad_messages: AtomicU64,
    pub(super) bad_logins: AtomicU64,
    /// For the latest job: microseconds from its arrival until the last worker had it.
    pub(super) last_push_us: AtomicU64,
    /// Number of workers that have received the latest job.
    pub(super) last_push_workers: AtomicU64,
}

impl StratumState {
    /// The state of a server that has no jobs and no connections yet.
    pub(super) fn new(chain: &Chain, caches: &LightCaches, config: StratumConfig) -> Self {
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
    pub(super) fn receive_work(&self, stopping: &AtomicBool) {
        let work = self.chain.work().subscribe();
        let mut last_demand = None::<Instant>;
        while !stopping.load(Ordering::Acquire) {
            let wanted = self.logged_in.load(Ordering::Relaxed) > 0;
            if wanted && last_demand.is_none_or(|at| at.elapsed() >= DEMAND_INTERVAL) {
                last_demand = Some(Instant::now());
                // This call only tells the work manager that work is wanted. The work arrives by
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
    pub(super) fn count_push(&self, job: &StratumJob) {
        let microseconds = u64::try_from(job.received_at.elapsed().as_micros()).unwrap_or(u64::MAX);
        let workers = job.sent.fetch_add(1, Ordering::Relaxed) + 1;
        self.counters.last_push_us.store(microseconds, Ordering::Relaxed);
        self.counters.last_push_workers.store(workers, Ordering::Relaxed);
    }
}
