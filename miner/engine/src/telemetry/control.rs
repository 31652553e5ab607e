//! Commands to a device while it searches: to rest, and to begin anew.
//!
//! The giver of a command wakes the searchers afterwards (`CurrentJob::wake`). Knows no device and
//! no reason beyond its name.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// The reasons why a device rests. Each is set and ended on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestCause {
    /// The device is as hot as it may be.
    Heat,
    /// Power is dear at this hour.
    Hours,
    /// Somebody has asked for it.
    Asked,
}

impl RestCause {
    /// All causes. If there are several, the first one is shown.
    pub const ALL: [Self; 3] = [Self::Heat, Self::Hours, Self::Asked];

    /// The name in logs and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Heat => "too hot",
            Self::Hours => "power is dear at this hour",
            Self::Asked => "paused by the API",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The commands that a device has not ended or carried out yet.
#[derive(Debug, Default)]
pub(crate) struct DeviceControl {
    rests: AtomicU8,
    restart: AtomicBool,
    /// Seconds for which the device has made no progress, although it should have; 0: it does.
    hung_secs: AtomicU64,
}

impl DeviceControl {
    /// Begins or ends a rest. Returns whether that is a change.
    pub(crate) fn set_rest(&self, cause: RestCause, rests: bool) -> bool {
        let before = if rests {
            self.rests.fetch_or(cause.bit(), Ordering::Relaxed)
        } else {
            self.rests.fetch_and(!cause.bit(), Ordering::Relaxed)
        };
        (before & cause.bit() != 0) != rests
    }

    /// The most important reason to rest.
    pub(crate) fn rest_cause(&self) -> Option<RestCause> {
        let rests = self.rests.load(Ordering::Relaxed);
        let is_set = |cause: &RestCause| rests & cause.bit() != 0;
        RestCause::ALL.into_iter().find(is_set)
    }

    /// Whether the device rests.
    pub(crate) fn is_resting(&self) -> bool {
        self.rests.load(Ordering::Relaxed) != 0
    }

    /// Notes for which time the device has made no progress; `None`: it does.
    pub(crate) fn set_hung(&self, time: Option<Duration>) {
        let seconds = time.map_or(0, |time| time.as_secs().max(1));
        self.hung_secs.store(seconds, Ordering::Relaxed);
    }

    /// The reason why a device that prepares or searches is not shown as such.
    pub(crate) fn hung_reason(&self) -> Option<String> {
        let seconds = self.hung_secs.load(Ordering::Relaxed);
        (seconds > 0).then(|| format!("it hangs: no progress for {seconds} s"))
    }

    /// Asks for a new start.
    pub(crate) fn request_restart(&self) {
        self.restart.store(true, Ordering::Relaxed);
    }

    /// Whether a new start was asked for.
    pub(crate) fn wants_restart(&self) -> bool {
        self.restart.load(Ordering::Relaxed)
    }

    /// Takes the request for a new start. Returns whether there was one.
    pub(crate) fn take_restart(&self) -> bool {
        self.restart.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_rests_until_the_last_cause_is_over() {
        let control = DeviceControl::default();
        assert!(control.set_rest(RestCause::Asked, true) && !control.set_rest(RestCause::Asked, true));
        assert_eq!(control.rest_cause(), Some(RestCause::Asked));
        assert!(control.set_rest(RestCause::Heat, true));
        assert_eq!(control.rest_cause(), Some(RestCause::Heat), "heat comes first");
        assert!(control.set_rest(RestCause::Asked, false) && control.is_resting());
        assert!(control.set_rest(RestCause::Heat, false) && !control.set_rest(RestCause::Heat, false));
        assert_eq!((control.rest_cause(), control.is_resting()), (None, false));
        control.request_restart();
        assert!(control.wants_restart() && control.take_restart() && !control.take_restart());
    }
}
