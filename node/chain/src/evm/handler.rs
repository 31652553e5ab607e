//! Runs one transaction or one system call on the EVM.
//!
//! The handler is revm's with the public network's differences, see [`ChainHandler`]. Sources:
//! docs/base-chain.md, 1; docs/base-chain.md, 4; docs/base-chain.md, 9. This module knows frames
//! and gas, but no blocks.

use std::marker::PhantomData;

use revm::bytecode::Bytecode;
use revm::context::TxEnv;
use revm::context::result::{EVMError, ExecutionResult, HaltReason};
use revm::context_interface::JournalTr;
use revm::context_interface::journaled_state::account::JournaledAccountTr;
use revm::handler::{EthFrame, EvmTr, FrameInitOrResult, FrameResult, Handler, ItemOrResult, MainnetHandler};
use revm::inspector::handler::{frame_end, frame_start};
use revm::inspector::{Inspector, InspectorEvmTr};
use revm::interpreter::interpreter::{EthInterpreter, ExtBytecode};
use revm::interpreter::interpreter_action::FrameInit;
use revm::interpreter::{
    CallInput, CallInputs, CallOutcome, CallScheme, CallValue, CreateInputs, CreateOutcome, CreateScheme,
    FrameInput, Gas, GasTracker, InstructionResult, InterpreterResult, SharedMemory,
};
use revm::primitives::constants::CALL_STACK_LIMIT;
use revm::primitives::{Address, B256, Bytes, TxKind, U256};
use revm::state::EvmState;

use crate::evm::deadline::Deadline;
use crate::evm::precompiles::{
    DelegatedTransfer, EmittedNotice, is_listed, list_query, take_notices, withdraw,
};
use crate::evm::refund;
use crate::evm::{ChainEvm, EvmContext, mark_existing, without_metering};
use crate::spec::{ChainFamily, ChainSpec};
use crate::state::{StateError, StorageProbe};

/// The outcome of a transaction that was run.
pub(crate) struct EvmOutcome {
    /// The end of the transaction, with its logs. The notices are not among them.
    pub(crate) result: ExecutionResult<HaltReason>,
    /// The accounts that the transaction changed.
    pub(crate) changes: EvmState,
    /// The notices to application chains.
    pub(crate) notices: Vec<EmittedNotice>,
}

/// Runs a transaction by the rules of `spec`. The EVM keeps none of its changes.
///
/// # Errors
/// [`EVMError`] when the transaction is invalid or the store fails.
pub(crate) fn transact<DB: StorageProbe, I: Inspector<EvmContext<DB>, EthInterpreter>>(
    evm: &mut ChainEvm<DB, I>,
    spec: &ChainSpec,
    transaction: TxEnv,
) -> Result<EvmOutcome, EVMError<StateError>> {
    run_watched(evm, spec, transaction, Watch::Nothing)
}

/// As [`transact`], until `deadline` stops it. This is nearly as fast as without a deadline.
///
/// # Errors
/// As [`transact`]. If [`Deadline::stopped`] has a reason, the error only says that.
pub(crate) fn transact_within<DB: StorageProbe, I: Inspector<EvmContext<DB>, EthInterpreter>>(
    evm: &mut ChainEvm<DB, I>,
    spec: &ChainSpec,
    transaction: TxEnv,
    deadline: &mut Deadline,
) -> Result<EvmOutcome, EVMError<StateError>> {
    run_watched(evm, spec, transaction, Watch::Deadline(deadline))
}

/// As [`transact`], with the EVM's inspector. The inspector sees a failed call as a failure, also
/// if its gas goes back to the caller.
///
/// # Errors
/// As [`transact`].
pub(crate) fn inspect<DB: StorageProbe, I: Inspector<EvmContext<DB>, EthInterpreter>>(
    evm: &mut ChainEvm<DB, I>,
    spec: &ChainSpec,
    transaction: TxEnv,
) -> Result<EvmOutcome, EVMError<StateError>> {
    run_watched(evm, spec, transaction, Watch::Inspector)
}

