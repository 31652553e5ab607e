//! The part of its time in which a device searches. The rest is left to the user of the machine.
//!
//! Below full intensity, batches are shorter and there are pauses between them. Knows only
//! durations.

use core::fmt;
use core::str::FromStr;
use std::time::Duration;

/// CPU time between two pauses. With shorter times, most of the effort would be switches between
/// threads.
const CPU_SLICE: Duration = Duration::from_millis(10);
/// The shortest target time of a batch on a graphics adapter.
const BATCH_MIN: Duration = Duration::from_millis(2);

/// The share of its time that a device searches, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Intensity(u8);

/// A text is not an intensity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid intensity: got {got:?}, expected a whole number from 1 to 100")]
pub struct IntensityError {
    /// The text.
    pub got: String,
}

impl Intensity {
    /// The device searches all the time.
    pub const FULL: Self = Self(100);

    /// `percent` must be from 1 to 100. Otherwise the result is `None`.
    pub fn new(percent: u8) -> Option<Self> {
        (1..=100).contains(&percent).then_some(Self(percent))
    }

    /// The intensity in percent.
    pub const fn percent(self) -> u8 {
        self.0
    }

    /// Whether the device searches without pauses.
    pub(crate) fn is_full(self) -> bool {
        self == Self::FULL
    }

    /// Returns the target time of a batch. `full` is the target time at full intensity.
    pub(crate) fn batch(self, full: Duration) -> Duration {
        (full * u32::from(self.0) / 100).max(BATCH_MIN.min(full))
    }

    /// Returns the pause after `worked` of work.
    pub(crate) fn pause(self, worked: Duration) -> Duration {
        worked * u32::from(100 - self.0) / u32::from(self.0)
    }
}

impl Default for Intensity {
    fn default() -> Self {
        Self::FULL
    }
}

impl FromStr for Intensity {
    type Err = IntensityError;

    fn from_str(text: &str) -> Result<Self, IntensityError> {
        let percent = text.parse().ok().and_then(Self::new);
        percent.ok_or_else(|| IntensityError { got: text.to_owned() })
    }
}

impl fmt::Display for Intensity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Decides when a CPU thread pauses.
#[derive(Debug)]
pub(crate) struct CpuThrottle {
    intensity: Intensity,
    worked: Duration,
}

impl CpuThrottle {
    pub(crate) const fn new(intensity: Intensity) -> Self {
        Self {
            intensity,
            worked: Duration::ZERO,
        }
    }

    /// Whether there are pauses at all. If not, the caller need not measure time.
    pub(crate) fn is_on(&self) -> bool {
        !self.intensity.is_full()
    }

    /// Adds `worked` to the time since the last pause, and returns the pause that is due now, if
    /// any.
    pub(crate) fn pause(&mut self, worked: Duration) -> Option<Duration> {
        self.worked += worked;
        if !self.is_on() || self.worked < CPU_SLICE {
            return None;
        }
        Some(self.intensity.pause(core::mem::take(&mut self.worked)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_leave_the_configured_share() {
        let ms = Duration::from_millis;
        let at = |percent| Intensity::new(percent).expect("1 to 100");
        assert_eq!(at(50).pause(ms(30)), ms(30));
        assert_eq!(at(25).pause(ms(30)), ms(90));
        assert_eq!(Intensity::FULL.pause(ms(30)), ms(0));
        assert_eq!(at(20).batch(ms(100)), ms(20));
        assert_eq!(at(1).batch(ms(100)), ms(2));
        assert_eq!(at(1).batch(ms(1)), ms(1), "a shorter target stays");
        let mut throttle = CpuThrottle::new(at(50));
        assert_eq!(throttle.pause(ms(6)), None);
        assert_eq!(throttle.pause(ms(6)), Some(ms(12)));
        assert_eq!(throttle.pause(ms(6)), None);
        assert_eq!(CpuThrottle::new(Intensity::FULL).pause(ms(1000)), None);
    }

    #[test]
    fn only_percentages_are_intensities() {
        assert_eq!("7".parse(), Ok(Intensity(7)));
        assert_eq!("100".parse(), Ok(Intensity::FULL));
        for bad in ["0", "101", "-1", "x", ""] {
            assert!(bad.parse::<Intensity>().is_err(), "{bad}");
        }
    }
}
