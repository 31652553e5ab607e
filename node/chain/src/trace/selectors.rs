//! Counts the functions that a transaction calls, by the first four bytes of the input and the
//! length of the rest.

use std::collections::BTreeMap;

use revm::context::ContextTr;
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::{
    CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter,
};

use super::bounds::TraceBounds;
use crate::evm::precompiles::ChainPrecompiles;

/// Length of a count's text, in bytes.
const COUNT_BYTES: usize = 40;
/// Bytes of a selector.
const SELECTOR_LEN: usize = 4;

/// The number of calls of each function: the first four bytes of the input, and the length of the
/// rest.
pub type SelectorCounts = BTreeMap<([u8; SELECTOR_LEN], usize), u64>;

/// The inspector that counts calls.
pub(super) struct SelectorTracer<'b> {
    bounds: &'b mut TraceBounds,
    builtin: &'b ChainPrecompiles,
    counts: SelectorCounts,
    /// The transaction's own call has begun. It counts whatever it calls.
    has_begun: bool,
}

impl<'b> SelectorTracer<'b> {
    pub(super) const fn new(builtin: &'b ChainPrecompiles, bounds: &'b mut TraceBounds) -> Self {
        Self {
            bounds,
            builtin,
            counts: SelectorCounts::new(),
            has_begun: false,
        }
    }

    pub(super) fn into_counts(self) -> SelectorCounts {
        self.counts
    }

    fn count(&mut self, input: &[u8]) {
        let Some((selector, rest)) = input.split_first_chunk::<SELECTOR_LEN>() else {
            return;
        };
        if self.bounds.reserve(COUNT_BYTES, COUNT_BYTES) {
            *self.counts.entry((*selector, rest.len())).or_default() += 1;
        }
    }
}

impl<C: ContextTr> Inspector<C, EthInterpreter> for SelectorTracer<'_> {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        if !self.bounds.step() {
            interpreter.halt(InstructionResult::OutOfGas);
        }
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        let is_inner = std::mem::replace(&mut self.has_begun, true);
        if !(is_inner && self.builtin.has(&inputs.bytecode_address)) {
            let input = inputs.input.bytes(context);
            self.count(&input);
        }
        None
    }

    fn create(&mut self, _: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let code = inputs.init_code().clone();
            self.count(&code);
        }
        None
    }
}
