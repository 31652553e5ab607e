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
}