/// Runs a call without gas metering. It changes no nonce, and no fee is paid.
///
/// # Errors
/// [`EVMError::Database`] when the store fails. A failing contract is an outcome.
pub(crate) fn system_call<DB: StorageProbe, I: Inspector<EvmContext<DB>, EthInterpreter>>(
    evm: &mut ChainEvm<DB, I>,
    spec: &ChainSpec,
    caller: Address,
    contract: Address,
    data: Bytes,
) -> Result<EvmOutcome, EVMError<StateError>> {
    evm.ctx.tx = system_env(caller, contract, data);
    let result = without_metering(evm, |evm| {
        ChainHandler::new(spec, Watch::Nothing).run_system_call(evm)
    });
    take_outcome(evm, result)
}

/// As [`system_call`], with the EVM's inspector.
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
    let result = without_metering(evm, |evm| {
        ChainHandler::new(spec, Watch::Inspector).run_system_call(evm)
    });
    take_outcome(evm, result)
}

/// The system transaction has no gas, as its field says.
fn system_env(caller: Address, contract: Address, data: Bytes) -> TxEnv {
    TxEnv {
        caller,
        kind: TxKind::Call(contract),
        data,
        gas_limit: 0,
        ..Default::default()
    }
}

fn run_watched<DB: StorageProbe, I: Inspector<EvmContext<DB>, EthInterpreter>>(
    evm: &mut ChainEvm<DB, I>,
    spec: &ChainSpec,
    transaction: TxEnv,
    watch: Watch<'_>,
) -> Result<EvmOutcome, EVMError<StateError>> {
    evm.ctx.tx = transaction;
    let result = ChainHandler::new(spec, watch).run(evm);
    take_outcome(evm, result)
}

/// Takes the changes and notices of a transaction out of the EVM.
fn take_outcome<DB: StorageProbe, I>(
    evm: &mut ChainEvm<DB, I>,
    result: Result<ExecutionResult<HaltReason>, EVMError<StateError>>,
) -> Result<EvmOutcome, EVMError<StateError>> {
    let changes = evm.ctx.journaled_state.finalize();
    let mut result = result?;
    let notices = match &mut result {
        ExecutionResult::Success { logs, .. } if evm.precompiles.emit_notices() => take_notices(logs),
        _ => Vec::new(),
    };
    Ok(EvmOutcome {
        result,
        changes,
        notices,
    })
}

/// revm's handler with these differences:
///
/// - No contract is created at an address that has storage (EIP-7610, from block 0 on).
/// - If `refund` is set, the gas of a failed CALL and of a failed transaction that calls goes back,
///   see [`refund`]. Failed creations and other kinds of calls burn their gas.
/// - A call of 0x0c by the public network's system contract transfers value between two other
///   accounts, see [`redirect_delegated_transfer`].
/// - In the public network's family a CREATE2 that reverts gives no return data.
/// - A call that the chain's guard refuses reverts, see [`refused_call`].
/// - A call of 0x0d by a contract that may send no notices returns 0, see [`ChainHandler::start`].
struct ChainHandler<'d, DB, I> {
    refund: bool,
    /// The output of a CREATE2 that reverts is return data of its caller. The public node compares
    /// the reason with another error that has the same text, so there it is not.
    create2_revert_has_data: bool,
    watch: Watch<'d>,
    types: PhantomData<(DB, I)>,
}

/// The observer of the frames of a transaction.
enum Watch<'d> {
    Nothing,
    /// The EVM's inspector.
    Inspector,
    Deadline(&'d mut Deadline),
}

impl<'d, DB, I> ChainHandler<'d, DB, I> {
    const fn new(spec: &ChainSpec, watch: Watch<'d>) -> Self {
        Self {
            refund: spec.failed_calls_refund_gas,
            create2_revert_has_data: matches!(spec.family, ChainFamily::Ethereum),
            watch,
            types: PhantomData,
        }
    }

    const fn inspects(&self) -> bool {
        matches!(self.watch, Watch::Inspector)
    }
}

/// The facts about an open frame that the handler needs when the frame ends.
#[derive(Clone, Copy)]
struct OpenFrame {
    /// Its gas goes back when it fails.
    refunded: bool,
    /// Whether the frame is a CREATE2.
    is_create2: bool,
}

