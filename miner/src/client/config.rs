//! The settings of a client.

use std::time::Duration;

use daemon::tls::TlsOptions;
use ethash::{B256, Schedule};

use super::clock::ClientClock;
use super::endpoint::MiningEndpoint;

/// Name and version of this program, as nodes and pools see them.
pub(super) const AGENT: &str = concat!("miner/", env!("CARGO_PKG_VERSION"));

/// The settings of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Nodes and pools, in order of preference. At least one.
    pub endpoints: Vec<MiningEndpoint>,
    /// Decides the epoch of a seed hash or a block number.
    pub schedule: Schedule,
    /// Time between two requests for work to a node.
    pub recheck: Duration,
    /// An endpoint that gives no new work for this time is left.
    pub work_timeout: Duration,
    /// Time limit for connecting, and for an answer.
    pub response_timeout: Duration,
    /// Time between two reports of the hashrate. `None`: no reports.
    pub report_every: Option<Duration>,
    /// Identifies this rig in its reports of the hashrate.
    pub rig: B256,
    /// The client ends if there was no connection for this time. `None`: it never gives up.
    pub max_wait: Option<Duration>,
    /// Time before a failed endpoint is tried again. It doubles with each failure.
    pub first_back_off: Duration,
    /// The upper limit of that time.
    pub last_back_off: Duration,
    /// Settings for TLS connections.
    pub tls: TlsOptions,
    /// The clock for all of these times but those of getWork.
    pub clock: ClientClock,
}

impl ClientConfig {
    /// The default settings for a client of `endpoints`.
    pub fn new(endpoints: Vec<MiningEndpoint>) -> Self {
        Self {
            endpoints,
            schedule: Schedule::Ethash,
            recheck: Duration::from_millis(200),
            work_timeout: Duration::from_secs(180),
            response_timeout: Duration::from_secs(10),
            report_every: Some(Duration::from_secs(5)),
            rig: random_id(),
            max_wait: None,
            first_back_off: Duration::from_millis(500),
            last_back_off: Duration::from_secs(30),
            tls: TlsOptions::default(),
            clock: ClientClock::default(),
        }
    }
}

/// A random number, which no other rig has.
fn random_id() -> B256 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut id = [0; 32];
    for part in id.as_chunks_mut::<8>().0 {
        // The keys of a new hasher come from the randomness of the operating system.
        *part = RandomState::new().build_hasher().finish().to_be_bytes();
    }
    B256::from(id)
}
