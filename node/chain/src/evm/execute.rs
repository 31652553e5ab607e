//! Executes a block's transactions and pays its miners.
//!
//! [`Executor`] serves imports and block building. It takes transactions one by one, collects gas
//! and receipts, and pays the rewards at the end.

use std::sync::Arc;
use std::time::Duration;

use primitives::{
    Address, B256, Bloom, Bytes, Header, LEGACY_TX_TYPE, Log, Receipt, ReceiptOutcome, SYSTEM_CONTRACT,
    SYSTEM_SENDER, Transaction, TxForm, U256,
};
use revm::DatabaseCommit;
use revm::context::TxEnv;
use revm::context::result::{EVMError, ExecutionResult, InvalidTransaction};
use revm::primitives::TxKind;
use store::ScsNotice;

use crate::application::guard::CallGuard;
use crate::application::members_in_force;
use crate::developer::DeveloperChange;
use crate::evm::deadline::Deadline;
use crate::evm::flagged::DappAnswers;
use crate::evm::handler::{EvmOutcome, system_call, transact};
use crate::evm::precompiles::EmittedNotice;
use crate::evm::sharding_mark::WaitingMark;
use crate::evm::{ChainEvm, access_list, block_env, chain_evm};
use crate::query_limit::QueryLimit;
use crate::rules::payment::BlockPayment;
use crate::spec::{BlockRules, ChainFamily, ChainSpec, Rule, dao};
use crate::state::{BlockState, StateError};

/// The reason why a transaction cannot be part of a block.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "the fields are the got and expected values that the error texts name"
)]
pub enum TransactionError {
    /// The sender has used this nonce already.
    #[error("nonce too low: got {got}, expected {expected}")]
    NonceTooLow { got: u64, expected: u64 },
    /// Transactions with smaller nonces are missing.
    #[error("nonce too high: got {got}, expected {expected}")]
    NonceTooHigh { got: u64, expected: u64 },
    /// The sender cannot pay gas and value.
    #[error("insufficient funds for gasRemaining * price + value: balance {balance}, cost {cost}")]
    Funds { balance: U256, cost: U256 },
    /// The gas does not cover the base costs and the input.
    #[error("intrinsic gasRemaining too low: got {got}, expected {expected}")]
    IntrinsicGas { got: u64, expected: u64 },
    /// The block has less gas left.
    #[error("exceeds block gasRemaining limit: got {got}, left {left}")]
    BlockGas { got: u64, left: u64 },
    /// A system transaction, which no sender has signed.
    #[error("unsigned system transaction")]
    System,
    /// DappBase does not exist yet, and this transaction does not create it.
    #[error(
        "DappBase does not exist; its creation by {owner} with flag 3, nonce 0 and the value {supply} comes first"
    )]
    BeforeDappBase { owner: Address, supply: U256 },
    /// Any other reason of the EVM.
    #[error("{0}")]
    Other(String),
    /// The store failed.
    #[error(transparent)]
    State(#[from] StateError),
}

/// The outcome of one transaction of a block.
#[derive(Clone, Debug)]
pub struct TransactionOutcome {
    /// Gas that the transaction used, after refunds.
    pub gas_used: u64,
    /// Whether the transaction succeeded.
    pub success: bool,
}

/// The transactions of a block could not all be executed.
#[derive(Debug, thiserror::Error)]
pub enum BlockExecutionError {
    /// The store failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// A transaction cannot be in the block.
    #[error("transaction {index} ({hash}): {error}")]
    Refused {
        /// Its index.
        index: usize,
        /// Its hash.
        hash: B256,
        /// The reason.
        error: TransactionError,
    },
}

impl BlockExecutionError {
    fn refused(index: usize, transaction: &Transaction, error: TransactionError) -> Self {
        let hash = transaction.hash();
        Self::Refused { index, hash, error }
    }
}

