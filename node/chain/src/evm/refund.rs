//! Gives the gas of a failed call back to its caller. This is a fault of the public network's
//! first node that is consensus there.
//!
//! The first node charges an instruction before executing it, as one sum, and only if enough gas is
//! left. So a failed call has the gas that it had before the failing instruction. Two instructions
//! fail after they were charged: a jump to an invalid target, and a copy of more return data than
//! there is. revm charges an instruction in several parts, and takes all gas when one part is too
//! much. So this module saves the gas before each instruction. This takes time, so frames whose gas
//! is burned anyway run in revm's own loop.

use revm::Database;
use revm::context::result::EVMError;
use revm::handler::{EthFrame, FrameInitOrResult, FrameResult, ItemOrResult};
use revm::inspector::handler::frame_end;
use revm::inspector::{Inspector, InspectorEvmTr, inspect_instructions};
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::LoopControl;
use revm::interpreter::{CallScheme, FrameInput, InstructionResult, Interpreter, InterpreterAction};

use crate::evm::{ChainEvm, EvmContext};
use crate::state::StateError;

/// Whether this frame's gas goes back to the caller when the frame fails. So it is for CALL only.
pub(crate) fn refunds_failed_call(input: &FrameInput) -> bool {
    matches!(input, FrameInput::Call(inputs) if inputs.scheme == CallScheme::Call)
}

/// Whether this result is a failure that burns all gas on other chains.
pub(crate) fn is_failure(result: InstructionResult) -> bool {
    result.is_halt() && result != InstructionResult::FatalExternalError
}

/// Runs the top frame until it makes a call or ends. After a failure, the remaining gas is what
/// goes back to the caller.
///
/// # Errors
/// [`EVMError::Database`] when the store fails.
pub(crate) fn run_frame<DB: Database<Error = StateError>, I>(
    evm: &mut ChainEvm<DB, I>,
) -> Result<FrameInitOrResult<EthFrame<EthInterpreter>>, EVMError<StateError>> {
    let frame = evm.frame_stack.get();
    let (table, gas_table) = (evm.instruction.instruction_table(), evm.instruction.gas_table());
    let interpreter = &mut frame.interpreter;
    let mut before;
    let end = loop {
        before = interpreter.gas.remaining();
        if let Err(end) = interpreter.step(table, gas_table, &mut evm.ctx) {
            break end;
        }
    };
    if interpreter.bytecode.action().is_none() {
        interpreter.halt(end);
    }
    let action = restore_gas(interpreter.take_next_action(), before);
    finish_frame(frame, &mut evm.ctx, action)
}

/// Does what the frame's interpreter has ended with: a call, or the end of the frame.
///
/// # Errors
/// [`EVMError::Database`] when the store fails.
pub(crate) fn finish_frame<DB: Database<Error = StateError>>(
    frame: &mut EthFrame<EthInterpreter>,
    context: &mut EvmContext<DB>,
    action: InterpreterAction,
) -> Result<FrameInitOrResult<EthFrame<EthInterpreter>>, EVMError<StateError>> {
    let next = frame.process_next_action::<_, EVMError<StateError>>(context, action)?;
    if next.is_result() {
        frame.set_finished(true);
    }
    Ok(next)
}

/// As [`run_frame`], with the EVM's inspector.
///
/// # Errors
/// [`EVMError::Database`] when the store fails.
pub(crate) fn inspect_frame<
    DB: Database<Error = StateError>,
    I: Inspector<EvmContext<DB>, EthInterpreter>,
>(
    evm: &mut ChainEvm<DB, I>,
) -> Result<FrameInitOrResult<EthFrame<EthInterpreter>>, EVMError<StateError>> {
    let (context, inspector, frame, instructions) = evm.ctx_inspector_frame_instructions();
    let mut before = GasBefore(0);
    let action = inspect_instructions(
        context,
        &mut frame.interpreter,
        (&mut before, &mut *inspector),
        instructions.instruction_table(),
        instructions.gas_table(),
    );
    let action = restore_gas(action, before.0);
    let mut next = frame.process_next_action::<_, EVMError<StateError>>(context, action)?;
    if let ItemOrResult::Result(result) = &mut next {
        frame_end(context, inspector, &frame.input, result);
        frame.set_finished(true);
    }
    Ok(next)
}

/// Saves the remaining gas before each instruction.
struct GasBefore(u64);

impl<C> Inspector<C, EthInterpreter> for GasBefore {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        self.0 = interpreter.gas.remaining();
    }
}

/// Sets the remaining gas of a failed frame to `before`, the gas before its last instruction,
/// unless that instruction was charged.
pub(crate) fn restore_gas(mut action: InterpreterAction, before: u64) -> InterpreterAction {
    if let InterpreterAction::Return(result) = &mut action
        && is_failure(result.result)
        && !matches!(
            result.result,
            InstructionResult::InvalidJump | InstructionResult::OutOfOffset
        )
    {
        result.gas.set_remaining(before);
    }
    action
}

/// Turns the failure of an inner call into a revert, which undoes the same changes and keeps the
/// gas. Unlike the output of a revert, the output is not copied to the caller's memory.
pub(crate) fn failure_to_revert(mut result: FrameResult) -> FrameResult {
    if let FrameResult::Call(outcome) = &mut result
        && is_failure(outcome.result.result)
    {
        outcome.result.result = InstructionResult::Revert;
        outcome.memory_offset = 0..0;
    }
    result
}
