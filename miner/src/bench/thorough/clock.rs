//! Ends a thorough benchmark: at its time limit, or when the user stops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::figure::FigureError;

/// Knows whether there is time for more.
#[derive(Clone, Debug)]
pub struct BenchClock {
    deadline: Option<Instant>,
    stopped: Arc<AtomicBool>,
}

impl BenchClock {
    /// A clock for `time` from now on, or without a limit. Setting `stopped` ends it, too.
    pub fn new(time: Option<Duration>, stopped: Arc<AtomicBool>) -> Self {
        Self {
            deadline: time.and_then(|time| Instant::now().checked_add(time)),
            stopped,
        }
    }

    /// Whether the user has stopped the benchmark.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Whether the benchmark must end now.
    pub(super) fn is_over(&self) -> bool {
        !self.has(Duration::ZERO)
    }

    /// Whether there is time for a measurement of `time`.
    pub(super) fn has(&self, time: Duration) -> bool {
        !self.is_stopped() && self.left().is_none_or(|left| left > time)
    }

    /// The time that is left. `None` if there is no limit.
    pub(super) fn left(&self) -> Option<Duration> {
        self.deadline
            .map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// Fails if the benchmark must end now.
    pub(super) fn check(&self) -> Result<(), FigureError> {
        if self.is_over() {
            return Err(FigureError::Stopped);
        }
        Ok(())
    }
}
