//! Decides for which epochs the dataset of a card is worth its time.
//!
//! Counts seals and times only. A card needs the time `load` for a dataset and almost none for
//! seals; meanwhile the processor goes on at `rate` seals a second. So it checks `rate * load`
//! seals of the epoch until the card is ready. If that is more than half of those that are left,
//! the dataset is not made. A block that nobody has made yet is left, too. Example: a card that
//! needs 0.5 s and a processor that checks 3,000 seals a second do not make it for less than 3,000
//! blocks of an epoch of 30,000.

use std::time::{Duration, Instant};

/// The fewest blocks that must be left of an epoch, whatever was measured. The light cache and the
/// kernels cost something, too.
const LEFT_MIN: u64 = 1024;
/// With an automatic choice, the processor checks this many seals in a row before a card is looked
/// for. A node that is a few hours behind its network loads no driver for them.
pub(super) const SEALS_BEFORE_AUTO: u64 = 4096;

/// After so long without seals in bulk they are counted anew: the node had caught up.
const PAUSE: Duration = Duration::from_secs(60);

/// The figures that were measured so far.
#[derive(Debug)]
pub(super) struct SealPlan {
    /// Seals in bulk that the processor has checked.
    by_processor: u64,
    /// The same since the last long pause.
    in_a_row: u64,
    /// The time of the last seals that the processor has checked.
    last_seals: Instant,
    /// The fewest seals in a row before a dataset is made.
    first_after: u64,
    /// Seals a second of the processor.
    rate: Option<f64>,
    /// The time of the last dataset.
    load: Option<Duration>,
    /// The time of the last dataset or seal of the card.
    last_use: Instant,
}

impl SealPlan {
    /// A plan without figures. No dataset is made before the processor has checked `first_after`
    /// seals.
    pub(super) fn new(first_after: u64) -> Self {
        Self {
            by_processor: 0,
            in_a_row: 0,
            last_seals: Instant::now(),
            first_after,
            rate: None,
            load: None,
            last_use: Instant::now(),
        }
    }

    /// Whether a dataset is worth it for an epoch of which `left` blocks are left.
    pub(super) fn is_worth(&self, left: u64) -> bool {
        if self.in_a_row < self.first_after || left < LEFT_MIN {
            return false;
        }
        let (Some(rate), Some(load)) = (self.rate, self.load) else {
            // The first dataset measures the card.
            return true;
        };
        left as f64 >= 2.0 * rate * load.as_secs_f64()
    }

    /// Records that the processor has checked `count` seals in `time`.
    pub(super) fn record_processor(&mut self, count: u64, time: Duration) {
        if self.last_seals.elapsed() > PAUSE {
            self.in_a_row = 0;
        }
        self.last_seals = Instant::now();
        self.in_a_row += count;
        self.by_processor += count;
        let measured = count as f64 / time.as_secs_f64().max(1e-6);
        // The mean of the old and the new rate, because other work may have disturbed this one.
        self.rate = Some(self.rate.map_or(measured, |old| (old + measured) / 2.0));
    }

    /// Records that a dataset took `time`.
    pub(super) fn record_load(&mut self, time: Duration) {
        self.load = Some(time);
        self.record_use();
    }

    /// Records that the card was used now.
    pub(super) fn record_use(&mut self) {
        self.last_use = Instant::now();
    }

    /// Whether the card was not used for `time`.
    pub(super) fn is_idle(&self, time: Duration) -> bool {
        self.last_use.elapsed() >= time
    }

    /// Seals in bulk that the processor has checked.
    pub(super) const fn by_processor(&self) -> u64 {
        self.by_processor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataset_is_worth_it_if_most_seals_are_left_when_it_is_ready() {
        let mut plan = SealPlan::new(0);
        assert!(plan.is_worth(LEFT_MIN) && !plan.is_worth(LEFT_MIN - 1));
        plan.record_processor(3000, Duration::from_secs(1));
        assert!(plan.is_worth(LEFT_MIN), "the card is not measured yet");
        plan.record_load(Duration::from_millis(500));
        assert!(plan.is_worth(3000) && !plan.is_worth(2999));
        // A software adapter needs longer for a dataset than the processor for the epoch.
        plan.record_load(Duration::from_secs(120));
        assert!(!plan.is_worth(30_000));
        // A slower processor makes it worth again.
        for _ in 0..30 {
            plan.record_processor(100, Duration::from_secs(1));
        }
        assert!(plan.is_worth(30_000) && !plan.is_worth(20_000));
    }

    #[test]
    fn an_automatic_choice_waits_until_many_seals_have_come() {
        let mut plan = SealPlan::new(SEALS_BEFORE_AUTO);
        plan.record_processor(SEALS_BEFORE_AUTO - 1, Duration::from_secs(1));
        assert!(!plan.is_worth(30_000));
        plan.record_processor(1, Duration::ZERO);
        assert!(plan.is_worth(30_000));
        assert_eq!(plan.by_processor(), SEALS_BEFORE_AUTO);
        // After a long pause the node is at the head, and they are counted anew.
        let earlier = plan.last_seals.checked_sub(PAUSE * 2);
        plan.last_seals = earlier.expect("the clock began before that");
        plan.record_processor(8, Duration::from_millis(3));
        assert!(!plan.is_worth(30_000));
        assert_eq!(plan.by_processor(), SEALS_BEFORE_AUTO + 8);
    }
}
