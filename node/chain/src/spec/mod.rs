//! Chain specs: the rules of a network and its block 0, as data.
//!
//! [`crate::rules`] applies the rules of headers, difficulty and rewards, [`crate::evm`] those of
//! gas and opcodes. [`crate::genesis::file`] makes a spec from a genesis file.

pub(crate) mod dao;
mod forks;
mod networks;

pub(crate) use forks::is_active;
pub use forks::{BlockRules, ChainFamily, EthereumFork, EthereumForks, ForkBlock, MoacForks};
pub use networks::{DEV_ACCOUNTS, DEV_DIFFICULTY};

use std::collections::BTreeMap;

use ethash::Schedule;
use primitives::{Address, B256, Bytes, ReceiptForm, TxRules, U256};

/// The smallest gas limit of a block on the built-in networks, and the gas limit of their block 0.
pub const GAS_LIMIT_FLOOR: u64 = 9_000_000;

/// The smallest gas limit of a block on any network.
pub const GAS_LIMIT_MIN: u64 = 5000;

/// The gas limit that miners steer to by default.
pub const GAS_TARGET_DEFAULT: u64 = 18_000_000;

/// An account of block 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenesisAccount {
    /// Balance in sha.
    pub balance: U256,
    /// Account nonce.
    pub tx_nonce: u64,
    /// Contract code.
    pub code: Bytes,
    /// Storage slots that are not zero.
    pub storage: BTreeMap<U256, U256>,
}

/// The content of block 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Genesis {
    /// Difficulty of block 0.
    pub difficulty: U256,
    /// Gas limit of block 0.
    pub gas_limit: u64,
    /// Gas used in the header of block 0. Only test vectors have another value than 0.
    pub gas_used: u64,
    /// Timestamp of block 0.
    pub timestamp: u64,
    /// Extra data of block 0.
    pub extra_data: Bytes,
    /// Beneficiary of block 0.
    pub beneficiary: Address,
    /// Mix hash of block 0.
    pub mix_hash: B256,
    /// Parent hash of block 0. Only test vectors have another value than zero.
    pub parent_hash: B256,
    /// Nonce of block 0's seal.
    pub pow_nonce: u64,
    /// The accounts of block 0.
    pub alloc: BTreeMap<Address, GenesisAccount>,
}

/// How the next block's difficulty is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifficultyRule {
    /// Every block has this difficulty.
    Constant(u64),
    /// The public network's rule: Byzantium's formula with a difficulty bomb of its own.
    Moac,
    /// Ethereum's rule of the active fork.
    Ethereum,
}

/// A network: its identity, its rules, its block 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSpec {
    /// The name, for logs.
    pub name: String,
    /// The id in signatures.
    pub chain_id: u64,
    /// The id in the handshake and in `net_version`.
    pub network_id: u64,
    /// The family and its forks.
    pub family: ChainFamily,
    /// How the difficulty is computed.
    pub difficulty: DifficultyRule,
    /// Touched empty accounts are removed; in Ethereum's family from EIP-158 on.
    pub remove_empty_accounts: bool,
    /// The gas of failed calls goes back to the caller. This is a fault of the public network's
    /// first node that is consensus there. See `evm/refund.rs`.
    pub failed_calls_refund_gas: bool,
    /// Every block begins with the system transaction.
    pub system_contract: bool,
    /// Which blocks belong to which Ethash epoch.
    pub schedule: Schedule,
    /// The smallest gas limit of a block.
    pub gas_limit_min: u64,
    /// The smallest gas price that the pool accepts in transactions of others, in sha.
    pub gas_price_min: U256,
    /// The content of block 0.
    pub genesis: Genesis,
    /// The hash that block 0 must have; `None` if it may have any hash.
    pub genesis_hash: Option<B256>,
}

impl ChainSpec {
    /// The rules that are active at block `number`.
    pub fn rules_at(&self, number: u64) -> BlockRules {
        match &self.family {
            ChainFamily::Moac(forks) => BlockRules::Moac {
                nuwa: forks.nuwa.is_none_or(|first| number >= first),
                fuxi: is_active(forks.fuxi, number),
                precompiles: is_active(forks.precompiles, number),
                classic_transactions: is_active(forks.classic_transactions, number),
            },
            ChainFamily::Ethereum(forks) => BlockRules::Ethereum {
                fork: forks.at(number),
                protected: is_active(forks.eip155, number),
            },
        }
    }

    /// Whether touched empty accounts are removed at block `number`.
    pub fn removes_empty_accounts(&self, number: u64) -> bool {
        self.remove_empty_accounts && self.rules_at(number).removes_empty_accounts()
    }

    /// The name of a fork that is active at block `number` and that this program does not support.
    pub fn unsupported_fork(&self, number: u64) -> Option<&str> {
        match &self.family {
            ChainFamily::Ethereum(EthereumForks {
                unsupported: Some((name, first)),
                ..
            }) if number >= *first => Some(name),
            _ => None,
        }
    }

    /// Whether block `number` makes the irregular state change of the DAO fork.
    pub fn is_dao_fork(&self, number: u64) -> bool {
        matches!(&self.family, ChainFamily::Ethereum(forks) if forks.dao_support && forks.dao == Some(number))
    }

    /// Which forms of transactions blocks contain.
    pub const fn tx_rules(&self) -> TxRules {
        match self.family {
            ChainFamily::Moac(_) => TxRules::Moac,
            ChainFamily::Ethereum(_) => TxRules::Ethereum,
        }
    }

    /// How receipts are encoded under the receipts root.
    pub const fn receipt_form(&self) -> ReceiptForm {
        match self.family {
            ChainFamily::Moac(_) => ReceiptForm::Five,
            ChainFamily::Ethereum(_) => ReceiptForm::Four,
        }
    }
}
