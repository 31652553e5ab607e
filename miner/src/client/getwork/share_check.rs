//! Finds out whether a source of work accepts several solutions of one header, as one does that
//! gives work for shares.
//!
//! A node gives other work soon after it has accepted a solution. Further solutions of the old work
//! would be useless. So a header is searched on after its first solution only if the source still
//! gives that header some time after it has accepted the solution. Knows no clock.

use std::time::{Duration, Instant};

use ethash::B256;

/// A node gives new work within this time after it has accepted a solution.
pub(super) const NEW_WORK_TIMEOUT: Duration = Duration::from_millis(1500);

/// The answers of a source, as far as they show whether it pays shares.
#[derive(Debug, Default)]
pub(super) struct ShareCheck {
    /// The header hash of the last accepted solution, and the time of its answer.
    accepted: Option<(B256, Instant)>,
    pays_shares: bool,
}

impl ShareCheck {
    /// Whether further solutions of a header are useful.
    pub(super) const fn pays_shares(&self) -> bool {
        self.pays_shares
    }

    /// Notes that a solution of `header_hash` was accepted at the time `now`.
    pub(super) const fn note_accepted(&mut self, header_hash: B256, now: Instant) {
        self.accepted = Some((header_hash, now));
    }

    /// Notes that a solution of `header_hash` was refused. Returns whether the last accepted
    /// solution has the same header. Then it is over.
    pub(super) fn note_refused(&mut self, header_hash: B256) -> bool {
        let is_over = self.accepted.is_some_and(|(accepted, _)| accepted == header_hash);
        if is_over {
            *self = Self::default();
        }
        is_over
    }

    /// Notes that the source has given `header_hash`, when it was asked at the time `asked`.
    pub(super) fn note_work(&mut self, header_hash: B256, asked: Instant) {
        self.pays_shares |= self.accepted.is_some_and(|(accepted, at)| {
            accepted == header_hash && asked.saturating_duration_since(at) >= NEW_WORK_TIMEOUT
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_that_stays_after_a_solution_is_work_for_shares() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let [first, second, third] = [1, 2, 3].map(B256::repeat_byte);
        let mut check = ShareCheck::default();
        check.note_work(first, at(9000));
        assert!(!check.pays_shares(), "no solution was accepted");
        check.note_accepted(first, at(10_000));
        // A node is still at work on the new block.
        check.note_work(first, at(9900));
        check.note_work(first, at(11_400));
        check.note_work(second, at(20_000));
        assert!(!check.pays_shares());
        assert!(!check.note_refused(second), "the first solution of this header");
        assert!(check.note_refused(first), "the header has its solution");

        check.note_accepted(second, at(30_000));
        check.note_work(second, at(31_500));
        assert!(check.pays_shares());
        check.note_work(third, at(32_000));
        check.note_accepted(third, at(33_000));
        assert!(!check.note_refused(second), "late");
        assert!(check.pays_shares(), "it stays so for other headers");
        assert!(check.note_refused(third));
        check.note_work(third, at(40_000));
        assert!(
            !check.pays_shares(),
            "the source accepts one solution of a header"
        );
    }
}
