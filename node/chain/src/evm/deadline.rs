//! A time that the EVM may take, and what stops it then.
//!
//! Inspectors cannot fail: time that is over is noted here and halts the interpreter; whoever
//! runs it asks afterwards.

use std::time::{Duration, Instant};

use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::{
    CallInputs, CallOutcome, CreateInputs, CreateOutcome, Gas, InstructionResult, Interpreter,
    InterpreterResult,
};
use revm::primitives::Bytes;

/// Steps between two looks at the clock, which costs more than a step.
const STEPS_A_LOOK: u32 = 256;

/// When the EVM has to be done. As inspector it stops the EVM then.
#[derive(Debug)]
pub(crate) struct Deadline {
    at: Instant,
    timeout: Duration,
    steps: u32,
    over: bool,
}

impl Deadline {
    /// `timeout` from now; never, where the clock does not go as far.
    pub(crate) fn new(timeout: Duration) -> Self {
        /// As good as never.
        const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        Self {
            at: Instant::now() + timeout.min(YEAR),
            timeout,
            steps: 0,
            over: false,
        }
    }

    /// The time there was.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Counts a step. `false`: time is over, and it is to be the last.
    pub(crate) fn step(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS_A_LOOK) {
            self.look();
        }
        !self.over
    }

    /// Whether time was found to be over before, or is now.
    pub(crate) fn is_over(&self) -> bool {
        self.over || Instant::now() >= self.at
    }

    fn look(&mut self) -> bool {
        self.over = self.is_over();
        self.over
    }
}

/// What a frame gives that is not run.
pub(crate) fn skipped_frame(gas_limit: u64) -> InterpreterResult {
    InterpreterResult::new(InstructionResult::OutOfGas, Bytes::new(), Gas::new(gas_limit))
}

/// What a call gives that is not run.
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

    // A built-in contract takes no steps, and much longer than one.
    fn call(&mut self, _: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.look().then(|| skipped_call(inputs))
    }

    fn create(&mut self, _: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.look()
            .then(|| CreateOutcome::new(skipped_frame(inputs.gas_limit()), None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_ends_and_stays_over() {
        let mut deadline = Deadline::new(Duration::MAX);
        assert!((0..=STEPS_A_LOOK).all(|_| deadline.step()) && !deadline.is_over());

        let mut deadline = Deadline::new(Duration::ZERO);
        let steps = (0..).take_while(|_| deadline.step()).count();
        assert!(steps < STEPS_A_LOOK as usize, "{steps}");
        assert!(!deadline.step() && deadline.is_over());
    }
}
