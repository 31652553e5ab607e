//! Adjusts the difficulty of a miner's shares, so that a share arrives about every ten seconds at
//! any hashrate.
//!
//! At this rate a thousand miners cost little, and their hashrates can still be estimated. Knows
//! only counts and times.

use std::time::{Duration, Instant};

use ethash::{B256, U256, boundary};

/// Target for the time between two shares.
const TARGET: Duration = Duration::from_secs(10);
/// Number of shares after which the difficulty is adjusted.
const SHARES_TO_ADJUST: u32 = 8;
/// Time after which the difficulty is adjusted, even if few shares arrived.
const TIME_TO_ADJUST: Duration = Duration::from_secs(40);
/// Largest factor of one adjustment.
const STEP_MAX: f64 = 8.0;
/// The difficulty stays if it differs from the right one by less than this factor.
const SLACK: f64 = 1.6;
/// Lowest difficulty, in hashes. Judging easier shares would cost too much.
const DIFFICULTY_MIN: f64 = 16_384.0;

/// The share difficulty of one miner.
#[derive(Debug)]
pub(crate) struct Vardiff {
    /// In hashes.
    difficulty: f64,
    /// Shares since the last adjustment.
    shares: u32,
    /// Time of the last adjustment.
    adjusted_at: Instant,
}

impl Vardiff {
    /// Starts with `difficulty`, in hashes.
    pub(crate) const fn new(difficulty: u64, now: Instant) -> Self {
        Self {
            difficulty: (difficulty as f64).max(1.0),
            shares: 0,
            adjusted_at: now,
        }
    }

    /// The boundary of shares for work with `work_boundary`. A share is never harder than the work.
    pub(crate) fn boundary(&self, work_boundary: &B256) -> B256 {
        // The cast rounds down to whole hashes.
        boundary(&U256::from(self.difficulty as u128)).max(*work_boundary)
    }

    /// Counts a share.
    pub(crate) const fn count_share(&mut self) {
        self.shares = self.shares.saturating_add(1);
    }

    /// Uses the hashrate that the miner reports, in hashes per second, if no share has arrived yet.
    /// Returns whether the difficulty has changed.
    pub(crate) fn use_reported_rate(&mut self, rate: u64, now: Instant) -> bool {
        if self.shares > 0 || rate == 0 {
            return false;
        }
        self.set(rate as f64 * TARGET.as_secs_f64(), now)
    }

    /// Adjusts the difficulty if it is time to. Returns whether the difficulty has changed; the
    /// miner must be told then.
    pub(crate) fn adjust(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.adjusted_at);
        if self.shares < SHARES_TO_ADJUST && elapsed < TIME_TO_ADJUST {
            return false;
        }
        let pace = f64::from(self.shares) * TARGET.as_secs_f64() / elapsed.as_secs_f64().max(0.001);
        let wanted = self.difficulty * pace.clamp(1.0 / STEP_MAX, STEP_MAX);
        let changed = self.set(wanted, now);
        self.shares = 0;
        self.adjusted_at = now;
        changed
    }

    /// Sets the difficulty unless it is already close to `wanted`.
    fn set(&mut self, wanted: f64, now: Instant) -> bool {
        let wanted = wanted.max(DIFFICULTY_MIN.min(self.difficulty));
        let ratio = wanted / self.difficulty;
        if (1.0 / SLACK..=SLACK).contains(&ratio) {
            return false;
        }
        self.difficulty = wanted;
        self.shares = 0;
        self.adjusted_at = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difficulty_follows_the_hashrate() {
        let mut now = Instant::now();
        for rate in [2e4, 1e6, 3e7, 5e8] {
            let mut vardiff = Vardiff::new(1 << 26, now);
            // The miner finds a share each time it has made enough hashes, for half an hour.
            let mut hashes = 0.0;
            for _ in 0..1800 {
                now += Duration::from_secs(1);
                hashes += rate;
                while hashes >= vardiff.difficulty {
                    hashes -= vardiff.difficulty;
                    vardiff.count_share();
                    vardiff.adjust(now);
                }
                vardiff.adjust(now);
            }
            let seconds = vardiff.difficulty / rate;
            assert!(
                (5.0..=20.0).contains(&seconds),
                "a share in {seconds} s at {rate} H/s"
            );
        }
    }

    #[test]
    fn a_reported_rate_counts_until_the_first_share() {
        let now = Instant::now();
        let mut vardiff = Vardiff::new(1 << 26, now);
        assert!(vardiff.use_reported_rate(50_000_000, now));
        assert_eq!(vardiff.difficulty, 5e8);
        assert!(
            !vardiff.use_reported_rate(51_000_000, now),
            "the difficulty is close enough"
        );
        vardiff.count_share();
        assert!(!vardiff.use_reported_rate(1, now), "a share has arrived");
    }

    #[test]
    fn shares_are_never_harder_than_the_work() {
        let vardiff = Vardiff::new(1 << 26, Instant::now());
        let of = |difficulty: u64| boundary(&U256::from(difficulty));
        assert_eq!(vardiff.boundary(&of(512)), of(512));
        assert_eq!(vardiff.boundary(&of(1 << 40)), of(1 << 26));
        let mut easy = Vardiff::new(1 << 26, Instant::now());
        easy.use_reported_rate(1, Instant::now());
        assert_eq!(easy.boundary(&of(1 << 40)), of(DIFFICULTY_MIN as u64));
    }
}
