//! Measures wall time, the processor time of all threads, and that of the calling thread.
//!
//! On a busy machine processor times are more reliable. On an idle machine with two processors an
//! import takes at least the time of its importing thread, and half of the time of all threads.

use std::time::{Duration, Instant};

/// The time that a piece of work took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// The time that has passed.
    pub wall: Duration,
    /// Processor time of all threads.
    pub processor: Duration,
    /// Of the calling thread.
    pub thread: Duration,
}

impl std::ops::Sub for Took {
    type Output = Self;

    /// The rest of a piece of work without a part of it.
    fn sub(self, part: Self) -> Self {
        Self {
            wall: self.wall.saturating_sub(part.wall),
            processor: self.processor.saturating_sub(part.processor),
            thread: self.thread.saturating_sub(part.thread),
        }
    }
}

/// A running clock. It is started and stopped by the same thread.
#[derive(Debug)]
pub struct Clock {
    wall: Instant,
    processor: Duration,
    thread: Duration,
}

impl Clock {
    /// Starts a clock.
    pub fn start() -> Self {
        Self {
            wall: Instant::now(),
            processor: clock_time(libc::CLOCK_PROCESS_CPUTIME_ID),
            thread: clock_time(libc::CLOCK_THREAD_CPUTIME_ID),
        }
    }

    /// The time since the start.
    pub fn stop(&self) -> Took {
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
