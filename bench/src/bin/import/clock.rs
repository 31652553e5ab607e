//! Measures wall time and the processor time of all threads. On a busy machine processor time is
//! more reliable.

use std::time::{Duration, Instant};

/// The time that a piece of work took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) wall: Duration,
    pub(crate) processor: Duration,
}

/// A running clock.
pub(crate) struct Clock {
    wall: Instant,
    processor: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            wall: Instant::now(),
            processor: processor_time(),
        }
    }

    /// The time since the start.
    pub(crate) fn stop(&self) -> Took {
        Took {
            wall: self.wall.elapsed(),
            processor: processor_time().saturating_sub(self.processor),
        }
    }
}

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing. If the clock did not exist, the call would fail and
    // change nothing.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
