//! Executes a block's transactions and pays its miners.
//!
//! One [`Executor`] serves imports and block building alike: it takes transactions one by
//! one, keeps the running gas and receipts, and settles rewards at the end.

use crate::evm::{ChainEvm, block_env, chain_evm};
use crate::rules::{block_reward, uncle_rewards};
use crate::spec::ChainSpec;
use crate::state::{BlockState, StateError};
use crate::trie::NodeSource;
use primitives::{Address, Bloom, Header, Log, Receipt, ReceiptOutcome, Transaction, TxForm, U256};
use revm::context::TxEnv;
use revm::context::result::{EVMError, ExecutionResult, InvalidTransaction};
use revm::primitives::TxKind;
use revm::{DatabaseCommit, ExecuteEvm};
use store::{BlockReads, StateReads};

/// Why a transaction cannot be part of a block.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "fields are the value got and the value expected, as the texts say"
)]
pub enum TransactionError {
    /// Used already.
    #[error("nonce too low: got {got}, want {expected}")]
    NonceTooLow { got: u64, expected: u64 },
    /// Transactions before it are missing.
    #[error("nonce too high: got {got}, want {expected}")]
    NonceTooHigh { got: u64, expected: u64 },
    /// The sender cannot pay gas and value.
    #[error("insufficient funds for gasRemaining * price + value: balance {balance}, cost {cost}")]
    Funds { balance: U256, cost: U256 },
    /// Less gas than the data alone costs.
    #[error("intrinsic gasRemaining too low: got {got}, want {expected}")]
    IntrinsicGas { got: u64, expected: u64 },
    /// More gas than is left in the block.
    #[error("exceeds block gasRemaining limit: got {got}, left {left}")]
    BlockGas { got: u64, left: u64 },
    /// A form that the chain does not take at this height.
    #[error("Classic tx is not currently enabled")]
    ClassicDisabled,
    /// A transaction for an application chain.
    #[error("shardingFlag {0} belongs to an application chain, not into a base-chain block")]
    ShardingFlag(u64),
    /// A system transaction where there is no place for one.
    #[error("unsigned system transaction")]
    System,
    /// Anything else the EVM refuses.
    #[error("{0}")]
    Other(String),
    /// The store failed.
    #[error(transparent)]
    State(#[from] StateError),
}

/// What one transaction did.
#[derive(Clone, Debug)]
pub struct TransactionOutcome {
    /// Gas it used, after refunds.
    pub gas_used: u64,
    /// Whether it succeeded.
    pub success: bool,
}

/// A block in the making.
pub struct Executor<'b, 's, S: StateReads + BlockReads + NodeSource> {
    spec: &'b ChainSpec,
    header: &'b Header,
    evm: ChainEvm<&'b mut BlockState<'s, S>>,
    gas_used: u64,
    receipts: Vec<Receipt>,
}

impl<S: StateReads + BlockReads + NodeSource> std::fmt::Debug for Executor<'_, '_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor")
            .field("gas_used", &self.gas_used)
            .finish_non_exhaustive()
    }
}

impl<'b, 's, S: StateReads + BlockReads + NodeSource> Executor<'b, 's, S> {
    /// Starts the block with this header (whose roots, gas used and seal are not read) on `state`.
    pub fn new(spec: &'b ChainSpec, header: &'b Header, state: &'b mut BlockState<'s, S>) -> Self {
        let evm = chain_evm(state, spec, block_env(header), |_| ());
        Self {
            spec,
            header,
            evm,
            gas_used: 0,
            receipts: Vec::new(),
        }
    }

    /// Gas the block still has room for.
    pub fn gas_left(&self) -> u64 {
        self.header.gas_limit.saturating_sub(self.gas_used)
    }

    /// Runs the next transaction. After an error the state is as before.
    ///
    /// # Errors
    /// Why the transaction cannot stand at this place.
    pub fn transaction(
        &mut self,
        transaction: &Transaction,
        sender: Address,
    ) -> Result<TransactionOutcome, TransactionError> {
        let rules = self.spec.at(self.header.number);
        match transaction.form {
            TxForm::System => return Err(TransactionError::System),
            TxForm::Classic if !rules.classic_transactions => {
                return Err(TransactionError::ClassicDisabled);
            }
            _ if transaction.syscnt != 0 => return Err(TransactionError::System),
            _ => {}
        }
        if transaction.sharding_flag != 0 {
            return Err(TransactionError::ShardingFlag(transaction.sharding_flag));
        }
        let left = self.gas_left();
        if transaction.gas > left {
            return Err(TransactionError::BlockGas {
                got: transaction.gas,
                left,
            });
        }
        let env = transaction_env(transaction, sender)?;
        let outcome = self.evm.transact(env).map_err(refusal)?;
        self.evm.ctx.journaled_state.database.commit(outcome.state);
        let success = outcome.result.is_success();
        let gas_used = outcome.result.tx_gas_used();
        let logs = match outcome.result {
            ExecutionResult::Success { logs, .. } => logs,
            _ => Vec::new(),
        };
        self.gas_used += gas_used;
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
        self.receipts.push(Receipt {
            outcome: ReceiptOutcome::Status(success),
            cumulative_gas_used: self.gas_used,
            logs_bloom: primitives::logs_bloom(&logs),
            logs,
        });
        Ok(TransactionOutcome { gas_used, success })
    }

    /// Pays the rewards and ends the block: gas used, bloom and receipts.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    pub fn finish(mut self, uncles: &[Header]) -> Result<Executed, StateError> {
        let number = self.header.number;
        let reward = block_reward(number);
        let state = &mut self.evm.ctx.journaled_state.database;
        let mut own = reward;
        for uncle in uncles {
            let (theirs, nephew) = uncle_rewards(reward, number, uncle.number);
            state.add_balance(uncle.beneficiary, theirs)?;
            own += nephew;
        }
        state.add_balance(self.header.beneficiary, own)?;
        let logs_bloom = self
            .receipts
            .iter()
            .fold(Bloom::ZERO, |bloom, receipt| bloom | receipt.logs_bloom);
        Ok(Executed {
            gas_used: self.gas_used,
            logs_bloom,
            receipts: self.receipts,
        })
    }
}

/// What executing a block gives beside the state.
#[derive(Clone, Debug)]
pub struct Executed {
    /// Gas of all transactions.
    pub gas_used: u64,
    /// Bloom over all logs.
    pub logs_bloom: Bloom,
    /// A receipt for each transaction.
    pub receipts: Vec<Receipt>,
}

fn transaction_env(transaction: &Transaction, sender: Address) -> Result<TxEnv, TransactionError> {
    let gas_price = u128::try_from(transaction.gas_price).map_err(|_| {
        TransactionError::Other(format!("gas price {} is over 128 bits", transaction.gas_price))
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
        ..Default::default()
    })
}

fn refusal(error: EVMError<StateError>) -> TransactionError {
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
