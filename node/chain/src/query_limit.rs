//! Ends a long call, trace or search early: its time is over, nobody waits for it any more, or the
//! values that it collects would take too much memory.
//!
//! Calls, traces and searches for logs ask their [`QueryLimit`] while they run. Who waits, and how
//! much memory there is, is decided by the caller.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Says that nobody waits for a piece of work any more. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Tells the work to stop.
    pub fn cancel(&self) {
        self.0.store(true, Relaxed);
    }

    /// Whether the work is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// The memory for the values that a piece of work collects.
pub trait QueryMemory: Send + Sync {
    /// Reserves `len` more bytes. Returns `false` if too little is left. The caller of the work
    /// releases all of them together, after the work and its values have ended.
    fn reserve(&self, len: usize) -> bool;
}

/// The limits of one piece of work.
#[derive(Clone)]
pub struct QueryLimit {
    /// The longest time that the work may take.
    timeout: Duration,
    /// The end of that time.
    end: Instant,
    cancelled: CancelFlag,
    memory: Option<Arc<dyn QueryMemory>>,
}

/// The reason why a query was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryStop {
    /// The time is over.
    #[error("execution aborted (timeout = {0:?})")]
    Timeout(Duration),
    /// Nobody waits for the result any more.
    #[error("execution aborted: nobody waits for the result")]
    Cancelled,
}

impl QueryLimit {
    /// Work that may take `timeout` from now on, that nobody cancels, and whose memory is not
    /// counted.
    pub fn new(timeout: Duration) -> Self {
        /// Keeps the sum below within the clock's range.
        const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        Self {
            timeout,
            end: Instant::now() + timeout.min(YEAR),
            cancelled: CancelFlag::default(),
            memory: None,
        }
    }

    /// The same work, which stops when `flag` is set.
    #[must_use]
    pub fn cancelled_by(mut self, flag: &CancelFlag) -> Self {
        self.cancelled = flag.clone();
        self
    }

    /// The same work, with its values in `memory`.
    #[must_use]
    pub fn within(mut self, memory: Arc<dyn QueryMemory>) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Reserves `len` more bytes for values. Returns `false` if too little memory is left.
    pub fn reserve(&self, len: usize) -> bool {
        self.memory.as_ref().is_none_or(|memory| memory.reserve(len))
    }

    /// Checks whether the work may go on. This reads the clock.
    ///
    /// # Errors
    /// [`QueryStop`] if it must stop.
    pub fn check(&self) -> Result<(), QueryStop> {
        if self.cancelled.is_cancelled() {
            Err(QueryStop::Cancelled)
        } else if Instant::now() >= self.end {
            Err(QueryStop::Timeout(self.timeout))
        } else {
            Ok(())
        }
    }
}

impl From<Duration> for QueryLimit {
    fn from(timeout: Duration) -> Self {
        Self::new(timeout)
    }
}

impl fmt::Debug for QueryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryLimit")
            .field("timeout", &self.timeout)
            .field("cancelled", &self.cancelled)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_stops_when_it_is_cancelled_or_late() {
        let flag = CancelFlag::default();
        let work = QueryLimit::new(Duration::MAX).cancelled_by(&flag);
        assert_eq!(work.check(), Ok(()));
        assert!(work.reserve(usize::MAX), "nobody counts the memory");
        flag.cancel();
        assert_eq!(work.check(), Err(QueryStop::Cancelled));
        assert_eq!(
            QueryLimit::new(Duration::ZERO).check(),
            Err(QueryStop::Timeout(Duration::ZERO))
        );
    }
}
