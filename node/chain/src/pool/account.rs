//! The transactions of one account: which are pending, which are queued.
//!
//! Pending are the transactions from the account's own nonce on, without a missing nonce, for as
//! long as the account can pay for all of them together. The others are queued.
//!
//! The cost of a call grows with what it changes, and with the logarithm of the number of
//! transactions. Only if the balance or the gas limit falls below the highest one that was ever
//! needed are all transactions of the account looked at.
//!
//! This module knows nothing about other accounts, prices and limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use primitives::U256;

use super::entry::PoolEntry;

/// The last heartbeat of an account's queue: when the queue began, or when a transaction of the
/// account became pending. The number makes the heartbeat unique.
pub(super) type Heartbeat = (Instant, u64);

/// The state of a sender's account at the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderState {
    /// The account's nonce.
    pub tx_nonce: u64,
    /// The account's balance.
    pub balance: U256,
}

/// The facts about an account that the pool's indices have recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IndexedAccount {
    pub(super) pending: usize,
    pub(super) queued: usize,
    /// The number of its pending transactions, if it is remote and has more than each account is
    /// guaranteed.
    pub(super) large: Option<usize>,
    /// The last heartbeat of its queue, if it is remote and has one.
    pub(super) heartbeat: Option<Heartbeat>,
}

#[derive(Debug)]
pub(super) struct PoolAccount {
    state: SenderState,
    /// The transactions by nonce. No nonce is below the account's own.
    transactions: BTreeMap<u64, Arc<PoolEntry>>,
    /// The number of pending transactions: the first ones.
    pending: usize,
    /// The cost of all pending transactions together, never more than the balance.
    pending_cost: U256,
    /// No transaction costs more than `cost_max` or has a higher gas limit than `gas_max`. Only
    /// [`Self::retain`] lowers them.
    cost_max: U256,
    gas_max: u64,
    /// The slots that all transactions fill together.
    slots: usize,
    pub(super) local: bool,
    pub(super) heartbeat: Heartbeat,
    pub(super) indexed: IndexedAccount,
}

/// The changes of an account's transactions by a new state.
#[derive(Debug, Default)]
pub(super) struct AccountUpdate {
    /// Transactions that were removed.
    pub(super) dropped: Vec<Arc<PoolEntry>>,
    /// Transactions that became pending.
    pub(super) promoted: Vec<Arc<PoolEntry>>,
}

impl PoolAccount {
    pub(super) fn new(state: SenderState, local: bool, heartbeat: Heartbeat) -> Self {
        Self {
            state,
            transactions: BTreeMap::new(),
            pending: 0,
            pending_cost: U256::ZERO,
            cost_max: U256::ZERO,
            gas_max: 0,
            slots: 0,
            local,
            heartbeat,
            indexed: IndexedAccount::default(),
        }
    }

    pub(super) const fn state(&self) -> SenderState {
        self.state
    }

    pub(super) fn get(&self, tx_nonce: u64) -> Option<&Arc<PoolEntry>> {
        self.transactions.get(&tx_nonce)
    }

