//! One run with the inspector that a tracer needs, and the trace that the run gives.

use primitives::{Address, Log};
use revm::context::ContextTr;
use revm::context::result::Output;
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::{
    CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter,
};
use revm::primitives::U256;

use super::bounds::TraceBounds;
use super::calls::{CallFrame, CallOptions, CallTracer};
use super::prestate;
use super::selectors::SelectorTracer;
use super::steps::{StepTrace, StepTracer};
use super::{ReplayTrace, Trace, Tracer, state_diff};
use crate::evm::handler::EvmOutcome;
use crate::evm::precompiles::ChainPrecompiles;
use crate::state::{BlockState, StateError};

/// The facts about a run that the recorder cannot see.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunFacts {
    /// The gas limit of the transaction.
    pub(super) gas: u64,
    /// Whether the run is metered. The system transaction is not.
    pub(super) is_metered: bool,
}

/// The inspector of a tracer.
pub(super) enum Recorder<'b> {
    Steps(StepTracer<'b>),
    Calls(CallTracer<'b>),
    Selectors(SelectorTracer<'b>),
    /// Only the bounds are kept.
    Bounds(&'b mut TraceBounds),
}

impl<'b> Recorder<'b> {
    /// The inspector for `tracer`. `refunds` says whether the gas of a failed CALL goes back.
    pub(super) fn new(
        tracer: &Tracer,
        refunds: bool,
        builtin: &'b ChainPrecompiles,
        bounds: &'b mut TraceBounds,
    ) -> Self {
        match tracer {
            Tracer::Steps(options) => Self::Steps(StepTracer::new(*options, bounds)),
            Tracer::Calls(options) => Self::Calls(CallTracer::new(*options, refunds, builtin, bounds)),
            Tracer::Replay { .. } => {
                let options = CallOptions {
                    own_gas: true,
                    ..CallOptions::default()
                };
                Self::Calls(CallTracer::new(options, refunds, builtin, bounds))
            }
            Tracer::Selectors => Self::Selectors(SelectorTracer::new(builtin, bounds)),
            Tracer::Prestate { .. } | Tracer::Nothing => Self::Bounds(bounds),
        }
    }

    /// The recorded trace, without the parts that only the outcome of the run tells; and the
    /// bounds, if a trace is to be made of the outcome.
    fn finish(self) -> (Trace, Option<&'b mut TraceBounds>) {
        match self {
            Self::Steps(tracer) => {
                let steps = tracer.into_steps();
                let trace = StepTrace {
                    steps,
                    ..StepTrace::default()
                };
                (Trace::Steps(trace), None)
            }
            Self::Calls(tracer) => {
                let (top, bounds) = tracer.finish();
                (Trace::Calls(top), Some(bounds))
            }
            Self::Selectors(tracer) => (Trace::Selectors(tracer.into_counts()), None),
            Self::Bounds(bounds) => (Trace::Nothing, Some(bounds)),
        }
    }

    /// The trace of a run that has ended with `outcome`, which is not committed to `state` yet.
    pub(super) fn trace(
        self,
        tracer: &Tracer,
        facts: RunFacts,
        outcome: &EvmOutcome,
        state: &mut BlockState<'_>,
    ) -> Result<Trace, StateError> {
        let result = &outcome.result;
        let gas_used = if facts.is_metered { result.tx_gas_used() } else { 0 };
        Ok(match (self.finish(), tracer) {
            ((Trace::Steps(steps), _), _) => Trace::Steps(StepTrace {
                gas: gas_used,
                failed: !result.is_success(),
                return_value: result.output().cloned().unwrap_or_default(),
                ..steps
            }),
            ((Trace::Calls(top), _), Tracer::Calls(options)) if !options.own_gas => Trace::Calls(CallFrame {
                gas: facts.gas,
                gas_used,
                ..top
            }),
            ((Trace::Calls(calls), Some(bounds)), Tracer::Replay { changes }) => {
                let collect = || state_diff::collect(state, &outcome.changes, bounds);
                Trace::Replay(ReplayTrace {
                    calls,
                    changes: changes.then(collect).transpose()?,
                })
            }
            ((_, Some(bounds)), Tracer::Prestate { changes }) => {
                let created = match result {
                    revm::context::result::ExecutionResult::Success {
                        output: Output::Create(_, address),
                        ..
                    } => *address,
                    _ => None,
                };
                let changes = prestate::collect(state, &outcome.changes, created, *changes, bounds)?;
                Trace::Prestate(changes)
            }
            ((trace, _), _) => trace,
        })
    }
}

impl<C: ContextTr> Inspector<C, EthInterpreter> for Recorder<'_> {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, context: &mut C) {
        match self {
            Self::Steps(tracer) => tracer.step(interpreter, context),
            Self::Calls(tracer) => tracer.step(interpreter, context),
            Self::Selectors(tracer) => tracer.step(interpreter, context),
            Self::Bounds(bounds) => {
                if !bounds.step() {
                    interpreter.halt(InstructionResult::OutOfGas);
                }
            }
        }
    }

    fn step_end(&mut self, interpreter: &mut Interpreter<EthInterpreter>, context: &mut C) {
        if let Self::Steps(tracer) = self {
            tracer.step_end(interpreter, context);
        }
    }

    fn log(&mut self, _: &mut C, log: revm::primitives::Log) {
        if let Self::Calls(tracer) = self {
            let (topics, data) = log.data.split();
            tracer.log(Log {
                address: log.address,
                topics,
                data,
            });
        }
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        match self {
            Self::Calls(tracer) => tracer.call(context, inputs),
            Self::Selectors(tracer) => tracer.call(context, inputs),
            Self::Steps(_) | Self::Bounds(_) => None,
        }
    }

    fn call_end(&mut self, context: &mut C, inputs: &CallInputs, outcome: &mut CallOutcome) {
        if let Self::Calls(tracer) = self {
            tracer.call_end(context, inputs, outcome);
        }
    }

    fn create(&mut self, context: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        match self {
            Self::Calls(tracer) => tracer.create(context, inputs),
            Self::Selectors(tracer) => tracer.create(context, inputs),
            Self::Steps(_) | Self::Bounds(_) => None,
        }
    }

    fn create_end(&mut self, context: &mut C, inputs: &CreateInputs, outcome: &mut CreateOutcome) {
        if let Self::Calls(tracer) = self {
            tracer.create_end(context, inputs, outcome);
        }
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        if let Self::Calls(tracer) = self {
            Inspector::<C, EthInterpreter>::selfdestruct(tracer, contract, target, value);
        }
    }
}
