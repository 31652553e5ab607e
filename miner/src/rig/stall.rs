//! Detects devices that have work but compute no hashes, or make no progress while they prepare for
//! it. The most likely cause is a hung driver.
//!
//! A device that hangs beside others that work is made to begin anew. If none works, only a restart
//! of the program or the machine helps.

use std::time::{Duration, Instant};

use engine::{DatasetProgress, DeviceState, EngineStatus};
use tokio::time::sleep;

use crate::monitor::RigMonitor;

/// Time between two checks.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// A device that prepares may make no visible progress for this time, if the limit of a search is
/// not longer: its driver may compile kernels meanwhile.
const PREPARING_LIMIT: Duration = Duration::from_secs(300);

/// Waits until no device has made progress for `stall_timeout`, although one should have. Returns
/// the time without progress. Takes care of single devices meanwhile. Never returns if
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
                        tracing::error!(
                            device,
                            "it has work, but makes no progress for {time:?}: it begins anew"
                        );
                        monitor.restart(Some(index));
                    }
                }
                StallChange::Works => {
                    monitor.set_hung(index, None);
                    tracing::info!(device, "it makes progress again");
                }
                StallChange::Ends => monitor.set_hung(index, None),
            }
        }
    }
}

/// A change of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StallChange {
    /// The device has made no progress for this time. `is_first`: that is new, or it was so for the
    /// limit once more.
    Hangs { time: Duration, is_first: bool },
    /// The device makes progress again.
    Works,
    /// The device need not make progress any more: it has no work, rests or has failed.
    Ends,
}

/// Remembers when each device last made progress.
struct StallDetector {
    limit: Duration,
    devices: Vec<DeviceProgress>,
}

struct DeviceProgress {
    /// The state in which the device must make progress; `None` if it need not.
    state: Option<DeviceState>,
    hashes: u64,
    dataset: Option<DatasetProgress>,
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

    /// The changes of single devices; and if all that should make progress hang, the shortest time
    /// for which one does. While other devices wait or rest, a device that was found hung before
    /// may have no work either, so it does not count then.
    fn check(
        &mut self,
        status: &EngineStatus,
        now: Instant,
    ) -> (Vec<(usize, StallChange)>, Option<Duration>) {
        let (mut changes, mut shortest, mut one_works) = (Vec::new(), None::<Duration>, false);
        let (mut one_idles, mut one_has_work) = (false, false);
        self.devices.resize_with(status.devices.len(), || DeviceProgress {
            state: None,
            hashes: 0,
            dataset: None,
            last_change: now,
            passed: 0,
        });
        for (index, (progress, device)) in self.devices.iter_mut().zip(&status.devices).enumerate() {
            let state = match &device.state {
                DeviceState::Searching { .. } | DeviceState::Preparing { .. } => Some(device.state.clone()),
                // A device that hangs is shown as this.
                DeviceState::Recovering { .. } if progress.passed > 0 => progress.state.clone(),
                _ => None,
            };
            // While a device searches, a dataset that is made in advance is no progress.
            let is_searching = matches!(device.state, DeviceState::Searching { .. });
            let has_progress = device.hashes != progress.hashes
                || state != progress.state
                || !is_searching && device.dataset != progress.dataset;
            let limit = match state {
                Some(DeviceState::Preparing { .. }) => self.limit.max(PREPARING_LIMIT),
                _ => self.limit,
            };
            if has_progress || state.is_none() {
                one_works |= state.is_some();
                one_idles |= matches!(device.state, DeviceState::Waiting | DeviceState::Resting { .. });
                if progress.passed > 0 {
                    let change = state.as_ref().map_or(StallChange::Ends, |_| StallChange::Works);
                    changes.push((index, change));
                }
                *progress = DeviceProgress {
                    state,
                    hashes: device.hashes,
                    dataset: device.dataset,
                    last_change: now,
                    passed: 0,
                };
                continue;
            }
            let time = now.saturating_duration_since(progress.last_change);
            if time < limit {
                one_works = true;
                continue;
            }
            one_has_work |= !matches!(device.state, DeviceState::Recovering { .. });
            shortest = Some(shortest.map_or(time, |shortest| shortest.min(time)));
            let passed = (time.as_nanos() / limit.as_nanos().max(1)) as u32;
            let is_first = passed > progress.passed;
            progress.passed = passed;
            changes.push((index, StallChange::Hangs { time, is_first }));
        }
        let is_whole = !one_works && (one_has_work || !one_idles);
        (changes, shortest.filter(|_| is_whole))
    }
}

#[cfg(test)]
mod tests {
    use engine::RestCause;
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
        assert_eq!(check(&status, 200), None, "the search begins");
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
                    StallChange::Ends => panic!("device {index} has work"),
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

