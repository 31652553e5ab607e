//! One account's transactions: which are pending, which are queued.
//!
//! Pending are the longest run of nonces from the account's own on that the account can pay
//! for together; everything else is queued. Each call costs what it changes (and the logarithm
//! of what waits), but for a look through all when balance or gas limit fall below what was
//! ever asked. Knows nothing of other accounts, prices and limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use primitives::U256;

use super::entry::Entry;

/// When an account's queue was last of use: at its beginning, or when one of its transactions
/// became pending. The number makes it unique.
pub(super) type Beat = (Instant, u64);

/// An account's standing at the head block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The account's nonce.
    pub tx_nonce: u64,
    /// The account's balance.
    pub balance: U256,
}

/// What the pool's indices say of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) pending: usize,
    pub(super) queued: usize,
    /// Its pending transactions, where it has more than every account may.
    pub(super) large: Option<usize>,
    /// Its queue's heartbeat, where others may make it go.
    pub(super) beat: Option<Beat>,
}

#[derive(Debug)]
pub(super) struct Account {
    standing: Standing,
    /// None has a nonce below the account's.
    transactions: BTreeMap<u64, Arc<Entry>>,
    /// How many of the first transactions are pending.
    pending: usize,
    /// What those cost together, never more than the balance.
    pending_cost: U256,
    /// None costs more, or asks for more gas. Taken anew only by a look through all.
    cost_max: U256,
    gas_max: u64,
    pub(super) local: bool,
    pub(super) beat: Beat,
    pub(super) shown: Shown,
}

/// What following a head did.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// No longer in the pool.
    pub(super) gone: Vec<Arc<Entry>>,
    /// Became pending.
    pub(super) promoted: Vec<Arc<Entry>>,
}

impl Account {
    pub(super) fn new(standing: Standing, local: bool, beat: Beat) -> Self {
        Self {
            standing,
            transactions: BTreeMap::new(),
            pending: 0,
            pending_cost: U256::ZERO,
            cost_max: U256::ZERO,
            gas_max: 0,
            local,
            beat,
            shown: Shown::default(),
        }
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing
    }

    pub(super) fn get(&self, tx_nonce: u64) -> Option<&Arc<Entry>> {
        self.transactions.get(&tx_nonce)
    }

    /// All transactions, by nonce: first the pending, then the queued.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.transactions.values()
    }

    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    pub(super) fn pending_cost(&self) -> U256 {
        self.pending_cost
    }

    pub(super) fn queued(&self) -> usize {
        self.transactions.len() - self.pending
    }

    pub(super) fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// The slots that all transactions fill.
    pub(super) fn slots(&self) -> usize {
        self.entries().map(|entry| entry.slots()).sum()
    }

    /// The nonce after the pending transactions.
    pub(super) fn pending_end(&self) -> u64 {
        // No transaction in the pool has the highest nonce of all, so there is always one more.
        self.standing.tx_nonce.saturating_add(self.pending as u64)
    }

    pub(super) fn is_pending(&self, tx_nonce: u64) -> bool {
        tx_nonce < self.pending_end() && self.transactions.contains_key(&tx_nonce)
    }

    /// The first nonce that no transaction waits with.
    pub(super) fn next_nonce(&self) -> u64 {
        let end = self.pending_end();
        let queued = self.transactions.range(end..).map(|(tx_nonce, _)| *tx_nonce);
        end + queued.zip(end..).take_while(|(a, b)| a == b).count() as u64
    }

    pub(super) fn last_pending(&self) -> Option<u64> {
        (self.pending > 0).then(|| self.pending_end() - 1)
    }

    pub(super) fn last_queued(&self) -> Option<u64> {
        let (last, _) = self.transactions.last_key_value()?;
        (self.queued() > 0).then_some(*last)
    }

    /// Puts a transaction in; gives the one that was there. What is pending may cost too much
    /// then: whoever puts a transaction in has compared the cost, and calls [`Self::promote`].
    pub(super) fn insert(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let (tx_nonce, cost) = (entry.tx_nonce(), entry.cost);
        self.cost_max = self.cost_max.max(cost);
        self.gas_max = self.gas_max.max(entry.transaction().gas);
        let pending = self.is_pending(tx_nonce);
        let old = self.transactions.insert(tx_nonce, entry);
        if pending && let Some(old) = &old {
            self.pending_cost = self.pending_cost - old.cost + cost;
        }
        old
    }

    /// Takes a transaction out; pending ones after it are queued then.
    pub(super) fn remove(&mut self, tx_nonce: u64) -> Option<Arc<Entry>> {
        if !self.transactions.contains_key(&tx_nonce) {
            return None;
        }
        while self.pending_end() > tx_nonce && self.pending > 0 {
            self.demote_last();
        }
        self.transactions.remove(&tx_nonce)
    }

    /// Makes queued transactions pending as far as nonces and balance reach.
    pub(super) fn promote(&mut self) -> Vec<Arc<Entry>> {
        let mut promoted = Vec::new();
        while let Some(next) = self.transactions.get(&self.pending_end()) {
            let cost = self.pending_cost.checked_add(next.cost);
            let Some(cost) = cost.filter(|cost| *cost <= self.standing.balance) else {
                break;
            };
            self.pending_cost = cost;
            promoted.push(next.clone());
            self.pending += 1;
        }
        promoted
    }

    fn demote_last(&mut self) {
        self.pending -= 1;
        if let Some(last) = self.transactions.get(&self.pending_end()) {
            self.pending_cost -= last.cost;
        }
    }

    /// Follows the account to another standing, and to another gas limit of blocks.
    pub(super) fn follow(&mut self, standing: Standing, gas_limit: u64) -> Followed {
        let mut gone = Vec::new();
        if standing.tx_nonce < self.standing.tx_nonce {
            // A reorganization: what comes before has to come back first.
            (self.pending, self.pending_cost) = (0, U256::ZERO);
        }
        while let Some(first) = self.transactions.first_entry() {
            if *first.key() >= standing.tx_nonce {
                break;
            }
            let entry = first.remove();
            if self.pending > 0 {
                self.pending -= 1;
                self.pending_cost -= entry.cost;
            }
            gone.push(entry);
        }
        self.standing = standing;
        if self.cost_max > standing.balance || self.gas_max > gas_limit {
            gone.extend(
                self.drop_unless(|entry| {
                    entry.cost <= standing.balance && entry.transaction().gas <= gas_limit
                }),
            );
        }
        while self.pending_cost > standing.balance {
            self.demote_last();
        }
        let promoted = self.promote();
        Followed { gone, promoted }
    }

    /// Takes out what does not fit, and takes anew what is asked at most.
    pub(super) fn drop_unless(&mut self, fits: impl Fn(&Entry) -> bool) -> Vec<Arc<Entry>> {
        (self.cost_max, self.gas_max) = (U256::ZERO, 0);
        let mut unfit = Vec::new();
        for (tx_nonce, entry) in &self.transactions {
            if fits(entry) {
                self.cost_max = self.cost_max.max(entry.cost);
                self.gas_max = self.gas_max.max(entry.transaction().gas);
            } else {
                unfit.push(*tx_nonce);
            }
        }
        unfit
            .into_iter()
            .filter_map(|tx_nonce| self.remove(tx_nonce))
            .collect()
    }

    /// The most gas that one of the transactions asks for, or more.
    pub(super) fn gas_max(&self) -> u64 {
        self.gas_max
    }
}

