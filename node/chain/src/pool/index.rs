//! All accounts of the pool, and indices over them: by hash, by price, by size, by age.
//!
//! Every change of an account goes through [`PoolIndex::alter`], which updates the indices. This
//! module knows no rules: which transactions are accepted is decided in [`super::admission`],
//! which are evicted in [`super::limits`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use primitives::{Address, B256};

use super::account::{Heartbeat, IndexedAccount, PoolAccount, SenderState};
use super::entry::{EvictionKey, PoolEntry};
use super::feed::PendingFeed;

/// The content of the pool. `pending`, `queued`, `slots` and `local_slots` are totals over all
/// accounts.
#[derive(Debug)]
pub(super) struct PoolIndex {
    pub(super) accounts: HashMap<Address, PoolAccount>,
    /// Sender and nonce of each transaction, by its hash and by its Ethereum hash if it has one.
    pub(super) by_hash: HashMap<B256, (Address, u64)>,
    /// Transactions of remote accounts, in the order in which they are evicted from a full pool.
    pub(super) evictable: BTreeSet<EvictionKey>,
    /// Remote accounts that have more pending transactions than each account is guaranteed, by the
    /// number of pending transactions.
    pub(super) large: BTreeSet<(usize, Address)>,
    /// Remote accounts that have queued transactions, by the last heartbeat of their queue.
    pub(super) heartbeats: BTreeMap<Heartbeat, Address>,
    pub(super) pending: usize,
    pub(super) queued: usize,
    pub(super) slots: usize,
    pub(super) local_slots: usize,
    pub(super) feed: PendingFeed,
    /// No transaction has a higher gas limit.
    pub(super) gas_max: u64,
    account_slots: usize,
    /// Numbers arrivals and heartbeats.
    counter: u64,
}

impl PoolIndex {
    pub(super) fn new(account_slots: usize) -> Self {
        Self {
            accounts: HashMap::new(),
            by_hash: HashMap::new(),
            evictable: BTreeSet::new(),
            large: BTreeSet::new(),
            heartbeats: BTreeMap::new(),
            pending: 0,
            queued: 0,
            slots: 0,
            local_slots: 0,
            feed: PendingFeed::default(),
            gas_max: 0,
            account_slots,
            counter: 0,
        }
    }

    const fn next_count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// An empty account if the pool has none for `address`; `None` if it has one.
    pub(super) fn new_account(
        &self,
        address: &Address,
        state: SenderState,
        local: bool,
    ) -> Option<PoolAccount> {
        let new = || PoolAccount::new(state, local, (Instant::now(), 0));
        (!self.accounts.contains_key(address)).then(new)
    }

    /// Changes an account and updates the indices. Removes the account if it is empty afterwards.
    /// Returns `None` if there is no such account.
    pub(super) fn alter<T>(
        &mut self,
        address: Address,
        change: impl FnOnce(&mut PoolAccount) -> T,
    ) -> Option<T> {
        let heartbeat = (Instant::now(), self.next_count());
        let account = self.accounts.get_mut(&address)?;
        let changed = change(account);
        let before = account.indexed;
        if account.pending() > before.pending || before.queued == 0 {
            account.heartbeat = heartbeat;
        }
        let is_remote = !account.local;
        let (pending, queued) = (account.pending(), account.queued());
        let now = IndexedAccount {
            pending,
            queued,
            large: Some(pending).filter(|pending| is_remote && *pending > self.account_slots),
            heartbeat: Some(account.heartbeat).filter(|_| is_remote && queued > 0),
        };
        account.indexed = now;
        if account.is_empty() {
            self.accounts.remove(&address);
        }
        self.pending = self.pending - before.pending + now.pending;
        self.queued = self.queued - before.queued + now.queued;
        if before.large != now.large {
            before.large.map(|length| self.large.remove(&(length, address)));
            now.large.map(|length| self.large.insert((length, address)));
        }
        if before.heartbeat != now.heartbeat {
            before
                .heartbeat
                .map(|heartbeat| self.heartbeats.remove(&heartbeat));
            now.heartbeat
                .map(|heartbeat| self.heartbeats.insert(heartbeat, address));
        }
        Some(changed)
    }

