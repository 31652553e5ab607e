//! The hours of the day at which a rig rests, because power is dear then.

use core::fmt;
use core::str::FromStr;

/// Minutes of a day.
const DAY: u16 = 24 * 60;

/// A time of the day, in minutes since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay(u16);

/// A text is no time of the day.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("got {got:?}, expected HH:MM from 00:00 to 23:59")]
pub struct TimeOfDayError {
    got: String,
}

impl FromStr for TimeOfDay {
    type Err = TimeOfDayError;

    fn from_str(text: &str) -> Result<Self, TimeOfDayError> {
        let number = |text: &str, end: u16| {
            let is_number = matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse::<u16>().ok().filter(|_| is_number);
            number.filter(|number| *number < end)
        };
        let parts = text.split_once(':').filter(|(_, minutes)| minutes.len() == 2);
        let time = parts.and_then(|(hours, minutes)| Some(number(hours, 24)? * 60 + number(minutes, 60)?));
        time.map(Self)
            .ok_or_else(|| TimeOfDayError { got: text.to_owned() })
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl TimeOfDay {
    /// The minutes since midnight.
    pub(super) const fn minutes(self) -> u16 {
        self.0
    }

    /// The time of this machine's clock, in its time zone.
    pub(super) fn now() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seconds = since.map_or(0, |since| since.as_secs());
        Self(local_minutes(seconds).unwrap_or_else(|| (seconds / 60 % u64::from(DAY)) as u16))
    }
}

/// The minutes since midnight in the time zone of this machine. `None` if the system does not know.
fn local_minutes(seconds: u64) -> Option<u16> {
    #[cfg(unix)]
    {
        let time = libc::time_t::try_from(seconds).ok()?;
        // SAFETY: all zeros are a valid `tm`, whose pointer member may be null. `localtime_r` reads
        // `time` and writes `parts`, both of which are valid for the call, and keeps neither.
        let (result, parts) = unsafe {
            let mut parts: libc::tm = std::mem::zeroed();
            (libc::localtime_r(&raw const time, &raw mut parts), parts)
        };
        if result.is_null() {
            return None;
        }
        u16::try_from(parts.tm_hour * 60 + parts.tm_min).ok()
    }
    #[cfg(not(unix))]
    {
        let _ = seconds;
        None
    }
}

/// The hours at which a rig rests, every day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestHours {
    /// The rest begins.
    pub pause_at: TimeOfDay,
    /// The rest ends. If this is earlier than the beginning, it is on the next day.
    pub resume_at: TimeOfDay,
}

impl RestHours {
    /// Whether the rig rests at `time`.
    pub(super) const fn contain(self, time: TimeOfDay) -> bool {
        minutes_after(time, self.pause_at) < minutes_after(self.resume_at, self.pause_at)
    }
}

/// The minutes from `start` until `time` comes.
const fn minutes_after(time: TimeOfDay, start: TimeOfDay) -> u16 {
    (time.0 + DAY - start.0) % DAY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> TimeOfDay {
        text.parse().expect(text)
    }

    #[test]
    fn hours_may_pass_midnight() {
        let check = |pause_at, resume_at, at, expected| {
            let hours = RestHours {
                pause_at: time(pause_at),
                resume_at: time(resume_at),
            };
            assert_eq!(hours.contain(time(at)), expected, "{hours:?} at {at}");
        };
        for (at, expected) in [
            ("06:59", false),
            ("7:00", true),
            ("21:59", true),
            ("22:00", false),
        ] {
            check("07:00", "22:00", at, expected);
            check("22:00", "07:00", at, !expected);
        }
        check("10:00", "10:00", "10:00", false);
    }

    #[test]
    fn other_texts_are_no_times() {
        assert_eq!(time("9:05").to_string(), "09:05");
        for bad in [
            "", "24:00", "12:60", "12", "12:5", "+1:00", "1:+1", "a:00", "123:00",
        ] {
            assert!(bad.parse::<TimeOfDay>().is_err(), "{bad}");
        }
        assert!(TimeOfDay::now().0 < DAY);
    }
}
