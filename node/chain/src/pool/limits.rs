//! The limits of the pool: which transactions a full pool evicts, and which it refuses.
//!
//! | limit | what is evicted |
//! |---|---|
//! | queued transactions of an account | the account's highest nonces |
//! | queued transactions of all accounts | those of the queue without heartbeat for longest |
//! | pending transactions of all accounts | those of the largest account above its guaranteed ones |
//! | slots of all transactions | the lowest gas prices |
//!
//! Transactions of local accounts are never evicted. So a local account that has reached a limit
//! of its own gets no more transactions in: it has as many queued transactions as a remote one,
//! and a share of the slots. Each eviction costs the logarithm of the number of transactions. A
//! transaction that would be evicted itself is refused before anything is changed.

use primitives::{Address, U256};

use super::account::PoolAccount;
use super::entry::PoolEntry;
use super::index::PoolIndex;
use super::{PoolConfig, PoolError};

impl PoolIndex {
    /// The transactions that must be evicted so that `entry` fits into the pool. `account` is the
    /// sender's, not changed yet.
    ///
    /// # Errors
    /// [`PoolError`] if `entry` itself would be evicted.
    pub(super) fn find_victims(
        &self,
        entry: &PoolEntry,
        account: &PoolAccount,
        local: bool,
        config: &PoolConfig,
    ) -> Result<Vec<(Address, u64)>, PoolError> {
        let old = account.get(entry.tx_nonce());
        match (old, local) {
            (None, true) => check_local_queue(entry, account, config)?,
            (None, false) => self.check_count_limits(entry, account, config)?,
            (Some(_), _) => {}
        }
        let needed = entry.slots().saturating_sub(old.map_or(0, |old| old.slots()));
        if needed == 0 {
            return Ok(Vec::new());
        }
        if local {
            self.check_local_slots(needed, account, config)?;
        }
        let excess = (self.slots + needed).saturating_sub(config.slots_max());
        self.find_cheapest(entry, account, local, excess, config)
    }

    /// Makes an account local or remote. Limits and price floor apply to a remote account's
    /// transactions from then on. Returns whether this has changed anything.
    pub(super) fn reclassify(&mut self, sender: Address, local: bool, config: &PoolConfig) -> bool {
        let changed = self.set_local(sender, local);
        if changed {
            self.evict_below_floor(config);
            self.enforce(config, [sender]);
        }
        changed
    }

    /// Evicts the remote transactions with a gas price below the floor.
    pub(super) fn evict_below_floor(&mut self, config: &PoolConfig) {
        while let Some((price, _, hash)) = self.evictable.first()
            && *price < config.price_floor
            && let Some((sender, tx_nonce)) = self.by_hash.get(hash).copied()
        {
            self.evict(sender, tx_nonce, config);
        }
    }

    /// Checks the limits on pending and queued transactions for a remote transaction that replaces
    /// no other.
    fn check_count_limits(
        &self,
        entry: &PoolEntry,
        account: &PoolAccount,
        config: &PoolConfig,
    ) -> Result<(), PoolError> {
        let sender = entry.pooled.sender;
        if would_be_pending(entry, account) {
            let largest_other = self.large.iter().rev().find(|(_, other)| *other != sender);
            let is_largest = account.pending() + 1 >= largest_other.map_or(0, |(length, _)| *length);
            let has_guaranteed = account.pending() >= config.account_slots;
            if self.pending >= config.global_slots && has_guaranteed && is_largest {
                return Err(PoolError::Full {
                    what: "pending transactions",
                    got: self.pending,
                    max: config.global_slots,
                });
            }
            return Ok(());
        }
        let is_last = account.last_queued() < Some(entry.tx_nonce());
        if account.queued() >= config.account_queue {
            // A transaction with a lower nonce than the last is worth more; the last is evicted for
            // it.
            return match is_last {
                true => Err(PoolError::AccountQueue {
                    got: account.queued(),
                    max: config.account_queue,
                    missing: account.next_nonce(),
                }),
                false => Ok(()),
            };
        }
        let would_be_evicted = match self.heartbeats.first_key_value() {
            Some((_, oldest)) => *oldest == sender && is_last,
            None => true,
        };
        if self.queued >= config.global_queue && would_be_evicted {
            return Err(PoolError::Full {
                what: "queued transactions",
                got: self.queued,
                max: config.global_queue,
            });
        }
        Ok(())
    }

    /// Checks that a local account keeps to its share of the slots, and that local transactions
    /// alone do not fill more slots than the pool has. They can evict all others, but memory is
    /// limited.
    fn check_local_slots(
        &self,
        needed: usize,
        account: &PoolAccount,
        config: &PoolConfig,
    ) -> Result<(), PoolError> {
        let (got, max) = (account.slots(), config.local_account_slots_max());
        if got + needed > max {
            return Err(PoolError::Full {
                what: "slots of this local account",
                got,
                max,
            });
        }
        let (got, max) = (self.local_slots, config.slots_max());
        if got + needed > max {
            return Err(PoolError::Full {
                what: "slots of local transactions",
                got,
                max,
            });
        }
        Ok(())
    }