    /// All transactions by nonce: first the pending ones, then the queued ones.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<PoolEntry>> {
        self.transactions.values()
    }

    pub(super) const fn pending(&self) -> usize {
        self.pending
    }

    pub(super) const fn pending_cost(&self) -> U256 {
        self.pending_cost
    }

    pub(super) fn queued(&self) -> usize {
        self.transactions.len() - self.pending
    }

    pub(super) fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// The slots that all transactions fill together.
    pub(super) const fn slots(&self) -> usize {
        self.slots
    }

    /// The nonce after those of the pending transactions.
    pub(super) const fn pending_end(&self) -> u64 {
        // The sum does not saturate: no transaction in the pool has the highest nonce there is.
        self.state.tx_nonce.saturating_add(self.pending as u64)
    }

    pub(super) fn is_pending(&self, tx_nonce: u64) -> bool {
        tx_nonce < self.pending_end() && self.transactions.contains_key(&tx_nonce)
    }

    /// The lowest nonce, from the account's own on, that no transaction has.
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

    /// Inserts a transaction. Returns the transaction with the same nonce that it replaces.
    ///
    /// The caller must have checked that the account can pay for it, and calls [`Self::promote`]
    /// afterwards.
    pub(super) fn insert(&mut self, entry: Arc<PoolEntry>) -> Option<Arc<PoolEntry>> {
        let (tx_nonce, cost) = (entry.tx_nonce(), entry.cost);
        self.cost_max = self.cost_max.max(cost);
        self.gas_max = self.gas_max.max(entry.transaction().gas);
        self.slots += entry.slots();
        let pending = self.is_pending(tx_nonce);
        let old = self.transactions.insert(tx_nonce, entry);
        self.slots -= old.as_ref().map_or(0, |old| old.slots());
        if pending && let Some(old) = &old {
            self.pending_cost = self.pending_cost - old.cost + cost;
        }
        old
    }

    /// Removes a transaction. Pending transactions after it become queued.
    pub(super) fn remove(&mut self, tx_nonce: u64) -> Option<Arc<PoolEntry>> {
        if !self.transactions.contains_key(&tx_nonce) {
            return None;
        }
        while self.pending_end() > tx_nonce && self.pending > 0 {
            self.demote_last();
        }
        let removed = self.transactions.remove(&tx_nonce);
        self.slots -= removed.as_ref().map_or(0, |removed| removed.slots());
        removed
    }

    /// Makes queued transactions pending, as far as nonces are there and the balance suffices.
    /// Returns those that became pending.
    pub(super) fn promote(&mut self) -> Vec<Arc<PoolEntry>> {
        let mut promoted = Vec::new();
        while let Some(next) = self.transactions.get(&self.pending_end()) {
            let cost = self.pending_cost.checked_add(next.cost);
            let Some(cost) = cost.filter(|cost| *cost <= self.state.balance) else {
                break;
            };
            self.pending_cost = cost;
            promoted.push(next.clone());
            self.pending += 1;
        }
        promoted
    }

    /// Makes the last pending transaction queued.
    fn demote_last(&mut self) {
        self.pending -= 1;
        if let Some(last) = self.transactions.get(&self.pending_end()) {
            self.pending_cost -= last.cost;
        }
    }

    /// Makes the transactions follow a new state of the account and a new gas limit of blocks.
    pub(super) fn follow(&mut self, state: SenderState, gas_limit: u64) -> AccountUpdate {
        let mut dropped = Vec::new();
        if state.tx_nonce < self.state.tx_nonce {
            // After a reorganization, transactions with lower nonces must return first.
            (self.pending, self.pending_cost) = (0, U256::ZERO);
        }
        while let Some(first) = self.transactions.first_entry() {
            if *first.key() >= state.tx_nonce {
                break;
            }
            let entry = first.remove();
            self.slots -= entry.slots();
            if self.pending > 0 {
                self.pending -= 1;
                self.pending_cost -= entry.cost;
            }
            dropped.push(entry);
        }
        self.state = state;
        if self.cost_max > state.balance || self.gas_max > gas_limit {
            dropped.extend(
                self.retain(|entry| entry.cost <= state.balance && entry.transaction().gas <= gas_limit),
            );
        }
        while self.pending_cost > state.balance {
            self.demote_last();
        }
        let promoted = self.promote();
        AccountUpdate { dropped, promoted }
    }

    /// Removes the transactions for which `keep` is false, and computes the highest cost and gas of
    /// the others. Returns the removed ones.
    pub(super) fn retain(&mut self, keep: impl Fn(&PoolEntry) -> bool) -> Vec<Arc<PoolEntry>> {
        (self.cost_max, self.gas_max) = (U256::ZERO, 0);
        let mut removed = Vec::new();
        for (tx_nonce, entry) in &self.transactions {
            if keep(entry) {
                self.cost_max = self.cost_max.max(entry.cost);
                self.gas_max = self.gas_max.max(entry.transaction().gas);
            } else {
                removed.push(*tx_nonce);
            }
        }
        removed
            .into_iter()
            .filter_map(|tx_nonce| self.remove(tx_nonce))
            .collect()
    }

    /// An upper bound of the gas limits of all transactions.
    pub(super) const fn gas_max(&self) -> u64 {
        self.gas_max
    }
}

