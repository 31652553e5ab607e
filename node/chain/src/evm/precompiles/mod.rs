//! The precompiled contracts, by family and fork.
//!
//! Ethereum's family has those of revm. The public network has Ethereum's first four from block 0
//! on, four more from its precompile fork on, and six of its own from block 0 on. Of its own,
//! `network` has those that only charge gas and return data, and `notice` the one that emits a
//! notice. The system contract at 0x65 is ordinary code. The early BLS12-381 contracts at the
//! decimal addresses 60 to 68 are not supported. Source: docs/base-chain.md, 4.

mod network;
mod notice;

pub(crate) use network::DelegatedTransfer;
pub(crate) use notice::{EmittedNotice, take_notices};
pub use notice::{NOTICE_BYTES_MAX, NOTIFY_SCS};

use std::sync::LazyLock;

use primitives::{Address, SYSTEM_CONTRACT};
use revm::context_interface::ContextTr;
use revm::handler::{EthPrecompiles, PrecompileProvider};
use revm::interpreter::{CallInputs, CallScheme, Gas, InstructionResult, InterpreterResult};
use revm::precompile::{PrecompileSpecId, Precompiles, bn254, modexp};
use revm::primitives::AddressSet;
use revm::primitives::hardfork::SpecId;

use crate::spec::BlockRules;
use network::{DELEGATE_SEND, PrecompileOutcome};

/// The precompiled contracts of one block.
#[derive(Debug)]
pub(crate) struct ChainPrecompiles {
    ethereum: EthPrecompiles,
    /// The rules of the public network's own contracts; `None` in Ethereum's family.
    own: Option<OwnContractRules>,
}

/// What differs between forks in the public network's own contracts.
#[derive(Clone, Copy, Debug)]
struct OwnContractRules {
    /// 0x0d and 0x0e return a word. Before Nuwa they return nothing.
    returns_word: bool,
}

impl ChainPrecompiles {
    pub(crate) fn new(rules: BlockRules, spec_id: SpecId) -> Self {
        static AFTER_PRECOMPILE_FORK: LazyLock<Precompiles> = LazyLock::new(|| {
            let mut all = Precompiles::homestead().clone();
            all.extend([
                modexp::BYZANTIUM,
                bn254::add::ISTANBUL,
                bn254::mul::ISTANBUL,
                bn254::pair::ISTANBUL,
            ]);
            all
        });
        let (precompiles, own) = match rules {
            BlockRules::Moac {
                precompiles, nuwa, ..
            } => {
                let ethereum = if precompiles {
                    &*AFTER_PRECOMPILE_FORK
                } else {
                    Precompiles::homestead()
                };
                (ethereum, Some(OwnContractRules { returns_word: nuwa }))
            }
            BlockRules::Ethereum { fork, .. } => {
                let spec = PrecompileSpecId::from_spec_id(fork.spec_id());
                (Precompiles::new(spec), None)
            }
        };
        Self {
            ethereum: EthPrecompiles {
                precompiles,
                spec: spec_id,
            },
            own,
        }
    }

    /// Whether calls may emit notices.
    pub(crate) const fn emit_notices(&self) -> bool {
        self.own.is_some()
    }

    /// The transfer that a call of 0x0c by the system contract asks for; `None` for all other
    /// calls.
    pub(crate) fn delegated_transfer<CTX: ContextTr>(
        &self,
        context: &CTX,
        inputs: &CallInputs,
    ) -> Option<DelegatedTransfer> {
        let by_system_contract = self.own.is_some()
            && inputs.scheme == CallScheme::Call
            && inputs.bytecode_address == DELEGATE_SEND
            && inputs.caller == SYSTEM_CONTRACT;
        by_system_contract.then(|| DelegatedTransfer::decode(&inputs.input.as_bytes(context)))?
    }
}

impl<CTX: ContextTr> PrecompileProvider<CTX> for ChainPrecompiles {
    type Output = InterpreterResult;

    fn set_spec(&mut self, _spec: <CTX::Cfg as revm::context_interface::Cfg>::Spec) -> bool {
        // The contracts are chosen by the block's number, which revm's spec id does not replace.
        false
    }

    fn run(&mut self, context: &mut CTX, inputs: &CallInputs) -> Result<Option<InterpreterResult>, String> {
        let Some(own) = self.own else {
            return self.ethereum.run(context, inputs);
        };
        let outcome = match network::run(context, inputs, own.returns_word) {
            None if inputs.bytecode_address == NOTIFY_SCS => {
                Some(notice::run(context, inputs, own.returns_word))
            }
            outcome => outcome,
        };
        if let Some(outcome) = outcome {
            return Ok(Some(interpreter_result(outcome, inputs.gas_limit)));
        }
        let Some(mut result) = self.ethereum.run(context, inputs)? else {
            return Ok(None);
        };
        if result.result.is_halt() {
            let cost = network::curve_gas(inputs.bytecode_address, inputs.input.len());
            result.gas = gas_after_failure(inputs.gas_limit, result.result, cost);
        }
        Ok(Some(result))
    }

    fn warm_addresses(&self) -> &AddressSet {
        self.ethereum.warm_addresses()
    }

    fn contains(&self, address: &Address) -> bool {
        self.ethereum.contains(address) || (self.own.is_some() && network::is_own(address))
    }
}

/// The result of one of the network's own contracts that was called with `limit` gas.
fn interpreter_result(outcome: PrecompileOutcome, limit: u64) -> InterpreterResult {
    let (end, cost, output) = match outcome {
        PrecompileOutcome::Returned { cost, output } if cost <= limit => {
            (InstructionResult::Return, cost, output)
        }
        PrecompileOutcome::Refused { cost, output } if cost <= limit => {
            (InstructionResult::PrecompileError, cost, output)
        }
        PrecompileOutcome::Returned { cost, .. } | PrecompileOutcome::Refused { cost, .. } => {
            (InstructionResult::PrecompileOOG, cost, Default::default())
        }
    };
    let gas = if end.is_halt() {
        gas_after_failure(limit, end, cost)
    } else {
        let mut gas = Gas::new(limit);
        gas.set_spent(cost);
        gas
    };
    InterpreterResult::new(end, output, gas)
}

/// The gas that a failed contract has left, for callers that get it back: all of it if the gas did
/// not cover the cost, the rest if the contract rejected its input.
fn gas_after_failure(limit: u64, end: InstructionResult, cost: u64) -> Gas {
    let mut gas = Gas::new(limit);
    if end == InstructionResult::PrecompileError {
        gas.set_spent(cost.min(limit));
    }
    gas
}
