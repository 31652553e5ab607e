//! The limits of a trace: time, size of its text, and memory.
//!
//! An inspector cannot return an error. So it records here that a limit was reached and halts the
//! interpreter, and the caller asks [`TraceBounds::check`] afterwards.

use super::TraceError;
use crate::evm::deadline::Deadline;
use crate::query_limit::QueryLimit;

/// Memory is reserved in pieces of so many bytes.
const MEMORY_PIECE: usize = 1 << 20;

/// The remaining time, size and memory of a trace.
#[derive(Debug)]
pub(super) struct TraceBounds {
    deadline: Deadline,
    bytes_left: usize,
    bytes_max: usize,
    /// Bytes of memory that are reserved and not used yet.
    memory_left: usize,
    reached: Option<TraceSizeLimit>,
}

/// The limit that a trace is too large for.
#[derive(Clone, Copy, Debug)]
enum TraceSizeLimit {
    Text,
    Memory,
}

impl TraceBounds {
    pub(super) const fn new(limit: QueryLimit, bytes_max: usize) -> Self {
        Self {
            deadline: Deadline::new(limit),
            bytes_left: bytes_max,
            bytes_max,
            memory_left: 0,
            reached: None,
        }
    }

    /// Counts a step. Returns `false` if a limit is reached; then this must be the last step.
    pub(super) fn step(&mut self) -> bool {
        self.deadline.step() && self.reached.is_none()
    }

    /// Reserves `text` bytes of the trace's text, and `memory` bytes for the values that it is made
    /// of. Returns `false` if one of them exceeds its limit. To be called before the values exist.
    pub(super) fn reserve(&mut self, text: usize, memory: usize) -> bool {
        match self.bytes_left.checked_sub(text) {
            Some(left) => self.bytes_left = left,
            None => self.reached = Some(TraceSizeLimit::Text),
        }
        if self.memory_left < memory {
            let more = (memory - self.memory_left).next_multiple_of(MEMORY_PIECE);
            match self.deadline.limit().reserve(more) {
                true => self.memory_left += more,
                false => self.reached = Some(TraceSizeLimit::Memory),
            }
        }
        self.memory_left = self.memory_left.saturating_sub(memory);
        self.reached.is_none()
    }

    /// Returns an error if a limit was reached, or if the time is over now.
    pub(super) fn check(&self) -> Result<(), TraceError> {
        match self.reached {
            Some(TraceSizeLimit::Text) => Err(TraceError::TooLarge { max: self.bytes_max }),
            Some(TraceSizeLimit::Memory) => Err(TraceError::NoMemory),
            None => Ok(self.deadline.check()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    use super::*;
    use crate::query_limit::{QueryMemory, QueryStop};

    struct TestRoom(AtomicUsize);

    impl QueryMemory for TestRoom {
        fn reserve(&self, len: usize) -> bool {
            self.0
                .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(len))
                .is_ok()
        }
    }

    #[test]
    fn size_and_time_are_limited() {
        let mut bounds = TraceBounds::new(Duration::from_secs(60).into(), 10);
        assert!(bounds.reserve(10, 0) && bounds.step() && bounds.check().is_ok());
        assert!(!bounds.reserve(1, 0) && !bounds.step());
        assert!(matches!(bounds.check(), Err(TraceError::TooLarge { max: 10 })));

        let bounds = TraceBounds::new(Duration::ZERO.into(), 10);
        assert!(matches!(
            bounds.check(),
            Err(TraceError::Stopped(QueryStop::Timeout(Duration::ZERO)))
        ));
    }

    #[test]
    fn memory_is_reserved_before_it_is_used() {
        let room = Arc::new(TestRoom(AtomicUsize::new(2 * MEMORY_PIECE)));
        let limit = QueryLimit::new(Duration::from_secs(60)).within(room.clone());
        let mut bounds = TraceBounds::new(limit, usize::MAX);
        assert!(bounds.reserve(0, 1) && bounds.reserve(0, MEMORY_PIECE - 1));
        assert_eq!(room.0.load(Relaxed), MEMORY_PIECE);
        assert!(bounds.reserve(0, MEMORY_PIECE) && bounds.check().is_ok());
        assert!(!bounds.reserve(0, 1) && !bounds.step());
        assert!(matches!(bounds.check(), Err(TraceError::NoMemory)));
    }
}
