//! The transaction pool: transactions that wait to be mined.
//!
//! A transaction is *pending* if it can be mined after the transactions before it: no nonce is
//! missing from the account's own nonce up to that of the transaction, and the account can pay
//! for all of these transactions together. Otherwise it is *queued*.
//!
//! An account is *local* if [`LocalAccounts`] says so: if the node has its key, or its owner has
//! named it. It makes no difference who submits a transaction, and over which connection. The
//! transactions of local accounts have no price floor, are never evicted, do not expire, and are
//! written into a journal. They have a limit for each account. All other accounts are *remote*.
//!
//! | question | module |
//! |---|---|
//! | Which transactions are accepted? | `admission` |
//! | Which transactions are evicted when there are too many? | `limits` |
//! | Which transactions are pending, which queued? | `account`, for all accounts `index` |
//! | What does a block builder get? | `ready` |
//! | Which transactions became pending since a moment? | `feed` |
//! | What survives the end of the process? | [`journal`] |
//!
//! The pool knows nonces and balances as they were given to it with the last head. It reads no
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

pub use account::SenderState;
pub use config::{
    ACCOUNT_QUEUE_DEFAULT, ACCOUNT_SLOTS_DEFAULT, GLOBAL_QUEUE_DEFAULT, GLOBAL_SLOTS_DEFAULT, JOURNAL_NAME,
    LIFETIME_DEFAULT, LocalAccounts, PRICE_BUMP_PERCENT_DEFAULT, PRICE_FLOOR_DEFAULT, PRICE_FLOOR_MINING,
    PoolConfig, REJOURNAL_DEFAULT,
};
pub use entry::{PooledTransaction, SLOT_BYTES};
pub use error::PoolError;
pub use feed::{PENDING_FEED_MAX, PendingFeed, PendingHashes};
pub use ready::ReadyTransactions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use primitives::{Address, B256, Transaction, U256};

use crate::spec::ChainSpec;
use account::PoolAccount;
use entry::PoolEntry;
use index::PoolIndex;
use journal::TxJournal;

/// The facts that the rules for transactions in the next block depend on.
#[derive(Clone, Copy, Debug)]
pub struct NextBlock {
    /// The number of the next block.
    pub number: u64,
    /// The gas limit of the next block.
    pub gas_limit: u64,
}

/// A transaction of a block that was reverted.
#[derive(Clone, Debug)]
pub struct RevertedTransaction {
    /// The transaction.
    pub transaction: Transaction,
    /// The sender.
    pub sender: Address,
    /// The sender's state at the new head.
    pub sender_state: SenderState,
}

/// Pending and queued transactions by account and nonce.
#[derive(Clone, Debug, Default)]
pub struct PoolContent {
    /// Transactions that can be mined now.
    pub pending: BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>,
    /// Transactions that wait for a missing nonce, or for the sender's balance to rise.
    pub queued: BTreeMap<Address, BTreeMap<u64, Arc<Transaction>>>,
}

/// The pool. It is shared by reference. Every call holds its lock for a short time only.
#[derive(Debug)]
pub struct TxPool {
    spec: Arc<ChainSpec>,
    inner: Mutex<PoolInner>,
    transaction_bytes_max: usize,
    /// Number of the next block, for checks without the lock.
    next_number: AtomicU64,
    generation: AtomicU64,
    locals: Option<LocalAccounts>,
    journal: Option<TxJournal>,
}

#[derive(Debug)]
struct PoolInner {
    index: PoolIndex,
    config: PoolConfig,
    next: NextBlock,
}

impl TxPool {
    /// Makes an empty pool. Its journal is written from the first [`Self::rotate_journal`] on.
    pub fn new(spec: Arc<ChainSpec>, config: PoolConfig, next: NextBlock) -> Self {
        let journal = config.journal.clone().filter(|_| config.locals.is_some());
        Self {
            spec,
            transaction_bytes_max: config.transaction_bytes_max,
            next_number: AtomicU64::new(next.number),
            generation: AtomicU64::new(0),
            locals: config.locals.clone(),
            journal: journal.map(TxJournal::new),
            inner: Mutex::new(PoolInner {
                index: PoolIndex::new(config.account_slots),
                config,
                next,
            }),
        }
    }

    /// The number of changes so far. If it is the same twice, the pool has not changed.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Number of the block that transactions are checked for.
    pub fn next_number(&self) -> u64 {
        self.next_number.load(Ordering::Acquire)
    }

    /// Takes a transaction in. Returns its hash. `state` is the sender's state at the head.
    ///
    /// The transaction of a local account is in the journal when this returns. So it survives the
    /// end of the process, but not a crash of the machine. If the journal cannot be written, this
    /// is logged and the transaction is accepted all the same.
    ///
    /// # Errors
    /// [`PoolError`] if the transaction is refused. Then no other transaction was evicted for it.
    pub fn add(
        &self,
        transaction: Transaction,
        sender: Address,
        state: SenderState,
    ) -> Result<B256, PoolError> {
        let entry = self.checked(transaction, sender)?;
        let (hash, transaction) = (entry.pooled.hash, entry.pooled.transaction.clone());
        let local = self.is_local(&sender);
        let mut inner = self.inner.lock();
        let PoolInner { index, config, next } = &mut *inner;
        let reclassified = index.reclassify(sender, local, config);
        let admitted = index.admit(entry, state, local, *next, config);
        drop(inner);
        if reclassified || admitted.is_ok() {
            self.changed();
        }
        admitted?;
        if local && let Some(journal) = &self.journal {
            journal.append(&transaction);
        }
        Ok(hash)
    }

