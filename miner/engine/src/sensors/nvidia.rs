//! Sensors of NVIDIA cards, through the library NVML. The library comes with the driver; without it
//! there are no readings.

use core::fmt;
use std::sync::OnceLock;

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};

use super::power_limit::{PowerCards, PowerLimitError};
use super::reading::{SensorReading, SlowdownCause};

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
            slowed_by: card.current_throttle_reasons().ok().and_then(most_severe),
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

impl NvidiaCards {
    fn card(&self, bus: &str) -> Result<nvml_wrapper::Device<'_>, PowerLimitError> {
        let library = self.library().ok_or(PowerLimitError::NotSupported)?;
        library
            .device_by_pci_bus_id(bus)
            .map_err(|_| PowerLimitError::NotSupported)
    }
}

fn refused(error: nvml_wrapper::error::NvmlError) -> PowerLimitError {
    PowerLimitError::Refused(error.to_string())
}

impl PowerCards for NvidiaCards {
    fn range(&self, bus: &str) -> Result<(u32, u32), PowerLimitError> {
        let limits = self
            .card(bus)?
            .power_management_limit_constraints()
            .map_err(refused)?;
        Ok((limits.min_limit, limits.max_limit))
    }

    fn limit(&self, bus: &str) -> Result<u32, PowerLimitError> {
        self.card(bus)?.power_management_limit().map_err(refused)
    }

    fn set_limit(&self, bus: &str, milliwatts: u32) -> Result<(), PowerLimitError> {
        self.card(bus)?
            .set_power_management_limit(milliwatts)
            .map_err(refused)
    }
}

/// Returns the most severe cause among the driver's reasons. An idle card, and clocks that somebody
/// has set, are none.
fn most_severe(reasons: ThrottleReasons) -> Option<SlowdownCause> {
    let heat = ThrottleReasons::SW_THERMAL_SLOWDOWN | ThrottleReasons::HW_THERMAL_SLOWDOWN;
    // The driver sets the general reason together with those that are more exact.
    if reasons.contains(ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN) {
        Some(SlowdownCause::PowerBrake)
    } else if reasons.intersects(heat) {
        Some(SlowdownCause::Heat)
    } else if reasons.contains(ThrottleReasons::HW_SLOWDOWN) {
        Some(SlowdownCause::PowerBrake)
    } else {
        (reasons.contains(ThrottleReasons::SW_POWER_CAP)).then_some(SlowdownCause::PowerLimit)
    }
}

impl fmt::Debug for NvidiaCards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.0.get().map(Option::is_some);
        f.debug_tuple("NvidiaCards").field(&found).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_severe_cause_is_told() {
        use ThrottleReasons as Reasons;
        let capped = Reasons::SW_POWER_CAP;
        assert_eq!(most_severe(Reasons::NONE), None);
        assert_eq!(most_severe(Reasons::GPU_IDLE), None);
        assert_eq!(most_severe(capped), Some(SlowdownCause::PowerLimit));
        let hot = capped | Reasons::HW_SLOWDOWN | Reasons::HW_THERMAL_SLOWDOWN;
        assert_eq!(most_severe(hot), Some(SlowdownCause::Heat));
        let braked = hot | Reasons::HW_POWER_BRAKE_SLOWDOWN;
        assert_eq!(most_severe(braked), Some(SlowdownCause::PowerBrake));
        assert_eq!(most_severe(Reasons::HW_SLOWDOWN), Some(SlowdownCause::PowerBrake));
    }
}
