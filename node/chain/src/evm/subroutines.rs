//! The public network's subroutine opcodes, from Fuxi on.
//!
//! The opcodes are those of an early draft of EIP-2315: a subroutine begins at an ordinary
//! JUMPDEST, and the jump goes to the instruction after it, so that the JUMPDEST is not charged.
//! BEGINSUB is an opcode, but always fails. These instructions fail after they were charged, as an
//! invalid jump does. Source: docs/base-chain.md, 4.

use revm::Database;
use revm::interpreter::interpreter_types::{InputsTr, Jumps, StackTr};
use revm::interpreter::{InstructionContext, InstructionExecResult, InstructionResult, InterpreterTypes};

use super::EvmContext;

/// The opcode that always fails.
pub(super) const BEGINSUB: u8 = 0x5c;
/// The opcode that returns from a subroutine.
pub(super) const RETURNSUB: u8 = 0x5d;
/// The opcode that calls a subroutine.
pub(super) const JUMPSUB: u8 = 0x5e;

/// Gas of the opcodes.
pub(super) const BEGINSUB_GAS: u16 = 2;
pub(super) const RETURNSUB_GAS: u16 = 5;
pub(super) const JUMPSUB_GAS: u16 = 10;

/// The most return addresses of one frame.
const RETURN_STACK_MAX: usize = 1023;

/// The return addresses of the open frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReturnStacks {
    /// The addresses of the frame at each depth. Frames that have none may be missing.
    by_depth: Vec<Vec<usize>>,
}

impl ReturnStacks {
    /// Must be called when a frame begins: it drops what an earlier frame of this depth left.
    pub(crate) fn begin_frame(&mut self, depth: usize) {
        self.by_depth.truncate(depth);
    }

    fn of_frame(&mut self, depth: usize) -> &mut Vec<usize> {
        if self.by_depth.len() <= depth {
            self.by_depth.resize_with(depth + 1, Vec::new);
        }
        &mut self.by_depth[depth]
    }
}

/// BEGINSUB.
pub(super) const fn begin_sub<IT: InterpreterTypes, H: ?Sized>(
    _: InstructionContext<'_, H, IT>,
) -> InstructionExecResult {
    Err(InstructionResult::InvalidJump)
}

/// JUMPSUB: goes to the instruction after a JUMPDEST, and remembers where to return.
pub(super) fn jump_sub<IT: InterpreterTypes, DB: Database>(
    context: InstructionContext<'_, EvmContext<DB>, IT>,
) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = context;
    let Some([target]) = interpreter.stack.popn() else {
        return Err(InstructionResult::StackUnderflow);
    };
    let returns = host.chain.returns.of_frame(interpreter.input.depth());
    if returns.len() >= RETURN_STACK_MAX {
        return Err(InstructionResult::InvalidJump);
    }
    let target = usize::try_from(target).map_err(|_| InstructionResult::InvalidJump)?;
    if !interpreter.bytecode.is_valid_legacy_jump(target) {
        return Err(InstructionResult::InvalidJump);
    }
    // The program counter is at the next instruction already.
    returns.push(interpreter.bytecode.pc());
    interpreter.bytecode.absolute_jump(target + 1);
    Ok(())
}

/// RETURNSUB: goes to the instruction after the latest JUMPSUB.
pub(super) fn return_sub<IT: InterpreterTypes, DB: Database>(
    context: InstructionContext<'_, EvmContext<DB>, IT>,
) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = context;
    let returns = host.chain.returns.of_frame(interpreter.input.depth());
    let back = returns.pop().ok_or(InstructionResult::InvalidJump)?;
    interpreter.bytecode.absolute_jump(back);
    Ok(())
}
