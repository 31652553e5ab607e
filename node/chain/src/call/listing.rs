//! Finds the access list of a call: which accounts and slots it touches (EIP-2930).
//!
//! An access list changes the gas of a call, and a contract can see its gas. So the call is run
//! again with the list that was found, until the list stays the same.

use std::collections::{BTreeMap, BTreeSet};

use primitives::{AccessListEntry, Address, B256, U256};
use revm::context::ContextTr;
use revm::context::result::ExecutionResult;
use revm::inspector::Inspector;
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::{InputsTr, Jumps};
use revm::interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter};

use super::{CallRequest, EvmCallError, StateAt, halt_text, revert_text};
use crate::evm::builtin_contracts;
use crate::evm::deadline::Deadline;
use crate::evm::precompiles::ChainPrecompiles;
use crate::query_limit::QueryLimit;
use crate::spec::Rule;
use crate::view::View;

/// The access list of a call, and how the call ends with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessListOutcome {
    /// The accounts with their slots, both in ascending order. The caller, the called account and
    /// precompiled contracts stand in it only with slots: they cost nothing more without a list.
    pub access_list: Vec<AccessListEntry>,
    /// The gas that the call uses with this list.
    pub gas_used: u64,
    /// The reason why the call fails, if it does.
    pub failure: Option<String>,
}

impl View {
    /// Finds the access list of a call within `limit`. A list of the request counts as found.
    ///
    /// # Errors
    /// [`EvmCallError::Refused`] where the rules know no access lists; else as for [`View::call`].
    pub fn create_access_list(
        &self,
        at: StateAt<'_>,
        request: &CallRequest,
        limit: QueryLimit,
    ) -> Result<AccessListOutcome, EvmCallError> {
        let mut deadline = Deadline::new(limit);
        let (header, state) = self.open_call(at, request)?;
        let number = header.number;
        if !self.spec().rules_at(number).has(Rule::Eip2930) {
            return Err(EvmCallError::Refused(format!(
                "access lists (EIP-2930): the rules of block {number} do not know them"
            )));
        }
        let overlay = state.into_overlay();
        let builtin = builtin_contracts(self.spec(), number);
        let caller = request.from.unwrap_or_default();
        let mut found = Touched::of(&request.access_list);
        loop {
            let request = CallRequest {
                access_list: found.entries(),
                ..request.clone()
            };
            let mut state = self.state_with(at, overlay.clone())?;
            let created = state.balance_and_nonce(caller)?.1;
            let receiver = request.to.unwrap_or_else(|| caller.create(created));
            let mut lister = AccessLister {
                deadline: &mut deadline,
                builtin: &builtin,
                free: [caller, receiver],
                touched: found.clone(),
            };
            let gas = request.gas_of_call();
            let outcome = self.run_call(&header, &mut state, &request, gas, &mut lister)?;
            let touched = lister.touched;
            deadline.check()?;
            if touched == found {
                return Ok(AccessListOutcome {
                    access_list: request.access_list,
                    gas_used: outcome.result.tx_gas_used(),
                    failure: failure_text(&outcome.result),
                });
            }
            found = touched;
        }
    }
}

fn failure_text(result: &ExecutionResult) -> Option<String> {
    match result {
        ExecutionResult::Success { .. } => None,
        ExecutionResult::Revert { output, .. } => Some(revert_text(output)),
        ExecutionResult::Halt { reason, .. } => Some(halt_text(reason)),
    }
}

/// The accounts that a call touches, with their slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Touched(BTreeMap<Address, BTreeSet<U256>>);

impl Touched {
    fn of(list: &[AccessListEntry]) -> Self {
        let mut touched = Self::default();
        for entry in list {
            let slots = touched.0.entry(entry.address).or_default();
            slots.extend(entry.slots.iter().map(|slot| U256::from_be_bytes(slot.0)));
        }
        touched
    }

    fn entries(&self) -> Vec<AccessListEntry> {
        let entry = |(address, slots): (&Address, &BTreeSet<U256>)| AccessListEntry {
            address: *address,
            slots: slots.iter().copied().map(B256::from).collect(),
        };
        self.0.iter().map(entry).collect()
    }
}

/// The inspector that notes what is touched. It only adds to what is known, so the runs come to an
/// end.
struct AccessLister<'d> {
    deadline: &'d mut Deadline,
    builtin: &'d ChainPrecompiles,
    /// The caller and the called account. They need no entry.
    free: [Address; 2],
    touched: Touched,
}

impl AccessLister<'_> {
    fn account(&mut self, word: U256) {
        let address = Address::from_word(word.into());
        if !self.free.contains(&address) && !self.builtin.has(&address) {
            self.touched.0.entry(address).or_default();
        }
    }
}

impl<C: ContextTr> Inspector<C, EthInterpreter> for AccessLister<'_> {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, context: &mut C) {
        use revm::bytecode::opcode;
        let opcode = interpreter.bytecode.opcode();
        let from_top = |depth: usize| interpreter.stack.data().iter().rev().nth(depth).copied();
        match opcode {
            opcode::SLOAD | opcode::SSTORE => {
                if let Some(slot) = from_top(0) {
                    let address = interpreter.input.target_address();
                    self.touched.0.entry(address).or_default().insert(slot);
                }
            }
            opcode::BALANCE
            | opcode::EXTCODESIZE
            | opcode::EXTCODECOPY
            | opcode::EXTCODEHASH
            | opcode::SELFDESTRUCT => {
                if let Some(word) = from_top(0) {
                    self.account(word);
                }
            }
            opcode::CALL | opcode::CALLCODE | opcode::DELEGATECALL | opcode::STATICCALL => {
                if let Some(word) = from_top(1) {
                    self.account(word);
                }
            }
            _ => {}
        }
        Inspector::<C, EthInterpreter>::step(self.deadline, interpreter, context);
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        Inspector::<C, EthInterpreter>::call(self.deadline, context, inputs)
    }

    fn create(&mut self, context: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        Inspector::<C, EthInterpreter>::create(self.deadline, context, inputs)
    }
}
