//! A bounded amount that clients share: the number of filters, the memory for their criteria, the
//! memory of messages.
//!
//! A client over the network may hold a part of what no other client holds. So the first one may
//! take half of everything, the second half of what is then left, and so on: whoever comes gets
//! something, however much those before took, and a client alone has plenty. An eighth is left for
//! the local socket, whose clients may take all that is free. What a client holds is never taken
//! back for another. This module does not know what the amount is of.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{ClientId, percent_of};

/// The part of the whole that is left for the local socket: one of so many.
const LOCAL_PART: usize = 8;

/// An amount that clients share. Clones are the same amount.
#[derive(Clone, Debug)]
pub struct Quota(Arc<Mutex<QuotaState>>);

#[derive(Debug)]
struct QuotaState {
    /// The whole amount.
    max: usize,
    share_percent: usize,
    /// The amount that all clients hold.
    used: usize,
    /// The amount that the clients over the network hold.
    remote_used: usize,
    /// The amount that each client holds. Clients that hold nothing are not in it.
    held: HashMap<ClientId, usize>,
}

/// A part of a quota that a client holds. It is given back when the permit is dropped.
#[derive(Debug)]
pub struct QuotaPermit {
    quota: Quota,
    client: ClientId,
    amount: usize,
}

/// A client asked for more than it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("got {held} and {asked} more, expected at most {client_max} for this client now, of {max} for all")]
pub struct QuotaError {
    /// The amount that the client holds already.
    held: usize,
    /// The amount that the client asked for.
    asked: usize,
    /// The amount that the client may hold now.
    client_max: usize,
    /// The whole amount.
    max: usize,
}

impl Quota {
    /// A quota of `max`. A client over the network may hold `share_percent` of what no other
    /// client holds.
    pub fn new(max: usize, share_percent: usize) -> Self {
        Self(Arc::new(Mutex::new(QuotaState {
            max,
            share_percent,
            used: 0,
            remote_used: 0,
            held: HashMap::new(),
        })))
    }

    /// Changes the share of the clients over the network. What they hold is not taken back.
    pub fn set_share(&self, share_percent: usize) {
        self.0.lock().share_percent = share_percent;
    }

    /// Takes `amount` for `client`.
    ///
    /// # Errors
    /// If the client would hold more than it may.
    pub fn take(&self, client: ClientId, amount: usize) -> Result<QuotaPermit, QuotaError> {
        self.0.lock().take(client, amount)?;
        Ok(QuotaPermit {
            quota: self.clone(),
            client,
            amount,
        })
    }

    /// The amount that all clients hold.
    pub fn used(&self) -> usize {
        self.0.lock().used
    }
}

impl QuotaPermit {
    /// Takes `more` for the client of the permit.
    ///
    /// # Errors
    /// If the client would hold more than it may. The permit is then as before.
    pub fn grow(&mut self, more: usize) -> Result<(), QuotaError> {
        self.quota.0.lock().take(self.client, more)?;
        self.amount += more;
        Ok(())
    }

    /// Takes more, or gives back, so that the permit holds `amount`.
    ///
    /// # Errors
    /// As [`Self::grow`].
    pub fn resize(&mut self, amount: usize) -> Result<(), QuotaError> {
        match amount.checked_sub(self.amount) {
            Some(more) => self.grow(more),
            None => {
                self.shrink(amount);
                Ok(())
            }
        }
    }

    /// Gives all but `amount` back.
    pub fn shrink(&mut self, amount: usize) {
        if amount < self.amount {
            self.quota.0.lock().give_back(self.client, self.amount - amount);
            self.amount = amount;
        }
    }
}

impl QuotaState {
    fn take(&mut self, client: ClientId, amount: usize) -> Result<(), QuotaError> {
        let held = self.held.get(&client).copied().unwrap_or_default();
        let client_max = self.client_max(client, held);
        match held.checked_add(amount) {
            Some(sum) if sum <= client_max => {
                self.held.insert(client, sum);
                self.used += amount;
                if client.is_remote() {
                    self.remote_used += amount;
                }
                Ok(())
            }
            _ => Err(QuotaError {
                held,
                asked: amount,
                client_max,
                max: self.max,
            }),
        }
    }

