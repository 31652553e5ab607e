//! The number of shares of a connection that may be hashed.
//!
//! Hashing a share without a full dataset takes milliseconds, and sending one costs nothing. So
//! shares that show work pay for the next ones: a miner of whose shares at least half show work
//! never waits. Other shares are hashed at a low rate, of each connection and of each address.

use std::time::{Duration, Instant};

use daemon::{TokenBucket, TokenRate};

use crate::addresses::AddressLease;

/// Hashes that a share with work earns.
const EARNED_BY_WORK: u32 = 2;
/// Most earned hashes that a connection can keep.
const EARNED_MAX: u32 = 64;
/// Hashes that a connection gets without having earned them.
const UNEARNED: TokenRate = TokenRate {
    burst: 8.0,
    per_second: 2.0,
};

/// The hashes that a connection may cause.
#[derive(Debug)]
pub(crate) struct CheckAllowance {
    earned: u32,
    unearned: TokenBucket,
}

/// The payment for a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckPayment {
    /// By earlier shares of the connection.
    Earned,
    /// The allowance of every connection, and of its address.
    Unearned,
}

impl CheckAllowance {
    /// The allowance of a new connection.
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            earned: 0,
            unearned: TokenBucket::new(UNEARNED, now),
        }
    }

    /// Takes the right to check a share.
    ///
    /// # Errors
    /// If there is none, the time after which to try again.
    pub(crate) fn take(&mut self, address: &AddressLease, now: Instant) -> Result<CheckPayment, Duration> {
        if let Some(left) = self.earned.checked_sub(1) {
            self.earned = left;
            return Ok(CheckPayment::Earned);
        }
        if self.unearned.has_token(now) {
            address.try_check(now)?;
        }
        self.unearned.try_take(now)?;
        Ok(CheckPayment::Unearned)
    }

    /// Counts a share that shows work. `payment` is how its check was paid for.
    pub(crate) fn earn(&mut self, payment: CheckPayment, address: &AddressLease) {
        self.earned = (self.earned + EARNED_BY_WORK).min(EARNED_MAX);
        // So many rigs that start behind one address do not wait for each other.
        if payment == CheckPayment::Unearned {
            address.give_checks(EARNED_BY_WORK);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::addresses::AddressBook;

    fn lease(now: Instant) -> AddressLease {
        let book = AddressBook::new(10_000, None);
        let address = IpAddr::from(Ipv4Addr::LOCALHOST).into();
        book.enter(address, now).expect("not banned")
    }

    #[test]
    fn false_shares_are_hashed_at_a_low_rate() {
        let start = Instant::now();
        let address = lease(start);
        let mut checked = 0;
        let mut allowances: Vec<_> = (0..20).map(|_| CheckAllowance::new(start)).collect();
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            for allowance in &mut allowances {
                checked += (0..100).filter(|_| allowance.take(&address, now).is_ok()).count();
            }
        }
        assert_eq!(checked, 128 + 59 * 8, "what the address gets");
        let alone = lease(start);
        let mut allowance = CheckAllowance::new(start);
        let mut taken_at = |seconds| {
            let now = start + Duration::from_secs(seconds);
            (0..100).filter(|_| allowance.take(&alone, now).is_ok()).count()
        };
        assert_eq!([taken_at(0), taken_at(1)], [8, 2], "what one connection gets");
    }

    #[test]
    fn work_pays_for_itself_and_for_as_many_bad_shares() {
        let now = Instant::now();
        let address = lease(now);
        // A thousand rigs start behind one address. They send their shares in turn.
        for _ in 0..1000 {
            let mut allowance = CheckAllowance::new(now);
            for share in 0..100 {
                let payment = allowance.take(&address, now).expect("it does not wait");
                if share % 2 == 0 {
                    allowance.earn(payment, &address);
                }
            }
        }
    }
}
