//! The transaction pool: what waits to be mined.
//!
//! A transaction is *pending* when it can be mined after those before it: every nonce from the
//! account's own on is there, and the account can pay for all of them. Otherwise it is
//! *queued*. Accounts that this node sends for are *local*, with everything they have here:
//! free of limits and of the price floor, never made to leave, and written into a journal.
//!
//! | question | module |
//! |---|---|
//! | what may come in? | `admission` |
//! | who leaves when there is too much? | `limits` |
//! | what is pending, what is queued? | `account`, all of them in `index` |
//! | what does a block builder get? | `ready` |
//! | what became pending since? | `feed` |
//! | what survives the process? | [`journal`] |
//!
//! Knows accounts' nonces and balances as they were handed to it with the last head; reads no
//! store and recovers no signatures.

mod account;
mod admission;
mod config;
mod entry;
mod error;
mod feed;
mod index;
pub mod journal;
mod limits;
mod ready;

pub use account::Standing;
pub use config::{
    ACCOUNT_QUEUE_DEFAULT, ACCOUNT_SLOTS_DEFAULT, GLOBAL_QUEUE_DEFAULT, GLOBAL_SLOTS_DEFAULT, JOURNAL_NAME,
    LIFETIME_DEFAULT, PRICE_BUMP_PERCENT_DEFAULT, PRICE_FLOOR_DEFAULT, PRICE_FLOOR_MINING, PoolConfig,
    REJOURNAL_DEFAULT,
};
pub use entry::{PooledTransaction, SLOT_BYTES};
pub use error::PoolError;
pub use feed::{PENDING_FEED_MAX, PendingHashes};
pub use index::LOCALS_MAX;
pub use ready::ReadyTransactions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use primitives::{Address, B256, Transaction, U256};

use crate::spec::ChainSpec;
use account::Account;
use entry::Entry;
use index::Index;
use journal::Journal;

/// Who brought a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This node's own accounts and its RPC. The sender is local from then on, until the
    /// process ends.
    Local,
    /// Anyone else.
    Remote,
}

/// What holds for transactions of the next block.
#[derive(Clone, Copy, Debug)]
pub struct NextBlock {
    /// Its number.
    pub number: u64,
    /// Its gas limit.
    pub gas_limit: u64,
}

/// A transaction of a block that is taken back.
#[derive(Clone, Debug)]
pub struct Reverted {
    /// The transaction.
    pub transaction: Transaction,
    /// Who sent it.
    pub sender: Address,
    /// The sender's standing at the new head.
    pub standing: Standing,
}

/// Pending and queued transactions by account and nonce.
#[derive(Clone, Debug, Default)]
pub struct PoolContent {
    /// Can be mined now.
    pub pending: BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>,
    /// Wait for a missing nonce, or for money.
    pub queued: BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>,
}

/// The pool. Shared by reference; every call is short.
#[derive(Debug)]
pub struct TxPool {
    spec: Arc<ChainSpec>,
    inner: Mutex<Inner>,
    transaction_bytes_max: usize,
    /// Number of the next block, for checks that need no lock.
    next_number: AtomicU64,
    generation: AtomicU64,
    journal: Option<Journal>,
}

#[derive(Debug)]
struct Inner {
    index: Index,
    config: PoolConfig,
    next: NextBlock,
}

impl TxPool {
    /// An empty pool. Its journal is written from the first [`Self::rotate_journal`] on.
    pub fn new(spec: Arc<ChainSpec>, config: PoolConfig, next: NextBlock) -> Self {
        let journal = config.journal.clone().filter(|_| config.locals);
        Self {
            spec,
            transaction_bytes_max: config.transaction_bytes_max,
            next_number: AtomicU64::new(next.number),
            generation: AtomicU64::new(0),
            journal: journal.map(Journal::new),
            inner: Mutex::new(Inner {
                index: Index::new(config.account_slots),
                config,
                next,
            }),
        }
    }

    /// Counts changes: equal numbers mean an equal pool.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Number of the block that what waits is judged for.
    pub fn next_number(&self) -> u64 {
        self.next_number.load(Ordering::Acquire)
    }

