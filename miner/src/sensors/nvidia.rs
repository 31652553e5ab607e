//! Sensors of NVIDIA cards, through the library NVML. The library comes with the driver; without it
//! there are no readings.

use core::fmt;
use std::sync::OnceLock;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};

use super::reading::SensorReading;

/// The library NVML, loaded when it is first needed.
#[derive(Default)]
pub(super) struct NvidiaCards(OnceLock<Option<Nvml>>);

impl NvidiaCards {
    /// The sensors of the card at the PCI address `bus`. `None` if it is not an NVIDIA card.
    pub(super) fn read(&self, bus: &str) -> Option<SensorReading> {
        let card = self.library()?.device_by_pci_bus_id(bus).ok()?;
        let busy = card.utilization_rates().ok();
        Some(SensorReading {
            temperature_c: card.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            // NVML gives milliwatts.
            power_w: card.power_usage().ok().map(|power| f64::from(power) / 1000.0),
            fan_percent: card.fan_speed(0).ok().map(f64::from),
            core_mhz: card.clock_info(Clock::SM).ok().map(f64::from),
            memory_mhz: card.clock_info(Clock::Memory).ok().map(f64::from),
            core_busy_percent: busy.as_ref().map(|busy| f64::from(busy.gpu)),
            memory_busy_percent: busy.as_ref().map(|busy| f64::from(busy.memory)),
        })
    }

    /// The memory in bytes of the card at the PCI address `bus`. `None` if it is not an NVIDIA
    /// card.
    pub(super) fn memory_bytes(&self, bus: &str) -> Option<u64> {
        let card = self.library()?.device_by_pci_bus_id(bus).ok()?;
        card.memory_info().ok().map(|memory| memory.total)
    }

    fn library(&self) -> Option<&Nvml> {
        let library = self.0.get_or_init(|| {
            Nvml::init()
                .inspect_err(|reason| tracing::debug!("no sensors of NVIDIA cards: {reason}"))
                .ok()
        });
        library.as_ref()
    }
}

impl fmt::Debug for NvidiaCards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.0.get().map(Option::is_some);
        f.debug_tuple("NvidiaCards").field(&found).finish()
    }
}
