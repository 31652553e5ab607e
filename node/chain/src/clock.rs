//! The clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since 1970-01-01 00:00 UTC; zero if the system's clock is set to an earlier time.
pub fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The clock of a chain. It is the system's clock, but on the development network it may be moved.
/// Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChainClock {
    /// Seconds by which it is ahead of the system's clock.
    ahead: Arc<AtomicI64>,
}

impl ChainClock {
    /// The time since 1970-01-01 00:00 UTC.
    pub(crate) fn now(&self) -> Duration {
        let (system, ahead) = (unix_now(), self.ahead());
        let moved = Duration::from_secs(ahead.unsigned_abs());
        match ahead {
            0.. => system.saturating_add(moved),
            _ => system.saturating_sub(moved),
        }
    }

    /// Seconds by which the clock is ahead of the system's.
    pub(crate) fn ahead(&self) -> i64 {
        self.ahead.load(Relaxed)
    }

    /// Sets the seconds by which the clock is ahead of the system's.
    pub(crate) fn set_ahead(&self, seconds: i64) {
        self.ahead.store(seconds, Relaxed);
    }

    /// Moves the clock so that it shows `seconds` now.
    pub(crate) fn set_now(&self, seconds: u64) {
        let system = unix_now().as_secs();
        let signed = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        self.set_ahead(signed(seconds).saturating_sub(signed(system)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_clock_runs_on() {
        let clock = ChainClock::default();
        for target in [5, 4_000_000_000] {
            clock.set_now(target);
            let now = clock.now().as_secs();
            assert!((target..target + 1000).contains(&now), "{now}");
        }
        clock.set_ahead(i64::MIN);
        assert_eq!(clock.now(), Duration::ZERO);
        clock.set_ahead(0);
        assert!(clock.now() >= Duration::from_secs(1_700_000_000));
    }
}
