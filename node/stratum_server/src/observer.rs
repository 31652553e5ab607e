//! The figures of the Stratum server for the dashboard.

use std::sync::Arc;
use std::time::Instant;

use ethash::B256;
use serde_json::Value;

use crate::state::StratumState;

/// Reads the figures of a running Stratum server.
#[derive(Clone)]
pub struct StratumObserver(pub(crate) Arc<StratumState>);

impl StratumObserver {
    /// Hashes per second of all workers, from their shares of the last ten minutes.
    pub fn hashrate(&self) -> f64 {
        self.0.workers.hashrate(Instant::now())
    }

    /// The figures as in the status of the server, with at most `workers_max` workers: those with
    /// the most hashes per second. `workers_known` is the number of all, and `hashrate` the rate of
    /// all.
    pub fn figures(&self, workers_max: usize) -> Value {
        let mut workers = self.0.workers.list(Instant::now());
        let known = workers.len();
        workers.sort_by(|one, other| other.hashrate.total_cmp(&one.hashrate));
        workers.truncate(workers_max);
        let mut figures = self.0.figures(workers);
        figures["workers_known"] = known.into();
        figures["hashrate"] = self.hashrate().into();
        figures
    }

    /// The worker that sealed the block with this header hash, if it was one of the last ones.
    pub fn finder(&self, header_hash: &B256) -> Option<String> {
        self.0.finders.of(header_hash)
    }
}