impl<DB: StorageProbe, I: Inspector<EvmContext<DB>, EthInterpreter>> ChainHandler<'_, DB, I> {
    fn open_frame(&self, input: &FrameInput) -> OpenFrame {
        OpenFrame {
            refunded: self.refund && refund::refunds_failed_call(input),
            is_create2: matches!(
                input,
                FrameInput::Create(inputs) if matches!(inputs.scheme(), CreateScheme::Create2 { .. })
            ),
        }
    }

    /// Starts a frame. Returns its result if it ends at once.
    ///
    /// If it is a call of 0x0d on a chain with a list of contracts that may send notices, the list
    /// is asked afterwards, and decides what the call returns.
    fn start(
        &mut self,
        evm: &mut ChainEvm<DB, I>,
        mut init: FrameInit,
    ) -> Result<Option<FrameResult>, EVMError<StateError>> {
        // A precompiled contract has no steps and takes much longer than a step. So the limit is
        // checked at every call.
        if let Watch::Deadline(deadline) = &mut self.watch {
            deadline.go_on()?;
        }
        evm.ctx.chain.returns.begin_frame(init.depth);
        let depth = init.depth;
        if let Some(mut result) = refused_call(evm, &init) {
            if self.inspects() {
                let (context, inspector) = evm.ctx_inspector();
                frame_start(context, inspector, &mut init.frame_input);
                frame_end(context, inspector, &init.frame_input, &mut result);
            }
            return Ok(Some(result));
        }
        let (mut created, mut listed_call, mut known_code) = (None, None, None);
        let logs_before = evm.ctx.journaled_state.logs().len();
        match &mut init.frame_input {
            FrameInput::Create(inputs) => {
                let code = self.know_init_code(evm, inputs)?;
                if let Some(mut result) = storage_collision(evm, inputs)? {
                    if self.inspects() {
                        let (context, inspector) = evm.ctx_inspector();
                        frame_start(context, inspector, &mut init.frame_input);
                        frame_end(context, inspector, &init.frame_input, &mut result);
                    }
                    return Ok(Some(result));
                }
                known_code = code;
            }
            FrameInput::Call(inputs) => {
                redirect_delegated_transfer(evm, inputs)?;
                let address = inputs.bytecode_address;
                let creates = inputs.scheme == CallScheme::Call && evm.precompiles.creates_account(&address);
                created = creates.then_some(address);
                let list = evm.precompiles.notice_list(inputs);
                listed_call = list.map(|list| (list, inputs.caller, inputs.is_static));
            }
            FrameInput::Empty => {}
        }
        let started = if self.inspects() {
            evm.inspect_frame_init(init)?
        } else {
            evm.frame_init(init)?
        };
        let ItemOrResult::Result(mut result) = started else {
            if let Some(code) = known_code {
                evm.frame_stack.get().interpreter.bytecode = ExtBytecode::new(code);
            }
            return Ok(None);
        };
        if result.instruction_result().is_ok() {
            if let Some(address) = created {
                mark_existing(&mut evm.ctx, address);
            }
            if let Some((list, caller, is_static)) = listed_call
                && let FrameResult::Call(outcome) = &mut result
                && !self.may_notify(evm, list, caller, (depth, is_static))?
            {
                let logs = &mut evm.ctx.journaled_state.inner.logs;
                withdraw(&mut outcome.result.output, logs, logs_before);
            }
        }
        Ok(Some(result))
    }

    /// Changes a CREATE2 so that revm neither hashes nor analyses its code, and returns the code to
    /// run. Returns `None` for other creations, for those that fail at once, and where an inspector
    /// is to see the creation as it is.
    fn know_init_code(
        &self,
        evm: &mut ChainEvm<DB, I>,
        inputs: &mut CreateInputs,
    ) -> Result<Option<Bytecode>, StateError> {
        let CreateScheme::Create2 { salt } = inputs.scheme() else {
            return Ok(None);
        };
        if self.inspects() || creator_nonce(evm, inputs)?.is_none() {
            return Ok(None);
        }
        let (hash, code) = evm.ctx.chain.create2.init_code(inputs.init_code());
        let address = inputs.caller().create2(salt.to_be_bytes::<32>(), hash);
        inputs.set_init_code(Bytes::new());
        inputs.set_scheme(CreateScheme::Custom { address });
        Ok(Some(code))
    }

    /// Asks the contract `list` whether `caller` may send notices. The frame that asks is of the
    /// call of 0x0d: it has that call's depth, and may change state if that call may.
    fn may_notify(
        &self,
        evm: &mut ChainEvm<DB, I>,
        list: Address,
        caller: Address,
        (depth, is_static): (usize, bool),
    ) -> Result<bool, EVMError<StateError>> {
        /// The gas that the public node gives to the list. Nobody pays for it.
        const LIST_GAS: u64 = 1_000_000;
        let journal = &mut evm.ctx.journaled_state;
        let account = journal.load_account(caller)?.data;
        // The public node knows no code hash of an account that does not exist.
        let code_hash = if account.is_loaded_as_not_existing_not_touched() {
            B256::ZERO
        } else {
            account.info.code_hash
        };
        let info = &journal.load_account_with_code(list)?.data.info;
        let code = info.code.clone().unwrap_or_default();
        if code.is_empty() {
            return Ok(is_listed(&[]));
        }
        let inputs = CallInputs {
            input: CallInput::Bytes(list_query(caller, code_hash)),
            return_memory_offset: 0..0,
            gas_limit: LIST_GAS,
            reservoir: 0,
            bytecode_address: list,
            known_bytecode: (info.code_hash, code),
            target_address: list,
            caller,
            value: CallValue::Apparent(U256::ZERO),
            scheme: CallScheme::Call,
            is_static,
            charged_new_account_state_gas: false,
        };
        let init = FrameInit {
            depth,
            memory: SharedMemory::new(),
            frame_input: FrameInput::Call(Box::new(inputs)),
        };
        // An inspector sees the transaction's own frames only.
        let mut handler = Self {
            watch: Watch::Nothing,
            ..*self
        };
        let result = handler.run_frames(evm, init)?;
        Ok(result.instruction_result().is_ok() && is_listed(result.output().data()))
    }

    /// Runs a frame and the frames that it makes, until it ends.
    fn run_frames(
        &mut self,
        evm: &mut ChainEvm<DB, I>,
        first: FrameInit,
    ) -> Result<FrameResult, EVMError<StateError>> {
        let mut open = vec![self.open_frame(&first.frame_input)];
        if let Some(result) = self.start(evm, first)? {
            return Ok(result);
        }
        loop {
            let refunded = open.last().is_some_and(|frame| frame.refunded);
            let (mut result, frame) = match self.step(evm, refunded)? {
                ItemOrResult::Item(init) => {
                    let frame = self.open_frame(&init.frame_input);
                    match self.start(evm, init)? {
                        None => {
                            open.push(frame);
                            continue;
                        }
                        Some(result) => (result, frame),
                    }
                }
                ItemOrResult::Result(result) => {
                    let Some(frame) = open.pop().filter(|_| !open.is_empty()) else {
                        evm.frame_stack.pop();
                        return Ok(result);
                    };
                    (result, frame)
                }
            };
            if frame.refunded {
                result = refund::failure_to_revert(result);
            }
            if frame.is_create2 && !self.create2_revert_has_data {
                drop_output(&mut result);
            }
            evm.frame_return_result(result)?;
        }
    }

    /// Runs the top frame until it makes a call or ends. `refunded` says that its gas goes back
    /// when it fails.
    fn step(
        &mut self,
        evm: &mut ChainEvm<DB, I>,
        refunded: bool,
    ) -> Result<FrameInitOrResult<EthFrame<EthInterpreter>>, EVMError<StateError>> {
        match (refunded, &mut self.watch) {
            (true, Watch::Nothing) => refund::run_frame(evm),
            (true, Watch::Inspector) => refund::inspect_frame(evm),
            (false, Watch::Nothing) => Ok(evm.frame_run()?),
            (false, Watch::Inspector) => Ok(evm.inspect_frame_run()?),
            (_, Watch::Deadline(deadline)) => deadline.run_frame(evm, refunded),
        }
    }
}

