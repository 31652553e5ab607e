//! Shares of this node's work: each is used up by whoever causes the work, and grows back with
//! time.
//!
//! Knows no clock: each call gets the time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use primitives::B512;

use crate::address;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareRate {
    /// So much may be used up at once.
    pub burst: u64,
    /// So much of it comes back in a second.
    pub per_second: u64,
}

/// The part of a share that was used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsedShare {
    /// In millionths, so that microseconds count.
    millionths: u128,
    at: Duration,
}

const MILLION: u128 = 1_000_000;

impl UsedShare {
    fn settle(&mut self, rate: ShareRate, now: Duration) {
        let back = now.saturating_sub(self.at).as_micros() * u128::from(rate.per_second);
        self.millionths = self.millionths.saturating_sub(back);
        self.at = self.at.max(now);
    }

    /// Uses up `units`, even if fewer are left.
    pub(crate) fn use_up(&mut self, units: u64, rate: ShareRate, now: Duration) {
        self.settle(rate, now);
        self.millionths += u128::from(units) * MILLION;
    }

    /// Uses up `units` if anything is left. Returns whether something was.
    pub(crate) fn try_use(&mut self, units: u64, rate: ShareRate, now: Duration) -> bool {
        let is_left = self.wait(rate, now).is_zero();
        if is_left {
            self.use_up(units, rate, now);
        }
        is_left
    }

