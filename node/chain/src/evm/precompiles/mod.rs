//! The contracts that are built in, by family and fork.
//!
//! Ethereum's are revm's. The public network has Ethereum's first four always and four more
//! from its precompile fork on, and six of its own at all times: `network` has those that
//! only charge and answer, `notice` the one that leaves something. Its system contract
//! at 0x65 is ordinary code. Left out: the early BLS12-381 contracts at decimal 60 to 68.
//! Source: facts of the public network, section 4.

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

/// The built-in contracts of one block.
#[derive(Debug)]
pub(crate) struct ChainPrecompiles {
    ethereum: EthPrecompiles,
    /// Which rules the public network's own follow; `None` in Ethereum's family.
    own: Option<OwnContracts>,
}

/// What differs between forks in the public network's own contracts.
#[derive(Clone, Copy, Debug)]
struct OwnContracts {
    /// 0x0d and 0x0e answer a word; before Nuwa they answer nothing.
    answers_words: bool,
}

impl ChainPrecompiles {
    pub(crate) fn new(rules: BlockRules, spec_id: SpecId) -> Self {
        static LATER: LazyLock<Precompiles> = LazyLock::new(|| {
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
                    &*LATER
                } else {
                    Precompiles::homestead()
                };
                (ethereum, Some(OwnContracts { answers_words: nuwa }))
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

    /// Whether calls may leave notices.
    pub(crate) fn leave_notices(&self) -> bool {
        self.own.is_some()
    }

    /// What a call of 0x0c by the system contract moves in place of its own value; `None` for
    /// every other call.
    pub(crate) fn delegated_transfer<CTX: ContextTr>(
        &self,
        context: &CTX,
        inputs: &CallInputs,
    ) -> Option<DelegatedTransfer> {
        let asked = self.own.is_some()
            && inputs.scheme == CallScheme::Call
            && inputs.bytecode_address == DELEGATE_SEND
            && inputs.caller == SYSTEM_CONTRACT;
        asked.then(|| DelegatedTransfer::decode(&inputs.input.as_bytes(context)))?
    }
}

impl<CTX: ContextTr> PrecompileProvider<CTX> for ChainPrecompiles {
    type Output = InterpreterResult;

    fn set_spec(&mut self, _spec: <CTX::Cfg as revm::context_interface::Cfg>::Spec) -> bool {
        // Chosen once by the block's number; no spec of revm's says more.
        false
    }

    fn run(&mut self, context: &mut CTX, inputs: &CallInputs) -> Result<Option<InterpreterResult>, String> {
        let Some(own) = self.own else {
            return self.ethereum.run(context, inputs);
        };
        let ended = match network::run(context, inputs, own.answers_words) {
            None if inputs.bytecode_address == NOTIFY_SCS => {
                Some(notice::run(context, inputs, own.answers_words))
            }
            ended => ended,
        };
        if let Some(ended) = ended {
            return Ok(Some(result(ended, inputs.gas_limit)));
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

/// The result of one of the network's own contracts that was given `limit` gas.
fn result(ended: PrecompileOutcome, limit: u64) -> InterpreterResult {
    let (end, cost, output) = match ended {
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

/// What a failed contract leaves of its gas, where the caller gets that back: all of it where
/// it was too little, the rest where the contract refused its input. Otherwise the caller burns it.
fn gas_after_failure(limit: u64, end: InstructionResult, cost: u64) -> Gas {
    let mut gas = Gas::new(limit);
    if end == InstructionResult::PrecompileError {
        gas.set_spent(cost.min(limit));
    }
    gas
}
