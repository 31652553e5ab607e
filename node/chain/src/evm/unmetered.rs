//! Execution without gas metering, for the system transaction.
//!
//! The public node runs it with no gas and charges no instruction. Three things still need gas:
//! built-in contracts, the code of created contracts, and the share that a creation takes from its
//! creator. A call gives as much gas as it asks for, whatever its caller has, and what is left
//! comes back to the caller. So GAS shows 0 at first, and more after a call that gave gas to an
//! account without code. Source: docs/base-chain.md, 1.

use std::sync::Arc;

use revm::Database;
use revm::bytecode::opcode::{CALL, CALLCODE, DELEGATECALL, STATICCALL};
use revm::context_interface::cfg::gas_params::{GasId, GasParams};
use revm::handler::instructions::EthInstructions;
use revm::interpreter::instructions::{Instruction, contract};
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::{LoopControl, StackTr};
use revm::interpreter::{
    CallScheme, FrameInput, InstructionContext, InstructionExecResult, InterpreterAction, InterpreterTypes,
};

use super::EvmContext;

/// A frame may have so many words of memory, 1 GiB. The public node's limit is the machine's
/// memory.
const MEMORY_WORDS_MAX: u64 = 1 << 25;

/// The instructions of `metered` without their gas.
pub(super) fn unmetered_instructions<DB: Database>(
    metered: &EthInstructions<EthInterpreter, EvmContext<DB>>,
) -> EthInstructions<EthInterpreter, EvmContext<DB>> {
    let mut table = metered.clone();
    for opcode in 0..=u8::MAX {
        table.insert_gas(opcode, 0);
    }
    table.insert_instruction(CALL, Instruction::new(call::<CALL, _, _>), 0);
    table.insert_instruction(CALLCODE, Instruction::new(call::<CALLCODE, _, _>), 0);
    table.insert_instruction(DELEGATECALL, Instruction::new(call::<DELEGATECALL, _, _>), 0);
    table.insert_instruction(STATICCALL, Instruction::new(call::<STATICCALL, _, _>), 0);
    table
}

/// The gas parameters of `metered` that hold without metering. All others are 0.
pub(super) fn unmetered_gas(metered: &GasParams) -> GasParams {
    let mut gas = GasParams::new(Arc::new([0; 256]));
    let kept = [
        GasId::call_stipend(),
        GasId::call_stipend_reduction(),
        GasId::code_deposit_cost(),
        GasId::max_refund_quotient(),
    ];
    gas.override_gas(kept.map(|id| (id, metered.get(id))));
    // Memory costs its words squared, divided by this: nothing up to the limit.
    gas.override_gas([(
        GasId::memory_quadratic_reduction(),
        MEMORY_WORDS_MAX * MEMORY_WORDS_MAX,
    )]);
    gas
}

/// One of the four calls. The called frame gets the last 64 bits of the number that the caller asks
/// for, and the stipend; the caller keeps its own gas.
fn call<const KIND: u8, IT: InterpreterTypes, DB: Database>(
    context: InstructionContext<'_, EvmContext<DB>, IT>,
) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = context;
    let kept = interpreter.gas.remaining();
    let asked = interpreter
        .stack
        .popn_top::<0>()
        .map_or(0, |(_, top)| top.as_limbs()[0]);
    let stipend = host.cfg.gas_params.call_stipend();
    let result = contract::call::<KIND, IT, _>(InstructionContext {
        interpreter: &mut *interpreter,
        host,
    });
    interpreter.gas.set_remaining(kept);
    if let Some(InterpreterAction::NewFrame(FrameInput::Call(inputs))) = interpreter.bytecode.action() {
        let has_stipend =
            matches!(inputs.scheme, CallScheme::Call | CallScheme::CallCode) && !inputs.value.get().is_zero();
        inputs.gas_limit = asked.wrapping_add(if has_stipend { stipend } else { 0 });
    }
    result
}
