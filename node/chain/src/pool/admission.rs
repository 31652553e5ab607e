//! The rules for accepting a transaction.
//!
//! The first checks look at the transaction alone and need no lock. Then it is compared with its
//! sender's account and with the transactions in the pool. The limits in [`super::limits`] come
//! last.

use primitives::{Transaction, TxForm, U256};

use super::account::{PoolAccount, SenderState};
use super::entry::PoolEntry;
use super::index::PoolIndex;
use super::{NextBlock, PoolConfig, PoolError};
use crate::evm::{INIT_CODE_BYTES_MAX, intrinsic_gas};
use crate::spec::{ChainFamily, ChainSpec, Rule};

/// Checks that block `number` may contain the transaction, whoever sent it.
pub(super) fn check_form(spec: &ChainSpec, number: u64, transaction: &Transaction) -> Result<(), PoolError> {
    let rules = spec.rules_at(number);
    match (transaction.form, rules.family) {
        (TxForm::System, _) => return Err(PoolError::System),
        (TxForm::Native, ChainFamily::Moac) => {}
        (TxForm::Classic, ChainFamily::Moac) => {
            if !rules.has(Rule::ClassicTransactions) {
                return Err(PoolError::ClassicDisabled);
            }
        }
        (TxForm::Ethereum, ChainFamily::Ethereum)
            if rules.has(Rule::Eip155) || !transaction.is_protected() => {}
        (TxForm::AccessList, ChainFamily::Ethereum) => {
            if !rules.has(Rule::Eip2718) || !rules.has(Rule::Eip2930) {
                return Err(PoolError::Typed {
                    got: transaction.tx_type(),
                    number,
                });
            }
        }
        (form, _) => return Err(PoolError::Form(form)),
    }
    if transaction.is_system() {
        return Err(PoolError::System);
    }
    let expected = spec.chain_id_at(number);
    if let Some(got) = transaction.chain_id().filter(|got| *got != expected) {
        return Err(PoolError::ChainId { got, expected });
    }
    if transaction.sharding_flag != 0 {
        return Err(PoolError::ShardingFlag(transaction.sharding_flag));
    }
    let creates = transaction.to.is_none();
    let (got, max) = (transaction.input.len(), INIT_CODE_BYTES_MAX);
    if creates && rules.has(Rule::Eip3860) && got > max {
        return Err(PoolError::InitCode { got, max });
    }
    let (got, expected) = (
        transaction.gas,
        intrinsic_gas(rules, &transaction.input, creates, &transaction.access_list),
    );
    if got < expected {
        return Err(PoolError::IntrinsicGas { got, expected });
    }
    Ok(())
}

/// Checks that the stored form of a transaction, which has `got` bytes, has at most `max`.
pub(super) const fn check_size(got: usize, max: usize) -> Result<(), PoolError> {
    if got > max {
        return Err(PoolError::Oversized { got, max });
    }
    Ok(())
}

impl PoolIndex {
    /// Takes a transaction in and evicts others for it if the pool is full. `state` is the
    /// sender's, and `local` says whether the sender is local.
    pub(super) fn admit(
        &mut self,
        entry: PoolEntry,
        state: SenderState,
        local: bool,
        next: NextBlock,
        config: &PoolConfig,
    ) -> Result<(), PoolError> {
        let sender = entry.pooled.sender;
        self.check(&entry, state, local, next, config)?;
        let new = self.new_account(&sender, state, local);
        let account = new.as_ref().or_else(|| self.accounts.get(&sender));
        let victims = match account {
            Some(account) => self.find_victims(&entry, account, local, config)?,
            None => Vec::new(),
        };
        for (victim, tx_nonce) in victims {
            self.evict(victim, tx_nonce, config);
        }
        self.insert(entry, state, local);
        self.enforce(config, [sender]);
        Ok(())
    }

    /// Takes a transaction of a reverted block in. The caller must enforce the limits once all such
    /// transactions are in. `local` counts only if the pool has no transactions of the sender.
    pub(super) fn readmit(
        &mut self,
        entry: PoolEntry,
        state: SenderState,
        local: bool,
        next: NextBlock,
        config: &PoolConfig,
    ) -> Result<(), PoolError> {
        let account = self.accounts.get(&entry.pooled.sender);
        let local = account.map_or(local, |account| account.local);
        self.check(&entry, state, local, next, config)?;
        self.insert(entry, state, local);
        Ok(())
    }

    /// Checks a transaction against its sender's account and the transactions in the pool. Makes
    /// the account follow `state` if the pool has an older one.
    fn check(
        &mut self,
        entry: &PoolEntry,
        state: SenderState,
        local: bool,
        next: NextBlock,
        config: &PoolConfig,
    ) -> Result<(), PoolError> {
        let (hash, sender) = (entry.pooled.hash, entry.pooled.sender);
        if self.by_hash.contains_key(&hash) {
            return Err(PoolError::Known(hash));
        }
        check_gas_and_price(entry.transaction(), local, next, config)?;
        let (got, expected) = (entry.tx_nonce(), state.tx_nonce);
        if got < expected {
            return Err(PoolError::NonceTooLow { got, expected });
        }
        if got == u64::MAX {
            return Err(PoolError::NonceMax(got));
        }
        let (cost, balance) = (entry.cost, state.balance);
        if balance < cost {
            return Err(PoolError::Funds { balance, cost });
        }
        if self
            .accounts
            .get(&sender)
            .is_some_and(|account| account.state() != state)
        {
            self.follow(sender, state, next.gas_limit);
        }
        let Some(account) = self.accounts.get(&sender) else {
            return Ok(());
        };
        check_replacement(entry, account, config)?;
        check_total_cost(entry, account)
    }
}

/// Checks that a block has room for the transaction, and that its price is high enough.
pub(super) fn check_gas_and_price(
    transaction: &Transaction,
    local: bool,
    next: NextBlock,
    config: &PoolConfig,
) -> Result<(), PoolError> {
    let (got, limit) = (transaction.gas, next.gas_limit);
    if got > limit {
        return Err(PoolError::BlockGas { got, limit });
    }
    let (got, expected) = (transaction.gas_price, config.price_floor);
    if !local && got < expected {
        return Err(PoolError::Underpriced { got, expected });
    }
    Ok(())
}

/// Checks that the gas price is enough higher than that of the sender's transaction with the same
/// nonce.
fn check_replacement(entry: &PoolEntry, account: &PoolAccount, config: &PoolConfig) -> Result<(), PoolError> {
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

/// Checks that the account can pay for the transaction together with all pending ones.
fn check_total_cost(entry: &PoolEntry, account: &PoolAccount) -> Result<(), PoolError> {
    let (cost, balance) = (entry.cost, account.state().balance);
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
