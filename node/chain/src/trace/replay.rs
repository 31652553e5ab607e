//! Runs a stored block again, transaction by transaction, on the state of its parent.
//!
//! The replay makes no receipts and no roots, since the store has them.

use primitives::{Address, Header, SYSTEM_CONTRACT, SYSTEM_SENDER, Transaction};
use revm::DatabaseCommit;
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;

use super::bounds::TraceBounds;
use super::recorder::{Recorder, RunFacts};
use super::{Trace, TraceError, Tracer, off_chain};
use crate::evm::FlaggedRun;
use crate::evm::execute::{Executor, TransactionError, transaction_env, transaction_error};
use crate::evm::handler::{EvmOutcome, inspect, inspect_system_call, system_call, transact};
use crate::evm::sharding_mark::WaitingMark;
use crate::evm::{EvmContext, block_env, builtin_contracts, chain_evm};
use crate::rules::order::ExecutionOrder;
use crate::spec::ChainSpec;
use crate::state::{BlockState, Overlay};
use crate::view::{StoredBlock, View};

/// A block being run again.
pub(super) struct BlockReplay<'v> {
    spec: &'v ChainSpec,
    block: &'v StoredBlock,
    order: ExecutionOrder,
    /// The system transaction, if the block does not contain it.
    system: Transaction,
    state: BlockState<'v>,
    waiting_mark: WaitingMark,
}

impl<'v> BlockReplay<'v> {
    /// Prepares the state before the block's first transaction.
    pub(super) fn begin(view: &'v View, block: &'v StoredBlock) -> Result<Self, TraceError> {
        let header = &block.record.header;
        let Some(parent_number) = header.number.checked_sub(1) else {
            return Err(TraceError::Genesis);
        };
        // The parent of a side block may be canonical. Then the store has its state.
        let parent = view.header(parent_number)?;
        let Some((_, parent)) = parent.filter(|(hash, _)| *hash == header.parent_hash) else {
            return Err(off_chain(block.id()));
        };
        view.require_state(parent_number)?;
        let mut state = BlockState::new(view.snapshot(), parent_number, parent.header.state_root);
        Executor::new(view.spec(), header, &mut state).begin()?;
        Ok(Self {
            spec: view.spec(),
            block,
            order: ExecutionOrder::of(view.spec(), header.number, &block.body.transactions),
            system: Transaction::system(parent_number),
            state,
            waiting_mark: WaitingMark::default(),
        })
    }

    /// Runs the transactions that are executed before transaction `index`, or all if there is no
    /// such transaction.
    pub(super) fn run_to(&mut self, index: usize, bounds: &TraceBounds) -> Result<(), TraceError> {
        let executed: Vec<_> = self.order.transactions().collect();
        for earlier in executed.into_iter().take_while(|one| *one != Some(index)) {
            bounds.check()?;
            self.run(earlier)?;
        }
        Ok(())
    }

    /// Traces all transactions. A system transaction that was left out has an empty trace.
    pub(super) fn trace_all(
        &mut self,
        tracer: &Tracer,
        bounds: &mut TraceBounds,
    ) -> Result<Vec<Trace>, TraceError> {
        let mut traces = vec![tracer.empty(); self.block.body.transactions.len()];
        let executed: Vec<_> = self.order.transactions().collect();
        for one in executed {
            match one {
                Some(index) => traces[index] = self.trace(index, tracer, bounds)?,
                None => self.run(one)?,
            }
        }
        Ok(traces)
    }

    /// The changes of all transactions so far.
    pub(super) fn into_overlay(self) -> Overlay {
        self.state.into_overlay()
    }

    /// Runs transaction `index` and returns its trace. It must be the next one that is executed, or
    /// a system transaction that is left out: then the trace is empty.
    pub(super) fn trace(
        &mut self,
        index: usize,
        tracer: &Tracer,
        bounds: &mut TraceBounds,
    ) -> Result<Trace, TraceError> {
        bounds.check()?;
        if self.order.receipt_of(index).is_none() {
            return Ok(tracer.empty());
        }
        let (rules, transaction) = ((self.spec, &self.block.record.header), self.transaction(index));
        let planned = match &rules.0.application {
            None => None,
            Some(application) => {
                let mut executor = Executor::new(rules.0, rules.1, &mut self.state);
                executor.begin()?;
                let planned = executor.plan_flagged(application, transaction.0, transaction.1);
                match planned {
                    Ok(Some(run)) => Some(run),
                    Ok(None) => {
                        executor.refuse(transaction.1)?;
                        return Ok(tracer.empty());
                    }
                    Err(error) => return Err(self.run_error(Some(index), error)),
                }
            }
        };
        let builtin = builtin_contracts(self.spec, self.block.record.header.number);
        let mut recorder = Recorder::new(tracer, self.spec.failed_calls_refund_gas, &builtin, bounds);
        let facts = RunFacts {
            gas: planned
                .as_ref()
                .map_or(transaction.0.gas, |run| run.env.gas_limit),
            is_metered: !transaction.0.is_system(),
        };
        let outcome = run_with_inspector(&mut self.state, rules, transaction, planned, &mut recorder);
        let outcome = outcome.map_err(|error| self.run_error(Some(index), error))?;
        let trace = recorder.trace(tracer, facts, &outcome, &mut self.state)?;
        self.keep(Some(index), outcome)?;
        bounds.check()?;
        Ok(trace)
    }

