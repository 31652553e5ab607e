//! CREATE2 of the public network: a flat 32,000 gas, for memory and for the hash of the code, too.
//!
//! A block may so make a node hash as many bytes as memory has. What is done about it:
//!
//! - Code that one of the last creations ran as well is neither hashed nor analysed again.
//! - Other code is hashed with the fastest instructions for one input, while revm analyses it.
//! - Runs that do not decide whether a block is valid (blocks made here, calls) expand memory to at
//!   most [`OUR_MEMORY_BYTES_MAX`]. Blocks of others have the bound [`BLOCK_MEMORY_BYTES_MAX`].
//!
//! Chains whose spec prices CREATE2 by EIP-1014 use revm's instruction. Source:
//! docs/base-chain.md, 4; docs/differences.md, 1.

use ethash::keccak256_long;
use primitives::{B256, Bytes};
use revm::Database;
use revm::bytecode::Bytecode;
use revm::context_interface::context::ContextError;
use revm::context_interface::{CreateScheme, Host};
use revm::interpreter::interpreter_types::{InputsTr, LoopControl, MemoryTr, RuntimeFlag, StackTr};
use revm::interpreter::{
    CreateInputs, FrameInput, InstructionContext, InstructionExecResult, InstructionResult,
    InterpreterAction, InterpreterTypes,
};

use super::EvmContext;
use crate::parallel::in_two_threads;

/// Memory of all open frames together, in bytes, beyond which CREATE2 fails in a block. The open
/// frames may hold twice as much code, so a transaction needs at most 1 GiB.
const BLOCK_MEMORY_BYTES_MAX: usize = 256 << 20;
/// Memory of a frame, in bytes, to which CREATE2 expands memory in blocks made here and in calls.
const OUR_MEMORY_BYTES_MAX: usize = 1 << 20;

/// The number of codes that are remembered. A code that is new is compared with each of them.
const CODES_MAX: usize = 2;
/// Longer codes are not remembered.
const CODE_BYTES_MAX: usize = 4 << 20;

/// Shorter code is hashed and analysed on one thread.
const TWO_THREADS_BYTES_MIN: usize = 64 << 10;

/// The facts that CREATE2 keeps beside revm's context.
#[derive(Clone, Debug, Default)]
pub(crate) struct Create2Context {
    /// Whether to end a transaction with an error if it expands memory beyond
    /// [`OUR_MEMORY_BYTES_MAX`]. Its outcome is not known then.
    pub(crate) refuses_large_memory: bool,
    codes: InitCodes,
}

impl Create2Context {
    /// The hash of the code, and the code as it runs.
    pub(super) fn init_code(&mut self, code: &Bytes) -> (B256, Bytecode) {
        self.codes.get(code)
    }
}

/// The codes of the last creations.
#[derive(Clone, Debug, Default)]
struct InitCodes {
    /// The latest is the last one.
    known: Vec<InitCode>,
}

#[derive(Clone, Debug)]
struct InitCode {
    code: Bytes,
    hash: B256,
    bytecode: Bytecode,
}

impl InitCodes {
    fn get(&mut self, code: &Bytes) -> (B256, Bytecode) {
        if let Some(index) = self.known.iter().rposition(|known| known.code == *code) {
            let known = self.known.remove(index);
            self.known.push(known.clone());
            return (known.hash, known.bytecode);
        }
        let hash = || B256::from(keccak256_long(code));
        let analyse = || Bytecode::new_legacy(code.clone());
        let (bytecode, hash) = if code.len() < TWO_THREADS_BYTES_MIN {
            (analyse(), hash())
        } else {
            in_two_threads(analyse, hash)
        };
        if code.len() <= CODE_BYTES_MAX {
            if self.known.len() == CODES_MAX {
                self.known.remove(0);
            }
            self.known.push(InitCode {
                code: code.clone(),
                hash,
                bytecode: bytecode.clone(),
            });
        }
        (hash, bytecode)
    }
}

