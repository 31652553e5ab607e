//! Calls that must end soon: the EVM is watched and given up where it takes too long, so that
//! what is short can be run where nobody may wait.
//!
//! What takes time is counted, and the clock not asked: instructions, gas, bytes hashed, and reads
//! of the store that memory did not answer. So a call takes a fraction of a millisecond, and beside
//! that what so many reads of the disk take where the store has those rows in no cache. Reads are
//! counted when they are done: the last instruction may go beyond by what it reads, at most one
//! account and its code.
//!
//! A call that ends within the bounds has the very result of an unwatched one.

use revm::bytecode::opcode;
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::Jumps;
use revm::interpreter::{
    CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter,
};
use revm::primitives::{Address, U256};
use store::{BlockReads, StateReads};

use crate::evm::EvmContext;
use crate::evm::deadline::{skipped_call, skipped_frame};
use crate::state::BlockState;
use crate::trie::NodeSource;

/// Most instructions.
const STEPS_MAX: u32 = 2000;
/// Most gas that one frame uses.
const GAS_MAX: u64 = 60_000;
/// Most bytes hashed at once.
const HASHED_MAX: u64 = 4096;
/// Most rows read from the store: accounts, slots, codes.
const READS_MAX: u32 = 16;
/// Most bytes of code read from the store; each is hashed.
const CODE_BYTES_MAX: usize = 48 << 10;
/// The last address that a built-in contract can have.
const BUILT_IN_LAST: u64 = 0xff;

/// Gives up what takes too long.
#[derive(Debug, Default)]
pub(crate) struct QuickCallGuard {
    steps: u32,
    limit_reached: bool,
}

impl QuickCallGuard {
    /// The bounds were met: the result means nothing.
    pub(crate) fn limit_reached(&self) -> bool {
        self.limit_reached
    }

    fn stop(&mut self, interpreter: &mut Interpreter<EthInterpreter>) {
        self.limit_reached = true;
        interpreter.halt(InstructionResult::OutOfGas);
    }
}

/// Whether this may be a built-in contract, whose time its gas does not bound tightly enough.
fn is_built_in(address: &Address) -> bool {
    let number = U256::from_be_slice(address.as_slice());
    number <= U256::from(BUILT_IN_LAST)
}

impl<S> Inspector<EvmContext<&mut BlockState<'_, S>>, EthInterpreter> for QuickCallGuard
where
    S: StateReads + BlockReads + NodeSource,
{
    fn step(
        &mut self,
        interpreter: &mut Interpreter<EthInterpreter>,
        context: &mut EvmContext<&mut BlockState<'_, S>>,
    ) {
        self.steps += 1;
        let reads = context.journaled_state.database.source_reads();
        let hashes_much = || {
            let stack = interpreter.stack.data();
            let is_hash = interpreter.bytecode.opcode() == opcode::KECCAK256;
            is_hash && matches!(&stack[..], [.., len, _] if *len > U256::from(HASHED_MAX))
        };
        if self.limit_reached
            || self.steps > STEPS_MAX
            || reads.rows > READS_MAX
            || reads.code_bytes > CODE_BYTES_MAX
            || interpreter.gas.total_gas_spent() > GAS_MAX
            || hashes_much()
        {
            self.stop(interpreter);
        }
    }

    fn call(
        &mut self,
        _: &mut EvmContext<&mut BlockState<'_, S>>,
        inputs: &mut CallInputs,
    ) -> Option<CallOutcome> {
        self.limit_reached |= is_built_in(&inputs.bytecode_address);
        self.limit_reached.then(|| skipped_call(inputs))
    }

    fn create(
        &mut self,
        _: &mut EvmContext<&mut BlockState<'_, S>>,
        inputs: &mut CreateInputs,
    ) -> Option<CreateOutcome> {
        self.limit_reached = true;
        Some(CreateOutcome::new(skipped_frame(inputs.gas_limit()), None))
    }
}
