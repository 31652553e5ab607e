//! The least rate at which a client must read: in each period of time a whole message, or a least
//! number of bytes of it.
//!
//! A message that is read too slowly would keep its memory, which others need. A part of a message
//! counts as read when the system has taken it. The system keeps some megabytes for a client that
//! does not read, so such a client is noticed in the second period at the latest.
//!
//! Knows no sockets: it bounds the time of whatever writes.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::limits::Limits;

/// The pace at which clients must read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadPace {
    pub(super) period: Duration,
    /// Bytes that must be read in each period in which the message does not end.
    pub(super) len_min: u64,
}

impl ReadPace {
    pub(super) fn new(limits: &Limits) -> Self {
        let period = limits.write_timeout;
        let len_min = period.as_millis() * limits.read_rate_min as u128 / 1000;
        Self {
            period,
            len_min: u64::try_from(len_min).unwrap_or(u64::MAX),
        }
    }

    /// A message whose first byte is sent now.
    pub(super) fn begin(self) -> PacedMessage {
        PacedMessage {
            pace: self,
            period_end: Instant::now() + self.period,
            len: 0,
        }
    }
}

/// A message that is being read.
#[derive(Debug)]
pub(super) struct PacedMessage {
    pace: ReadPace,
    period_end: Instant,
    /// Bytes read in this period.
    len: u64,
}

impl PacedMessage {
    /// Waits until `write` has written a part of `len` bytes. Returns `None` if the client reads
    /// too slowly.
    pub(super) async fn write<T>(&mut self, len: usize, write: impl Future<Output = T>) -> Option<T> {
        let mut write = pin!(write);
        loop {
            if let Ok(written) = timeout_at(self.period_end, write.as_mut()).await {
                self.len += len as u64;
                return Some(written);
            }
            if self.len < self.pace.len_min {
                return None;
            }
            self.period_end += self.pace.period;
            self.len = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::sleep;

    use super::*;

    const PERIOD: Duration = Duration::from_millis(100);

    fn message() -> PacedMessage {
        let limits = Limits {
            write_timeout: PERIOD,
            read_rate_min: 10_000,
            ..Limits::default()
        };
        ReadPace::new(&limits).begin()
    }

    #[tokio::test]
    async fn who_reads_nothing_has_one_period() {
        let begin = Instant::now();
        assert_eq!(message().write(1, pending::<()>()).await, None);
        assert!(begin.elapsed() >= PERIOD);
        let mut slow = message();
        assert!(slow.write(999, ready(())).await.is_some());
        assert_eq!(slow.write(1, pending::<()>()).await, None);
    }

    #[tokio::test]
    async fn who_reads_enough_has_another_period() {
        let begin = Instant::now();
        let mut steady = message();
        for _ in 0..3 {
            assert!(steady.write(1000, sleep(PERIOD * 3 / 4)).await.is_some());
        }
        assert!(
            steady.write(1, ready(())).await.is_some(),
            "three periods are over"
        );
        let mut burst = message();
        assert!(burst.write(1_000_000, ready(())).await.is_some());
        let stopped = Instant::now();
        assert_eq!(burst.write(1, pending::<()>()).await, None);
        assert!(stopped.elapsed() >= PERIOD, "what was read counts for its period");
        assert!(begin.elapsed() < 100 * PERIOD);
    }
}
