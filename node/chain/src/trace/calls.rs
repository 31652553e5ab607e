//! Records the tree of a transaction's calls, with their inputs, gas and results.

use std::ops::{Deref, DerefMut};

use primitives::{Address, Bytes, Log, U256};
use revm::context::ContextTr;
use revm::context::result::HaltReason;
use revm::context_interface::CreateScheme;
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::{
    CallInputs, CallOutcome, CallScheme, CreateInputs, CreateOutcome, Gas, InstructionResult, Interpreter,
    SuccessOrHalt,
};

use super::bounds::TraceBounds;
use crate::call::halt_text;
use crate::evm::precompiles::ChainPrecompiles;

/// The parts of calls that are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// Only the transaction's own call, without inner calls.
    pub only_top: bool,
    /// The logs of each call, too.
    pub logs: bool,
    /// The gas of the transaction's own call is that of the call itself, without what every
    /// transaction pays.
    pub own_gas: bool,
}

/// Length of a call's text without input and output, in bytes.
const CALL_BYTES: usize = 300;
/// Length of a log's text without topics and data, in bytes.
const LOG_BYTES: usize = 120;

/// A call, a contract creation or a self-destruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFrame {
    /// The instruction that makes such a call: CALL, STATICCALL, CREATE2 and so on.
    pub kind: &'static str,
    /// The caller, the creator, or the contract that destroys itself.
    pub from: Address,
    /// The called account, the new contract, or the account that gets the balance of a destroyed
    /// contract. `None` if a creation failed.
    pub to: Option<Address>,
    /// The value that the callee sees, in sha. `None` for calls that have no value.
    pub value: Option<U256>,
    /// The gas limit of the call.
    pub gas: u64,
    /// Gas used.
    pub gas_used: u64,
    /// The call's input, or the code that creates the contract.
    pub input: Bytes,
    /// The returned or reverted data, or the code of the new contract.
    pub output: Bytes,
    /// The reason of a failure; `None` after a success.
    pub error: Option<String>,
    /// The inner calls, in order.
    pub calls: InnerCalls,
    /// The logs of the call itself, in order. Those of failed calls are left out.
    pub logs: Vec<CallLog>,
    /// Whether the callee is a precompiled contract.
    pub is_builtin: bool,
}

/// The calls that a call made, in order.
///
/// A stranger decides how deep calls are. So dropping them takes no more stack for deep ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InnerCalls(Vec<CallFrame>);

impl InnerCalls {
    fn push(&mut self, call: CallFrame) {
        self.0.push(call);
    }
}

impl From<Vec<CallFrame>> for InnerCalls {
    fn from(calls: Vec<CallFrame>) -> Self {
        Self(calls)
    }
}

impl Deref for InnerCalls {
    type Target = [CallFrame];

    fn deref(&self) -> &[CallFrame] {
        &self.0
    }
}

impl DerefMut for InnerCalls {
    fn deref_mut(&mut self) -> &mut [CallFrame] {
        &mut self.0
    }
}

impl Drop for InnerCalls {
    fn drop(&mut self) {
        let mut open = std::mem::take(&mut self.0);
        while let Some(mut call) = open.pop() {
            open.append(&mut call.calls.0);
        }
    }
}

/// A log of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallLog {
    /// The log.
    pub log: Log,
    /// The number of inner calls that the call had made before.
    pub position: usize,
}

/// The reason why a call or a step failed; `None` if it succeeded.
pub(super) fn failure_text(result: InstructionResult) -> Option<String> {
    match SuccessOrHalt::<HaltReason>::from(result) {
        SuccessOrHalt::Success(_) => None,
        SuccessOrHalt::Revert => Some("evm: execution reverted".to_owned()),
        SuccessOrHalt::Halt(reason) => Some(halt_text(&reason)),
        SuccessOrHalt::FatalExternalError => Some("the state could not be read".to_owned()),
        SuccessOrHalt::Internal(_) => Some(format!("evm: {result:?}")),
    }
}

/// The inspector that records calls.
pub(super) struct CallTracer<'b> {
    options: CallOptions,
    /// Whether the gas of a failed CALL goes back to the caller, as on the public network.
    refunds: bool,
    builtin: &'b ChainPrecompiles,
    bounds: &'b mut TraceBounds,
    /// The recorded calls that have not ended, outermost first.
    open: Vec<CallFrame>,
    /// Number of calls that have not ended and are not recorded.
    unrecorded: usize,
    top: CallFrame,
}

impl<'b> CallTracer<'b> {
    pub(super) fn new(
        options: CallOptions,
        refunds: bool,
        builtin: &'b ChainPrecompiles,
        bounds: &'b mut TraceBounds,
    ) -> Self {
        Self {
            options,
            refunds,
            builtin,
            bounds,
            open: Vec::new(),
            unrecorded: 0,
            top: CallFrame::default(),
        }
    }

