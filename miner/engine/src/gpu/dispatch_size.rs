//! Chooses how much work goes into one dispatch, so that each dispatch takes about a target time.
//!
//! Long dispatches delay new work, freeze displays and trigger the watchdogs of drivers. Between
//! short dispatches the device is idle. Knows only counts and times.

use std::time::Duration;

/// A dispatch is at most this many times as large as the previous one.
const GROWTH_MAX: f64 = 4.0;

/// The size of the next dispatch.
#[derive(Clone, Debug)]
pub(crate) struct DispatchSizer {
    target_secs: f64,
    /// All sizes are multiples of this.
    granule: u32,
    max: u32,
    size: u32,
    /// Units of work per second, once measured.
    rate: Option<f64>,
}

impl DispatchSizer {
    /// Starts with `first` units. Later sizes are between `granule` and `max`.
    pub(crate) fn new(target: Duration, granule: u32, first: u32, max: u32) -> Self {
        let mut sizer = Self {
            target_secs: target.as_secs_f64().max(1e-4),
            granule,
            max: max / granule * granule,
            size: 0,
            rate: None,
        };
        sizer.size = sizer.fit(f64::from(first));
        sizer
    }

    /// Units of work in the next dispatch.
    pub(crate) const fn size(&self) -> u32 {
        self.size
    }

    /// Units of work per second, as last measured.
    pub(crate) const fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Records that `count` units took `elapsed`, and adapts the size.
    ///
    /// `exact` must be false if the dispatch had already finished when the caller looked. Then it
    /// took `elapsed` or less, so the size is never reduced.
    pub(crate) fn record(&mut self, count: u32, elapsed: Duration, exact: bool) {
        let measured = f64::from(count) / elapsed.as_secs_f64().max(1e-6);
        let rate = match self.rate {
            Some(old) if !exact && measured <= old => return,
            // The mean of the old and the new rate, because other work on the device may have
            // disturbed this dispatch.
            Some(old) => (old + measured) / 2.0,
            None => measured,
        };
        self.rate = Some(rate);
        let wanted = rate * self.target_secs;
        self.size = self.fit(wanted.min(f64::from(self.size) * GROWTH_MAX));
    }

    fn fit(&self, wanted: f64) -> u32 {
        let granules = (wanted / f64::from(self.granule)).max(1.0) as u32;
        granules
            .saturating_mul(self.granule)
            .min(self.max)
            .max(self.granule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `rounds` dispatches on a device of `rate` units per second, and returns the size after
    /// them.
    fn settle(sizer: &mut DispatchSizer, rate: f64, rounds: usize) -> u32 {
        for _ in 0..rounds {
            let size = sizer.size();
            sizer.record(size, Duration::from_secs_f64(f64::from(size) / rate), true);
        }
        sizer.size()
    }

    #[test]
    fn the_size_settles_at_the_target_time_and_follows_the_device() {
        let mut sizer = DispatchSizer::new(Duration::from_millis(50), 64, 1024, 1 << 30);
        let size = settle(&mut sizer, 1e8, 30);
        assert!((4_900_000..=5_000_000).contains(&size), "{size}");
        let size = settle(&mut sizer, 1e5, 30);
        assert!((4_900..=5_056).contains(&size), "{size}");
    }

    #[test]
    fn the_size_grows_in_steps_and_stays_within_its_bounds() {
        let mut sizer = DispatchSizer::new(Duration::from_millis(50), 64, 1024, 100_000);
        assert_eq!(settle(&mut sizer, 1e12, 1), 4096);
        assert_eq!(settle(&mut sizer, 1e12, 9), 100_000 / 64 * 64);
        assert_eq!(settle(&mut sizer, 1.0, 40), 64);
    }

    #[test]
    fn a_dispatch_that_had_already_finished_does_not_reduce_the_size() {
        let mut sizer = DispatchSizer::new(Duration::from_millis(50), 64, 1024, 1 << 30);
        let size = settle(&mut sizer, 1e8, 30);
        sizer.record(size, Duration::from_secs(5), false);
        assert_eq!(sizer.size(), size);
    }
}
