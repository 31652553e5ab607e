//! Detects devices that have work but compute no hashes. The most likely cause is a hung driver.
//!
//! A device that hangs beside others that work is made to begin anew. If none works, only a restart
//! of the program or the machine helps.

use std::time::{Duration, Instant};

use engine::{DeviceState, EngineStatus};
use tokio::time::sleep;

use crate::monitor::RigMonitor;

/// Time between two checks.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Waits until no device has computed a hash for `stall_timeout`, although one should have. Returns
/// the time without a hash. Takes care of single devices meanwhile. Never returns if
/// `stall_timeout` is `None`.
pub(super) async fn watch(monitor: &RigMonitor, stall_timeout: Option<Duration>) -> Duration {
    let Some(stall_timeout) = stall_timeout else {
        return std::future::pending().await;
    };
    let mut stall = StallDetector::new(stall_timeout);
    loop {
        sleep(CHECK_EVERY.min(stall_timeout)).await;
        let status = monitor.engine_status();
        let (changes, whole) = stall.check(&status, Instant::now());
        if let Some(time) = whole {
            return time;
        }
        for (index, change) in changes {
            let device = &status.devices[index].name;
            match change {
                StallChange::Hangs { time, is_first } => {
                    monitor.set_hung(index, Some(time));
                    if is_first {
                        tracing::error!(device, "it has work, but no hash for {time:?}: it begins anew");
                        monitor.restart(Some(index));
                    }
                }
                StallChange::Works => {
                    monitor.set_hung(index, None);
                    tracing::info!(device, "it computes hashes again");
                }
            }
        }
    }
}

/// A change of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StallChange {
    /// The device has computed no hash for this time. `is_first`: that is new, or it was so for the
    /// limit once more.
    Hangs { time: Duration, is_first: bool },
    /// The device no longer hangs.
    Works,
}

/// Remembers when the number of hashes of each device last changed.
struct StallDetector {
    limit: Duration,
    devices: Vec<DeviceProgress>,
}

struct DeviceProgress {
    hashes: u64,
    last_change: Instant,
    /// The number of times that the limit has passed since.
    passed: u32,
}

impl StallDetector {
    const fn new(limit: Duration) -> Self {
        Self {
            limit,
            devices: Vec::new(),
        }
    }

    /// The changes of single devices; and if all that should compute hashes hang, the shortest time
    /// for which one does.
    fn check(
        &mut self,
        status: &EngineStatus,
        now: Instant,
    ) -> (Vec<(usize, StallChange)>, Option<Duration>) {
        let (mut changes, mut shortest) = (Vec::new(), None::<Duration>);
        self.devices.resize_with(status.devices.len(), || DeviceProgress {
            hashes: 0,
            last_change: now,
            passed: 0,
        });
        // Preparing takes long, and its progress is shown.
        let is_preparing = status
            .devices
            .iter()
            .any(|device| matches!(device.state, DeviceState::Preparing { .. }));
        for (index, (progress, device)) in self.devices.iter_mut().zip(&status.devices).enumerate() {
            let is_searching = match device.state {
                DeviceState::Searching { .. } => true,
                // A device that hangs is shown as this.
                DeviceState::Recovering { .. } => progress.passed > 0,
                _ => false,
            };
            if device.hashes != progress.hashes || !is_searching {
                (progress.hashes, progress.last_change) = (device.hashes, now);
                if std::mem::take(&mut progress.passed) > 0 {
                    changes.push((index, StallChange::Works));
                }
                if is_searching {
                    shortest = Some(Duration::ZERO);
                }
                continue;
            }
            let time = now.saturating_duration_since(progress.last_change);
            shortest = Some(shortest.map_or(time, |shortest| shortest.min(time)));
            if time >= self.limit {
                let passed = (time.as_nanos() / self.limit.as_nanos().max(1)) as u32;
                let is_first = passed > progress.passed;
                progress.passed = passed;
                changes.push((index, StallChange::Hangs { time, is_first }));
            }
        }
        let whole = shortest.filter(|time| *time >= self.limit && !is_preparing);
        (changes, whole)
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
        let ten = Duration::from_secs(10);
        let mut status = sample_report().engine;
        let mut stall = StallDetector::new(ten);
        let mut check = |status: &EngineStatus, seconds| stall.check(status, at(seconds)).1;
        assert_eq!(check(&status, 1), None, "there are new hashes");
        assert_eq!(check(&status, 10), None);
        assert_eq!(check(&status, 11), Some(ten));
        status.devices[0].hashes += 1;
        assert_eq!(check(&status, 12), None);
        status.devices[1].state = DeviceState::Preparing { epoch: 1 };
        assert_eq!(check(&status, 99), None, "it is preparing");
        status.devices[1].state = DeviceState::Waiting;
        status.devices[0].state = DeviceState::Waiting;
        assert_eq!(check(&status, 200), None, "there is no work");
        status.devices[0].state = DeviceState::Searching { epoch: 1 };
        assert_eq!(check(&status, 209), None);
        assert_eq!(check(&status, 210), Some(ten));
    }

    #[test]
    fn a_device_that_hangs_beside_others_is_named() {
        let start = Instant::now();
        let mut status = sample_report().engine;
        status.devices[1].state = DeviceState::Searching { epoch: 3 };
        let mut stall = StallDetector::new(Duration::from_secs(10));
        let mut seen = Vec::new();
        let mut wholes = Vec::new();
        for seconds in 0..45 {
            // Device 0 works until second 32, device 1 hangs until second 25.
            status.devices[0].hashes += u64::from(seconds < 32);
            status.devices[1].hashes += u64::from(seconds >= 25);
            let (changes, whole) = stall.check(&status, start + Duration::from_secs(seconds));
            for (index, change) in changes {
                status.devices[index].state = match change {
                    StallChange::Hangs { is_first, .. } => {
                        if is_first {
                            seen.push((seconds, index, "hangs"));
                        }
                        let reason = String::new();
                        DeviceState::Recovering { reason }
                    }
                    StallChange::Works => {
                        seen.push((seconds, index, "works"));
                        DeviceState::Searching { epoch: 3 }
                    }
                };
            }
            wholes.extend(whole);
        }
        assert_eq!(
            seen,
            [
                (10, 1, "hangs"),
                (20, 1, "hangs"),
                (25, 1, "works"),
                (41, 0, "hangs")
            ]
        );
        assert_eq!(wholes, [], "one device works at any time");
    }
}
