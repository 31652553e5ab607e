//! The memory of the addresses of miners: their shares of the last minutes, their
//! wrong passwords, how much of the server they use, and which ones are banned.
//!
//! The number of addresses is bounded, and an address about which nothing bad is known is
//! forgotten with its last connection. Knows no sockets.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::{ClientAddress, GuessLimit, SecretDigest, TokenBucket, TokenRate, WrongGuesses};
use parking_lot::Mutex;

use crate::conduct::{RecentShares, ShareQuality, ShareRecord};

/// Most addresses without a connection that are remembered.
const REMEMBERED_MAX: usize = 8192;
/// Hashes for the shares of connections that have not earned them (`CheckAllowance`).
const CHECKS: TokenRate = TokenRate {
    burst: 128.0,
    per_second: 8.0,
};
/// Lines of all connections.
const LINES: TokenRate = TokenRate {
    burst: 8000.0,
    per_second: 2000.0,
};

/// The waits after wrong passwords.
const GUESSES: GuessLimit = GuessLimit {
    free: 8,
    first_wait: Duration::from_secs(1),
    wait_max: Duration::from_secs(60),
    memory: Duration::from_secs(3600),
};
/// Wrong passwords of an address before it is banned.
const BAN_GUESSES_MIN: u32 = 20;
/// Most wrong passwords of an address that are remembered, 1 KiB. They are those that came last.
const KNOWN_GUESSES_MAX: usize = 32;

/// The addresses of miners. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct AddressBook {
    records: Arc<Mutex<HashMap<ClientAddress, Arc<Mutex<AddressRecord>>>>>,
    records_max: usize,
    /// Time of a ban; `None`: there are no bans.
    ban_time: Option<Duration>,
}

/// The memory of one address.
#[derive(Debug)]
struct AddressRecord {
    connections: usize,
    /// The number of connections that have logged in.
    logged_in: usize,
    last_seen: Instant,
    shares: ShareRecord,
    checks: TokenBucket,
    lines: TokenBucket,
    guesses: WrongGuesses,
    /// Different wrong passwords, the one that came last at the end.
    known_guesses: VecDeque<SecretDigest>,
    banned_until: Option<Instant>,
}

/// The record of an address, for one of its connections.
#[derive(Debug)]
pub(crate) struct AddressLease {
    address: ClientAddress,
    record: Arc<Mutex<AddressRecord>>,
    book: AddressBook,
    is_logged_in: bool,
}

/// The consequence of a wrong password, besides the waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuessPenalty {
    None,
    /// The connection ends. Its address is not banned, because others of it have logged in.
    End,
    /// The connection ends, and its address is banned for this time.
    Ban(Duration),
}

/// A ban that has just begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressBan {
    pub(crate) address: ClientAddress,
    pub(crate) time: Duration,
    /// The shares for which the address is banned.
    pub(crate) shares: RecentShares,
}

impl AddressBook {
    /// A book without addresses, for `connections_max` connections.
    pub(crate) fn new(connections_max: usize, ban_time: Option<Duration>) -> Self {
        Self {
            records: Arc::default(),
            records_max: connections_max.saturating_add(REMEMBERED_MAX),
            ban_time,
        }
    }

    /// Adds a connection of `address`; `None` if the address is banned.
    pub(crate) fn enter(&self, address: ClientAddress, now: Instant) -> Option<AddressLease> {
        let records = &mut *self.records.lock();
        if !records.contains_key(&address) && records.len() >= self.records_max {
            make_room(records, now);
        }
        let record = records.entry(address).or_insert_with(|| {
            Arc::new(Mutex::new(AddressRecord {
                connections: 0,
                logged_in: 0,
                last_seen: now,
                shares: ShareRecord::new(now),
                checks: TokenBucket::new(CHECKS, now),
                lines: TokenBucket::new(LINES, now),
                guesses: WrongGuesses::default(),
                known_guesses: VecDeque::new(),
                banned_until: None,
            }))
        });
        {
            let mut record = record.lock();
            if record.is_banned(now) {
                return None;
            }
            record.connections += 1;
            record.last_seen = now;
        }
        Some(AddressLease {
            address,
            record: Arc::clone(record),
            book: self.clone(),
            is_logged_in: false,
        })
    }

    /// The number of banned addresses.
    pub(crate) fn banned(&self, now: Instant) -> usize {
        let records = self.records.lock();
        records
            .values()
            .filter(|record| record.lock().is_banned(now))
            .count()
    }
}

