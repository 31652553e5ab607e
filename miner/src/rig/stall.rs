//! Notices a rig that has work and does none of it: a hung driver, most likely, which only a
//! restart of the program or the machine helps.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Monitor;
use crate::telemetry::{DeviceState, EngineStatus};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Resolves when no device has hashed for `patience` although some should have.
pub(super) async fn watch(monitor: &Monitor, patience: Option<Duration>) -> Duration {
    let Some(patience) = patience else {
        return std::future::pending().await;
    };
    let mut stall = Stall::new(Instant::now());
    loop {
        sleep(LOOK_EVERY.min(patience)).await;
        if let Some(since) = stall.look(&monitor.engine_status(), Instant::now())
            && since >= patience
        {
            return since;
        }
    }
}

/// When hashes were last seen.
struct Stall {
    hashes: u64,
    last: Instant,
}

impl Stall {
    fn new(now: Instant) -> Self {
        Self { hashes: 0, last: now }
    }

    /// How long there has been no hash; `None` while that is as it should be.
    fn look(&mut self, status: &EngineStatus, now: Instant) -> Option<Duration> {
        let should = status
            .devices
            .iter()
            .any(|device| matches!(device.state, DeviceState::Searching { .. }));
        // Preparing takes its time, and says how far it is.
        let prepares = status
            .devices
            .iter()
            .any(|device| matches!(device.state, DeviceState::Preparing { .. }));
        if status.hashes != self.hashes || !should || prepares {
            self.hashes = status.hashes;
            self.last = now;
            return None;
        }
        Some(now.saturating_duration_since(self.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::monitor::tests::sample;

    #[test]
    fn only_a_search_without_hashes_is_a_stall() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut status = sample().engine;
        let mut stall = Stall::new(start);
        assert_eq!(stall.look(&status, at(1)), None, "hashes have come");
        assert_eq!(stall.look(&status, at(11)), Some(Duration::from_secs(10)));
        status.hashes += 1;
        assert_eq!(stall.look(&status, at(12)), None);
        status.devices[0].state = DeviceState::Preparing { epoch: 1 };
        assert_eq!(stall.look(&status, at(99)), None, "it prepares");
        status.devices[0].state = DeviceState::Waiting;
        assert_eq!(stall.look(&status, at(200)), None, "there is no work");
        status.devices[0].state = DeviceState::Searching { epoch: 1 };
        assert_eq!(stall.look(&status, at(205)), Some(Duration::from_secs(5)));
    }
}