    /// Does the checks that need no lock.
    fn checked(&self, transaction: Transaction, sender: Address) -> Result<PoolEntry, PoolError> {
        let entry = PoolEntry::new(transaction, sender);
        admission::check_size(entry.bytes, self.transaction_bytes_max)?;
        admission::check_form(&self.spec, self.next_number(), entry.transaction())?;
        Ok(entry)
    }

    /// Checks whatever can be checked without the sender of a transaction, whose hash is `hash`. It
    /// costs little compared with recovering the sender. The sender counts as no local account: the
    /// transactions of those are in the pool already.
    ///
    /// # Errors
    /// [`PoolError`] if the pool would refuse the transaction.
    pub fn check_without_sender(&self, transaction: &Transaction, hash: &B256) -> Result<(), PoolError> {
        {
            let inner = self.inner.lock();
            if inner.index.by_hash.contains_key(hash) {
                return Err(PoolError::Known(*hash));
            }
            admission::check_gas_and_price(transaction, false, inner.next, &inner.config)?;
        }
        admission::check_size(transaction.encoded_length(), self.transaction_bytes_max)?;
        admission::check_form(&self.spec, self.next_number(), transaction)
    }

    /// The accounts among `addresses` that have transactions in the pool.
    pub(crate) fn senders_among(&self, addresses: impl IntoIterator<Item = Address>) -> Vec<Address> {
        let inner = self.inner.lock();
        let is_sender = |address: &Address| inner.index.accounts.contains_key(address);
        addresses.into_iter().filter(is_sender).collect()
    }

    /// The accounts that have transactions in the pool.
    pub fn senders(&self) -> Vec<Address> {
        self.inner.lock().index.accounts.keys().copied().collect()
    }

    /// Makes the pool follow a new head. Transactions that can never be mined any more are dropped.
    ///
    /// `next` is the block after the head, `states` are the accounts that the head has changed,
    /// and `reverted` are the transactions of reverted blocks, lowest block first.
    pub fn follow_head(
        &self,
        next: NextBlock,
        states: impl IntoIterator<Item = (Address, SenderState)>,
        reverted: impl IntoIterator<Item = RevertedTransaction>,
    ) {
        let rules_at = |number| (self.spec.rules_at(number), self.spec.chain_id_at(number));
        let old_rules = rules_at(self.next_number());
        self.next_number.store(next.number, Ordering::Release);
        let mut returning = Vec::new();
        for RevertedTransaction {
            transaction,
            sender,
            sender_state,
        } in reverted
        {
            let hash = transaction.hash();
            match self.checked(transaction, sender) {
                Ok(entry) => returning.push((entry, sender_state, self.is_local(&sender))),
                Err(error) => {
                    tracing::debug!(%hash, %error, "a transaction of a reverted block does not return to the pool")
                }
            }
        }
        let mut inner = self.inner.lock();
        let PoolInner {
            index,
            config,
            next: stored_next,
        } = &mut *inner;
        *stored_next = next;
        let mut touched = Vec::new();
        for (address, state) in states {
            index.follow(address, state, next.gas_limit);
            touched.push(address);
        }
        let rules_changed = old_rules != rules_at(next.number);
        if rules_changed || index.gas_max > next.gas_limit {
            index.retain(|entry| {
                let form = admission::check_form(&self.spec, next.number, entry.transaction());
                form.is_ok() && entry.transaction().gas <= next.gas_limit
            });
            touched = index.accounts.keys().copied().collect();
        }
        let mut journaled = Vec::new();
        for (entry, state, local) in returning {
            let (hash, sender) = (entry.pooled.hash, entry.pooled.sender);
            let transaction = entry.pooled.transaction.clone();
            touched.push(sender);
            match index.readmit(entry, state, local, next, config) {
                // A rotation may have left it out while it was in a block.
                Ok(()) if local => journaled.push(transaction),
                Ok(()) => {}
                Err(error) => {
                    tracing::debug!(%hash, %error, "a transaction of a reverted block does not return to the pool");
                }
            }
        }
        // Limits come last: until all transactions have returned, too many may be queued.
        index.enforce(config, touched);
        drop(inner);
        for transaction in journaled {
            self.journal
                .iter()
                .for_each(|journal| journal.append(&transaction));
        }
        self.changed();
    }

