//! Temperature, power and fans, where the system shows them.
//!
//! NVIDIA's cards are asked through the driver's own library, all others and the CPU through the
//! kernel's files. What is not shown is absent, never estimated. Drivers may take their time to
//! answer, or hang: a thread of its own asks them, and whoever wants to know gets what they said
//! last.

mod kernel;
mod nvidia;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use parking_lot::Mutex;

use crate::telemetry::DeviceStatus;
use crate::threads::spawn;

/// Between two readings of a device.
const READ_EVERY: Duration = Duration::from_secs(1);
/// A reading older than this says nothing of the device as it is.
const STALE_AFTER: Duration = Duration::from_secs(10);
/// Where the kernel shows its devices.
const SYSFS: &str = "/sys";

/// What a device's sensors say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Watts.
    pub power_w: Option<f64>,
    /// Speed of the first fan, in percent of the highest.
    pub fan_percent: Option<f64>,
}

/// The sensors of this machine.
#[derive(Debug)]
pub(crate) struct Sensors {
    readings: Arc<Readings>,
    /// Tells the thread of devices; it ends with this.
    devices: Sender<Device>,
}

/// By the device's name: when it was read and what it said, once it was.
type Readings = Mutex<BTreeMap<String, Option<(Instant, Reading)>>>;

/// A device that is read.
#[derive(Debug)]
struct Device {
    name: String,
    pci_bus: Option<String>,
}

impl Sensors {
    /// Sensors that are read from now on.
    pub(crate) fn start() -> Self {
        let nvidia = nvidia::Cards::default();
        Self::with(move |device| match &device.pci_bus {
            Some(bus) => nvidia
                .read(bus)
                .unwrap_or_else(|| kernel::card(Path::new(SYSFS), bus)),
            None if device.name == "cpu" => kernel::processor(Path::new(SYSFS)),
            None => Reading::default(),
        })
    }

    fn with(read: impl FnMut(&Device) -> Reading + Send + 'static) -> Self {
        let (devices, told) = unbounded();
        let readings = Arc::<Readings>::default();
        let out = Arc::clone(&readings);
        if let Err(error) = spawn("sensors", move || watch(&told, &out, read)) {
            tracing::warn!("no sensors are read: {error}");
        }
        Self { readings, devices }
    }

    /// What the sensors of `device` have said last; nothing before its first reading, which this
    /// asks for. Never waits for a driver.
    pub(crate) fn read(&self, device: &DeviceStatus) -> Reading {
        let mut readings = self.readings.lock();
        if let Some(reading) = readings.get(&device.name) {
            return still_true(*reading, Instant::now());
        }
        readings.insert(device.name.clone(), None);
        // Fails where there is no thread, which was said.
        let _ = self.devices.send(Device {
            name: device.name.clone(),
            pci_bus: device.pci_bus.clone(),
        });
        Reading::default()
    }
}

/// Reads all devices that it is told of, a new one at once, until nobody tells any more.
fn watch(told: &Receiver<Device>, out: &Readings, mut read: impl FnMut(&Device) -> Reading) {
    let mut take = |device: &Device| {
        let reading = read(device);
        let entry = Some((Instant::now(), reading));
        out.lock().insert(device.name.clone(), entry);
    };
    let mut devices = Vec::new();
    let mut next = Instant::now() + READ_EVERY;
    loop {
        match told.recv_deadline(next) {
            Ok(device) => {
                take(&device);
                devices.push(device);
            }
            Err(RecvTimeoutError::Timeout) => {
                devices.iter().for_each(&mut take);
                next = Instant::now() + READ_EVERY;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The reading, unless it is too old at `now`.
fn still_true(reading: Option<(Instant, Reading)>, now: Instant) -> Reading {
    reading
        .filter(|(at, _)| now.saturating_duration_since(*at) < STALE_AFTER)
        .map(|(_, reading)| reading)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::rig::sample_report;

    const WARM: Reading = Reading {
        temperature_c: Some(61.0),
        power_w: None,
        fan_percent: None,
    };

    #[test]
    fn a_driver_that_hangs_holds_nobody() {
        let (answer, answers) = mpsc::channel::<Reading>();
        // As long as the driver does not answer, its caller stays there.
        let sensors = Sensors::with(move |_| answers.recv().unwrap_or_default());
        let device = sample_report().engine.devices.remove(0);
        let (out, first) = mpsc::channel();
        let sensors = Arc::new(sensors);
        let (asked, asking) = (Arc::clone(&sensors), device.clone());
        std::thread::spawn(move || {
            let readings = [asked.read(&asking), asked.read(&asking)];
            let _ = out.send(readings);
        });
        let first = first.recv_timeout(Duration::from_secs(20));
        assert_eq!(
            first,
            Ok([Reading::default(); 2]),
            "the reader waits for the driver"
        );
        answer.send(WARM).expect("the driver is asked");
        let start = Instant::now();
        while sensors.read(&device) != WARM {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "the answer is not taken"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn an_old_reading_is_none() {
        let at = Instant::now();
        let check = |seconds, expected| {
            let now = at + Duration::from_secs(seconds);
            assert_eq!(still_true(Some((at, WARM)), now), expected, "{seconds} s");
        };
        check(0, WARM);
        check(9, WARM);
        check(10, Reading::default());
        assert_eq!(still_true(None, at), Reading::default());
    }

    #[test]
    fn devices_are_read_again_until_nobody_asks() {
        let (out, count) = mpsc::channel();
        let sensors = Sensors::with(move |device| {
            let _ = out.send(device.name.clone());
            WARM
        });
        let device = sample_report().engine.devices.remove(0);
        sensors.read(&device);
        for _ in 0..2 {
            let name = count.recv_timeout(Duration::from_secs(20));
            assert_eq!(name.as_deref(), Ok("gpu:0"));
        }
        drop(sensors);
        while count.recv_timeout(Duration::from_secs(20)) != Err(mpsc::RecvTimeoutError::Disconnected) {}
    }
}