/// Forgets addresses without connections: all about which nothing is known any more, or if that is
/// none, an eighth of the others. Banned ones go last, and those first that were not seen longest.
fn make_room(records: &mut HashMap<ClientAddress, Arc<Mutex<AddressRecord>>>, now: Instant) {
    let before = records.len();
    records.retain(|_, record| {
        let mut record = record.lock();
        record.connections > 0 || record.is_worth_keeping(now)
    });
    if records.len() < before {
        return;
    }
    let mut removable: Vec<_> = records
        .iter()
        .filter_map(|(address, record)| {
            let record = record.lock();
            (record.connections == 0).then(|| (record.is_banned(now), record.last_seen, *address))
        })
        .collect();
    removable.sort_unstable();
    for (_, _, address) in removable.iter().take(removable.len().div_ceil(8)) {
        records.remove(address);
    }
}

impl AddressRecord {
    fn is_banned(&self, now: Instant) -> bool {
        self.banned_until.is_some_and(|until| now < until)
    }

    /// Whether anything bad is known about the address.
    fn is_worth_keeping(&mut self, now: Instant) -> bool {
        self.is_banned(now) || self.shares.counts(now).bad > 0 || self.guesses.count(&GUESSES, now) > 0
    }

    fn forget_guesses(&mut self) {
        self.guesses = WrongGuesses::default();
        self.known_guesses.clear();
    }
}

impl AddressLease {
    /// Whether the address has been banned.
    pub(crate) fn is_banned(&self, now: Instant) -> bool {
        self.record.lock().is_banned(now)
    }

    /// Takes the right to check a share that the connection has not earned.
    ///
    /// # Errors
    /// If the address has used its checks, the time after which to try again.
    pub(crate) fn try_check(&self, now: Instant) -> Result<(), Duration> {
        self.record.lock().checks.try_take(now)
    }

    /// Gives the address further checks.
    pub(crate) fn give_checks(&self, checks: u32) {
        self.record.lock().checks.give(checks.into());
    }

    /// Takes the right to handle a line.
    ///
    /// # Errors
    /// If the address has sent too many lines, the time after which to try again.
    pub(crate) fn try_line(&self, now: Instant) -> Result<(), Duration> {
        self.record.lock().lines.try_take(now)
    }

    /// Time until a password of the address is judged again. Without bans the address is that of a
    /// proxy, and its other clients must not wait for one that guesses.
    pub(crate) fn guess_wait(&self, now: Instant) -> Option<Duration> {
        self.book.ban_time?;
        self.record.lock().guesses.wait(&GUESSES, now)
    }

    /// Counts a wrong password. One that is remembered tells nothing new and is not counted, so a
    /// few rigs with old passwords do not get their neighbours banned.
    pub(crate) fn count_guess(&self, guess: SecretDigest, now: Instant) -> GuessPenalty {
        let record = &mut *self.record.lock();
        let known = record.known_guesses.iter().position(|known| *known == guess);
        if let Some(index) = known {
            record.known_guesses.remove(index);
        } else if record.known_guesses.len() >= KNOWN_GUESSES_MAX {
            record.known_guesses.pop_front();
        }
        record.known_guesses.push_back(guess);
        if known.is_some() {
            return GuessPenalty::None;
        }
        record.guesses.add(&GUESSES, now);
        if record.guesses.count(&GUESSES, now) < BAN_GUESSES_MIN || record.is_banned(now) {
            return GuessPenalty::None;
        }
        let Some(time) = self.book.ban_time else {
            return GuessPenalty::None;
        };
        if record.logged_in > 0 {
            return GuessPenalty::End;
        }
        record.banned_until = Some(now + time);
        // After the ban the address begins anew.
        record.forget_guesses();
        GuessPenalty::Ban(time)
    }

    /// Forgets the wrong passwords, because the right one came.
    pub(crate) fn forget_guesses(&self) {
        self.record.lock().forget_guesses();
    }

    /// Notes that the connection has logged in.
    pub(crate) fn set_logged_in(&mut self) {
        if !std::mem::replace(&mut self.is_logged_in, true) {
            self.record.lock().logged_in += 1;
        }
    }

    /// The address.
    pub(crate) const fn address(&self) -> ClientAddress {
        self.address
    }