impl<DB: StorageProbe, I: Inspector<EvmContext<DB>, EthInterpreter>> Handler for ChainHandler<'_, DB, I> {
    type Evm = ChainEvm<DB, I>;
    type Error = EVMError<StateError>;
    type HaltReason = HaltReason;

    fn run_exec_loop(&mut self, evm: &mut Self::Evm, first: FrameInit) -> Result<FrameResult, Self::Error> {
        self.run_frames(evm, first)
    }

    fn last_frame_result(
        &mut self,
        evm: &mut Self::Evm,
        frame: &mut FrameResult,
        gas: &mut GasTracker,
    ) -> Result<(), Self::Error> {
        let end = frame.instruction_result();
        let refunded = self.refund && matches!(frame, FrameResult::Call(_)) && refund::is_failure(end);
        // The gas is settled as after a revert. The result stays the failure that it was.
        if refunded {
            set_end(frame, InstructionResult::Revert);
        }
        let settled = MainnetHandler::<Self::Evm, Self::Error, EthFrame<EthInterpreter>>::default()
            .last_frame_result(evm, frame, gas);
        set_end(frame, end);
        settled
    }
}

/// The revert of a call that the chain's guard refuses; `None` for all other frames.
fn refused_call<DB: StorageProbe, I>(evm: &ChainEvm<DB, I>, init: &FrameInit) -> Option<FrameResult> {
    let guard = evm.ctx.chain.guard.as_ref()?;
    let FrameInput::Call(inputs) = &init.frame_input else {
        return None;
    };
    if !guard.watches(&inputs.target_address) {
        return None;
    }
    let (guard, origin) = (guard.clone(), evm.ctx.tx.caller);
    let data = inputs.input.bytes(&evm.ctx);
    if guard.allows(inputs.caller, origin, inputs.call_value(), &data) {
        return None;
    }
    let gas = Gas::new(inputs.gas_limit);
    let revert = InterpreterResult::new(InstructionResult::Revert, Bytes::new(), gas);
    let range = inputs.return_memory_offset.clone();
    Some(FrameResult::Call(CallOutcome::new(revert, range)))
}

