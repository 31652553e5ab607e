//! The figures of one device: hash rate, counts, state, and the progress of its dataset.
//!
//! Searchers write the figures, and any thread may read them. Neither waits for the other.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::control::{DeviceControl, RestCause};
use super::hash_rate::HashRateMeter;

/// The figures of an engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineStatus {
    /// Hashes per second of all devices, over the last ten seconds.
    pub hashrate: f64,
    /// Hashes since the start.
    pub hashes: u64,
    /// Solutions found.
    pub solutions: u64,
    /// Hits that the check on the CPU refused. The reason is faulty memory, a faulty device or a
    /// wrong dataset.
    pub hardware_errors: u64,
    /// The devices. A device keeps its index. A new device is added at the end.
    pub devices: Vec<DeviceStatus>,
}

/// The figures of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceStatus {
    /// `cpu` or `gpu:N`.
    pub name: String,
    /// The name of the product, or the number of threads.
    pub label: String,
    /// The address on the PCI bus, if the driver tells it.
    pub pci_bus: Option<String>,
    /// Hashes per second over the last ten seconds.
    pub hashrate: f64,
    /// Hashes per second since the first hash.
    pub average: f64,
    /// Hashes since the start.
    pub hashes: u64,
    /// Solutions found.
    pub solutions: u64,
    /// Time since the last solution.
    pub since_solution: Option<Duration>,
    /// Hits that the check on the CPU refused.
    pub hardware_errors: u64,
    /// Comparisons of the device with the CPU during the search.
    pub checks: SelfCheckCounts,
    /// The present state of the device.
    pub state: DeviceState,
    /// The dataset that is being generated for the device.
    pub dataset: Option<DatasetProgress>,
}

/// Comparisons of a device with the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelfCheckCounts {
    /// Everything was right.
    pub passed: u64,
    /// An item of the dataset or a hash was wrong.
    pub failed: u64,
}

/// The present state of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceState {
    /// The device has nothing to search.
    #[default]
    Waiting,
    /// The device prepares for the work of an epoch.
    Preparing {
        /// The number of the epoch.
        epoch: u32,
    },
    /// The device searches.
    Searching {
        /// The number of the epoch.
        epoch: u32,
    },
    /// The device rests until the reason is over.
    Resting {
        /// The reason.
        cause: RestCause,
    },
    /// The device failed and will be tried again: soon, or in another epoch if the dataset was too
    /// large.
    Recovering {
        /// The reason of the failure.
        reason: String,
    },
    /// The device is out of use.
    Failed {
        /// The reason of the failure.
        reason: String,
    },
}

/// The progress of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetProgress {
    /// The number of the epoch.
    pub epoch: u32,
    /// Items that are finished.
    pub done: u32,
    /// Items in the whole dataset.
    pub total: u32,
}

/// The counters and the state of one device.
#[derive(Debug, Default)]
pub(crate) struct DeviceTelemetry {
    /// The index of the device in the status of the engine.
    pub(crate) index: usize,
    name: String,
    label: String,
    pci_bus: Option<String>,
    meter: HashRateMeter,
    began: OnceLock<Instant>,
    solutions: AtomicU64,
    last_solution: Mutex<Option<Instant>>,
    hardware_errors: AtomicU64,
    checks: Mutex<SelfCheckCounts>,
    state: Mutex<DeviceState>,
    /// Number of threads that search for this device. It changes only while `state` is locked.
    searching: AtomicUsize,
    dataset: Mutex<Option<DatasetProgress>>,
    /// Whether the device has once used up its nonces of a job.
    used_up_nonces: AtomicBool,
    /// The commands to the device. Its searchers follow them.
    pub(crate) control: DeviceControl,
}

impl DeviceTelemetry {
    pub(crate) fn new(index: usize, name: String, label: String, pci_bus: Option<String>) -> Self {
        let telemetry = Self {
            index,
            name,
            label,
            pci_bus,
            ..Self::default()
        };
        telemetry.sample(Instant::now());
        telemetry
    }

    /// Adds to the number of hashes.
    pub(crate) fn add_hashes(&self, hashes: u64) {
        self.began.get_or_init(Instant::now);
        self.meter.add(hashes);
    }

    pub(crate) fn count_solution(&self) {
        self.solutions.fetch_add(1, Ordering::Relaxed);
        *self.last_solution.lock() = Some(Instant::now());
    }

