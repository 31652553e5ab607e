//! Slows down clients that try passwords: after some wrong ones, a client may try no more of that
//! account for a while.
//!
//! Wrong passwords count for the client that sent them, so that a stranger cannot lock out the
//! owner of an account. Knows clients, addresses and times, and nothing of passwords.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use daemon::{ClientId, GuessLimit, WrongGuesses};
use lru::LruCache;
use parking_lot::Mutex;
use primitives::Address;

/// The pauses after wrong passwords of an account.
const LIMIT: GuessLimit = GuessLimit {
    free: 3,
    first_wait: Duration::from_secs(1),
    wait_max: Duration::from_secs(60),
    memory: Duration::from_secs(3600),
};
/// The most pairs of a client and an account that are remembered, some 2 MiB. Those that tried a
/// password last are.
const PAIRS_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");
/// Everybody on the local socket. Its clients are one here, because each connection is a client of
/// its own, and a new connection must bring no new attempts.
const LOCAL: ClientId = ClientId::Local(0);

/// The wrong passwords of each client for each account, since its last right one.
#[derive(Debug)]
pub(crate) struct WrongPasswords(Mutex<PasswordCounts>);

#[derive(Debug)]
struct PasswordCounts {
    wrong: LruCache<GuessedAccount, WrongGuesses>,
    /// The number of attempts that run now. They are heavy calls, so there are few.
    running: HashMap<GuessedAccount, u32>,
}

/// A client and the account whose passwords it tries.
type GuessedAccount = (ClientId, Address);

/// An attempt that runs. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct PasswordAttempt<'a> {
    passwords: &'a WrongPasswords,
    pair: GuessedAccount,
}

impl Default for WrongPasswords {
    fn default() -> Self {
        // A cache that is made with its bound takes all of its memory at once.
        let mut wrong = LruCache::unbounded();
        wrong.resize(PAIRS_MAX);
        Self(Mutex::new(PasswordCounts {
            wrong,
            running: HashMap::new(),
        }))
    }
}

impl WrongPasswords {
    /// Begins an attempt of `client` at the time `now`. After a wrong password, the attempts that
    /// run count as wrong ones until they end. So a client with a long list of passwords gets one
    /// attempt after each wait, and one with the right password may sign side by side.
    ///
    /// # Errors
    /// The time for which no password of the account is taken from the client yet.
    pub(crate) fn begin(
        &self,
        client: ClientId,
        address: &Address,
        now: Instant,
    ) -> Result<PasswordAttempt<'_>, Duration> {
        let pair = pair(client, address);
        let counts = &mut *self.0.lock();
        if let Some(mut guesses) = counts.wrong.get(&pair).copied()
            && guesses.count(&LIMIT, now) > 0
        {
            for _ in 0..counts.running.get(&pair).copied().unwrap_or_default() {
                guesses.add(&LIMIT, now);
            }
            if let Some(wait) = guesses.wait(&LIMIT, now) {
                return Err(wait);
            }
        }
        *counts.running.entry(pair).or_default() += 1;
        Ok(PasswordAttempt {
            passwords: self,
            pair,
        })
    }
}

impl PasswordAttempt<'_> {
    /// Notes a wrong password.
    pub(crate) fn wrong(self, now: Instant) {
        let wrong = &mut self.passwords.0.lock().wrong;
        wrong
            .get_or_insert_mut(self.pair, WrongGuesses::default)
            .add(&LIMIT, now);
    }

    /// Notes a right password: the client begins anew.
    pub(crate) fn right(self) {
        self.passwords.0.lock().wrong.pop(&self.pair);
    }
}