/// Executes one block.
pub struct Executor<'b, 's> {
    pub(super) spec: &'b ChainSpec,
    pub(super) header: &'b Header,
    /// The deadline counts only for transactions that are tried.
    pub(super) evm: ChainEvm<&'b mut BlockState<'s>, Deadline>,
    pub(super) gas_used: u64,
    pub(super) receipts: Vec<Receipt>,
    notices: Vec<ScsNotice>,
    waiting_mark: WaitingMark,
    /// The answers of DappBase, on an application chain.
    pub(super) answers: DappAnswers,
    /// The number of bytes that the outputs of this block may still have, on an application chain.
    output_bytes_left: usize,
}

/// Outputs of at most so many bytes are kept in every receipt of an application chain.
const OUTPUT_BYTES_SHORT: usize = 256;
/// The most bytes that the longer outputs of one block have together. Returning memory is cheap, so
/// without a bound a block could fill a disk. Further long outputs are not kept.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

impl std::fmt::Debug for Executor<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor")
            .field("gas_used", &self.gas_used)
            .finish_non_exhaustive()
    }
}

impl<'b, 's> Executor<'b, 's> {
    /// Starts the block with this header on `state`. The header's roots, gas used and seal are not
    /// read.
    pub fn new(spec: &'b ChainSpec, header: &'b Header, state: &'b mut BlockState<'s>) -> Self {
        state.set_remove_empty(spec.rules_at(header.number).has(Rule::Eip161));
        let evm = chain_evm(state, spec, block_env(header), |_| ());
        let evm = evm.with_inspector(Deadline::new(QueryLimit::new(Duration::MAX)));
        Self {
            spec,
            header,
            evm,
            gas_used: 0,
            receipts: Vec::new(),
            notices: Vec::new(),
            waiting_mark: WaitingMark::default(),
            answers: DappAnswers::default(),
            output_bytes_left: if spec.application.is_some() {
                OUTPUT_BYTES_MAX
            } else {
                0
            },
        }
    }

    /// For blocks made here: a transaction that only a large machine could execute is refused with
    /// an error. In blocks of others it is executed.
    pub(crate) const fn refuse_large_memory(&mut self) {
        self.evm.ctx.chain.create2.refuses_large_memory = true;
    }

    /// Gives the block a base fee (EIP-1559). No network here has one; test vectors of Ethereum's
    /// rules do.
    pub const fn set_base_fee(&mut self, base_fee: u64) {
        self.evm.ctx.block.basefee = base_fee;
    }