const fn set_end(frame: &mut FrameResult, end: InstructionResult) {
    match frame {
        FrameResult::Call(outcome) => outcome.result.result = end,
        FrameResult::Create(outcome) => outcome.result.result = end,
    }
}

/// Drops the output of a creation.
fn drop_output(result: &mut FrameResult) {
    if let FrameResult::Create(outcome) = result {
        outcome.result.output = Bytes::new();
    }
}

/// Changes a call of 0x0c by the system contract into the transfer that it asks for. The contract
/// 0x0c itself then does nothing.
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

/// The creator's nonce; `None` if the creation fails before the address matters.
fn creator_nonce<DB: StorageProbe, I>(
    evm: &mut ChainEvm<DB, I>,
    inputs: &CreateInputs,
) -> Result<Option<u64>, StateError> {
    let journal = &mut evm.ctx.journaled_state;
    let creator = &journal.load_account(inputs.caller())?.data.info;
    let (nonce, lacks_balance) = (creator.nonce, creator.balance < inputs.value());
    let fails = lacks_balance || nonce == u64::MAX || journal.depth() > CALL_STACK_LIMIT as usize;
    Ok((!fails).then_some(nonce))
}

/// The result of a creation at an address that has storage: the creator's nonce grows by 1 and all
/// gas is burned, as at an address with code.
///
/// Returns `None` if the address has no storage, or if revm lets the creation fail for another
/// reason before.
fn storage_collision<DB: StorageProbe, I>(
    evm: &mut ChainEvm<DB, I>,
    inputs: &CreateInputs,
) -> Result<Option<FrameResult>, StateError> {
    let Some(nonce) = creator_nonce(evm, inputs)? else {
        return Ok(None);
    };
    let journal = &mut evm.ctx.journaled_state;
    let address = inputs.created_address(nonce);
    let account = journal.load_account(address)?.data;
    let (created, occupied) = (
        account.is_created(),
        account.info.nonce != 0 || !account.info.is_empty_code_hash(),
    );
    if created || occupied || !journal.database.has_storage(address)? {
        return Ok(None);
    }
    journal.load_account_mut(inputs.caller())?.bump_nonce();
    let mut gas = Gas::new(inputs.gas_limit());
    gas.spend_all();
    let result = InterpreterResult::new(InstructionResult::CreateCollision, Bytes::new(), gas);
    Ok(Some(FrameResult::Create(CreateOutcome::new(result, None))))
}