    /// The transaction's own call, and the bounds.
    pub(super) fn finish(self) -> (CallFrame, &'b mut TraceBounds) {
        (self.top, self.bounds)
    }

    fn begin(&mut self, frame: CallFrame) {
        if self.options.only_top && !self.open.is_empty() {
            self.unrecorded += 1;
            return;
        }
        // If this exceeds the size limit, the next step ends the run.
        self.bounds.reserve(
            CALL_BYTES + 2 * frame.input.len(),
            size_of::<CallFrame>() + frame.input.len(),
        );
        self.open.push(frame);
    }

    fn end(&mut self, result: InstructionResult, gas: &Gas, output: &Bytes) {
        if self.unrecorded > 0 {
            self.unrecorded -= 1;
            return;
        }
        let Some(mut frame) = self.open.pop() else { return };
        frame.error = failure_text(result);
        if frame.error.is_some() {
            drop_logs(&mut frame);
        }
        let unused_gas_goes_back = result.is_ok_or_revert() || self.refunds && frame.kind == "CALL";
        frame.gas_used = if unused_gas_goes_back {
            frame.gas.saturating_sub(gas.remaining())
        } else {
            frame.gas
        };
        if result.is_ok_or_revert() {
            self.bounds.reserve(2 * output.len(), output.len());
            frame.output = output.clone();
        }
        match self.open.last_mut() {
            Some(parent) => parent.calls.push(frame),
            None => self.top = frame,
        }
    }
}

/// Removes the logs of a failed call and of the calls that it made. Inner calls that failed have
/// lost theirs already.
fn drop_logs(frame: &mut CallFrame) {
    let mut open = vec![frame];
    while let Some(frame) = open.pop() {
        frame.logs.clear();
        open.extend(frame.calls.iter_mut().filter(|call| call.error.is_none()));
    }
}

impl CallTracer<'_> {
    /// Records a log of the current call.
    pub(super) fn log(&mut self, log: Log) {
        if !self.options.logs || self.unrecorded > 0 {
            return;
        }
        let Some(frame) = self.open.last_mut() else { return };
        let text = LOG_BYTES + 70 * log.topics.len() + 2 * log.data.len();
        if self.bounds.reserve(text, size_of::<CallLog>() + text) {
            let position = frame.calls.len();
            frame.logs.push(CallLog { log, position });
        }
    }
}

impl<C: ContextTr> Inspector<C, EthInterpreter> for CallTracer<'_> {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        if !self.bounds.step() {
            interpreter.halt(InstructionResult::OutOfGas);
        }
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        let (kind, from, to) = match inputs.scheme {
            CallScheme::Call => ("CALL", inputs.caller, inputs.target_address),
            CallScheme::StaticCall => ("STATICCALL", inputs.caller, inputs.target_address),
            // Both kinds run the code of another account in the account `target_address`.
            CallScheme::CallCode => ("CALLCODE", inputs.target_address, inputs.bytecode_address),
            CallScheme::DelegateCall => ("DELEGATECALL", inputs.target_address, inputs.bytecode_address),
        };
        self.begin(CallFrame {
            kind,
            from,
            to: Some(to),
            value: (inputs.scheme != CallScheme::StaticCall).then(|| inputs.call_value()),
            gas: inputs.gas_limit,
            input: inputs.input.bytes(context),
            is_builtin: self.builtin.has(&inputs.bytecode_address),
            ..CallFrame::default()
        });
        None
    }

    fn call_end(&mut self, _: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        self.end(outcome.result.result, &outcome.result.gas, &outcome.result.output);
    }

    fn create(&mut self, _: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.begin(CallFrame {
            kind: match inputs.scheme() {
                CreateScheme::Create2 { .. } => "CREATE2",
                _ => "CREATE",
            },
            from: inputs.caller(),
            value: Some(inputs.value()),
            gas: inputs.gas_limit(),
            input: inputs.init_code().clone(),
            ..CallFrame::default()
        });
        None
    }

    fn create_end(&mut self, _: &mut C, _: &CreateInputs, outcome: &mut CreateOutcome) {
        if self.unrecorded == 0
            && let Some(frame) = self.open.last_mut()
        {
            frame.to = outcome.address.filter(|_| outcome.result.result.is_ok());
        }
        self.end(outcome.result.result, &outcome.result.gas, &outcome.result.output);
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        if self.options.only_top {
            return;
        }
        self.bounds.reserve(CALL_BYTES, size_of::<CallFrame>());
        if let Some(parent) = self.open.last_mut() {
            parent.calls.push(CallFrame {
                kind: "SELFDESTRUCT",
                from: contract,
                to: Some(target),
                value: Some(value),
                ..CallFrame::default()
            });
        }
    }
}
