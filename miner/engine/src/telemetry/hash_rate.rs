//! Counts hashes and computes their rate over the last seconds.
//!
//! Searchers add to one atomic counter. Another thread calls [`HashRateMeter::sample`] regularly,
//! so that the rate covers a window of time and not the whole past.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The time that a rate covers.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// The hash counter of one device.
#[derive(Debug, Default)]
pub(crate) struct HashRateMeter {
    hashes: AtomicU64,
    samples: Mutex<VecDeque<(Instant, u64)>>,
}

impl HashRateMeter {
    /// Adds `hashes` to the counter.
    pub(crate) fn add(&self, hashes: u64) {
        self.hashes.fetch_add(hashes, Ordering::Relaxed);
    }

    /// Returns the number of hashes since the start.
    pub(crate) fn total(&self) -> u64 {
        self.hashes.load(Ordering::Relaxed)
    }

    /// Stores the count at `now`, and removes samples that are older than the window.
    pub(crate) fn sample(&self, now: Instant) {
        let mut samples = self.samples.lock();
        samples.push_back((now, self.total()));
        // The newest sample outside the window is kept, because the window begins there.
        while samples
            .get(1)
            .is_some_and(|&(time, _)| now.saturating_duration_since(time) >= WINDOW)
        {
            samples.pop_front();
        }
    }

    /// Returns hashes per second over the window that ends at `now`, or 0 before the first sample.
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
