//! Calls that must end soon: the EVM is watched and given up where it takes too long, so that
//! what is short can be run where nobody may wait.
//!
//! A call that ends within the bounds has the very result of an unwatched one.

use revm::bytecode::opcode;
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::Jumps;
use revm::interpreter::{
    CallInputs, CallOutcome, CreateInputs, CreateOutcome, Gas, InstructionResult, Interpreter,
    InterpreterResult,
};
use revm::primitives::{Address, Bytes, U256};

/// Most instructions.
const STEPS_MAX: u32 = 2000;
/// Most gas that one frame uses; reads of storage cost at least 200, in all rules.
const GAS_MAX: u64 = 60_000;
/// Most bytes hashed at once.
const HASHED_MAX: u64 = 4096;
/// The last address that a built-in contract can have.
const BUILT_IN_LAST: u64 = 0xff;

/// Gives up what takes too long.
#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    steps: u32,
    given_up: bool,
}

impl Watchdog {
    /// The bounds were met: the result means nothing.
    pub(crate) fn has_given_up(&self) -> bool {
        self.given_up
    }

    fn give_up(&mut self, interpreter: &mut Interpreter<EthInterpreter>) {
        self.given_up = true;
        interpreter.halt(InstructionResult::OutOfGas);
    }

    /// What a frame gives that is not run.
    fn nothing(&mut self, gas: u64) -> InterpreterResult {
        self.given_up = true;
        InterpreterResult::new(InstructionResult::OutOfGas, Bytes::new(), Gas::new(gas))
    }
}

/// Whether this may be a built-in contract, whose time its gas does not bound tightly enough.
fn is_built_in(address: &Address) -> bool {
    let number = U256::from_be_slice(address.as_slice());
    number <= U256::from(BUILT_IN_LAST)
}

impl<C> Inspector<C, EthInterpreter> for Watchdog {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        self.steps += 1;
        let hashes_much = || {
            let stack = interpreter.stack.data();
            let is_hash = interpreter.bytecode.opcode() == opcode::KECCAK256;
            is_hash && matches!(&stack[..], [.., len, _] if *len > U256::from(HASHED_MAX))
        };
        if self.given_up
            || self.steps > STEPS_MAX
            || interpreter.gas.total_gas_spent() > GAS_MAX
            || hashes_much()
        {
            self.give_up(interpreter);
        }
    }

    fn call(&mut self, _: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        let gives_up = self.given_up || is_built_in(&inputs.bytecode_address);
        gives_up.then(|| {
            CallOutcome::new(
                self.nothing(inputs.gas_limit),
                inputs.return_memory_offset.clone(),
            )
        })
    }

    fn create(&mut self, _: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        Some(CreateOutcome::new(self.nothing(inputs.gas_limit()), None))
    }
}
