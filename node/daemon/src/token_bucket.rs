//! Limits how often something may happen: a bucket of tokens that fills up steadily. Knows only
//! counts and times.

use std::time::{Duration, Instant};

/// Longest time after which somebody without a token should try again.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// The size of a bucket, and the rate at which it fills up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenRate {
    /// The most tokens that a bucket holds.
    pub burst: f64,
    /// Tokens that are added in a second.
    pub per_second: f64,
}

/// A bucket of tokens.
#[derive(Debug)]
pub struct TokenBucket {
    rate: TokenRate,
    tokens: f64,
    filled_at: Instant,
    /// The time at which the last one of those who wait should try again.
    next_try: Instant,
}

impl TokenBucket {
    /// A full bucket.
    pub const fn new(rate: TokenRate, now: Instant) -> Self {
        Self {
            rate,
            tokens: rate.burst,
            filled_at: now,
            next_try: now,
        }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// If there is none, the time after which the caller should try again. Callers get different
    /// times, so that they do not all try at once.
    pub fn try_take(&mut self, now: Instant) -> Result<(), Duration> {
        if self.has_token(now) {
            self.tokens -= 1.0;
            return Ok(());
        }
        let until_token = self.until_token(now);
        let between_tokens = Duration::from_secs_f64(1.0 / self.rate.per_second);
        self.next_try = (self.next_try + between_tokens)
            .max(now + until_token)
            .min(now + RETRY_MAX);
        Err(self.next_try.saturating_duration_since(now))
    }

    /// Takes up to `count` tokens. Returns how many it has taken.
    pub fn take_up_to(&mut self, count: usize, now: Instant) -> usize {
        self.has_token(now);
        // The burst is far below 2^53, so nothing is lost.
        let taken = count.min(self.tokens as usize);
        self.tokens -= taken as f64;
        taken
    }

    /// The time until there is a token.
    pub fn until_token(&mut self, now: Instant) -> Duration {
        match self.has_token(now) {
            true => Duration::ZERO,
            false => Duration::from_secs_f64((1.0 - self.tokens) / self.rate.per_second),
        }
    }

    /// Whether there is a token.
    pub fn has_token(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.filled_at).as_secs_f64();
        self.filled_at = self.filled_at.max(now);
        self.give(elapsed * self.rate.per_second);
        self.tokens >= 1.0
    }

    /// Adds tokens, up to the most that the bucket holds.
    pub fn give(&mut self, tokens: f64) {
        self.tokens = (self.tokens + tokens).min(self.rate.burst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: TokenRate = TokenRate {
        burst: 3.0,
        per_second: 2.0,
    };

    #[test]
    fn tokens_come_at_the_rate_and_up_to_the_burst() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(RATE, start);
        let mut taken_at = |milliseconds: u64| {
            let now = start + Duration::from_millis(milliseconds);
            std::iter::from_fn(|| bucket.try_take(now).ok()).count()
        };
        assert_eq!([0, 400, 500, 1000, 9000].map(&mut taken_at), [3, 0, 1, 1, 3]);
        bucket.give(100.0);
        assert_eq!(bucket.tokens, RATE.burst);
    }

    #[test]
    fn several_tokens_are_taken_at_once() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(RATE, start);
        assert_eq!(bucket.take_up_to(2, start), 2);
        assert_eq!(bucket.until_token(start), Duration::ZERO);
        assert_eq!(bucket.take_up_to(1000, start), 1);
        assert_eq!(bucket.take_up_to(1, start), 0);
        assert_eq!(bucket.until_token(start), Duration::from_millis(500));
        let later = start + Duration::from_millis(1250);
        assert_eq!(bucket.take_up_to(1000, later), 2, "half a token is left");
        assert_eq!(bucket.until_token(later), Duration::from_millis(250));
    }

    #[test]
    fn those_who_wait_try_again_at_different_times() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(RATE, start);
        let waits: Vec<_> = std::iter::from_fn(|| Some(bucket.try_take(start).err()))
            .take(8)
            .flatten()
            .map(|wait| wait.as_millis())
            .collect();
        assert_eq!(waits, [500, 1000, 1500, 2000, 2000], "at most {RETRY_MAX:?}");
    }
}
