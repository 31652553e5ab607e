//! Times the comparisons of a device with the CPU while it searches.
//!
//! A card whose memory or kernel goes bad mostly finds nothing, which looks like bad luck. So it is
//! compared now and then, as after the load of its dataset. The time between two comparisons
//! follows from how long the last one took, so that they cost less than a thousandth of the search.

use std::time::{Duration, Instant};

/// The times at which a device is compared with the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SelfCheckSchedule {
    /// The shortest time between two comparisons.
    pub(crate) least: Duration,
    /// The time between two comparisons is at least that of the last one times this number.
    pub(crate) factor: u32,
    /// After a wrong hit, the next comparison comes when so much time has passed since the last.
    pub(crate) after_wrong_hit: Duration,
}

impl Default for SelfCheckSchedule {
    fn default() -> Self {
        Self {
            least: Duration::from_secs(60),
            factor: 1000,
            after_wrong_hit: Duration::from_secs(5),
        }
    }
}

impl SelfCheckSchedule {
    /// The time after a comparison that took the time `took`, until the next one.
    fn pause(&self, took: Duration) -> Duration {
        self.least.max(took.saturating_mul(self.factor))
    }
}

/// The time of the next comparison of one device.
#[derive(Debug)]
pub(super) struct SelfCheckTimer {
    schedule: SelfCheckSchedule,
    last: Instant,
    next: Instant,
}

impl SelfCheckTimer {
    /// A device that was compared until the time `now`, when its dataset was loaded. That took the
    /// time `took`.
    pub(super) fn new(schedule: SelfCheckSchedule, now: Instant, took: Duration) -> Self {
        Self {
            schedule,
            last: now,
            next: now + schedule.pause(took),
        }
    }

    /// Whether the device must be compared at the time `now`.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Records a comparison that took the time from `start` to `end`.
    pub(super) fn record(&mut self, start: Instant, end: Instant) {
        self.last = end;
        self.next = end + self.schedule.pause(end.duration_since(start));
    }

    /// Records that the device has found a wrong hash.
    pub(super) fn record_wrong_hit(&mut self) {
        self.next = self.next.min(self.last + self.schedule.after_wrong_hit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_take_less_than_a_thousandth_of_the_time() {
        let start = Instant::now();
        for took in [1, 20, 150, 3000].map(Duration::from_millis) {
            let mut timer = SelfCheckTimer::new(SelfCheckSchedule::default(), start, took);
            assert!(timer.next - start >= took * 1000, "{took:?}");
            timer.record(start, start + took);
            let pause = timer.next - (start + took);
            assert!(
                pause >= took * 1000 && pause >= Duration::from_secs(60),
                "{took:?}"
            );
            assert!(!timer.is_due(timer.next - Duration::from_millis(1)) && timer.is_due(timer.next));
        }
    }

    #[test]
    fn a_wrong_hit_brings_the_next_comparison_forward() {
        let start = Instant::now();
        let seconds = |seconds| start + Duration::from_secs(seconds);
        let mut timer = SelfCheckTimer::new(SelfCheckSchedule::default(), start, Duration::ZERO);
        timer.record_wrong_hit();
        assert!(!timer.is_due(seconds(4)) && timer.is_due(seconds(5)));
        timer.record(seconds(6), seconds(6));
        assert!(!timer.is_due(seconds(60)) && timer.is_due(seconds(66)));
        timer.record_wrong_hit();
        timer.record_wrong_hit();
        assert!(!timer.is_due(seconds(10)) && timer.is_due(seconds(11)));
    }
}