    /// The amount that `client`, which holds `held`, may hold now.
    fn client_max(&self, client: ClientId, held: usize) -> usize {
        let not_held = self.max.saturating_sub(self.used - held);
        if !client.is_remote() {
            return not_held;
        }
        let remote_max = self.max - self.max / LOCAL_PART;
        let not_held_by_remotes = remote_max.saturating_sub(self.remote_used - held);
        percent_of(not_held_by_remotes, self.share_percent).min(not_held)
    }

    fn give_back(&mut self, client: ClientId, amount: usize) {
        self.used -= amount;
        if client.is_remote() {
            self.remote_used -= amount;
        }
        if let Some(held) = self.held.get_mut(&client) {
            *held -= amount;
            if *held == 0 {
                self.held.remove(&client);
            }
        }
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    /// A client over the network.
    fn remote(last: u8) -> ClientId {
        IpAddr::from([192, 0, 2, last]).into()
    }

    /// Takes `amount` at a time until the client gets no more. Returns the permits.
    fn take_all(quota: &Quota, client: ClientId, amount: usize) -> Vec<QuotaPermit> {
        std::iter::from_fn(|| quota.take(client, amount).ok()).collect()
    }

    #[test]
    fn nobody_takes_everything() {
        let quota = Quota::new(1 << 20, 50);
        let mut left: usize = (1 << 20) - (1 << 17);
        let mut permits = Vec::new();
        for client in 0..12 {
            let taken = take_all(&quota, remote(client), 1);
            assert_eq!(taken.len(), left.div_ceil(2), "client {client}");
            left -= taken.len();
            permits.push(taken);
        }
        let local = take_all(&quota, ClientId::Local(0), 1);
        assert_eq!(local.len(), (1 << 17) + left, "the rest is for the local socket");
        assert!(quota.take(ClientId::Local(0), 1).is_err());
        drop((permits, local));
        assert_eq!(
            take_all(&quota, remote(77), 1 << 10).len(),
            448,
            "all is given back"
        );
        assert!(
            quota.0.lock().held.is_empty(),
            "clients without anything are forgotten"
        );
    }

    #[test]
    fn a_client_that_gives_back_may_take_again() {
        let quota = Quota::new(80, 50);
        let mut first = take_all(&quota, remote(1), 5);
        assert_eq!(first.len(), 7);
        let second = take_all(&quota, remote(2), 5);
        assert_eq!(second.len(), 3);
        let refused = quota.take(remote(1), 5).expect_err("more than its share");
        assert_eq!(
            refused.to_string(),
            "got 35 and 5 more, expected at most 28 for this client now, of 80 for all"
        );
        drop(second);
        assert!(quota.take(remote(1), 5).is_err());
        first.pop();
        first.push(quota.take(remote(1), 5).expect("as much as before"));
        assert!(quota.take(remote(1), usize::MAX).is_err());
    }

    #[test]
    fn a_permit_grows_and_shrinks() {
        let quota = Quota::new(80, 50);
        let mut permit = quota.take(remote(1), 5).expect("less than its share");
        permit.grow(30).expect("its share");
        assert!(permit.grow(1).is_err() && permit.grow(usize::MAX).is_err());
        assert_eq!(quota.used(), 35, "a refusal takes nothing");
        permit.shrink(40);
        assert_eq!(quota.used(), 35);
        permit.shrink(10);
        assert_eq!(quota.used(), 10);
        permit.shrink(0);
        permit.grow(35).expect("its share");
        drop(permit);
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn small_quotas_and_other_shares() {
        for (max, share_percent, expected) in [
            (0, 50, 0),
            (1, 50, 1),
            (3, 50, 2),
            (6, 50, 3),
            (16, 100, 14),
            (16, 1000, 14),
            (16, 0, 0),
            (1000, 10, 88),
        ] {
            let quota = Quota::new(max, share_percent);
            let taken = take_all(&quota, remote(1), 1).len();
            assert_eq!(taken, expected, "{share_percent} percent of {max}");
        }
        let quota = Quota::new(16, 50);
        quota.set_share(100);
        assert_eq!(take_all(&quota, remote(1), 1).len(), 14);
        // The local socket may take what is for others, as long as it is free.
        let all = take_all(&quota, ClientId::Local(0), 1);
        assert_eq!(all.len(), 16);
        assert!(quota.take(remote(1), 1).is_err());
    }
}
