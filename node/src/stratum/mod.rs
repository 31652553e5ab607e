//! The node's own Stratum server: miners of every dialect, one client more of the chain's work desk.
//!
//! Everybody mines for this node: a login names a worker, it pays nobody. Work goes out the moment the desk has
//! it; shares are judged by the light cache, on threads for blocking work, and one that is good enough for the
//! chain becomes a block. What the lines look like is the package `stratum`'s business.
//!
//! | subject | module |
//! |---|---|
//! | jobs and their age | `board` |
//! | one connection | `connection` |
//! | what a share is worth | `judge` |
//! | how hard shares are | `vardiff` |
//! | who has done what | `workers` |
//! | all of it for people and programs | `report` |

mod board;
mod connection;
mod door;
mod judge;
mod report;
mod vardiff;
mod workers;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chain::Chain;
use crossbeam_channel::RecvTimeoutError;
use ethash::LightCaches;
use miner::status::Served;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use board::Board;
use door::Extranonces;
use workers::Workers;

/// Default listening address.
pub const HOST: &str = "localhost";
/// Default listening port.
pub const PORT: u16 = 8008;
/// Default difficulty of a worker's first shares, in hashes.
pub const DIFFICULTY: u64 = 1 << 26;
/// Default of the most connections.
pub const CONNECTIONS_MAX: usize = 4096;

/// How often the desk is told that miners still want work; it forgets in a minute.
const DEMAND_EVERY: Duration = Duration::from_secs(15);
/// How often the thread that takes work looks at whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How a server is to be.
#[derive(Clone, Debug)]
pub struct StratumConfig {
    /// An address or a name; `localhost` is 127.0.0.1.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Difficulty of a worker's first shares, in hashes.
    pub difficulty: u64,
    /// What a login must give; `None`: anything.
    pub password: Option<String>,
    /// Most connections at once; one more is closed.
    pub connections_max: usize,
    /// Where status and metrics are served.
    pub status: Option<SocketAddr>,
    /// Name and version of the node.
    pub agent: String,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StratumError {
    /// An address cannot be listened on.
    #[error("Stratum cannot listen on {address}: {reason}")]
    Bind {
        /// The address as asked for.
        address: String,
        /// What the system said.
        reason: io::Error,
    },
    /// There is no thread for the desk's work.
    #[error("no thread for Stratum: {0}")]
    Thread(io::Error),
}

/// What all connections share.
struct Shared {
    config: StratumConfig,
    chain: Chain,
    caches: LightCaches,
    board: Board,
    workers: Workers,
    extranonces: Extranonces,
    /// Places for shares that are being judged.
    judges: Arc<Semaphore>,
    sessions: AtomicU64,
    logged_in: AtomicU64,
    counts: Counts,
}

/// What is counted for all connections together.
#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    connections_now: AtomicU64,
    turned_away: AtomicU64,
    bad_messages: AtomicU64,
    bad_logins: AtomicU64,
    /// Microseconds from a job's coming to the last worker's having it, the last time.
    last_push_us: AtomicU64,
    /// Workers that got it.
    last_push_workers: AtomicU64,
}

/// A running server. Dropping it closes it without waiting.
pub struct StratumServer {
    address: SocketAddr,
    status: Option<Served>,
    stop: watch::Sender<bool>,
    stopping: Arc<AtomicBool>,
    tasks: JoinSet<()>,
    taker: Option<JoinHandle<()>>,
}

impl StratumServer {
    /// Where miners connect, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the status is served.
    pub fn status(&self) -> Option<SocketAddr> {
        self.status.as_ref().map(Served::address)
    }

    /// Closes all connections and waits for their end.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        self.stopping.store(true, Ordering::Release);
        self.status = None;
        while self.tasks.join_next().await.is_some() {}
        if let Some(taker) = self.taker.take() {
            // It looks a few times a second.
            let _ = tokio::task::spawn_blocking(move || taker.join()).await;
        }
    }
}

impl Drop for StratumServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.stopping.store(true, Ordering::Release);
    }
}

/// Starts to listen, and to serve the work of `chain`'s desk; shares are judged with `caches`.
///
/// # Errors
/// [`StratumError`] when an address cannot be listened on.
pub async fn start(
    chain: &Chain,
    caches: &LightCaches,
    config: StratumConfig,
) -> Result<StratumServer, StratumError> {
    let place = format!("{}:{}", config.host, config.port);
    let bind = |reason| StratumError::Bind {
        address: place.clone(),
        reason,
    };
    let host = config.host.trim_start_matches('[').trim_end_matches(']');
    let host = if host.eq_ignore_ascii_case(HOST) {
        "127.0.0.1"
    } else {
        host
    };
    let listener = TcpListener::bind((host, config.port)).await.map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted_status = config.status;
    let shared = Arc::new(Shared {
        extranonces: Extranonces::new(config.connections_max),
        config,
        chain: chain.clone(),
        caches: caches.clone(),
        board: Board::default(),
        workers: Workers::default(),
        judges: Arc::new(Semaphore::new(cores)),
        sessions: AtomicU64::new(0),
        logged_in: AtomicU64::new(0),
        counts: Counts::default(),
    });
    let status = match wanted_status {
        None => None,
        Some(wanted) => {
            let watched: Arc<dyn miner::status::Status> = Arc::clone(&shared) as _;
            let served = miner::status::serve(wanted, watched).await;
            Some(served.map_err(|reason| StratumError::Bind {
                address: wanted.to_string(),
                reason,
            })?)
        }
    };
    let stopping = Arc::new(AtomicBool::new(false));
    let taker = {
        let (shared, stopping) = (Arc::clone(&shared), Arc::clone(&stopping));
        std::thread::Builder::new()
            .name("stratum-work".into())
            .spawn(move || shared.take_work(&stopping))
            .map_err(StratumError::Thread)?
    };
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    tasks.spawn(door::accept(listener, shared, stopped));
    Ok(StratumServer {
        address,
        status,
        stop,
        stopping,
        tasks,
        taker: Some(taker),
    })
}

impl Shared {
    /// Takes the desk's work and lays it on the board until the end.
    fn take_work(&self, stopping: &AtomicBool) {
        let work = self.chain.work().subscribe();
        let mut demanded = None::<Instant>;
        while !stopping.load(Ordering::Acquire) {
            let wanted = self.logged_in.load(Ordering::Relaxed) > 0;
            if wanted && demanded.is_none_or(|at| at.elapsed() >= DEMAND_EVERY) {
                demanded = Some(Instant::now());
                // The question is what counts: work comes by the channel.
                let _ = self.chain.work().current();
            }
            match work.recv_timeout(LOOK_EVERY) {
                Ok(package) => self.board.put(package),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes note that a job was sent; the latest of its receivers tells how long all of it took.
    fn pushed(&self, job: &board::Job) {
        let microseconds = u64::try_from(job.at.elapsed().as_micros()).unwrap_or(u64::MAX);
        let workers = job.sent.fetch_add(1, Ordering::Relaxed) + 1;
        self.counts.last_push_us.store(microseconds, Ordering::Relaxed);
        self.counts.last_push_workers.store(workers, Ordering::Relaxed);
    }
}