    /// Runs transaction `index`, which must be the next one; `None` is the system transaction of a
    /// block that does not contain it.
    fn run(&mut self, index: Option<usize>) -> Result<(), TraceError> {
        let (spec, header) = (self.spec, &self.block.record.header);
        let system = self.system.clone();
        let (transaction, sender) = match index {
            Some(index) => self.transaction(index),
            None => (&system, SYSTEM_SENDER),
        };
        if spec.application.is_some() {
            let mut executor = Executor::new(spec, header, &mut self.state);
            executor.begin()?;
            let ran = executor.transaction(transaction, sender);
            return ran.map(|_| ()).map_err(|error| self.run_error(index, error));
        }
        let mut evm = chain_evm(&mut self.state, spec, block_env(header), |_| ());
        let outcome = if transaction.is_system() {
            let input = system.input.clone();
            system_call(&mut evm, spec, SYSTEM_SENDER, SYSTEM_CONTRACT, input).map_err(transaction_error)
        } else {
            transaction_env(transaction, sender)
                .and_then(|env| transact(&mut evm, spec, env).map_err(transaction_error))
        };
        let outcome = outcome.map_err(|error| self.run_error(index, error))?;
        self.keep(index, outcome)
    }

    /// Transaction `index` and its sender.
    fn transaction(&self, index: usize) -> (&'v Transaction, Address) {
        let body = &self.block.body;
        (&body.transactions[index], body.senders[index])
    }

    fn run_error(&self, index: Option<usize>, error: TransactionError) -> TraceError {
        match error {
            TransactionError::State(error) => error.into(),
            error => TraceError::Transaction {
                number: self.block.record.header.number,
                index: index.unwrap_or(0),
                error,
            },
        }
    }

    fn keep(&mut self, index: Option<usize>, outcome: EvmOutcome) -> Result<(), TraceError> {
        self.state.commit(outcome.changes);
        let sent = index.map(|index| self.transaction(index));
        let sent = sent.filter(|(transaction, _)| !transaction.is_system());
        if sent.is_none() {
            self.state.bump_nonce(SYSTEM_SENDER)?;
        }
        self.waiting_mark.write(&mut self.state)?;
        if let Some((transaction, sender)) = sent {
            let rules = self.spec.rules_at(self.block.record.header.number);
            self.waiting_mark
                .mark_creation(&mut self.state, rules, transaction, sender)?;
        }
        Ok(())
    }
}

/// Runs a transaction with an inspector. `planned` is how it runs on an application chain.
fn run_with_inspector<'s, 'v, I: Inspector<EvmContext<&'s mut BlockState<'v>>, EthInterpreter>>(
    state: &'s mut BlockState<'v>,
    (spec, header): (&ChainSpec, &Header),
    (transaction, sender): (&Transaction, Address),
    planned: Option<FlaggedRun>,
    inspector: I,
) -> Result<EvmOutcome, TransactionError> {
    let mut evm = chain_evm(state, spec, block_env(header), |_| ()).with_inspector(inspector);
    if let Some(run) = planned {
        evm.ctx.cfg.chain_id = run.chain_id;
        evm.ctx.chain.guard = run.guard;
        return inspect(&mut evm, spec, run.env).map_err(transaction_error);
    }
    if transaction.is_system() {
        // A block is executed with this input, also if its own system transaction has another.
        let input = Transaction::system(0).input;
        return inspect_system_call(&mut evm, spec, SYSTEM_SENDER, SYSTEM_CONTRACT, input)
            .map_err(transaction_error);
    }
    let env = transaction_env(transaction, sender)?;
    inspect(&mut evm, spec, env).map_err(transaction_error)
}
