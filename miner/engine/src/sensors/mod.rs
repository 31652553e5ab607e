//! Temperature, power and fans of the devices, if the system shows them.
//!
//! NVIDIA cards are read through the driver's library, all other cards and the CPU through files of
//! the Linux kernel. Values that the system does not show are absent, never estimated. A driver may
//! answer slowly or hang, so a thread of its own reads the sensors. Everybody else gets the latest
//! reading.

mod hwmon;
mod nvidia;
mod power_limit;
mod reading;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use crate::threads::spawn;

pub use power_limit::{PowerLimitError, PowerLimits};
pub use reading::{SensorReading, SlowdownCause};

/// Time between two readings of a device.
const READ_EVERY: Duration = Duration::from_secs(1);
/// A reading older than this is no longer shown.
const STALE_AFTER: Duration = Duration::from_secs(10);
/// Devices that wait for their first reading.
const DEVICES_MAX: usize = 256;
/// The folder in which Linux shows its devices.
const SYSFS: &str = "/sys";

/// The memory in bytes of the card at the PCI address `bus`, if a driver tells it.
pub(crate) fn memory_bytes(bus: &str) -> Option<u64> {
    nvidia::NvidiaCards::default()
        .memory_bytes(bus)
        .or_else(|| hwmon::memory_bytes(Path::new(SYSFS), bus))
}

/// The sensors of this machine.
#[derive(Debug)]
pub struct Sensors {
    readings: Arc<LatestReadings>,
    /// Sends new devices to the thread, which ends when this sender is dropped.
    devices: Sender<SensorDevice>,
}

/// The latest reading of each device with its time, by the name of the device. `None` before the
/// first reading.
type LatestReadings = Mutex<BTreeMap<String, Option<(Instant, SensorReading)>>>;

/// A device whose sensors are read.
#[derive(Debug)]
struct SensorDevice {
    name: String,
    pci_bus: Option<String>,
}

impl Sensors {
    /// Starts the thread that reads the sensors every second.
    pub fn start() -> Self {
        Self::start_every(READ_EVERY)
    }

    /// Starts the thread that reads the sensors in this interval.
    pub fn start_every(interval: Duration) -> Self {
        let nvidia = nvidia::NvidiaCards::default();
        Self::start_with(interval, move |device| match &device.pci_bus {
            Some(bus) => nvidia
                .read(bus)
                .unwrap_or_else(|| hwmon::card(Path::new(SYSFS), bus)),
            None if device.name == "cpu" => hwmon::processor(Path::new(SYSFS)),
            None => SensorReading::default(),
        })
    }

    /// Starts the thread with a function that reads the sensors of a device.
    fn start_with(
        interval: Duration,
        read: impl FnMut(&SensorDevice) -> SensorReading + Send + 'static,
    ) -> Self {
        let (devices, new_devices) = bounded(DEVICES_MAX);
        let readings = Arc::<LatestReadings>::default();
        let out = Arc::clone(&readings);
        if let Err(error) = spawn("sensors", move || {
            read_devices(&new_devices, &out, interval, read)
        }) {
            tracing::warn!("no sensors are read: {error}");
        }
        Self { readings, devices }
    }

    /// The latest reading of the device with this name and PCI address.
    ///
    /// The first call for a device makes the thread read it from then on, and returns an empty
    /// reading. Never waits for a driver.
    pub fn read(&self, name: &str, pci_bus: Option<&str>) -> SensorReading {
        let mut readings = self.readings.lock();
        if let Some(reading) = readings.get(name) {
            return if_recent(*reading, Instant::now());
        }
        readings.insert(name.to_owned(), None);
        // Fails if the thread could not be started, which was logged, or does not keep up with
        // more devices than a machine has.
        let _ = self.devices.try_send(SensorDevice {
            name: name.to_owned(),
            pci_bus: pci_bus.map(str::to_owned),
        });
        SensorReading::default()
    }
}

/// Reads all devices in this interval, and a new device at once. Returns when the sender of new
/// devices is dropped.
fn read_devices(
    new_devices: &Receiver<SensorDevice>,
    out: &LatestReadings,
    interval: Duration,
    mut read: impl FnMut(&SensorDevice) -> SensorReading,
) {
    let mut update = |device: &SensorDevice| {
        let reading = read(device);
        let entry = Some((Instant::now(), reading));
        out.lock().insert(device.name.clone(), entry);
    };
    let mut devices = Vec::new();
    let mut next = Instant::now() + interval;
    loop {
        match new_devices.recv_deadline(next) {
            Ok(device) => {
                update(&device);
                devices.push(device);
            }
            Err(RecvTimeoutError::Timeout) => {
                devices.iter().for_each(&mut update);
                next = Instant::now() + interval;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The reading, or an empty one if it is too old at `now`.
fn if_recent(reading: Option<(Instant, SensorReading)>, now: Instant) -> SensorReading {
    reading
        .filter(|(at, _)| now.saturating_duration_since(*at) < STALE_AFTER)
        .map(|(_, reading)| reading)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const WARM: SensorReading = SensorReading {
        temperature_c: Some(61.0),
        power_w: None,
        fan_percent: None,
        core_mhz: None,
        memory_mhz: None,
        core_busy_percent: None,
        memory_busy_percent: None,
        slowed_by: None,
    };

    #[test]
    fn a_driver_that_hangs_does_not_block_readers() {
        let (answer, answers) = mpsc::channel::<SensorReading>();
        // The driver does not return before the test sends its answer.
        let sensors = Sensors::start_with(READ_EVERY, move |_| answers.recv().unwrap_or_default());
        let (out, first) = mpsc::channel();
        let sensors = Arc::new(sensors);
        let shared = Arc::clone(&sensors);
        std::thread::spawn(move || {
            let readings = [shared.read("gpu:0", None), shared.read("gpu:0", None)];
            let _ = out.send(readings);
        });
        let first = first.recv_timeout(Duration::from_secs(20));
        assert_eq!(
            first,
            Ok([SensorReading::default(); 2]),
            "the reader waits for the driver"
        );
        answer.send(WARM).expect("the thread runs");
        let start = Instant::now();
        while sensors.read("gpu:0", None) != WARM {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "the reading does not appear"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn an_old_reading_is_not_shown() {
        let at = Instant::now();
        let check = |seconds, expected| {
            let now = at + Duration::from_secs(seconds);
            assert_eq!(if_recent(Some((at, WARM)), now), expected, "{seconds} s");
        };
        check(0, WARM);
        check(9, WARM);
        check(10, SensorReading::default());
        assert_eq!(if_recent(None, at), SensorReading::default());
    }

    #[test]
    fn devices_are_read_again_until_the_sensors_are_dropped() {
        let (out, count) = mpsc::channel();
        let sensors = Sensors::start_with(READ_EVERY, move |device| {
            let _ = out.send(device.name.clone());
            WARM
        });
        sensors.read("gpu:0", None);
        for _ in 0..2 {
            let name = count.recv_timeout(Duration::from_secs(20));
            assert_eq!(name.as_deref(), Ok("gpu:0"));
        }
        drop(sensors);
        while count.recv_timeout(Duration::from_secs(20)) != Err(mpsc::RecvTimeoutError::Disconnected) {}
    }
}
