//! The values of a device's sensors.

/// The reasons why a card runs at a lower clock than it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowdownCause {
    /// The card takes as much power as it may.
    PowerLimit,
    /// The card, or its memory, is too hot.
    Heat,
    /// The power supply, or the server around the card, asks for less.
    PowerBrake,
}

impl SlowdownCause {
    /// All causes.
    pub const ALL: [Self; 3] = [Self::PowerLimit, Self::Heat, Self::PowerBrake];

    /// The name in logs and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PowerLimit => "power limit",
            Self::Heat => "heat",
            Self::PowerBrake => "power brake",
        }
    }
}

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
    /// The reasons why a card runs at a lower clock than it could: the most severe cause. Only
    /// NVIDIA's driver tells it.
    pub slowed_by: Option<SlowdownCause>,
}