    /// Drops the queued transactions of remote accounts whose queue had no heartbeat during the
    /// whole lifetime before `now`. Returns how many were dropped.
    pub fn expire(&self, now: Instant) -> usize {
        let mut inner = self.inner.lock();
        let PoolInner { index, config, .. } = &mut *inner;
        let before = index.queued;
        while let Some(((heartbeat, _), sender)) = index.heartbeats.first_key_value()
            && now.saturating_duration_since(*heartbeat) > config.lifetime
            && let sender = *sender
            && let Some(last) = index.accounts.get(&sender).and_then(PoolAccount::last_queued)
        {
            index.remove(sender, last);
        }
        let dropped = before - index.queued;
        drop(inner);
        if dropped > 0 {
            self.changed();
        }
        dropped
    }

    /// The lowest gas price that is accepted from remote accounts, in sha.
    pub fn price_floor(&self) -> U256 {
        self.inner.lock().config.price_floor
    }

    /// Changes the lowest gas price that is accepted from remote accounts, in sha. Their cheaper
    /// transactions are evicted.
    pub fn set_price_floor(&self, floor: U256) {
        let mut inner = self.inner.lock();
        let PoolInner { index, config, .. } = &mut *inner;
        config.price_floor = floor;
        index.evict_below_floor(config);
        drop(inner);
        self.changed();
    }

    /// Whether the account is local.
    pub fn is_local(&self, address: &Address) -> bool {
        let locals = self.locals.as_ref();
        locals.is_some_and(|locals| locals.contains(address))
    }

    /// The transaction with this hash or Ethereum hash.
    pub fn get(&self, hash: &B256) -> Option<PooledTransaction> {
        let inner = self.inner.lock();
        let (sender, tx_nonce) = inner.index.by_hash.get(hash)?;
        let entry = inner.index.accounts.get(sender)?.get(*tx_nonce)?;
        Some(entry.pooled.clone())
    }

    /// Drops the transaction with this hash or Ethereum hash. Those with later nonces wait. Returns
    /// whether it was there.
    pub fn drop_transaction(&self, hash: &B256) -> bool {
        let mut inner = self.inner.lock();
        let Some((sender, tx_nonce)) = inner.index.by_hash.get(hash).copied() else {
            return false;
        };
        let dropped = inner.index.remove(sender, tx_nonce).is_some();
        drop(inner);
        self.changed();
        dropped
    }

    /// Drops all transactions.
    pub fn clear(&self) {
        self.inner.lock().index.retain(|_| false);
        self.changed();
    }

    /// Whether the pool has the transaction with this hash or Ethereum hash.
    pub fn contains(&self, hash: &B256) -> bool {
        self.inner.lock().index.by_hash.contains_key(hash)
    }

    /// The lowest nonce of the account that no transaction in the pool has; `None` if the account
    /// has no transactions in the pool.
    pub fn next_nonce(&self, address: &Address) -> Option<u64> {
        let inner = self.inner.lock();
        inner.index.accounts.get(address).map(PoolAccount::next_nonce)
    }

    /// The number of pending transactions and the number of queued ones.
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.index.pending, inner.index.queued)
    }

    /// All transactions. Only pointers are copied while the lock is held.
    pub fn content(&self) -> PoolContent {
        let inner = self.inner.lock();
        let accounts = inner.index.accounts.iter();
        let copied: Vec<(Address, usize, Vec<Arc<PoolEntry>>)> = accounts
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

    /// The pending transactions, for a block builder. Only pointers are copied while the lock is
    /// held.
    pub fn ready(&self) -> ReadyTransactions {
        let inner = self.inner.lock();
        let accounts = inner.index.accounts.iter();
        let pending: Vec<(Address, Vec<Arc<PoolEntry>>)> = accounts
            .filter(|(_, account)| account.pending() > 0)
            .map(|(address, account)| {
                let entries = account.entries().take(account.pending());
                (*address, entries.cloned().collect())
            })
            .collect();
        drop(inner);
        ReadyTransactions::new(pending)
    }

    /// The cursor of the next transaction that becomes pending.
    pub fn pending_cursor(&self) -> u64 {
        self.inner.lock().index.feed.cursor()
    }

    /// Hashes of the transactions that became pending since `cursor`, at most `max`. Each
    /// transaction comes once.
    pub fn pending_since(&self, cursor: u64, max: usize) -> PendingHashes {
        self.inner.lock().index.feed.since(cursor, max)
    }

    /// Rewrites the journal with the local transactions that are in the pool now. Returns how many
    /// these are; `None` if there is no journal.
    ///
    /// # Errors
    /// The system's error if the journal cannot be written. Then the old journal stays as it was.
    pub fn rotate_journal(&self) -> std::io::Result<Option<usize>> {
        let Some(journal) = &self.journal else {
            return Ok(None);
        };
        journal.rotate(|| self.local_transactions()).map(Some)
    }

    /// The journal, and how often it should be rewritten.
    pub(crate) fn journal(&self) -> Option<(&TxJournal, Duration)> {
        let rejournal = self.inner.lock().config.rejournal;
        self.journal.as_ref().map(|journal| (journal, rejournal))
    }

    /// The local transactions, those of each account by nonce.
    fn local_transactions(&self) -> Vec<Arc<Transaction>> {
        let inner = self.inner.lock();
        let accounts = inner.index.accounts.values().filter(|account| account.local);
        accounts
            .flat_map(PoolAccount::entries)
            .map(|entry| entry.pooled.transaction.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests;
