//! The transactions of an application chain: what their sharding flags mean, what those of wallets
//! mean, and which are allowed (docs/microchain-design.md, 5).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use primitives::{Address, LEGACY_TX_TYPE, Receipt, ReceiptOutcome, Transaction, TxForm, U256};
use revm::context::TxEnv;
use revm::primitives::{Bytes, TxKind};

use crate::application::guard::CallGuard;
use crate::application::{
    ALL_DEPLOY_SWITCH, ApplicationRules, BLOCK_GAS_FILL, GET_DAPP_STATE, PlainAction, QUESTION_GAS,
    TRANSACTION_GAS,
};
use crate::evm::TX_GAS;
use crate::evm::deadline::Deadline;
use crate::evm::execute::{Executor, TransactionError, TransactionOutcome, transaction_error};
use crate::evm::handler::{EvmOutcome, inspect, transact};
use crate::query_limit::QueryLimit;
use crate::state::StateError;

/// The answers of DappBase in this block. Forgotten when a transaction has called DappBase.
#[derive(Debug, Default)]
pub(super) struct DappAnswers {
    enabled: HashMap<Address, bool>,
    anyone_deploys: Option<bool>,
}

/// The bounds of a transaction that is tried.
#[derive(Clone, Copy, Debug)]
pub struct TrialBound {
    /// The longest time.
    pub time: Duration,
    /// The most gas, if it is used by one call with all that it calls. What is spread over calls
    /// within calls may use more.
    pub gas: u64,
}

/// The fate of a transaction that was tried.
#[derive(Clone, Debug)]
pub enum TriedTransaction {
    /// The transaction is in the block.
    Taken(TransactionOutcome),
    /// The transaction uses too much gas, or the caller does not want it in the block.
    Declined {
        /// The gas that it used. It was stopped there if that is more than the bound.
        gas_used: u64,
    },
    /// The time was over before its end.
    TooSlow,
}

/// A transaction of an application chain that may run.
pub(crate) struct FlaggedRun {
    /// The EVM's values of the transaction.
    pub(crate) env: TxEnv,
    /// The chain id that the EVM has while it runs the transaction.
    pub(crate) chain_id: u64,
    /// Which calls of DappBase are allowed in the block.
    pub(crate) guard: Option<Arc<CallGuard>>,
    has_dapp_base: bool,
}

impl Executor<'_, '_> {
    /// Runs a transaction of an application chain as [`Self::transaction`] does, but leaves it out
    /// of the block if it exceeds a bound, or if `accepts` returns false for what it did. After an
    /// error, or if it is left out, the state is unchanged.
    ///
    /// Blocks that are made here are filled so. A block of others is executed whatever it takes.
    ///
    /// # Errors
    /// [`TransactionError`] when the transaction cannot be the next one of the block, or when the
    /// chain is no application chain.
    pub fn try_transaction(
        &mut self,
        transaction: &Transaction,
        sender: Address,
        bound: TrialBound,
        accepts: &dyn Fn(&TransactionOutcome) -> bool,
    ) -> Result<TriedTransaction, TransactionError> {
        let Some(application) = &self.spec.application else {
            return Err(TransactionError::Other(
                "got a chain without flagged transactions, expected an application chain".to_owned(),
            ));
        };
        let Some(run) = self.plan_flagged(application, transaction, sender)? else {
            return Ok(TriedTransaction::Taken(self.refuse(sender)?));
        };
        self.evm.inspector = Deadline::new(QueryLimit::new(bound.time)).with_frame_gas(bound.gas);
        self.evm.ctx.cfg.chain_id = run.chain_id;
        let outcome = inspect(&mut self.evm, self.spec, run.env);
        self.evm.ctx.cfg.chain_id = self.spec.chain_id_at(self.header.number);
        let outcome = outcome.map_err(transaction_error)?;
        if self.evm.inspector.is_costly() {
            return Ok(TriedTransaction::Declined {
                gas_used: bound.gas.saturating_add(1),
            });
        }
        if self.evm.inspector.stopped().is_some() {
            return Ok(TriedTransaction::TooSlow);
        }
        let used = TransactionOutcome {
            gas_used: outcome.result.tx_gas_used(),
            success: outcome.result.is_success(),
        };
        if !accepts(&used) {
            return Ok(TriedTransaction::Declined {
                gas_used: used.gas_used,
            });
        }
        self.take_flagged(application, outcome, !run.has_dapp_base)
            .map(TriedTransaction::Taken)
    }

