//! Where work comes from: nodes over getWork, pools over Stratum, several of them in an order of
//! preference.
//!
//! Brings tasks to an engine and its solutions back to whoever gave the work. Knows neither devices
//! nor chains: what it moves are the engine's tasks and solutions.
//!
//! | subject | module |
//! |---|---|
//! | addresses of nodes and pools | [`Endpoint`] |
//! | which of them is used, and when it is tried again | `failover` |
//! | polling a node | `getwork`, over `http` |
//! | a connection to a pool | `pool`, in the words of the package `stratum` |
//! | TCP and TLS | `net`, [`TlsOptions`] |
//! | what became of solutions | [`Ledger`] |

mod endpoint;
mod error;
mod failover;
mod getwork;
mod http;
mod ledger;
mod net;
mod pool;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use ethash::{B256, Schedule};
use tokio::sync::mpsc::Receiver;

use crate::search::{FoundSolution, SearchTask};

pub use endpoint::{Endpoint, EndpointError, Protocol};
pub use error::ClientError;
pub use failover::{Ending, run};
pub use ledger::{EndpointStatus, JobStatus, Ledger, LedgerStatus, ShareCounts};
pub use tls::{TlsError, TlsOptions};

/// How a client is to be.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Nodes and pools, the preferred one first. At least one.
    pub endpoints: Vec<Endpoint>,
    /// Which epoch a seed or a block belongs to.
    pub schedule: Schedule,
    /// Between two questions for work.
    pub recheck: Duration,
    /// An endpoint that brings no new work for so long is left.
    pub work_timeout: Duration,
    /// Time for a connection, and for an answer.
    pub response_timeout: Duration,
    /// Between two reports of the hashrate; `None`: it is not reported.
    pub report_every: Option<Duration>,
    /// What names this rig in reports of its hashrate.
    pub rig: B256,
    /// Give up when there was no connection for so long; `None`: never.
    pub max_wait: Option<Duration>,
    /// The first wait before an endpoint that failed is tried again; it doubles with each failure.
    pub first_back_off: Duration,
    /// The longest such wait.
    pub last_back_off: Duration,
    /// For connections by TLS.
    pub tls: TlsOptions,
}

impl ClientConfig {
    /// A client of `endpoints` with the defaults.
    pub fn new(endpoints: Vec<Endpoint>) -> Self {
        Self {
            endpoints,
            schedule: Schedule::Ethash,
            recheck: Duration::from_millis(200),
            work_timeout: Duration::from_secs(180),
            response_timeout: Duration::from_secs(10),
            report_every: Some(Duration::from_secs(5)),
            rig: random_word(),
            max_wait: None,
            first_back_off: Duration::from_millis(500),
            last_back_off: Duration::from_secs(30),
            tls: TlsOptions::default(),
        }
    }
}

/// A number that no other rig has.
fn random_word() -> B256 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut word = [0; 32];
    for part in word.as_chunks_mut::<8>().0 {
        // The keys of a new hasher come from the system's randomness.
        *part = RandomState::new().build_hasher().finish().to_be_bytes();
    }
    B256::from(word)
}

/// What ties a client to an engine.
pub struct Wires {
    /// Tasks to the engine; `None` for a pause.
    pub work: Sender<Option<SearchTask>>,
    /// Solutions from the engine.
    pub found: Receiver<FoundSolution>,
    /// The engine's hashrate, in hashes per second.
    pub hashrate: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl Wires {
    /// Gives the engine work. An engine that has ended takes none, and the client ends with it.
    fn give(&self, task: Option<SearchTask>) {
        let _ = self.work.send(task);
    }

    fn rate(&self) -> u64 {
        // The cast makes nothing of what is no number, and the most of what is too large.
        (self.hashrate)() as u64
    }
}

/// Name and version, as nodes and pools are told them.
pub(crate) const AGENT: &str = concat!("miner/", env!("CARGO_PKG_VERSION"));
