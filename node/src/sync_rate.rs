//! The speed of the head while the node synchronizes, for estimates. Knows no clock.

use std::collections::VecDeque;
use std::time::Instant;

/// The rate is that of the last so many points.
const RATE_POINTS: usize = 60;

/// The speed of the head.
#[derive(Debug, Default)]
pub(crate) struct SyncRate(VecDeque<(Instant, u64)>);

impl SyncRate {
    /// Notes the head. Returns blocks a second.
    pub(crate) fn follow(&mut self, now: Instant, head: u64) -> f64 {
        if self.0.len() >= RATE_POINTS {
            self.0.pop_front();
        }
        self.0.push_back((now, head));
        let (begun, first) = self.0[0];
        let seconds = now.saturating_duration_since(begun).as_secs_f64();
        if seconds > 0.0 {
            head.saturating_sub(first) as f64 / seconds
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_points() {
        let mut rate = SyncRate::default();
        let begun = Instant::now();
        assert_eq!(rate.follow(begun, 5), 0.0);
        let mut last = 0.0;
        for second in 1..=200u64 {
            let head = if second < 100 { 5 } else { (second - 99) * 10 };
            last = rate.follow(begun + Duration::from_secs(second), head);
        }
        assert!((last - 10.0).abs() < 1e-9, "{last}");
    }
}