    /// Runs the next transaction of an application chain. After an error the state is unchanged.
    pub(super) fn flagged_transaction(
        &mut self,
        application: &ApplicationRules,
        transaction: &Transaction,
        sender: Address,
    ) -> Result<TransactionOutcome, TransactionError> {
        let Some(run) = self.plan_flagged(application, transaction, sender)? else {
            return Ok(self.refuse(sender)?);
        };
        self.evm.ctx.cfg.chain_id = run.chain_id;
        let outcome = transact(&mut self.evm, self.spec, run.env);
        self.evm.ctx.cfg.chain_id = self.spec.chain_id_at(self.header.number);
        self.take_flagged(
            application,
            outcome.map_err(transaction_error)?,
            !run.has_dapp_base,
        )
    }

    /// Takes the outcome of a transaction into the block.
    fn take_flagged(
        &mut self,
        application: &ApplicationRules,
        outcome: EvmOutcome,
        creates_dapp_base: bool,
    ) -> Result<TransactionOutcome, TransactionError> {
        if creates_dapp_base && !outcome.result.is_success() {
            return Err(TransactionError::Other(
                "the creation of DappBase fails, and so it cannot be in a block".to_owned(),
            ));
        }
        let account = outcome.changes.get(&application.dapp_base());
        if account.is_some_and(|account| account.is_touched()) {
            self.answers = DappAnswers::default();
        }
        let gas_used = outcome.result.tx_gas_used();
        self.gas_used += gas_used;
        let rules = self.spec.rules_at(self.header.number);
        let success = self.record(rules, LEGACY_TX_TYPE, outcome)?;
        Ok(TransactionOutcome { gas_used, success })
    }

    /// Plans the next transaction of an application chain without running it. `None`: it is not
    /// allowed, so it is refused. The state is unchanged.
    pub(crate) fn plan_flagged(
        &mut self,
        application: &ApplicationRules,
        transaction: &Transaction,
        sender: Address,
    ) -> Result<Option<FlaggedRun>, TransactionError> {
        let action = self.check_flagged(application, transaction, sender)?;
        let has_dapp_base = self.has_code(application.dapp_base())?;
        if !has_dapp_base && !creates_dapp_base(application, transaction, &action, sender) {
            return Err(TransactionError::BeforeDappBase {
                owner: application.owner,
                supply: application.supply,
            });
        }
        if has_dapp_base && !self.is_allowed(application, &action, sender)? {
            return Ok(None);
        }
        let chain_id = self.spec.chain_id_of(transaction.form, self.header.number);
        let env = TxEnv {
            caller: sender,
            gas_limit: match transaction.form {
                TxForm::Classic => transaction.gas.min(TRANSACTION_GAS),
                _ => TRANSACTION_GAS,
            },
            gas_price: 0,
            kind: action.to.map_or(TxKind::Create, TxKind::Call),
            value: transaction.value,
            data: action.data,
            nonce: transaction.tx_nonce,
            chain_id: Some(chain_id),
            ..Default::default()
        };
        Ok(Some(FlaggedRun {
            env,
            chain_id,
            guard: self.evm.ctx.chain.guard.clone(),
            has_dapp_base,
        }))
    }

    /// The checks without which a transaction can be in no block.
    fn check_flagged(
        &mut self,
        application: &ApplicationRules,
        transaction: &Transaction,
        sender: Address,
    ) -> Result<PlainAction, TransactionError> {
        let is_flagged = transaction.form == TxForm::Native && transaction.to == Some(application.address);
        if !is_flagged && transaction.form != TxForm::Classic {
            return Err(TransactionError::Other(format!(
                "got a transaction of the form {:?} to {:?}, expected 12 fields and the receiver {}",
                transaction.form, transaction.to, application.address
            )));
        }
        let action = PlainAction::of(transaction).ok_or_else(|| {
            TransactionError::Other(format!(
                "got sharding flag {} with {} bytes of data, expected 1 to 3 with the data that it needs",
                transaction.sharding_flag,
                transaction.input.len()
            ))
        })?;
        if self.gas_used > BLOCK_GAS_FILL {
            return Err(TransactionError::BlockGas {
                got: self.gas_used,
                left: BLOCK_GAS_FILL,
            });
        }
        let (balance, expected) = self.state().balance_and_nonce(sender)?;
        let got = transaction.tx_nonce;
        if got < expected {
            return Err(TransactionError::NonceTooLow { got, expected });
        }
        if got > expected {
            return Err(TransactionError::NonceTooHigh { got, expected });
        }
        let cost = transaction.value;
        if balance < cost {
            return Err(TransactionError::Funds { balance, cost });
        }
        Ok(action)
    }

