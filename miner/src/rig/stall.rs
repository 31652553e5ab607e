//! Detects a rig that has work but computes no hashes. The most likely cause is a hung driver,
//! against which only a restart of the program or the machine helps.

use std::time::{Duration, Instant};

use engine::{DeviceState, EngineStatus};
use tokio::time::sleep;

use crate::monitor::RigMonitor;

/// Time between two checks.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Waits until no device has computed a hash for `stall_timeout`, although one should have. Returns
/// the time without a hash. Never returns if `stall_timeout` is `None`.
pub(super) async fn watch(monitor: &RigMonitor, stall_timeout: Option<Duration>) -> Duration {
    let Some(stall_timeout) = stall_timeout else {
        return std::future::pending().await;
    };
    let mut stall = StallDetector::new(Instant::now());
    loop {
        sleep(CHECK_EVERY.min(stall_timeout)).await;
        if let Some(time) = stall.check(&monitor.engine_status(), Instant::now())
            && time >= stall_timeout
        {
            return time;
        }
    }
}

/// Remembers when the number of hashes last changed.
struct StallDetector {
    hashes: u64,
    last_change: Instant,
}

impl StallDetector {
    const fn new(now: Instant) -> Self {
        Self {
            hashes: 0,
            last_change: now,
        }
    }

    /// The time without a hash. `None` if hashes are computed, or if none are expected.
    fn check(&mut self, status: &EngineStatus, now: Instant) -> Option<Duration> {
        let is_searching = status
            .devices
            .iter()
            .any(|device| matches!(device.state, DeviceState::Searching { .. }));
        // Preparing takes long, and its progress is shown.
        let is_preparing = status
            .devices
            .iter()
            .any(|device| matches!(device.state, DeviceState::Preparing { .. }));
        if status.hashes != self.hashes || !is_searching || is_preparing {
            self.hashes = status.hashes;
            self.last_change = now;
            return None;
        }
        Some(now.saturating_duration_since(self.last_change))
    }
}

#[cfg(test)]
mod tests {
    use engine::testing::sample_report;

    use super::*;

    #[test]
    fn only_a_search_without_hashes_is_a_stall() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut status = sample_report().engine;
        let mut stall = StallDetector::new(start);
        assert_eq!(stall.check(&status, at(1)), None, "there are new hashes");
        assert_eq!(stall.check(&status, at(11)), Some(Duration::from_secs(10)));
        status.hashes += 1;
        assert_eq!(stall.check(&status, at(12)), None);
        status.devices[0].state = DeviceState::Preparing { epoch: 1 };
        assert_eq!(stall.check(&status, at(99)), None, "it is preparing");
        status.devices[0].state = DeviceState::Waiting;
        assert_eq!(stall.check(&status, at(200)), None, "there is no work");
        status.devices[0].state = DeviceState::Searching { epoch: 1 };
        assert_eq!(stall.check(&status, at(205)), Some(Duration::from_secs(5)));
    }
}