    /// Takes a transaction in. `standing` is the sender's at the head block. A local one is in
    /// the journal when this returns: it survives the end of the process, though not of the
    /// machine, and a journal that cannot be written is logged and keeps nothing out.
    ///
    /// # Errors
    /// [`PoolError`] saying why not; then nothing that waited has left.
    pub fn add(
        &self,
        transaction: Transaction,
        sender: Address,
        standing: Standing,
        origin: Origin,
    ) -> Result<B256, PoolError> {
        let entry = self.checked(transaction, sender)?;
        let (hash, transaction) = (entry.pooled.hash, entry.pooled.transaction.clone());
        let mut inner = self.inner.lock();
        let Inner { index, config, next } = &mut *inner;
        let local = config.locals && index.is_local(&sender, origin == Origin::Local);
        let admitted = index.admit(entry, standing, local, *next, config);
        drop(inner);
        admitted?;
        self.changed();
        if local && let Some(journal) = &self.journal {
            journal.append(&transaction);
        }
        Ok(hash)
    }

    /// What can be done without the lock.
    fn checked(&self, transaction: Transaction, sender: Address) -> Result<Entry, PoolError> {
        let entry = Entry::new(transaction, sender);
        admission::check_size(&entry, self.transaction_bytes_max)?;
        admission::check_form(&self.spec, self.next_number(), entry.transaction())?;
        Ok(entry)
    }

    /// Of these accounts, those with transactions in the pool.
    pub fn present(&self, addresses: impl IntoIterator<Item = Address>) -> Vec<Address> {
        let inner = self.inner.lock();
        let present = |address: &Address| inner.index.accounts.contains_key(address);
        addresses.into_iter().filter(present).collect()
    }

    /// The accounts with transactions in the pool.
    pub fn senders(&self) -> Vec<Address> {
        self.inner.lock().index.accounts.keys().copied().collect()
    }

    /// Follows a new head: the standings of the accounts that it changed, the transactions that
    /// come back with the blocks it reverted (lowest first), and the rules for the block after
    /// it. What no longer can be mined leaves.
    pub fn follow_head(
        &self,
        next: NextBlock,
        standings: impl IntoIterator<Item = (Address, Standing)>,
        reverted: impl IntoIterator<Item = Reverted>,
    ) {
        let old_rules = self.spec.rules_at(self.next_number());
        self.next_number.store(next.number, Ordering::Release);
        let mut back = Vec::new();
        for Reverted {
            transaction,
            sender,
            standing,
        } in reverted
        {
            let hash = transaction.hash();
            match self.checked(transaction, sender) {
                Ok(entry) => back.push((entry, standing)),
                Err(error) => {
                    tracing::debug!(%hash, %error, "transaction of a reverted block not taken back")
                }
            }
        }
        let mut inner = self.inner.lock();
        let Inner {
            index,
            config,
            next: noted,
        } = &mut *inner;
        *noted = next;
        let mut touched = Vec::new();
        for (address, standing) in standings {
            index.follow(address, standing, next.gas_limit);
            touched.push(address);
        }
        let new_rules = old_rules != self.spec.rules_at(next.number);
        if new_rules || index.gas_max > next.gas_limit {
            index.drop_unless(|entry| {
                let form = admission::check_form(&self.spec, next.number, entry.transaction());
                form.is_ok() && entry.transaction().gas <= next.gas_limit
            });
            touched = index.accounts.keys().copied().collect();
        }
        for (entry, standing) in back {
            let (hash, sender) = (entry.pooled.hash, entry.pooled.sender);
            touched.push(sender);
            if let Err(error) = index.readmit(entry, standing, next, config) {
                tracing::debug!(%hash, %error, "transaction of a reverted block not taken back");
            }
        }
        // Only now, so that nothing goes for the want of what was about to come back.
        index.enforce(config, touched);
        drop(inner);
        self.changed();
    }

    /// Lets the queues of others go that were of no use for the whole lifetime before `now`.
    /// Gives how many transactions left.
    pub fn expire(&self, now: Instant) -> usize {
        let mut inner = self.inner.lock();
        let Inner { index, config, .. } = &mut *inner;
        let before = index.queued;
        while let Some(((beat, _), sender)) = index.beats.first_key_value()
            && now.saturating_duration_since(*beat) > config.lifetime
            && let sender = *sender
            && let Some(last) = index.accounts.get(&sender).and_then(Account::last_queued)
        {
            index.remove(sender, last);
        }
        let gone = before - index.queued;
        drop(inner);
        if gone > 0 {
            self.changed();
        }
        gone
    }

    /// The cheapest gas price taken from others, in sha.
    pub fn price_floor(&self) -> U256 {
        self.inner.lock().config.price_floor
    }

