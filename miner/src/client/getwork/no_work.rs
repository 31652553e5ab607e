//! The time during which a node gives no work: it answers that it has none, or its answers make no
//! sense.

use std::time::{Duration, Instant};

use crate::client::endpoint::MiningEndpoint;
use crate::client::error::ClientError;

/// A node that has had no work for longer than this is left.
const NO_WORK_TIMEOUT: Duration = Duration::from_secs(10);
/// A node that has had no work for this time is logged.
const LOG_AFTER: Duration = Duration::from_secs(1);

/// A period without work.
pub(super) struct NoWorkPeriod {
    endpoint: String,
    since: Instant,
    logged: bool,
}

impl NoWorkPeriod {
    /// A period that begins now.
    pub(super) fn of(endpoint: &MiningEndpoint) -> Self {
        Self {
            endpoint: endpoint.to_string(),
            since: Instant::now(),
            logged: false,
        }
    }

    /// Whether it is time to leave the node.
    ///
    /// Logs the period once. The short time between two blocks, when a node often has no work, is
    /// not logged.
    pub(super) fn is_too_long(&mut self, error: &ClientError) -> bool {
        let time = self.since.elapsed();
        if time >= LOG_AFTER && !self.logged {
            self.logged = true;
            tracing::info!(endpoint = %self.endpoint, "waiting for work: {error}");
        }
        time > NO_WORK_TIMEOUT
    }
}
