//! Running one transaction on the EVM: the ordinary way, with the public network's refund
//! of failed calls, and the unmetered system call.
//!
//! Source: facts of the public network, sections 1 and 9. Knows frames and gas; knows no
//! blocks.

use crate::evm::{ChainEvm, Ctx};
use crate::spec::ChainSpec;
use crate::state::StateError;
use revm::Database;
use revm::context::TxEnv;
use revm::context::result::{EVMError, ExecutionResult, HaltReason};
use revm::context_interface::JournalTr;
use revm::context_interface::journaled_state::account::JournaledAccountTr;
use revm::handler::{EvmTr, FrameResult, Handler, ItemOrResult};
use revm::inspector::handler::{frame_end, frame_start};
use revm::inspector::{Inspector, InspectorEvmTr};
use revm::interpreter::interpreter::EthInterpreter;
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
    finish(evm, result)
}

/// As [`transact`], under the eyes of the EVM's inspector. To the inspector a failed call has
/// failed as the interpreter says, whoever gets its gas.
///
/// # Errors
/// As [`transact`].
pub(crate) fn inspect<DB: StorageProbe, I: Inspector<Ctx<DB>, EthInterpreter>>(
    evm: &mut ChainEvm<DB, I>,
    spec: &ChainSpec,
    transaction: TxEnv,
) -> Result<Outcome, EVMError<StateError>> {
    evm.ctx.tx = transaction;
    let result = InspectedHandler::new(spec.failed_calls_refund_gas).run(evm);
    finish(evm, result)
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
    evm.ctx.tx = system_env(caller, contract, data);
    let result = ChainHandler::new(false).run_system_call(evm);
    finish(evm, result)
}

/// As [`system_call`], under the eyes of the EVM's inspector.
///
/// # Errors
/// As [`system_call`].
pub(crate) fn inspect_system_call<DB: StorageProbe, I: Inspector<Ctx<DB>, EthInterpreter>>(
    evm: &mut ChainEvm<DB, I>,
    caller: Address,
    contract: Address,
    data: Bytes,
) -> Result<Outcome, EVMError<StateError>> {
    evm.ctx.tx = system_env(caller, contract, data);
    let result = InspectedHandler::new(false).run_system_call(evm);
    finish(evm, result)
}

fn finish<DB: StorageProbe, I>(
    evm: &mut ChainEvm<DB, I>,
    result: Result<ExecutionResult<HaltReason>, EVMError<StateError>>,
) -> Result<Outcome, EVMError<StateError>> {
    let state = evm.ctx.journaled_state.finalize();
    Ok((result?, state))
}

fn system_env(caller: Address, contract: Address, data: Bytes) -> TxEnv {
    /// As good as none, and far enough from overflow in sums of gas.
    const UNMETERED: u64 = i64::MAX as u64;
    TxEnv {
        caller,
        kind: TxKind::Call(contract),
        data,
        gas_limit: UNMETERED,
        ..Default::default()
    }
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

impl<DB: StorageProbe> Handler for ChainHandler<DB> {
    type Evm = ChainEvm<DB>;
    type Error = EVMError<StateError>;
    type HaltReason = HaltReason;

    fn run_exec_loop(&mut self, evm: &mut Self::Evm, first: FrameInit) -> Result<FrameResult, Self::Error> {
        exec_loop(evm, self.refund, first, start, |evm| Ok(evm.frame_run()?))
    }
}

/// [`ChainHandler`] for an EVM with an inspector.
struct InspectedHandler<DB, I> {
    refund: bool,
    types: PhantomData<(DB, I)>,
}

impl<DB, I> InspectedHandler<DB, I> {
    fn new(refund: bool) -> Self {
        Self {
            refund,
            types: PhantomData,
        }
    }
}

impl<DB: StorageProbe, I: Inspector<Ctx<DB>, EthInterpreter>> Handler for InspectedHandler<DB, I> {
    type Evm = ChainEvm<DB, I>;
    type Error = EVMError<StateError>;
    type HaltReason = HaltReason;

    fn run_exec_loop(&mut self, evm: &mut Self::Evm, first: FrameInit) -> Result<FrameResult, Self::Error> {
        exec_loop(evm, self.refund, first, start_inspected, |evm| {
            Ok(evm.inspect_frame_run()?)
        })
    }
}

/// Runs frames to the end of the first: `start` begins one, or gives its result where it ends at
/// once; `step` runs the topmost until it ends or wants another.
fn exec_loop<DB: StorageProbe, I>(
    evm: &mut ChainEvm<DB, I>,
    refund: bool,
    first: FrameInit,
    start: impl Fn(&mut ChainEvm<DB, I>, FrameInit) -> Result<Option<FrameResult>, EVMError<StateError>>,
    step: impl Fn(&mut ChainEvm<DB, I>) -> Result<ItemOrResult<FrameInit, FrameResult>, EVMError<StateError>>,
) -> Result<FrameResult, EVMError<StateError>> {
    let mut refunds = vec![refund];
    if let Some(result) = start(evm, first)? {
        return Ok(soften(result, refund));
    }
    loop {
        let (result, refund) = match step(evm)? {
            ItemOrResult::Item(init) => {
                let refund = refund && is_call(&init.frame_input);
                match start(evm, init)? {
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

/// Starts a frame, or gives its result where it ends at once.
fn start<DB: StorageProbe>(
    evm: &mut ChainEvm<DB>,
    init: FrameInit,
) -> Result<Option<FrameResult>, EVMError<StateError>> {
    if let Some(result) = collision(evm, &init)? {
        return Ok(Some(result));
    }
    match evm.frame_init(init)? {
        ItemOrResult::Item(_) => Ok(None),
        ItemOrResult::Result(result) => Ok(Some(result)),
    }
}

/// As [`start`], and the inspector is told.
fn start_inspected<DB: StorageProbe, I: Inspector<Ctx<DB>, EthInterpreter>>(
    evm: &mut ChainEvm<DB, I>,
    mut init: FrameInit,
) -> Result<Option<FrameResult>, EVMError<StateError>> {
    if let Some(mut result) = collision(evm, &init)? {
        let (context, inspector) = evm.ctx_inspector();
        frame_start(context, inspector, &mut init.frame_input);
        frame_end(context, inspector, &init.frame_input, &mut result);
        return Ok(Some(result));
    }
    match evm.inspect_frame_init(init)? {
        ItemOrResult::Item(_) => Ok(None),
        ItemOrResult::Result(result) => Ok(Some(result)),
    }
}

fn collision<DB: StorageProbe, I>(
    evm: &mut ChainEvm<DB, I>,
    init: &FrameInit,
) -> Result<Option<FrameResult>, StateError> {
    match &init.frame_input {
        FrameInput::Create(inputs) => storage_collision(evm, inputs),
        _ => Ok(None),
    }
}

/// The end of a creation over an account with storage: the creator's nonce is counted and
/// all its gas is gone, as over an account with code. `None` where there is no such account,
/// or the creation fails for an earlier reason that revm finds.
fn storage_collision<DB: StorageProbe, I>(
    evm: &mut ChainEvm<DB, I>,
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