#[cfg(test)]
mod tests {
    use primitives::{Address, Transaction};

    use super::*;

    fn entry(tx_nonce: u64, cost: u64) -> Arc<Entry> {
        let mut transaction = Transaction::system(tx_nonce);
        (transaction.gas, transaction.value) = (0, U256::from(cost));
        Arc::new(Entry::new(transaction, Address::ZERO))
    }

    fn standing(tx_nonce: u64, balance: u64) -> Standing {
        Standing {
            tx_nonce,
            balance: U256::from(balance),
        }
    }

    fn account(standing: Standing, entries: &[(u64, u64)]) -> Account {
        let mut account = Account::new(standing, false, (Instant::now(), 0));
        for (tx_nonce, cost) in entries {
            account.insert(entry(*tx_nonce, *cost));
            account.promote();
        }
        account
    }

    #[track_caller]
    fn check(account: &Account, pending: usize, queued: usize, next_nonce: u64) {
        let got = (account.pending(), account.queued(), account.next_nonce());
        assert_eq!(got, (pending, queued, next_nonce));
        let cost = account.entries().take(pending).map(|entry| entry.cost);
        assert_eq!(account.pending_cost(), cost.fold(U256::ZERO, |a, b| a + b));
    }

    #[test]
    fn pending_is_what_nonces_and_balance_reach() {
        check(&account(standing(5, 10), &[(5, 4), (6, 4), (8, 1)]), 2, 1, 7);
        // The third is there, but cannot be paid with the two before it.
        check(
            &account(standing(5, 10), &[(5, 4), (6, 4), (7, 4), (8, 1)]),
            2,
            2,
            9,
        );
        check(&account(standing(5, 10), &[(6, 4)]), 0, 1, 5);
    }

    #[test]
    fn what_is_taken_out_leaves_the_rest_waiting() {
        let mut account = account(standing(0, 10), &[(0, 1), (1, 1), (2, 1), (4, 1)]);
        assert!(account.remove(3).is_none());
        assert_eq!(account.remove(1).unwrap().tx_nonce(), 1);
        check(&account, 1, 2, 1);
        account.remove(4);
        check(&account, 1, 1, 1);
        account.insert(entry(1, 9));
        assert_eq!(account.promote().len(), 1);
        check(&account, 2, 1, 3);
        account.insert(entry(1, 2));
        assert_eq!(account.promote().len(), 1);
        check(&account, 3, 0, 3);
    }

    #[test]
    fn a_head_takes_the_mined_the_dear_and_the_large() {
        let all = [(0, 1), (1, 1), (2, 5), (3, 1), (5, 1)];
        let mut at = account(standing(0, 10), &all);
        check(&at, 4, 1, 4);
        let followed = at.follow(standing(2, 10), 0);
        assert_eq!((followed.gone.len(), followed.promoted.len()), (2, 0));
        check(&at, 2, 1, 4);
        // Five is too much now, so three has nothing before it.
        assert_eq!(at.follow(standing(2, 4), 0).gone.len(), 1);
        check(&at, 0, 2, 2);
        // A jump over a gap.
        let followed = at.follow(standing(5, 4), 0);
        assert_eq!((followed.gone.len(), followed.promoted.len()), (1, 1));
        check(&at, 1, 0, 6);
        // Together too dear, each alone not.
        let mut at = account(standing(0, 10), &[(0, 3), (1, 3), (2, 3)]);
        assert!(at.follow(standing(0, 7), 0).gone.is_empty());
        check(&at, 2, 1, 3);
        assert_eq!(at.follow(standing(0, 9), 0).promoted.len(), 1);
        check(&at, 3, 0, 3);
        // A reorganization below them, and back.
        let mut at = account(standing(5, 10), &[(5, 1), (6, 1)]);
        at.follow(standing(4, 10), 0);
        check(&at, 0, 2, 4);
        assert_eq!(at.follow(standing(5, 10), 0).promoted.len(), 2);
        check(&at, 2, 0, 7);
    }
}
