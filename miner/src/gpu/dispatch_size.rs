//! Steers how much work goes into one dispatch, so that each takes about a target time.
//!
//! Long dispatches delay new work, freeze displays and trip the drivers' watchdogs; short ones waste the
//! device between them. Knows only counts and times.

use std::time::Duration;

/// A dispatch grows by at most this factor over the one before.
const GROWTH_MAX: f64 = 4.0;

/// The size of the next dispatch.
#[derive(Clone, Debug)]
pub(crate) struct DispatchSizer {
    target_secs: f64,
    /// Sizes are multiples of this.
    granule: u32,
    max: u32,
    size: u32,
    /// Units per second, once measured.
    rate: Option<f64>,
}

impl DispatchSizer {
    /// Starts with `first` units; later sizes lie between `granule` and `max`.
    pub(crate) fn new(target: Duration, granule: u32, first: u32, max: u32) -> Self {
        let mut pace = Self {
            target_secs: target.as_secs_f64().max(1e-4),
            granule,
            max: max / granule * granule,
            size: 0,
            rate: None,
        };
        pace.size = pace.fit(f64::from(first));
        pace
    }

    /// Units for the next dispatch.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Units per second, as last measured.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Takes note that `count` units took `elapsed`.
    ///
    /// `exact` is false where the dispatch was found finished, so that it took `elapsed` or less: that
    /// is no ground to slow down.
    pub(crate) fn record(&mut self, count: u32, elapsed: Duration, exact: bool) {
        let measured = f64::from(count) / elapsed.as_secs_f64().max(1e-6);
        let rate = match self.rate {
            Some(old) if !exact && measured <= old => return,
            // Half of the old: one dispatch beside other work on the device says little.
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

    /// The size after a device of `rate` units per second has done `rounds` dispatches.
    fn settle(pace: &mut DispatchSizer, rate: f64, rounds: usize) -> u32 {
        for _ in 0..rounds {
            let size = pace.size();
            pace.record(size, Duration::from_secs_f64(f64::from(size) / rate), true);
        }
        pace.size()
    }

    #[test]
    fn settles_at_the_target_time_and_follows_the_device() {
        let mut pace = DispatchSizer::new(Duration::from_millis(50), 64, 1024, 1 << 30);
        let size = settle(&mut pace, 1e8, 30);
        assert!((4_900_000..=5_000_000).contains(&size), "{size}");
        let size = settle(&mut pace, 1e5, 30);
        assert!((4_900..=5_056).contains(&size), "{size}");
    }

    #[test]
    fn grows_step_by_step_and_stays_within_its_bounds() {
        let mut pace = DispatchSizer::new(Duration::from_millis(50), 64, 1024, 100_000);
        assert_eq!(settle(&mut pace, 1e12, 1), 4096);
        assert_eq!(settle(&mut pace, 1e12, 9), 100_000 / 64 * 64);
        assert_eq!(settle(&mut pace, 1.0, 40), 64);
    }

    #[test]
    fn a_dispatch_found_finished_does_not_slow_down() {
        let mut pace = DispatchSizer::new(Duration::from_millis(50), 64, 1024, 1 << 30);
        let size = settle(&mut pace, 1e8, 30);
        pace.record(size, Duration::from_secs(5), false);
        assert_eq!(pace.size(), size);
    }
}