    #[test]
    fn a_hung_device_is_no_stall_of_the_rig_while_the_others_wait_or_rest() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let searching = DeviceState::Searching { epoch: 3 };
        let mut status = sample_report().engine;
        let mut stall = StallDetector::new(Duration::from_secs(10));
        status.devices[1].state = searching.clone();
        for seconds in 0..11 {
            status.devices[0].hashes += 1;
            let (changes, whole) = stall.check(&status, at(seconds));
            assert_eq!((changes.is_empty(), whole), (seconds < 10, None), "{seconds}");
        }
        let reason = String::new();
        status.devices[1].state = DeviceState::Recovering { reason };
        let cause = RestCause::Hours;
        for idle in [DeviceState::Waiting, DeviceState::Resting { cause }] {
            status.devices[0].state = idle;
            assert_eq!(stall.check(&status, at(12)).1, None);
        }
        status.devices[0].state = searching;
        assert_eq!(stall.check(&status, at(13)).1, None, "its search begins");
        assert_eq!(
            stall.check(&status, at(23)).1,
            Some(Duration::from_secs(10)),
            "none works"
        );
        let reason = String::new();
        status.devices[1].state = DeviceState::Failed { reason };
        let (changes, _) = stall.check(&status, at(24));
        assert!(changes.contains(&(1, StallChange::Ends)), "{changes:?}");
    }

    #[test]
    fn a_device_that_prepares_must_make_progress() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let preparing = DeviceState::Preparing { epoch: 1 };
        let progress = |done| DatasetProgress {
            epoch: 1,
            done,
            total: 1000,
        };
        let mut status = sample_report().engine;
        status.devices[0].state = preparing.clone();
        // Gives the status to a new detector for 400 s. `change` changes it at each second. Returns
        // the time of the stall, if there is one.
        let stall_at = |status: &EngineStatus, limit, change: fn(&mut EngineStatus, u64)| {
            let (mut status, mut stall) = (status.clone(), StallDetector::new(Duration::from_secs(limit)));
            (0..400).find(|second| {
                change(&mut status, *second);
                stall.check(&status, at(*second)).1.is_some()
            })
        };
        let nothing = |_: &mut EngineStatus, _| {};
        assert_eq!(stall_at(&status, 10, nothing), Some(300));
        assert_eq!(stall_at(&status, 350, nothing), Some(350), "a longer limit holds");
        status.devices[0].dataset = Some(progress(0));
        assert_eq!(stall_at(&status, 10, nothing), Some(300));
        let slowly = |status: &mut EngineStatus, second: u64| {
            if let Some(dataset) = &mut status.devices[0].dataset {
                dataset.done = (second / 250) as u32;
            }
        };
        assert_eq!(stall_at(&status, 10, slowly), None);
        let searches = |status: &mut EngineStatus, second: u64| {
            if second == 250 {
                status.devices[0].state = DeviceState::Searching { epoch: 1 };
            }
        };
        assert_eq!(stall_at(&status, 10, searches), Some(260));

        // Device 0 hangs in its search, beside device 1.
        status.devices[0].state = DeviceState::Searching { epoch: 1 };
        status.devices[1].state = preparing;
        status.devices[1].dataset = None;
        assert_eq!(stall_at(&status, 10, nothing), Some(300));
        let prepares = |status: &mut EngineStatus, second: u64| {
            let done = second as u32;
            status.devices[1].dataset = Some(DatasetProgress {
                epoch: 1,
                done,
                total: 1000,
            });
        };
        assert_eq!(stall_at(&status, 10, prepares), None, "one device works");
    }

    #[test]
    fn a_device_that_hangs_while_it_prepares_is_named_until_it_makes_progress() {
        let start = Instant::now();
        let mut status = sample_report().engine;
        status.devices[1].state = DeviceState::Preparing { epoch: 3 };
        let mut stall = StallDetector::new(Duration::from_secs(10));
        let mut seen = Vec::new();
        for seconds in 0..700 {
            // Device 0 works. Device 1 continues with its dataset at second 650.
            status.devices[0].hashes += 1;
            if seconds == 650
                && let Some(dataset) = &mut status.devices[1].dataset
            {
                dataset.done += 1;
            }
            let (changes, whole) = stall.check(&status, start + Duration::from_secs(seconds));
            assert_eq!(whole, None, "device 0 works");
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
                        DeviceState::Preparing { epoch: 3 }
                    }
                    StallChange::Ends => panic!("device {index} has work"),
                };
            }
        }
        assert_eq!(seen, [(300, 1, "hangs"), (600, 1, "hangs"), (650, 1, "works")]);
    }
}
