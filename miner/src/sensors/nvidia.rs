//! NVIDIA's cards, through NVML. Without the library, which comes with the driver, there are none.

use core::fmt;
use std::sync::OnceLock;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;

use super::Reading;

/// The library, looked for when it is first needed.
#[derive(Default)]
pub(super) struct Cards(OnceLock<Option<Nvml>>);

impl Cards {
    /// The sensors of the card at `bus`; `None` where it is not one of NVIDIA's.
    pub(super) fn read(&self, bus: &str) -> Option<Reading> {
        let library = self.0.get_or_init(|| {
            Nvml::init()
                .inspect_err(|reason| tracing::debug!("no sensors of NVIDIA's: {reason}"))
                .ok()
        });
        let card = library.as_ref()?.device_by_pci_bus_id(bus).ok()?;
        Some(Reading {
            temperature_c: card.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            // In milliwatts.
            power_w: card.power_usage().ok().map(|power| f64::from(power) / 1000.0),
            fan_percent: card.fan_speed(0).ok().map(f64::from),
        })
    }
}

impl fmt::Debug for Cards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.0.get().map(Option::is_some);
        f.debug_tuple("Cards").field(&found).finish()
    }
}
