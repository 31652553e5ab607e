//! Slows down whoever tries passwords: after some wrong ones, an account takes no more for a while.
//!
//! Knows addresses and times, and nothing of passwords.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use primitives::Address;

/// So many wrong passwords in a row cost nothing.
const FREE_ATTEMPTS: u32 = 3;
/// The first wait. It doubles with each further wrong password.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The most accounts that are remembered. Only accounts of this node are.
const ACCOUNTS_MAX: usize = 10_000;

/// The wrong passwords of each account since its last right one.
#[derive(Debug, Default)]
pub(crate) struct WrongPasswords(Mutex<HashMap<Address, WrongAttempts>>);

#[derive(Clone, Copy, Debug)]
struct WrongAttempts {
    count: u32,
    /// When the next attempt is taken.
    next: Instant,
}

impl WrongPasswords {
    /// How long the account takes no password yet, at the time `now`.
    pub(crate) fn wait(&self, address: &Address, now: Instant) -> Option<Duration> {
        let attempts = self.0.lock().get(address).copied()?;
        let wait = attempts.next.saturating_duration_since(now);
        (!wait.is_zero()).then_some(wait)
    }

    /// Notes a wrong password.
    pub(crate) fn wrong(&self, address: Address, now: Instant) {
        let mut all = self.0.lock();
        if all.len() >= ACCOUNTS_MAX {
            all.retain(|_, attempts| attempts.next > now);
        }
        let attempts = all
            .entry(address)
            .or_insert(WrongAttempts { count: 0, next: now });
        attempts.count = attempts.count.saturating_add(1);
        if let Some(over) = attempts.count.checked_sub(FREE_ATTEMPTS) {
            let factor = 1_u32.checked_shl(over).unwrap_or(u32::MAX);
            attempts.next = now + FIRST_WAIT.saturating_mul(factor).min(WAIT_MAX);
        }
    }

    /// Notes a right password: the account begins anew.
    pub(crate) fn right(&self, address: &Address) {
        self.0.lock().remove(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end() {
        let passwords = WrongPasswords::default();
        let (one, other) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..12 {
            passwords.wrong(one, now);
            waits.push(passwords.wait(&one, now).map_or(0, |wait| wait.as_secs()));
        }
        assert_eq!(waits, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert_eq!(passwords.wait(&other, now), None);
        assert_eq!(passwords.wait(&one, now + WAIT_MAX), None);
        for _ in 0..100 {
            passwords.wrong(one, now);
        }
        assert_eq!(passwords.wait(&one, now), Some(WAIT_MAX));
        passwords.right(&one);
        assert_eq!(passwords.wait(&one, now), None);
    }
}
