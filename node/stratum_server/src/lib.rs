//! The Stratum server of the node. It serves miners of every dialect; for the chain's work manager
//! it is one more client.
//!
//! All workers mine for this node: a login names a worker and says nothing about payment. New work
//! is sent as soon as the work manager has it. Shares are checked with the light cache, on threads
//! for blocking work. A share that meets the block difficulty becomes a block. The package
//! `stratum` reads and writes the lines of the protocol.
//!
//! | subject | module |
//! |---|---|
//! | accepting connections | `accept` |
//! | what is known about addresses; bans | `addresses` |
//! | how many shares may be hashed | `allowance` |
//! | what bad shares lead to | `conduct` |
//! | settings | `config` |
//! | one connection | `connection` |
//! | log lines that clients can cause | `event_log` |
//! | who found the last blocks | `block_finders` |
//! | nonce ranges of the connections | `extranonces` |
//! | jobs and their age | `jobs` |
//! | what the dashboard shows | `observer` |
//! | judging shares | `shares` |
//! | state that all connections share | `state` |
//! | status and metrics | `status` |
//! | difficulty of shares | `vardiff` |
//! | statistics of the workers | `workers` |

mod accept;
mod addresses;
mod allowance;
mod block_finders;
mod conduct;
mod config;
mod connection;
mod event_log;
mod extranonces;
mod jobs;
mod observer;
mod shares;
mod state;
mod status;
mod vardiff;
mod workers;

pub use config::{
    ADDRESS_CONNECTIONS_MAX, BAN_SECS, CONNECTIONS_MAX, DIFFICULTY, HOST, PASSWORD_LEN_MIN, PORT,
    StratumConfig, StratumError,
};

pub use block_finders::BlockFinders;
pub use observer::StratumObserver;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use chain::Chain;
use daemon::status::{self as status_server, StatusServer, StatusSource};
use ethash::LightCaches;
use futures_util::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use state::StratumState;

/// A running server. Dropping it stops the server without waiting.
pub struct StratumServer {
    address: SocketAddr,
    observer: StratumObserver,
    has_tls: bool,
    status: Option<StatusServer>,
    stop: watch::Sender<bool>,
    stopping: Arc<AtomicBool>,
    tasks: JoinSet<()>,
    /// The thread that receives work.
    work_thread: Option<JoinHandle<()>>,
}

impl StratumServer {
    /// Address where miners connect, with the real port.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address at which miners connect, as a URL.
    pub fn endpoint(&self) -> String {
        let transport = if self.has_tls { "ssl" } else { "tcp" };
        format!("stratum+{transport}://{}", self.address)
    }

    /// Address where the status is served, if any.
    pub fn status(&self) -> Option<SocketAddr> {
        self.status.as_ref().map(StatusServer::address)
    }

    /// Reads the figures of this server.
    pub fn observer(&self) -> StratumObserver {
        self.observer.clone()
    }

    /// Closes all connections and waits until they have ended.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        self.stopping.store(true, Ordering::Release);
        self.status = None;
        while self.tasks.join_next().await.is_some() {}
        if let Some(thread) = self.work_thread.take() {
            // The thread checks several times a second whether it should stop.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

impl Drop for StratumServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.stopping.store(true, Ordering::Release);
    }
}

/// Starts a server for the work of `chain`'s work manager. Shares are checked with `caches`.
///
/// # Errors
/// [`StratumError`] if the server cannot listen at an address, or a thread cannot start.
pub fn start<'a>(
    chain: &'a Chain,
    caches: &'a LightCaches,
    config: StratumConfig,
) -> BoxFuture<'a, Result<StratumServer, StratumError>> {
    Box::pin(begin(chain, caches, config))
}

async fn begin(
    chain: &Chain,
    caches: &LightCaches,
    config: StratumConfig,
) -> Result<StratumServer, StratumError> {
    let password_len = config.password.as_ref().map(|password| password.chars().count());
    if let Some(warning) =
        password_len.and_then(|got| config::password_warning(got, config.ban_time.is_some()))
    {
        tracing::warn!("{warning}");
    }
    let requested = format!("{}:{}", config.host, config.port);
    let bind_error = |reason| StratumError::Bind {
        address: requested.clone(),
        reason,
    };
    let host = config.host.trim_start_matches('[').trim_end_matches(']');
    let host = if host.eq_ignore_ascii_case(HOST) {
        "127.0.0.1"
    } else {
        host
    };
    let listener = TcpListener::bind((host, config.port)).await.map_err(bind_error)?;
    let address = listener.local_addr().map_err(bind_error)?;
    let has_tls = config.tls.is_some();
    let state = Arc::new(StratumState::new(chain, caches, config));
    let status = match state.config.status {
        None => None,
        Some(address) => {
            let watched: Arc<dyn StatusSource> = Arc::clone(&state) as _;
            let served = status_server::serve(address, state.config.status_hosts.clone(), watched).await;
            Some(served.map_err(|reason| StratumError::Bind {
                address: address.to_string(),
                reason,
            })?)
        }
    };
    let stopping = Arc::new(AtomicBool::new(false));
    let work_thread = {
        let (state, stopping) = (Arc::clone(&state), Arc::clone(&stopping));
        std::thread::Builder::new()
            .name("stratum-work".into())
            .spawn(move || state.receive_work(&stopping))
            .map_err(StratumError::Thread)?
    };
    let observer = StratumObserver(Arc::clone(&state));
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    tasks.spawn(accept::accept_connections(listener, state, stopped));
    Ok(StratumServer {
        address,
        observer,
        has_tls,
        status,
        stop,
        stopping,
        tasks,
        work_thread: Some(work_thread),
    })
}
