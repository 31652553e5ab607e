//! Every step of the interpreter: counter, opcode, gas, stack, memory, storage.

use std::collections::{BTreeMap, HashMap};

use primitives::{Address, Bytes, U256};
use revm::bytecode::opcode::{self, OpCode};
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::{InputsTr, Jumps, LoopControl, MemoryTr};
use revm::interpreter::{InstructionResult, Interpreter, InterpreterAction};

use super::bounds::TraceBounds;
use super::calls::failure_text;

/// Bytes of a step's text without stack, memory and storage.
const STEP_BYTES: usize = 100;
/// Bytes of a word's text.
const WORD_BYTES: usize = 67;

/// What is recorded of each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepOptions {
    /// The stack.
    pub stack: bool,
    /// The memory.
    pub memory: bool,
    /// The slots that the contract has read and written so far, at each of its reads and writes.
    pub storage: bool,
    /// Record so many steps at most; `None`: all.
    pub limit: Option<usize>,
}

/// All of a transaction's steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepTrace {
    /// Gas used, after refunds.
    pub gas: u64,
    /// It did not succeed.
    pub failed: bool,
    /// What it returned, or gave as reason; the code that a creation made.
    pub return_value: Bytes,
    /// The steps, in order.
    pub steps: Vec<TraceStep>,
}

/// One step, as things were before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// Place in the code.
    pub pc: usize,
    /// The instruction.
    pub opcode: u8,
    /// Gas left in the call.
    pub gas: u64,
    /// Gas that the step took, with what it gave to a call.
    pub gas_cost: u64,
    /// 1 in the transaction's own call.
    pub depth: usize,
    /// Why the step failed, where it did.
    pub error: Option<String>,
    /// The stack, its top last.
    pub stack: Option<Vec<U256>>,
    /// The memory.
    pub memory: Option<Vec<u8>>,
    /// The slots.
    pub storage: Option<BTreeMap<U256, U256>>,
}

impl TraceStep {
    /// The instruction's name; `None` where there is no such instruction.
    pub fn name(&self) -> Option<&'static str> {
        OpCode::new(self.opcode).map(|opcode| opcode.as_str())
    }
}

/// Records steps.
pub(super) struct StepTracer<'b> {
    options: StepOptions,
    bounds: &'b mut TraceBounds,
    steps: Vec<TraceStep>,
    slots: HashMap<Address, BTreeMap<U256, U256>>,
    /// What the last one recorded does to storage, while it is under way.
    open: Option<StorageAccess>,
}

/// What a step does to storage.
enum StorageAccess {
    None,
    Read(U256),
    Write(U256, U256),
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

    fn record(&mut self, interpreter: &Interpreter<EthInterpreter>) -> bool {
        let stack = interpreter.stack.data();
        let size = interpreter.memory.size();
        let words = if self.options.stack { stack.len() } else { 0 }
            + if self.options.memory { size.div_ceil(32) } else { 0 };
        if !self.bounds.take(STEP_BYTES + words * WORD_BYTES) {
            return false;
        }
        self.steps.push(TraceStep {
            pc: interpreter.bytecode.pc(),
            opcode: interpreter.bytecode.opcode(),
            gas: interpreter.gas.remaining(),
            gas_cost: 0,
            depth: interpreter.input.depth() + 1,
            error: None,
            stack: self.options.stack.then(|| stack.to_vec()),
            memory: self
                .options
                .memory
                .then(|| interpreter.memory.slice(0..size).to_vec()),
            storage: None,
        });
        true
    }

    /// Shows, with the last step, the slots of its contract after `slot` became `value`.
    fn note_slot(&mut self, contract: Address, slot: U256, value: U256) {
        let slots = self.slots.entry(contract).or_default();
        slots.insert(slot, value);
        if let Some(step) = self.steps.last_mut()
            && self.bounds.take(2 * WORD_BYTES * slots.len())
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
            (opcode::SSTORE, [.., value, slot]) => StorageAccess::Write(*slot, *value),
            _ => StorageAccess::None,
        };
        self.open = Some(access);
    }

    fn step_end(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        let Some(access) = self.open.take() else { return };
        let failure = match interpreter.bytecode.action() {
            Some(InterpreterAction::Return(result)) => failure_text(result.result),
            _ => None,
        };
        let Some(step) = self.steps.last_mut() else { return };
        step.gas_cost = step.gas.saturating_sub(interpreter.gas.remaining());
        // A revert is the contract's own wish, no failure of the step.
        step.error = failure.filter(|_| step.opcode != opcode::REVERT);
        let contract = interpreter.input.target_address();
        match (access, interpreter.stack.data().last()) {
            (StorageAccess::Read(slot), Some(value)) if step.error.is_none() => {
                self.note_slot(contract, slot, *value);
            }
            (StorageAccess::Write(slot, value), _) => self.note_slot(contract, slot, value),
            _ => {}
        }
    }
}
