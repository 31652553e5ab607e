//! The transactions of an application chain: what their sharding flags mean, and which are allowed
//! (docs/microchain-design.md, 5).

use std::collections::HashMap;

use primitives::{Address, LEGACY_TX_TYPE, Receipt, ReceiptOutcome, Transaction, TxForm, U256};
use revm::context::TxEnv;
use revm::primitives::{Bytes, TxKind};
use store::{BlockReads, StateReads};

use crate::application::{
    ALL_DEPLOY_SWITCH, ApplicationRules, BLOCK_GAS_FILL, GET_DAPP_STATE, PlainAction, QUESTION_GAS,
    TRANSACTION_GAS,
};
use crate::evm::TX_GAS;
use crate::evm::execute::{Executor, TransactionError, TransactionOutcome, transaction_error};
use crate::evm::handler::transact;
use crate::state::StateError;
use crate::trie::NodeSource;

/// The answers of DappBase in this block. Forgotten when a transaction has called DappBase.
#[derive(Debug, Default)]
pub(super) struct DappAnswers {
    enabled: HashMap<Address, bool>,
    anyone_deploys: Option<bool>,
}

impl<S: StateReads + BlockReads + NodeSource> Executor<'_, '_, S> {
    /// Runs the next transaction of an application chain. After an error the state is unchanged.
    pub(super) fn flagged_transaction(
        &mut self,
        application: &ApplicationRules,
        transaction: &Transaction,
        sender: Address,
    ) -> Result<TransactionOutcome, TransactionError> {
        let action = self.check_flagged(application, transaction, sender)?;
        let dapp_base = application.dapp_base();
        let has_base = self.has_code(dapp_base)?;
        if !has_base && !creates_dapp_base(application, transaction, sender) {
            return Err(TransactionError::BeforeDappBase {
                owner: application.owner,
                supply: application.supply,
            });
        }
        if has_base && !self.is_allowed(application, &action, sender)? {
            return Ok(self.refuse(sender)?);
        }
        let env = TxEnv {
            caller: sender,
            gas_limit: TRANSACTION_GAS,
            gas_price: 0,
            kind: action.to.map_or(TxKind::Create, TxKind::Call),
            value: transaction.value,
            data: action.data,
            nonce: transaction.tx_nonce,
            chain_id: transaction.chain_id(),
            ..Default::default()
        };
        let outcome = transact(&mut self.evm, self.spec, env).map_err(transaction_error)?;
        if !has_base && !outcome.result.is_success() {
            return Err(TransactionError::Other(
                "the creation of DappBase fails, and so it cannot be in a block".to_owned(),
            ));
        }
        let account = outcome.changes.get(&dapp_base);
        if account.is_some_and(|account| account.is_touched()) {
            self.answers = DappAnswers::default();
        }
        let gas_used = outcome.result.tx_gas_used();
        self.gas_used += gas_used;
        let rules = self.spec.rules_at(self.header.number);
        let success = self.record(rules, LEGACY_TX_TYPE, outcome)?;
        Ok(TransactionOutcome { gas_used, success })
    }

    /// The checks without which a transaction can be in no block.
    fn check_flagged(
        &mut self,
        application: &ApplicationRules,
        transaction: &Transaction,
        sender: Address,
    ) -> Result<PlainAction, TransactionError> {
        if transaction.form != TxForm::Native || transaction.to != Some(application.address) {
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
    fn refuse(&mut self, sender: Address) -> Result<TransactionOutcome, StateError> {
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
fn creates_dapp_base(application: &ApplicationRules, transaction: &Transaction, sender: Address) -> bool {
    transaction.sharding_flag == crate::application::FLAG_CREATE
        && sender == application.owner
        && transaction.tx_nonce == 0
        && transaction.value == application.supply
}
