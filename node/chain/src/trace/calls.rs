//! The tree of a transaction's calls: who called whom with what, and what came of it.

use primitives::{Address, Bytes, U256};
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

/// Bytes of a call's text without input and output.
const CALL_BYTES: usize = 300;

/// A call, a creation or a self-destruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFrame {
    /// The instruction that would make it: CALL, STATICCALL, CREATE2 and so on.
    pub kind: &'static str,
    /// Who calls, creates or ends.
    pub from: Address,
    /// Who is called, what is created, or who inherits; `None` where nothing was created.
    pub to: Option<Address>,
    /// Value that the callee sees; `None` where a call cannot have one.
    pub value: Option<U256>,
    /// Gas given.
    pub gas: u64,
    /// Gas used.
    pub gas_used: u64,
    /// Data, or the code that creates.
    pub input: Bytes,
    /// What was returned or given as reason; the code of a new contract.
    pub output: Bytes,
    /// Why it failed, where it did.
    pub error: Option<String>,
    /// The calls within, in order.
    pub calls: Vec<Self>,
}

/// Why a call or a step did not succeed; `None` where it did.
pub(super) fn failure_text(result: InstructionResult) -> Option<String> {
    match SuccessOrHalt::<HaltReason>::from(result) {
        SuccessOrHalt::Success(_) => None,
        SuccessOrHalt::Revert => Some("evm: execution reverted".to_owned()),
        SuccessOrHalt::Halt(reason) => Some(halt_text(&reason)),
        SuccessOrHalt::FatalExternalError => Some("the state could not be read".to_owned()),
        SuccessOrHalt::Internal(_) => Some(format!("evm: {result:?}")),
    }
}

/// Records calls.
pub(super) struct CallTracer<'b> {
    only_top: bool,
    /// Whether the network gives a failed CALL's gas back, where other calls burn it.
    refunds: bool,
    bounds: &'b mut TraceBounds,
    /// The calls under way, outermost first.
    open: Vec<CallFrame>,
    /// Calls under way that are not recorded.
    hidden: usize,
    top: CallFrame,
}

impl<'b> CallTracer<'b> {
    pub(super) fn new(only_top: bool, refunds: bool, bounds: &'b mut TraceBounds) -> Self {
        Self {
            only_top,
            refunds,
            bounds,
            open: Vec::new(),
            hidden: 0,
            top: CallFrame::default(),
        }
    }

    /// The transaction's own call.
    pub(super) fn into_top(self) -> CallFrame {
        self.top
    }

    fn begin(&mut self, frame: CallFrame) {
        if self.only_top && !self.open.is_empty() {
            self.hidden += 1;
            return;
        }
        // Without room the next step ends the run.
        self.bounds.take(CALL_BYTES + 2 * frame.input.len());
        self.open.push(frame);
    }

    fn end(&mut self, result: InstructionResult, gas: &Gas, output: &Bytes) {
        if self.hidden > 0 {
            self.hidden -= 1;
            return;
        }
        let Some(mut frame) = self.open.pop() else { return };
        frame.error = failure_text(result);
        let keeps = result.is_ok_or_revert() || self.refunds && frame.kind == "CALL";
        frame.gas_used = if keeps {
            frame.gas.saturating_sub(gas.remaining())
        } else {
            frame.gas
        };
        if result.is_ok_or_revert() {
            self.bounds.take(2 * output.len());
            frame.output = output.clone();
        }
        match self.open.last_mut() {
            Some(parent) => parent.calls.push(frame),
            None => self.top = frame,
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
            // These run another's code as their own.
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
        if self.hidden == 0
            && let Some(frame) = self.open.last_mut()
        {
            frame.to = outcome.address.filter(|_| outcome.result.result.is_ok());
        }
        self.end(outcome.result.result, &outcome.result.gas, &outcome.result.output);
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        if self.only_top {
            return;
        }
        self.bounds.take(CALL_BYTES);
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
