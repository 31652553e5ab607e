//! A time limit for the EVM, as an inspector that stops it.
//!
//! An inspector cannot return an error. So it halts the interpreter when the time is over, and the
//! caller asks [`Deadline::is_over`] afterwards.

use std::time::{Duration, Instant};

use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::{
    CallInputs, CallOutcome, CreateInputs, CreateOutcome, Gas, InstructionResult, Interpreter,
    InterpreterResult,
};
use revm::primitives::Bytes;

/// The clock is read once in so many steps, because reading it costs more than a step.
const STEPS_PER_CLOCK_READ: u32 = 256;

/// When the EVM has to end. As an inspector, it stops the EVM at that time.
#[derive(Debug)]
pub(crate) struct Deadline {
    at: Instant,
    timeout: Duration,
    steps: u32,
    over: bool,
}

impl Deadline {
    /// A deadline `timeout` from now, or in a year if that is sooner.
    pub(crate) fn new(timeout: Duration) -> Self {
        /// Keeps the sum below within the clock's range.
        const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        Self {
            at: Instant::now() + timeout.min(YEAR),
            timeout,
            steps: 0,
            over: false,
        }
    }

    /// The time limit.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Counts a step. Returns `false` if the time is over; then this must be the last step.
    pub(crate) fn step(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS_PER_CLOCK_READ) {
            self.read_clock();
        }
        !self.over
    }

    /// Whether the time is over now, or was found to be over before.
    pub(crate) fn is_over(&self) -> bool {
        self.over || Instant::now() >= self.at
    }

    /// Reads the clock. Returns whether the time is over.
    fn read_clock(&mut self) -> bool {
        self.over = self.is_over();
        self.over
    }
}

/// The result of a frame that is not run because a limit was reached.
pub(crate) fn skipped_frame(gas_limit: u64) -> InterpreterResult {
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
        if !self.step() {
            interpreter.halt(InstructionResult::OutOfGas);
        }
    }

    // A precompiled contract has no steps and takes much longer than a step. So the clock is read
    // at every call.
    fn call(&mut self, _: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.read_clock().then(|| skipped_call(inputs))
    }

    fn create(&mut self, _: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.read_clock()
            .then(|| CreateOutcome::new(skipped_frame(inputs.gas_limit()), None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_is_over_stays_over() {
        let mut deadline = Deadline::new(Duration::MAX);
        assert!((0..=STEPS_PER_CLOCK_READ).all(|_| deadline.step()) && !deadline.is_over());

        let mut deadline = Deadline::new(Duration::ZERO);
        let steps = (0..).take_while(|_| deadline.step()).count();
        assert!(steps < STEPS_PER_CLOCK_READ as usize, "{steps}");
        assert!(!deadline.step() && deadline.is_over());
    }
}
