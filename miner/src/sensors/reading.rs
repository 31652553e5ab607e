//! The values of a device's sensors.

/// The values of a device's sensors. Each is `None` if the system does not show it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SensorReading {
    /// Temperature in degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Power consumption in watts.
    pub power_w: Option<f64>,
    /// Speed of the first fan in percent of the highest.
    pub fan_percent: Option<f64>,
    /// Clock of the processors of a card, in MHz.
    pub core_mhz: Option<f64>,
    /// Clock of the memory of a card, in MHz.
    pub memory_mhz: Option<f64>,
    /// Share of the last second in which a kernel ran on a card, in percent.
    pub core_busy_percent: Option<f64>,
    /// Share of the last second in which the memory of a card was read or written, in percent.
    pub memory_busy_percent: Option<f64>,
}
