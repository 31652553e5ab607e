//! Waiting with a deadline, and saying something past the test framework's capture.

use std::io::Write;
use std::time::{Duration, Instant};

/// How long tests wait for what must happen; far more than it takes, as machines may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Looks until `look` finds something, for [`PATIENCE`] at most.
///
/// # Panics
/// When the time is over; `what` says what was waited for.
#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, look)
}

/// Looks until `look` finds something, for `patience` at most.
///
/// # Panics
/// When the time is over; `what` says what was waited for.
#[track_caller]
pub fn wait_within<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < patience, "waited {patience:?} for {what}");
        std::thread::sleep(PAUSE);
    }
}

/// Prints a line that is seen without `--nocapture`: a measurement, or why a test is skipped.
pub fn note(line: &str) {
    // The framework captures the print macros alone. Without a standard error nobody reads it.
    let _ = writeln!(std::io::stderr(), "note: {line}");
}
