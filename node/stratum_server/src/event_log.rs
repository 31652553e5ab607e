//! Log lines about what clients can cause as often as they like.
//!
//! Some lines of each kind are written every minute. The others are counted, and a line at the end
//! of the minute says how many they were.

use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Most lines of one kind in a minute.
const LINES_MAX: u64 = 20;
/// Time between two summaries.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(60);
/// Number of kinds.
const KINDS: usize = 5;

/// The subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoggedEvent {
    Connected,
    Disconnected,
    TurnedAway,
    Banned,
    CannotJudge,
}

impl LoggedEvent {
    const ALL: [Self; KINDS] = [
        Self::Connected,
        Self::Disconnected,
        Self::TurnedAway,
        Self::Banned,
        Self::CannotJudge,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Connected => "workers connected",
            Self::Disconnected => "workers disconnected",
            Self::TurnedAway => "connections turned away",
            Self::Banned => "addresses banned",
            Self::CannotJudge => "shares not judged",
        }
    }
}

/// The number of lines of each kind that were not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OmittedLines([u64; KINDS]);

/// As `12 workers connected, 3 workers disconnected`.
impl fmt::Display for OmittedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let omitted = LoggedEvent::ALL
            .iter()
            .zip(self.0)
            .filter(|(_, count)| *count > 0);
        for (index, (event, count)) in omitted.enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{count} {}", event.name())?;
        }
        Ok(())
    }
}

/// Counts the lines of the current minute.
#[derive(Debug)]
pub(crate) struct EventLog(Mutex<EventCounts>);

#[derive(Debug)]
struct EventCounts {
    begun_at: Instant,
    events: [u64; KINDS],
}

impl EventLog {
    /// A log without lines.
    pub(crate) const fn new(now: Instant) -> Self {
        Self(Mutex::new(EventCounts {
            begun_at: now,
            events: [0; KINDS],
        }))
    }

    /// Counts an event. Returns whether its line should be written.
    pub(crate) fn allows(&self, event: LoggedEvent) -> bool {
        let count = &mut self.0.lock().events[event as usize];
        *count += 1;
        *count <= LINES_MAX
    }

    /// Ends the minute if it is over. Returns the lines that were not written in it, if any.
    pub(crate) fn end_minute(&self, now: Instant) -> Option<OmittedLines> {
        let counts = &mut *self.0.lock();
        if now.saturating_duration_since(counts.begun_at) < SUMMARY_INTERVAL {
            return None;
        }
        counts.begun_at = now;
        let events = std::mem::take(&mut counts.events);
        let omitted = OmittedLines(events.map(|count| count.saturating_sub(LINES_MAX)));
        (omitted.0.iter().sum::<u64>() > 0).then_some(omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_limited_and_the_others_counted() {
        let start = Instant::now();
        let log = EventLog::new(start);
        let written = (0..1000).filter(|_| log.allows(LoggedEvent::Connected)).count();
        assert_eq!(written as u64, LINES_MAX);
        assert!(log.allows(LoggedEvent::Banned), "each kind has lines of its own");
        for _ in 0..LINES_MAX + 2 {
            log.allows(LoggedEvent::Disconnected);
        }
        assert_eq!(log.end_minute(start), None, "the minute is not over");
        let end = start + SUMMARY_INTERVAL;
        let omitted = log.end_minute(end).expect("lines were left out");
        assert_eq!(
            omitted.to_string(),
            "980 workers connected, 2 workers disconnected"
        );
        assert!(log.allows(LoggedEvent::Connected), "the next minute");
        assert_eq!(log.end_minute(end + SUMMARY_INTERVAL), None);
    }

    #[test]
    fn every_kind_has_its_own_count() {
        for (index, event) in LoggedEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, index);
        }
    }
}
