//! Who may come into a full pool, and who leaves for it.
//!
//! Local accounts are never made to leave. Of others: an account queues so many; a full queue
//! loses what has been of no use for the longest time; too many pending transactions are cut
//! from the largest accounts, none below its guaranteed slots; a full pool loses the cheapest.
//! Each step costs the logarithm of what waits. A transaction that would itself be the one to
//! leave is refused before anything is changed.

use primitives::{Address, U256};

use super::account::Account;
use super::entry::Entry;
use super::index::Index;
use super::{PoolConfig, PoolError};

impl Index {
    /// Who has to leave so that the newcomer fits. `account` is its sender's, not changed yet.
    pub(super) fn victims(
        &self,
        entry: &Entry,
        account: &Account,
        local: bool,
        config: &PoolConfig,
    ) -> Result<Vec<(Address, u64)>, PoolError> {
        let old = account.get(entry.tx_nonce());
        if !local && old.is_none() {
            self.may_come(entry, account, config)?;
        }
        let needed = entry.slots().saturating_sub(old.map_or(0, |old| old.slots()));
        if needed == 0 {
            return Ok(Vec::new());
        }
        if local {
            self.locals_fit(needed, account, config)?;
        }
        let excess = (self.slots + needed).saturating_sub(config.slots_max());
        self.cheapest(entry, account, local, excess, config)
    }

    /// The limits on pending and queued transactions, for one of others that replaces none.
    fn may_come(&self, entry: &Entry, account: &Account, config: &PoolConfig) -> Result<(), PoolError> {
        let sender = entry.pooled.sender;
        if comes_next(entry, account) {
            let others = self.large.iter().rev().find(|(_, other)| *other != sender);
            let is_largest = account.pending() + 1 >= others.map_or(0, |(length, _)| *length);
            let more_than_its_own = account.pending() >= config.account_slots;
            if self.pending >= config.global_slots && more_than_its_own && is_largest {
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
            // One before the last is better than the last, which leaves for it.
            return match is_last {
                true => Err(PoolError::AccountQueue {
                    got: account.queued(),
                    max: config.account_queue,
                    missing: account.next_nonce(),
                }),
                false => Ok(()),
            };
        }
        let leaves = match self.beats.first_key_value() {
            Some((_, oldest)) => *oldest == sender && is_last,
            None => true,
        };
        if self.queued >= config.global_queue && leaves {
            return Err(PoolError::Full {
                what: "queued transactions",
                got: self.queued,
                max: config.global_queue,
            });
        }
        Ok(())
    }

    /// Local transactions may take everybody's place, but no more: memory has an end.
    fn locals_fit(&self, needed: usize, account: &Account, config: &PoolConfig) -> Result<(), PoolError> {
        let become_local = if account.local { 0 } else { account.slots() };
        let (got, max) = (self.local_slots + become_local, config.slots_max());
        if got + needed > max {
            return Err(PoolError::Full {
                what: "slots of local transactions",
                got,
                max,
            });
        }
        Ok(())
    }

    /// The cheapest transactions of others that give up `excess` slots.
    fn cheapest(
        &self,
        entry: &Entry,
        account: &Account,
        local: bool,
        excess: usize,
        config: &PoolConfig,
    ) -> Result<Vec<(Address, u64)>, PoolError> {
        let sender = entry.pooled.sender;
        let mut waits_for = (!comes_next(entry, account)).then(|| account.next_nonce());
        let (mut freed, mut victims, mut pending_victim) = (0, Vec::new(), false);
        for (price, _, hash) in &self.evictable {
            if freed >= excess {
                break;
            }
            let Some((victim, tx_nonce)) = self.by_hash.get(hash).copied() else {
                continue;
            };
            let own = victim == sender;
            // What it replaces leaves anyway; what becomes local with it may stay.
            if own && (local || tx_nonce == entry.tx_nonce()) {
                continue;
            }
            if !local && entry.price() <= *price {
                return Err(PoolError::Underpriced {
                    got: entry.price(),
                    expected: *price + U256::from(1),
                });
            }
            let Some(found) = self.accounts.get(&victim) else {
                continue;
            };
            freed += found.get(tx_nonce).map_or(0, |leaving| leaving.slots());
            pending_victim |= found.is_pending(tx_nonce);
            if own && tx_nonce < entry.tx_nonce() {
                waits_for = waits_for.or(Some(tx_nonce));
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
        match waits_for {
            Some(missing) if pending_victim && !local => Err(PoolError::FutureReplacesPending { missing }),
            _ => Ok(victims),
        }
    }

    /// Takes out what is too much. `touched` are the accounts that may have become too long.
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
            && let Some(last) = self.accounts.get(&sender).and_then(Account::last_pending)
        {
            self.drop_one(sender, last, "too many pending transactions");
        }
        while self.queued > config.global_queue
            && let Some((_, sender)) = self.beats.first_key_value()
            && let (sender, Some(account)) = (*sender, self.accounts.get(sender))
            && let Some(last) = account.last_queued()
        {
            self.drop_one(sender, last, "too many queued transactions");
        }
    }

    /// Takes one out; pending ones after it are queued then, as many as may be.
    pub(super) fn evict(&mut self, sender: Address, tx_nonce: u64, config: &PoolConfig) {
        self.drop_one(sender, tx_nonce, "dearer ones came into a full pool");
        self.trim(&sender, config);
    }

    /// Shortens an account's queue.
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
        if let Some(gone) = self.remove(sender, tx_nonce) {
            tracing::debug!(hash = %gone.pooled.hash, %sender, tx_nonce, why, "transaction dropped");
        }
    }
}

/// Whether it would be pending: nothing is missing before it, and what all cost was compared.
fn comes_next(entry: &Entry, account: &Account) -> bool {
    entry.tx_nonce() <= account.pending_end()
}