    fn has_code(&mut self, address: Address) -> Result<bool, StateError> {
        let info = revm::Database::basic(self.state(), address)?;
        Ok(info.is_some_and(|info| !info.is_empty_code_hash()))
    }

    /// Whether DappBase lets the transaction do this.
    fn is_allowed(
        &mut self,
        application: &ApplicationRules,
        action: &PlainAction,
        sender: Address,
    ) -> Result<bool, TransactionError> {
        match action.to {
            None => Ok(sender == application.owner || self.anyone_deploys(application)?),
            // A transfer has no data. So has a call of a fallback, which a transfer may do, too.
            Some(to) if action.data.is_empty() || to == application.dapp_base() => Ok(true),
            Some(to) => self.is_enabled(application, to),
        }
    }

    fn is_enabled(
        &mut self,
        application: &ApplicationRules,
        dapp: Address,
    ) -> Result<bool, TransactionError> {
        if let Some(known) = self.answers.enabled.get(&dapp) {
            return Ok(*known);
        }
        let question = [&GET_DAPP_STATE[..], dapp.into_word().as_slice()].concat();
        let enabled = self.ask(application, question.into())? == Some(U256::from(1));
        self.answers.enabled.insert(dapp, enabled);
        Ok(enabled)
    }

    fn anyone_deploys(&mut self, application: &ApplicationRules) -> Result<bool, TransactionError> {
        if let Some(known) = self.answers.anyone_deploys {
            return Ok(known);
        }
        let answer = self.ask(application, ALL_DEPLOY_SWITCH.into())?;
        let anyone = answer.is_some_and(|answer| !answer.is_zero());
        self.answers.anyone_deploys = Some(anyone);
        Ok(anyone)
    }

    /// Calls DappBase on the state of this moment, with bounded gas, and drops all changes. Returns
    /// the word that it answers; `None` if it fails or answers something else.
    fn ask(&mut self, application: &ApplicationRules, data: Bytes) -> Result<Option<U256>, TransactionError> {
        let env = TxEnv {
            caller: Address::ZERO,
            gas_limit: QUESTION_GAS,
            kind: TxKind::Call(application.dapp_base()),
            data,
            chain_id: Some(self.spec.chain_id_at(self.header.number)),
            ..Default::default()
        };
        self.evm.ctx.cfg.disable_nonce_check = true;
        let outcome = transact(&mut self.evm, self.spec, env);
        self.evm.ctx.cfg.disable_nonce_check = false;
        let result = outcome.map_err(transaction_error)?.result;
        let word = result
            .output()
            .filter(|output| result.is_success() && output.len() == 32);
        Ok(word.map(|word| U256::from_be_slice(word)))
    }

    /// Takes a transaction that is not allowed into the block: its receipt says that it failed, and
    /// its nonce counts.
    pub(crate) fn refuse(&mut self, sender: Address) -> Result<TransactionOutcome, StateError> {
        self.state().bump_nonce(sender)?;
        self.gas_used += TX_GAS;
        let outcome = ReceiptOutcome::Status(false);
        self.receipts
            .push(Receipt::new(outcome, self.gas_used, Vec::new()));
        Ok(TransactionOutcome {
            gas_used: TX_GAS,
            success: false,
        })
    }
}

/// Whether a transaction is the one that creates DappBase.
fn creates_dapp_base(
    application: &ApplicationRules,
    transaction: &Transaction,
    action: &PlainAction,
    sender: Address,
) -> bool {
    action.to.is_none()
        && sender == application.owner
        && transaction.tx_nonce == 0
        && transaction.value == application.supply
}