/// CREATE2 for a flat 32,000 gas. Neither memory nor the hash of the code is charged.
pub(super) fn create2<IT: InterpreterTypes, DB: Database>(
    context: InstructionContext<'_, EvmContext<DB>, IT>,
) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = context;
    if interpreter.runtime_flag.is_static() {
        return Err(InstructionResult::StateChangeDuringStaticCall);
    }
    let Some([value, offset, length, salt]) = interpreter.stack.popn() else {
        return Err(InstructionResult::StackUnderflow);
    };
    if !interpreter
        .gas
        .record_regular_cost(host.gas_params().create_cost())
    {
        return Err(InstructionResult::OutOfGas);
    }
    let mut code = Bytes::new();
    if !length.is_zero() {
        let (Ok(offset), Ok(length)) = (usize::try_from(offset), usize::try_from(length)) else {
            return Err(InstructionResult::InvalidOperandOOG);
        };
        let end = offset
            .checked_add(length)
            .filter(|end| *end <= BLOCK_MEMORY_BYTES_MAX)
            .ok_or(InstructionResult::MemoryLimitOOG)?;
        if end > interpreter.memory.size() {
            check_memory(host, interpreter.memory.local_memory_offset(), end)?;
            let words = end.div_ceil(32);
            interpreter.memory.resize(words * 32);
            // The memory was not charged. A later instruction that needs more is charged for the
            // growth beyond this size only.
            interpreter.gas.memory_mut().words_num = words;
        }
        code = Bytes::copy_from_slice(interpreter.memory.slice_len(offset, length).as_ref());
    }
    let own = interpreter.input.target_address();
    let gas = host
        .gas_params()
        .call_stipend_reduction(interpreter.gas.remaining());
    if !interpreter.gas.record_regular_cost(gas) {
        return Err(InstructionResult::OutOfGas);
    }
    let reservoir = interpreter.gas.reservoir();
    let inputs = CreateInputs::new(own, CreateScheme::Create2 { salt }, value, code, gas, reservoir);
    interpreter
        .bytecode
        .set_action(InterpreterAction::NewFrame(FrameInput::Create(Box::new(inputs))));
    Err(InstructionResult::Suspend)
}

/// Checks that the memory of a frame may be expanded to `end` bytes. The frames below it have
/// `below` bytes.
fn check_memory<DB: Database>(
    host: &mut EvmContext<DB>,
    below: usize,
    end: usize,
) -> Result<(), InstructionResult> {
    if host.chain.create2.refuses_large_memory && end > OUR_MEMORY_BYTES_MAX {
        host.error = Err(ContextError::Custom(format!(
            "CREATE2 expands memory: got {end} bytes, expected at most {OUR_MEMORY_BYTES_MAX}"
        )));
        return Err(InstructionResult::FatalExternalError);
    }
    if below.saturating_add(end) > BLOCK_MEMORY_BYTES_MAX {
        return Err(InstructionResult::MemoryLimitOOG);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use primitives::keccak256;

    use super::*;

    #[test]
    fn the_last_codes_are_remembered() {
        let mut codes = InitCodes::default();
        let code = |mark: u8, length: usize| Bytes::from(vec![mark; length]);
        for (mark, length) in [(1, 0), (1, 5), (1, 5), (2, 5), (1, 5), (3, 2000), (2, 5), (1, 6)] {
            let code = code(mark, length);
            let (hash, bytecode) = codes.get(&code);
            assert_eq!(hash, keccak256(&code));
            assert_eq!(bytecode.original_byte_slice(), code.as_ref());
            assert!(codes.known.len() <= CODES_MAX);
        }
        let first = codes.get(&code(7, 100)).1;
        let again = codes.get(&code(7, 100)).1;
        assert_eq!(first.bytes_slice().as_ptr(), again.bytes_slice().as_ptr());
        let known = codes.known.clone();
        let long = code(9, CODE_BYTES_MAX + 1);
        assert_eq!(codes.get(&long).0, keccak256(&long));
        assert_eq!(codes.known.len(), known.len(), "long code is not kept");
    }
}