#[cfg(test)]
mod tests {
    use primitives::{Address, Transaction};

    use super::*;

    fn entry(tx_nonce: u64, cost: u64) -> Arc<PoolEntry> {
        let mut transaction = Transaction::system(tx_nonce);
        (transaction.gas, transaction.value) = (0, U256::from(cost));
        Arc::new(PoolEntry::new(transaction, Address::ZERO))
    }

    fn state(tx_nonce: u64, balance: u64) -> SenderState {
        SenderState {
            tx_nonce,
            balance: U256::from(balance),
        }
    }

    fn account(state: SenderState, entries: &[(u64, u64)]) -> PoolAccount {
        let mut account = PoolAccount::new(state, false, (Instant::now(), 0));
        for (tx_nonce, cost) in entries {
            account.insert(entry(*tx_nonce, *cost));
            account.promote();
        }
        account
    }

    #[track_caller]
    fn check(account: &PoolAccount, pending: usize, queued: usize, next_nonce: u64) {
        let got = (account.pending(), account.queued(), account.next_nonce());
        assert_eq!(got, (pending, queued, next_nonce));
        let cost = account.entries().take(pending).map(|entry| entry.cost);
        assert_eq!(account.pending_cost(), cost.fold(U256::ZERO, |a, b| a + b));
        let slots = account.entries().map(|entry| entry.slots());
        assert_eq!(account.slots(), slots.sum::<usize>());
    }

    #[test]
    fn pending_is_what_nonces_and_balance_reach() {
        check(&account(state(5, 10), &[(5, 4), (6, 4), (8, 1)]), 2, 1, 7);
        // The balance does not suffice for the third together with the two before it.
        check(&account(state(5, 10), &[(5, 4), (6, 4), (7, 4), (8, 1)]), 2, 2, 9);
        check(&account(state(5, 10), &[(6, 4)]), 0, 1, 5);
    }

    #[test]
    fn transactions_after_a_removed_one_become_queued() {
        let mut account = account(state(0, 10), &[(0, 1), (1, 1), (2, 1), (4, 1)]);
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
    fn a_new_state_drops_mined_and_unaffordable_transactions() {
        let all = [(0, 1), (1, 1), (2, 5), (3, 1), (5, 1)];
        let mut at = account(state(0, 10), &all);
        check(&at, 4, 1, 4);
        let update = at.follow(state(2, 10), 0);
        assert_eq!((update.dropped.len(), update.promoted.len()), (2, 0));
        check(&at, 2, 1, 4);
        // The transaction that costs five is dropped, so the one after it has a missing nonce.
        assert_eq!(at.follow(state(2, 4), 0).dropped.len(), 1);
        check(&at, 0, 2, 2);
        // The nonce jumps over a gap.
        let update = at.follow(state(5, 4), 0);
        assert_eq!((update.dropped.len(), update.promoted.len()), (1, 1));
        check(&at, 1, 0, 6);
        // Each can be paid alone, but not all together.
        let mut at = account(state(0, 10), &[(0, 3), (1, 3), (2, 3)]);
        assert!(at.follow(state(0, 7), 0).dropped.is_empty());
        check(&at, 2, 1, 3);
        assert_eq!(at.follow(state(0, 9), 0).promoted.len(), 1);
        check(&at, 3, 0, 3);
        // A reorganization lowers the nonce, and another one raises it again.
        let mut at = account(state(5, 10), &[(5, 1), (6, 1)]);
        at.follow(state(4, 10), 0);
        check(&at, 0, 2, 4);
        assert_eq!(at.follow(state(5, 10), 0).promoted.len(), 2);
        check(&at, 2, 0, 7);
    }
}
