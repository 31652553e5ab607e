//! A limit for the EVM, as an inspector that stops it: the time is over, or nobody waits any more.
//!
//! An inspector cannot return an error. So it halts the interpreter, and the caller asks
//! [`Deadline::check`] afterwards.

use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::Jumps;
use revm::interpreter::{
    CallInputs, CallOutcome, CreateInputs, CreateOutcome, Gas, InstructionResult, Interpreter,
    InterpreterResult,
};
use revm::primitives::Bytes;

use crate::query_limit::{QueryLimit, QueryStop};

/// The limit is checked once in so many steps, because reading the clock costs more than a step.
const STEPS_PER_CHECK: u32 = 256;

/// The time at which the EVM has to end. As an inspector, it stops the EVM then.
#[derive(Debug)]
pub(crate) struct Deadline {
    limit: QueryLimit,
    /// The most gas that one frame may use, with the frames that it has called and that have ended.
    frame_gas: u64,
    steps: u32,
    last_opcode: u8,
    stop: Option<QueryStop>,
    /// Whether a frame has used more gas.
    is_costly: bool,
}

impl Deadline {
    pub(crate) const fn new(limit: QueryLimit) -> Self {
        Self {
            limit,
            frame_gas: u64::MAX,
            steps: 0,
            last_opcode: 0,
            stop: None,
            is_costly: false,
        }
    }

    /// The same limit, which also stops the EVM when a frame has used more gas.
    pub(crate) const fn with_frame_gas(mut self, gas: u64) -> Self {
        self.frame_gas = gas;
        self
    }

    /// Whether the EVM was stopped because a frame had used too much gas.
    pub(crate) const fn is_costly(&self) -> bool {
        self.is_costly
    }

    /// The opcode of the last instruction that was begun.
    pub(crate) const fn last_opcode(&self) -> u8 {
        self.last_opcode
    }

    /// The limit that the EVM has.
    pub(crate) const fn limit(&self) -> &QueryLimit {
        &self.limit
    }

    /// The reason why the EVM was stopped; `None` if it ended by itself.
    pub(crate) const fn stopped(&self) -> Option<QueryStop> {
        self.stop
    }

    /// Counts a step. Returns `false` if the EVM has to end; then this must be the last step.
    pub(crate) fn step(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS_PER_CHECK) {
            self.is_over();
        }
        self.stop.is_none()
    }

    /// Checks whether the EVM has to end now, or had to end before.
    ///
    /// # Errors
    /// The reason, if it has.
    pub(crate) fn check(&self) -> Result<(), QueryStop> {
        match self.stop {
            Some(stop) => Err(stop),
            None => self.limit.check(),
        }
    }

    /// Whether the EVM has to end. This reads the clock.
    fn is_over(&mut self) -> bool {
        self.stop = self.check().err();
        self.stop.is_some()
    }
}

/// The result of a frame that is not run because a limit was reached.
pub(crate) const fn skipped_frame(gas_limit: u64) -> InterpreterResult {
    InterpreterResult::new(InstructionResult::OutOfGas, Bytes::new(), Gas::new(gas_limit))
}

/// The result of a call that is not run because a limit was reached.
pub(crate) fn skipped_call(inputs: &CallInputs) -> CallOutcome {
    CallOutcome::new(
        skipped_frame(inputs.gas_limit),
        inputs.return_memory_offset.clone(),
    )
}

impl<C> Inspector<C, EthInterpreter> for Deadline {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        self.last_opcode = interpreter.bytecode.opcode();
        self.is_costly |= interpreter.gas.total_gas_spent() > self.frame_gas;
        if !self.step() || self.is_costly {
            interpreter.halt(InstructionResult::OutOfGas);
        }
    }

    // A precompiled contract has no steps and takes much longer than a step. So the limit is
    // checked at every call.
    fn call(&mut self, _: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.is_over().then(|| skipped_call(inputs))
    }

    fn create(&mut self, _: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.is_over()
            .then(|| CreateOutcome::new(skipped_frame(inputs.gas_limit()), None))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::query_limit::CancelFlag;

    #[track_caller]
    fn check_stops(mut deadline: Deadline, expected: QueryStop) {
        let steps = (0..).take_while(|_| deadline.step()).count();
        assert!(steps < STEPS_PER_CHECK as usize, "{steps}");
        assert!(!deadline.step());
        assert_eq!(deadline.check(), Err(expected));
    }

    #[test]
    fn a_deadline_that_is_over_stays_over() {
        let flag = CancelFlag::default();
        let endless = || Deadline::new(QueryLimit::new(Duration::MAX).cancelled_by(&flag));
        let mut deadline = endless();
        assert!((0..=STEPS_PER_CHECK).all(|_| deadline.step()) && deadline.check().is_ok());
        flag.cancel();
        check_stops(endless(), QueryStop::Cancelled);
        check_stops(
            Deadline::new(Duration::ZERO.into()),
            QueryStop::Timeout(Duration::ZERO),
        );
    }
}
