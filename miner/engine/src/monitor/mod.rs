//! Observes devices and collects what a page about them shows in one report.

mod report;

use crate::client_stats::ShareCounts;
use crate::sensors::Sensors;
use crate::telemetry::DeviceStatus;

pub use report::{DeviceReport, RigReport};

/// Observes devices: reads their sensors on a thread of its own.
#[derive(Debug)]
pub struct DeviceObserver {
    sensors: Sensors,
}

impl DeviceObserver {
    /// Starts to observe. A device is read from its first report on.
    pub fn start() -> Self {
        Self {
            sensors: Sensors::start(),
        }
    }

    /// A report of each of `devices`. `shares` are the answers to their solutions, in the same
    /// order; a missing one has no answers. Never waits for a driver.
    pub fn reports(&self, devices: &[DeviceStatus], shares: &[ShareCounts]) -> Vec<DeviceReport> {
        let device = |(index, status): (usize, &DeviceStatus)| DeviceReport {
            status: status.clone(),
            shares: shares.get(index).copied().unwrap_or_default(),
            reading: self.sensors.read(&status.name, status.pci_bus.as_deref()),
        };
        devices.iter().enumerate().map(device).collect()
    }
}
