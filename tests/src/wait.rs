//! Waiting with a deadline, and printing notes that the test framework does not capture.

use std::io::Write;
use std::time::{Duration, Instant};

/// How long tests wait for something that must happen. This is far longer than needed, because the
/// machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(10);

/// Calls `poll` until it returns a value, for at most [`PATIENCE`].
///
/// # Panics
/// If the time is over; `what` names what was waited for.
#[track_caller]
pub fn wait_for<T>(what: &str, poll: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, poll)
}

/// Calls `poll` until it returns a value, for at most `timeout`.
///
/// # Panics
/// If the time is over; `what` names what was waited for.
#[track_caller]
pub fn wait_within<T>(timeout: Duration, what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(started.elapsed() < timeout, "waited {timeout:?} for {what}");
        std::thread::sleep(PAUSE);
    }
}

/// Prints a line that is visible without `--nocapture`: a measurement, or why a test is skipped.
pub fn note(line: &str) {
    // The test framework captures only the print macros. An error is ignored, because then nobody
    // reads the line.
    let _ = writeln!(std::io::stderr(), "note: {line}");
}
