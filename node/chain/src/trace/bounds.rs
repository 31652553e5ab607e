//! How long a trace may take and get.
//!
//! Inspectors cannot fail: they note here that a bound was met and halt the interpreter; whoever
//! runs it asks afterwards.

use super::TraceError;
use std::time::{Duration, Instant};

/// Steps between two looks at the clock, which costs more than a step.
const STEPS_A_LOOK: u32 = 256;

/// What is left of time and size.
#[derive(Debug)]
pub(super) struct Bounds {
    deadline: Instant,
    timeout: Duration,
    bytes_left: usize,
    bytes_max: usize,
    steps: u32,
    met: Option<Met>,
}

#[derive(Clone, Copy, Debug)]
enum Met {
    Time,
    Size,
}

impl Bounds {
    pub(super) fn new(timeout: Duration, bytes_max: usize) -> Self {
        Self {
            deadline: Instant::now() + timeout,
            timeout,
            bytes_left: bytes_max,
            bytes_max,
            steps: 0,
            met: None,
        }
    }

    /// Counts a step. `false`: it is to be the last.
    pub(super) fn step(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS_A_LOOK) && Instant::now() >= self.deadline {
            self.met = Some(Met::Time);
        }
        self.met.is_none()
    }

    /// Takes the room that so many more bytes of text need. `false`: there is not as much.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => self.bytes_left = left,
            None => self.met = Some(Met::Size),
        }
        self.met.is_none()
    }

    /// An error where a bound was met, or where time is over by now.
    pub(super) fn check(&self) -> Result<(), TraceError> {
        match self.met {
            Some(Met::Size) => Err(TraceError::TooLong { max: self.bytes_max }),
            Some(Met::Time) => Err(TraceError::Timeout(self.timeout)),
            None if Instant::now() >= self.deadline => Err(TraceError::Timeout(self.timeout)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_and_time_end() {
        let mut bounds = Bounds::new(Duration::from_secs(60), 10);
        assert!(bounds.take(10) && bounds.step() && bounds.check().is_ok());
        assert!(!bounds.take(1) && !bounds.step());
        assert!(matches!(bounds.check(), Err(TraceError::TooLong { max: 10 })));

        let mut bounds = Bounds::new(Duration::ZERO, 10);
        let steps = (0..).take_while(|_| bounds.step()).count();
        assert!(steps < STEPS_A_LOOK as usize, "{steps}");
        assert!(matches!(bounds.check(), Err(TraceError::Timeout(Duration::ZERO))));
    }
}
