//! The hashrates that miners report. A report counts for a short time.
//!
//! Anybody may report as often as he likes, so a report costs no more than the logarithm of the
//! number of reports. This module knows no clock.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use primitives::{B256, U256};

/// The time for which a reported hashrate counts.
pub const HASHRATE_REPORT_LIFETIME: Duration = Duration::from_secs(10);
/// The most miners whose reported hashrate is remembered.
pub const HASHRATE_REPORTERS_MAX: usize = 10_000;

/// The reports that still count.
#[derive(Debug, Default)]
pub(super) struct HashrateReports {
    /// Hashes per second and the time of the report, by the miner's id.
    by_id: HashMap<B256, (U256, Instant)>,
    /// The same reports, the oldest first.
    by_time: BTreeSet<(Instant, B256)>,
}

impl HashrateReports {
    /// Remembers that the miner `id` reports `rate` hashes per second, unless there are too many
    /// miners.
    pub(super) fn report(&mut self, rate: U256, id: B256, now: Instant) {
        self.drop_old(now);
        if self.by_id.len() >= HASHRATE_REPORTERS_MAX && !self.by_id.contains_key(&id) {
            return;
        }
        if let Some((_, before)) = self.by_id.insert(id, (rate, now)) {
            self.by_time.remove(&(before, id));
        }
        self.by_time.insert((now, id));
    }

    /// The sum of the hashrates, in hashes per second.
    pub(super) fn sum(&mut self, now: Instant) -> U256 {
        self.drop_old(now);
        self.by_id
            .values()
            .fold(U256::ZERO, |sum, (rate, _)| sum.saturating_add(*rate))
    }

    fn drop_old(&mut self, now: Instant) {
        while let Some((at, id)) = self.by_time.first().copied()
            && now.saturating_duration_since(at) >= HASHRATE_REPORT_LIFETIME
        {
            self.by_time.remove(&(at, id));
            self.by_id.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> B256 {
        B256::left_padding_from(&number.to_be_bytes())
    }

    #[test]
    fn a_report_counts_until_the_next_one_or_for_its_time() {
        let start = Instant::now();
        let mut reports = HashrateReports::default();
        let rate = |rate: u64| U256::from(rate);
        reports.report(rate(5), id(1), start);
        reports.report(rate(7), id(2), start);
        assert_eq!(reports.sum(start), rate(12));
        let later = start + HASHRATE_REPORT_LIFETIME / 2;
        reports.report(rate(1), id(1), later);
        assert_eq!(reports.sum(later), rate(8));
        assert_eq!(reports.sum(start + HASHRATE_REPORT_LIFETIME), rate(1));
        assert_eq!(reports.by_time.len(), 1);
        assert_eq!(reports.sum(later + HASHRATE_REPORT_LIFETIME), rate(0));
        assert!(reports.by_time.is_empty() && reports.by_id.is_empty());
        reports.report(U256::MAX, id(1), later);
        reports.report(rate(1), id(2), later);
        assert_eq!(reports.sum(later), U256::MAX, "the sum does not overflow");
    }

    #[test]
    fn a_report_is_not_slower_when_there_are_many() {
        let start = Instant::now();
        let mut reports = HashrateReports::default();
        for number in 0..HASHRATE_REPORTERS_MAX {
            reports.report(U256::from(1), id(number), start);
        }
        // Looking at every report each time would take an hour.
        for number in 0..1_000_000 {
            reports.report(U256::from(2), id(number % (2 * HASHRATE_REPORTERS_MAX)), start);
        }
        assert_eq!(
            reports.sum(start),
            U256::from(2 * HASHRATE_REPORTERS_MAX),
            "later miners are not remembered, and the earlier ones are"
        );
        assert_eq!(reports.by_time.len(), HASHRATE_REPORTERS_MAX);
    }
}
