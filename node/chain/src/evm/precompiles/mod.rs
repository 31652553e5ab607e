//! The precompiled contracts, by family and fork.
//!
//! Ethereum's family has those of revm. The public network has Ethereum's first four and six of its
//! own from block 0 on. From its precompile fork on it has Ethereum's next four, but with a pairing
//! that checks less, and nine for the curve BLS12-381. The system contract at 0x65 is ordinary
//! code. Source: docs/base-chain.md, 4.
//!
//! | addresses | module |
//! |---|---|
//! | 1 to 7 | revm |
//! | 8 | `pairing` |
//! | 9 to 12, 14 | `network`: they only charge gas and return data |
//! | 13 | `notice`: it emits a notice |
//! | 60 to 68 | `bls` |

mod bls;
mod network;
mod notice;
mod pairing;

pub(crate) use network::DelegatedTransfer;
pub(crate) use notice::{EmittedNotice, is_listed, list_query, take_notices, withdraw};
pub use notice::{NOTICE_BYTES_MAX, NOTIFY_SCS};

use std::sync::LazyLock;

use primitives::{Address, SYSTEM_CONTRACT, address};
use revm::context_interface::ContextTr;
use revm::handler::{EthPrecompiles, PrecompileProvider};
use revm::interpreter::{CallInputs, CallScheme, Gas, InstructionResult, InterpreterResult};
use revm::precompile::{PrecompileSpecId, Precompiles, bn254, modexp};
use revm::primitives::AddressSet;
use revm::primitives::hardfork::SpecId;

use crate::spec::{BlockRules, ChainSpec, Rule};
use network::{DELEGATE_SEND, PrecompileOutcome};

/// The pairing contract.
const PAIRING: Address = address!("0000000000000000000000000000000000000008");

/// The precompiled contracts of one block.
#[derive(Debug)]
pub(crate) struct ChainPrecompiles {
    ethereum: EthPrecompiles,
    /// The rules of the public network's own contracts; `None` in Ethereum's family.
    own: Option<OwnContractRules>,
}

/// The differences between forks in the public network's own contracts.
#[derive(Clone, Copy, Debug)]
struct OwnContractRules {
    /// See [`ChainSpec::notice_list`].
    notice_list: Option<Address>,
    /// 0x0d and 0x0e return a word. Before Nuwa they return nothing.
    returns_word: bool,
    /// The contracts of the precompile fork exist.
    has_curves: bool,
}

impl ChainPrecompiles {
    pub(crate) fn new(spec: &ChainSpec, rules: BlockRules, spec_id: SpecId) -> Self {
        static AFTER_PRECOMPILE_FORK: LazyLock<Precompiles> = LazyLock::new(|| {
            let mut all = Precompiles::homestead().clone();
            all.extend([modexp::BYZANTIUM, bn254::add::ISTANBUL, bn254::mul::ISTANBUL]);
            all
        });
        let (precompiles, own) = if rules.is_moac() {
            let has_curves = rules.has(Rule::MoacCurves);
            let ethereum = if has_curves {
                &*AFTER_PRECOMPILE_FORK
            } else {
                Precompiles::homestead()
            };
            let own = OwnContractRules {
                notice_list: spec.notice_list,
                returns_word: rules.has(Rule::NoticeWord),
                has_curves,
            };
            (ethereum, Some(own))
        } else {
            let id = PrecompileSpecId::from_spec_id(spec_id);
            (Precompiles::new(id), None)
        };
        Self {
            ethereum: EthPrecompiles {
                precompiles,
                spec: spec_id,
            },
            own,
        }
    }

    /// Runs a contract that revm does not have. Returns `None` for any other address.
    fn run_own<CTX: ContextTr>(
        own: OwnContractRules,
        context: &mut CTX,
        inputs: &CallInputs,
    ) -> Option<PrecompileOutcome> {
        let address = inputs.bytecode_address;
        match address {
            NOTIFY_SCS => Some(notice::run(context, inputs, own.returns_word)),
            PAIRING if own.has_curves => {
                Some(pairing::run(&inputs.input.as_bytes(context), inputs.gas_limit))
            }
            // A plain call asks for the size of the code first, which is 0 here.
            _ if own.has_curves && bls::is_bls(&address) && inputs.scheme != CallScheme::Call => {
                bls::run(&address, &inputs.input.as_bytes(context), inputs.gas_limit)
            }
            _ => network::run(context, inputs, own.returns_word),
        }
    }

    /// Whether the network has a precompiled contract at this address that plain calls run. A plain
    /// call of it creates the account.
    pub(crate) fn creates_account(&self, address: &Address) -> bool {
        self.own.is_some_and(|own| {
            network::is_own(address)
                || self.ethereum.contains(address)
                || (own.has_curves && *address == PAIRING)
        })
    }

    /// Whether there is a precompiled contract at this address.
    pub(crate) fn has(&self, address: &Address) -> bool {
        let is_own = |own: OwnContractRules| {
            network::is_own(address) || (own.has_curves && (*address == PAIRING || bls::is_bls(address)))
        };
        self.ethereum.contains(address) || self.own.is_some_and(is_own)
    }

    /// The name and the address of each contract, in the order of the addresses.
    pub(crate) fn named(&self) -> Vec<(String, Address)> {
        let precompiles = self.ethereum.precompiles;
        let ethereum = precompiles.addresses().filter_map(|address| {
            let name = precompiles.get(address)?.id().name();
            Some((name.to_owned(), *address))
        });
        let mut all: Vec<_> = ethereum.collect();
        let owned = |(name, address): (&str, Address)| (name.to_owned(), address);
        if let Some(own) = self.own {
            all.extend(network::OWN.map(owned));
            if own.has_curves {
                all.push(("BN254_PAIRING".to_owned(), PAIRING));
                all.extend(bls::named().map(owned));
            }
        }
        all.sort_unstable_by_key(|(_, address)| *address);
        all
    }

    /// The contract that decides whether this call of 0x0d may send a notice; `None` for all other
    /// calls, and on chains where all may.
    pub(crate) fn notice_list(&self, inputs: &CallInputs) -> Option<Address> {
        (inputs.bytecode_address == NOTIFY_SCS)
            .then_some(self.own?.notice_list)
            .flatten()
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
        if let Some(outcome) = Self::run_own(own, context, inputs) {
            return Ok(Some(interpreter_result(outcome, inputs.gas_limit)));
        }
        let Some(mut result) = self.ethereum.run(context, inputs)? else {
            return Ok(None);
        };
        if result.result.is_halt() {
            let cost = network::curve_gas(inputs.bytecode_address);
            result.gas = gas_after_failure(inputs.gas_limit, result.result, cost);
        }
        Ok(Some(result))
    }

    fn warm_addresses(&self) -> &AddressSet {
        self.ethereum.warm_addresses()
    }

    fn contains(&self, address: &Address) -> bool {
        self.has(address)
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
