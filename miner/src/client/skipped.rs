//! The odd messages of an endpoint: they are skipped, counted, and logged at a bounded rate. Too
//! many of them end the session.

use core::fmt;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::ClientStats;

use super::error::ClientError;

/// The most messages that are skipped within [`SKIPPED_PERIOD`].
const SKIPPED_MAX: usize = 100;
/// The time in which skipped messages are counted.
const SKIPPED_PERIOD: Duration = Duration::from_secs(60);
/// The most lines in a row that are not JSON. After so many the other side is no pool, or the
/// borders of its lines are lost.
const NOT_JSON_MAX: u32 = 16;

/// Lines that may be logged at once.
const LOG_BURST: u32 = 5;
/// After this time another line may be logged.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Counts the messages of an endpoint that are skipped during one session.
pub(super) struct SkippedMessages {
    /// The index of the endpoint.
    endpoint: usize,
    url: String,
    stats: Arc<ClientStats>,
    /// The times at which the latest messages were skipped, at most [`SKIPPED_MAX`].
    times: VecDeque<Instant>,
    not_json: u32,
    log: LogLimit,
}

impl SkippedMessages {
    /// No message of endpoint number `endpoint` at `url` is skipped yet.
    pub(super) fn new(endpoint: usize, url: String, stats: Arc<ClientStats>) -> Self {
        Self {
            endpoint,
            url,
            stats,
            times: VecDeque::new(),
            not_json: 0,
            log: LogLimit::default(),
        }
    }

    /// Counts and logs a message that was skipped at the time `now` for `reason`.
    ///
    /// # Errors
    /// [`ClientError::OddMessages`] if these are too many.
    pub(super) fn count(&mut self, reason: &dyn fmt::Display, now: Instant) -> Result<(), ClientError> {
        self.stats.count_skipped(self.endpoint);
        if let Some(unlogged) = self.log.admit(now) {
            tracing::warn!(endpoint = %self.url, unlogged, "message skipped: {reason}");
        }
        while (self.times.front()).is_some_and(|time| now.duration_since(*time) > SKIPPED_PERIOD) {
            self.times.pop_front();
        }
        if self.times.len() >= SKIPPED_MAX {
            return Err(ClientError::OddMessages {
                got: self.times.len() + 1,
                what: "within a minute",
                max: SKIPPED_MAX,
                last: reason.to_string(),
            });
        }
        self.times.push_back(now);
        Ok(())
    }

    /// Counts and logs a line that was skipped because it is not JSON.
    ///
    /// # Errors
    /// [`ClientError::OddMessages`] if these are too many, or too many in a row.
    pub(super) fn count_not_json(
        &mut self,
        reason: &dyn fmt::Display,
        now: Instant,
    ) -> Result<(), ClientError> {
        self.not_json += 1;
        self.count(reason, now)?;
        if self.not_json > NOT_JSON_MAX {
            return Err(ClientError::OddMessages {
                got: self.not_json as usize,
                what: "in a row that are not JSON",
                max: NOT_JSON_MAX as usize,
                last: reason.to_string(),
            });
        }
        Ok(())
    }

    /// Records a line that is JSON.
    pub(super) const fn note_json(&mut self) {
        self.not_json = 0;
    }
}

/// Bounds how many lines of one kind are logged: a few at once, and then one in a while.
#[derive(Debug, Default)]
pub(super) struct LogLimit {
    /// Lines that were logged and still count.
    recent: u32,
    /// The time at which `recent` was last reduced.
    since: Option<Instant>,
    /// Lines since the last one that was logged.
    unlogged: u64,
}

impl LogLimit {
    /// Whether a line may be logged at the time `now`. If so, returns how many lines before it were
    /// not.
    pub(super) fn admit(&mut self, now: Instant) -> Option<u64> {
        let since = *self.since.get_or_insert(now);
        let passed = now.duration_since(since).as_millis() / LOG_EVERY.as_millis();
        if passed > 0 {
            self.since = Some(now);
            self.recent = self
                .recent
                .saturating_sub(u32::try_from(passed).unwrap_or(u32::MAX));
        }
        if self.recent >= LOG_BURST {
            self.unlogged += 1;
            return None;
        }
        self.recent += 1;
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped() -> (SkippedMessages, Arc<ClientStats>) {
        let stats = Arc::new(ClientStats::new(["http://a".into()]));
        let skipped = SkippedMessages::new(0, "http://a".into(), Arc::clone(&stats));
        (skipped, stats)
    }

    #[test]
    fn a_flood_is_an_error_and_the_same_number_in_a_longer_time_is_not() {
        let start = Instant::now();
        let (mut slow, stats) = skipped();
        for second in 0..1000 {
            slow.count(&"odd", start + Duration::from_secs(second))
                .expect("one a second");
        }
        assert_eq!(stats.status().endpoints[0].skipped, 1000);
        assert!(slow.times.len() <= SKIPPED_MAX);
        let (mut fast, _) = skipped();
        for _ in 0..SKIPPED_MAX {
            fast.count(&"odd", start).expect("not too many");
        }
        let error = fast.count(&"the last", start).expect_err("one too many");
        assert_eq!(
            error.to_string(),
            "odd messages: got 101 within a minute, expected at most 100; the last: the last"
        );
    }

    #[test]
    fn lines_that_are_not_json_are_counted_in_a_row() {
        let now = Instant::now();
        let (mut skipped, _) = skipped();
        for _ in 0..3 {
            for _ in 0..NOT_JSON_MAX {
                skipped.count_not_json(&"odd", now).expect("not too many");
            }
            skipped.note_json();
        }
        for _ in 0..NOT_JSON_MAX {
            skipped.count_not_json(&"odd", now).expect("not too many");
        }
        let error = skipped.count_not_json(&"odd", now).expect_err("one too many");
        assert!(error.to_string().contains("got 17 in a row"), "{error}");
    }

    #[test]
    fn a_few_lines_are_logged_at_once_and_then_one_in_a_while() {
        let mut limit = LogLimit::default();
        let start = Instant::now();
        let admitted = (0..100).filter(|_| limit.admit(start).is_some()).count();
        assert_eq!(admitted, LOG_BURST as usize);
        assert_eq!(limit.admit(start + LOG_EVERY), Some(95));
        assert_eq!(limit.admit(start + LOG_EVERY), None);
        // Ten lines a second for an hour.
        let logged = (0..36_000)
            .filter(|tenth| {
                limit
                    .admit(start + LOG_EVERY + Duration::from_millis(tenth * 100))
                    .is_some()
            })
            .count();
        assert!((359..=366).contains(&logged), "{logged}");
    }
}
