//! Temperature, power and fans, where the system shows them.
//!
//! NVIDIA's cards are asked through the driver's own library, all others and the CPU through the kernel's
//! files. What is not shown is absent, never estimated.

mod kernel;
mod nvidia;

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::gauge::DeviceStatus;

/// A reading is good for so long.
const FRESH: Duration = Duration::from_secs(1);
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
#[derive(Debug, Default)]
pub(crate) struct Sensors {
    nvidia: nvidia::Cards,
    read: Mutex<HashMap<String, (Instant, Reading)>>,
}

impl Sensors {
    /// What the sensors of `device` say now, or have said within the last second.
    pub(crate) fn read(&self, device: &DeviceStatus) -> Reading {
        let now = Instant::now();
        let mut read = self.read.lock();
        if let Some((at, reading)) = read.get(&device.name)
            && now.duration_since(*at) < FRESH
        {
            return *reading;
        }
        let reading = match &device.pci_bus {
            Some(bus) => self
                .nvidia
                .read(bus)
                .unwrap_or_else(|| kernel::card(Path::new(SYSFS), bus)),
            None if device.name == "cpu" => kernel::processor(Path::new(SYSFS)),
            None => Reading::default(),
        };
        read.insert(device.name.clone(), (now, reading));
        reading
    }
}