impl Drop for PasswordAttempt<'_> {
    fn drop(&mut self) {
        let running = &mut self.passwords.0.lock().running;
        if let Entry::Occupied(mut entry) = running.entry(self.pair) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// The client and the account as they are counted.
const fn pair(client: ClientId, address: &Address) -> GuessedAccount {
    (if client.is_remote() { client } else { LOCAL }, *address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::remote_client;

    /// Tries a wrong password.
    fn guess(passwords: &WrongPasswords, client: ClientId, account: &Address, now: Instant) {
        passwords.begin(client, account, now).expect("no wait").wrong(now);
    }

    /// The time that the client has to wait.
    fn wait(
        passwords: &WrongPasswords,
        client: ClientId,
        account: &Address,
        now: Instant,
    ) -> Option<Duration> {
        passwords.begin(client, account, now).err()
    }

    #[test]
    fn only_the_client_that_guesses_waits() {
        let passwords = WrongPasswords::default();
        let (one, other) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let (guesser, owner) = (remote_client(1), remote_client(2));
        let mut now = Instant::now();
        for _ in 0..100 {
            now += wait(&passwords, guesser, &one, now).unwrap_or_default();
            guess(&passwords, guesser, &one, now);
        }
        assert_eq!(wait(&passwords, guesser, &one, now), Some(LIMIT.wait_max));
        assert_eq!(wait(&passwords, guesser, &other, now), None);
        assert_eq!(wait(&passwords, owner, &one, now), None);
        assert_eq!(wait(&passwords, LOCAL, &one, now), None);
        passwords.begin(owner, &one, now).expect("no wait").right();
        assert!(wait(&passwords, guesser, &one, now).is_some());
        let later = now + LIMIT.wait_max;
        passwords
            .begin(guesser, &one, later)
            .expect("the wait is over")
            .right();
        assert_eq!(wait(&passwords, guesser, &one, now), None);
    }

    #[test]
    fn after_a_wait_one_attempt_runs() {
        let (passwords, account) = (WrongPasswords::default(), Address::repeat_byte(1));
        let (guesser, start) = (remote_client(1), Instant::now());
        let begin = |now| passwords.begin(guesser, &account, now);
        guess(&passwords, guesser, &account, start);
        // Two more cost nothing, also side by side.
        let free = [begin(start).expect("free"), begin(start).expect("free")];
        assert!(begin(start).is_err(), "it would be the fourth if the others fail");
        for attempt in free {
            attempt.wrong(start);
        }
        let later = start + LIMIT.first_wait;
        let first = begin(later).expect("the wait is over");
        assert!(begin(later).is_err(), "another one runs");
        // The attempt ends with an error that says nothing of the password.
        drop(first);
        let again = begin(later).expect("nothing was counted");
        again.wrong(later);
        assert_eq!(begin(later).err(), Some(2 * LIMIT.first_wait));
        assert!(passwords.0.lock().running.is_empty());
    }

    #[test]
    fn right_passwords_run_side_by_side() {
        let (passwords, account, now) = (WrongPasswords::default(), Address::ZERO, Instant::now());
        let attempts: Vec<_> = (0..100)
            .map(|_| passwords.begin(LOCAL, &account, now).expect("none was wrong"))
            .collect();
        for attempt in attempts {
            attempt.right();
        }
        assert!(passwords.0.lock().running.is_empty());
    }

    #[test]
    fn a_new_connection_on_the_local_socket_brings_no_new_attempts() {
        let (passwords, now) = (WrongPasswords::default(), Instant::now());
        let account = Address::repeat_byte(1);
        for connection in 0..u64::from(LIMIT.free) {
            guess(&passwords, ClientId::Local(connection), &account, now);
        }
        assert!(wait(&passwords, ClientId::Local(77), &account, now).is_some());
    }

    #[test]
    fn the_number_of_pairs_is_bounded() {
        let (passwords, now) = (WrongPasswords::default(), Instant::now());
        for network in 0..2 * PAIRS_MAX.get() as u128 {
            let address = std::net::Ipv6Addr::from_bits((0x2001_0db8 << 96) | (network << 64));
            let client = std::net::IpAddr::from(address).into();
            guess(&passwords, client, &Address::ZERO, now);
        }
        assert_eq!(passwords.0.lock().wrong.len(), PAIRS_MAX.get());
    }
}