    /// Changes the cheapest gas price taken from others; theirs below it leave.
    pub fn set_price_floor(&self, floor: U256) {
        let mut inner = self.inner.lock();
        let Inner { index, config, .. } = &mut *inner;
        config.price_floor = floor;
        while let Some((price, _, hash)) = index.evictable.first()
            && *price < floor
            && let Some((sender, tx_nonce)) = index.by_hash.get(hash).copied()
        {
            index.evict(sender, tx_nonce, config);
        }
        drop(inner);
        self.changed();
    }

    /// Whether transactions of this account are this node's own.
    pub fn is_local(&self, address: &Address) -> bool {
        self.inner.lock().index.locals.contains(address)
    }

    /// A waiting transaction by its hash, or by its Ethereum hash.
    pub fn get(&self, hash: &B256) -> Option<PooledTransaction> {
        let inner = self.inner.lock();
        let (sender, tx_nonce) = inner.index.by_hash.get(hash)?;
        let entry = inner.index.accounts.get(sender)?.get(*tx_nonce)?;
        Some(entry.pooled.clone())
    }

    /// Whether a transaction with this hash, or Ethereum hash, waits.
    pub fn contains(&self, hash: &B256) -> bool {
        self.inner.lock().index.by_hash.contains_key(hash)
    }

    /// The first nonce of the account that no transaction waits with; `None` where none waits.
    pub fn next_nonce(&self, address: &Address) -> Option<u64> {
        let inner = self.inner.lock();
        inner.index.accounts.get(address).map(Account::next_nonce)
    }

    /// How many transactions are pending, and how many queued.
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.index.pending, inner.index.queued)
    }

    /// Everything in the pool. Only pointers are copied under the lock.
    pub fn content(&self) -> PoolContent {
        let inner = self.inner.lock();
        let accounts = inner.index.accounts.iter();
        let copied: Vec<(Address, usize, Vec<Arc<Entry>>)> = accounts
            .map(|(address, account)| (*address, account.pending(), account.entries().cloned().collect()))
            .collect();
        drop(inner);
        let mut content = PoolContent::default();
        for (address, pending, entries) in copied {
            let mut all = entries
                .iter()
                .map(|entry| (entry.tx_nonce(), entry.pooled.transaction.clone()));
            let first: BTreeMap<_, _> = all.by_ref().take(pending).collect();
            let rest: BTreeMap<_, _> = all.collect();
            if !first.is_empty() {
                content.pending.insert(address, first);
            }
            if !rest.is_empty() {
                content.queued.insert(address, rest);
            }
        }
        content
    }

    /// The pending transactions, for a block builder. Only pointers are copied under the lock.
    pub fn ready(&self) -> ReadyTransactions {
        let inner = self.inner.lock();
        let accounts = inner.index.accounts.iter();
        let pending: Vec<(Address, Vec<Arc<Entry>>)> = accounts
            .filter(|(_, account)| account.pending() > 0)
            .map(|(address, account)| {
                let entries = account.entries().take(account.pending());
                (*address, entries.cloned().collect())
            })
            .collect();
        drop(inner);
        ReadyTransactions::new(pending)
    }

    /// Where the feed of hashes that become pending is now.
    pub fn pending_cursor(&self) -> u64 {
        self.inner.lock().index.feed.cursor()
    }

    /// At most `max` of the hashes that became pending since `cursor`, each transaction's once.
    pub fn pending_since(&self, cursor: u64, max: usize) -> PendingHashes {
        self.inner.lock().index.feed.since(cursor, max)
    }

    /// Writes the journal anew, with what is local and waits now. Gives how many those are, or
    /// `None` where there is no journal.
    ///
    /// # Errors
    /// The system's words, when it cannot be written; then the old one stays as it was.
    pub fn rotate_journal(&self) -> std::io::Result<Option<usize>> {
        let Some(journal) = &self.journal else {
            return Ok(None);
        };
        journal.rotate(|| self.local_transactions()).map(Some)
    }

    /// The journal, and how often it is to be written anew.
    pub(crate) fn journal(&self) -> Option<(&Journal, Duration)> {
        let rejournal = self.inner.lock().config.rejournal;
        self.journal.as_ref().map(|journal| (journal, rejournal))
    }

    /// What is local, each account's by nonce.
    fn local_transactions(&self) -> Vec<Arc<Transaction>> {
        let inner = self.inner.lock();
        let accounts = inner.index.accounts.values().filter(|account| account.local);
        accounts
            .flat_map(Account::entries)
            .map(|entry| entry.pooled.transaction.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests;
