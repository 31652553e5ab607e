//! Measures wall time, the processor time of all threads, and that of the calling thread.
//!
//! On a busy machine processor times are more reliable. On an idle machine with two processors an
//! import takes at least the time of its importing thread, and half of the time of all threads.

use std::time::{Duration, Instant};

/// The time that a piece of work took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) wall: Duration,
    pub(crate) processor: Duration,
    /// Of the calling thread.
    pub(crate) thread: Duration,
}

/// A running clock. It is started and stopped by the same thread.
pub(crate) struct Clock {
    wall: Instant,
    processor: Duration,
    thread: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            wall: Instant::now(),
            processor: clock_time(libc::CLOCK_PROCESS_CPUTIME_ID),
            thread: clock_time(libc::CLOCK_THREAD_CPUTIME_ID),
        }
    }

    /// The time since the start.
    pub(crate) fn stop(&self) -> Took {
        Took {
            wall: self.wall.elapsed(),
            processor: clock_time(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(self.processor),
            thread: clock_time(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(self.thread),
        }
    }
}

/// The time of a clock of the system.
fn clock_time(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing. If the clock did not exist, the call would fail and
    // change nothing.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
