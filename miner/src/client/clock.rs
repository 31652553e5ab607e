//! The clock of a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The clock by which a client measures its time limits. It shows the time of the system until it
/// is put forward, so that a day passes in seconds.
#[derive(Clone, Debug, Default)]
pub struct ClientClock(Arc<AtomicU64>);

impl ClientClock {
    /// The time now.
    pub fn now(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    /// Puts the clock forward, for all clients that share it. Parts of milliseconds do not count.
    pub fn advance(&self, time: Duration) {
        self.0.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
    }

    /// Waits until the clock shows `time`. A clock that is put forward meanwhile ends no wait.
    pub(super) async fn sleep_until(&self, time: Instant) {
        tokio::time::sleep(time.saturating_duration_since(self.now())).await;
    }
}
