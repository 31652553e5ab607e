//! Running one transaction on the EVM: the ordinary way, with the public network's refund
//! of failed calls, and the unmetered system call.
//!
//! Source: facts of the public network, sections 1, 4 and 9. Knows frames and gas; knows no
//! blocks.

use std::marker::PhantomData;

use revm::context::TxEnv;
use revm::context::result::{EVMError, ExecutionResult, HaltReason};
use revm::context_interface::JournalTr;
use revm::context_interface::journaled_state::account::JournaledAccountTr;
use revm::handler::{EthFrame, EvmTr, FrameInitOrResult, FrameResult, Handler, ItemOrResult, MainnetHandler};
use revm::inspector::handler::{frame_end, frame_start};
use revm::inspector::{Inspector, InspectorEvmTr};
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_action::FrameInit;
use revm::interpreter::{
    CallInputs, CallValue, CreateInputs, CreateOutcome, FrameInput, Gas, GasTracker, InstructionResult,
    InterpreterResult,
};
use revm::primitives::constants::CALL_STACK_LIMIT;
use revm::primitives::{Address, Bytes, TxKind};
use revm::state::EvmState;

use crate::evm::precompiles::{DelegatedTransfer, EmittedNotice, take_notices};
use crate::evm::refund;
use crate::evm::{ChainEvm, EvmContext};
use crate::spec::ChainSpec;
use crate::state::{StateError, StorageProbe};

/// What the EVM gives.
pub(crate) struct EvmOutcome {
    /// How the transaction ended; with its logs, of which none is a notice.
    pub(crate) result: ExecutionResult<HaltReason>,
    /// The accounts it changed.
    pub(crate) changes: EvmState,
    /// What it told the application chains.
    pub(crate) notices: Vec<EmittedNotice>,
}

/// Runs a transaction by the rules of `spec`. After an error nothing is left in the EVM.
///
/// # Errors
/// Why the transaction cannot be run, or the failure of the store.
pub(crate) fn transact<DB: StorageProbe>(
    evm: &mut ChainEvm<DB>,
    spec: &ChainSpec,
    transaction: TxEnv,
) -> Result<EvmOutcome, EVMError<StateError>> {
    evm.ctx.tx = transaction;
    let result = ChainHandler::new(spec, false).run(evm);
    take_outcome(evm, result)
}

/// As [`transact`], under the eyes of the EVM's inspector. To the inspector a failed call has
/// failed as the interpreter says, whoever gets its gas.
///
/// # Errors
/// As [`transact`].
pub(crate) fn inspect<DB: StorageProbe, I: Inspector<EvmContext<DB>, EthInterpreter>>(
    evm: &mut ChainEvm<DB, I>,
    spec: &ChainSpec,
    transaction: TxEnv,
) -> Result<EvmOutcome, EVMError<StateError>> {
    evm.ctx.tx = transaction;
    let result = ChainHandler::new(spec, true).run(evm);
    take_outcome(evm, result)
}

/// Runs a call that nobody pays and no gas limits: no nonce moves, no fee is paid.
///
/// # Errors
/// The failure of the store; a failing contract is a result.
pub(crate) fn system_call<DB: StorageProbe>(
    evm: &mut ChainEvm<DB>,
    spec: &ChainSpec,
    caller: Address,
    contract: Address,
    data: Bytes,
) -> Result<EvmOutcome, EVMError<StateError>> {
    evm.ctx.tx = system_env(caller, contract, data);
    let result = ChainHandler::new(spec, false).run_system_call(evm);
    take_outcome(evm, result)
}

