//! The clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since 1970-01-01 00:00 UTC; zero if the system's clock is set to an earlier time.
pub fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
