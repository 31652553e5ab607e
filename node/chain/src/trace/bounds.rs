//! The time limit and the size limit of a trace.
//!
//! An inspector cannot return an error. So it records here that a limit was reached and halts the
//! interpreter, and the caller asks [`TraceBounds::check`] afterwards.

use std::time::Duration;

use super::TraceError;
use crate::evm::deadline::Deadline;

/// The remaining time and size of a trace.
#[derive(Debug)]
pub(super) struct TraceBounds {
    deadline: Deadline,
    bytes_left: usize,
    bytes_max: usize,
    too_large: bool,
}

impl TraceBounds {
    pub(super) fn new(timeout: Duration, bytes_max: usize) -> Self {
        Self {
            deadline: Deadline::new(timeout),
            bytes_left: bytes_max,
            bytes_max,
            too_large: false,
        }
    }

    /// Counts a step. Returns `false` if a limit is reached; then this must be the last step.
    pub(super) fn step(&mut self) -> bool {
        self.deadline.step() && !self.too_large
    }

    /// Reserves `bytes` of the trace's text. Returns `false` if that exceeds the size limit.
    pub(super) fn reserve(&mut self, bytes: usize) -> bool {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => self.bytes_left = left,
            None => self.too_large = true,
        }
        !self.too_large
    }

    /// Returns an error if a limit was reached, or if the time is over now.
    pub(super) fn check(&self) -> Result<(), TraceError> {
        if self.too_large {
            Err(TraceError::TooLarge { max: self.bytes_max })
        } else if self.deadline.is_over() {
            Err(TraceError::Timeout(self.deadline.timeout()))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_and_time_are_limited() {
        let mut bounds = TraceBounds::new(Duration::from_secs(60), 10);
        assert!(bounds.reserve(10) && bounds.step() && bounds.check().is_ok());
        assert!(!bounds.reserve(1) && !bounds.step());
        assert!(matches!(bounds.check(), Err(TraceError::TooLarge { max: 10 })));

        let bounds = TraceBounds::new(Duration::ZERO, 10);
        assert!(matches!(bounds.check(), Err(TraceError::Timeout(Duration::ZERO))));
    }
}
