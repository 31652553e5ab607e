//! How hard a miner's shares are: so that one comes every ten seconds or so, whatever its speed.
//!
//! Few enough that a thousand miners cost little, many enough that their speeds are known. Knows only counts
//! and times.

use std::time::{Duration, Instant};

use ethash::{B256, U256, boundary};

/// Between two shares.
const TARGET: Duration = Duration::from_secs(10);
/// Shares after which the difficulty is looked at.
const SHARES_TO_JUDGE: u32 = 8;
/// Time after which it is looked at, however few shares came.
const TIME_TO_JUDGE: Duration = Duration::from_secs(40);
/// It changes by at most this factor at a time.
const STEP_MAX: f64 = 8.0;
/// Closer than this to what it should be, it stays.
const SLACK: f64 = 1.6;
/// The easiest shares: below, judging them would cost more than they tell.
const DIFFICULTY_MIN: f64 = 16_384.0;

/// One miner's difficulty.
#[derive(Debug)]
pub(super) struct Vardiff {
    difficulty: f64,
    shares: u32,
    since: Instant,
}

impl Vardiff {
    pub(super) fn new(difficulty: u64, now: Instant) -> Self {
        Self {
            difficulty: (difficulty as f64).max(1.0),
            shares: 0,
            since: now,
        }
    }

    /// What a share must not be above for work with `work_boundary`, which is never made harder.
    pub(super) fn boundary(&self, work_boundary: &B256) -> B256 {
        // The cast rounds down to whole hashes.
        boundary(&U256::from(self.difficulty as u128)).max(*work_boundary)
    }

    /// A share came.
    pub(super) fn note_share(&mut self) {
        self.shares = self.shares.saturating_add(1);
    }

    /// The miner says that it does `rate` hashes a second. Taken at its word while no share speaks against it.
    pub(super) fn note_rate(&mut self, rate: u64, now: Instant) -> bool {
        if self.shares > 0 || rate == 0 {
            return false;
        }
        self.change(rate as f64 * TARGET.as_secs_f64(), now)
    }

    /// Looks at the time; true where the difficulty has changed, so that the miner must be told.
    pub(super) fn look(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.since);
        if self.shares < SHARES_TO_JUDGE && elapsed < TIME_TO_JUDGE {
            return false;
        }
        let pace = f64::from(self.shares) * TARGET.as_secs_f64() / elapsed.as_secs_f64().max(0.001);
        let wanted = self.difficulty * pace.clamp(1.0 / STEP_MAX, STEP_MAX);
        let changed = self.change(wanted, now);
        self.shares = 0;
        self.since = now;
        changed
    }

    fn change(&mut self, wanted: f64, now: Instant) -> bool {
        let wanted = wanted.max(DIFFICULTY_MIN.min(self.difficulty));
        let ratio = wanted / self.difficulty;
        if (1.0 / SLACK..=SLACK).contains(&ratio) {
            return false;
        }
        self.difficulty = wanted;
        self.shares = 0;
        self.since = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difficulty_follows_the_speed() {
        let mut now = Instant::now();
        for rate in [2e4, 1e6, 3e7, 5e8] {
            let mut vardiff = Vardiff::new(1 << 26, now);
            // The miner finds a share each time its hashes allow; half an hour of it.
            let mut hashes = 0.0;
            for _ in 0..1800 {
                now += Duration::from_secs(1);
                hashes += rate;
                while hashes >= vardiff.difficulty {
                    hashes -= vardiff.difficulty;
                    vardiff.note_share();
                    vardiff.look(now);
                }
                vardiff.look(now);
            }
            let seconds = vardiff.difficulty / rate;
            assert!(
                (5.0..=20.0).contains(&seconds),
                "a share in {seconds} s at {rate} H/s"
            );
        }
    }

    #[test]
    fn a_miners_word_counts_until_its_shares_speak() {
        let now = Instant::now();
        let mut vardiff = Vardiff::new(1 << 26, now);
        assert!(vardiff.note_rate(50_000_000, now));
        assert_eq!(vardiff.difficulty, 5e8);
        assert!(!vardiff.note_rate(51_000_000, now), "that is near enough");
        vardiff.note_share();
        assert!(!vardiff.note_rate(1, now), "a share has spoken");
    }

    #[test]
    fn shares_are_never_harder_than_the_work() {
        let vardiff = Vardiff::new(1 << 26, Instant::now());
        let of = |difficulty: u64| boundary(&U256::from(difficulty));
        assert_eq!(vardiff.boundary(&of(512)), of(512));
        assert_eq!(vardiff.boundary(&of(1 << 40)), of(1 << 26));
        let mut easy = Vardiff::new(1 << 26, Instant::now());
        easy.note_rate(1, Instant::now());
        assert_eq!(easy.boundary(&of(1 << 40)), of(DIFFICULTY_MIN as u64));
    }
}
