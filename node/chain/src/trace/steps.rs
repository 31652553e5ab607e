//! Records every step of the interpreter: program counter, opcode, gas, stack, memory, storage.

use std::collections::{BTreeMap, HashMap};

use primitives::{Address, Bytes, U256};
use revm::bytecode::opcode::{self, OpCode};
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::{InputsTr, Jumps, LoopControl, MemoryTr};
use revm::interpreter::{FrameInput, InstructionResult, Interpreter, InterpreterAction};

use super::bounds::TraceBounds;
use super::calls::failure_text;

/// Length of a step's text without stack, memory and storage, in bytes.
const STEP_BYTES: usize = 100;
/// Length of a word's text, in bytes.
const WORD_BYTES: usize = 67;
/// Bytes of a slot with its value in a map.
const SLOT_MEMORY: usize = 100;

/// The parts of each step that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepOptions {
    /// Record the stack.
    pub stack: bool,
    /// Record the memory.
    pub memory: bool,
    /// Record, at each SLOAD and SSTORE, the slots that the contract has read and written so far.
    pub storage: bool,
    /// The most steps to record; `None` records all.
    pub limit: Option<usize>,
}

/// The steps of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepTrace {
    /// Gas used, after refunds.
    pub gas: u64,
    /// Whether the transaction failed.
    pub failed: bool,
    /// The returned or reverted data, or the code of the new contract.
    pub return_value: Bytes,
    /// The steps, in order.
    pub steps: Vec<TraceStep>,
}

/// One step. Gas, stack and memory are the values before the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// The program counter: the instruction's index in the code.
    pub pc: usize,
    /// The instruction.
    pub opcode: u8,
    /// The remaining gas of the call.
    pub gas: u64,
    /// The gas that the step used. The gas passed to a call is included, the gas passed to a
    /// creation is not, as in geth. If the step failed for want of gas, what it used of the rest.
    pub gas_cost: u64,
    /// The call depth; 1 in the transaction's own call.
    pub depth: usize,
    /// The reason of a failure of the step; `None` after a success.
    pub error: Option<String>,
    /// The stack, its top last. `None` if it was not requested.
    pub stack: Option<Vec<U256>>,
    /// The memory. `None` if it was not requested.
    pub memory: Option<Vec<u8>>,
    /// The contract's slots. `None` if they were not requested, or the step does not use storage.
    pub storage: Option<BTreeMap<U256, U256>>,
}

impl TraceStep {
    /// The instruction's name; `None` if the opcode is not defined.
    pub fn name(&self) -> Option<&'static str> {
        OpCode::new(self.opcode).map(|opcode| opcode.as_str())
    }
}

/// The inspector that records steps.
pub(super) struct StepTracer<'b> {
    options: StepOptions,
    bounds: &'b mut TraceBounds,
    steps: Vec<TraceStep>,
    /// For each contract, the slots that it has read and written.
    slots: HashMap<Address, BTreeMap<U256, U256>>,
    /// The storage access of the current step; `None` if the current step is not recorded.
    open: Option<StorageAccess>,
}

/// The use of storage by a step.
enum StorageAccess {
    None,
    /// Reads this slot.
    Read(U256),
    /// Writes a value to a slot.
    Write {
        slot: U256,
        value: U256,
    },
}

impl<'b> StepTracer<'b> {
    pub(super) fn new(options: StepOptions, bounds: &'b mut TraceBounds) -> Self {
        Self {
            options,
            bounds,
            steps: Vec::new(),
            slots: HashMap::new(),
            open: None,
        }
    }

    pub(super) fn into_steps(self) -> Vec<TraceStep> {
        self.steps
    }

    /// Records the current step. Returns `false` if the size limit is exceeded.
    fn record(&mut self, interpreter: &Interpreter<EthInterpreter>) -> bool {
        let stack = interpreter.stack.data();
        let size = interpreter.memory.size();
        let words = if self.options.stack { stack.len() } else { 0 }
            + if self.options.memory { size.div_ceil(32) } else { 0 };
        let memory = size_of::<TraceStep>() + 32 * words;
        if !self.bounds.reserve(STEP_BYTES + words * WORD_BYTES, memory) {
            return false;
        }
        self.steps.push(TraceStep {
            pc: interpreter.bytecode.pc(),
            opcode: interpreter.bytecode.opcode(),
            gas: interpreter.gas.remaining(),
            gas_cost: 0,
            depth: interpreter.input.depth() + 1,
            error: None,
            stack: self.options.stack.then(|| stack.clone()),
            memory: self
                .options
                .memory
                .then(|| interpreter.memory.slice(0..size).to_vec()),
            storage: None,
        });
        true
    }

    /// Sets a slot of `contract`, and adds the contract's slots to the last step.
    fn record_slot(&mut self, contract: Address, slot: U256, value: U256) {
        let slots = self.slots.entry(contract).or_default();
        slots.insert(slot, value);
        if let Some(step) = self.steps.last_mut()
            && self
                .bounds
                .reserve(2 * WORD_BYTES * slots.len(), SLOT_MEMORY * slots.len())
        {
            step.storage = Some(slots.clone());
        }
    }
}

impl<C> Inspector<C, EthInterpreter> for StepTracer<'_> {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        self.open = None;
        if !self.bounds.step() {
            return interpreter.halt(InstructionResult::OutOfGas);
        }
        if self.options.limit.is_some_and(|limit| self.steps.len() >= limit) {
            return;
        }
        if !self.record(interpreter) {
            return interpreter.halt(InstructionResult::OutOfGas);
        }
        let access = match (interpreter.bytecode.opcode(), &interpreter.stack.data()[..]) {
            _ if !self.options.storage => StorageAccess::None,
            (opcode::SLOAD, [.., slot]) => StorageAccess::Read(*slot),
            (opcode::SSTORE, [.., value, slot]) => StorageAccess::Write {
                slot: *slot,
                value: *value,
            },
            _ => StorageAccess::None,
        };
        self.open = Some(access);
    }

    fn step_end(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        let Some(access) = self.open.take() else { return };
        let (failure, created_with) = match interpreter.bytecode.action() {
            // REVERT ends the call, but the step itself succeeds.
            Some(InterpreterAction::Return(result)) if result.result == InstructionResult::Revert => {
                (None, 0)
            }
            Some(InterpreterAction::Return(result)) => (failure_text(result.result), 0),
            Some(InterpreterAction::NewFrame(FrameInput::Create(inputs))) => (None, inputs.gas_limit()),
            _ => (None, 0),
        };
        let Some(step) = self.steps.last_mut() else { return };
        step.gas_cost = step
            .gas
            .saturating_sub(interpreter.gas.remaining() + created_with);
        step.error = failure;
        let contract = interpreter.input.target_address();
        match (access, interpreter.stack.data().last()) {
            (StorageAccess::Read(slot), Some(value)) if step.error.is_none() => {
                self.record_slot(contract, slot, *value);
            }
            (StorageAccess::Write { slot, value }, _) => self.record_slot(contract, slot, value),
            _ => {}
        }
    }
}
