//! All accounts of the pool, and the orders in which their transactions are looked for.
//!
//! Every change of an account goes through [`Index::alter`], which brings the indices after
//! it. Knows no rules: what may come in is in [`super::admission`], what has to leave in
//! [`super::limits`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use primitives::{Address, B256};

use super::account::{Account, Beat, Shown, Standing};
use super::entry::{Entry, EvictionKey};
use super::feed::Feed;

/// How many accounts may be local; those that come later are treated as others are. Whoever
/// may call this node makes accounts local, and they stay so.
pub const LOCALS_MAX: usize = 1 << 18;

/// The contents of the pool. `pending`, `queued`, `slots` and `local_slots` are sums.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) accounts: HashMap<Address, Account>,
    /// Each transaction under its hash and, where it has one, its Ethereum hash.
    pub(super) by_hash: HashMap<B256, (Address, u64)>,
    /// Transactions of others, in the order in which they leave a full pool.
    pub(super) evictable: BTreeSet<EvictionKey>,
    /// Accounts of others with more pending transactions than every account may have.
    pub(super) large: BTreeSet<(usize, Address)>,
    /// Accounts of others with queued transactions, by when those were last of use.
    pub(super) beats: BTreeMap<Beat, Address>,
    /// Accounts that this node sent for, for as long as the process runs.
    pub(super) locals: HashSet<Address>,
    pub(super) pending: usize,
    pub(super) queued: usize,
    pub(super) slots: usize,
    pub(super) local_slots: usize,
    pub(super) feed: Feed,
    /// No transaction asks for more gas.
    pub(super) gas_max: u64,
    account_slots: usize,
    /// Counts arrivals and heartbeats.
    counter: u64,
}

impl Index {
    pub(super) fn new(account_slots: usize) -> Self {
        Self {
            accounts: HashMap::new(),
            by_hash: HashMap::new(),
            evictable: BTreeSet::new(),
            large: BTreeSet::new(),
            beats: BTreeMap::new(),
            locals: HashSet::new(),
            pending: 0,
            queued: 0,
            slots: 0,
            local_slots: 0,
            feed: Feed::default(),
            gas_max: 0,
            account_slots,
            counter: 0,
        }
    }

    fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Whether what `sender` sends now is local.
    pub(super) fn is_local(&self, sender: &Address, brought_by_us: bool) -> bool {
        self.locals.contains(sender) || (brought_by_us && self.locals.len() < LOCALS_MAX)
    }

    /// The account, or what it is before its first transaction comes.
    pub(super) fn account_or_new(&self, address: &Address, standing: Standing) -> Option<Account> {
        let new = || Account::new(standing, self.locals.contains(address), (Instant::now(), 0));
        (!self.accounts.contains_key(address)).then(new)
    }

    /// Changes an account, brings the indices after it, and forgets it when it is empty.
    pub(super) fn alter<T>(&mut self, address: Address, change: impl FnOnce(&mut Account) -> T) -> Option<T> {
        let beat = (Instant::now(), self.count());
        let account = self.accounts.get_mut(&address)?;
        let changed = change(account);
        let before = account.shown;
        if account.pending() > before.pending || before.queued == 0 {
            account.beat = beat;
        }
        let others = !account.local;
        let (pending, queued) = (account.pending(), account.queued());
        let now = Shown {
            pending,
            queued,
            large: Some(pending).filter(|pending| others && *pending > self.account_slots),
            beat: Some(account.beat).filter(|_| others && queued > 0),
        };
        account.shown = now;
        if account.is_empty() {
            self.accounts.remove(&address);
        }
        self.pending = self.pending - before.pending + now.pending;
        self.queued = self.queued - before.queued + now.queued;
        if before.large != now.large {
            before.large.map(|length| self.large.remove(&(length, address)));
            now.large.map(|length| self.large.insert((length, address)));
        }
        if before.beat != now.beat {
            before.beat.map(|beat| self.beats.remove(&beat));
            now.beat.map(|beat| self.beats.insert(beat, address));
        }
        Some(changed)
    }

    /// Puts a transaction in, in the place of the one with its nonce.
    pub(super) fn insert(&mut self, mut entry: Entry, standing: Standing) {
        entry.pooled.order = self.count();
        let sender = entry.pooled.sender;
        let entry = Arc::new(entry);
        let new = self.account_or_new(&sender, standing);
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
        promoted.iter().for_each(|promoted| self.announce(promoted));
    }

    fn announce(&mut self, entry: &Entry) {
        if entry.announce() {
            self.feed.push(entry.pooled.hash);
        }
    }

    /// Takes a transaction out.
    pub(super) fn remove(&mut self, sender: Address, tx_nonce: u64) -> Option<Arc<Entry>> {
        let altered = self.alter(sender, |account| (account.remove(tx_nonce), account.local));
        let (removed, local) = altered?;
        let removed = removed?;
        self.forget(&removed, local);
        Some(removed)
    }

    /// Follows an account to another standing.
    pub(super) fn follow(&mut self, address: Address, standing: Standing, gas_limit: u64) {
        let altered = self.alter(address, |account| {
            (account.follow(standing, gas_limit), account.local)
        });
        if let Some((followed, local)) = altered {
            followed.gone.iter().for_each(|gone| self.forget(gone, local));
            followed.promoted.iter().for_each(|entry| self.announce(entry));
        }
    }

    /// Takes out everything that does not fit, of all accounts.
    pub(super) fn drop_unless(&mut self, fits: impl Fn(&Entry) -> bool) {
        let mut gas_max = 0;
        for address in self.accounts.keys().copied().collect::<Vec<_>>() {
            let altered = self.alter(address, |account| {
                let gone = account.drop_unless(&fits);
                gas_max = gas_max.max(account.gas_max());
                (gone, account.local)
            });
            if let Some((gone, local)) = altered {
                gone.iter().for_each(|gone| self.forget(gone, local));
            }
        }
        self.gas_max = gas_max;
    }

    /// From now on, and with all that it has here, the account is this node's own.
    pub(super) fn make_local(&mut self, address: Address) {
        if !self.locals.insert(address) {
            return;
        }
        let entries = self.alter(address, |account| {
            account.local = true;
            account.entries().cloned().collect::<Vec<_>>()
        });
        for entry in entries.into_iter().flatten() {
            self.evictable.remove(&entry.eviction_key());
            self.local_slots += entry.slots();
        }
    }

    fn forget(&mut self, entry: &Entry, local: bool) {
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