    /// Inserts a transaction. It replaces the sender's transaction with the same nonce. `local`
    /// says what the account is if it has no transactions in the pool yet.
    pub(super) fn insert(&mut self, mut entry: PoolEntry, state: SenderState, local: bool) {
        entry.pooled.order = self.next_count();
        let sender = entry.pooled.sender;
        let entry = Arc::new(entry);
        let new = self.new_account(&sender, state, local);
        if let Some(new) = new {
            self.accounts.insert(sender, new);
        }
        let altered = self.alter(sender, |account| {
            let old = account.insert(entry.clone());
            let promoted = account.promote();
            (old, promoted, account.is_pending(entry.tx_nonce()), account.local)
        });
        let Some((old, promoted, is_pending, local)) = altered else {
            return;
        };
        if let Some(old) = old {
            self.forget(&old, local);
        }
        for hash in entry.hashes() {
            self.by_hash.insert(hash, (sender, entry.tx_nonce()));
        }
        self.slots += entry.slots();
        self.gas_max = self.gas_max.max(entry.transaction().gas);
        if local {
            self.local_slots += entry.slots();
        } else {
            self.evictable.insert(entry.eviction_key());
        }
        if is_pending {
            self.announce(&entry);
        }
        for promoted in &promoted {
            self.announce(promoted);
        }
    }

    /// Puts a transaction that became pending into the feed, unless it was there before.
    fn announce(&mut self, entry: &PoolEntry) {
        if entry.mark_announced() {
            self.feed.push(entry.pooled.hash);
        }
    }

    /// Removes a transaction.
    pub(super) fn remove(&mut self, sender: Address, tx_nonce: u64) -> Option<Arc<PoolEntry>> {
        let altered = self.alter(sender, |account| (account.remove(tx_nonce), account.local));
        let (removed, local) = altered?;
        let removed = removed?;
        self.forget(&removed, local);
        Some(removed)
    }

    /// Makes an account follow its state at a new head.
    pub(super) fn follow(&mut self, address: Address, state: SenderState, gas_limit: u64) {
        let altered = self.alter(address, |account| {
            (account.follow(state, gas_limit), account.local)
        });
        if let Some((update, local)) = altered {
            for entry in &update.dropped {
                self.forget(entry, local);
            }
            for entry in &update.promoted {
                self.announce(entry);
            }
        }
    }

    /// Removes the transactions of all accounts for which `keep` is false.
    pub(super) fn retain(&mut self, keep: impl Fn(&PoolEntry) -> bool) {
        let mut gas_max = 0;
        for address in self.accounts.keys().copied().collect::<Vec<_>>() {
            let altered = self.alter(address, |account| {
                let dropped = account.retain(&keep);
                gas_max = gas_max.max(account.gas_max());
                (dropped, account.local)
            });
            if let Some((dropped, local)) = altered {
                for entry in &dropped {
                    self.forget(entry, local);
                }
            }
        }
        self.gas_max = gas_max;
    }

    /// Makes an account local or remote, with all transactions that it has in the pool. Returns
    /// whether this has changed anything.
    pub(super) fn set_local(&mut self, address: Address, local: bool) -> bool {
        let is_so = |account: &PoolAccount| account.local == local;
        if self.accounts.get(&address).is_none_or(is_so) {
            return false;
        }
        let entries = self.alter(address, |account| {
            account.local = local;
            account.entries().cloned().collect::<Vec<_>>()
        });
        for entry in entries.into_iter().flatten() {
            if local {
                self.evictable.remove(&entry.eviction_key());
                self.local_slots += entry.slots();
            } else {
                self.evictable.insert(entry.eviction_key());
                self.local_slots -= entry.slots();
            }
        }
        true
    }

    /// Removes a transaction that left its account from the indices.
    fn forget(&mut self, entry: &PoolEntry, local: bool) {
        for hash in entry.hashes() {
            self.by_hash.remove(&hash);
        }
        self.slots -= entry.slots();
        if local {
            self.local_slots -= entry.slots();
        } else {
            self.evictable.remove(&entry.eviction_key());
        }
    }
}
