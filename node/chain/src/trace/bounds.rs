//! How long a trace may take and get.
//!
//! Inspectors cannot fail: they note here that a bound was met and halt the interpreter; whoever
//! runs it asks afterwards.

use std::time::Duration;

use super::TraceError;
use crate::evm::deadline::Deadline;

/// What is left of time and size.
#[derive(Debug)]
pub(super) struct TraceBounds {
    deadline: Deadline,
    bytes_left: usize,
    bytes_max: usize,
    too_long: bool,
}

impl TraceBounds {
    pub(super) fn new(timeout: Duration, bytes_max: usize) -> Self {
        Self {
            deadline: Deadline::new(timeout),
            bytes_left: bytes_max,
            bytes_max,
            too_long: false,
        }
    }

    /// Counts a step. `false`: it is to be the last.
    pub(super) fn step(&mut self) -> bool {
        self.deadline.step() && !self.too_long
    }

    /// Takes the room that so many more bytes of text need. `false`: there is not as much.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => self.bytes_left = left,
            None => self.too_long = true,
        }
        !self.too_long
    }

    /// An error where a bound was met, or where time is over by now.
    pub(super) fn check(&self) -> Result<(), TraceError> {
        if self.too_long {
            Err(TraceError::TooLong { max: self.bytes_max })
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
    fn size_and_time_end() {
        let mut bounds = TraceBounds::new(Duration::from_secs(60), 10);
        assert!(bounds.take(10) && bounds.step() && bounds.check().is_ok());
        assert!(!bounds.take(1) && !bounds.step());
        assert!(matches!(bounds.check(), Err(TraceError::TooLong { max: 10 })));

        let bounds = TraceBounds::new(Duration::ZERO, 10);
        assert!(matches!(bounds.check(), Err(TraceError::Timeout(Duration::ZERO))));
    }
}