    pub(crate) fn count_hardware_error(&self) {
        self.hardware_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a comparison with the CPU.
    pub(crate) fn count_check(&self, passed: bool) {
        let mut checks = self.checks.lock();
        if passed {
            checks.passed += 1;
        } else {
            checks.failed += 1;
        }
    }

    pub(crate) fn sample(&self, now: Instant) {
        self.meter.sample(now);
    }

    pub(crate) fn set_state(&self, state: DeviceState) {
        *self.state.lock() = state;
    }

    /// Records that a thread of the device begins to search.
    pub(crate) fn begin_search(&self, epoch: u32) {
        let mut state = self.state.lock();
        self.searching.fetch_add(1, Ordering::Relaxed);
        *state = DeviceState::Searching { epoch };
    }

    /// Records that a thread of the device has ended its search. After the last one, the device
    /// waits.
    pub(crate) fn end_search(&self) {
        let mut state = self.state.lock();
        if self.searching.fetch_sub(1, Ordering::Relaxed) == 1 {
            *state = DeviceState::Waiting;
        }
    }

    /// Warns, once for each device, that it has tried all of its nonces of a job.
    pub(crate) fn warn_of_used_up_nonces(&self) {
        if !self.used_up_nonces.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                device = self.name,
                "all of its nonces of a job are tried: it waits for the next job; a shorter extranonce leaves more of them"
            );
        }
    }

    pub(crate) fn set_dataset(&self, progress: Option<DatasetProgress>) {
        *self.dataset.lock() = progress;
    }

    /// The state of the searchers, unless the device rests or hangs. A device that is out of use
    /// stays so.
    fn shown_state(&self) -> DeviceState {
        let state = self.state.lock().clone();
        match self.control.rest_cause() {
            Some(cause) if !matches!(state, DeviceState::Failed { .. }) => DeviceState::Resting { cause },
            None if matches!(
                state,
                DeviceState::Searching { .. } | DeviceState::Preparing { .. }
            ) =>
            {
                match self.control.hung_reason() {
                    Some(reason) => DeviceState::Recovering { reason },
                    None => state,
                }
            }
            _ => state,
        }
    }

    pub(crate) fn status(&self, now: Instant) -> DeviceStatus {
        let hashes = self.meter.total();
        let since = self
            .began
            .get()
            .map_or(Duration::ZERO, |began| now.saturating_duration_since(*began));
        let since_solution = *self.last_solution.lock();
        DeviceStatus {
            name: self.name.clone(),
            label: self.label.clone(),
            pci_bus: self.pci_bus.clone(),
            hashrate: self.meter.rate(now),
            average: if since.is_zero() {
                0.0
            } else {
                hashes as f64 / since.as_secs_f64()
            },
            hashes,
            solutions: self.solutions.load(Ordering::Relaxed),
            since_solution: since_solution.map(|at| now.saturating_duration_since(at)),
            hardware_errors: self.hardware_errors.load(Ordering::Relaxed),
            checks: *self.checks.lock(),
            state: self.shown_state(),
            dataset: *self.dataset.lock(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_waits_after_its_last_thread_has_ended() {
        let telemetry = DeviceTelemetry::default();
        let state = || telemetry.status(Instant::now()).state;
        telemetry.begin_search(7);
        telemetry.begin_search(7);
        telemetry.end_search();
        assert_eq!(state(), DeviceState::Searching { epoch: 7 });
        telemetry.end_search();
        assert_eq!(state(), DeviceState::Waiting);
        telemetry.begin_search(8);
        assert_eq!(state(), DeviceState::Searching { epoch: 8 });
        telemetry.control.set_hung(Some(Duration::from_secs(70)));
        let reason = "it hangs: no progress for 70 s".to_owned();
        assert_eq!(state(), DeviceState::Recovering { reason });
        telemetry.set_state(DeviceState::Preparing { epoch: 8 });
        assert!(matches!(state(), DeviceState::Recovering { .. }));
        telemetry.set_state(DeviceState::Searching { epoch: 8 });
        telemetry.control.set_hung(None);
        assert_eq!(state(), DeviceState::Searching { epoch: 8 });
    }

    #[test]
    fn the_average_begins_with_the_first_hash() {
        let telemetry = DeviceTelemetry::new(0, "cpu".into(), "2 threads".into(), None);
        assert_eq!(telemetry.status(Instant::now()).average, 0.0);
        telemetry.add_hashes(1000);
        let began = *telemetry.began.get().expect("hashes were counted");
        let status = telemetry.status(began + Duration::from_secs(4));
        assert_eq!((status.average, status.hashes), (250.0, 1000));
    }
}
