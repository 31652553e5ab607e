//! Waiting with a deadline, and printing notes that the test framework does not capture.
//!
//! A busy machine does less for a test in the same time. So a deadline counts the time in which the
//! processors could have worked for the test ([`FairClock`]), not the time on the wall.

use std::io::Write;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// The time that tests wait for something that must happen, on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The time limit of one read or write of a socket. It is that of a busy machine.
pub const SOCKET_PATIENCE: Duration = Duration::from_secs(300);
/// The shortest and the longest pause between two polls.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(250)];
/// The least time between two looks at the load.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The clock goes at most so many times slower than the clock on the wall.
const SLOWDOWN_MAX: f64 = 20.0;

/// A clock that goes slower while more threads want to run than the machine has processors.
///
/// If the system does not report the number of those threads, the clock runs like any other.
#[derive(Clone, Copy, Debug)]
pub struct FairClock {
    passed: Duration,
    looked: Instant,
}

impl FairClock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self {
            passed: Duration::ZERO,
            looked: Instant::now(),
        }
    }

    /// The time since the start. Must be called often, because the load changes.
    pub fn elapsed(&mut self) -> Duration {
        let step = self.looked.elapsed();
        if step >= LOOK_INTERVAL {
            self.looked += step;
            self.passed += step.div_f64(slowdown());
        }
        self.passed
    }
}

/// The number of threads that want to run, for each processor, within 1 and [`SLOWDOWN_MAX`].
fn slowdown() -> f64 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    runnable(&load).map_or(1.0, |threads| {
        let processors = available_parallelism().map_or(1, usize::from);
        (threads / processors as f64).clamp(1.0, SLOWDOWN_MAX)
    })
}

/// The number of runnable threads in `/proc/loadavg`: `0.20 0.18 0.12 RUNNABLE/ALL LAST`.
fn runnable(load: &str) -> Option<f64> {
    let (runnable, _) = load.split_whitespace().nth(3)?.split_once('/')?;
    runnable.parse().ok()
}

/// Sleeps before the next poll, for a twentieth of the time since `start`. Quick polls of all tests
/// would take the processors from what they wait for.
fn pause(start: Instant) {
    let [shortest, longest] = PAUSES;
    std::thread::sleep((start.elapsed() / 20).clamp(shortest, longest));
}

/// Calls `poll` until it returns a value, for at most [`PATIENCE`].
///
/// # Panics
/// If the time is over; `what` names what was waited for.
#[track_caller]
pub fn wait_for<T>(what: &str, poll: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, poll)
}

/// Calls `poll` until it returns a value, for at most `timeout` of a [`FairClock`].
///
/// # Panics
/// If the time is over; `what` names what was waited for.
#[track_caller]
pub fn wait_within<T>(timeout: Duration, what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let (mut clock, start) = (FairClock::start(), Instant::now());
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(clock.elapsed() < timeout, "waited {timeout:?} for {what}");
        pause(start);
    }
}

/// Reads a number until it is at least `goal`. As long as it rises, the wait goes on: it ends when
/// the number has stood still for [`PATIENCE`] of a [`FairClock`]. Returns the number.
///
/// # Panics
/// If the number stands still; `what` names it.
#[track_caller]
pub fn wait_to_reach(what: &str, goal: u128, mut read: impl FnMut() -> u128) -> u128 {
    let (mut clock, mut highest, start) = (FairClock::start(), None, Instant::now());
    loop {
        let number = read();
        if number >= goal {
            return number;
        }
        if highest.is_none_or(|highest| number > highest) {
            (clock, highest) = (FairClock::start(), Some(number));
        }
        assert!(
            clock.elapsed() < PATIENCE,
            "{what}: got {number} for {PATIENCE:?}, expected {goal}"
        );
        pause(start);
    }
}

/// Prints a line that is visible without `--nocapture`: a measurement, or why a test is skipped.
pub fn note(line: &str) {
    // The test framework captures only the print macros. An error is ignored, because then nobody
    // reads the line.
    let _ = writeln!(std::io::stderr(), "note: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runnable_threads_are_read_from_the_load() {
        assert_eq!(runnable("5.16 4.25 3.02 6/141 9957\n"), Some(6.0));
        assert_eq!(runnable(""), None);
        assert_eq!(runnable("5.16 4.25 3.02 6 9957"), None);
    }

    #[test]
    fn a_fair_clock_is_never_faster_than_the_wall() {
        let (began, mut clock) = (Instant::now(), FairClock::start());
        std::thread::sleep(2 * LOOK_INTERVAL);
        let passed = clock.elapsed();
        assert!(!passed.is_zero() && passed <= began.elapsed(), "{passed:?}");
    }
}
