//! Counts hashes and gives their rate over the last seconds.
//!
//! The count is one atomic that searchers add to; samples of it are taken by whoever calls [`HashRateMeter::sample`]
//! regularly, so that a rate covers a window and not the whole past.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The span a rate covers.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// Hashes of one device.
#[derive(Debug, Default)]
pub(crate) struct HashRateMeter {
    hashes: AtomicU64,
    samples: Mutex<VecDeque<(Instant, u64)>>,
}

impl HashRateMeter {
    /// Counts `hashes` more.
    pub(crate) fn add(&self, hashes: u64) {
        self.hashes.fetch_add(hashes, Ordering::Relaxed);
    }

    /// Hashes since the start.
    pub(crate) fn total(&self) -> u64 {
        self.hashes.load(Ordering::Relaxed)
    }

    /// Remembers the count of `now` and forgets what is older than the window.
    pub(crate) fn sample(&self, now: Instant) {
        let mut samples = self.samples.lock();
        samples.push_back((now, self.total()));
        // The newest sample outside the window stays: it is where the window begins.
        while samples
            .get(1)
            .is_some_and(|&(time, _)| now.saturating_duration_since(time) >= WINDOW)
        {
            samples.pop_front();
        }
    }

    /// Hashes per second over the window that ends at `now`; 0 before there is anything to compare.
    pub(crate) fn rate(&self, now: Instant) -> f64 {
        let Some(&(time, count)) = self.samples.lock().front() else {
            return 0.0;
        };
        let seconds = now.saturating_duration_since(time).as_secs_f64();
        if seconds > 0.0 {
            (self.total() - count) as f64 / seconds
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_covers_the_window_only() {
        let meter = HashRateMeter::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(meter.rate(start), 0.0);
        meter.sample(start);
        assert_eq!(meter.rate(start), 0.0);
        for second in 1..=20 {
            meter.add(100);
            meter.sample(at(second));
        }
        assert_eq!(meter.rate(at(20)), 100.0);
        for second in 21..=25 {
            meter.sample(at(second));
        }
        assert_eq!(meter.rate(at(25)), 50.0, "half of the window is idle");
        for second in 26..=31 {
            meter.sample(at(second));
        }
        assert_eq!(meter.rate(at(31)), 0.0, "idle for the whole window");
        assert_eq!(meter.total(), 2000);
        assert!(meter.samples.lock().len() <= 12);
    }
}