/// As [`system_call`], under the eyes of the EVM's inspector.
///
/// # Errors
/// As [`system_call`].
pub(crate) fn inspect_system_call<DB: StorageProbe, I: Inspector<EvmContext<DB>, EthInterpreter>>(
    evm: &mut ChainEvm<DB, I>,
    spec: &ChainSpec,
    caller: Address,
    contract: Address,
    data: Bytes,
) -> Result<EvmOutcome, EVMError<StateError>> {
    evm.ctx.tx = system_env(caller, contract, data);
    let result = ChainHandler::new(spec, true).run_system_call(evm);
    take_outcome(evm, result)
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

/// Takes what a transaction left out of the EVM.
fn take_outcome<DB: StorageProbe, I>(
    evm: &mut ChainEvm<DB, I>,
    result: Result<ExecutionResult<HaltReason>, EVMError<StateError>>,
) -> Result<EvmOutcome, EVMError<StateError>> {
    let changes = evm.ctx.journaled_state.finalize();
    let mut result = result?;
    let notices = match &mut result {
        ExecutionResult::Success { logs, .. } if evm.precompiles.leave_notices() => take_notices(logs),
        _ => Vec::new(),
    };
    Ok(EvmOutcome {
        result,
        changes,
        notices,
    })
}

/// revm's handler with three differences.
///
/// No contract is made over an account that has storage (EIP-7610, which holds from block 0
/// on). Where `refund` says so, the gas left in a failed CALL and in a failed transaction that
/// calls goes back, see [`crate::evm::refund`]; creations and other kinds of calls burn it. And 0x0c
/// called by the public network's system contract moves other accounts' money.
struct ChainHandler<DB, I> {
    refund: bool,
    /// Whether the EVM's inspector is told of everything.
    inspects: bool,
    types: PhantomData<(DB, I)>,
}

impl<DB, I> ChainHandler<DB, I> {
    fn new(spec: &ChainSpec, inspects: bool) -> Self {
        Self {
            refund: spec.failed_calls_refund_gas,
            inspects,
            types: PhantomData,
        }
    }
}

impl<DB: StorageProbe, I: Inspector<EvmContext<DB>, EthInterpreter>> ChainHandler<DB, I> {
    /// Starts a frame, or gives its result where it ends at once.
    fn start(
        &self,
        evm: &mut ChainEvm<DB, I>,
        mut init: FrameInit,
    ) -> Result<Option<FrameResult>, EVMError<StateError>> {
        match &mut init.frame_input {
            FrameInput::Create(inputs) => {
                if let Some(mut result) = storage_collision(evm, inputs)? {
                    if self.inspects {
                        let (context, inspector) = evm.ctx_inspector();
                        frame_start(context, inspector, &mut init.frame_input);
                        frame_end(context, inspector, &init.frame_input, &mut result);
                    }
                    return Ok(Some(result));
                }
            }
            FrameInput::Call(inputs) => redirect_delegated_transfer(evm, inputs)?,
            FrameInput::Empty => {}
        }
        let started = if self.inspects {
            evm.inspect_frame_init(init)?
        } else {
            evm.frame_init(init)?
        };
        match started {
            ItemOrResult::Item(_) => Ok(None),
            ItemOrResult::Result(result) => Ok(Some(result)),
        }
    }

    /// Runs the frame on top until it calls or ends. `refunded`: its gas goes back when it fails.
    fn step(
        &self,
        evm: &mut ChainEvm<DB, I>,
        refunded: bool,
    ) -> Result<FrameInitOrResult<EthFrame<EthInterpreter>>, EVMError<StateError>> {
        match (refunded, self.inspects) {
            (true, false) => refund::run_frame(evm),
            (true, true) => refund::inspect_frame(evm),
            (false, false) => Ok(evm.frame_run()?),
            (false, true) => Ok(evm.inspect_frame_run()?),
        }
    }
}

impl<DB: StorageProbe, I: Inspector<EvmContext<DB>, EthInterpreter>> Handler for ChainHandler<DB, I> {
    type Evm = ChainEvm<DB, I>;
    type Error = EVMError<StateError>;
    type HaltReason = HaltReason;

    fn run_exec_loop(&mut self, evm: &mut Self::Evm, first: FrameInit) -> Result<FrameResult, Self::Error> {
        let refunded = |input: &FrameInput| self.refund && refund::refunds_failed_call(input);
        // Whether the gas of each open frame goes back when it fails.
        let mut open = vec![refunded(&first.frame_input)];
        if let Some(result) = self.start(evm, first)? {
            return Ok(result);
        }
        loop {
            let top = open.last().copied().unwrap_or(false);
            let (result, refunded) = match self.step(evm, top)? {
                ItemOrResult::Item(init) => {
                    let refunded = refunded(&init.frame_input);
                    match self.start(evm, init)? {
                        None => {
                            open.push(refunded);
                            continue;
                        }
                        Some(result) => (result, refunded),
                    }
                }
                ItemOrResult::Result(result) => (result, open.pop().unwrap_or(false)),
            };
            // The first frame's end is the transaction's, whose gas is settled below.
            let result = if refunded && !open.is_empty() {
                refund::failure_to_revert(result)
            } else {
                result
            };
            if let Some(result) = evm.frame_return_result(result)? {
                return Ok(result);
            }
        }
    }

    fn last_frame_result(
        &mut self,
        evm: &mut Self::Evm,
        frame: &mut FrameResult,
        gas: &mut GasTracker,
    ) -> Result<(), Self::Error> {
        let end = frame.instruction_result();
        let refunded = self.refund && matches!(frame, FrameResult::Call(_)) && refund::is_failure(end);
        // Settled like a revert, but told as what it was.
        if refunded {
            set_end(frame, InstructionResult::Revert);
        }
        let settled = MainnetHandler::<Self::Evm, Self::Error, EthFrame<EthInterpreter>>::default()
            .last_frame_result(evm, frame, gas);
        set_end(frame, end);
        settled
    }
}

fn set_end(frame: &mut FrameResult, end: InstructionResult) {
    match frame {
        FrameResult::Call(outcome) => outcome.result.result = end,
        FrameResult::Create(outcome) => outcome.result.result = end,
    }
}

/// Makes a call of 0x0c by the system contract the transfer that it asks for; the built-in
/// contract itself runs nothing then.
fn redirect_delegated_transfer<DB: StorageProbe, I>(
    evm: &mut ChainEvm<DB, I>,
    inputs: &mut CallInputs,
) -> Result<(), StateError> {
    let Some(DelegatedTransfer { from, to, value }) = evm.precompiles.delegated_transfer(&evm.ctx, inputs)
    else {
        return Ok(());
    };
    let journal = &mut evm.ctx.journaled_state;
    journal.load_account(from)?;
    journal.load_account(to)?;
    inputs.caller = from;
    inputs.target_address = to;
    inputs.value = CallValue::Transfer(value);
    Ok(())
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
