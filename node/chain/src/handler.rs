//! Running one transaction on the EVM: the ordinary way, with the public network's refund
//! of failed calls, and the unmetered system call.
//!
//! Source: facts of the public network, sections 1 and 9. Knows frames and gas; knows no
//! blocks.

use crate::evm::ChainEvm;
use crate::spec::ChainSpec;
use crate::state::StateError;
use revm::Database;
use revm::context::TxEnv;
use revm::context::result::{EVMError, ExecutionResult, HaltReason};
use revm::context_interface::JournalTr;
use revm::context_interface::journaled_state::account::JournaledAccountTr;
use revm::handler::{EvmTr, FrameResult, Handler, ItemOrResult};
use revm::interpreter::interpreter_action::FrameInit;
use revm::interpreter::{
    CallScheme, CreateInputs, CreateOutcome, FrameInput, Gas, InstructionResult, InterpreterResult,
};
use revm::primitives::constants::CALL_STACK_LIMIT;
use revm::primitives::{Address, Bytes, TxKind};
use revm::state::EvmState;
use std::marker::PhantomData;

/// What the EVM gives: how the transaction ended, and the accounts it changed.
pub(crate) type Outcome = (ExecutionResult<HaltReason>, EvmState);

/// Runs a transaction by the rules of `spec`. After an error nothing is left in the EVM.
///
/// # Errors
/// Why the transaction cannot be run, or the failure of the store.
pub(crate) fn transact<DB: StorageProbe>(
    evm: &mut ChainEvm<DB>,
    spec: &ChainSpec,
    transaction: TxEnv,
) -> Result<Outcome, EVMError<StateError>> {
    evm.ctx.tx = transaction;
    let result = ChainHandler::new(spec.failed_calls_refund_gas).run(evm);
    let state = evm.ctx.journaled_state.finalize();
    Ok((result?, state))
}

/// Runs a call that nobody pays and no gas limits: no nonce moves, no fee is paid.
///
/// # Errors
/// The failure of the store; a failing contract is a result.
pub(crate) fn system_call<DB: StorageProbe>(
    evm: &mut ChainEvm<DB>,
    caller: Address,
    contract: Address,
    data: Bytes,
) -> Result<Outcome, EVMError<StateError>> {
    /// As good as none, and far enough from overflow in sums of gas.
    const UNMETERED: u64 = i64::MAX as u64;
    evm.ctx.tx = TxEnv {
        caller,
        kind: TxKind::Call(contract),
        data,
        gas_limit: UNMETERED,
        ..Default::default()
    };
    let result = ChainHandler::new(false).run_system_call(evm);
    let state = evm.ctx.journaled_state.finalize();
    Ok((result?, state))
}

/// What the EVM must be able to ask of the state beside revm's own questions.
pub(crate) trait StorageProbe: Database<Error = StateError> {
    /// Whether any slot of the account is not zero.
    ///
    /// # Errors
    /// [`StateError`] when the store fails.
    fn has_storage(&mut self, address: Address) -> Result<bool, StateError>;
}

/// revm's handler with two differences.
///
/// No contract is made over an account that has storage (EIP-7610, which holds from block 0
/// on). And where `refund` says so, the gas left in a failed CALL and in a failed transaction
/// goes back to the caller, whatever the failure was; other kinds of calls burn it.
struct ChainHandler<DB> {
    refund: bool,
    database: PhantomData<DB>,
}

impl<DB> ChainHandler<DB> {
    fn new(refund: bool) -> Self {
        Self {
            refund,
            database: PhantomData,
        }
    }
}

impl<DB: StorageProbe> ChainHandler<DB> {
    /// Starts a frame, or gives its result where it ends at once.
    fn start(evm: &mut ChainEvm<DB>, init: FrameInit) -> Result<Option<FrameResult>, EVMError<StateError>> {
        if let FrameInput::Create(inputs) = &init.frame_input
            && let Some(result) = storage_collision(evm, inputs)?
        {
            return Ok(Some(result));
        }
        match evm.frame_init(init)? {
            ItemOrResult::Item(_) => Ok(None),
            ItemOrResult::Result(result) => Ok(Some(result)),
        }
    }
}

impl<DB: StorageProbe> Handler for ChainHandler<DB> {
    type Evm = ChainEvm<DB>;
    type Error = EVMError<StateError>;
    type HaltReason = HaltReason;

    fn run_exec_loop(&mut self, evm: &mut Self::Evm, first: FrameInit) -> Result<FrameResult, Self::Error> {
        let refund = self.refund;
        let mut refunds = vec![refund];
        if let Some(result) = Self::start(evm, first)? {
            return Ok(soften(result, refund));
        }
        loop {
            let (result, refund) = match evm.frame_run()? {
                ItemOrResult::Item(init) => {
                    let refund = refund && is_call(&init.frame_input);
                    match Self::start(evm, init)? {
                        None => {
                            refunds.push(refund);
                            continue;
                        }
                        Some(result) => (result, refund),
                    }
                }
                ItemOrResult::Result(result) => (result, refunds.pop().unwrap_or(refund)),
            };
            if let Some(result) = evm.frame_return_result(soften(result, refund))? {
                return Ok(result);
            }
        }
    }
}

/// The end of a creation over an account with storage: the creator's nonce is counted and
/// all its gas is gone, as over an account with code. `None` where there is no such account,
/// or the creation fails for an earlier reason that revm finds.
fn storage_collision<DB: StorageProbe>(
    evm: &mut ChainEvm<DB>,
    inputs: &CreateInputs,
) -> Result<Option<FrameResult>, StateError> {
    let journal = &mut evm.ctx.journaled_state;
    let creator = &journal.load_account(inputs.caller())?.data.info;
    let (nonce, poor) = (creator.nonce, creator.balance < inputs.value());
    if poor || nonce == u64::MAX || journal.depth() > CALL_STACK_LIMIT as usize {
        return Ok(None);
    }
    let address = inputs.created_address(nonce);
    let account = journal.load_account(address)?.data;
    let (created, taken) = (
        account.is_created(),
        account.info.nonce != 0 || !account.info.is_empty_code_hash(),
    );
    if created || taken || !journal.database.has_storage(address)? {
        return Ok(None);
    }
    journal.load_account_mut(inputs.caller())?.bump_nonce();
    let mut gas = Gas::new(inputs.gas_limit());
    gas.spend_all();
    let result = InterpreterResult::new(InstructionResult::CreateCollision, Bytes::new(), gas);
    Ok(Some(FrameResult::Create(CreateOutcome::new(result, None))))
}

fn is_call(input: &FrameInput) -> bool {
    matches!(input, FrameInput::Call(inputs) if inputs.scheme == CallScheme::Call)
}

/// Turns a halt into a revert without data, which undoes as much and keeps the gas.
fn soften(mut result: FrameResult, refund: bool) -> FrameResult {
    let inner = match &mut result {
        FrameResult::Call(outcome) => &mut outcome.result,
        FrameResult::Create(outcome) => &mut outcome.result,
    };
    if refund && inner.result.is_halt() && inner.result != InstructionResult::FatalExternalError {
        inner.result = InstructionResult::Revert;
        inner.output = Bytes::new();
    }
    result
}
