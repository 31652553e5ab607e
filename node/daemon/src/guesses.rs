//! Slows down whoever guesses a secret: after some wrong guesses no guess is judged for a while.
//!
//! Knows counts and times. The owner of the count decides for whom it counts: for one client, never
//! for all of them, because a stranger must not lock out the owner of the secret.

use std::time::{Duration, Instant};

/// The waits after wrong guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuessLimit {
    /// So many wrong guesses cost nothing.
    pub free: u32,
    /// The first wait. It doubles with each further wrong guess.
    pub first_wait: Duration,
    /// The longest wait.
    pub wait_max: Duration,
    /// All wrong guesses are forgotten so long after the last one.
    pub memory: Duration,
}

/// The wrong guesses of one client since its last right one.
#[derive(Clone, Copy, Debug, Default)]
pub struct WrongGuesses {
    count: u32,
    last: Option<Instant>,
}

impl WrongGuesses {
    /// The number of wrong guesses at the time `now`.
    pub fn count(&self, limit: &GuessLimit, now: Instant) -> u32 {
        let is_forgotten = |last| now.saturating_duration_since(last) >= limit.memory;
        if self.last.is_none_or(is_forgotten) {
            return 0;
        }
        self.count
    }

    /// Time from `now` until the next guess is judged.
    pub fn wait(&self, limit: &GuessLimit, now: Instant) -> Option<Duration> {
        let over = self.count(limit, now).checked_sub(limit.free)?;
        let factor = 1_u32.checked_shl(over).unwrap_or(u32::MAX);
        let whole = limit.first_wait.saturating_mul(factor).min(limit.wait_max);
        let passed = now.saturating_duration_since(self.last?);
        let wait = whole.saturating_sub(passed);
        (!wait.is_zero()).then_some(wait)
    }

    /// Counts a wrong guess.
    pub fn add(&mut self, limit: &GuessLimit, now: Instant) {
        self.count = self.count(limit, now).saturating_add(1);
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: GuessLimit = GuessLimit {
        free: 3,
        first_wait: Duration::from_secs(1),
        wait_max: Duration::from_secs(60),
        memory: Duration::from_secs(3600),
    };

    #[test]
    fn waits_grow_and_end() {
        let (mut guesses, now) = (WrongGuesses::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..12 {
            guesses.add(&LIMIT, now);
            waits.push(guesses.wait(&LIMIT, now).map_or(0, |wait| wait.as_secs()));
        }
        assert_eq!(waits, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert_eq!(guesses.wait(&LIMIT, now + LIMIT.wait_max), None);
        for _ in 0..100 {
            guesses.add(&LIMIT, now);
        }
        assert_eq!(guesses.wait(&LIMIT, now), Some(LIMIT.wait_max));
        assert_eq!(guesses.count(&LIMIT, now), 112);
    }

    #[test]
    fn guesses_are_forgotten_after_the_last_one() {
        let (mut guesses, start) = (WrongGuesses::default(), Instant::now());
        assert_eq!(guesses.count(&LIMIT, start), 0);
        for minute in 0..10 {
            guesses.add(&LIMIT, start + Duration::from_secs(60 * minute));
        }
        let last = start + Duration::from_secs(540);
        assert_eq!(guesses.count(&LIMIT, last + LIMIT.memory / 2), 10);
        assert_eq!(guesses.count(&LIMIT, last + LIMIT.memory), 0);
        guesses.add(&LIMIT, last + LIMIT.memory);
        assert_eq!(guesses.count(&LIMIT, last + LIMIT.memory), 1);
    }
}
