//! Hands on the steps of a transaction while it runs, for traces that no memory would hold.

use primitives::{Address, Bytes, Transaction, U256};
use revm::bytecode::opcode::OpCode;
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::{InputsTr, Jumps, LoopControl, MemoryTr, ReturnData};
use revm::interpreter::{
    CallInputs, CallOutcome, CreateInputs, CreateOutcome, FrameInput, InstructionResult, Interpreter,
    InterpreterAction, InterpreterResult,
};

use super::calls::failure_text;
use crate::evm::chain_evm;
use crate::evm::execute::{Executor, TransactionError, TransactionOutcome};
use crate::evm::handler::inspect;

/// The parts of each step that are handed on besides its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// The stack.
    pub stack: bool,
    /// The memory.
    pub memory: bool,
    /// The result of the last inner call.
    pub return_data: bool,
}

/// One step. All values but the cost, the refund and the error are those before the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamedStep {
    /// The program counter.
    pub pc: usize,
    /// The instruction.
    pub opcode: u8,
    /// The remaining gas of the call.
    pub gas: u64,
    /// The gas of the step. The gas passed to a call is included, the gas passed to a creation is
    /// not, as in geth.
    pub gas_cost: u64,
    /// The call depth; 1 in the transaction's own call.
    pub depth: usize,
    /// The refunds of the transaction so far, that of the step included.
    pub refund: i64,
    /// The size of the memory, in bytes.
    pub memory_size: usize,
    /// The stack, its top last.
    pub stack: Option<Vec<U256>>,
    /// The memory.
    pub memory: Option<Vec<u8>>,
    /// The result of the last inner call.
    pub return_data: Option<Bytes>,
    /// The reason of a failure of the step.
    pub error: Option<String>,
}

impl StreamedStep {
    /// The instruction's name; `None` if the opcode is not defined.
    pub fn name(&self) -> Option<&'static str> {
        OpCode::new(self.opcode).map(|opcode| opcode.as_str())
    }
}

/// The end of a transaction's own call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEnd {
    /// Its result: data, the reason of a revert, or the code of a new contract.
    pub output: Bytes,
    /// Its gas, without what every transaction pays, and before refunds.
    pub gas_used: u64,
    /// The reason of its failure.
    pub error: Option<String>,
}

/// Takes the steps of a transaction, and its end.
pub trait StepSink {
    /// Takes the next step.
    fn step(&mut self, step: StreamedStep);
    /// Takes the end, which comes once.
    fn end(&mut self, end: StreamEnd);
}

/// Runs the next transaction of a block, as [`Executor::transaction`] does, and gives each step to
/// `sink`.
///
/// # Errors
/// As [`Executor::transaction`].
pub fn stream_transaction(
    executor: &mut Executor<'_, '_>,
    transaction: &Transaction,
    sender: Address,
    options: StreamOptions,
    sink: &mut dyn StepSink,
) -> Result<TransactionOutcome, TransactionError> {
    executor.transaction_by(transaction, sender, |evm, spec, env| {
        let block = evm.ctx.block.clone();
        let tracer = StreamTracer {
            options,
            sink,
            open: None,
            frames: 0,
            refunds: Vec::new(),
        };
        let state = &mut *evm.ctx.journaled_state.database;
        let mut traced = chain_evm(state, spec, block, |_| ()).with_inspector(tracer);
        inspect(&mut traced, spec, env)
    })
}

struct StreamTracer<'k> {
    options: StreamOptions,
    sink: &'k mut dyn StepSink,
    /// The current step, until its cost is known.
    open: Option<StreamedStep>,
    /// Calls and creations that have not ended.
    frames: usize,
    /// The refunds of each frame, outermost first.
    refunds: Vec<i64>,
}

impl StreamTracer<'_> {
    fn end(&mut self, result: &InterpreterResult) {
        self.frames = self.frames.saturating_sub(1);
        if self.frames == 0 {
            self.sink.end(StreamEnd {
                output: result.output.clone(),
                // A failure takes all gas.
                gas_used: if result.result.is_halt() {
                    result.gas.limit()
                } else {
                    result.gas.total_gas_spent()
                },
                error: failure_text(result.result),
            });
        }
    }
}

impl<C> Inspector<C, EthInterpreter> for StreamTracer<'_> {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        let depth = interpreter.input.depth() + 1;
        self.refunds.resize(depth, 0);
        let size = interpreter.memory.size();
        let StreamOptions {
            stack,
            memory,
            return_data,
        } = self.options;
        self.open = Some(StreamedStep {
            pc: interpreter.bytecode.pc(),
            opcode: interpreter.bytecode.opcode(),
            gas: interpreter.gas.remaining(),
            gas_cost: 0,
            depth,
            refund: 0,
            memory_size: size,
            stack: stack.then(|| interpreter.stack.data().clone()),
            memory: memory.then(|| interpreter.memory.slice(0..size).to_vec()),
            return_data: return_data.then(|| interpreter.return_data.buffer().clone()),
            error: None,
        });
    }

    fn step_end(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        let Some(mut step) = self.open.take() else { return };
        let created_with = match interpreter.bytecode.action() {
            Some(InterpreterAction::Return(result)) => {
                // REVERT ends the call, but the step itself succeeds.
                if result.result != InstructionResult::Revert {
                    step.error = failure_text(result.result);
                }
                0
            }
            Some(InterpreterAction::NewFrame(FrameInput::Create(inputs))) => inputs.gas_limit(),
            _ => 0,
        };
        // The price of a step and its refund belong together, as in geth.
        if let Some(own) = self.refunds.last_mut() {
            *own = interpreter.gas.refunded();
        }
        step.refund = self.refunds.iter().sum();
        let left = interpreter.gas.remaining() + created_with;
        step.gas_cost = step.gas.saturating_sub(left);
        self.sink.step(step);
    }

    fn call(&mut self, _: &mut C, _: &mut CallInputs) -> Option<CallOutcome> {
        self.frames += 1;
        None
    }

    fn call_end(&mut self, _: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        self.end(&outcome.result);
    }

    fn create(&mut self, _: &mut C, _: &mut CreateInputs) -> Option<CreateOutcome> {
        self.frames += 1;
        None
    }

    fn create_end(&mut self, _: &mut C, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.end(&outcome.result);
    }
}