    /// Counts a share of the address. Returns the ban if the address is now banned for its shares.
    pub(crate) fn count_share(&self, quality: ShareQuality, now: Instant) -> Option<AddressBan> {
        let record = &mut *self.record.lock();
        record.shares.count(quality, now);
        let shares = record.shares.counts(now);
        if quality != ShareQuality::Bad || !shares.is_ban() || record.is_banned(now) {
            return None;
        }
        let time = self.book.ban_time?;
        record.banned_until = Some(now + time);
        // After the ban the address begins anew.
        record.shares = ShareRecord::new(now);
        Some(AddressBan {
            address: self.address,
            time,
            shares,
        })
    }
}

impl Drop for AddressLease {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut records = self.book.records.lock();
        let mut record = self.record.lock();
        record.connections -= 1;
        record.logged_in -= usize::from(self.is_logged_in);
        record.last_seen = now;
        if record.connections == 0 && !record.is_worth_keeping(now) {
            records.remove(&self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use super::*;
    use crate::conduct::BAN_BAD_MIN;

    const BAN_TIME: Duration = Duration::from_secs(600);

    /// Host `host` of IPv6 network `network`.
    fn address(network: u32, host: u16) -> ClientAddress {
        let bits = (u128::from(network) << 64) | u128::from(host);
        IpAddr::from(Ipv6Addr::from_bits((0x2001_0db8 << 96) | bits)).into()
    }

    fn count(lease: &AddressLease, quality: ShareQuality, times: u64, now: Instant) -> Option<AddressBan> {
        let mut ban = None;
        for _ in 0..times {
            ban = lease.count_share(quality, now).or(ban);
        }
        ban
    }

    #[test]
    fn an_address_is_banned_for_a_while() {
        let book = AddressBook::new(10, Some(BAN_TIME));
        let now = Instant::now();
        let first = book.enter(address(1, 1), now).expect("not banned");
        let second = book.enter(address(1, 2), now).expect("not banned");
        assert_eq!(count(&first, ShareQuality::Bad, BAN_BAD_MIN / 2, now), None);
        let ban = count(&second, ShareQuality::Bad, BAN_BAD_MIN / 2, now).expect("all shares are bad");
        assert_eq!((ban.address, ban.shares.bad), (address(1, 1), BAN_BAD_MIN));
        assert!(first.is_banned(now), "hosts of one network are one address");
        drop((first, second));
        assert!(book.enter(address(1, 3), now).is_none());
        assert!(book.enter(address(2, 1), now).is_some(), "others are not banned");
        assert_eq!(book.banned(now), 1);
        let later = now + BAN_TIME;
        assert!(book.enter(address(1, 1), later).is_some(), "the ban is over");
    }

    #[test]
    fn an_address_whose_rigs_work_is_not_banned_for_one_that_does_not() {
        let book = AddressBook::new(10, Some(BAN_TIME));
        let now = Instant::now();
        let rigs = book.enter(address(1, 1), now).expect("not banned");
        let bad = book.enter(address(1, 2), now).expect("not banned");
        count(&rigs, ShareQuality::Work, 600, now);
        assert_eq!(count(&bad, ShareQuality::Bad, 1000, now), None);
        let never = AddressBook::new(10, None);
        let bad = never.enter(address(1, 1), now).expect("not banned");
        assert_eq!(count(&bad, ShareQuality::Bad, 1000, now), None, "bans are off");
    }

    #[test]
    fn the_number_of_addresses_is_bounded() {
        let book = AddressBook::new(2, Some(BAN_TIME));
        let now = Instant::now();
        let connected = book.enter(address(0, 1), now).expect("not banned");
        let banned = book.enter(address(1, 1), now).expect("not banned");
        count(&banned, ShareQuality::Bad, BAN_BAD_MIN, now);
        drop(banned);
        for network in 2..20_000 {
            let at = now + Duration::from_millis(network.into());
            let lease = book.enter(address(network, 1), at).expect("not banned");
            lease.count_share(ShareQuality::Bad, at);
        }
        assert!(book.records.lock().len() <= book.records_max);
        assert!(book.enter(address(1, 1), now).is_none(), "bans are kept longest");
        drop(connected);
        let good = book.enter(address(30_000, 1), now).expect("not banned");
        good.count_share(ShareQuality::Work, now);
        drop(good);
        assert!(
            !book.records.lock().contains_key(&address(30_000, 1)),
            "nothing bad is known about it"
        );
    }

    #[test]
    fn passwords_of_an_address_are_slowed_down_and_then_it_is_banned() {
        let book = AddressBook::new(10, Some(BAN_TIME));
        let mut now = Instant::now();
        let guess = |lease: &AddressLease, text: u32, now| {
            lease.count_guess(SecretDigest::of(&text.to_string()), now)
        };
        for text in 0..BAN_GUESSES_MIN {
            // Each guess has a connection of its own.
            let lease = book.enter(address(1, 1), now).expect("not banned yet");
            let wait = lease.guess_wait(now).unwrap_or_default();
            let expected = text
                .checked_sub(GUESSES.free)
                .map_or(0, |over| (1 << over).min(60));
            assert_eq!(wait.as_secs(), expected, "guess {text}");
            now += wait;
            let expected = if text + 1 == BAN_GUESSES_MIN {
                GuessPenalty::Ban(BAN_TIME)
            } else {
                GuessPenalty::None
            };
            assert_eq!(guess(&lease, text, now), expected, "guess {text}");
        }
        assert!(book.enter(address(1, 2), now).is_none(), "hosts of one network");
        let later = now + BAN_TIME;
        let after = book.enter(address(1, 2), later).expect("the ban is over");
        assert_eq!(
            guess(&after, 1000, later),
            GuessPenalty::None,
            "the count has begun anew"
        );
        assert_eq!(after.guess_wait(later), None);
        let other = book.enter(address(2, 1), now).expect("others are not banned");
        assert_eq!(other.guess_wait(now), None);
        let never = AddressBook::new(10, None);
        let lease = never.enter(address(1, 1), now).expect("not banned");
        assert!(
            (0..100).all(|text| guess(&lease, text, now) == GuessPenalty::None),
            "bans are off"
        );
        assert_eq!(lease.guess_wait(now), None, "it may be the address of a proxy");
        let guesser = book.enter(address(3, 1), now).expect("not banned");
        assert!((0..12).all(|text| guess(&guesser, text, now) == GuessPenalty::None));
        assert_eq!(guesser.guess_wait(now), Some(Duration::from_secs(16)));
        guesser.forget_guesses();
        assert_eq!(guesser.guess_wait(now), None);
    }

    #[test]
    fn rigs_with_old_passwords_do_not_slow_down_their_neighbours() {
        let book = AddressBook::new(10, Some(BAN_TIME));
        let now = Instant::now();
        let rigs = book.enter(address(1, 1), now).expect("not banned");
        for attempt in 0..1000 {
            // Each attempt has another password, and none costs more than the first one.
            let old = SecretDigest::of(&(attempt % (GUESSES.free - 1)).to_string());
            assert_eq!(rigs.count_guess(old, now), GuessPenalty::None);
        }
        let neighbour = book.enter(address(1, 2), now).expect("not banned");
        assert_eq!(neighbour.guess_wait(now), None);
    }

    #[test]
    fn an_address_with_rigs_that_have_logged_in_is_not_banned_for_guesses() {
        let book = AddressBook::new(10, Some(BAN_TIME));
        let now = Instant::now();
        let mut rig = book.enter(address(1, 1), now).expect("not banned");
        rig.set_logged_in();
        let guesser = book.enter(address(1, 2), now).expect("not banned");
        let guess = |text: u32| guesser.count_guess(SecretDigest::of(&text.to_string()), now);
        for text in 0..100 {
            let expected = if text + 1 < BAN_GUESSES_MIN {
                GuessPenalty::None
            } else {
                GuessPenalty::End
            };
            assert_eq!(guess(text), expected, "guess {text}");
        }
        assert_eq!(guesser.guess_wait(now), Some(GUESSES.wait_max));
        assert!(
            book.enter(address(1, 3), now).is_some(),
            "the address is not banned"
        );
        assert_eq!(
            book.records.lock()[&address(1, 1)].lock().known_guesses.len(),
            KNOWN_GUESSES_MAX
        );
        drop(rig);
        assert_eq!(
            guess(100),
            GuessPenalty::Ban(BAN_TIME),
            "nobody is logged in any more"
        );
    }

    #[test]
    fn the_checks_of_an_address_are_bounded() {
        let book = AddressBook::new(10, None);
        let now = Instant::now();
        let leases: Vec<_> = (1..=4)
            .map(|host| book.enter(address(1, host), now).expect("not banned"))
            .collect();
        let taken_at = |now| {
            let each = leases
                .iter()
                .map(|lease| (0..1000).filter(|_| lease.try_check(now).is_ok()).count());
            each.sum::<usize>() as f64
        };
        assert_eq!(taken_at(now), CHECKS.burst);
        assert_eq!(taken_at(now + Duration::from_secs(2)), 2.0 * CHECKS.per_second);
        leases[0].give_checks(2);
        assert_eq!(taken_at(now + Duration::from_secs(2)), 2.0);
    }
}
