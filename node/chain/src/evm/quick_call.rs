//! Stops calls that take long, so that short calls can run on a thread that must not block.
//!
//! [`QuickCallGuard`] counts instructions, gas, hashed and returned bytes, and rows read from the
//! store. It does not read the clock. Within the limits a call takes a fraction of a millisecond,
//! plus the time of the disk reads for rows that are in no cache. A read is counted after it is
//! done, and so is an output. So the last instruction may exceed the limits by one account and its
//! code, or by the memory that its gas pays for.
//!
//! A call that ends within the limits has the same result as one without a guard.

use revm::bytecode::opcode;
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::Jumps;
use revm::interpreter::{
    CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter,
};
use revm::primitives::{Address, U256};

use crate::evm::EvmContext;
use crate::evm::deadline::{skipped_call, skipped_frame};
use crate::state::BlockState;

/// The most instructions.
const STEPS_MAX: u32 = 2000;
/// The most gas that one frame uses.
const GAS_MAX: u64 = 60_000;
/// The most bytes that one KECCAK256 instruction hashes.
const HASHED_BYTES_MAX: u64 = 4096;
/// The most rows read from the store: accounts, slots, codes, block hashes.
const READ_ROWS_MAX: u32 = 16;
/// The most bytes of contract code read from the store. revm hashes and analyses every byte.
const CODE_BYTES_MAX: usize = 48 << 10;
/// The most bytes that a frame returns. They are written as digits afterwards.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// Precompiled contracts have addresses up to this one.
const PRECOMPILE_ADDRESS_MAX: u64 = 0xff;

/// Stops a call that reaches one of the limits.
#[derive(Debug, Default)]
pub(crate) struct QuickCallGuard {
    steps: u32,
    limit_reached: bool,
}

impl QuickCallGuard {
    /// Whether the call was stopped. Then its result is meaningless.
    pub(crate) const fn limit_reached(&self) -> bool {
        self.limit_reached
    }

    fn stop(&mut self, interpreter: &mut Interpreter<EthInterpreter>) {
        self.limit_reached = true;
        interpreter.halt(InstructionResult::OutOfGas);
    }
}

/// Whether this address may have a precompiled contract. Their gas does not limit their time
/// tightly enough, so calls of them are stopped.
fn may_be_precompile(address: &Address) -> bool {
    let number = U256::from_be_slice(address.as_slice());
    number <= U256::from(PRECOMPILE_ADDRESS_MAX)
}

impl Inspector<EvmContext<&mut BlockState<'_>>, EthInterpreter> for QuickCallGuard {
    fn step(
        &mut self,
        interpreter: &mut Interpreter<EthInterpreter>,
        context: &mut EvmContext<&mut BlockState<'_>>,
    ) {
        self.steps += 1;
        let reads = context.journaled_state.database.source_reads();
        let hashes_much = || {
            let stack = interpreter.stack.data();
            let is_hash = interpreter.bytecode.opcode() == opcode::KECCAK256;
            is_hash && matches!(&stack[..], [.., len, _] if *len > U256::from(HASHED_BYTES_MAX))
        };
        if self.limit_reached
            || self.steps > STEPS_MAX
            || reads.rows > READ_ROWS_MAX
            || reads.code_bytes > CODE_BYTES_MAX
            || interpreter.gas.total_gas_spent() > GAS_MAX
            || hashes_much()
        {
            self.stop(interpreter);
        }
    }

    fn call(
        &mut self,
        _: &mut EvmContext<&mut BlockState<'_>>,
        inputs: &mut CallInputs,
    ) -> Option<CallOutcome> {
        self.limit_reached |= may_be_precompile(&inputs.bytecode_address);
        self.limit_reached.then(|| skipped_call(inputs))
    }

    /// The last instruction of a frame has no step after it, and may return megabytes.
    fn call_end(
        &mut self,
        _: &mut EvmContext<&mut BlockState<'_>>,
        _: &CallInputs,
        outcome: &mut CallOutcome,
    ) {
        self.limit_reached |= outcome.result.output.len() > OUTPUT_BYTES_MAX;
    }

    fn create(
        &mut self,
        _: &mut EvmContext<&mut BlockState<'_>>,
        inputs: &mut CreateInputs,
    ) -> Option<CreateOutcome> {
        self.limit_reached = true;
        Some(CreateOutcome::new(skipped_frame(inputs.gas_limit()), None))
    }
}