    /// The spec whose rules the block is executed by.
    pub const fn spec(&self) -> &'b ChainSpec {
        self.spec
    }

    /// Makes the irregular state change of the DAO fork, if this is its first block, and the one
    /// that the block of a development network asks for. On an application chain, reads the members
    /// in force. Must be called before the first transaction.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn begin(&mut self) -> Result<(), StateError> {
        if let Some(rules) = &self.spec.application {
            let members = members_in_force(&self.state().source(), self.header).map_err(StateError)?;
            self.evm.ctx.chain.guard = Some(Arc::new(CallGuard::new(rules, members)));
            return Ok(());
        }
        if self.spec.developer
            && let Ok(Some(change)) = DeveloperChange::decode(&self.header.extra_data)
        {
            self.state().override_account(change.address, &change.values)?;
        }
        if !self.spec.is_dao_fork(self.header.number) {
            return Ok(());
        }
        for address in dao::drained_accounts() {
            let (balance, _) = self.state().balance_and_nonce(address)?;
            // The balance is written even if it is 0. So where empty accounts stay, the account
            // exists afterwards.
            self.state().add_balance(address, U256::ZERO)?;
            self.state().take_balance(address)?;
            self.state().add_balance(dao::REFUND_CONTRACT, balance)?;
        }
        Ok(())
    }

    /// Begins the block and runs its transactions: on networks with a system contract first the
    /// system transaction, then all others.
    ///
    /// # Errors
    /// [`BlockExecutionError`] when the store fails or a transaction cannot be in the block.
    pub fn body(
        &mut self,
        transactions: &[Transaction],
        senders: &[Address],
    ) -> Result<(), BlockExecutionError> {
        self.begin()?;
        if self.spec.system_contract {
            let system = self.expected_system_transaction()?;
            self.system_transaction()
                .map_err(|error| BlockExecutionError::refused(0, &system, error))?;
        }
        let signed = transactions
            .iter()
            .zip(senders)
            .enumerate()
            .filter(|(_, (transaction, _))| !transaction.is_system());
        for (index, (transaction, sender)) in signed {
            self.transaction(transaction, *sender)
                .map_err(|error| BlockExecutionError::refused(index, transaction, error))?;
        }
        Ok(())
    }

    /// The gas that the block has left.
    pub(crate) const fn gas_left(&self) -> u64 {
        self.header.gas_limit.saturating_sub(self.gas_used)
    }

    /// The gas that the block has used.
    pub const fn gas_used(&self) -> u64 {
        self.gas_used
    }

    /// Runs the next transaction. After an error the state is unchanged.
    ///
    /// # Errors
    /// [`TransactionError`] when the transaction cannot be the next one of the block.
    pub fn transaction(
        &mut self,
        transaction: &Transaction,
        sender: Address,
    ) -> Result<TransactionOutcome, TransactionError> {
        self.transaction_by(transaction, sender, transact)
    }

    /// As [`Self::transaction`]; `run` runs it on the EVM of the block.
    ///
    /// # Errors
    /// As [`Self::transaction`].
    pub(crate) fn transaction_by(
        &mut self,
        transaction: &Transaction,
        sender: Address,
        run: impl FnOnce(
            &mut ChainEvm<&'b mut BlockState<'s>, Deadline>,
            &ChainSpec,
            TxEnv,
        ) -> Result<EvmOutcome, EVMError<StateError>>,
    ) -> Result<TransactionOutcome, TransactionError> {
        let rules = self.spec.rules_at(self.header.number);
        admit(transaction, rules)?;
        if let Some(application) = &self.spec.application {
            return self.flagged_transaction(application, transaction, sender);
        }
        let left = self.gas_left();
        if transaction.gas > left {
            return Err(TransactionError::BlockGas {
                got: transaction.gas,
                left,
            });
        }
        let env = transaction_env(transaction, sender)?;
        let outcome = run(&mut self.evm, self.spec, env).map_err(transaction_error)?;
        let gas_used = outcome.result.tx_gas_used();
        self.gas_used += gas_used;
        let success = self.record(rules, transaction.tx_type(), outcome)?;
        let state = &mut *self.evm.ctx.journaled_state.database;
        self.waiting_mark
            .mark_creation(state, rules, transaction, sender)?;
        Ok(TransactionOutcome { gas_used, success })
    }

    pub(super) const fn state(&mut self) -> &mut BlockState<'s> {
        self.evm.ctx.journaled_state.database
    }

    /// Runs the system transaction, on chains that have one. Must be called before the first other
    /// transaction.
    ///
    /// The transaction is always the one that the state demands, whatever system transactions the
    /// block contains. Those are not executed.
    ///
    /// # Errors
    /// [`TransactionError::State`] when the store fails.
    pub fn system_transaction(&mut self) -> Result<(), TransactionError> {
        if !self.spec.system_contract {
            return Ok(());
        }
        let input = self.expected_system_transaction()?.input;
        let outcome = system_call(&mut self.evm, self.spec, SYSTEM_SENDER, SYSTEM_CONTRACT, input)
            .map_err(transaction_error)?;
        self.state().bump_nonce(SYSTEM_SENDER)?;
        let rules = self.spec.rules_at(self.header.number);
        self.record(rules, LEGACY_TX_TYPE, outcome)?;
        Ok(())
    }

    /// The system transaction of the block, by the nonce of its sender. Must be called before
    /// [`Executor::system_transaction`].
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub(crate) fn expected_system_transaction(&mut self) -> Result<Transaction, StateError> {
        let (_, nonce) = self.state().balance_and_nonce(SYSTEM_SENDER)?;
        Ok(Transaction::system(nonce))
    }

    /// Adds the outcome of a transaction of this type to the block: its changes, its receipt and
    /// its notices. Returns whether the transaction succeeded.
    pub(super) fn record(
        &mut self,
        rules: BlockRules,
        tx_type: u8,
        outcome: EvmOutcome,
    ) -> Result<bool, StateError> {
        let EvmOutcome {
            result,
            changes,
            notices,
        } = outcome;
        let state = &mut *self.evm.ctx.journaled_state.database;
        state.commit(changes);
        self.waiting_mark.write(state)?;
        let transaction_index = self.receipts.len() as u32;
        let with_index = |EmittedNotice { caller, input }| ScsNotice {
            transaction_index,
            caller,
            input,
        };
        self.notices.extend(notices.into_iter().map(with_index));
        let success = result.is_success();
        let output = self.kept_output(&result);
        let logs = match result {
            ExecutionResult::Success { logs, .. } => logs,
            _ => Vec::new(),
        };
        let logs: Vec<Log> = logs
            .into_iter()
            .map(|log| {
                let (topics, data) = log.data.split();
                Log {
                    address: log.address,
                    topics,
                    data,
                }
            })
            .collect();
        let outcome = self.receipt_outcome(rules, success)?;
        self.receipts.push(Receipt {
            tx_type,
            outcome,
            cumulative_gas_used: self.gas_used,
            logs_bloom: primitives::logs_bloom(&logs),
            logs,
            output,
        });
        Ok(success)
    }

    /// The output of a transaction that its receipt keeps: on application chains, and within
    /// bounds. Clients of the base chain never see it.
    fn kept_output(&mut self, result: &ExecutionResult) -> Bytes {
        let Some(output) = result.output().filter(|_| self.spec.application.is_some()) else {
            return Bytes::new();
        };
        if output.len() <= OUTPUT_BYTES_SHORT {
            return output.clone();
        }
        match self.output_bytes_left.checked_sub(output.len()) {
            Some(left) => {
                self.output_bytes_left = left;
                output.clone()
            }
            None => Bytes::new(),
        }
    }

    /// The first field of the receipt of the transaction just run: its status, or the state root
    /// after it.
    fn receipt_outcome(&mut self, rules: BlockRules, success: bool) -> Result<ReceiptOutcome, StateError> {
        if rules.has(Rule::Eip658) {
            return Ok(ReceiptOutcome::Status(success));
        }
        Ok(ReceiptOutcome::Root(self.state().root()?))
    }

    /// Pays the rewards and ends the block.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn finish(self, uncles: &[Header]) -> Result<Executed, StateError> {
        let payment = BlockPayment::of(self.spec, self.header.number, uncles);
        self.finish_with(Some(payment))
    }

    /// Ends the block without a reward. The beneficiary is touched as with a reward. This is for
    /// test vectors of single transactions.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn finish_unpaid(self) -> Result<Executed, StateError> {
        let payment = BlockPayment {
            miner: U256::ZERO,
            uncles: Vec::new(),
        };
        self.finish_with(Some(payment))
    }

    /// Ends the block with these rewards. `None` touches nobody.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn finish_with(mut self, payment: Option<BlockPayment>) -> Result<Executed, StateError> {
        if let Some(payment) = payment {
            for (beneficiary, reward) in payment.uncles {
                self.state().add_balance(beneficiary, reward)?;
            }
            let miner = self.header.beneficiary;
            self.state().add_balance(miner, payment.miner)?;
        }
        let state = &mut *self.evm.ctx.journaled_state.database;
        self.waiting_mark.write(state)?;
        let logs_bloom = self
            .receipts
            .iter()
            .fold(Bloom::ZERO, |bloom, receipt| bloom | receipt.logs_bloom);
        Ok(Executed {
            gas_used: self.gas_used,
            logs_bloom,
            receipts: self.receipts,
            notices: self.notices,
        })
    }
}

