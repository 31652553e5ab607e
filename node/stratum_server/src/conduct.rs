//! Judges a miner by its shares of the last minutes. Knows only counts and times.
//!
//! A bad share shows no work: its hash is too high, its mix hash is wrong, its job does not exist,
//! or it was sent before. A stale share shows work, so it is not bad. Every rig has some bad
//! shares, and one that runs too fast has many. So a miner is judged only after several bad
//! shares, and only by the part of its shares that is bad:
//!
//! | bad shares | part of all shares | what happens |
//! |---|---|---|
//! | [`SLOW_BAD_MIN`] | more than half | every further bad share is followed by a pause |
//! | [`CUT_OFF_BAD_MIN`] | more than two thirds | the connection is closed |
//! | [`BAN_BAD_MIN`] of an address | more than two thirds | the address is banned |

use std::time::{Duration, Instant};

/// Bad shares of a connection before it is slowed.
pub(crate) const SLOW_BAD_MIN: u64 = 10;
/// Bad shares of a connection before it is closed.
pub(crate) const CUT_OFF_BAD_MIN: u64 = 30;
/// Bad shares of an address before it is banned. Several connections take part in it, or one that
/// came back after it was closed.
pub(crate) const BAN_BAD_MIN: u64 = 100;
/// Shares are counted for this time at least, and for twice this time at most.
const COUNT_TIME: Duration = Duration::from_secs(300);

/// The quality of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShareQuality {
    /// The share shows work, also if it is stale.
    Work,
    Bad,
}

/// The treatment of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    Normal,
    Slow,
    CutOff,
}

/// Numbers of shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecentShares {
    pub(crate) work: u64,
    pub(crate) bad: u64,
}

impl RecentShares {
    /// The treatment of a connection with these shares.
    pub(crate) const fn treatment(self) -> Treatment {
        if self.bad >= CUT_OFF_BAD_MIN && self.is_two_thirds_bad() {
            Treatment::CutOff
        } else if self.bad >= SLOW_BAD_MIN && self.bad > self.work {
            Treatment::Slow
        } else {
            Treatment::Normal
        }
    }

    /// Whether an address with these shares is banned.
    pub(crate) const fn is_ban(self) -> bool {
        self.bad >= BAN_BAD_MIN && self.is_two_thirds_bad()
    }

    /// Whether a connection with these shares ends when its address is banned. A rig that has sent
    /// no bad share stays, also if it has found no share yet: the bad ones came from others.
    pub(crate) const fn ends_with_ban(self) -> bool {
        self.bad > 0 && self.bad >= self.work
    }

    const fn is_two_thirds_bad(self) -> bool {
        self.bad > 2 * self.work
    }
}

/// The shares of the last minutes.
#[derive(Debug)]
pub(crate) struct ShareRecord {
    current: RecentShares,
    previous: RecentShares,
    /// The begin of `current`.
    begun_at: Instant,
}

impl ShareRecord {
    /// A record without shares.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            current: RecentShares::default(),
            previous: RecentShares::default(),
            begun_at: now,
        }
    }

    /// Counts a share.
    pub(crate) fn count(&mut self, quality: ShareQuality, now: Instant) {
        self.forget_old(now);
        match quality {
            ShareQuality::Work => self.current.work += 1,
            ShareQuality::Bad => self.current.bad += 1,
        }
    }

    /// The shares of the last minutes.
    pub(crate) fn counts(&mut self, now: Instant) -> RecentShares {
        self.forget_old(now);
        RecentShares {
            work: self.current.work + self.previous.work,
            bad: self.current.bad + self.previous.bad,
        }
    }

    fn forget_old(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.begun_at);
        if elapsed < COUNT_TIME {
            return;
        }
        let current = std::mem::take(&mut self.current);
        self.previous = if elapsed < 2 * COUNT_TIME {
            current
        } else {
            RecentShares::default()
        };
        self.begun_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The treatments of a connection of whose shares `bad_of_ten` in ten are bad, share by share.
    fn treatments(bad_of_ten: u64, shares: u64) -> Vec<Treatment> {
        let now = Instant::now();
        let mut record = ShareRecord::new(now);
        // Multiplying by 7 mixes the bad ones with the others.
        let qualities = (0..shares).map(|share| {
            if share * 7 % 10 < bad_of_ten {
                ShareQuality::Bad
            } else {
                ShareQuality::Work
            }
        });
        let mut treatment_after = |quality| {
            record.count(quality, now);
            record.counts(now).treatment()
        };
        qualities.map(&mut treatment_after).collect()
    }

    #[test]
    fn a_rig_with_many_bad_shares_is_treated_like_others() {
        for bad_of_ten in 0..=4 {
            let treatments = treatments(bad_of_ten, 1000);
            assert!(
                treatments.iter().all(|treatment| *treatment == Treatment::Normal),
                "{bad_of_ten} in ten are bad"
            );
        }
        let sixty_percent = treatments(6, 1000);
        assert!(!sixty_percent.contains(&Treatment::CutOff), "it still does work");
    }

    #[test]
    fn false_shares_are_slowed_and_then_cut_off() {
        let treatments = treatments(10, 30);
        assert_eq!(treatments[8..=9], [Treatment::Normal, Treatment::Slow]);
        assert_eq!(treatments[28..], [Treatment::Slow, Treatment::CutOff]);
    }

    #[test]
    fn an_address_is_banned_only_if_most_of_its_shares_are_bad() {
        let counts = |work, bad| RecentShares { work, bad };
        assert!(!counts(0, BAN_BAD_MIN - 1).is_ban(), "they are few");
        assert!(counts(0, BAN_BAD_MIN).is_ban());
        assert!(!counts(BAN_BAD_MIN / 2, BAN_BAD_MIN).is_ban(), "others do work");
    }

    #[test]
    fn a_ban_ends_only_connections_that_took_part() {
        let ends = |work, bad| RecentShares { work, bad }.ends_with_ban();
        assert!(!ends(0, 0), "its first share may seal a block");
        assert!(!ends(1, 0) && !ends(10, 9));
        assert!(ends(0, 1) && ends(1, 1) && ends(9, 10));
    }

    #[test]
    fn old_shares_are_forgotten() {
        let start = Instant::now();
        let mut record = ShareRecord::new(start);
        record.count(ShareQuality::Bad, start);
        let bad_at = |record: &mut ShareRecord, time| record.counts(start + time).bad;
        assert_eq!(bad_at(&mut record, COUNT_TIME), 1);
        assert_eq!(bad_at(&mut record, 2 * COUNT_TIME), 0);
        record.count(ShareQuality::Bad, start + 2 * COUNT_TIME);
        assert_eq!(bad_at(&mut record, 9 * COUNT_TIME), 0);
    }
}
