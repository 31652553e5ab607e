//! The time, as the logic of this package sees it. It never asks a clock: each call gets the time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Time since the clock was made. It never goes back. Deadlines count in it.
    pub elapsed: Duration,
    /// Time since 1970-01-01, UTC. It may jump. Packets expire by it.
    pub unix: Duration,
}

impl Moment {
    /// The moment `duration` later.
    pub const fn after(self, duration: Duration) -> Self {
        Self {
            elapsed: self.elapsed.saturating_add(duration),
            unix: self.unix.saturating_add(duration),
        }
    }
}

/// The clock of the system.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose [`Moment::elapsed`] begins now.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// Now.
    pub fn now(&self) -> Moment {
        Moment {
            elapsed: self.started.elapsed(),
            unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }

    /// The instant at which [`Moment::elapsed`] is `elapsed`. `None` if no such instant exists.
    pub fn instant(&self, elapsed: Duration) -> Option<Instant> {
        self.started.checked_add(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_on() {
        let clock = SystemClock::start();
        let first = clock.now();
        assert!(first.unix > Duration::from_secs(1_500_000_000));
        assert!(clock.now().elapsed >= first.elapsed);
        let later = first.after(Duration::from_secs(5));
        assert_eq!(later.unix - first.unix, later.elapsed - first.elapsed);
        assert!(clock.instant(Duration::from_secs(1)) > clock.instant(Duration::ZERO));
    }
}