/// Checks the rules for transactions that need no state: form, chain, highest values.
///
/// # Errors
/// [`TransactionError`] when a block under these rules cannot contain the transaction.
pub fn admit(transaction: &Transaction, rules: BlockRules) -> Result<(), TransactionError> {
    match (transaction.form, rules.family) {
        (TxForm::System, _) => return Err(TransactionError::System),
        // The public node asks for the fork of classic transactions, and for the sharding flag,
        // only in its pool.
        (TxForm::Native | TxForm::Classic, ChainFamily::Moac) => {}
        (TxForm::Ethereum, ChainFamily::Ethereum) => {
            if transaction.is_protected() && !rules.has(Rule::Eip155) {
                return Err(TransactionError::Other(
                    "the signature has a chain id, but EIP-155 is not active".to_owned(),
                ));
            }
        }
        (TxForm::AccessList, ChainFamily::Ethereum) => {
            if !rules.has(Rule::Eip2718) || !rules.has(Rule::Eip2930) {
                return Err(TransactionError::Other(
                    "got a transaction of type 0x01, expected none before EIP-2718 and EIP-2930".to_owned(),
                ));
            }
        }
        (form, _) => {
            return Err(TransactionError::Other(format!(
                "{form:?} transactions do not belong to this chain"
            )));
        }
    }
    if transaction.is_system() {
        return Err(TransactionError::System);
    }
    if transaction.tx_nonce == u64::MAX {
        // EIP-2681: the account's nonce could not be increased any more.
        return Err(TransactionError::Other(format!(
            "nonce: got {}, expected less",
            u64::MAX
        )));
    }
    if U256::from(transaction.gas)
        .checked_mul(transaction.gas_price)
        .is_none()
    {
        return Err(TransactionError::Other(
            "gas times gas price does not fit in 256 bits".to_owned(),
        ));
    }
    Ok(())
}