    /// The time until something is left. Zero if something is.
    pub(crate) fn wait(&mut self, rate: ShareRate, now: Duration) -> Duration {
        self.settle(rate, now);
        let over = self.millionths.saturating_sub(u128::from(rate.burst) * MILLION);
        let micros = over.div_ceil(u128::from(rate.per_second.max(1)));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

/// Holders whose shares are remembered. The one that has used the least is forgotten first.
pub(crate) const SHARE_HOLDERS_MAX: usize = 4096;

/// The holder of a share that the work for a peer uses up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ShareHolder {
    /// All strangers of one address: a new key brings no new share.
    Host(IpAddr),
    /// One node. Many nodes of one owner may be behind a local address.
    Node(B512),
}

impl ShareHolder {
    /// The holder for a node at this address. Static and trusted nodes are exempt from sharing.
    pub(crate) const fn of(node: B512, address: IpAddr, is_exempt: bool) -> Self {
        if is_exempt || address::is_local(address) {
            Self::Node(node)
        } else {
            Self::Host(address::host(address))
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct HeldShares {
    rate: ShareRate,
    used: HashMap<ShareHolder, UsedShare>,
}

impl HeldShares {
    /// Nothing is used up.
    pub(crate) fn new(rate: ShareRate) -> Self {
        Self {
            rate,
            used: HashMap::new(),
        }
    }

    /// Uses up `units` of a share, even if fewer are left.
    pub(crate) fn use_up(&mut self, holder: ShareHolder, units: u64, now: Duration) {
        if units == 0 {
            return;
        }
        if self.used.len() >= SHARE_HOLDERS_MAX && !self.used.contains_key(&holder) {
            self.make_room(now);
        }
        let rate = self.rate;
        self.used.entry(holder).or_default().use_up(units, rate, now);
    }

    /// Uses up `units` if anything is left. Returns whether something was.
    pub(crate) fn try_use(&mut self, holder: ShareHolder, units: u64, now: Duration) -> bool {
        let is_left = self.wait(holder, now).is_zero();
        if is_left {
            self.use_up(holder, units, now);
        }
        is_left
    }

    /// The time until something is left.
    pub(crate) fn wait(&mut self, holder: ShareHolder, now: Duration) -> Duration {
        let rate = self.rate;
        let used = self.used.get_mut(&holder);
        used.map_or(Duration::ZERO, |used| used.wait(rate, now))
    }

    fn make_room(&mut self, now: Duration) {
        let rate = self.rate;
        self.used.retain(|_, used| {
            used.settle(rate, now);
            used.millionths > 0
        });
        let least = self.used.iter().min_by_key(|(_, used)| used.millionths);
        if self.used.len() >= SHARE_HOLDERS_MAX
            && let Some(least) = least.map(|(holder, _)| *holder)
        {
            self.used.remove(&least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: ShareRate = ShareRate {
        burst: 100,
        per_second: 10,
    };

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_share_grows_back() {
        let mut used = UsedShare::default();
        used.use_up(100, RATE, seconds(1));
        assert_eq!(used.wait(RATE, seconds(1)), Duration::ZERO);
        assert!(used.try_use(50, RATE, seconds(1)), "the last one may take more");
        assert!(!used.try_use(1, RATE, seconds(1)));
        assert_eq!(used.wait(RATE, seconds(1)), seconds(5));
        // Many looks in between lose nothing.
        for micros in (0..5_000_000).step_by(7) {
            used.wait(RATE, seconds(1) + Duration::from_micros(micros));
        }
        assert_eq!(used.wait(RATE, seconds(6)), Duration::ZERO);
        // A clock that stands still gives nothing back twice.
        assert_eq!(used.wait(RATE, seconds(2)), Duration::ZERO);
        used.use_up(10, RATE, seconds(6));
        assert_eq!(used.wait(RATE, seconds(2)), seconds(1));
    }

    #[test]
    fn one_user_has_one_share() {
        let stranger = |mark: u8, text: &str| {
            let address = text.parse().expect("an address");
            ShareHolder::of(B512::repeat_byte(mark), address, false)
        };
        let mut shares = HeldShares::new(RATE);
        shares.use_up(stranger(1, "2001:db8:0:1::1"), 200, seconds(0));
        let mut wait = |holder| shares.wait(holder, seconds(0));
        assert_eq!(wait(stranger(2, "2001:db8:0:1:ffff::9")), seconds(10));
        assert_eq!(wait(stranger(1, "2001:db8:0:2::1")), Duration::ZERO);
        shares.use_up(stranger(1, "::ffff:198.51.100.3"), 110, seconds(0));
        let mut wait = |holder| shares.wait(holder, seconds(0));
        assert_eq!(wait(stranger(2, "198.51.100.3")), seconds(1));
        assert_eq!(wait(stranger(1, "198.51.100.4")), Duration::ZERO);
        assert!(!shares.try_use(stranger(3, "198.51.100.3"), 1, seconds(0)));
        assert!(shares.try_use(stranger(3, "198.51.100.3"), 1, seconds(1)));
    }

    #[test]
    fn nodes_of_one_owner_have_a_share_each() {
        let holder = |mark: u8, text: &str, is_exempt| {
            let address = text.parse().expect("an address");
            ShareHolder::of(B512::repeat_byte(mark), address, is_exempt)
        };
        for (address, is_exempt) in [
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("fd00::1", false),
            ("::ffff:192.168.1.1", false),
            ("198.51.100.3", true),
        ] {
            let mut shares = HeldShares::new(RATE);
            shares.use_up(holder(1, address, is_exempt), 200, seconds(0));
            let mut wait = |mark| shares.wait(holder(mark, address, is_exempt), seconds(0));
            assert_eq!((wait(1), wait(2)), (seconds(10), Duration::ZERO), "{address}");
        }
    }

    #[test]
    fn the_holders_are_bounded_and_the_busiest_are_remembered() {
        let mut shares = HeldShares::new(RATE);
        let host = |number: u32| ShareHolder::Host(IpAddr::from(number.to_be_bytes()));
        shares.use_up(host(1), 1000, seconds(0));
        for number in 0..2 * SHARE_HOLDERS_MAX as u32 {
            shares.use_up(host(number | 0x2000_0000), 1, seconds(0));
            assert!(shares.used.len() <= SHARE_HOLDERS_MAX);
        }
        assert_eq!(shares.wait(host(1), seconds(0)), seconds(90));
        // Shares that have grown back are forgotten.
        shares.use_up(host(9), 1, seconds(1));
        assert_eq!(shares.used.len(), 2);
    }
}
