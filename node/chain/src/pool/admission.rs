//! What a transaction must be to come in.
//!
//! First by itself, without a lock; then against its sender's account and what is there
//! already. Whether there is room is asked last, in [`super::limits`].

use primitives::{Transaction, TxForm, U256};

use super::account::{Account, Standing};
use super::entry::Entry;
use super::index::Index;
use super::{NextBlock, PoolConfig, PoolError};
use crate::evm::intrinsic_gas;
use crate::spec::{BlockRules, ChainSpec};

/// Whether blocks from `number` on may have it, whoever sent it.
pub(super) fn check_form(spec: &ChainSpec, number: u64, transaction: &Transaction) -> Result<(), PoolError> {
    let rules = spec.rules_at(number);
    match (transaction.form, rules) {
        (TxForm::System, _) => return Err(PoolError::System),
        (TxForm::Native, BlockRules::Moac { .. }) => {}
        (
            TxForm::Classic,
            BlockRules::Moac {
                classic_transactions, ..
            },
        ) => {
            if !classic_transactions {
                return Err(PoolError::ClassicDisabled);
            }
        }
        (TxForm::Ethereum, BlockRules::Ethereum { protected, .. })
            if protected || !transaction.is_protected() => {}
        (form, _) => return Err(PoolError::Form(form)),
    }
    if transaction.syscnt != 0 {
        return Err(PoolError::System);
    }
    if transaction.sharding_flag != 0 {
        return Err(PoolError::ShardingFlag(transaction.sharding_flag));
    }
    let (got, expected) = (
        transaction.gas,
        intrinsic_gas(rules, &transaction.input, transaction.to.is_none()),
    );
    if got < expected {
        return Err(PoolError::IntrinsicGas { got, expected });
    }
    Ok(())
}

/// Whether it is small enough to be kept.
pub(super) fn check_size(entry: &Entry, max: usize) -> Result<(), PoolError> {
    let got = entry.bytes;
    if got > max {
        return Err(PoolError::Oversized { got, max });
    }
    Ok(())
}

impl Index {
    /// Takes a transaction in, for which others may have to leave; `standing` is its sender's.
    pub(super) fn admit(
        &mut self,
        entry: Entry,
        standing: Standing,
        local: bool,
        next: NextBlock,
        config: &PoolConfig,
    ) -> Result<(), PoolError> {
        let sender = entry.pooled.sender;
        self.check(&entry, standing, local, next, config)?;
        let new = self.account_or_new(&sender, standing);
        let account = new.as_ref().or_else(|| self.accounts.get(&sender));
        let victims = match account {
            Some(account) => self.victims(&entry, account, local, config)?,
            None => Vec::new(),
        };
        for (victim, tx_nonce) in victims {
            self.evict(victim, tx_nonce, config);
        }
        if local {
            self.make_local(sender);
        }
        self.insert(entry, standing);
        self.enforce(config, [sender]);
        Ok(())
    }

    /// What comes back from blocks that are taken back. Limits are for the caller to enforce,
    /// when everything is back.
    pub(super) fn readmit(
        &mut self,
        entry: Entry,
        standing: Standing,
        next: NextBlock,
        config: &PoolConfig,
    ) -> Result<(), PoolError> {
        let local = self.locals.contains(&entry.pooled.sender);
        self.check(&entry, standing, local, next, config)?;
        self.insert(entry, standing);
        Ok(())
    }

    fn check(
        &mut self,
        entry: &Entry,
        standing: Standing,
        local: bool,
        next: NextBlock,
        config: &PoolConfig,
    ) -> Result<(), PoolError> {
        let (hash, sender) = (entry.pooled.hash, entry.pooled.sender);
        if self.by_hash.contains_key(&hash) {
            return Err(PoolError::Known(hash));
        }
        let (got, limit) = (entry.transaction().gas, next.gas_limit);
        if got > limit {
            return Err(PoolError::BlockGas { got, limit });
        }
        let (got, expected) = (entry.price(), config.price_floor);
        if !local && got < expected {
            return Err(PoolError::Underpriced { got, expected });
        }
        let (got, expected) = (entry.tx_nonce(), standing.tx_nonce);
        if got < expected {
            return Err(PoolError::NonceTooLow { got, expected });
        }
        if got == u64::MAX {
            return Err(PoolError::NonceMax(got));
        }
        let (cost, balance) = (entry.cost, standing.balance);
        if balance < cost {
            return Err(PoolError::Funds { balance, cost });
        }
        if self
            .accounts
            .get(&sender)
            .is_some_and(|account| account.standing() != standing)
        {
            self.follow(sender, standing, next.gas_limit);
        }
        let Some(account) = self.accounts.get(&sender) else {
            return Ok(());
        };
        check_replacement(entry, account, config)?;
        check_all_paid(entry, account)
    }
}

/// Whether it is enough dearer than the one with its nonce.
fn check_replacement(entry: &Entry, account: &Account, config: &PoolConfig) -> Result<(), PoolError> {
    let Some(old) = account.get(entry.tx_nonce()) else {
        return Ok(());
    };
    let percent = U256::from(config.price_bump_percent).saturating_add(U256::from(100));
    let bumped = old.price().saturating_mul(percent).div_ceil(U256::from(100));
    let (got, expected) = (
        entry.price(),
        bumped.max(old.price().saturating_add(U256::from(1))),
    );
    if got < expected {
        return Err(PoolError::ReplacementUnderpriced { got, expected });
    }
    Ok(())
}

/// Whether the account can pay for it and for all that are pending.
fn check_all_paid(entry: &Entry, account: &Account) -> Result<(), PoolError> {
    let (cost, balance) = (entry.cost, account.standing().balance);
    let replaced = match account.get(entry.tx_nonce()) {
        Some(old) if account.is_pending(entry.tx_nonce()) => old.cost,
        _ => U256::ZERO,
    };
    let pending = account.pending_cost() - replaced;
    if pending.checked_add(cost).is_none_or(|all| all > balance) {
        return Err(PoolError::Overdraft {
            balance,
            cost,
            pending,
        });
    }
    Ok(())
}