/// The results of an executed block, without its state changes.
#[derive(Clone, Debug)]
pub struct Executed {
    /// Gas that all transactions used.
    pub gas_used: u64,
    /// The bloom of all logs.
    pub logs_bloom: Bloom,
    /// One receipt per transaction.
    pub receipts: Vec<Receipt>,
    /// The notices to application chains, in order.
    pub notices: Vec<ScsNotice>,
}

/// The EVM's transaction values.
///
/// # Errors
/// [`TransactionError::Other`] when the gas price does not fit in 128 bits, revm's limit.
pub(crate) fn transaction_env(transaction: &Transaction, sender: Address) -> Result<TxEnv, TransactionError> {
    let gas_price = u128::try_from(transaction.gas_price).map_err(|_| {
        TransactionError::Other(format!(
            "gas price {} does not fit in 128 bits",
            transaction.gas_price
        ))
    })?;
    Ok(TxEnv {
        caller: sender,
        gas_limit: transaction.gas,
        gas_price,
        kind: transaction.to.map_or(TxKind::Create, TxKind::Call),
        value: transaction.value,
        data: transaction.input.clone(),
        nonce: transaction.tx_nonce,
        chain_id: transaction.chain_id(),
        tx_type: transaction.tx_type(),
        access_list: access_list(&transaction.access_list),
        ..Default::default()
    })
}

/// Turns revm's error into this chain's.
pub(crate) fn transaction_error(error: EVMError<StateError>) -> TransactionError {
    match error {
        EVMError::Transaction(InvalidTransaction::NonceTooLow { tx, state }) => {
            TransactionError::NonceTooLow {
                got: tx,
                expected: state,
            }
        }
        EVMError::Transaction(InvalidTransaction::NonceTooHigh { tx, state }) => {
            TransactionError::NonceTooHigh {
                got: tx,
                expected: state,
            }
        }
        EVMError::Transaction(InvalidTransaction::LackOfFundForMaxFee { fee, balance }) => {
            TransactionError::Funds {
                balance: *balance,
                cost: *fee,
            }
        }
        EVMError::Transaction(InvalidTransaction::CallGasCostMoreThanGasLimit {
            initial_gas,
            gas_limit,
        }) => TransactionError::IntrinsicGas {
            got: gas_limit,
            expected: initial_gas,
        },
        EVMError::Database(error) => TransactionError::State(error),
        other => TransactionError::Other(other.to_string()),
    }
}