    /// Finds the cheapest remote transactions that fill `excess` slots together.
    fn find_cheapest(
        &self,
        entry: &PoolEntry,
        account: &PoolAccount,
        local: bool,
        excess: usize,
        config: &PoolConfig,
    ) -> Result<Vec<(Address, u64)>, PoolError> {
        let sender = entry.pooled.sender;
        let mut missing_nonce = (!would_be_pending(entry, account)).then(|| account.next_nonce());
        let (mut freed, mut victims, mut evicts_pending) = (0, Vec::new(), false);
        for (price, _, hash) in &self.evictable {
            if freed >= excess {
                break;
            }
            let Some((victim, tx_nonce)) = self.by_hash.get(hash).copied() else {
                continue;
            };
            let own = victim == sender;
            // The replaced transaction leaves anyway.
            if own && tx_nonce == entry.tx_nonce() {
                continue;
            }
            if !local && entry.price() <= *price {
                return Err(PoolError::Underpriced {
                    got: entry.price(),
                    expected: *price + U256::from(1),
                });
            }
            let Some(victim_account) = self.accounts.get(&victim) else {
                continue;
            };
            freed += victim_account.get(tx_nonce).map_or(0, |entry| entry.slots());
            evicts_pending |= victim_account.is_pending(tx_nonce);
            if own && tx_nonce < entry.tx_nonce() {
                missing_nonce = missing_nonce.or(Some(tx_nonce));
            }
            victims.push((victim, tx_nonce));
        }
        if freed < excess {
            return Err(PoolError::Full {
                what: "slots",
                got: self.slots,
                max: config.slots_max(),
            });
        }
        match missing_nonce {
            Some(missing) if evicts_pending && !local => Err(PoolError::FutureReplacesPending { missing }),
            _ => Ok(victims),
        }
    }

    /// Evicts transactions until all limits are kept. `touched` are the accounts whose queues may
    /// have become too long.
    pub(super) fn enforce(&mut self, config: &PoolConfig, touched: impl IntoIterator<Item = Address>) {
        for address in touched {
            self.trim(&address, config);
        }
        while self.slots > config.slots_max()
            && let Some((_, _, hash)) = self.evictable.first()
            && let Some((sender, tx_nonce)) = self.by_hash.get(hash).copied()
        {
            self.evict(sender, tx_nonce, config);
        }
        while self.pending > config.global_slots
            && let Some((_, sender)) = self.large.last().copied()
            && let Some(last) = self.accounts.get(&sender).and_then(PoolAccount::last_pending)
        {
            self.drop_one(sender, last, "too many pending transactions");
        }
        while self.queued > config.global_queue
            && let Some((_, sender)) = self.heartbeats.first_key_value()
            && let (sender, Some(account)) = (*sender, self.accounts.get(sender))
            && let Some(last) = account.last_queued()
        {
            self.drop_one(sender, last, "too many queued transactions");
        }
    }

    /// Evicts a transaction for its gas price. The sender's pending transactions after it become
    /// queued, as many as an account may queue.
    pub(super) fn evict(&mut self, sender: Address, tx_nonce: u64, config: &PoolConfig) {
        self.drop_one(
            sender,
            tx_nonce,
            "the pool is full of transactions with higher gas prices",
        );
        self.trim(&sender, config);
    }

    /// Shortens the queue of an account to its limit.
    fn trim(&mut self, address: &Address, config: &PoolConfig) {
        while let Some(account) = self.accounts.get(address)
            && !account.local
            && account.queued() > config.account_queue
            && let Some(last) = account.last_queued()
        {
            self.drop_one(*address, last, "too many queued transactions of one account");
        }
    }

    fn drop_one(&mut self, sender: Address, tx_nonce: u64, why: &str) {
        if let Some(dropped) = self.remove(sender, tx_nonce) {
            tracing::debug!(hash = %dropped.pooled.hash, %sender, tx_nonce, why, "transaction dropped");
        }
    }
}

/// Checks that a local account queues no more transactions than it may. Transactions that were
/// pending and became queued stay, however many these are.
fn check_local_queue(entry: &PoolEntry, account: &PoolAccount, config: &PoolConfig) -> Result<(), PoolError> {
    let (got, max) = (account.queued(), config.account_queue);
    if !would_be_pending(entry, account) && got >= max {
        return Err(PoolError::AccountQueue {
            got,
            max,
            missing: account.next_nonce(),
        });
    }
    Ok(())
}

/// Whether the transaction would be pending: no nonce before it is missing. That the account can
/// pay for it was checked before.
fn would_be_pending(entry: &PoolEntry, account: &PoolAccount) -> bool {
    entry.tx_nonce() <= account.pending_end()
}
